"""Kernel launches as operations of a runtime's streams: executed when they land."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field

from sidestream.harness.cuda.memory import Allocation, AllocationTable
from sidestream.harness.device.in_order import InOrder
from sidestream.harness.device.outcome import Outcome
from sidestream.harness.exec.machine import Options
from sidestream.harness.footprint.footprint import Footprint, Range
from sidestream.harness.launch import Launch
from sidestream.harness.run.launch_contracts import Contracts
from sidestream.harness.runtime import Effects, Runtime, Span, Stream, here

Place = tuple[int, int, str]
"""Address, bytes and name of memory that a launch may use."""


@dataclass(kw_only=True)
class StreamLaunches:
    """Puts launches on the streams of a runtime; what the capture calls.

    A launch sees the memory that was allocated when it was called, and is held
    against other operations by the bytes that it really reads and writes. One with the
    attribute for programmatic serialization that comes right behind another launch of
    its stream, with no change of their memory in between, is executed with that one
    again, overlapping (see `InOrder`).

    Attributes:
        runtime: Streams and memory.
        options: Called for the way to execute a launch.
        device: Called for the current device.
        profile: Under which to look for races inside launches, or None not to.
        contracts: What data kernels were launched for.
    """

    runtime: Runtime
    options: Callable[[], Options]
    device: Callable[[], int] = lambda: 0
    profile: str | None = None
    contracts: Contracts = field(init=False)
    _past: list[Outcome] = field(default_factory=list)
    _table: AllocationTable = field(default_factory=AllocationTable)
    _covered: dict[Place, Allocation] = field(default_factory=dict)
    _order: InOrder | None = None
    _called: dict[Stream, tuple[Hashable, object]] = field(default_factory=dict)
    """By stream, where it stood behind its last launch, and which launch that was."""
    _landed: object = None

    def __post_init__(self) -> None:
        self.contracts = Contracts(
            lambda address: self.runtime.format_at(address, device=self.device()),
            self.runtime.device_at,
        )

    @property
    def outcomes(self) -> list[Outcome]:
        """What each launch that landed showed, in the order of landing."""
        return [*self._past, *(self._order.outcomes if self._order else ())]

    def __call__(self, launch: Launch) -> None:
        """Put a launch on the stream of its handle.

        Raises:
            CudaError: cudaErrorInvalidResourceHandle for a handle nobody made, or one
                of another device; what a capture forbids.
        """
        runtime, device = self.runtime, self.device()
        memory = runtime.memory(device)
        stream = runtime.stream(launch.stream, device=device)
        position, before = self._called.get(stream, (None, None))
        if position != runtime.position(stream):
            before = None  # something else came in between
        own, site = object(), here()
        self.contracts.note(launch, site, device=device)

        def run() -> Effects:
            follows = before is not None and before is self._landed
            self._landed = own
            return self._run(launch, memory, follows=follows and launch.pdl)

        runtime.enqueue(
            kind="launch",
            label=launch.kernel,
            stream=stream,
            run=run,
            site=site,
            device=device,
        )
        self._called[stream] = runtime.position(stream), own

    def close(self) -> None:
        """Let go of what dependent launches would need."""
        if self._order is not None:
            self._past += self._order.outcomes
            self._order.__exit__(None, None, None)
            self._order = None
        self._cover(())

    def _run(
        self, launch: Launch, memory: Iterable[Place], *, follows: bool
    ) -> Effects:
        if not follows:
            self.close()
        self._cover(memory)
        if self._order is None:
            self._order = InOrder(
                table=self._table, profile=self.profile, watch=Footprint
            )
        self._order.run(launch, self.options())
        outcome, seen = self._order.outcomes[-1], self._order.seen
        reasons = [entry.reason for entry in outcome.incomplete]
        if not isinstance(seen, Footprint):  # it could not be executed
            return Effects(incomplete=tuple(reasons))
        if seen.lost:
            reasons.append(f"{seen.lost} accesses could not be kept")
        return Effects(
            reads=_inside(seen.reads, self._table),
            writes=_inside(seen.writes, self._table),
            incomplete=tuple(reasons),
        )

    def _cover(self, memory: Iterable[Place]) -> None:
        """Let the table hold just some memory; what it holds already stays."""
        wanted = dict.fromkeys(memory)
        for place in [p for p in self._covered if p not in wanted]:
            self._table.uncover(self._covered.pop(place))
        for place in wanted:
            if place not in self._covered:
                address, size, name = place
                self._covered[place] = self._table.cover(
                    va=address, size=size, name=name
                )


def _inside(ranges: Iterable[Range], table: AllocationTable) -> tuple[Span, ...]:
    """Return ranges as spans, without what lies in no allocation: that is a fault."""
    spans = []
    for start, end in ranges:
        at = start
        while at < end:
            home: Allocation | None = table.at(at)
            if home is None:
                break
            stop = min(end, home.end)
            spans.append(Span(at, stop - at))
            at = stop
    return tuple(spans)
