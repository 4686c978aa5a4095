"""A compile key is the contract: no less, no more, and nothing of one call.

Declarations are drawn in pairs, the second with some facts of the first changed; what
they promise is spelled here apart from the code that makes keys.
"""

import itertools
from dataclasses import fields, replace
from typing import get_args

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sidestream.kernels.errors import PlanError
from sidestream.kernels.plan import plan
from sidestream.kernels.spec import (
    Anchor,
    Arch,
    AttentionSpec,
    Causal,
    DType,
    LengthForm,
    LseLayout,
)
from sidestream.kernels.support import HEAD_DIMS, matrix, plain, spell_dims

ONE_BYTE = [name for name in get_args(DType) if name.startswith("float8")]
TWO_BYTES = [name for name in get_args(DType) if name not in ONE_BYTE]
WIDTHS = st.none() | st.integers(0, 3) | st.integers(0, 70_000)
FREE = {
    "batch": st.integers(1, 1000),
    "heads_q": st.sampled_from((8, 16, 48)),
    "heads_kv": st.sampled_from((1, 2, 8)),
    "max_len_kv": st.integers(1, 1 << 20),
    "multiprocessors": st.none() | st.integers(1, 200),
}
"""What travels as arguments: it must never change a key."""
KEYED = {
    "causal": st.sampled_from(get_args(Causal)),
    "window_left": WIDTHS,
    "window_right": WIDTHS,
    "anchor": st.none() | st.sampled_from(get_args(Anchor)),
    "sinks": st.booleans(),
    "lse": st.sampled_from(get_args(LseLayout)),
    "lengths_q": st.sampled_from(get_args(LengthForm)),
    "lengths_kv": st.sampled_from(get_args(LengthForm)),
    "scale": st.none() | st.sampled_from((0.1, 0.5, -0.1, -2.0)),
    "max_len_q": st.sampled_from((1, 16, 17, 64, 65, 4000)),
}
"""What the code depends on: by itself, by its sign, or by whether it is there."""
SHAPES = [
    pytest.param(row.arch, row.head_dims, id=f"{row.arch}-{spell_dims(row.head_dims)}")
    for row in matrix()
    if any(row.served.values())
]


def accepted(spec):
    try:
        return plan(spec)
    except PlanError:
        assume(False)


def types(arch, dims):
    """Types of inputs and of the output, and whether scaled, that a shape serves."""
    row = next(r for r in matrix() if (r.arch, r.head_dims) == (arch, dims))
    kinds = [(dtype, out, False) for dtype in TWO_BYTES for out in (None, dtype)]
    scaled = (False, True) if row.served["MXFP8"] else (False,)
    kinds += itertools.product(ONE_BYTE, (None, *get_args(DType)), scaled)
    return [kind for kind in kinds if row.served[kind[0]]]


def drawn(data, arch, dims, only=None):
    """A declaration, or of `only` these facts."""
    names = sorted({*FREE, *KEYED, "types"} if only is None else only)
    kinds = FREE | KEYED | {"types": st.sampled_from(types(arch, dims))}
    facts = {name: data.draw(kinds[name], name) for name in names}
    if "types" in facts:
        names = ("dtype", "out_dtype", "block_scaled")
        facts |= zip(names, facts.pop("types"), strict=True)
    if only is not None:
        return facts
    return AttentionSpec(arch=arch, head_dim=dims[0], head_dim_v=dims[1], **facts)


def contract(spec):
    """What a declaration promises of the code, spelled from the interface's text."""
    right = spec.causal != "none" or spec.window_right is not None
    left = spec.window_left is not None
    anchor = None
    if left or right:
        anchor = spec.causal if spec.causal != "none" else spec.anchor or "top_left"
    out = spec.out_dtype or ("bfloat16" if spec.dtype in ONE_BYTE else spec.dtype)
    return (
        *(spec.arch, spec.dtype, out, spec.head_dim, spec.width_v),
        spec.block_scaled,
        *(anchor, left, right, spec.sinks, spec.lse, spec.lengths_q, spec.lengths_kv),
        spec.scale is not None and spec.scale < 0.0,
        # Rows of a tile, where a target has several: for decoding, short, others.
        spec.arch != "sm_100a" and sum(spec.max_len_q > n for n in (16, 64)),
    )


def key_text(spec):
    return repr(plan(spec).key)


@pytest.mark.parametrize(("arch", "dims"), SHAPES)
@settings(max_examples=60)
@given(data=st.data())
def test_keys_are_equal_when_contracts_are(arch, dims, data):
    first = drawn(data, arch, dims)
    accepted(first)
    names = sorted({*FREE, *KEYED, "types"})
    changed = data.draw(st.sets(st.sampled_from(names)), "changed")
    second = replace(first, **drawn(data, arch, dims, changed))
    accepted(second)
    same = contract(first) == contract(second)
    assert (plan(first).key == plan(second).key) == same
    if same:
        assert hash(plan(first).key) == hash(plan(second).key)


@pytest.mark.parametrize(("arch", "dims"), SHAPES)
@settings(max_examples=30)
@given(data=st.data())
def test_what_an_argument_carries_is_in_no_key(arch, dims, data):
    """Numbers of a size that nothing else has: a key's text holds none of them."""
    spec = replace(
        drawn(data, arch, dims),
        batch=data.draw(st.integers(100_001, 200_000)),
        max_len_q=data.draw(st.integers(200_001, 300_000)),
        max_len_kv=data.draw(st.integers(300_001, 400_000)),
        heads_q=8 * 70_001,
        heads_kv=70_001,
    )
    accepted(spec)
    text = key_text(spec)
    for number in (spec.batch, spec.max_len_q, spec.max_len_kv, spec.heads_q):
        assert str(number) not in text
    assert "70001" not in text


@pytest.mark.parametrize(("arch", "dims"), SHAPES)
def test_types_of_inputs_and_output_are_both_in_the_key(arch, dims):
    base = plain(arch, dims)
    specs = [
        replace(base, dtype=dtype, out_dtype=out, block_scaled=scaled)
        for dtype, out, scaled in types(arch, dims)
    ]
    promised = {contract(spec) for spec in specs}
    # Two wide types; two narrow ones with four outputs each, once more with scales.
    assert len(promised) == {4: 2, 14: 10, 24: 18}[len(specs)]
    assert len({plan(spec).key for spec in specs}) == len(promised)


def test_shapes_of_one_target_have_keys_of_their_own():
    specs = [plain(arch, dims) for arch, dims in (param.values for param in SHAPES)]
    assert len({plan(spec).key for spec in specs}) == len(SHAPES)
    assert {(s.head_dim, s.width_v) for s in specs} == set(HEAD_DIMS)
    assert {s.arch for s in specs} == set(get_args(Arch))


def test_every_declared_fact_is_drawn():
    named = {field.name for field in fields(AttentionSpec)}
    typed = {"dtype", "out_dtype", "block_scaled"}
    assert named == {*FREE, *KEYED, *typed, "arch", "head_dim", "head_dim_v"}
