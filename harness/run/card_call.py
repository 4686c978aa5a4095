"""The tensors of one scenario on a real GPU, and execute calls on them.

The host keeps a copy of every tensor. A call starts from these copies between guards
of a known pattern, runs, and is compared with them afterwards, so that whatever was
written where it must not be is seen; what was read where it must not be is not.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from sidestream.harness.checks.observation import Execution, LaunchSeen
from sidestream.harness.cuda.card_log import CardLog
from sidestream.harness.cuda.host_sync import HostLog
from sidestream.harness.cuda.memory import contiguous
from sidestream.harness.cuda.virtual_cuda import VirtualCuda
from sidestream.harness.drivers.protocol import Prepared, Results
from sidestream.harness.errors import SidestreamError, UnsupportedError
from sidestream.harness.exec.machine import Options
from sidestream.harness.finding import Incomplete
from sidestream.harness.launch import Launch
from sidestream.harness.run.card_arena import SCRATCH, Arena, Changes
from sidestream.harness.run.card_fault import UnderWay
from sidestream.harness.run.card_world import CardWorld
from sidestream.harness.run.phases import Phases
from sidestream.harness.run.virtual_call import OUTPUTS, VirtualCall
from sidestream.harness.runtime import Span
from sidestream.reference import narrow
from sidestream.scenarios.case import CaseInputs
from sidestream.scenarios.fill import scratch_bytes


class CardCall(VirtualCall):
    """As `VirtualCall`, on a card; launches are seen from outside only.

    Args:
        world: The card.
        inputs: The scenario's tensors.
        workspace_bytes: Scratch that the implementation asks for.
        phases: Where time is counted.
        doing: Is told of every call, and of what the card complains about.
    """

    def __init__(
        self,
        world: CardWorld,
        inputs: CaseInputs,
        *,
        workspace_bytes: int,
        phases: Phases,
        doing: UnderWay | None = None,
    ) -> None:
        self.card = world
        self.doing = doing or UnderWay()
        self._arena: Arena | None = None
        self.host_seconds = 0.0
        """What the host needed for the last call that nobody watched, or any."""
        self._broken: dict[str, int] = {}
        super().__init__(
            cast(VirtualCuda, world),  # the part of it that a call uses
            inputs,
            workspace_bytes=workspace_bytes,
            phases=phases,
        )

    @property
    def inputs(self) -> CaseInputs:
        """The scenario's tensors."""
        return self._inputs

    @property
    def arena(self) -> Arena:
        """The memory on the card, made when it is first asked for."""
        if self._arena is None:
            data = {name: home.data for name, home in self._own.items()}
            data[SCRATCH] = self.scratch_of(self._inputs.scenario.scratch)
            self._arena = Arena(data, self.card.device)
        return self._arena

    def on(self, world: CardWorld) -> CardCall:
        """Return calls on another stream, with the same memory."""
        made = copy.copy(self)
        made.card, made.world = world, cast(VirtualCuda, world)
        return made

    def _tensor(
        self,
        name: str,
        dtype: torch.dtype,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        *,
        offset: int = 0,
    ) -> torch.Tensor:
        part = self.arena.part(name)
        whole = self.arena.there.view(dtype)
        steps = strides if strides is not None else contiguous(shape)
        start = part.start // dtype.itemsize + offset
        return whole.as_strided(tuple(shape), tuple(steps), start)

    def scratch(self) -> torch.Tensor:
        """Return the workspace as bytes."""
        return self.arena.there[self.arena.part(SCRATCH)]

    def scratch_of(self, pattern: str) -> NDArray[np.uint8]:
        """Return what the workspace holds before a call with a pattern."""
        seed = self._inputs.scenario.seed
        return scratch_bytes(pattern, self.workspace_bytes, seed=seed)

    def lent(self) -> tuple[Span, ...]:
        """Return the bytes on the card of everything that a call is lent."""
        first = self.arena.there.data_ptr()
        parts = [self.arena.part(name) for name in (*self._own, SCRATCH)]
        return tuple(Span(first + p.start, p.stop - p.start) for p in parts)

    @contextmanager
    def flipped(self, sequences: frozenset[int]) -> Iterator[None]:
        """Turn the sign of every Q and V of some sequences inside."""
        slabs = {self._inputs.q.slab, self._inputs.v.slab}
        with super().flipped(sequences):
            self._put(slabs)
            yield
        self._put(slabs)

    def _put(self, names: set[str]) -> None:
        for name in names:
            self.arena.put(name, self._own[name].data)

    def execute(
        self,
        prepared: Prepared,
        *,
        label: str,
        pattern: str,
        options: Callable[[], Options],
        log: HostLog | None = None,
        record: Path | None = None,
        progress: Callable[[int], None] | None = None,
        profile: str | None = None,
    ) -> Execution:
        """Make one call and wait for it; schedule and budget are the card's own."""
        self.load(pattern)
        launches: list[Launch] = []
        self.doing.begin(label, launches)
        with self._phases.timed("execute", label):
            results, error, incomplete = self._guarded(prepared, launches, log)
        return self.seen(
            label,
            results,
            error=error,
            incomplete=incomplete,
            launches=launches,
        )

    def load(self, pattern: str) -> None:
        """Put every tensor as a call finds it, and wait for that."""
        self.arena.put(SCRATCH, self.scratch_of(pattern))
        self.arena.load()
        self.card.wait()

    def _guarded(
        self, prepared: Prepared, launches: list[Launch], log: HostLog | None = None
    ) -> tuple[Results | None, str | None, list[Incomplete]]:
        """Make a call and wait for the device; return results, error, reasons."""
        error, incomplete, results = None, [], None
        try:
            began = time.perf_counter()
            results = self.run(prepared, launches, log)
            self.host_seconds = time.perf_counter() - began
            self.card.wait()
        except UnsupportedError as raised:
            incomplete.append(Incomplete(reason=str(raised)))
        except (SidestreamError, ValueError) as raised:
            error = f"{type(raised).__name__}: {raised}"
        except RuntimeError as raised:
            # What the card complains about comes when it is waited for.
            error = self.doing.raised(raised)
        return results, error, incomplete

    def run(
        self,
        prepared: Prepared,
        launches: list[Launch] | None = None,
        log: HostLog | None = None,
    ) -> Results:
        """Make a call on what the tensors hold; wait for nothing.

        Args:
            prepared: What is called.
            launches: Gets what CuTe DSL launches in it.
            log: Watches the host.
        """

        def launched(launch: Launch) -> None:
            if launches is not None:
                launches.append(launch)
            if isinstance(log, CardLog):
                log.launched(launch)

        dsl = self.card.dsl
        if launches is None and log is None:  # nobody has to be told of launches
            return prepared.execute(self.tensors, self.scratch())
        with ExitStack() as stack:
            if dsl is not None:
                block = log.block if log is not None else _no_block
                stack.enter_context(dsl.watched(launched, block))
            if log is not None:
                stack.enter_context(log)
            return prepared.execute(self.tensors, self.scratch())

    def seen(
        self,
        label: str,
        results: Results | None,
        *,
        error: str | None = None,
        incomplete: Sequence[Incomplete] = (),
        launches: Sequence[Launch] = (),
        state: torch.Tensor | None = None,
    ) -> Execution:
        """Bring home what a call left behind, which the card has finished.

        Args:
            label: Of the execution.
            results: What the call returned, or None if it did not.
            error: What it raised, or None.
            incomplete: Why it cannot be judged.
            launches: What it launched.
            state: Copy of the arena behind it, if another call has begun since.
        """
        scenario = self._inputs.scenario
        shape = (scenario.capacity_q, scenario.heads_q)
        bits = np.dtype(narrow.by_name(scenario.output_dtype).bits_type)
        out, amax = np.zeros((*shape, scenario.width_v), bits), None
        lse = np.zeros(shape, np.float32) if self._inputs.lse is not None else None
        written = {}
        if results is not None and error is None:
            changes = self.arena.changes(state)
            out = self._result(results.out, bits, changes)
            if results.amax is not None:
                amax = self._result(results.amax, np.dtype(np.float32), changes)
            if lse is not None and results.lse is not None:
                lse = self._result(results.lse, np.dtype(np.float32), changes)
            for name, flags in changes.written.items():
                if not (results.returned and name in OUTPUTS):
                    written[name] = flags
            for name, offset in changes.guards.items():
                self._broken.setdefault(name, offset)
        return Execution(
            label=label,
            out=out,
            lse=lse,
            amax=amax,
            written=written,
            incomplete=tuple(incomplete),
            finished=results is not None and error is None,
            launches=tuple(
                LaunchSeen(kernel=one.kernel, stream=one.stream) for one in launches
            ),
            error=error,
        )

    def _result(
        self, tensor: torch.Tensor, dtype: np.dtype[Any], changes: Changes
    ) -> NDArray[Any]:
        at = self.arena.offset(tensor)
        if at is None:
            same = getattr(torch, dtype.name)
            bits: NDArray[Any] = tensor.detach().contiguous().view(same).cpu().numpy()
            return bits.copy()
        return changes.bits(
            dtype, shape=tuple(tensor.shape), strides=tensor.stride(), at=at
        )

    def broken_guards(self) -> list[tuple[str, int]]:
        """Tensors whose guards were written, with the byte offset of the first."""
        return sorted(self._broken.items())


def _no_block(call: str, stream: int) -> None:
    """Nobody asked about waits."""
