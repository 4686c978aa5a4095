"""Parity: every output is within its bound of attention in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidestream.harness.checks.observation import Mask, Rows
from sidestream.harness.checks.outcome import CheckOutcome, judged
from sidestream.harness.finding import Finding, Rule, Site
from sidestream.reference.parity import Parity, amax_range, compare
from sidestream.reference.tolerance import Bound

NAME = "parity"
RULE = Rule(
    id="parity",
    title="Outputs lie within the bound that input type and term sizes give",
)
NAN_RULE = Rule(
    id="parity.nan", title="Finite inputs of a sequence give finite outputs of it"
)
AMAX_RULE = Rule(
    id="parity.amax",
    title="The largest output is that of this call's live rows, unscaled, without NaN",
)
_NEED = (
    "the masks, bounds and lengths of this row's own sequence, and accumulation in fp32"
)
_NAN_NEED = "a bound at the sequence's own last row before K, V or scores are used"


@dataclass(frozen=True, kw_only=True)
class Result:
    """What the kernel computed, as numbers.

    Attributes:
        out: O (capacity_q, heads_q, head_dim_v) in any float type.
        lse: LSE (capacity_q, heads_q), or None.
        unwritten: (capacity_q, heads_q, head_dim_v): elements that still hold what was
            there before the call.
        amax: Largest |O| before its factor and rounding, or None.
    """

    out: NDArray[Any]
    lse: NDArray[Any] | None
    unwritten: Mask
    amax: float | None = None


def check(
    bounds: Bound, result: Result, *, rows: Rows, judge: Mask, kernel: str
) -> tuple[CheckOutcome, Parity]:
    """Compare `result` with the reference.

    Args:
        bounds: Reference and admissible errors of the problem.
        result: What came out.
        rows: Sequences of the rows, for messages.
        judge: (capacity_q,): rows to compare.
        kernel: For the findings.

    Returns:
        The outcome, and the distances for the report.
    """
    parity = compare(
        bounds, out=result.out, lse=result.lse, amax=result.amax, rows=judge
    )
    findings = []
    if parity.out > 1.0:
        findings.append(
            _finding(
                "O",
                np.asarray(result.out, np.float64),
                bounds.reference.out,
                bounds.out,
                parity.out_at,
                judge=judge,
                rows=rows,
                kernel=kernel,
                unwritten=result.unwritten,
            )
        )
    if result.lse is not None and parity.lse is not None and parity.lse > 1.0:
        findings.append(
            _finding(
                "LSE",
                np.asarray(result.lse, np.float64),
                bounds.reference.lse,
                bounds.lse,
                parity.lse_at or (0, 0),
                judge=judge,
                rows=rows,
                kernel=kernel,
                unwritten=None,
            )
        )
    if result.amax is not None and parity.amax is not None and parity.amax > 1.0:
        findings.append(_amax(result.amax, amax_range(bounds, judge), kernel=kernel))
    what = f"worst error {parity.worst:.2f} of the bound, {int(judge.sum())} rows"
    return judged(NAME, findings, what), parity


def _amax(actual: float, limits: tuple[float, float, float], *, kernel: str) -> Finding:
    low, expected, high = limits
    return Finding(
        kind="parity",
        rule=AMAX_RULE,
        message=(
            f"amax is {actual:.6g}, expected {expected:.6g}, from {low:.6g} to "
            f"{high:.6g}"
        ),
        kernel=kernel,
        sites=(Site(agent="kernel", operation="result amax"),),
        need=(
            "a reset in every call, and the maximum over live rows alone, before the "
            "output is scaled and rounded"
        ),
        extra={"value": float(actual), "expected": expected, "range": [low, high]},
    )


def _finding(
    output: str,
    actual: NDArray[np.float64],
    expected: NDArray[np.float64],
    limit: NDArray[np.float64],
    at: tuple[int, ...],
    *,
    judge: Mask,
    rows: Rows,
    kernel: str,
    unwritten: Mask | None,
) -> Finding:
    chosen = judge.reshape(-1, *([1] * (actual.ndim - 1)))
    bad_nan = np.isnan(actual) & ~np.isnan(expected) & chosen
    with np.errstate(invalid="ignore"):
        off = chosen & ~(actual == expected) & ~(np.abs(actual - expected) <= limit)
    if bad_nan.any():
        first = np.unravel_index(int(np.argmax(bad_nan)), bad_nan.shape)
        at = tuple(int(i) for i in first)
    row, head = at[0], at[1]
    where = f"{output} at {rows.spell(row)}, head {head}"
    if len(at) > 2:
        where += f", column {at[2]}"
    never = unwritten is not None and bool(unwritten[at])
    value = "was never written" if never else f"is {actual[at]:.6g}"
    wrong_rows = np.flatnonzero(off.reshape(off.shape[0], -1).any(axis=1))
    owners = sorted({int(o) for o in rows.owner[wrong_rows]})
    message = (
        f"{where} {value}, expected {expected[at]:.6g} within {limit[at]:.3g}; "
        f"{int(off.sum())} of {int(chosen.sum()) * off[0].size} elements are off, in "
        f"{len(wrong_rows)} rows of {len(owners)} sequences"
    )
    nan = bool(bad_nan.any()) and not never
    return Finding(
        kind="nan" if nan else "parity",
        rule=NAN_RULE if nan else RULE,
        message=message,
        kernel=kernel,
        sites=(Site(agent="kernel", operation=f"result {output}", detail=where),),
        need=_NAN_NEED if nan else _NEED,
        witness=tuple(
            f"{output} at {rows.spell(int(r))}: "
            f"{int(off[r].sum())} of {off[r].size} elements are off"
            for r in wrong_rows[:8]
        ),
        extra={
            "at": list(at),
            "value": float(actual[at]),
            "expected": float(expected[at]),
            "bound": float(limit[at]),
            "elements": int(off.sum()),
            "sequences": owners[:64],
        },
    )
