"""`report.json`, schema `sidestream.report/1`: written, and read back to render."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from sidestream.harness.finding import (
    Accepted,
    Finding,
    Incomplete,
    Rule,
    Site,
    Verdict,
)
from sidestream.reports import cost
from sidestream.reports.model import (
    NOT_RUN,
    SCHEMA,
    Case,
    Check,
    Declined,
    Error,
    Mutant,
    Report,
    Span,
)

T = TypeVar("T")


class ReportFormatError(ValueError):
    """A file that is not a report of this schema; the message says where and why."""


def render(report: Report) -> str:
    """Return the report as JSON text.

    A check is spelled `passed`, `failed`, or `not-run: REASON`; what a passed or
    failed check says of itself is in `notes`. Numbers that JSON does not have are
    the strings `inf`, `-inf` and `nan`.
    """
    return json.dumps(document(report), indent=1, allow_nan=False) + "\n"


def document(report: Report) -> dict[str, Any]:
    """Return the report as JSON values."""
    return {
        "schema": SCHEMA,
        "tool": {
            "name": "sidestream",
            "version": report.version,
            "command": report.command,
        },
        "verdict": report.verdict.label,
        "device": report.device,
        "arch": report.arch,
        "profile": report.profile,
        "seed": report.seed,
        "started": report.started,
        "cases": [_case(case) for case in report.cases],
        "findings": [finding_document(finding) for finding in report.findings],
        "incomplete": [
            {
                "reason": entry.reason,
                "kernel": entry.kernel,
                "scenario": entry.scenario,
                "ptx_line": entry.ptx_line,
            }
            for entry in report.incomplete
        ],
        "declined": [
            {"scenario": entry.scenario, "reason": entry.reason}
            for entry in report.declined
        ],
        "stats": {
            "cases": len(report.cases),
            "compiles": report.compiles,
            "compilations": [asdict(row) for row in report.compilations],
            "warp_instructions": report.warp_instructions,
            "seconds": {k: round(v, 6) for k, v in report.seconds.items()},
            "wall_seconds": round(report.wall_seconds, 6),
            "relaxed": report.relaxed,
            **_cost(report),
        },
        "environment": dict(report.environment),
        **_mutants(report),
    }


def _mutants(report: Report) -> dict[str, Any]:
    if not report.mutants:
        return {}
    caught: dict[str, int] = {}
    for mutant in report.mutants:
        for kind in mutant.by:
            caught[kind] = caught.get(kind, 0) + 1
    number = Counter(mutant.status for mutant in report.mutants)
    return {
        "mutants": {
            "caught": caught,
            "equivalent": number["equivalent"],
            "survived": number["survived"],
            "rows": [asdict(mutant) for mutant in report.mutants],
        }
    }


def finding_document(finding: Finding) -> dict[str, Any]:
    """Return one finding as JSON values."""
    return {
        "id": finding.id,
        "kind": finding.kind,
        "rule": {"id": finding.rule.id, "title": finding.rule.title},
        "message": finding.message,
        "kernel": finding.kernel,
        "scenario": finding.scenario,
        "sites": [
            {
                "agent": site.agent,
                "operation": site.operation,
                "ptx_line": site.ptx_line,
                "source": site.source,
                "detail": site.detail,
            }
            for site in finding.sites
        ],
        "need": finding.need,
        "witness": list(finding.witness),
        "replay": finding.replay,
        "count": finding.count,
        "extra": _plain(finding.extra),
        **({"known": asdict(finding.known)} if finding.known else {}),
    }


def _case(case: Case) -> dict[str, Any]:
    return {
        "impl": case.impl,
        "kernel": case.kernel,
        "scenario": case.scenario,
        "description": case.description,
        "verdict": case.verdict.label,
        "checks": {name: _spell(check) for name, check in case.checks.items()},
        "notes": {
            name: check.reason
            for name, check in case.checks.items()
            if check.reason and check.status != NOT_RUN
        },
        "errors": {
            name: {
                "ratio": _number(error.ratio),
                "absolute": _number(error.absolute),
                "at": list(error.at),
            }
            for name, error in case.errors.items()
        },
        "code": case.code,
        "compiles": case.compiles,
        "launches": case.launches,
        "warp_instructions": case.warp_instructions,
        "seconds": {k: round(v, 6) for k, v in case.seconds.items()},
        "findings": list(case.findings),
        "replay": case.replay,
        "relaxed": dict(case.relaxed),
        "spans": [
            [
                *(s.name, round(s.start, 6), round(s.seconds, 6), s.track, s.detail),
                *((s.id, list(s.after)) if s.id else ()),
            ]
            for s in case.spans
        ],
    }


def _cost(report: Report) -> dict[str, Any]:
    """Return what the cost model gave, by case; nothing if it was not asked for."""
    rows = [
        {
            "case": index,
            "impl": case.impl,
            "kernel": case.kernel,
            "scenario": case.scenario,
            "launches": [cost.document(launch) for launch in case.cost],
        }
        for index, case in enumerate(report.cases)
        if case.cost
    ]
    return {"cost": rows} if rows else {}


def _read_mutant(raw: Mapping[str, Any]) -> Mutant:
    return Mutant(**{**raw, "by": tuple(raw["by"])})


def _spell(check: Check) -> str:
    return (
        f"{NOT_RUN}: {check.reason}" if check.status == NOT_RUN else str(check.status)
    )


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _plain(value: Any) -> Any:
    """Turn anything a finding carries into what JSON can hold."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(v) for v in value]
    if isinstance(value, float):
        return _number(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)


def read(path: Path) -> Report:
    """Read a `report.json` back.

    Raises:
        ReportFormatError: the file is missing, not JSON or not of this schema.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ReportFormatError(f"{path}: there is no such file") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ReportFormatError(f"{path}: cannot be read: {error}") from error
    try:
        return parse(raw)
    except ReportFormatError as error:
        raise ReportFormatError(f"{path}: {error}") from error


def parse(raw: object) -> Report:
    """Build the report of a JSON document.

    Raises:
        ReportFormatError: naming the field that is missing or malformed.
    """
    if not isinstance(raw, dict):
        raise ReportFormatError("an object was expected")
    if raw.get("schema") != SCHEMA:
        raise ReportFormatError(f"schema {raw.get('schema')!r} is not {SCHEMA!r}")
    try:
        report = Report(
            command=_text(raw["tool"]["command"]),
            version=_text(raw["tool"]["version"]),
            device=_text(raw["device"]),
            arch=_text(raw["arch"]),
            profile=_text(raw["profile"]),
            seed=int(raw["seed"]),
            cases=_read_costs(
                _each(raw["cases"], _read_case), raw["stats"].get("cost", [])
            ),
            findings=_each(raw["findings"], _read_finding),
            incomplete=_each(raw["incomplete"], lambda entry: Incomplete(**entry)),
            declined=_each(raw["declined"], lambda entry: Declined(**entry)),
            environment={str(k): str(v) for k, v in raw["environment"].items()},
            mutants=_each(raw.get("mutants", {}).get("rows", []), _read_mutant),
            wall_seconds=float(raw["stats"]["wall_seconds"]),
            started=_text(raw["started"]),
        )
        if report.verdict.label != raw["verdict"]:
            raise ReportFormatError(
                f"verdict {raw['verdict']!r} does not follow from the cases, which "
                f"give {report.verdict.label!r}"
            )
    except ReportFormatError:
        raise
    except KeyError as error:
        raise ReportFormatError(f"field {error} is missing") from error
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        raise ReportFormatError(f"malformed: {error}") from error
    return report


def _each(values: Any, build: Callable[[Any], T]) -> tuple[T, ...]:
    if not isinstance(values, list):
        raise TypeError(f"a list was expected, not {type(values).__name__}")
    return tuple(build(value) for value in values)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a string was expected, not {value!r:.40}")
    return value


def _read_case(raw: Any) -> Case:
    notes = raw["notes"]
    checks = {}
    for name, spelled in raw["checks"].items():
        status, _, reason = _text(spelled).partition(": ")
        checks[name] = Check(status=status, reason=reason or notes.get(name, ""))
    return Case(
        impl=_text(raw["impl"]),
        kernel=_text(raw["kernel"]),
        scenario=_text(raw["scenario"]),
        description=_text(raw["description"]),
        verdict=Verdict[_text(raw["verdict"]).upper()],
        checks=checks,
        errors={
            name: Error(
                ratio=float(error["ratio"]),
                absolute=float(error["absolute"]),
                at=tuple(int(i) for i in error["at"]),
            )
            for name, error in raw["errors"].items()
        },
        code=_text(raw["code"]),
        compiles=int(raw["compiles"]),
        launches=int(raw["launches"]),
        warp_instructions=int(raw["warp_instructions"]),
        seconds={str(k): float(v) for k, v in raw["seconds"].items()},
        findings=_each(raw["findings"], _text),
        replay=_text(raw["replay"]),
        relaxed={str(k): int(v) for k, v in raw.get("relaxed", {}).items()},
        spans=_each(raw["spans"], _read_span),
    )


def _read_costs(cases: tuple[Case, ...], raw: Any) -> tuple[Case, ...]:
    """Give cases the costs that `stats` holds for them."""
    read = list(cases)
    for entry in raw:
        launches = _each(entry["launches"], cost.parse)
        read[entry["case"]] = replace(read[entry["case"]], cost=launches)
    return tuple(read)


def _read_span(raw: Any) -> Span:
    name, start, seconds, track, detail, *flow = raw
    return Span(
        name=_text(name),
        start=float(start),
        seconds=float(seconds),
        track=_text(track),
        detail=_text(detail),
        id=int(flow[0]) if flow else 0,
        after=tuple(int(n) for n in flow[1]) if flow else (),
    )


def _read_finding(raw: Any) -> Finding:
    finding = Finding(
        kind=_text(raw["kind"]),
        rule=Rule(id=_text(raw["rule"]["id"]), title=_text(raw["rule"]["title"])),
        message=_text(raw["message"]),
        kernel=_text(raw["kernel"]),
        scenario=_text(raw["scenario"]),
        sites=_each(raw["sites"], lambda site: Site(**site)),
        need=_text(raw["need"]),
        witness=_each(raw["witness"], _text),
        replay=_text(raw["replay"]),
        count=int(raw["count"]),
        known=Accepted(**raw["known"]) if "known" in raw else None,
        extra=dict(raw["extra"]),
    )
    if finding.id != raw["id"]:
        raise ReportFormatError(f"finding {raw['id']!r} does not match its content")
    return finding
