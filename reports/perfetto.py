"""A Chrome trace-event file for Perfetto: cases and their phases on a time line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sidestream.reports.model import Report, Span

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
        events += _arrows(case.spans, tracks)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}) + "\n"


def _arrows(spans: Sequence[Span], tracks: dict[str, int]) -> list[dict[str, Any]]:
    """Return flow events from each span to those that come after it."""
    by_id = {span.id: span for span in spans if span.id}
    events = []
    pairs = [(n, span) for span in spans for n in span.after if n in by_id]
    for number, (source, target) in enumerate(pairs, 1):
        before = by_id[source]
        for phase, span, at in (
            ("s", before, before.start + before.seconds),
            ("f", target, max(target.start, before.start + before.seconds)),
        ):
            events.append(
                {
                    "name": "event",
                    "cat": "flow",
                    "ph": phase,
                    "id": number,
                    "pid": 1,
                    "tid": tracks[span.track],
                    "ts": round(at * _MICROSECONDS, 3),
                    **({"bp": "e"} if phase == "f" else {}),
                }
            )
    return events


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
