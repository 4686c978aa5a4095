"""One tcgen05.mma in a kernel: matrices in, the product out, exact sums beside it.

Where the rows and columns of D lie is stated as the figures of PTX ISA, Data Path
Layout Organization, show it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from tcgen05_case import AT, COLUMNS, LANES, SMEM, Cells, CoreRun, commit, run
from tcgen05_layout import (
    BITS,
    DEPTH,
    NONE,
    Place,
    compact,
    in_cells,
    instruction,
    numbers,
    place,
    place_rows,
    raw,
    rows_of_bytes,
)

from sidestream.harness.exec.machine import Options

RNG = np.random.default_rng

Matrix = NDArray[np.generic]

A_AT, B_AT, D_COLUMN, A_COLUMN, SF_COLUMN = AT, AT + 16384, 0, 256, 384
"""Where the matrices start: shared memory addresses and tensor memory columns."""

UNIT = 2.0**-24
"""Half a unit in the last place of an f32 in [1, 2)."""


@dataclass(frozen=True, kw_only=True)
class Product:
    """A multiplication: operands as elements `[row][k]`, row of B = column of D.

    Attributes:
        kind: `.kind` without its prefix.
        a: Matrix A; b: Matrix B, both K-wide.
        types: Element types of A, B and D.
        group: `.cta_group`.
        ws: `.ws`.
        mode: Swizzling modes of A and B.
        mn: Whether A and B are MN-major.
        a_cells: A lies in tensor memory.
        negate: Whether A and B are negated.
        lane: Lane of D (and A) for M = 64.
        old: D before, `[cta][column][lane]` words.
        enable: The accumulator is an input.
        extra: Further fields of the instruction descriptor.
        tail: What follows the enable operand.
        mask: The lanes not written, as words.
        words: Dotted words behind the kind.
        scales: The operands that name scale factors.
        issuer: Rank of the CTA whose thread issues it.
        stored: What lies in shared memory where that is more than A or B.
        skip: Bytes from the start of what is stored to where A and B start.
        layouts: How A and B lie, where not densely; `start` counts from the usual.
        edits: Texts to replace in the statements, with their replacements.
    """

    kind: str
    a: Matrix
    b: Matrix
    types: tuple[str, str, str] = ("f16", "f16", "f32")
    group: int = 1
    ws: bool = False
    mode: tuple[int, int] = (NONE, NONE)
    mn: tuple[bool, bool] = (False, False)
    a_cells: bool = False
    negate: tuple[bool, bool] = (False, False)
    lane: int = 0
    old: Cells | None = None
    enable: bool = False
    extra: dict[str, int | bool] = field(default_factory=dict)
    tail: str = ""
    mask: Sequence[int] = ()
    words: str = ""
    scales: str = ""
    issuer: int = 0
    stored: tuple[Matrix | None, Matrix | None] = (None, None)
    skip: tuple[int, int] = (0, 0)
    edits: Sequence[tuple[str, str]] = ()
    layouts: tuple[Place | None, Place | None] = (None, None)

    @property
    def shape(self) -> tuple[int, int, int]:
        """M, N and K of the pair."""
        return len(self.a), len(self.b), self.a.shape[1]

    @property
    def packed(self) -> bool:
        """Whether 4-bit elements have no padding."""
        return self.kind in ("mxf4", "mxf4nvf4")

    def descriptor(self) -> int:
        """The instruction descriptor."""
        m, n, _ = self.shape
        fields: dict[str, int | bool] = {
            "mn_a": self.mn[0],
            "mn_b": self.mn[1],
            "negate_a": self.negate[0],
            "negate_b": self.negate[1],
        }
        a, b, d = self.types
        return instruction(self.kind, m, n, a=a, b=b, d=d, **{**fields, **self.extra})

    def positions(self) -> tuple[NDArray[np.int64], ...]:
        """CTA, column and lane of every element of D, `[m][n]`."""
        m, n, _ = self.shape
        r, c = np.meshgrid(np.arange(m), np.arange(n), indexing="ij")
        each = m // self.group
        cta, r = r // each, r % each
        if each == 128:
            return cta, D_COLUMN + c, r
        if self.ws or self.group == 2:
            part = n * each // 128
            return cta, D_COLUMN + c % part, r + each * (c // part)
        return cta, D_COLUMN + c, r // 16 * 32 + r % 16 + self.lane

    def images(self) -> tuple[NDArray[np.uint8], Cells]:
        """Shared and tensor memory before."""
        smem = np.zeros((self.group, SMEM), np.uint8)
        cells = np.zeros((self.group, COLUMNS, LANES), np.uint32)
        if self.old is not None:
            cells[:, : self.old.shape[1]] = self.old
        for g in range(self.group):
            for which, start in ((0, A_AT), (1, B_AT)):
                whole = (self.a, self.b)[which]
                part = np.array_split(whole, self.group)[g]
                if which == 0 and self.a_cells:
                    self._a_in_cells(part, cells[g])
                    continue
                self._in_smem(part, which, start, smem[g])
        return smem, cells

    def _in_smem(
        self, part: Matrix, which: int, start: int, image: NDArray[np.uint8]
    ) -> None:
        name, stored = self.types[which], self.stored[which]
        part = part if stored is None else stored
        where = self.place(which, start)
        if BITS.get(name, 8) >= 8:
            place(image, AT, where, part, name)
        else:
            place_rows(image, AT, where, rows_of_bytes(part, name, self.packed))

    def place(self, which: int, start: int) -> Place:
        """Layout of what is stored for A (0) or B (1)."""
        if (layout := self.layouts[which]) is not None:
            return replace(layout, start=start + layout.start)
        whole = (self.a, self.b)[which] if (s := self.stored[which]) is None else s
        bits = max(BITS.get(self.types[which], 8), 8)
        rows = len(whole) // self.group
        return compact(start, self.mode[which], mn=self.mn[which], rows=rows, bits=bits)

    def _a_in_cells(self, part: Matrix, cells: NDArray[np.uint32]) -> None:
        rows = np.ascontiguousarray(in_cells(part, self.types[0], self.packed))
        words = rows.view(np.uint32).reshape(len(part), 8).T
        target = cells[A_COLUMN : A_COLUMN + 8]
        if len(part) == 128:
            target[:] = words
        elif self.ws or self.group == 2:
            target[:] = np.tile(words, 128 // len(part))
        else:
            lanes = np.arange(64) // 16 * 32 + np.arange(64) % 16 + self.lane
            target[:, lanes] = words

    def body(self) -> str:
        """The statements that issue it."""
        a = f"[%t+{(self.lane << 16) + A_COLUMN}]" if self.a_cells else "%a"
        words = f".cta_group::{self.group}.kind::{self.kind}{self.words}"
        mask = ""
        if self.mask:
            mask = "{" + ", ".join(f"%m{k}" for k in range(len(self.mask))) + "}, "
        lines = [
            ".reg .b64 %a, %b; .reg .b32 %i, %t, %m<8>; .reg .pred %e;",
            f"mov.b64 %a, {self.place(0, A_AT).descriptor() + (self.skip[0] >> 4)};",
            f"mov.b64 %b, {self.place(1, B_AT).descriptor() + (self.skip[1] >> 4)};",
            f"mov.b32 %i, {self.descriptor()};\nmov.b32 %t, 0;",
            f"setp.eq.u32 %e, %t, {0 if self.enable else 1};",
            *(f"mov.b32 %m{k}, {value};" for k, value in enumerate(self.mask)),
            f"tcgen05.mma{'.ws' if self.ws else ''}{words} "
            f"[%t+{(self.lane << 16) + D_COLUMN}], {a}, %b, %i, {self.scales}{mask}%e"
            f"{self.tail};",
            commit(self.group),
        ]
        text = "\n".join(lines)
        for old, new in self.edits:
            assert old in text, old
            text = text.replace(old, new)
        return text

    def run(
        self,
        options: Options | None = None,
        *,
        columns: int = COLUMNS,
        filled: int | None = None,
        dumped: int | None = None,
    ) -> CoreRun:
        """Execute it; see `tcgen05_case.run`."""
        smem, cells = self.images()
        return run(
            self.body(),
            smem=smem,
            cells=cells,
            group=self.group,
            issuer=self.issuer,
            options=options,
            columns=columns,
            filled=filled,
            dumped=dumped,
        )

    def result(self, ran: CoreRun) -> NDArray[np.uint32]:
        """D as words, `[m][n]`."""
        return ran.cells[self.positions()]

    def before(self) -> NDArray[np.float64]:
        """The accumulator that enters the sum, of f32 words."""
        if not self.enable or self.old is None:
            return np.zeros(self.shape[:2])
        return self.images()[1][self.positions()].view(np.float32).astype(np.float64)

    def terms(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Exact values of A and B with their signs."""
        a = numbers(self.a, self.types[0]) * (-1 if self.negate[0] else 1)
        b = numbers(self.b, self.types[1]) * (-1 if self.negate[1] else 1)
        return a, b

    def exact(self) -> NDArray[np.float64]:
        """A B + D in float64."""
        a, b = self.terms()
        return a @ b.T + self.before()

    def bound(self) -> NDArray[np.float64]:
        """What K sums in f32 may be off by: K u / (1 - K u) of the terms' sizes."""
        a, b = self.terms()
        steps = self.shape[2] * UNIT
        sizes = np.abs(a) @ np.abs(b).T + np.abs(self.before())
        return steps / (1 - steps) * sizes


def depth(kind: str) -> int:
    """K of a kind."""
    return DEPTH.get(kind, 32)


def whole(seed, rows, kind, name):
    """Small integers, whose products sum without rounding."""
    values = RNG(seed).integers(-3, 4, (rows, depth(kind)))
    return raw(values, name)


def product(kind="f16", m=128, n=64, a="f16", b="f16", seed=1, **how):
    return Product(
        kind=kind,
        a=whole(seed, m, kind, a),
        b=whole(seed + 1, n, kind, b),
        types=(a, b, how.pop("d", "f32")),
        **how,
    )


def faults(case, options=None, **how):
    result = case.run(options, **how).result
    assert result.status == "done"
    return {(f.kind, f.info) for f in result.faults}
