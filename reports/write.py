"""Write every form of a report into one folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from sidestream.reports import html, json, junit, perfetto, sarif
from sidestream.reports.files import write_atomically
from sidestream.reports.model import Report

FORMS: Mapping[str, Callable[[Report], str]] = {
    "report.json": json.render,
    "report.html": html.render,
    "junit.xml": junit.render,
    "results.sarif": sarif.render,
    "trace.perfetto.json": perfetto.render,
}
"""How each file is rendered, by its name; `report.json` first, the rest follow it."""


def write(report: Report, folder: Path) -> Path:
    """Write every form of `report` into `folder`, which is made.

    Everything is rendered before anything is written, and each file is replaced
    whole, so that a failure never leaves half a report.

    Returns:
        The path of `report.html`.

    Raises:
        OSError: the folder cannot be written.
    """
    texts = {name: render(report) for name, render in FORMS.items()}
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_atomically(folder / name, text)
    return folder / "report.html"
