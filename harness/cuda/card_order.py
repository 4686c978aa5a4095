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
from torch.utils._python_dispatch import TorchDispatchMode

from sidestream.harness.cuda.card_access import access_of
from sidestream.harness.cuda.driver_audit import DriverCall
from sidestream.harness.finding import Finding
from sidestream.harness.launch import Launch
from sidestream.harness.runtime import (
    CallSite,
    Effects,
    Event,
    Landing,
    Runtime,
    Span,
    Stream,
    here,
)
from sidestream.harness.runtime import races as host_races
from sidestream.harness.vtorch.operator_schema import Operator, operator, tensors
from sidestream.harness.vtorch.tensor_spans import spans_of

_ANY = Span(1 << 62, 1)
"""Stands for memory that a launch may touch, as long as nobody says which it does."""
_CALLER = CallSite()
_EDGES = {
    "cuEventRecord": 2,
    "cuEventRecordWithFlags": 2,
    "cuStreamWaitEvent": 2,
    "cuEventSynchronize": 1,
    "cuEventQuery": 1,
    "cuStreamSynchronize": 1,
    "cuStreamQuery": 1,
    "cuCtxSynchronize": 0,
}
"""Driver calls that order something, with how many arguments matter."""


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
    _streams: dict[int, Stream] = field(default_factory=dict)
    _events: dict[int, Event] = field(default_factory=dict)
    _told: Counter[str] = field(default_factory=Counter)
    _reasons: dict[str, None] = field(default_factory=dict)
    _late: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    _inside: int = 0
    _launches: int = 0
    _operations: int = 0
    _away: bool = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch one call, which is made inside; its driver calls go to `called`."""
        self._put("copy", "the caller's inputs", self.stream, (), self.lent, _CALLER)
        with _Operators(self):
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
        if call.name in _EDGES:
            if call.returning and not call.status:
                words = call.words(_EDGES[call.name]) if _EDGES[call.name] else ()
                if self._inside:  # after the operator that it belongs to
                    self._late.append((call.name, words))
                else:
                    self._edge(call.name, words)
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
            self._note(operator(func), args, kwargs, result, stream, site)
        if not self._inside:
            late, self._late = self._late, []
            for name, words in late:
                self._edge(name, words)
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

    def summary(self) -> str:
        """Say what was looked at."""
        handles = ", ".join(f"{handle:#x}" for handle in sorted(self._streams))
        return f"{self._operations} operations on stream {handles}"

    def _stream(self, handle: int) -> Stream:
        if handle not in self._streams:
            if handle > 2 and self.blocking(handle):
                made = self._runtime.create_stream(blocking=True)
                made.handle = handle
            else:
                made = self._runtime.adopt_stream(handle)
            self._streams[handle] = made
        return self._streams[handle]

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
            stream=self._stream(stream),
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
            stream=self._stream(stream),
            writes=(_ANY,),
            site=site,
        )

    def _note(
        self,
        known: Operator,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        result: Any,
        stream: int,
        site: CallSite,
    ) -> None:
        if known.view:
            return
        given = [(k, t) for k, t in tensors(args, kwargs) if self.on_card(t)]
        homes = {t.untyped_storage().data_ptr() for _, t in given}
        made = result if isinstance(result, (list, tuple)) else (result,)
        new = [
            t
            for t in made
            if isinstance(t, torch.Tensor)
            and self.on_card(t)
            and t.untyped_storage().nbytes()
            and t.untyped_storage().data_ptr() not in homes
        ]
        for tensor in new:
            held = tensor.untyped_storage()
            self._runtime.adopt_memory(
                Span(held.data_ptr(), held.nbytes()), str(self._stream(stream)), site
            )
        if known.empty or not (given or new):
            return
        reads = spans_of(t for k, t in given if k not in known.unread)
        writes = spans_of((*(t for k, t in given if k in known.written), *new))
        self._put(known.kind, known.label, stream, reads, writes, site)

    def _edge(self, name: str, words: tuple[int, ...]) -> None:
        runtime = self._runtime
        match name:
            case "cuEventRecord" | "cuEventRecordWithFlags":
                stream = self._stream(words[1])
                if words[0] not in self._events:
                    self._events[words[0]] = runtime.create_event()
                runtime.record_event(self._events[words[0]], stream)
            case "cuStreamWaitEvent":
                event = self._events.get(words[1])
                if event is not None:
                    runtime.wait_event(self._stream(words[0]), event)
            case "cuEventSynchronize" | "cuEventQuery":
                event = self._events.get(words[0])
                if event is not None:
                    runtime.synchronize_event(event)
            case "cuStreamSynchronize" | "cuStreamQuery":
                runtime.synchronize_stream(self._stream(words[0]))
            case "cuCtxSynchronize":
                runtime.synchronize_device()

    def _work(self, call: DriverCall) -> None:
        """Take note of what no operator of torch and no launch told of has done."""
        site = here()
        if call.kind == "launch":
            if self._told[call.symbol]:
                self._told[call.symbol] -= 1
                return
            self._put_launch(call.symbol or call.name, call.launch_stream, None, site)
        elif (done := access_of(call)) is not None:
            self._put(done.kind, call.name, done.stream, done.reads, done.writes, site)
            if done.waits:
                self._runtime.synchronize_stream(self._stream(0))
        elif call.name == "cuGraphLaunch":
            self._put_launch(call.name, call.words(2)[1], None, site)
        elif call.kind in ("fill", "copy"):
            self._reasons[f"{call.name} is not modelled"] = None
            self._put_launch(call.name, 0, None, site)


class _Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hands operators of torch to an order."""

    def __init__(self, order: CardOrder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._order = order

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return self._order.operator(func, args, kwargs or {})
