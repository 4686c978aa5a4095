"""What one execute call left behind: the facts that checks are functions of."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidestream.harness.finding import Finding, Incomplete

Bits = NDArray[np.uint16] | NDArray[np.uint8]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class LaunchSeen:
    """One kernel launch of the call: its entry and the handle it was enqueued on."""

    kernel: str
    stream: int


@dataclass(frozen=True, kw_only=True)
class Execution:
    """One execute call on one device.

    Attributes:
        label: What set this call apart, for messages: e.g. `scratch zeros`.
        out: Bits of O (capacity_q, heads_q, head_dim_v) afterwards.
        lse: LSE (capacity_q, heads_q) in float32 afterwards, or None.
        amax: Largest |O| in float32 (1,) afterwards, or None.
        written: By tensor that the caller owns, one flag a byte that was written or
            changed. Tensors without an entry were not watched.
        findings: Defects that the device saw.
        harmless: Reads of what nothing wrote whose values reach no global memory.
        incomplete: Why the device could not judge the call.
        finished: Whether every launch ran to its end.
        launches: In order.
        error: What execute raised, or None.
        warp_instructions: Executed by all launches.
        counted: By launch that ran with the cost model, what the device counted.
        profile: Under which races were looked for, or None if they were not.
        relaxed: How often each relaxation of the profile decided something.
    """

    label: str
    out: Bits
    lse: NDArray[np.float32] | None
    amax: NDArray[np.float32] | None = None
    written: Mapping[str, Mask] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    harmless: tuple[Finding, ...] = ()
    incomplete: tuple[Incomplete, ...] = ()
    finished: bool = True
    launches: tuple[LaunchSeen, ...] = ()
    error: str | None = None
    warp_instructions: int = 0
    counted: tuple[Any, ...] = ()
    profile: str | None = None
    relaxed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Which query rows belong to which sequence.

    Attributes:
        owner: (capacity_q,) sequence of each row, -1 for rows past the live total.
        first: (batch,) first row of each sequence.
    """

    owner: NDArray[np.int64]
    first: NDArray[np.int64]

    @property
    def live(self) -> Mask:
        """(capacity_q,): rows inside a sequence."""
        return np.asarray(self.owner >= 0)

    def of(self, sequences: Collection[int]) -> Mask:
        """(capacity_q,): rows of some sequences."""
        chosen = np.zeros(len(self.first) + 1, np.bool_)  # the last: rows of none
        chosen[list(sequences)] = True
        return np.asarray(chosen[self.owner])

    def spell(self, row: int) -> str:
        """Name a row by its sequence: `row 5 of sequence 2 (token 37)`."""
        sequence = int(self.owner[row])
        if sequence < 0:
            return f"token {row}, past the live total of {int(self.live.sum())}"
        within = row - int(self.first[sequence])
        return f"row {within} of sequence {sequence} (token {row})"


def rows_of(lengths: tuple[int, ...], capacity: int) -> Rows:
    """Return the rows of sequences packed from token 0."""
    owner = np.full(capacity, -1, np.int64)
    total = sum(lengths)
    owner[:total] = np.repeat(np.arange(len(lengths)), lengths)
    first = np.cumsum([0, *lengths[:-1]]).astype(np.int64)
    return Rows(owner=owner, first=first)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Two results that should be bitwise equal and are not.

    Attributes:
        output: `O`, `LSE` or `amax`.
        at: Index of the first element that differs; none for a scalar.
        number: Elements that differ.
    """

    output: str
    at: tuple[int, ...]
    number: int


def difference(
    a: Execution, b: Execution, rows: Mask, *, amax: bool = True
) -> Difference | None:
    """Compare two results bit by bit in the given rows; None if they are equal.

    Executions that share their arrays were shown to be equal where they were made. The
    largest output is one of all rows: without `amax` it is left out.
    """
    if a.out is b.out and a.lse is b.lse and a.amax is b.amax:
        return None
    pairs: list[tuple[str, NDArray[Any], NDArray[Any]]] = [("O", a.out, b.out)]
    if a.lse is not None and b.lse is not None:
        pairs.append(("LSE", a.lse.view(np.uint32), b.lse.view(np.uint32)))
    for output, one, two in pairs:
        if one.shape != two.shape:
            return Difference(output=output, at=(0,), number=max(one.size, two.size))
        off = (one != two) & rows.reshape(-1, *([1] * (one.ndim - 1)))
        if off.any():
            at = np.unravel_index(int(np.argmax(off)), off.shape)
            return Difference(
                output=output, at=tuple(int(i) for i in at), number=int(off.sum())
            )
    if amax and a.amax is not None and b.amax is not None:
        differs = a.amax.view(np.uint32) != b.amax.view(np.uint32)
        if differs.any():
            return Difference(output="amax", at=(), number=1)
    return None


def place(difference: Difference, rows: Rows) -> str:
    """Spell where two results part."""
    if not difference.at:
        return difference.output
    token, *rest = difference.at
    names = ("head", "column")
    parts = [f"{n} {i}" for n, i in zip(names, rest, strict=False)]
    return f"{difference.output} at {rows.spell(token)}, {', '.join(parts)}"
