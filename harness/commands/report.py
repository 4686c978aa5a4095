"""`sidestream report`: every form of a report again, from its report.json."""

from __future__ import annotations

from pathlib import Path

from sidestream.harness.commands import console
from sidestream.harness.errors import UsageError
from sidestream.reports.json import ReportFormatError, read
from sidestream.reports.write import write


def run(folder: Path) -> int:
    """Render and print a report; return the exit status of its verdict.

    Raises:
        UsageError: there is no report.json of this schema, or the folder cannot be
            written; in the first case nothing is.
    """
    try:
        report = read(folder / "report.json")
        page = write(report, folder)
    except ReportFormatError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror or error}") from error
    return console.say(report, str(page))
