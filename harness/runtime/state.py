"""What a virtual CUDA runtime holds, and how an operation goes from call to landing."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from sidestream.harness.errors import UnsupportedError
from sidestream.harness.finding import Incomplete
from sidestream.harness.runtime import capture as captures
from sidestream.harness.runtime.capture import Capture
from sidestream.harness.runtime.captured_memory import CapturedMemory
from sidestream.harness.runtime.clock import join
from sidestream.harness.runtime.cuda_error import CudaError
from sidestream.harness.runtime.fills import Fills
from sidestream.harness.runtime.guard import Guard
from sidestream.harness.runtime.landing import Decisions, Landing
from sidestream.harness.runtime.op import KINDS, CallSite, Clock, Effects, Op, Run, here
from sidestream.harness.runtime.order import HostThread, Order
from sidestream.harness.runtime.pending import Queue
from sidestream.harness.runtime.race_log import RaceLog
from sidestream.harness.runtime.reservations import Reservations
from sidestream.harness.runtime.shadow import Shadow
from sidestream.harness.runtime.spans import Span, merge
from sidestream.harness.runtime.streams import Stream, StreamTable
from sidestream.harness.runtime.tenancy import Tenancies
from sidestream.harness.runtime.timeline import CALL, Moment, estimate

MOMENTS = 20_000
"""Moments that are kept for a time line."""
DEPTH = 1024
"""Operations that may be pending; more make the call land the oldest, as a full
launch queue makes a call wait."""


@dataclass(frozen=True, kw_only=True)
class HostWait:
    """A wait of the host for the device.

    Attributes:
        call: What waited, e.g. `cudaStreamSynchronize` or `aten._local_scalar_dense`.
        target: What for.
        site: Where.
        operations: How many operations had to land for it.
        seconds: How long it would have blocked, estimated.
        detail: More, e.g. the value that was read.
    """

    call: str
    target: str
    site: CallSite
    operations: int
    seconds: float
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A call that the CUDA runtime refuses.

    Attributes:
        name: Of the error, e.g. `cudaErrorStreamCaptureUnsupported`.
        message: What was wrong.
        site: Where.
        kind: Of the finding that it is, where the name alone does not tell.
    """

    name: str
    message: str
    site: CallSite
    kind: str = ""


class State:
    """State of a virtual CUDA runtime; the calls are in the classes on top of it.

    Args:
        devices: How many devices there are.
        landing: When operations land.
        torch_version: Decides what `ExternalStream(0)` is.
        depth: Operations that may be pending.
    """

    def __init__(
        self,
        *,
        devices: int = 1,
        landing: Landing | None = None,
        torch_version: tuple[int, int] = (2, 13),
        depth: int = DEPTH,
    ) -> None:
        self.lock = Guard(self._failed)
        self.order = Order()
        self.decisions = Decisions(landing or Landing())
        self.queue = Queue(self.decisions, self._land)
        self.streams = StreamTable(devices, self.order.agents, torch_version)
        self.shadow = Shadow()
        self.fills = Fills()
        self.tenancies = Tenancies()
        self.race_log = RaceLog(self.tenancies.find)
        self.host_waits: list[HostWait] = []
        self.moments: list[Moment] = []
        """What takes place when, by estimate; the first `MOMENTS` of them."""
        self.refusals: list[Refusal] = []
        self.reservations = Reservations()
        self.empty_graphs: list[CallSite] = []
        """Where captures ended that had captured nothing."""
        self.captured = CapturedMemory()
        self.worked: dict[int, tuple[str, CallSite]] = {}
        """By number of a call of the program's own code, the kind of an operation that
        it led to, launches before others, and where."""
        self.operations = 0
        """How many operations were called."""
        self.devices = devices
        self._depth = depth
        self._ids = itertools.count(1)
        self._ticks: dict[int, int] = {}
        self._captures: list[Capture] = []
        self._landing_op: Op | None = None
        self._incomplete: dict[tuple[str, str], None] = {}

    def enqueue(
        self,
        *,
        kind: str,
        label: str,
        stream: Stream,
        reads: Iterable[Span] = (),
        writes: Iterable[Span] = (),
        run: Run | None = None,
        site: CallSite | None = None,
        seconds: float | None = None,
        device: int | None = None,
    ) -> Op | None:
        """Call an operation on a stream; it lands later, or becomes a graph node.

        Args:
            kind: One of `KINDS`.
            label: What reports call it.
            stream: Where it goes.
            reads: Bytes it reads, as far as known.
            writes: Bytes it writes, as far as known.
            run: Does its work when it lands; may return what it really touched,
                which then counts instead. Called again by every replay of a graph.
            site: Where host code asked for it; the caller's place if absent.
            seconds: Estimated device time.
            device: The current device; a kernel cannot go to a stream of another one.

        Returns:
            The operation, or None where it was captured.

        Raises:
            CudaError: cudaErrorStreamCaptureInvalidated in a broken capture,
                cudaErrorStreamCaptureImplicit on the legacy default stream while a
                blocking stream is captured, cudaErrorInvalidResourceHandle for a
                stream of another device, cudaErrorNotPermitted in a host function.
            ValueError: for an unknown kind.
        """
        if kind not in KINDS:
            raise ValueError(f"unknown kind of operation {kind!r}")
        reads, writes = merge(reads), merge(writes)
        site = site or here()
        if seconds is None:
            seconds = estimate(kind, reads, writes)
        with self.lock:
            self._not_in_host_function(label)
            if site.call and (kind == "launch" or site.call not in self.worked):
                self.worked[site.call] = kind, site
            if device not in (None, stream.device):
                raise CudaError(
                    "cudaErrorInvalidResourceHandle",
                    f"{label} goes to stream {stream.handle:#x} of device "
                    f"{stream.device} while device {device} is the current one",
                )
            if stream.capture is not None:
                captures.add(
                    stream.capture,
                    stream,
                    kind=kind,
                    label=label,
                    reads=reads,
                    writes=writes,
                    run=run,
                    site=site,
                    seconds=seconds,
                    called=next(self._ids),
                )
                if kind != "launch":
                    self.captured.declare(writes, label, site)
                return None
            return self._issue(
                kind, label, stream, reads, writes, run, site=site, seconds=seconds
            )

    def _issue(
        self,
        kind: str,
        label: str,
        stream: Stream,
        reads: tuple[Span, ...] = (),
        writes: tuple[Span, ...] = (),
        run: Run | None = None,
        *,
        site: CallSite,
        seconds: float = 0.0,
        clocks: Sequence[Clock] = (),
        after: Iterable[int] = (),
        start: float = 0.0,
    ) -> Op:
        """Give an operation its clock and let it wait for what comes before it.

        It knows `clocks` beyond its stream and thread, waits for the pending
        operations `after` beyond those of its stream, and cannot begin before the
        time `start`.
        """
        host = self.order.host()
        clock, waits, begin = self._before(stream, host)
        for more in clocks:
            join(clock, more)
        op = self._op(
            kind,
            label,
            stream.agent,
            clock,
            reads,
            writes,
            site=site,
            stream=stream,
            seconds=seconds,
        )
        stream.clock, stream.tail = clock, op.id
        after = tuple(after)
        self._note(
            Moment(
                name=label,
                track=op.where,
                start=max(begin, start),
                seconds=seconds,
                called=host.now,
                place=str(site),
                id=op.id,
                after=after if kind == "event-wait" else (),
            )
        )
        stream.busy_until = max(begin, start) + seconds
        host.advance()
        host.now += CALL
        self._add(op, run, {*waits, *after})
        return op

    def _before(
        self, stream: Stream, host: HostThread
    ) -> tuple[dict[int, int], set[int], float]:
        """Return what comes before the next operation of a stream, by its own rules.

        Raises:
            CudaError: cudaErrorStreamCaptureImplicit.
        """
        clock, waits, begin = dict(stream.clock), {stream.tail}, stream.busy_until
        join(clock, host.clock)
        for other in self.streams.implied(stream):
            if other.capture is not None:
                other.capture.broken = f"an operation on {stream}"
                raise CudaError(
                    "cudaErrorStreamCaptureImplicit",
                    f"{stream} would wait for {other}, which is capturing",
                )
            join(clock, other.clock)
            waits.add(other.tail)
            begin = max(begin, other.busy_until)
        return clock, waits, max(begin, host.now)

    def _work_of(self, stream: Stream) -> tuple[dict[int, int], set[int], float]:
        """Return what a wait for a stream covers.

        The legacy default stream takes blocking streams along; a blocking stream does
        not take along what the default stream was given after its own last operation.
        """
        if stream.legacy:
            return self._before(stream, self.order.host())
        return dict(stream.clock), {stream.tail}, stream.busy_until

    def _op(
        self,
        kind: str,
        label: str,
        agent: int,
        clock: dict[int, int],
        reads: tuple[Span, ...],
        writes: tuple[Span, ...],
        *,
        site: CallSite,
        stream: Stream | None = None,
        where: str = "",
        seconds: float = 0.0,
        graph: int = 0,
        called: int = 0,
    ) -> Op:
        """Make an operation, the next one of its agent; `clock` gets its tick.

        Accesses of a host thread have the tick that its clock says: what it calls
        afterwards knows of them, what it called before does not.
        """
        if stream is not None:
            self._ticks[agent] = clock[agent] = self._ticks.get(agent, 0) + 1
        self.operations += 1
        number = next(self._ids)
        return Op(
            id=number,
            kind=kind,
            label=label,
            device=stream.device if stream is not None else 0,
            stream=stream.handle if stream is not None else None,
            where=where or str(stream),
            thread=self.order.host().agent,
            agent=agent,
            tick=clock[agent],
            clock=clock,
            reads=reads,
            writes=writes,
            site=site,
            seconds=seconds,
            graph=graph,
            called=called or number,
        )

    def _add(self, op: Op, run: Run | None, after: Iterable[int]) -> None:
        self.queue.add(op, run, after)
        if self.decisions.eager:
            self.queue.finish([op.id])
        while len(self.queue) > self._depth:
            oldest = self.queue.oldest()
            if oldest is not None:
                self.queue.finish([oldest.id])

    def _land(self, op: Op, run: Run | None) -> None:
        """Run an operation and judge what it touched."""
        effects: Effects | None = None
        if run is not None:
            outer, self._landing_op = self._landing_op, op
            try:
                effects = run()
            except Exception:
                # It raised over what it read: that is judged all the same.
                self._touch(op, op.reads, op.writes)
                raise
            finally:
                self._landing_op = outer
        reads, writes = op.reads, op.writes
        if effects is not None:
            reads, writes = merge(effects.reads), merge(effects.writes)
            for reason in effects.incomplete:
                self._incomplete[op.label, reason] = None
        self._touch(op, reads, writes)

    def _touch(self, op: Op, reads: Sequence[Span], writes: Sequence[Span]) -> None:
        if not op.graph:
            self.captured.read(reads, writes, op)
        self.captured.write(writes)
        self.fills.read_all(self.shadow, reads)
        for conflict in self.shadow.read_all(reads, op):
            self.race_log.add(conflict)
        for span in writes:
            self.fills.write(self.shadow, span, op)
            for conflict in self.shadow.write(span, op):
                self.race_log.add(conflict)

    def _wait(
        self,
        call: str,
        target: str,
        ids: Iterable[int],
        until: float,
        site: CallSite,
        detail: str = "",
    ) -> int:
        """Land what the host waits for; log it and return how many were needed."""
        ids = list(ids)
        needed = len(self.queue.needed(ids))
        if needed:  # an event that has been reached may be waited for anywhere
            self._not_in_host_function(call)
        self.queue.finish(ids)
        host = self.order.host()
        self.host_waits.append(
            HostWait(
                call=call,
                target=target,
                site=site,
                operations=needed,
                seconds=max(0.0, until - host.now),
                detail=detail,
            )
        )
        self._note(
            Moment(
                name=call,
                track="host",
                start=host.now,
                seconds=max(CALL, until - host.now),
                called=host.now,
                place=str(site),
            )
        )
        host.now = max(host.now + CALL, until)
        return needed

    def _note(self, moment: Moment) -> None:
        if len(self.moments) < MOMENTS:
            self.moments.append(moment)

    def _wait_for_device(self, call: str, device: int, site: CallSite) -> None:
        """Let the host wait for all streams of a device."""
        streams = self.streams.on(device)
        tails = [stream.tail for stream in streams]
        until = max(stream.busy_until for stream in streams)
        self._wait(call, f"device {device}", tails, until, site)
        for stream in streams:
            join(self.order.host().clock, stream.clock)

    def last_writer(self, span: Span) -> Op | None:
        """Return the operation that wrote the first bytes of a span last, if known."""
        with self.lock:
            cells = self.shadow.cells(span)
            return cells[0].write if cells and cells[0].start == span.start else None

    def refuse(self, name: str, message: str, *, kind: str = "") -> None:
        """Take note of a call that torch refuses before CUDA would."""
        made = Refusal(name=name, message=message, site=here(), kind=kind)
        self.refusals.append(made)

    def _failed(self, error: BaseException) -> None:
        if isinstance(error, CudaError) and not error.noted:
            error.noted = True
            text = str(error).removeprefix(f"{error.name}: ")
            self.refuse(error.name, text, kind=error.kind)

    def _not_in_host_function(self, call: str) -> None:
        """Refuse a CUDA call that a host function makes (`cudaLaunchHostFunc`).

        A card lets it ask for events that have been reached, and nothing else.
        """
        op = self._landing_op
        if op is not None and op.kind == "host-function":
            raise CudaError(
                "cudaErrorNotPermitted",
                f"{call} is called by {op.label}, a host function on {op.where}",
            )

    def _forbid(self, call: str) -> None:
        """Refuse a call that is not safe during a capture."""
        captures.forbid(self._captures, call, self.order.host().agent)

    def not_modelled(self, call: str) -> NoReturn:
        """Refuse a call that nothing here can answer; a program may catch the error.

        Raises:
            UnsupportedError: always.
        """
        told = f"{call} has no model on the virtual GPU"
        self._incomplete["", told] = None
        raise UnsupportedError(told)

    def leave_open(self, reason: str) -> None:
        """Take note of why a run cannot be judged wholly, and go on."""
        self._incomplete["", reason] = None

    def incomplete(self) -> tuple[Incomplete, ...]:
        """Return why the run could not be judged wholly, once for each reason."""
        return tuple(
            Incomplete(reason=reason, kernel=label)
            for label, reason in self._incomplete
        )
