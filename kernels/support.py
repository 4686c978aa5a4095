"""What the kernels serve, asked of the plans: a row for each target and head dims.

Nothing here states that a combination is served. Every cell is the answer of the check
that `plan` makes, so that the table cannot differ from what a caller meets.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, get_args

from sidestream.kernels.common.config import element_bytes
from sidestream.kernels.errors import PlanError
from sidestream.kernels.spec import (
    Arch,
    AttentionSpec,
    Causal,
    DType,
    LengthForm,
    LseLayout,
    check_spec,
)

HEAD_DIMS = ((64, 64), (128, 128), (192, 128), (256, 256), (512, 512))
"""Of queries and keys, and of values."""


def _each(field: str, kind: Any) -> tuple[dict[str, Any], ...]:
    return tuple({field: value} for value in get_args(kind))


def _outputs(dtype: str) -> tuple[dict[str, Any], ...]:
    """Spell the declarations of an input type, with every output type it may have."""
    if element_bytes(dtype) == 2:
        return ({"dtype": dtype},)
    return tuple({"dtype": dtype, "out_dtype": out} for out in get_args(DType))


def _scaled() -> tuple[dict[str, Any], ...]:
    """Spell those of block-scaled inputs of either type."""
    narrow = [dtype for dtype in get_args(DType) if element_bytes(dtype) == 1]
    return tuple(
        facts | {"block_scaled": True} for dtype in narrow for facts in _outputs(dtype)
    )


FEATURES: Mapping[str, tuple[dict[str, Any], ...]] = MappingProxyType(
    {
        **{dtype: _outputs(dtype) for dtype in get_args(DType)},
        "MXFP8": _scaled(),
        "MHA, GQA, MQA": (
            {"heads_q": 4, "heads_kv": 4},
            {"heads_q": 4, "heads_kv": 2},
            {"heads_q": 3, "heads_kv": 1},
        ),
        "causal": _each("causal", Causal),
        "window": tuple(
            {"window_left": left, "window_right": right, "anchor": anchor}
            for left, right in ((5, None), (None, 5), (5, 5))
            for anchor in ("top_left", "bottom_right")
        ),
        "sinks": ({"sinks": True},),
        "LSE": _each("lse", LseLayout),
        "lengths": tuple(
            {"lengths_q": q, "lengths_kv": kv}
            for q, kv in itertools.product(get_args(LengthForm), repeat=2)
        ),
        "scale": ({"scale": 0.3}, {"scale": -0.3}),
    }
)
"""What a caller may ask for, with the declarations that a plan has to accept."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A target at one pair of head dims, and which of `FEATURES` it serves."""

    arch: str
    head_dims: tuple[int, int]
    served: Mapping[str, bool]


def _accepted(spec: AttentionSpec) -> bool:
    try:
        check_spec(spec)
    except PlanError:
        return False
    return True


def plain(arch: Arch, dims: tuple[int, int]) -> AttentionSpec:
    """Return a declaration of bfloat16 with no feature, at (head_dim, head_dim_v)."""
    return AttentionSpec(
        dtype="bfloat16",
        batch=2,
        heads_q=2,
        heads_kv=1,
        head_dim=dims[0],
        head_dim_v=dims[1],
        max_len_q=300,
        max_len_kv=300,
        arch=arch,
    )


def matrix() -> list[Row]:
    """Ask for every feature on every target, at each of `HEAD_DIMS`."""
    rows = []
    for arch, dims in itertools.product(get_args(Arch), HEAD_DIMS):
        base = plain(arch, dims)
        served = {
            name: all(_accepted(replace(base, **changes)) for changes in asked)
            for name, asked in FEATURES.items()
        }
        rows.append(Row(arch=arch, head_dims=dims, served=MappingProxyType(served)))
    return rows


def spell_dims(dims: tuple[int, int]) -> str:
    """Spell head dims as names of scenarios do: `d64`, `d192x128`."""
    return f"d{dims[0]}" if dims[0] == dims[1] else f"d{dims[0]}x{dims[1]}"


def table() -> list[str]:
    """Return the matrix as lines of a Markdown table, without rows of nothing."""
    lines = [
        f"| target | head dims | {' | '.join(FEATURES)} |",
        "|---" * (len(FEATURES) + 2) + "|",
    ]
    for row in matrix():
        if not any(row.served.values()):
            continue
        cells = ("yes" if row.served[name] else "no" for name in FEATURES)
        spelled = f"{row.arch} | {spell_dims(row.head_dims)}"
        lines.append(f"| {spelled} | {' | '.join(cells)} |")
    return lines
