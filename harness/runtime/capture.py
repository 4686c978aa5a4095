"""Stream capture: operations become nodes of a graph instead of running.

Rules: CUDA Programming Guide, "Creating a Graph Using Stream Capture", "Cross-stream
Dependencies and Events", "Prohibited and Unhandled Operations"; CUDA Runtime API,
`cudaStreamBeginCapture`, `cudaThreadExchangeStreamCaptureMode`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from sidestream.harness.runtime.cuda_error import CudaError
from sidestream.harness.runtime.events import Record
from sidestream.harness.runtime.op import CallSite, Run
from sidestream.harness.runtime.spans import Span
from sidestream.harness.runtime.streams import Stream

MODES = ("global", "thread_local", "relaxed")
_numbers = itertools.count(1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """One operation of a graph: a template that every replay issues again.

    Attributes:
        index: Its number in the graph.
        after: Nodes it waits for.
        lane: The branch it was captured on; nodes of one lane are in order.
        kind: As `Op.kind`.
        label: As `Op.label`.
        reads: Bytes read, where known.
        writes: Bytes written, where known.
        run: Called at every replay; reads its inputs then.
        site: Where it was captured.
        seconds: Estimated device time.
        called: Number of the call in issue order.
    """

    index: int
    after: frozenset[int]
    lane: int
    kind: str
    label: str
    reads: tuple[Span, ...]
    writes: tuple[Span, ...]
    run: Run | None
    site: CallSite
    seconds: float
    called: int


@dataclass(eq=False, kw_only=True)
class Capture:
    """A capture under way.

    Attributes:
        id: Its number.
        mode: `global`, `thread_local` or `relaxed`.
        origin: The stream it began on.
        thread: Host thread that began it.
        pool: Private memory pool that allocations of it come from, or 0.
        nodes: What was captured.
        tips: By stream, the nodes that its next one waits for.
        lanes: By stream, the number of its branch.
        broken: Why it is invalid, or "".
    """

    id: int = field(default_factory=lambda: next(_numbers))
    mode: str = "global"
    origin: Stream
    thread: int
    pool: int = 0
    nodes: list[Node] = field(default_factory=list)
    tips: dict[Stream, frozenset[int]] = field(default_factory=dict)
    lanes: dict[Stream, int] = field(default_factory=dict)
    broken: str = ""


def begin(stream: Stream, mode: str, thread: int) -> Capture:
    """Start a capture on a stream.

    Raises:
        CudaError: cudaErrorStreamCaptureUnsupported on the legacy default stream,
            cudaErrorIllegalState on one that is capturing, cudaErrorInvalidValue for
            a mode that is none.
    """
    if mode not in MODES:
        raise CudaError("cudaErrorInvalidValue", f"capture mode {mode!r}")
    if stream.legacy:
        raise CudaError(
            "cudaErrorStreamCaptureUnsupported",
            "the legacy default stream cannot be captured; use another stream",
        )
    if stream.capture is not None:
        raise CudaError("cudaErrorIllegalState", f"{stream} is capturing already")
    made = Capture(mode=mode, origin=stream, thread=thread)
    fork(made, stream, frozenset())
    return made


def fork(capture: Capture, stream: Stream, tips: frozenset[int]) -> None:
    """Let a stream take part in a capture, behind `tips`."""
    stream.capture = capture
    capture.tips[stream] = capture.tips.get(stream, frozenset()) | tips
    capture.lanes.setdefault(stream, len(capture.lanes))


def check(capture: Capture) -> None:
    """Refuse to go on with a broken capture.

    Raises:
        CudaError: cudaErrorStreamCaptureInvalidated.
    """
    if capture.broken:
        raise CudaError(
            "cudaErrorStreamCaptureInvalidated",
            f"an earlier call broke the capture: {capture.broken}",
        )


def add(
    capture: Capture,
    stream: Stream,
    *,
    kind: str,
    label: str,
    reads: tuple[Span, ...],
    writes: tuple[Span, ...],
    run: Run | None,
    site: CallSite,
    seconds: float,
    called: int,
) -> Node:
    """Capture an operation and return its node.

    Raises:
        CudaError: cudaErrorStreamCaptureInvalidated.
    """
    check(capture)
    node = Node(
        index=len(capture.nodes),
        after=capture.tips[stream],
        lane=capture.lanes[stream],
        kind=kind,
        label=label,
        reads=reads,
        writes=writes,
        run=run,
        site=site,
        seconds=seconds,
        called=called,
    )
    capture.nodes.append(node)
    capture.tips[stream] = frozenset({node.index})
    return node


def wait(stream: Stream, record: Record) -> None:
    """Wait for an event where the event or the stream belongs to a capture.

    A stream outside joins the capture of the event; this is how branches start.

    Raises:
        CudaError: cudaErrorStreamCaptureIsolation for an event recorded outside of
            the stream's capture, cudaErrorStreamCaptureMerge for one of another
            capture, cudaErrorStreamCaptureImplicit on the legacy default stream,
            cudaErrorInvalidValue for one whose capture has ended.
    """
    theirs, ours = record.capture, stream.capture
    if ours is not None:
        check(ours)
    if theirs is None:
        if ours is not None:
            ours.broken = f"{stream} waits for an event recorded before the capture"
        raise CudaError(
            "cudaErrorStreamCaptureIsolation",
            f"{stream} is capturing and the event was recorded outside of the capture",
        )
    if ours is not None and ours is not theirs:
        ours.broken = theirs.broken = "an event would merge two captures"
        raise CudaError("cudaErrorStreamCaptureMerge", ours.broken)
    if theirs.origin.capture is not theirs:
        raise CudaError(
            "cudaErrorInvalidValue",
            "the event was last recorded in a capture that has ended",
        )
    check(theirs)
    if stream.legacy:
        theirs.broken = "the legacy default stream waits for an event of the capture"
        raise CudaError("cudaErrorStreamCaptureImplicit", theirs.broken)
    fork(theirs, stream, record.nodes)


def end(stream: Stream, thread: int) -> Capture:
    """End the capture that began on a stream; it is over even where this raises.

    Raises:
        CudaError: cudaErrorIllegalState where nothing is captured,
            cudaErrorStreamCaptureUnmatched when it did not begin on this stream,
            cudaErrorStreamCaptureWrongThread when another thread began it,
            cudaErrorStreamCaptureInvalidated when it broke,
            cudaErrorStreamCaptureUnjoined when a branch was not joined.
    """
    capture = stream.capture
    if capture is None:
        raise CudaError("cudaErrorIllegalState", f"{stream} is not capturing")
    if capture.origin is not stream:
        capture.broken = f"it was ended on {stream}, not where it began"
        raise CudaError(
            "cudaErrorStreamCaptureUnmatched", f"no capture began on {stream}"
        )
    for member in capture.tips:
        member.capture = None
    if capture.mode != "relaxed" and capture.thread != thread:
        raise CudaError(
            "cudaErrorStreamCaptureWrongThread",
            "a capture ends in the thread that began it, unless it is relaxed",
        )
    check(capture)
    joined = _behind(capture, capture.tips[stream])
    for member, tips in capture.tips.items():
        if not tips <= joined:
            last = capture.nodes[max(tips - joined)]
            raise CudaError(
                "cudaErrorStreamCaptureUnjoined",
                f"{stream} does not wait for {member}, whose last operation is "
                f"{last.label} at {last.site}",
            )
    return capture


def forbid(captures: list[Capture], call: str, thread: int) -> None:
    """Refuse a call that is not safe while streams are captured, and break them.

    Prohibited are calls of a thread with a capture under way that is not relaxed, and
    of every thread while another has a `global` one.

    Raises:
        CudaError: cudaErrorStreamCaptureUnsupported.
    """
    hit = [
        c
        for c in captures
        if c.mode == "global" or (c.thread == thread and c.mode != "relaxed")
    ]
    for capture in hit:
        capture.broken = capture.broken or f"{call} during the capture"
    if hit:
        raise CudaError(
            "cudaErrorStreamCaptureUnsupported",
            f"{call} is not permitted while {hit[0].origin} is capturing "
            f"({hit[0].mode} mode)",
        )


def _behind(capture: Capture, tips: frozenset[int]) -> frozenset[int]:
    todo, found = list(tips), set[int]()
    while todo:
        index = todo.pop()
        if index not in found:
            found.add(index)
            todo += capture.nodes[index].after
    return frozenset(found)
