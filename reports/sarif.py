"""SARIF 2.1.0: findings and what is incomplete, for code-scanning views."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import Any

from sidestream.harness.finding import Finding, Incomplete, Site
from sidestream.reports.model import Report

_INCOMPLETE = "incomplete"


def render(report: Report) -> str:
    """Return the report as SARIF text; Python lines become locations."""
    rules: dict[str, dict[str, Any]] = {}
    for finding in report.findings:
        rules.setdefault(
            finding.rule.id,
            {
                "id": finding.rule.id,
                "shortDescription": {"text": finding.rule.title},
                "properties": {"kind": finding.kind},
            },
        )
    if report.incomplete:
        rules[_INCOMPLETE] = {
            "id": _INCOMPLETE,
            "shortDescription": {"text": "Something was not run or has no model"},
        }
    results = [_result(finding) for finding in report.findings]
    results += [_unjudged(entry) for entry in report.incomplete]
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "sidestream",
                        "version": report.version,
                        "rules": list(rules.values()),
                    }
                },
                "invocations": [
                    {
                        "commandLine": report.command,
                        "executionSuccessful": not report.incomplete,
                    }
                ],
                "results": results,
                "properties": {
                    "verdict": report.verdict.label,
                    "device": report.device,
                    "arch": report.arch,
                    "profile": report.profile,
                    "seed": report.seed,
                },
            }
        ],
    }
    return json.dumps(log, indent=1) + "\n"


def _result(finding: Finding) -> dict[str, Any]:
    lines = [finding.message]
    if finding.need:
        lines.append(f"Need: {finding.need}")
    if finding.replay:
        lines.append(f"Replay: {finding.replay}")
    result: dict[str, Any] = {
        "ruleId": finding.rule.id,
        "level": "error",
        "message": {"text": "\n".join(lines)},
        "occurrenceCount": finding.count,
        "partialFingerprints": {"sidestreamFindingId/v1": finding.id},
        "properties": {
            "kind": finding.kind,
            "kernel": finding.kernel,
            "scenario": finding.scenario,
        },
    }
    if finding.known:
        why = (finding.known.reason, finding.known.reference)
        result["suppressions"] = [
            {
                "kind": "external",
                "status": "accepted",
                "justification": "; ".join(text for text in why if text),
            }
        ]
    if finding.sites:
        result["locations"] = [_location(finding.sites[0])]
    if len(finding.sites) > 1:
        result["relatedLocations"] = [
            {"id": number, **_location(site)}
            for number, site in enumerate(finding.sites[1:], 1)
        ]
    return result


def _location(site: Site) -> dict[str, Any]:
    text = f"{site.agent}: {site.operation}"
    if site.detail:
        text += f" ({site.detail})"
    location: dict[str, Any] = {
        "message": {"text": text},
        "logicalLocations": [{"name": site.agent, "kind": "member"}],
    }
    if site.ptx_line is not None:
        location["properties"] = {"ptxLine": site.ptx_line}
    file, _, line = (site.source or "").rpartition(":")
    if file and line.isdigit():
        path = PurePath(file)
        location["physicalLocation"] = {
            "artifactLocation": {
                "uri": path.as_uri() if path.is_absolute() else path.as_posix()
            },
            "region": {"startLine": max(1, int(line))},
        }
    return location


def _unjudged(entry: Incomplete) -> dict[str, Any]:
    where = f" (PTX line {entry.ptx_line})" if entry.ptx_line else ""
    return {
        "ruleId": _INCOMPLETE,
        "level": "warning",
        "message": {"text": entry.reason + where},
        "properties": {"kernel": entry.kernel, "scenario": entry.scenario},
    }
