"""What packages under test warn of: for the report, not between lines of progress."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

_MOST = 200
"""Characters of a warning that are kept: some spell out whole types."""


@contextmanager
def collected() -> Iterator[dict[str, None]]:
    """Take the warnings of this process inside; the keys, in order, say them once each.

    Those are Python's own, and log records that nobody has asked to handle.
    """
    seen: dict[str, None] = {}

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        place = "/".join(Path(filename).parts[-2:])
        seen[f"{_short(str(message))} ({category.__name__}, {place}:{lineno})"] = None

    class Records(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen[f"{_short(record.getMessage())} ({record.name})"] = None

    before = warnings.showwarning, logging.lastResort
    warnings.showwarning = show
    logging.lastResort = Records(logging.WARNING)
    try:
        yield seen
    finally:
        warnings.showwarning, logging.lastResort = before


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MOST else text[:_MOST] + " ..."
