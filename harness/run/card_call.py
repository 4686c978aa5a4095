"""The tensors of one scenario on a real GPU, and execute calls on them.

The host keeps a copy of every tensor. A call sends the copies between guards of a known
pattern, runs, and brings everything back, so that whatever was written where it must
not be is seen; what was read where it must not be is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from sidestream.harness.checks.observation import Execution, LaunchSeen
from sidestream.harness.cuda.card_log import CardLog
from sidestream.harness.cuda.host_sync import HostLog
from sidestream.harness.cuda.memory import Allocation, contiguous
from sidestream.harness.cuda.virtual_cuda import VirtualCuda
from sidestream.harness.drivers.protocol import Prepared, Results
from sidestream.harness.errors import SidestreamError, UnsupportedError
from sidestream.harness.exec.machine import Options
from sidestream.harness.finding import Incomplete
from sidestream.harness.launch import Launch
from sidestream.harness.run.card_world import GUARD, GUARD_BYTE, CardWorld
from sidestream.harness.run.phases import Phases
from sidestream.harness.run.virtual_call import OUTPUTS, VirtualCall
from sidestream.harness.runtime import Span
from sidestream.scenarios.case import CaseInputs

CLOCK = 2e9
"""Cycles a second that no card passes: a stall takes at least as long."""


class CardCall(VirtualCall):
    """As `VirtualCall`, on a card; launches are seen from outside only.

    Args:
        world: The card.
        inputs: The scenario's tensors.
        workspace_bytes: Scratch that the implementation asks for.
        phases: Where time is counted.
    """

    def __init__(
        self,
        world: CardWorld,
        inputs: CaseInputs,
        *,
        workspace_bytes: int,
        phases: Phases,
    ) -> None:
        self._card = world
        self._there: dict[str, torch.Tensor] = {}
        self._broken: dict[str, int] = {}
        self._taken = 0.0
        super().__init__(
            cast(VirtualCuda, world),  # the part of it that a call uses
            inputs,
            workspace_bytes=workspace_bytes,
            phases=phases,
        )

    def _buffer(self, name: str, size: int) -> torch.Tensor:
        """Return the device bytes of a tensor with its guards."""
        if name not in self._there:
            self._there[name] = torch.empty(
                size + 2 * GUARD, dtype=torch.uint8, device=self._card.device
            )
        return self._there[name]

    def _tensor(
        self,
        name: str,
        dtype: torch.dtype,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        *,
        offset: int = 0,
    ) -> torch.Tensor:
        size = self._own[name].size
        whole = self._buffer(name, size)[GUARD : GUARD + size].view(dtype)
        steps = strides if strides is not None else contiguous(shape)
        start = GUARD // dtype.itemsize + offset
        return whole.as_strided(tuple(shape), tuple(steps), start)

    def scratch(self) -> torch.Tensor:
        """Return the workspace as bytes."""
        size = self.workspace_bytes
        return self._buffer("workspace", size)[GUARD : GUARD + size]

    def lent(self) -> tuple[Span, ...]:
        """Return the bytes on the card of everything that a call is lent."""
        sizes = {name: home.size for name, home in self._own.items()}
        sizes["workspace"] = self.workspace_bytes
        return tuple(
            Span(self._buffer(name, size).data_ptr() + GUARD, size)
            for name, size in sizes.items()
        )

    def _send(self, home: Allocation) -> None:
        guarded = np.full(home.size + 2 * GUARD, GUARD_BYTE, np.uint8)
        guarded[GUARD : GUARD + home.size] = home.data
        self._buffer(home.name, home.size).copy_(torch.from_numpy(guarded))

    def _fetch(self, home: Allocation) -> NDArray[np.uint8]:
        back = self._buffer(home.name, home.size).cpu().numpy()
        outside = np.flatnonzero(back != GUARD_BYTE) - GUARD
        outside = outside[(outside < 0) | (outside >= home.size)]
        if len(outside):
            self._broken.setdefault(home.name, int(outside[0]))
        return np.array(back[GUARD : GUARD + home.size])

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
        with self._phases.timed("execute", label):
            results, error, incomplete = self._guarded(prepared, launches, log)
        return self._seen(label, results, error, incomplete, launches)

    def load(self, pattern: str) -> None:
        """Send every tensor as a call finds it, and wait for that."""
        self.reset(pattern)
        for home in (*self._own.values(), self._workspace):
            self._send(home)
        self._card.wait()

    def _guarded(
        self, prepared: Prepared, launches: list[Launch], log: HostLog | None = None
    ) -> tuple[Results | None, str | None, list[Incomplete]]:
        """Make a call and wait for the device; return results, error, reasons."""
        error, incomplete, results = None, [], None
        try:
            results = self._run(prepared, launches, log)
            self._card.wait()
        except UnsupportedError as raised:
            incomplete.append(Incomplete(reason=str(raised)))
        except (SidestreamError, ValueError) as raised:
            error = f"{type(raised).__name__}: {raised}"
        except RuntimeError as raised:
            # What the card complains about comes when it is waited for.
            first = str(raised).splitlines()[0]
            error = f"{type(raised).__name__}: {first}"
        return results, error, incomplete

    def _run(
        self,
        prepared: Prepared,
        launches: list[Launch] | None = None,
        log: HostLog | None = None,
    ) -> Results:
        """Make a call; `launches` gets what CuTe DSL launches in it."""

        def launched(launch: Launch) -> None:
            if launches is not None:
                launches.append(launch)
            if isinstance(log, CardLog):
                log.launched(launch)

        dsl = self._card.dsl
        with ExitStack() as stack:
            if dsl is not None:
                block = log.block if log is not None else _no_block
                stack.enter_context(dsl.watched(launched, block))
            if log is not None:
                stack.enter_context(log)
            return prepared.execute(self.tensors, self.scratch())

    def execute_on_stalled(
        self, prepared: Prepared, *, label: str, pattern: str, stall: int
    ) -> tuple[Execution, bool]:
        """Make a call on its own stream, which is stalled before its inputs arrive.

        What the call puts elsewhere finds zeros. The second result says whether the
        stream was done already when the call returned: the host has waited for it.
        """
        self.load(pattern)
        late = {name: there.clone() for name, there in self._there.items()}
        for name in (*self._own, "workspace"):
            self._there[name].zero_()
        self._card.wait()
        stream = self._card.stream
        with self._card.on(stream):
            self._card.stall(stall)
            for name, value in late.items():
                self._there[name].copy_(value)
        launches: list[Launch] = []

        def call() -> Results:
            return self._run(prepared, launches)

        seen, done = self._snapped(call, label, launches)
        return seen, done

    def execute_beside_stalled(
        self, prepared: Prepared, *, label: str, pattern: str, stall: int
    ) -> tuple[Execution, float]:
        """Make a call on its own stream while another, stalled one is current.

        What the call puts on the current stream comes after its results were taken, if
        the host is quick: the second result is the seconds that it needed.
        """
        self.load(pattern)
        ambient = self._card.another_stream()
        launches: list[Launch] = []

        def call() -> Results:
            with self._card.on(ambient):
                self._card.stall(stall)
                return self._run(prepared, launches)

        began = time.perf_counter()
        made = self._snapped(call, label, launches)[0]
        return made, self._taken - began

    def _snapped(
        self, call: Callable[[], Results], label: str, launches: list[Launch]
    ) -> tuple[Execution, bool]:
        """Make a call, take its results on its own stream, then wait for the card."""
        error, results, done = None, None, False
        try:
            made = call()
            done = bool(self._card.stream.query())
            with self._card.on(self._card.stream):
                lse = made.lse.clone() if made.lse is not None else None
                results = Results(out=made.out.clone(), lse=lse, returned=made.returned)
            self._taken = time.perf_counter()
            self._card.wait()
        except (SidestreamError, ValueError, RuntimeError) as raised:
            first = str(raised).splitlines()[0]
            error = f"{type(raised).__name__}: {first}"
        return self._seen(label, results, error, [], launches), done

    def capture(self, prepared: Prepared, *, pattern: str) -> Replayed:
        """Capture a call on the call's stream, which must not be the default one.

        Raises:
            RuntimeError: the call cannot be captured; the message says why.
        """
        self.load(pattern)
        replay, results = self._card.capture(lambda: self._run(prepared))
        return Replayed(replay=replay, results=results)

    def replay(self, captured: Replayed, *, label: str, pattern: str) -> Execution:
        """Replay a captured call on what the tensors hold now."""
        self.load(pattern)

        def call() -> Results:
            captured.replay()
            return captured.results

        return self._snapped(call, label, [])[0]

    @contextmanager
    def other_lengths(self, other: CaseInputs) -> Iterator[None]:
        """Let calls inside find the lengths of another scenario."""
        before = {}
        for name in ("lengths_q", "lengths_kv"):
            home = self._own[name]
            before[name] = home.data.copy()
            home.data[:] = getattr(other, name).view(np.uint8).reshape(-1)
        try:
            yield
        finally:
            for name, data in before.items():
                self._own[name].data[:] = data

    def _seen(
        self,
        label: str,
        results: Results | None,
        error: str | None,
        incomplete: list[Incomplete],
        launches: Sequence[Launch] = (),
    ) -> Execution:
        scenario = self._inputs.scenario
        shape = (scenario.capacity_q, scenario.heads_q)
        out = np.zeros((*shape, scenario.width_v), np.uint16)
        lse = np.zeros(shape, np.float32) if self._inputs.lse is not None else None
        written = {}
        if results is not None and error is None:
            out = _host_bits(results.out, torch.uint16)
            if lse is not None and results.lse is not None:
                lse = _host_bits(results.lse, torch.float32)
            for name, home in self._own.items():
                if results.returned and name in OUTPUTS:
                    continue
                written[name] = self._fetch(home) != home.data
            self._fetch(self._workspace)
        return Execution(
            label=label,
            out=out,
            lse=lse,
            written=written,
            incomplete=tuple(incomplete),
            finished=results is not None and error is None,
            launches=tuple(
                LaunchSeen(kernel=one.kernel, stream=one.stream) for one in launches
            ),
            error=error,
        )

    def broken_guards(self) -> list[tuple[str, int]]:
        """Tensors whose guards were written, with the byte offset of the first."""
        return sorted(self._broken.items())


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """A captured call: what replays it, and the tensors that a replay writes."""

    replay: Callable[[], None]
    results: Results


def _no_block(call: str, stream: int) -> None:
    """Nobody asked about waits."""


def _host_bits(tensor: torch.Tensor, dtype: torch.dtype) -> NDArray[Any]:
    bits: NDArray[Any] = tensor.detach().contiguous().view(dtype).cpu().numpy()
    return bits.copy()
