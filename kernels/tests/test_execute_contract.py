"""Execute on metadata alone: every broken rule is named and nothing is launched."""

import math
from dataclasses import replace

import pytest
import torch

from sidestream.kernels.errors import ContractError
from sidestream.kernels.plan import Compiled, config_of, workspace_bytes
from sidestream.kernels.spec import AttentionSpec

SPEC = AttentionSpec(
    dtype="float16",
    batch=2,
    heads_q=4,
    heads_kv=2,
    head_dim=64,
    max_len_q=100,
    max_len_kv=100,
    lse="token_major",
    lengths_kv="prefix",
    sinks=True,
    multiprocessors=3,
)
SCALARS = [
    *("batch", "heads_q", "heads_kv", "tokens_q", "tokens_kv", "left", "right"),
    *("scale_log2", "q_token", "q_head", "k_token", "k_head", "v_token", "v_head"),
    *("out_token", "out_head", "lse_head", "ctas"),
]
POINTERS = [
    *("q", "k", "v", "out", "lse", "sinks", "lengths_q", "lengths_kv", "workspace"),
]


def compiled(spec):
    launches = []
    function = lambda *arguments: launches.append(arguments)  # noqa: E731
    return Compiled(spec=spec, config=config_of(spec), function=function), launches


def aligned(size, alignment=128):
    raw = torch.zeros(size + alignment, dtype=torch.uint8)
    skip = -raw.data_ptr() % alignment
    return raw[skip : skip + size]


def arguments(spec=SPEC, tokens_q=10, tokens_kv=12):
    half = torch.float16
    return {
        "q": torch.zeros(tokens_q, 4, 64, dtype=half),
        "k": torch.zeros(tokens_kv, 2, 64, dtype=half),
        "v": torch.zeros(tokens_kv, 2, 64, dtype=half),
        "out": torch.zeros(tokens_q, 4, 64, dtype=half),
        "lse": torch.zeros(tokens_q, 4),
        "lengths_q": torch.zeros(2, dtype=torch.int32),
        "lengths_kv": torch.zeros(3, dtype=torch.int32),
        "workspace": aligned(workspace_bytes(spec)),
        "stream": 7,
        "sinks": torch.zeros(4),
    }


def scalars(launch):
    return dict(zip(SCALARS, (s.value for s in launch[14:32]), strict=True))


def misaligned(tensor, by):
    size = tensor.numel() * tensor.element_size()
    raw = aligned(size + 128)
    return raw[by : by + size].view(tensor.dtype).view(tensor.shape)


BREAKS = {
    "q dtype": (
        lambda a: a.update(q=a["q"].bfloat16()),
        "q has dtype bfloat16; the plan declares float16",
    ),
    "k heads": (lambda a: a.update(k=a["k"][:, :1]), "k has shape"),
    "v tokens": (lambda a: a.update(v=a["v"][1:]), "v has 11 tokens, k has 12"),
    "out tokens": (lambda a: a.update(out=a["out"][1:]), "out has 9 tokens"),
    "head dim": (lambda a: a.update(q=a["q"][:, :, :56]), "q has shape"),
    "rank": (lambda a: a.update(q=a["q"][0]), "q has shape"),
    "unit stride": (
        lambda a: a.update(q=torch.zeros(10, 4, 128, dtype=torch.half)[:, :, ::2]),
        "unit stride",
    ),
    "token stride": (
        lambda a: a.update(
            k=torch.zeros(12 * 132, dtype=torch.half).as_strided(
                (12, 2, 64), (132, 64, 1)
            )
        ),
        "k: token stride of 264 bytes",
    ),
    "head stride": (
        lambda a: a.update(
            k=torch.zeros(12 * 136, dtype=torch.half).as_strided(
                (12, 2, 64), (136, 68, 1)
            )
        ),
        "k: head stride of 136 bytes",
    ),
    "rows overlap": (
        lambda a: a.update(out=a["out"].as_strided((10, 4, 64), (64, 64, 1))),
        "out: rows overlap",
    ),
    "address": (
        lambda a: a.update(v=misaligned(a["v"], 8)),
        "v is not aligned to 16 bytes",
    ),
    "lse missing": (lambda a: a.update(lse=None), "lse is missing"),
    "lse layout": (
        lambda a: a.update(lse=torch.zeros(4, 10).t()),
        r"strides \(heads_q, 1\)",
    ),
    "lse shape": (lambda a: a.update(lse=a["lse"][1:]), "lse has shape"),
    "lse dtype": (lambda a: a.update(lse=a["lse"].double()), "lse has dtype float64"),
    "sinks missing": (lambda a: a.update(sinks=None), "sinks are missing"),
    "sinks shape": (lambda a: a.update(sinks=torch.zeros(3)), "sinks has shape"),
    "sinks stride": (lambda a: a.update(sinks=torch.zeros(8)[::2]), "dense"),
    "lengths form": (
        lambda a: a.update(lengths_kv=torch.zeros(2, dtype=torch.int32)),
        r"prefix of batch 2 needs \(3,\)",
    ),
    "lengths dtype": (
        lambda a: a.update(lengths_q=torch.zeros(2, dtype=torch.int64)),
        "lengths_q has dtype int64",
    ),
    "lengths stride": (
        lambda a: a.update(lengths_q=torch.zeros(4, dtype=torch.int32)[::2]),
        "lengths_q must be dense",
    ),
    "workspace size": (
        lambda a: a.update(workspace=a["workspace"][:-1]),
        "the plan needs 256",
    ),
    "workspace address": (
        lambda a: a.update(workspace=misaligned(a["workspace"], 64)),
        "workspace is not aligned to 128",
    ),
    "out on q": (lambda a: a.update(out=a["q"]), "out overlaps q"),
    "lse on sinks": (
        lambda a: a.update(sinks=a["lse"].view(-1)[4:8]),
        "lse overlaps sinks",
    ),
    "workspace on lengths": (
        lambda a: a.update(lengths_q=a["workspace"].view(torch.int32)[:2]),
        "workspace overlaps lengths_q",
    ),
    "device": (
        lambda a: a.update(k=a["k"].to("meta")),
        "k is on meta",
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_call_is_refused_before_any_launch(name):
    change, reason = BREAKS[name]
    target, launches = compiled(SPEC)
    call = arguments()
    change(call)
    with pytest.raises(ContractError, match=reason):
        target.execute(**call)
    assert launches == []


def test_unexpected_lse_and_sinks_are_refused():
    target, launches = compiled(replace(SPEC, lse="none", sinks=False))
    for extra, reason in (("lse", "lse is given"), ("sinks", "sinks are given")):
        call = arguments() | {"lse": None, "sinks": None}
        call[extra] = arguments()[extra]
        with pytest.raises(ContractError, match=reason):
            target.execute(**call)
    assert launches == []


def test_the_launch_receives_addresses_extents_and_strides():
    target, launches = compiled(SPEC)
    call = arguments()
    slab = torch.zeros(10, 9, 72, dtype=torch.half)
    call["q"] = slab[:, 1:9:2, :64]
    target.execute(**call)
    (launch,) = launches
    got = scalars(launch)
    assert [int(p._pointer) for p in launch[:9]] == [
        call[name].data_ptr() for name in POINTERS
    ]
    assert set(launch[9:14]) == {None}
    assert (got["tokens_q"], got["tokens_kv"]) == (10, 12)
    assert (got["q_token"], got["q_head"]) == (9 * 72, 2 * 72)
    assert (got["k_token"], got["k_head"]) == (128, 64)
    assert got["scale_log2"] == pytest.approx(0.125 * math.log2(math.e))
    assert got["ctas"] == 3 * target.config.ctas_per_sm == 6
    assert int(launch[32]) == 7


def test_the_grid_never_exceeds_the_tiles_that_could_exist():
    target, launches = compiled(replace(SPEC, multiprocessors=500))
    target.execute(**arguments(tokens_q=10))
    # Ten tokens of two sequences touch at most two tiles of 128 rows, times 4 heads.
    assert scalars(launches[0])["ctas"] == 8


@pytest.mark.parametrize(
    ("heads_kv", "multiprocessors", "clusters"),
    [
        # Groups of two heads go in pairs: at most two runs of 256 rows, two pairs each.
        (2, 500, 4),
        # Single heads pair their rows: at most two runs of 512 rows, four heads each.
        (4, 500, 8),
        (4, 7, 3),
        # A pair runs even where the bound names a single multiprocessor.
        (4, 1, 1),
    ],
)
def test_sm100_launches_whole_pairs(heads_kv, multiprocessors, clusters):
    spec = replace(
        SPEC, arch="sm_100a", heads_kv=heads_kv, multiprocessors=multiprocessors
    )
    target, launches = compiled(spec)
    call = arguments(tokens_q=10)
    for name in ("k", "v"):
        call[name] = torch.zeros(12, heads_kv, 64, dtype=torch.half)
    target.execute(**call)
    assert scalars(launches[0])["ctas"] == 2 * clusters


def test_no_query_capacity_means_no_launch():
    target, launches = compiled(SPEC)
    target.execute(**arguments(tokens_q=0))
    assert launches == []


def test_keys_without_storage_borrow_an_address():
    target, launches = compiled(SPEC)
    call = arguments(tokens_kv=0)
    target.execute(**call)
    assert int(launches[0][1]._pointer) == call["q"].data_ptr()
    assert scalars(launches[0])["tokens_kv"] == 0


def test_an_output_interleaved_with_its_query_is_accepted():
    target, launches = compiled(SPEC)
    slab = torch.zeros(10, 8, 64, dtype=torch.half)
    target.execute(**(arguments() | {"q": slab[:, :4], "out": slab[:, 4:]}))
    assert len(launches) == 1


def test_head_major_lse_passes_its_head_stride():
    target, launches = compiled(replace(SPEC, lse="head_major"))
    target.execute(**(arguments() | {"lse": torch.zeros(4, 32)[:, :17]}))
    assert scalars(launches[0])["lse_head"] == 32
    with pytest.raises(ContractError, match="cannot hold 10 tokens"):
        target.execute(**(arguments() | {"lse": torch.zeros(4, 9)}))
