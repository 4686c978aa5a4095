"""Cache: compiled once at plan time, for any totals, and never for another contract."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from sidestream.harness.checks.outcome import CheckOutcome, judged, passed
from sidestream.harness.finding import Finding, Rule, Site

NAME = "cache"
MISS = Rule(
    id="cache.totals",
    title="Equal declarations share one compilation, whatever the packed totals are",
)
LATE = Rule(id="cache.plan", title="Everything is compiled at plan time")
STALE = Rule(
    id="cache.contract",
    title="Declarations that differ in a contract bit share no compiled call",
)


@dataclass(frozen=True, kw_only=True)
class Compilations:
    """How often the compiler ran, by the step that made it run.

    Attributes:
        planning: While the case was planned first.
        before: Name of an earlier case with an equal declaration, or "".
        again: While it was planned a second time with an equal declaration.
        executing: During execute calls.
        other_totals: Planning and calling with other lengths and capacities.
        functions: Host functions that were compiled, for the message.
        plans_ahead: Whether the implementation compiles at plan time; those without
            a plan of their own compile in their first call.
        hits: What the implementation's own cache counted for the second plan, or
            None if it does not tell.
    """

    planning: int
    before: str
    again: int
    executing: int
    other_totals: int
    functions: tuple[str, ...] = ()
    plans_ahead: bool = True
    hits: int | None = None


@dataclass(frozen=True, kw_only=True)
class Variation:
    """A declaration that differs in one contract bit.

    Attributes:
        bit: The bit and its values: `causal none -> top_left`.
        same_key: Whether both declarations have one compile key.
        same_launches: Whether both calls launch the same code with the same
            arguments, addresses aside; only looked at if the key is the same.
    """

    bit: str
    same_key: bool
    same_launches: bool = False


@dataclass(kw_only=True)
class Seen:
    """Declarations that this process has compiled for, by the case that was first."""

    first: dict[Hashable, str] = field(default_factory=dict)

    def note(self, declaration: Mapping[str, object], scenario: str) -> str:
        """Return the earlier scenario of an equal declaration, or "" the first time."""
        key = tuple(sorted((name, repr(value)) for name, value in declaration.items()))
        return (
            "" if self.first.setdefault(key, scenario) == scenario else self.first[key]
        )


def check(
    seen: Compilations,
    variations: Sequence[Variation] | None,
    *,
    kernel: str,
    unequal: Sequence[Finding] = (),
) -> CheckOutcome:
    """Judge compilations and compile keys.

    Args:
        seen: Compiler runs of the case.
        variations: Declarations one contract bit away, or None if the implementation
            does not tell its compile key.
        kernel: For the findings.
        unequal: Compilations that were asked for alike and made different PTX.
    """
    findings = [*unequal]
    names = ", ".join(dict.fromkeys(seen.functions)) or "a host function"
    for number, step in (
        (seen.planning if seen.before else 0, f"for the declaration of {seen.before}"),
        (seen.again, "for a second plan of the same declaration"),
        (seen.other_totals, "for other totals under the same declaration"),
    ):
        if number:
            findings.append(
                _finding("cache-miss", MISS, f"{names} compiled again {step}", kernel)
            )
            break
    if seen.executing and seen.plans_ahead:
        findings.append(
            _finding(
                "cache-miss",
                LATE,
                f"{seen.executing} compilations during execute ({names})",
                kernel,
            )
        )
    if seen.hits == 0:
        findings.append(
            _finding("cache-miss", MISS, "a second plan is no cache hit", kernel)
        )
    stale = [v for v in variations or () if v.same_key and v.same_launches]
    findings += [
        _finding(
            "stale-key",
            STALE,
            f"plans that differ in {v.bit} share a compile key and the whole launch",
            kernel,
        )
        for v in stale
    ]
    if findings:
        return judged(NAME, findings, "")
    bits = (
        "the compile key is not told"
        if variations is None
        else f"{len(variations)} contract bits told apart"
    )
    return passed(NAME, f"{seen.planning + seen.executing} compilations; {bits}")


def _finding(kind: str, rule: Rule, message: str, kernel: str) -> Finding:
    need = {
        "cache-miss": "a compile key of plan-time facts alone, and symbolic totals",
        "stale-key": "the bit in the compile key, or in the launch's arguments",
    }[kind]
    return Finding(
        kind=kind,
        rule=rule,
        message=message,
        kernel=kernel,
        sites=(
            Site(agent="host", operation="plan", detail=message),
            Site(agent="compiler", operation=rule.id),
        ),
        need=need,
    )
