"""Which call of a program's own code leads to what a package does.

What a package does at the first call of a line belongs to setting up; what it does at
later ones is done at every step. To tell the calls of a line apart, the frame that the
program's code calls is marked once and found again by its mark.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any


class _Mark:
    """Stands in the trace slot of a frame, which nothing uses while none traces."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, frame: FrameType, event: str, value: Any) -> None:
        """Trace nothing, should someone start to."""


class ProgramCalls:
    """Numbers the calls of a program's own code while entered.

    Args:
        of_package: Whether a file is a package's rather than the program's.
    """

    _stack: list[ProgramCalls] = []  # noqa: RUF012 -- process-wide, as frames are

    def __init__(self, of_package: Callable[[str], bool]) -> None:
        self._of_package = of_package
        self._known: dict[str, bool] = {}
        self._numbers = itertools.count(1)

    def __enter__(self) -> ProgramCalls:
        ProgramCalls._stack.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        ProgramCalls._stack.remove(self)

    def find(self, frame: FrameType | None) -> tuple[int, FrameType | None]:
        """Return the number of the innermost call of the program's code, and its frame.

        0 and None for what the program did not call.
        """
        called: FrameType | None = None
        while frame is not None:
            if not self._foreign(frame.f_code.co_filename):
                return (self._marked(called) if called is not None else 0), frame
            called, frame = frame, frame.f_back
        return 0, None

    def _foreign(self, file: str) -> bool:
        known = self._known.get(file)
        if known is None:
            known = self._known[file] = self._of_package(file)
        return known

    def _marked(self, frame: FrameType) -> int:
        mark = frame.f_trace
        if isinstance(mark, _Mark):
            return mark.number
        number = next(self._numbers)
        if mark is None and sys.gettrace() is None:
            frame.f_trace = _Mark(number)
        return number


def own_call(frame: FrameType | None) -> tuple[int, FrameType | None]:
    """Return which call of the program's own code a frame is in, as `find` does."""
    stack = ProgramCalls._stack
    return stack[-1].find(frame) if stack else (0, None)
