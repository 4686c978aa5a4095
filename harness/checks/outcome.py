"""What a check says: passed, failed with findings, or not run with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sidestream.harness.finding import Finding

PASSED, FAILED, NOT_RUN = "passed", "failed", "not-run"


@dataclass(frozen=True, kw_only=True)
class CheckOutcome:
    """The outcome of one check of one case.

    Use `passed`, `failed` and `not_run` to make one: a failed check has findings, one
    that was not run has a reason.
    """

    name: str
    status: str
    reason: str
    findings: tuple[Finding, ...] = ()
    asked: bool = True
    """Whether it counts that it was not run."""

    def with_findings(self, more: Sequence[Finding]) -> CheckOutcome:
        """Return it with more findings, unless it was not run."""
        if self.status == NOT_RUN or not more:
            return self
        return judged(self.name, [*self.findings, *more], self.reason)


def passed(name: str, reason: str) -> CheckOutcome:
    """The check held; `reason` says what was looked at."""
    return CheckOutcome(name=name, status=PASSED, reason=reason)


def not_run(name: str, reason: str) -> CheckOutcome:
    """The check could not be made."""
    return CheckOutcome(name=name, status=NOT_RUN, reason=reason)


def not_asked(name: str, reason: str) -> CheckOutcome:
    """The check was not to be made, which leaves nothing open."""
    return CheckOutcome(name=name, status=NOT_RUN, reason=reason, asked=False)


def judged(name: str, findings: list[Finding], otherwise: str) -> CheckOutcome:
    """Failed with `findings`, or passed because of `otherwise` if there are none."""
    if not findings:
        return passed(name, otherwise)
    more = f" and {len(findings) - 1} more" if len(findings) > 1 else ""
    return CheckOutcome(
        name=name,
        status=FAILED,
        reason=f"{findings[0].kind}: {findings[0].message}{more}",
        findings=tuple(findings),
    )
