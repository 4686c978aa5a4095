"""The lock of a runtime, and what has to wait until a call is through."""

from __future__ import annotations

from _thread import (
    RLock,  # threading.RLock may be one that orders the threads it serves
    _local,
)
from collections.abc import Callable
from types import TracebackType


class Guard:
    """One call at a time; a call within a call may put work off until its end.

    Memory is freed by finalizers, and those run whenever Python collects garbage: in
    the middle of a call too.

    Args:
        failed: Told of the error that a call ends with, in its innermost guard first.
    """

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        self._lock = RLock()
        self._depth = 0
        self._here = _local()
        self._later: list[Callable[[], None]] = []

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1
        self._here.used = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is not None:
                self._failed(error)
            while self._depth == 1 and self._later:
                self._later.pop(0)()
        finally:
            self._depth -= 1
            self._lock.release()

    @property
    def used_here(self) -> bool:
        """Whether the calling thread has made a call."""
        return getattr(self._here, "used", False)

    def use_here(self) -> None:
        """Take note of a call of the calling thread that needs no guard."""
        self._here.used = True

    def at_the_end(self, work: Callable[[], None]) -> None:
        """Do something when the outermost call of this thread is through."""
        with self:
            self._later.append(work)
