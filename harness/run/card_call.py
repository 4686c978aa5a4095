"""The tensors of one scenario on a real GPU, and execute calls on them.

The host keeps a copy of every tensor. A call sends the copies between guards of a known
pattern, runs, and brings everything back, so that whatever was written where it must
not be is seen; what was read where it must not be is not.
"""

from __future__ import annotations

import copy
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
from sidestream.harness.cuda.memory import contiguous
from sidestream.harness.cuda.virtual_cuda import VirtualCuda
from sidestream.harness.drivers.protocol import Prepared, Results
from sidestream.harness.errors import SidestreamError, UnsupportedError
from sidestream.harness.exec.machine import Options
from sidestream.harness.finding import Incomplete
from sidestream.harness.launch import Launch
from sidestream.harness.run.card_arena import SCRATCH, Arena
from sidestream.harness.run.card_world import CardWorld
from sidestream.harness.run.phases import Phases
from sidestream.harness.run.virtual_call import OUTPUTS, VirtualCall
from sidestream.harness.runtime import Span
from sidestream.scenarios.case import CaseInputs, declared_lengths
from sidestream.scenarios.scenario import Scenario

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
    def arena(self) -> Arena:
        """The memory on the card, made when it is first asked for."""
        if self._arena is None:
            sizes = {name: home.size for name, home in self._own.items()}
            sizes[SCRATCH] = self.workspace_bytes
            self._arena = Arena(sizes, self._card.device)
        return self._arena

    def on(self, world: CardWorld) -> CardCall:
        """Return calls on another stream, with the same memory."""
        made = copy.copy(self)
        made._card, made.world = world, cast(VirtualCuda, world)
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

    def lent(self) -> tuple[Span, ...]:
        """Return the bytes on the card of everything that a call is lent."""
        first = self.arena.there.data_ptr()
        parts = [self.arena.part(name) for name in (*self._own, SCRATCH)]
        return tuple(Span(first + p.start, p.stop - p.start) for p in parts)

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
            self.arena.put(home.name, home.data)
        self.arena.load()
        self._card.wait()

    def _guarded(
        self, prepared: Prepared, launches: list[Launch], log: HostLog | None = None
    ) -> tuple[Results | None, str | None, list[Incomplete]]:
        """Make a call and wait for the device; return results, error, reasons."""
        error, incomplete, results = None, [], None
        try:
            began = time.perf_counter()
            results = self._run(prepared, launches, log)
            self.host_seconds = time.perf_counter() - began
            self._card.wait()
        except UnsupportedError as raised:
            incomplete.append(Incomplete(reason=str(raised)))
        except (SidestreamError, ValueError) as raised:
            error = f"{type(raised).__name__}: {raised}"
        except RuntimeError as raised:
            # What the card complains about comes when it is waited for.
            error = _told(raised)
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

    def start_on_stalled(
        self, prepared: Prepared, *, label: str, pattern: str, stall: int
    ) -> Started:
        """Make a call on its own stream, which is stalled before its inputs arrive.

        What the call puts elsewhere finds zeros.
        """
        self.load(pattern)
        late = self.arena.there.clone()
        self.arena.there.zero_()
        self._card.wait()
        stream = self._card.stream
        with self._card.on(stream):
            self._card.stall(stall)
            self.arena.there.copy_(late)
        launches: list[Launch] = []

        def call() -> Results:
            return self._run(prepared, launches)

        return self._snapped(call, label, launches)

    def start_beside_stalled(
        self, prepared: Prepared, *, label: str, pattern: str, stall: int
    ) -> Started:
        """Make a call on its own stream while another, stalled one is current.

        What the call puts on the current stream comes after its results were taken, if
        the host is quick.
        """
        self.load(pattern)
        ambient = self._card.another_stream()
        launches: list[Launch] = []

        def call() -> Results:
            with self._card.on(ambient):
                self._card.stall(stall)
                return self._run(prepared, launches)

        return self._snapped(call, label, launches)

    def _snapped(
        self, call: Callable[[], Results], label: str, launches: list[Launch]
    ) -> Started:
        """Make a call and take its results on its own stream."""
        error, results, done = "", None, False
        began = time.perf_counter()
        try:
            made = call()
            done = bool(self._card.stream.query())
            with self._card.on(self._card.stream):
                lse = made.lse.clone() if made.lse is not None else None
                results = Results(out=made.out.clone(), lse=lse, returned=made.returned)
        except (SidestreamError, ValueError, RuntimeError) as raised:
            error = _told(raised)
        spent = time.perf_counter() - began

        def finish() -> Execution:
            failed = error
            try:
                if not failed:
                    self._card.wait()
            except RuntimeError as raised:
                failed = _told(raised)
            return self._seen(label, results, failed or None, [], launches)

        return Started(done=done, seconds=spent, finish=finish)

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

        return self._snapped(call, label, []).finish()

    @contextmanager
    def other_lengths(self, other: Scenario) -> Iterator[None]:
        """Let calls inside find the lengths of another scenario."""
        before = {}
        for name, value in zip(
            ("lengths_q", "lengths_kv"), declared_lengths(other), strict=True
        ):
            home = self._own[name]
            before[name] = home.data.copy()
            home.data[:] = value.view(np.uint8).reshape(-1)
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
            changes = self.arena.changes()
            for name, flags in changes.written.items():
                if not (results.returned and name in OUTPUTS):
                    written[name] = flags
            for name, offset in changes.guards.items():
                self._broken.setdefault(name, offset)
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
class Started:
    """A call that may still run on the card.

    Attributes:
        done: Whether its stream was done when the call returned: the host has waited.
        seconds: What the host needed until its results were taken.
        finish: Waits for the card; to be called before the next call.
    """

    done: bool
    seconds: float
    finish: Callable[[], Execution]

    def late(self, cycles: int) -> bool:
        """Whether the host needed half as long as a stall of some cycles, or more."""
        return 2 * self.seconds >= cycles / CLOCK


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """A captured call: what replays it, and the tensors that a replay writes."""

    replay: Callable[[], None]
    results: Results


def _no_block(call: str, stream: int) -> None:
    """Nobody asked about waits."""


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def _host_bits(tensor: torch.Tensor, dtype: torch.dtype) -> NDArray[Any]:
    bits: NDArray[Any] = tensor.detach().contiguous().view(dtype).cpu().numpy()
    return bits.copy()
