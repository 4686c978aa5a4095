"""Verdicts and findings: what a run says, in the terms every report shares."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

KINDS = frozenset(
    {
        *("parity", "nan", "uninit-read", "out-of-bounds", "misaligned"),
        *("use-after-free", "stray-write", "cache-miss", "stale-key", "host-sync"),
        *("host-alloc", "hidden-launch", "capture", "stream-race", "allocator-race"),
        *("gmem-race", "smem-race", "dsmem-race", "tmem-race", "proxy", "tensormap"),
        *("mbarrier", "barrier", "tmem-alloc", "deadlock", "nondeterminism"),
        "contract",
    }
)
"""The kinds a finding may have. Extended over time, never renamed."""


class Verdict(IntEnum):
    """Outcome of a case or a run; the worst one wins."""

    CLEAN = 0
    REVIEW = 1
    INCOMPLETE = 2
    FINDINGS = 3

    @property
    def label(self) -> str:
        """Lower-case spelling used in reports."""
        return self.name.lower()

    @staticmethod
    def worst(verdicts: Iterable[Verdict]) -> Verdict:
        """Return the worst of `verdicts`; `CLEAN` when there is none."""
        return max(verdicts, default=Verdict.CLEAN)


EXIT_STATUS = {
    Verdict.CLEAN: 0,
    Verdict.REVIEW: 0,
    Verdict.FINDINGS: 1,
    Verdict.INCOMPLETE: 3,
}
"""Process exit status of each verdict; 2 is kept for usage errors."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The rule a finding breaks: an id and the section title or source of it."""

    id: str
    title: str


@dataclass(frozen=True, kw_only=True)
class Site:
    """One side of a finding: who did what, and where in PTX and in Python."""

    agent: str
    """For example `cta 3 warp 1 lane 7`, `stream 0x5`, `host`, `TMA`."""
    operation: str
    """For example `ld.global.v4.b32`, `aten.fill_`, `launch fwd`."""
    ptx_line: int | None = None
    source: str | None = None
    """`file.py:line` of the kernel or host source, where line info exists."""
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """Why a finding is lived with: it is known, and a report says so."""

    reason: str
    reference: str = ""
    """Where it is told: an issue, a page."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One defect, told so that an engineer can act on it without re-running."""

    kind: str
    rule: Rule
    message: str
    kernel: str = ""
    scenario: str = ""
    sites: tuple[Site, ...] = ()
    need: str = ""
    """What would put it right: the missing ordering, bound, write or key."""
    witness: tuple[str, ...] = ()
    replay: str = ""
    """One command that shows the finding again."""
    count: int = 1
    """How many occurrences were folded into this one."""
    known: Accepted | None = None
    """Set where a list of known findings names it; not part of the id."""
    extra: dict[str, Any] = field(default_factory=dict)
    """More facts. `wrong`, where there is one, tells apart defects of one rule at one
    place and is part of the id."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown finding kind {self.kind!r}")

    @property
    def id(self) -> str:
        """Stable hash of what the finding is, not of when it was seen."""
        parts = [self.kind, self.rule.id, self.kernel]
        parts += [f"{s.operation}@{s.source or s.ptx_line}" for s in self.sites]
        if not self.sites:
            parts.append(self.message)
        if "wrong" in self.extra:
            parts.append(f"wrong {self.extra['wrong']}")
        return hashlib.sha256("|".join(parts).encode()).hexdigest()[:12]


@dataclass(frozen=True, kw_only=True)
class Incomplete:
    """Why a run could not be judged: an unsupported effect, a budget, an abort."""

    reason: str
    kernel: str = ""
    scenario: str = ""
    ptx_line: int | None = None
