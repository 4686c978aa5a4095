"""Calls whose operands reach past 2^31 elements, with few rows that are used.

A case is a small call of `catalogue_each`'s declarations, laid out with huge strides,
with the largest capacity, or at the end of that capacity. The last takes the forward
launch alone, as it would be after 2^29 tokens of other sequences: its work list is
written by hand. `harness/run/far_call.py` runs them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidestream.kernels.common.worklist import HEADER_WORDS
from sidestream.kernels.spec import MAX_TOKENS
from sidestream.scenarios.catalogue_each import SHAPES, WINDOWED
from sidestream.scenarios.catalogue_wide import PACKED
from sidestream.scenarios.declaration import FLOAT8
from sidestream.scenarios.layout import View
from sidestream.scenarios.scenario import Scenario

WRAPPED_TO_DENSE = 1 << 32
"""Added to a dense token stride, it leaves that stride in the low 32 bits."""
MOST = MAX_TOKENS - 1
"""Tokens of the largest capacity."""


@dataclass(frozen=True, kw_only=True)
class Far:
    """A small call, and where its rows lie.

    Attributes:
        scenario: The call; its name is the case's.
        token_stride: Of Q, K, V and O in elements; None is as near as heads allow.
        head_stride: Likewise, and of a head-major LSE; None is dense.
        capacity: Tokens of every operand; None has room for the live ones only.
        at_end: Whether the rows are the last of the capacity, not the first.
    """

    scenario: Scenario
    token_stride: int | None = None
    head_stride: int | None = None
    capacity: int | None = None
    at_end: bool = False


def far(shape: str, name: str) -> str:
    """Return the full name of a case."""
    return f"far-{shape}-{name}"


def _of(shape: str) -> tuple[Far, ...]:
    """Return the cases of one shape."""
    dims = SHAPES[shape]
    narrow = {"out_dtype": FLOAT8, "scale_out": 40.0} if "dtype" in dims else {}

    def call(name: str, description: str, shared: Any, **facts: Any) -> Scenario:
        return Scenario(
            name=far(shape, name), description=description, **(shared | dims | facts)
        )

    nine = {"lengths_q": (4, 5), "lengths_kv": (6, 3), "heads_q": 2, "heads_kv": 2}
    width = dims["head_dim"] * 2
    return (
        Far(
            scenario=call(
                "strides", "Token strides past 2^32 elements.", PACKED, **nine
            ),
            token_stride=WRAPPED_TO_DENSE + width,
        ),
        Far(
            scenario=call(
                "below-edge", "The last element lies below 2^31.", PACKED, **nine
            ),
            token_stride=2**28 - 128,
        ),
        Far(
            scenario=call(
                "past-edge", "The last token starts at 2^31.", PACKED, **nine
            ),
            token_stride=2**28,
        ),
        Far(
            scenario=call(
                "heads",
                "Head strides of 2^30 elements, four heads, LSE as well.",
                WINDOWED | {"lse_slack": 0} | narrow,
                heads_q=4,
                heads_kv=4,
                lengths_q=(2, 3),
                lengths_kv=(3, 2),
            ),
            head_stride=2**30,
        ),
        Far(
            scenario=call(
                "capacity", "As much capacity as a plan allows.", PACKED, **nine
            ),
            capacity=MOST,
        ),
        Far(
            scenario=call(
                "late",
                "The last tokens of the largest capacity, with eight heads.",
                PACKED,
                lengths_q=(20, 3),
                lengths_kv=(70, 9),
                heads_q=8,
                heads_kv=2,
            ),
            capacity=MOST,
            at_end=True,
        ),
    )


FAR: tuple[Far, ...] = tuple(case for shape in SHAPES for case in _of(shape))


def by_name(name: str) -> Far:
    """Return the case called `name`.

    Raises:
        KeyError: there is none.
    """
    return {case.scenario.name: case for case in FAR}[name]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the live rows of an operand lie.

    Attributes:
        view: They alone; its offset is that of the first.
        capacity: Tokens of the operand, the live ones among them.
        span: Elements from the operand's first to its last.
        reach: Offset of the last element that is used.
    """

    view: View
    capacity: int
    span: int
    reach: int


def places(case: Far) -> dict[str, Place]:
    """Return the places of `q`, `k`, `v`, `out` and, if there is one, `lse`."""
    call = case.scenario
    tokens = {"q": call.total_q, "k": call.total_kv, "v": call.total_kv}
    tokens |= {"out": call.total_q}
    inner: dict[str, tuple[int, ...]] = {
        "q": (call.heads_q, call.head_dim),
        "k": (call.heads_kv, call.head_dim),
        "v": (call.heads_kv, call.width_v),
        "out": (call.heads_q, call.width_v),
    }
    if call.lse != "none":
        tokens["lse"], inner["lse"] = call.total_q, (call.heads_q,)
    return {name: _place(case, name, tokens[name], inner[name]) for name in inner}


def _place(case: Far, name: str, tokens: int, inner: tuple[int, ...]) -> Place:
    capacity = case.capacity or tokens
    first = capacity - tokens if case.at_end else 0
    strides: tuple[int, ...] = (inner[0], 1)
    if name != "lse":
        head = case.head_stride or inner[1]
        strides = (case.token_stride or inner[0] * head, head, 1)
    elif case.scenario.lse == "head_major":
        strides = (1, case.head_stride or capacity)
    within = sum((n - 1) * s for n, s in zip(inner, strides[1:], strict=True))
    offset = first * strides[0]
    return Place(
        view=View(slab=name, offset=offset, shape=(tokens, *inner), strides=strides),
        capacity=capacity,
        span=(capacity - 1) * strides[0] + within + 1,
        reach=offset + (tokens - 1) * strides[0] + within,
    )


def work_list(case: Far, config: Any) -> NDArray[np.int32]:
    """Return the work list of rows at the end, as the launch before would leave it.

    `sidestream.kernels.common.worklist` says how it is laid out; `config` is that of
    the compiled kernels.
    """
    call = case.scenario
    rows, units = config.unit_shape(call.heads_q, call.heads_kv)
    lengths_q, lengths_kv = np.array(call.lengths_q), np.array(call.lengths_kv)
    prefixes = [-(-lengths_q // rows) * units, lengths_q, lengths_kv]
    starts = [0, MOST - call.total_q, MOST - call.total_kv]
    words = [np.zeros(HEADER_WORDS, np.int64)]
    for counts, start in zip(prefixes, starts, strict=True):
        words.append(start + np.concatenate([[0], np.cumsum(counts)]))
    return np.concatenate(words).astype(np.int32)
