"""Operations: what host code asked a stream to do, as data."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import CodeType, FrameType

from sidestream.harness.runtime.program_calls import own_call
from sidestream.harness.runtime.spans import Span

KINDS = frozenset(
    {
        *("torch", "copy", "fill", "launch", "host-function", "graph"),
        *("event-record", "event-wait", "free", "host"),
    }
)
"""What an operation may be; `host` is an access by a host thread itself."""

Clock = Mapping[int, int]
"""By agent, how many of its operations are known to have happened before."""

_MOST_FRAMES = 12
_PASSED = (
    *("torch", "sidestream.harness", "contextlib", "threading", "functools"),
    *("cutlass", "tvm_ffi"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class CallSite:
    """Where host code made a call.

    Attributes:
        frames: `file:line in function`, innermost first; frames of torch, of CuTe DSL
            and of this project are left out, so that the first one is the user's.
        call: Number of the call that the program's own code made, where a
            `ProgramCalls` tells it apart from packages; 0 otherwise.
    """

    frames: tuple[str, ...] = ()
    call: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return self.frames[0] if self.frames else "unknown place"


def here() -> CallSite:
    """Return the call site of whoever called into torch or the runtime."""
    frames: list[str] = []
    frame: FrameType | None = sys._getframe(1)
    number, own = own_call(frame)
    while frame is not None and len(frames) < _MOST_FRAMES:
        spelled = _spelled.get(frame.f_code)
        if spelled is None:
            passed = _passed(frame.f_globals.get("__name__") or "")
            spelled = _spelled[frame.f_code] = (passed, {})
        if not spelled[0]:
            frames.append(spelled[1].get(frame.f_lasti) or _told(frame))
            own = None if frame is own else own
        frame = frame.f_back
    if own is not None:  # below too many frames of packages
        frames.append(_told(own))
    return CallSite(frames=tuple(frames), call=number)


_spelled: dict[CodeType, tuple[bool, dict[int, str]]] = {}
"""Whether frames of a code are left out, and by instruction how one is told.

Every operation asks for a dozen frames.
"""


def _told(frame: FrameType) -> str:
    code = frame.f_code
    told = f"{code.co_filename}:{frame.f_lineno} in {code.co_name}"
    _spelled.setdefault(code, (False, {}))[1][frame.f_lasti] = told
    return told


@functools.cache
def _passed(module: str) -> bool:
    return any(module == p or module.startswith(p + ".") for p in _PASSED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Effects:
    """What an operation touched when it ran, where that shows only then.

    Attributes:
        reads: Bytes it read.
        writes: Bytes it wrote.
        incomplete: Reasons why these may not be all; the run is then not judged clean.
    """

    reads: tuple[Span, ...] = ()
    writes: tuple[Span, ...] = ()
    incomplete: tuple[str, ...] = ()


Run = Callable[[], "Effects | None"]
"""Does the work of an operation when it lands. None: it touched what was declared."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Op:
    """One operation in the order of the host program.

    Attributes:
        id: Number in issue order, unique in its runtime.
        kind: One of `KINDS`.
        label: What reports call it, e.g. `aten.fill_` or a kernel's name.
        device: Index of the device; that of the stream.
        stream: Handle of the stream, or None for what a host thread did itself.
        where: What reports call the agent, e.g. `stream 0x10 (side)` or `host`.
        thread: Agent number of the host thread that issued it.
        agent: Agent number in clocks: of the stream, graph branch or host thread.
        tick: How many operations the agent had issued, this one included.
        clock: What happened before it, itself included.
        reads: Bytes read, as far as known at the call.
        writes: Bytes written, as far as known at the call.
        site: Where host code asked for it.
        seconds: How long the device would take for it, as far as estimated.
        graph: Number of the graph that replays it, or 0.
        called: Number in issue order of the call that named its memory: its own, or
            that of the capture for an operation of a graph.
    """

    id: int
    kind: str
    label: str
    device: int = 0
    stream: int | None = None
    where: str = "host"
    thread: int = 0
    agent: int = 0
    tick: int = 0
    clock: Clock = field(default_factory=dict, repr=False)
    reads: tuple[Span, ...] = ()
    writes: tuple[Span, ...] = ()
    site: CallSite = field(default_factory=CallSite, repr=False)
    seconds: float = 0.0
    graph: int = 0
    called: int = 0

    def before(self, other: Op) -> bool:
        """Whether this operation happens before another one, or is it."""
        return other.clock.get(self.agent, 0) >= self.tick
