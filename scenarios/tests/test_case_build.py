import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from sidestream.harness.errors import ContractError
from sidestream.reference.attention import attention
from sidestream.reference.narrow import by_name, from_bits, to_bits
from sidestream.scenarios.case import Scenario, build
from sidestream.scenarios.fill import (
    AMAX_SENTINEL,
    LSE_SENTINEL,
    OUT_SENTINEL,
    OUT_SENTINEL_8,
    SCRATCH,
    TAIL_BITS,
    scratch_bytes,
)
from sidestream.scenarios.layout import LAYOUTS, OUT_LAYOUTS

BASE = Scenario(
    name="base",
    description="",
    heads_q=4,
    heads_kv=2,
    head_dim=16,
    lengths_q=(3, 0, 5),
    lengths_kv=(4, 2, 2),
)
FLOAT8 = ("float8_e4m3fn", "float8_e5m2")


def test_the_same_scenario_gives_the_same_bits():
    one, two = build(BASE), build(BASE)
    assert all(np.array_equal(one.slabs[n], two.slabs[n]) for n in ("q", "k", "v"))
    other = build(replace(BASE, seed=1))
    assert not np.array_equal(one.slabs["q"], other.slabs["q"])


@pytest.mark.parametrize("dtype", ["float16", *FLOAT8])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_hold_the_same_numbers_and_poison_elsewhere(layout, dtype):
    case = replace(BASE, layout=layout, tail_q=2, tail_kv=2, dtype=dtype)
    packed, inputs = build(replace(case, layout="packed")), build(case)
    live = {"q": case.total_q, "k": case.total_kv, "v": case.total_kv}
    held = 0
    for name, tokens in live.items():
        got = inputs.values(getattr(inputs, name))
        want = packed.values(getattr(packed, name))
        assert np.array_equal(got[:tokens], want[:tokens])
        assert np.isnan(got[tokens:]).all()
        held += want[:tokens].size
    bits = np.concatenate([inputs.slabs[n] for n in inputs.slabs if n[0] in "qkv"])
    numbers = from_bits(bits, by_name(dtype))
    assert np.isfinite(numbers).sum() == held


@pytest.mark.parametrize(
    "types",
    [
        {"dtype": "bfloat16"},
        {"dtype": FLOAT8[0]},
        {"dtype": FLOAT8[0], "out_dtype": FLOAT8[1], "scale_out": 2.0},
    ],
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_strides_are_what_the_interface_allows(layout, types):
    inputs = build(replace(BASE, layout=layout, out_layout=OUT_LAYOUTS[2], **types))
    for view in (inputs.q, inputs.k, inputs.v, inputs.out):
        token, head, element = view.strides
        assert element == 1
        assert head >= view.shape[2]
        assert token >= view.shape[1] * head
        item = inputs.slabs[view.slab].itemsize
        assert all(n * item % 16 == 0 for n in (token, head, view.offset))
        if layout == "spread" or view is inputs.out:
            assert (head - view.shape[2]) * item == 16
            assert (token - view.shape[1] * head) * item == 32
        last = view.offset + sum(
            (n - 1) * s for n, s in zip(view.shape, view.strides, strict=True)
        )
        assert last < inputs.slabs[view.slab].size


@pytest.mark.parametrize("slack", [0, 5])
@pytest.mark.parametrize("lse", ["token_major", "head_major"])
def test_lse_views_reach_every_element_once(lse, slack):
    case = replace(BASE, lse=lse, lse_slack=slack if lse == "head_major" else 0)
    inputs = build(case)
    view = inputs.array(inputs.lse)
    assert view.shape == (case.capacity_q, case.heads_q)
    if lse == "head_major":
        assert inputs.lse.strides == (1, case.capacity_q + slack)
    view[:] = np.arange(view.size).reshape(view.shape)
    slab = inputs.slabs["lse"]
    assert np.unique(slab[np.isfinite(slab)]).size == view.size
    if lse == "head_major":
        assert slab[1] == view[1, 0]
    else:
        assert slab[1] == view[0, 1]


def test_no_lse_means_no_storage():
    inputs = build(replace(BASE, lse="none"))
    assert inputs.lse is None
    assert "lse" not in inputs.slabs


def test_outputs_start_as_sentinels_that_are_nan():
    inputs = build(replace(BASE, tail_q=3))
    assert np.all(inputs.slabs["out"] == OUT_SENTINEL)
    assert np.all(inputs.slabs["lse"].view(np.uint32) == LSE_SENTINEL)
    for dtype in ("float16", "bfloat16"):
        assert np.isnan(from_bits([OUT_SENTINEL], by_name(dtype))).all()
    assert np.isnan(np.array([LSE_SENTINEL], np.uint32).view(np.float32)).all()
    assert "amax" not in inputs.slabs


@pytest.mark.parametrize("out_dtype", ["bfloat16", *FLOAT8])
def test_outputs_of_one_byte_inputs_start_as_sentinels_too(out_dtype):
    narrow = out_dtype in FLOAT8
    types = {"out_dtype": out_dtype, "scale_out": 0.3 if narrow else None}
    inputs = build(replace(BASE, dtype=FLOAT8[0], **types))
    sentinel = OUT_SENTINEL_8 if narrow else OUT_SENTINEL
    assert np.all(inputs.slabs["out"] == sentinel)
    assert inputs.slabs["out"].itemsize == (1 if narrow else 2)
    assert np.isnan(from_bits([sentinel], by_name(out_dtype))).all()
    # What rounding gives for a NaN is another one.
    assert (to_bits([np.nan], by_name(out_dtype)) != sentinel).all()
    assert np.all(inputs.slabs["amax"].view(np.uint32) == AMAX_SENTINEL)
    assert inputs.slabs["amax"].dtype == np.float32
    assert 9e29 < inputs.slabs["amax"][0] < 2e30
    assert inputs.scale_out is None or inputs.scale_out.tolist() == [np.float32(0.3)]
    assert (inputs.scale_out is not None) == narrow


def test_factors_multiply_what_the_bits_stand_for():
    plain = replace(BASE, dtype=FLOAT8[1])
    scaled = replace(plain, descales=(0.5, 3.0, 1.25))
    one, two = build(plain).problem(), build(scaled).problem()
    for name, factor in (("q", 0.5), ("k", 3.0), ("v", 1.25)):
        assert np.array_equal(getattr(one, name) * factor, getattr(two, name))


def test_a_sequence_may_be_nan_in_part():
    inputs = build(replace(BASE, nan_sequences=(0,), nan_every=3))
    for view in (inputs.k, inputs.v):
        nan = np.isnan(inputs.values(view)).all(axis=(1, 2))
        assert nan.tolist() == [True, False, False, True] + [False] * 4


def test_forms_and_bases_declare_the_same_lengths():
    want = attention(build(BASE).problem())
    for form_q, base_q in (("counts", 0), ("prefix", 0), ("prefix", 9)):
        for form_kv, base_kv in (("counts", 0), ("prefix", 0), ("prefix", 31)):
            case = replace(
                BASE,
                lengths_q_form=form_q,
                lengths_kv_form=form_kv,
                base_q=base_q,
                base_kv=base_kv,
            )
            inputs = build(case)
            assert inputs.lengths_q.dtype == inputs.lengths_kv.dtype == np.int32
            assert inputs.lengths_q.size == case.batch + (form_q == "prefix")
            assert inputs.lengths_kv[0] == (base_kv if form_kv == "prefix" else 4)
            assert np.array_equal(attention(inputs.problem()).out, want.out)


def test_rows_to_judge_leave_out_tails_and_poisoned_sequences():
    inputs = build(replace(BASE, tail_q=2, nan_sequences=(0,)))
    assert inputs.live.tolist() == [True] * 8 + [False] * 2
    assert inputs.judged.tolist() == [False] * 3 + [True] * 5 + [False] * 2
    result = attention(inputs.problem())
    assert np.isnan(result.out[:3]).all()
    assert np.isfinite(result.out[3:]).all()


def test_sinks_are_drawn_or_fixed():
    assert build(BASE).sinks is None
    drawn = build(replace(BASE, sinks=True)).sinks
    assert drawn.dtype == np.float32
    assert np.unique(drawn).size == 4
    fixed = build(replace(BASE, sinks=True, sink_value=-200.0)).sinks
    assert fixed.tolist() == [-200.0] * 4


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", *FLOAT8])
@pytest.mark.parametrize(
    "values", ["normal", "flat", "equal", "sharp", "ties", "large"]
)
def test_live_values_are_finite_in_their_format(values, dtype):
    if (values, dtype) == ("large", FLOAT8[0]):
        with pytest.raises(ContractError, match="overflow"):
            replace(BASE, values=values, dtype=dtype)
        return
    inputs = build(replace(BASE, values=values, dtype=dtype))
    for view in (inputs.q, inputs.k, inputs.v):
        assert np.isfinite(inputs.values(view)).all()


@pytest.mark.parametrize("fill", TAIL_BITS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", *FLOAT8])
def test_tail_patterns_mean_what_they_are_called(fill, dtype):
    number = from_bits([TAIL_BITS[fill][dtype]], by_name(dtype))[0]
    kind = by_name(dtype)
    infinity = np.inf if kind.infinite else np.nan
    want = {"nan": np.nan, "inf": infinity, "huge": kind.largest, "zero": 0.0}
    assert np.array_equal(number, want[fill], equal_nan=True)


@pytest.mark.parametrize("size", [0, 1, 7, 64])
def test_scratch_patterns_differ_and_have_the_size_asked_for(size):
    made = {pattern: scratch_bytes(pattern, size, seed=2) for pattern in SCRATCH}
    assert all(b.size == size and b.dtype == np.uint8 for b in made.values())
    if size == 64:
        assert len({b.tobytes() for b in made.values()}) == len(SCRATCH)
    with pytest.raises(ValueError, match="unknown scratch pattern"):
        scratch_bytes("ten", size)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "float32"}, "dtype"),
        ({"causal": "left"}, "causal"),
        ({"head_dim": 12}, "head_dim"),
        ({"heads_kv": 3}, "multiple"),
        ({"lengths_kv": (1,)}, "same number"),
        ({"lengths_q": (), "lengths_kv": ()}, "at least one"),
        ({"lengths_q": (3, -1, 5)}, "length < 0"),
        ({"base_q": 4}, "needs prefix"),
        ({"lse_slack": 4}, "head_major"),
        ({"scale": 0.0}, "zero"),
        ({"sink_value": 1.0}, "needs sinks"),
        ({"layout": "fused_qkv", "tail_q": 1}, "equal token"),
        ({"nan_sequences": (3,)}, "does not exist"),
        ({"max_len_q": 4}, "exceeds"),
        ({"max_len_kv": 3}, "exceeds"),
        ({"tail_q": -1}, "negative"),
        ({"causal": "top_left", "window_right": 1}, "window_right"),
        ({"causal": "top_left", "anchor": "bottom_right"}, "contradicts"),
        ({"scratch": "ten"}, "scratch"),
        ({"stream": "third"}, "stream"),
        ({"out_dtype": "float16"}, "out_dtype of its own"),
        ({"out_dtype": "float32"}, "out_dtype is"),
        ({"descales": (1.0, 1.0, 1.0)}, "need one-byte inputs"),
        ({"dtype": FLOAT8[0], "descales": (1.0, 0.0, 1.0)}, "three positive"),
        ({"dtype": FLOAT8[0], "head_dim": 24}, "multiple of 16 bytes"),
        ({"dtype": FLOAT8[0], "head_dim_v": 8}, "multiple of 16 bytes"),
        ({"dtype": FLOAT8[0], "out_dtype": FLOAT8[1]}, "scale_out belongs"),
        ({"dtype": FLOAT8[0], "scale_out": 2.0}, "scale_out belongs"),
        ({"scale_out": 2.0}, "scale_out belongs"),
        (
            {"dtype": FLOAT8[0], "out_dtype": FLOAT8[1], "scale_out": -1.0},
            "scale_out must be positive",
        ),
        ({"nan_every": 0}, "nan_every"),
    ],
)
def test_contradictions_are_refused_and_name_the_scenario(change, message):
    with pytest.raises(ContractError, match=rf"'base'.*{message}"):
        replace(BASE, **change)


def test_building_a_case_does_not_import_torch():
    code = (
        "import sys; from sidestream.scenarios.catalogue import CATALOGUE; "
        "from sidestream.scenarios.case import build; build(CATALOGUE[0]); "
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
