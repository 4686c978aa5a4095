"""What a card complains about: the call under way, and the context that dies of it.

An address that is not there, an assertion or a trap in a kernel end the CUDA context:
every later use of the card by this process fails, until the process ends. So the first
error is kept with the call that was under way, and the process with the case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from sidestream.harness.checks import (
    bounds,
    cache,
    determinism,
    execution,
    host_sync,
    parity,
    races,
    replay,
    scratch,
    streams,
)
from sidestream.harness.checks.observation import Execution, LaunchSeen
from sidestream.harness.checks.outcome import FAILED, CheckOutcome, judged, not_run
from sidestream.harness.errors import SidestreamError
from sidestream.harness.finding import Finding, Rule, Site
from sidestream.harness.launch import Launch

RULE = Rule(
    id="device.no-error",
    title="CUDA Runtime API, error handling: work that is given to the device ends "
    "without an error; some errors leave the process unable to use the device",
)
_PREFIX = "CUDA error"
_CAPTURING = "captur"
"""In the texts of errors about a capture, which end with it."""
_CHECKS = (
    *(parity, execution, bounds, scratch, races, determinism, host_sync, streams),
    *(replay, cache),
)
_died: list[str] = []
"""In what the context of this process died: one entry, or none."""


def told(error: BaseException) -> str:
    """Spell what the card or a library complains about in one line."""
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}"


def is_cuda_error(error: BaseException) -> bool:
    """Tell whether torch raised this for an error of the CUDA runtime."""
    known = getattr(torch, "AcceleratorError", None)  # not in every torch
    if known is not None and isinstance(error, known):
        return True
    return isinstance(error, RuntimeError) and str(error).startswith(_PREFIX)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """The first error of a card in a case.

    Attributes:
        label: The call that was under way.
        complaint: What the card says, in one line.
        kernels: Launches seen in that call, in order.
    """

    label: str
    complaint: str
    kernels: tuple[str, ...]

    @property
    def text(self) -> str:
        """Say what happened in one line."""
        return f"the card failed in the call with {self.label}: {self.complaint}"

    def finding(self, kernel: str) -> Finding:
        """Return the finding on it."""
        seen = ", ".join(self.kernels) or "none"
        return Finding(
            kind="contract",
            rule=RULE,
            message=f"{self.text}; launches seen in it: {seen}",
            kernel=self.kernels[-1] if self.kernels else kernel,
            sites=(
                Site(agent="device", operation=f"launch {self.kernels[-1]}")
                if self.kernels
                else Site(agent="host", operation=f"execute: {self.label}"),
            ),
            need="kernels that touch only what they are given; the virtual GPU names "
            "the instruction: --device vgpu",
        )


class UnderWay:
    """The call that the card is busy with, and the first error that it told of."""

    def __init__(self) -> None:
        self.fault: Fault | None = None
        """The first error, or None."""
        self._label = "the plan"
        self._launches: Sequence[Launch | LaunchSeen] = ()

    def begin(self, label: str, launches: Sequence[Launch | LaunchSeen] = ()) -> None:
        """Take note of a call; `launches` may grow while it is made."""
        self._label, self._launches = label, launches

    def raised(self, error: BaseException, *, label: str = "") -> str:
        """Keep an error, if it is the first one of the card; spell it in one line.

        Args:
            error: What was raised.
            label: The call that it belongs to, if not the one that began last.
        """
        if is_cuda_error(error):
            self.complained(told(error), label=label)
        return told(error)

    def complained(self, complaint: str, *, label: str = "") -> None:
        """Keep what the card says, if it is the first time."""
        if self.fault is None:
            kernels = tuple(one.kernel for one in self._launches)
            label = label or self._label
            self.fault = Fault(label=label, complaint=complaint, kernels=kernels)


def lasting(wait: Callable[[], None]) -> str:
    """Return what a card complains about however often it is waited for, or ""."""
    said = ""
    for _ in range(2):  # an error that does not last is told once
        said = ""
        try:
            wait()
        except RuntimeError as raised:
            if is_cuda_error(raised) and _CAPTURING not in str(raised):
                said = told(raised)
    return said


def bury(where: str) -> None:
    """Take note that the CUDA context of this process is dead, and in what it died."""
    if not _died:
        _died.append(where)


def death() -> str:
    """Say that the context of this process has died and in what, or ""."""
    if not _died:
        return ""
    return (
        f"the CUDA context of this process died in {_died[0]}: a new process is needed"
    )


def refuse_dead() -> None:
    """Let nothing begin on a dead context.

    Raises:
        SidestreamError: it has died, and in what.
    """
    if _died:
        raise SidestreamError(death())


def outcomes(
    fault: Fault, made: Sequence[CheckOutcome], runs: Sequence[Execution], kernel: str
) -> list[CheckOutcome]:
    """Judge a case in which the card failed.

    Args:
        fault: The error.
        made: Outcomes from before; those with findings stay.
        runs: Calls from before; what else they raised stays.
        kernel: For the findings.
    """
    kept = {one.name: one for one in made if one.status == FAILED}
    others = [run for run in runs if _PREFIX not in (run.error or "")]
    before = execution.check(others, kernel=kernel).findings if others else ()
    kept[execution.NAME] = judged(
        execution.NAME, [fault.finding(kernel), *before], fault.text
    )
    return [
        kept.get(check.NAME) or not_run(check.NAME, fault.text) for check in _CHECKS
    ]
