"""JUnit XML: one suite for each implementation and kernel, one test case a check."""

from __future__ import annotations

import re
from xml.etree import ElementTree as Xml

from sidestream.harness.finding import Finding
from sidestream.reports.model import FAILED, NOT_RUN, Case, Report

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold ("Characters", production 2)."""


def render(report: Report) -> str:
    """Return the report as JUnit XML.

    A failed check is a `failure`, one that was not run or whose findings are all known
    is `skipped`, and what could
    not be judged is an `error`, so that a run that is incomplete is never green.
    """
    findings = {finding.id: finding for finding in report.findings}
    root = Xml.Element("testsuites", name="sidestream")
    groups: dict[str, list[Case]] = {}
    for case in report.cases:
        groups.setdefault(f"{case.impl}.{case.kernel}", []).append(case)
    for name, cases in groups.items():
        suite = Xml.SubElement(root, "testsuite", name=_clean(name))
        for case in cases:
            _case(suite, name, case, findings)
        _count(suite)
        suite.set("time", f"{sum(case.wall for case in cases):.3f}")
    if report.incomplete:
        suite = Xml.SubElement(root, "testsuite", name="incomplete")
        for number, entry in enumerate(report.incomplete, 1):
            label = entry.scenario or entry.kernel or "run"
            test = Xml.SubElement(
                suite,
                "testcase",
                classname="incomplete",
                name=_clean(f"{label} ({number})"),
            )
            where = f" (PTX line {entry.ptx_line})" if entry.ptx_line else ""
            Xml.SubElement(
                test, "error", type="incomplete", message=_clean(entry.reason + where)
            )
        _count(suite)
    _count(root)
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(
    suite: Xml.Element, group: str, case: Case, findings: dict[str, Finding]
) -> None:
    for index, (name, check) in enumerate(case.checks.items()):
        test = Xml.SubElement(
            suite,
            "testcase",
            classname=_clean(f"{group}.{case.scenario}"),
            name=_clean(name),
            time=f"{case.wall if index == 0 else 0.0:.3f}",
        )
        shown = [findings[i] for i in case.findings if i in findings]
        if check.status == FAILED and shown and all(f.known for f in shown):
            reasons = dict.fromkeys(f.known.reason for f in shown if f.known)
            message = f"known: {'; '.join(reasons)}"
            Xml.SubElement(test, "skipped", message=_clean(message))
        elif check.status == FAILED:
            failure = Xml.SubElement(
                test, "failure", type="finding", message=_clean(check.reason)
            )
            failure.text = _clean("\n\n".join(_text(f) for f in shown))
        elif check.status == NOT_RUN:
            Xml.SubElement(test, "skipped", message=_clean(check.reason))


def _text(finding: Finding) -> str:
    lines = [
        f"[{finding.id}] {finding.kind}: {finding.message}",
        f"rule: {finding.rule.id} ({finding.rule.title})",
    ]
    for site in finding.sites:
        place = ", ".join(
            part
            for part in (
                site.source or "",
                f"PTX line {site.ptx_line}" if site.ptx_line else "",
            )
            if part
        )
        lines.append(f"site: {site.agent}: {site.operation} ({place or 'host'})")
    if finding.need:
        lines.append(f"need: {finding.need}")
    if finding.replay:
        lines.append(f"replay: {finding.replay}")
    return "\n".join(lines)


def _count(element: Xml.Element) -> None:
    element.set("tests", str(len(element.findall(".//testcase"))))
    element.set("failures", str(len(element.findall(".//failure"))))
    element.set("errors", str(len(element.findall(".//error"))))
    element.set("skipped", str(len(element.findall(".//skipped"))))


def _clean(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
