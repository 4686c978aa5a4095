"""Known findings: a list, kept beside the code, of what is lived with and why.

    [[known]]
    impl = "fa4"
    scenarios = ["nan-tail", "kv-pair"]
    kind = "parity"
    reason = "V rows past the end of a sequence are multiplied by weights of 0"
    reference = "docs/public-kernels.md"

`impl` and `kernel` (globs) say whose finding it is, `scenarios` (globs) where it is
seen, `kind` what it is, `contains` what its message, rule or a site's operation holds.
Only `scenarios`, `kind` and `reason` must be given. A known finding stays in the
report; it asks for review instead of failing the run. An entry that names more than
there is does no harm, and is told when its scenarios ran without it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from sidestream.harness.finding import KINDS, Accepted, Finding, Verdict
from sidestream.reports.model import Case, Report, scenarios_of

_TEXTS = ("impl", "kernel", "kind", "contains", "reason", "reference")
_REQUIRED = ("scenarios", "kind", "reason")


class KnownFormatError(ValueError):
    """What is wrong with a list of known findings, and in which entry."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """One entry of the list.

    Attributes:
        scenarios: Globs; every scenario that shows the finding must match one.
        kind: Kind of the finding.
        reason: Why it is lived with.
        reference: Where it is told.
        impl: Glob of the implementation.
        kernel: Glob of the kernel's name in the finding.
        contains: Text that the message, the rule's id or a site's operation contains.
    """

    scenarios: tuple[str, ...]
    kind: str
    reason: str
    reference: str = ""
    impl: str = "*"
    kernel: str = "*"
    contains: str = ""

    def at(self, scenario: str) -> bool:
        """Whether the entry speaks of a scenario."""
        return any(fnmatchcase(scenario, name) for name in self.scenarios)

    def matches(self, finding: Finding, impl: str) -> bool:
        """Whether this is the finding that is meant."""
        said = (
            finding.message,
            finding.rule.id,
            *(site.operation for site in finding.sites),
        )
        return (
            finding.kind == self.kind
            and fnmatchcase(impl, self.impl)
            and fnmatchcase(finding.kernel, self.kernel)
            and all(self.at(name) for name in scenarios_of(finding))
            and any(self.contains in text for text in said)
        )

    def __str__(self) -> str:
        return f"{self.kind} in {', '.join(self.scenarios)}"


def read(path: Path) -> tuple[Known, ...]:
    """Read a list of known findings.

    Raises:
        KnownFormatError: it cannot be read, or an entry is not one; which and why.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise KnownFormatError(error.strerror or str(error)) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise KnownFormatError(str(error)) from error
    entries = raw.pop("known", None)
    if raw or not isinstance(entries, list) or not entries:
        raise KnownFormatError("write one [[known]] table for each finding")
    return tuple(
        _entry(entry, f"entry {number}") for number, entry in enumerate(entries, 1)
    )


def _entry(raw: Any, where: str) -> Known:
    if not isinstance(raw, dict):
        raise KnownFormatError(f"{where} is not a table")
    for name in _REQUIRED:
        if not raw.get(name):
            raise KnownFormatError(f"{where}: {name} is missing")
    for name, value in raw.items():
        if name == "scenarios":
            fits = isinstance(value, list) and all(isinstance(v, str) for v in value)
            if not fits:
                raise KnownFormatError(
                    f"{where}: scenarios is a list of names or globs"
                )
        elif name not in _TEXTS:
            raise KnownFormatError(
                f"{where}: {name!r} means nothing here; there are scenarios, "
                f"{', '.join(_TEXTS)}"
            )
        elif not isinstance(value, str):
            raise KnownFormatError(f"{where}: {name} is a text")
    if raw["kind"] not in KINDS:
        raise KnownFormatError(
            f"{where}: there is no kind {raw['kind']!r}; there are "
            f"{', '.join(sorted(KINDS))}"
        )
    return Known(**{**raw, "scenarios": tuple(raw["scenarios"])})


def accept(
    report: Report, entries: Sequence[Known]
) -> tuple[Report, tuple[Known, ...]]:
    """Mark the findings that are known, and let their cases ask for review.

    Returns:
        The report, and the entries whose scenarios all ran without them.
    """
    used: set[Known] = set()
    findings = []
    for finding in report.findings:
        impls = {case.impl for case in report.cases if finding.id in case.findings}
        for entry in entries:
            if impls and all(entry.matches(finding, impl) for impl in impls):
                used.add(entry)
                accepted = Accepted(reason=entry.reason, reference=entry.reference)
                finding = replace(finding, known=accepted)
                break
        findings.append(finding)
    known = {finding.id for finding in findings if finding.known}
    cases = tuple(_case(case, known) for case in report.cases)
    gone = tuple(e for e in entries if e not in used and _covered(e, report.cases))
    return replace(report, cases=cases, findings=tuple(findings)), gone


def _case(case: Case, known: set[str]) -> Case:
    if case.verdict is Verdict.FINDINGS and set(case.findings) <= known:
        return replace(case, verdict=Verdict.REVIEW)
    return case


def _covered(entry: Known, cases: Iterable[Case]) -> bool:
    ran = [case for case in cases if fnmatchcase(case.impl, entry.impl)]
    return all(any(fnmatchcase(c.scenario, n) for c in ran) for n in entry.scenarios)
