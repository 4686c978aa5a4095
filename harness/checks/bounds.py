"""Bounds: a call touches the rows of live sequences, and each sequence its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sidestream.harness.checks.observation import (
    Execution,
    Mask,
    Rows,
    difference,
    place,
)
from sidestream.harness.checks.outcome import CheckOutcome, judged, not_run
from sidestream.harness.finding import Finding, Rule, Site

NAME = "bounds"
KINDS = frozenset({"out-of-bounds", "misaligned", "use-after-free", "stray-write"})
"""Findings of the device that fail this check."""
OUTSIDE = Rule(
    id="bounds.rows",
    title="Rows past the live total, gaps between rows and inputs stay untouched",
)
NEIGHBOUR = Rule(
    id="bounds.neighbour",
    title="The rows of a sequence depend on its own Q, K and V alone",
)


@dataclass(frozen=True, kw_only=True)
class Isolation:
    """A run in which the inputs of some sequences were changed."""

    changed: frozenset[int]
    run: Execution


def check(
    runs: Sequence[Execution],
    *,
    allowed: Mapping[str, Mask],
    spell: Callable[[str, int], str],
    broken_guards: Sequence[tuple[str, int]],
    isolations: Sequence[Isolation],
    rows: Rows,
    kernel: str,
) -> CheckOutcome:
    """Judge what a call wrote, and what the rows of a sequence depend on.

    Args:
        runs: Every call of the case, whose faults and writes count here; the first
            one is the base.
        allowed: By tensor, the bytes it may write; a watched tensor that is absent
            may not be written at all.
        spell: Names the place of a byte of a tensor.
        broken_guards: Tensors whose surroundings were written, with the offset.
        isolations: Runs to compare with the base: rows of sequences that were not
            changed must have the same bits.
        rows: Sequences of the rows.
        kernel: For the findings.
    """
    base = runs[0]
    faults = {f.id: f for r in reversed(runs) for f in r.findings if f.kind in KINDS}
    findings = list(faults.values())
    strayed: set[str] = set()
    for run in runs:
        if run is not base and run.written is base.written:
            continue
        for name, written in run.written.items():
            stray = written & ~allowed[name] if name in allowed else written
            if name not in strayed and stray.any():
                strayed.add(name)
                where = np.flatnonzero(stray)
                when = "" if run is base else f" in {run.label}"
                findings.append(_stray(name, where, when, spell, kernel))
    for name, offset in broken_guards:
        side = "before" if offset < 0 else "behind"
        findings.append(
            Finding(
                kind="stray-write",
                rule=OUTSIDE,
                message=f"the guard {side} {name} was overwritten at byte {offset}",
                kernel=kernel,
                sites=(Site(agent="kernel", operation=f"store around {name}"),),
                need="stores that stay inside the tensor",
            )
        )
    broken = not base.finished or any(not i.run.finished for i in isolations)
    if broken and not findings:
        return not_run(NAME, "a call was not finished")
    for isolation in () if broken else isolations:
        others = rows.live & ~rows.of(isolation.changed)
        off = difference(base, isolation.run, others, amax=False)
        if off is not None:
            findings.append(
                Finding(
                    kind="stray-write",
                    rule=NEIGHBOUR,
                    message=(
                        f"{place(off, rows)} changed with the inputs of other "
                        f"sequences; {off.number} elements changed"
                    ),
                    kernel=kernel,
                    sites=(Site(agent="kernel", operation=f"result {off.output}"),),
                    need="loads and stores bounded by the sequence, not by the tile",
                )
            )
            break
    watched = ", ".join(base.written) or "nothing but faults"
    what = f"watched {watched}; {len(isolations)} isolation runs"
    return judged(NAME, findings, what)


def _stray(
    name: str,
    where: np.ndarray,
    when: str,
    spell: Callable[[str, int], str],
    kernel: str,
) -> Finding:
    first, last = int(where[0]), int(where[-1])
    return Finding(
        kind="stray-write",
        rule=OUTSIDE,
        message=(
            f"{len(where)} bytes of {name} were written that the call must not touch"
            f"{when}, from {spell(name, first)} to {spell(name, last)}"
        ),
        kernel=kernel,
        sites=(
            Site(
                agent="kernel",
                operation=f"store to {name}",
                detail=f"bytes {first} to {last}",
            ),
        ),
        need="stores predicated by the live rows and by the row's own width",
        extra={"bytes": len(where), "first": first},
    )
