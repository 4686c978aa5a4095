"""Check a table of instructions in one launch, each against a function on integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from kernel_case import PRED, Array, evaluate
from numpy.typing import DTypeLike


@dataclass(frozen=True)
class Row:
    """One instruction, or a few.

    Attributes:
        text: PTX; `%d` is the result, `%a`, `%b`, `%c` are the inputs.
        want: The result from the inputs' patterns, all unsigned; cut to the result's
            bits. None stands for a value that PTX leaves open.
        dtype: The result's dtype, or `kernel_case.PRED`.
    """

    text: str
    want: Callable[..., int | None]
    dtype: DTypeLike = np.uint32


def check(rows: Sequence[Row], **inputs: Array) -> None:
    """Execute all rows on all inputs and compare every result."""
    body, outputs = [], {}
    for k, row in enumerate(rows):
        body.append(row.text.replace("%d", f"%out{k}"))
        outputs[f"out{k}"] = row.dtype
    got = evaluate("\n".join(body), outputs, **inputs)
    values = list(
        zip(*(unsigned(array).tolist() for array in inputs.values()), strict=True)
    )
    for k, row in enumerate(rows):
        bits = 32 if row.dtype == PRED else np.dtype(row.dtype).itemsize * 8
        results = unsigned(got[f"out{k}"]).tolist()
        for operands, result in zip(values, results, strict=True):
            want = row.want(*operands)
            if want is not None:
                want &= (1 << bits) - 1
                shown = ", ".join(f"{v:#x}" for v in operands)
                assert result == want, (
                    f"{row.text} on {shown}: got {result:#x}, want {want:#x}"
                )


def unsigned(array: Array) -> Array:
    """The patterns of an array's elements."""
    return array.view(np.dtype(f"u{array.dtype.itemsize}"))


def signed(value: int, bits: int) -> int:
    """An unsigned pattern as the two's-complement number it stands for."""
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def edges(bits: int) -> list[int]:
    """Integers at which something usually goes wrong."""
    top = 1 << (bits - 1)
    near = [0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 127, 128, 255, 256]
    near += [top - 1, top, top + 1, 2 * top - 1, 2 * top - 2, 2 * top - 32]
    near += [0x5555_5555_5555_5555 % (2 * top), 0xAAAA_AAAA_AAAA_AAAA % (2 * top)]
    near += [(1 << (bits // 2)) - 1, 1 << (bits // 2), (1 << (bits // 2 - 1))]
    return sorted({n % (2 * top) for n in near})


def operands(bits: int, seed: int, count: int = 400) -> tuple[Array, Array, Array]:
    """Every pair of edge values with some third one, then random triples."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(f"u{bits // 8}")
    edge = np.array(edges(bits), dtype)
    a, b = (g.ravel() for g in np.meshgrid(edge, edge))
    c = rng.permutation(np.resize(edge, a.size))
    random = rng.integers(0, 1 << bits, (3, count), dtype)
    return (
        np.concatenate([a, random[0]]),
        np.concatenate([b, random[1]]),
        np.concatenate([c, random[2]]),
    )
