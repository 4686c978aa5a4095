"""Happens-before of one execute call on a card: torch operations, copies, launches.

A card does not tell who accesses what, and it need not as long as everything that may
touch a launch's memory is ordered with it. So a launch counts as touching all memory
at first; only where something is not ordered with it do the bytes that it really
touches have to be known, and `touched` is asked for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from sidestream.harness.cuda.card_access import access_of
from sidestream.harness.cuda.card_edges import EDGES, CardStreams
from sidestream.harness.cuda.card_operators import Operators, Touched, touched
from sidestream.harness.cuda.driver_audit import DriverCall
from sidestream.harness.finding import Finding
from sidestream.harness.launch import Launch
from sidestream.harness.runtime import (
    CallSite,
    Effects,
    Landing,
    Runtime,
    Span,
    here,
)
from sidestream.harness.runtime import races as host_races

_ANY = Span(1 << 62, 1)
"""Stands for memory that a launch may touch, as long as nobody says which it does."""
_CALLER = CallSite()


@dataclass(kw_only=True)
class CardOrder:
    """Takes note of what one execute call does, and of what orders it.

    The caller's tensors count as written on the call's stream before it, and as read
    and written there afterwards.

    Attributes:
        stream: Handle of the call's stream.
        lent: Bytes of the tensors and the scratch that the caller lends.
        current: Returns the handle of torch's current stream.
        blocking: Tells whether the stream of a handle is a blocking one.
        on_card: Tells whether a tensor lies on the card.
        touched: Called at a launch, before it is made; returns the bytes that it will
            touch. Absent, a launch counts as touching everything.
        watched: Whether a call was watched to its end.
    """

    stream: int
    lent: tuple[Span, ...]
    current: Callable[[], int]
    blocking: Callable[[int], bool] = lambda handle: False
    on_card: Callable[[torch.Tensor], bool] = lambda tensor: True
    touched: Callable[[Launch], Effects] | None = None
    watched: bool = False
    _runtime: Runtime = field(
        default_factory=lambda: Runtime(landing=Landing(policy="eager"))
    )
    _streams: CardStreams = field(init=False)
    _told: Counter[str] = field(default_factory=Counter)
    _reasons: dict[str, None] = field(default_factory=dict)
    _late: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    _inside: int = 0
    _launches: int = 0
    _operations: int = 0
    _pinned: dict[str, None] = field(default_factory=dict)
    _away: bool = False

    def __post_init__(self) -> None:
        self._streams = CardStreams(runtime=self._runtime, blocking=self.blocking)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch one call, which is made inside; its driver calls go to `called`."""
        self._put("copy", "the caller's inputs", self.stream, (), self.lent, _CALLER)
        with Operators(self.operator):
            yield
        self._put(
            "copy", "the caller's next use", self.stream, self.lent, self.lent, _CALLER
        )
        self.watched = True

    def launched(self, launch: Launch) -> None:
        """Take note of a launch of CuTe DSL, which is about to be made."""
        self._told[launch.kernel] += 1
        self._launches += 1
        effects, site = None, here()
        if self.touched is not None:
            self._away = True
            try:
                effects = self.touched(launch)
            finally:
                self._away = False
        self._put_launch(launch.kernel, launch.stream, effects, site)

    def called(self, call: DriverCall) -> None:
        """Take note of a call of the driver, at its start and its end."""
        if self._away:
            return
        if call.name in EDGES:
            if call.returning and not call.status:
                words = call.words(EDGES[call.name]) if EDGES[call.name] else ()
                if self._inside:  # after the operator that it belongs to
                    self._late.append((call.name, words))
                else:
                    self._streams.order(call.name, words)
        elif not call.returning and not self._inside:
            self._work(call)

    def operator(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Carry out an operator of torch and take note of it."""
        if self._away:
            return func(*args, **kwargs)
        site, stream, launches = here(), self.current(), self._launches
        self._inside += 1
        try:
            result = func(*args, **kwargs)
        finally:
            self._inside -= 1
        # One that launched what was told of already is made of that.
        if launches == self._launches:
            done = touched(func, args, kwargs, result, self.on_card)
            if done is not None:
                self._note(done, stream, site)
        if not self._inside:
            late, self._late = self._late, []
            for name, words in late:
                self._streams.order(name, words)
        return result

    def findings(self) -> tuple[Finding, ...]:
        """Return the races between accesses that are known."""
        found = self._runtime.races()
        return tuple(host_races.finding(r) for r in found if r.span != _ANY)

    def unknown(self) -> tuple[str, ...]:
        """Say what is not ordered and may touch the same memory or not."""
        pairs = [r for r in self._runtime.races() if r.span == _ANY]
        if not pairs:
            return ()
        one, two = pairs[0].first, pairs[0].second
        said = (
            f"nothing orders {one.label} on {one.where} and {two.label} on "
            f"{two.where}, and what they touch is not known"
        )
        return (": ".join((said, *self._reasons)),)

    def unfollowed(self) -> tuple[str, ...]:
        """Say what the host may do meanwhile, which a card does not tell."""
        if not self._pinned:
            return ()
        return (
            f"{', '.join(self._pinned)}: what the host does with pinned memory while "
            "a copy is under way is not followed on a card; --device vgpu follows it",
        )

    def summary(self) -> str:
        """Say what was looked at."""
        handles = ", ".join(f"{handle:#x}" for handle in self._streams.handles)
        return f"{self._operations} operations on stream {handles}"

    def _put(
        self,
        kind: str,
        label: str,
        stream: int,
        reads: tuple[Span, ...],
        writes: tuple[Span, ...],
        site: CallSite,
    ) -> None:
        """Take note of an operation whose accesses are known."""
        self._operations += kind != "launch"
        self._runtime.enqueue(
            kind=kind,
            label=label,
            stream=self._streams.stream(stream),
            reads=(*reads, _ANY),
            writes=writes,
            site=site,
        )

    def _put_launch(
        self, label: str, stream: int, effects: Effects | None, site: CallSite
    ) -> None:
        """Take note of what may touch anything, unless `effects` says otherwise."""
        self._operations += 1
        if effects is not None and not effects.incomplete:
            self._put("launch", label, stream, effects.reads, effects.writes, site)
            return
        self._reasons |= dict.fromkeys(effects.incomplete if effects else ())
        self._runtime.enqueue(
            kind="launch",
            label=label,
            stream=self._streams.stream(stream),
            writes=(_ANY,),
            site=site,
        )

    def _note(self, done: Touched, stream: int, site: CallSite) -> None:
        """Take note of an operator of torch that was carried out."""
        for span in done.allocated:
            self._runtime.adopt_memory(span, str(self._streams.stream(stream)), site)
        if done.pinned:
            self._pinned[done.label] = None
        if done.works:
            self._put(done.kind, done.label, stream, done.reads, done.writes, site)

    def _work(self, call: DriverCall) -> None:
        """Take note of what no operator of torch and no launch told of has done."""
        site = here()
        if call.kind == "launch":
            if self._told[call.symbol]:
                self._told[call.symbol] -= 1
                return
            self._put_launch(call.symbol or call.name, call.launch_stream, None, site)
        elif (done := access_of(call)) is not None:
            if done.pinned:
                self._pinned[call.name] = None
            self._put(done.kind, call.name, done.stream, done.reads, done.writes, site)
            if done.waits:
                self._runtime.synchronize_stream(self._streams.stream(0))
        elif call.name == "cuGraphLaunch":
            self._put_launch(call.name, call.words(2)[1], None, site)
        elif call.kind in ("fill", "copy"):
            self._reasons[f"{call.name} is not modelled"] = None
            self._put_launch(call.name, 0, None, site)
