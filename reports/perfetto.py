"""A Chrome trace-event file for Perfetto: cases and their phases on a time line."""

from __future__ import annotations

import json
from typing import Any

from sidestream.reports.model import Report

_MICROSECONDS = 1e6


def render(report: Report) -> str:
    """Return trace-event JSON: a thread a worker, cases around their phases."""
    tracks: dict[str, int] = {}
    events: list[dict[str, Any]] = [_named("process_name", 0, "sidestream")]
    for case in report.cases:
        if not case.spans:
            continue
        track = case.spans[0].track
        thread = _thread(tracks, events, track)
        start = min(span.start for span in case.spans)
        end = max(span.start + span.seconds for span in case.spans)
        events.append(
            _slice(
                f"{case.impl} {case.scenario}",
                "case",
                thread,
                start,
                end - start,
                {
                    "verdict": case.verdict.label,
                    "warp_instructions": case.warp_instructions,
                    "findings": list(case.findings),
                },
            )
        )
        events += [
            _slice(
                span.name,
                "phase",
                _thread(tracks, events, span.track),
                span.start,
                span.seconds,
                {"detail": span.detail} if span.detail else {},
            )
            for span in case.spans
        ]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}) + "\n"


def _thread(tracks: dict[str, int], events: list[dict[str, Any]], name: str) -> int:
    if name not in tracks:
        tracks[name] = len(tracks) + 1
        events.append(_named("thread_name", tracks[name], name))
    return tracks[name]


def _named(what: str, thread: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": 1, "tid": thread, "args": {"name": name}}


def _slice(
    name: str,
    category: str,
    thread: int,
    start: float,
    seconds: float,
    args: dict[str, Any],
) -> dict[str, Any]:
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        "pid": 1,
        "tid": thread,
        "ts": round(start * _MICROSECONDS, 3),
        "dur": round(seconds * _MICROSECONDS, 3),
        "args": args,
    }
