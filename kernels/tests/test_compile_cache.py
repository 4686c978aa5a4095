"""The compile key: what the code depends on, nothing known only at run time."""

from dataclasses import fields, replace

import pytest

from sidestream.kernels import plan as plan_module
from sidestream.kernels.plan import CompileCache, config_of, plan
from sidestream.kernels.spec import AttentionSpec

SPEC = AttentionSpec(
    dtype="float16",
    batch=3,
    heads_q=4,
    heads_kv=2,
    head_dim=64,
    max_len_q=200,
    max_len_kv=200,
    causal="bottom_right",
    window_left=9,
    lse="token_major",
)

KEYED = [
    {"dtype": "bfloat16"},
    {"head_dim": 72},
    {"max_len_q": 64},
    {"max_len_q": 16},
    {"causal": "top_left"},
    {"causal": "none"},
    {"window_left": None},
    {"sinks": True},
    {"lse": "none"},
    {"lse": "head_major"},
    {"lengths_q": "prefix"},
    {"lengths_kv": "prefix"},
    {"scale": -0.125},
    {"arch": "sm_90a"},
    {"arch": "sm_100a"},
]

ARGUMENTS = [
    {"batch": 4},
    {"heads_q": 8},
    {"heads_kv": 1},
    {"max_len_q": 4000},
    {"max_len_kv": 7},
    {"window_left": 10},
    {"scale": 0.5},
    {"multiprocessors": 1},
]


@pytest.fixture
def cache(monkeypatch):
    built = []

    def compile_forward(config, arch):
        built.append((config, arch))
        return lambda *_: None

    monkeypatch.setattr(plan_module, "compile_forward", compile_forward)
    fresh = CompileCache()
    monkeypatch.setattr(plan_module, "CACHE", fresh)
    return fresh


def counts(cache):
    info = cache.info()
    return info.hits, info.misses


@pytest.mark.parametrize("change", KEYED, ids=str)
def test_a_changed_contract_compiles_again(cache, change):
    plan(SPEC).compile()
    plan(replace(SPEC, **change)).compile()
    assert counts(cache) == (0, 2)


@pytest.mark.parametrize("change", ARGUMENTS, ids=str)
def test_a_changed_argument_reuses_the_code(cache, change):
    first = plan(SPEC).compile()
    second = plan(replace(SPEC, **change)).compile()
    assert counts(cache) == (1, 1)
    assert first.function is second.function
    assert first.spec != second.spec


def test_every_declared_field_is_either_keyed_or_an_argument():
    covered = {name for change in KEYED + ARGUMENTS for name in change}
    # What not every target or mask takes is covered below.
    covered |= {"window_right", "anchor", "head_dim_v", "out_dtype"}
    covered |= {"block_scaled"}
    assert {field.name for field in fields(AttentionSpec)} == covered


def test_a_window_on_the_right_and_its_anchor_are_keyed(cache):
    band = replace(SPEC, causal="none", window_right=3)
    keys = {
        plan(spec).key
        for spec in (
            band,
            replace(band, window_right=None),
            replace(band, anchor="bottom_right"),
        )
    }
    assert len(keys) == 3


def test_a_head_dim_of_values_of_their_own_is_keyed(cache):
    spec = replace(SPEC, arch="sm_100a", head_dim=192)
    dims = (None, 192, 128, 64)
    keys = {plan(replace(spec, head_dim_v=dim)).key for dim in dims}
    assert len(keys) == len(dims) - 1


def test_an_output_type_of_its_own_is_keyed(cache):
    spec = replace(SPEC, arch="sm_100a", dtype="float8_e4m3fn")
    types = (None, "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")
    keys = {plan(replace(spec, out_dtype=kind)).key for kind in types}
    assert len(keys) == len(types) - 1


def test_scales_of_blocks_are_keyed(cache):
    spec = replace(SPEC, arch="sm_100a", dtype="float8_e4m3fn")
    assert plan(spec).key != plan(replace(spec, block_scaled=True)).key


def test_the_longest_query_is_an_argument_where_tiles_have_one_height(cache):
    spec = replace(SPEC, arch="sm_100a")
    keys = {plan(replace(spec, max_len_q=rows)).key for rows in (1, 64, 4000)}
    assert len(keys) == 1


def test_an_unused_anchor_is_not_keyed():
    whole = replace(SPEC, causal="none", window_left=None)
    assert plan(whole).key == plan(replace(whole, anchor="bottom_right")).key


@pytest.mark.parametrize("head_dim", range(8, 129, 8))
@pytest.mark.parametrize("max_len_q", [16, 64, 65])
def test_shared_memory_fits(head_dim, max_len_q):
    config = config_of(replace(SPEC, head_dim=head_dim, max_len_q=max_len_q))
    assert config.smem_bytes <= 101_376
    assert config.threads <= 288
