"""What a declaration may ask for, and the checks of host-side lengths."""

from dataclasses import replace

import pytest

from sidestream.kernels.errors import ContractError, PlanError
from sidestream.kernels.plan import plan
from sidestream.kernels.spec import AttentionSpec, validate_lengths

SPEC = AttentionSpec(
    dtype="float16",
    batch=3,
    heads_q=4,
    heads_kv=2,
    head_dim=64,
    max_len_q=100,
    max_len_kv=200,
)
FLOAT8 = {"dtype": "float8_e4m3fn", "arch": "sm_100a", "head_dim": 128}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"dtype": "float32"}, "dtype is 'float32'"),
        ({"out_dtype": "float32"}, "out_dtype is 'float32'"),
        ({"out_dtype": "bfloat16"}, "float16 inputs give their own type"),
        (
            {"dtype": "float8_e5m2", "arch": "sm_90a", "head_dim": 272},
            r"multiple of 16 in \[16, 256\]",
        ),
        (FLOAT8 | {"head_dim": 72}, r"inputs it must be a multiple of 16 in"),
        (FLOAT8 | {"head_dim_v": 8}, r"multiple of 16 in \[16, 128\]"),
        (FLOAT8 | {"head_dim": 144}, r"multiple of 16 in \[16, 128\]"),
        ({"block_scaled": True}, "it needs one-byte inputs, dtype is float16"),
        (
            {"block_scaled": True, "dtype": "float8_e5m2"},
            "block_scaled is not served on sm_120a, only on sm_100a",
        ),
        (FLOAT8 | {"block_scaled": True, "head_dim": 144}, r"in \[16, 128\]"),
        ({"head_dim": 60}, "multiple of 8"),
        ({"head_dim": 264}, r"multiple of 8 in \[8, 256\]"),
        ({"head_dim_v": 264, "arch": "sm_90a"}, r"multiple of 8 in \[8, 256\]"),
        ({"head_dim": 0}, "multiple of 8 in"),
        ({"head_dim": 520, "arch": "sm_100a"}, r"in \[8, 512\]"),
        ({"head_dim_v": 132, "arch": "sm_100a"}, "head_dim_v is 132"),
        ({"heads_kv": 3}, "not a multiple of heads_kv 3"),
        ({"heads_kv": 0}, "heads_kv is 0"),
        ({"batch": 0}, "batch is 0"),
        ({"max_len_q": 0}, "max_len_q is 0"),
        ({"max_len_kv": 1 << 29}, "max_len_kv is"),
        ({"causal": "yes"}, "causal is 'yes'"),
        ({"causal": "top_left", "window_right": 0}, "give one of the two"),
        ({"causal": "top_left", "anchor": "bottom_right"}, "contradicts"),
        ({"anchor": "centre"}, "anchor is 'centre'"),
        ({"window_left": -1}, "window_left is -1"),
        ({"window_right": -1}, "window_right is -1"),
        ({"lse": "padded"}, "lse is 'padded'"),
        ({"lengths_q": "ragged"}, "lengths_q is 'ragged'"),
        ({"lengths_kv": "ragged"}, "lengths_kv is 'ragged'"),
        ({"scale": 0.0}, "scale is 0.0"),
        ({"scale": float("inf")}, "finite"),
        ({"scale": float("nan")}, "finite"),
        ({"arch": "sm_80"}, "arch is 'sm_80'"),
        ({"multiprocessors": 0}, "multiprocessors"),
    ],
)
def test_a_plan_says_why_it_declines(change, reason):
    with pytest.raises(PlanError, match=reason):
        plan(replace(SPEC, **change))


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"head_dim": 8},
        {"head_dim": 128, "dtype": "bfloat16"},
        {"heads_kv": 4},
        {"causal": "bottom_right", "anchor": "bottom_right", "window_left": 0},
        {"window_left": 5, "window_right": 0, "anchor": "bottom_right"},
        {"scale": -0.5},
        {"arch": "sm_90a", "multiprocessors": 1},
        {"out_dtype": "float16"},
        FLOAT8,
        FLOAT8 | {"out_dtype": "float16"},
        FLOAT8 | {"block_scaled": True},
        FLOAT8 | {"dtype": "float8_e5m2", "out_dtype": "float8_e4m3fn", "head_dim": 16},
    ],
)
def test_a_served_declaration_is_planned(change):
    assert plan(replace(SPEC, **change)).spec == replace(SPEC, **change)


def test_the_scale_defaults_to_the_inverse_root_of_the_head_dimension():
    assert SPEC.softmax_scale == 0.125


@pytest.mark.parametrize(
    ("change", "dtype"),
    [
        ({}, "float16"),
        ({"dtype": "bfloat16"}, "bfloat16"),
        (FLOAT8, "bfloat16"),
        (FLOAT8 | {"out_dtype": "float8_e4m3fn"}, "float8_e4m3fn"),
    ],
)
def test_the_output_type_follows_the_inputs_unless_it_is_given(change, dtype):
    assert replace(SPEC, **change).output_dtype == dtype


@pytest.mark.parametrize(
    ("form", "values"),
    [("counts", [0, 100, 1]), ("prefix", [7, 7, 107, 108])],
)
def test_lengths_within_the_maximum_pass(form, values):
    validate_lengths(replace(SPEC, lengths_q=form), values, [200, 0, 0])


@pytest.mark.parametrize(
    ("change", "lengths_q", "lengths_kv", "reason"),
    [
        ({}, [101, 0, 0], [0, 0, 0], "lengths_q: sequence 0 has length 101"),
        ({}, [1, 1, 1], [0, 0, 201], "lengths_kv: sequence 2 has length 201"),
        ({}, [1, -1, 1], [1, 1, 1], "sequence 1 has length -1"),
        ({}, [1, 1], [1, 1, 1], "lengths_q has 2 entries"),
        ({"lengths_q": "prefix"}, [1, 1, 1], [1, 1, 1], "needs 4"),
        ({"lengths_kv": "prefix"}, [1, 1, 1], [5, 5, 4, 9], "sequence 1 has length -1"),
    ],
)
def test_bad_lengths_are_named(change, lengths_q, lengths_kv, reason):
    with pytest.raises(ContractError, match=reason):
        validate_lengths(replace(SPEC, **change), lengths_q, lengths_kv)
