"""Execute on metadata alone: every broken rule is named and nothing is launched."""

import math
from dataclasses import replace

import pytest
import torch

from sidestream.kernels.errors import ContractError
from sidestream.kernels.execute import Compiled, workspace_bytes
from sidestream.kernels.plan import config_of
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
POINTERS = [
    *("q", "k", "v", "out", "lse", "sinks", "lengths_q", "lengths_kv", "workspace"),
]


SPEC8 = replace(SPEC, dtype="float8_e4m3fn", out_dtype="float8_e5m2", arch="sm_100a")
FACTORS = ["descale_q", "descale_k", "descale_v", "scale_out", "amax"]


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


def arguments8(**sizes):
    """A call of `SPEC8`."""
    call = arguments(SPEC8, **sizes)
    for name in ("q", "k", "v"):
        call[name] = call[name].to(torch.float8_e4m3fn)
    call["out"] = call["out"].to(torch.float8_e5m2)
    return call | {name: torch.ones(1) for name in FACTORS}


SPECMX = replace(SPEC8, out_dtype="bfloat16", block_scaled=True)
SCALES = ["scales_q", "scales_k", "scales_v"]


def scales_of(heads, atoms):
    return torch.zeros(heads, atoms, 512, dtype=torch.uint8).view(torch.float8_e8m0fnu)


def argumentsmx(**sizes):
    """A call of `SPECMX`: two sequences have two atoms, if they have few tokens."""
    call = arguments8(**sizes) | {"amax": torch.ones(1)}
    for name in ("descale_q", "descale_k", "descale_v", "scale_out"):
        del call[name]
    call["out"] = call["out"].to(torch.bfloat16)
    call["workspace"] = aligned(workspace_bytes(SPECMX))
    call |= {name: scales_of(4 if name == "scales_q" else 2, 2) for name in SCALES}
    return call


def received(launch):
    """What the host function is given: addresses and numbers by name."""
    inputs, lengths_q, lengths_kv, tokens_q, tokens_kv, heads_kv, problem = launch[:7]
    facts = problem._asdict()
    packed = inputs._asdict() | {"out": facts.pop("out")}
    facts |= facts.pop("factors")._asdict()
    scaled = facts.pop("scales")
    for name, scales in scaled._asdict().items() if scaled else ():
        facts |= {f"scales_{name}": scales.pointer, f"atoms_{name}": scales.atoms}
    facts |= {"lengths_q": lengths_q, "lengths_kv": lengths_kv, "heads_kv": heads_kv}
    facts |= {"tokens_q": tokens_q, "tokens_kv": tokens_kv, "ctas": launch[7]}
    for name, (place, token, head) in packed.items():
        facts |= {name: place, f"{name}_token": token, f"{name}_head": head}
    return {name: plain(fact) for name, fact in facts.items()}


def plain(fact):
    if fact is None:
        return None
    return int(fact._pointer) if hasattr(fact, "_pointer") else fact.value


def misaligned(tensor, by):
    size = tensor.numel() * tensor.element_size()
    raw = aligned(size + 128)
    return raw[by : by + size].view(tensor.dtype).view(tensor.shape)


class Shifted:
    """A tensor that lies `by` bytes further, where torch itself makes none."""

    def __init__(self, tensor, by):
        self.tensor, self.by = tensor, by

    def __getattr__(self, name):
        return getattr(self.tensor, name)

    def data_ptr(self):
        return self.tensor.data_ptr() + self.by


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


BREAKS8 = {
    "out dtype": (
        lambda a: a.update(out=a["out"].to(torch.float8_e4m3fn)),
        "out has dtype float8_e4m3fn; the plan declares float8_e5m2",
    ),
    "missing descale": (lambda a: a.update(descale_k=None), "descale_k is missing"),
    "missing scale": (lambda a: a.update(scale_out=None), "scale_out is missing"),
    "missing amax": (lambda a: a.update(amax=None), "amax is missing"),
    "dtype": (
        lambda a: a.update(descale_q=torch.ones(1, dtype=torch.half)),
        "descale_q has dtype float16; the plan declares float32",
    ),
    "shape": (
        lambda a: a.update(descale_v=torch.ones(4)),
        r"descale_v has shape \(4,\); expected \(\) or \(1,\)",
    ),
    "alignment": (
        lambda a: a.update(amax=Shifted(torch.ones(1), 2)),
        "amax is not aligned to 4 bytes",
    ),
    "device": (
        lambda a: a.update(scale_out=torch.ones(1, device="meta")),
        "scale_out is on meta",
    ),
    "amax on factor": (
        lambda a: a.update(amax=a["descale_q"]),
        "amax overlaps descale_q",
    ),
    "amax on scale": (
        lambda a: a.update(amax=a["scale_out"]),
        "amax overlaps scale_out",
    ),
    "amax on lse": (lambda a: a.update(amax=a["lse"][0, :1]), "lse overlaps amax"),
    "amax in workspace": (
        lambda a: a.update(amax=a["workspace"].view(torch.float32)[:1]),
        "workspace overlaps amax",
    ),
    "stride": (
        lambda a: a.update(
            k=torch.zeros(12, 2, 72, dtype=torch.uint8).view(torch.float8_e4m3fn)[
                :, :, :64
            ]
        ),
        "k: head stride of 72 bytes",
    ),
}


@pytest.mark.parametrize("name", BREAKS8)
def test_a_broken_call_of_one_byte_operands_is_refused(name):
    change, reason = BREAKS8[name]
    target, launches = compiled(SPEC8)
    call = arguments8()
    change(call)
    with pytest.raises(ContractError, match=reason):
        target.execute(**call)
    assert launches == []


@pytest.mark.parametrize("name", FACTORS)
def test_factors_of_wide_operands_are_refused(name):
    target, launches = compiled(SPEC)
    with pytest.raises(ContractError, match=f"{name} is given"):
        target.execute(**(arguments() | {name: torch.ones(1)}))
    assert launches == []


BREAKSMX = {
    "missing": (lambda a: a.pop("scales_k"), "scales_k is missing"),
    "a factor": (
        lambda a: a.update(descale_q=torch.ones(1)),
        "descale_q is given, but the plan has not one-byte inputs with a factor each",
    ),
    "amax": (lambda a: a.pop("amax"), "amax is missing"),
    "bytes": (
        lambda a: a.update(scales_v=a["scales_v"].view(torch.uint8)),
        "scales_v has dtype uint8; the plan declares float8_e8m0fnu",
    ),
    "heads": (
        lambda a: a.update(scales_k=scales_of(4, 2)),
        r"scales_k has shape \(4, 2, 512\)",
    ),
    "rows": (
        lambda a: a.update(scales_q=scales_of(4, 2)[:, :, :256]),
        r"scales_q has shape \(4, 2, 256\)",
    ),
    "dense": (
        lambda a: a.update(scales_q=scales_of(4, 4)[:, ::2]),
        "scales_q must be dense",
    ),
    "heads apart": (
        lambda a: a.update(scales_q=scales_of(4, 4)[:, :2]),
        "scales_q must be dense",
    ),
    "none": (
        lambda a: a.update(scales_q=scales_of(4, 0)),
        "scales_q has no atom, though there are tokens",
    ),
    "sides": (
        lambda a: a.update(scales_v=scales_of(2, 3)),
        "scales_v has 3 atoms, scales_k has 2",
    ),
    "alignment": (
        lambda a: a.update(scales_q=Shifted(a["scales_q"], 8)),
        "scales_q",
    ),
    "overlap": (
        lambda a: a.update(
            scales_q=a["workspace"].view(torch.float8_e8m0fnu)[:0].view(4, 0, 512),
            q=a["q"][:0],
            out=a["out"][:0],
            lse=a["lse"][:0],
            scales_k=a["out"]
            .view(torch.uint8)
            .view(-1)[:1024]
            .view(torch.float8_e8m0fnu)
            .view(2, 1, 512),
            scales_v=scales_of(2, 1),
            amax=a["out"].view(torch.uint8).view(-1)[:4].view(torch.float32),
        ),
        "amax overlaps scales_k",
    ),
}


@pytest.mark.parametrize("name", BREAKSMX)
def test_a_broken_call_of_block_scaled_operands_is_refused(name):
    change, reason = BREAKSMX[name]
    target, launches = compiled(SPECMX)
    call = argumentsmx()
    change(call)
    with pytest.raises(ContractError, match=reason):
        target.execute(**call)
    assert launches == []


@pytest.mark.parametrize("name", SCALES)
def test_scales_of_other_operands_are_refused(name):
    target, launches = compiled(SPEC8)
    with pytest.raises(ContractError, match=f"{name} is given, but the plan is not"):
        target.execute(**(arguments8() | {name: scales_of(4, 2)}))
    assert launches == []


def test_scales_reach_the_launch_with_their_atoms():
    target, launches = compiled(SPECMX)
    call = argumentsmx() | {"scales_q": scales_of(4, 5)}
    target.execute(**call)
    got = received(*launches)
    assert {name: got[name] for name in SCALES} == {
        name: call[name].data_ptr() for name in SCALES
    }
    assert (got["atoms_q"], got["atoms_k"], got["atoms_v"]) == (5, 2, 2)
    assert got["amax"] == call["amax"].data_ptr()
    assert {got[name] for name in FACTORS[:4]} == {None}


def test_tokens_that_are_not_there_need_no_scales():
    target, launches = compiled(SPECMX)
    call = argumentsmx(tokens_q=0, tokens_kv=0)
    call |= {name: scales_of(4 if name == "scales_q" else 2, 0) for name in SCALES}
    target.execute(**call)
    assert len(launches) == 1


def test_a_wide_output_has_no_factor():
    target, launches = compiled(replace(SPEC8, out_dtype="float16"))
    call = arguments8() | {"out": torch.zeros(10, 4, 64, dtype=torch.half)}
    with pytest.raises(ContractError, match="scale_out is given"):
        target.execute(**call)
    target.execute(**(call | {"scale_out": None}))
    got = received(launches[0])
    assert got["scale_out"] is None
    assert got["amax"] == call["amax"].data_ptr()


def test_factors_reach_the_launch_and_inputs_may_share_one():
    target, launches = compiled(SPEC8)
    call = arguments8()
    call["descale_v"] = call["descale_k"] = torch.ones(())
    target.execute(**call)
    got = received(*launches)
    assert {name: got[name] for name in FACTORS} == {
        name: call[name].data_ptr() for name in FACTORS
    }
    # Strides of one-byte elements count elements all the same.
    assert got["k_token"] == 128


def test_no_query_capacity_still_resets_the_largest_output():
    target, launches = compiled(SPEC8)
    call = arguments8(tokens_q=0, tokens_kv=0)
    target.execute(**call)
    got = received(*launches)
    places = [got[name] for name in ("q", "k", "v", "out")]
    assert places == [call["workspace"].data_ptr()] * 4
    assert got["amax"] == call["amax"].data_ptr()
    assert got["ctas"] == target.config.cluster


def test_the_launch_receives_addresses_extents_and_strides():
    target, launches = compiled(SPEC)
    call = arguments()
    slab = torch.zeros(10, 9, 72, dtype=torch.half)
    call["q"] = slab[:, 1:9:2, :64]
    target.execute(**call)
    (launch,) = launches
    got = received(launch)
    assert {name: got[name] for name in POINTERS} == {
        name: call[name].data_ptr() for name in POINTERS
    }
    assert {got[name] for name in FACTORS} == {None}
    assert (got["tokens_q"], got["tokens_kv"]) == (10, 12)
    assert (got["q_token"], got["q_head"]) == (9 * 72, 2 * 72)
    assert (got["k_token"], got["k_head"]) == (128, 64)
    assert got["scale_log2"] == pytest.approx(0.125 * math.log2(math.e))
    assert got["ctas"] == 3 * target.config.ctas_per_sm == 6
    assert int(launch[8]) == 7
    # Tiles of 128 rows, a unit for each of four heads, two of them to a key head.
    units = (got["unit_rows"], got["unit_heads"], got["heads_q"], got["group"])
    assert units == (128, 4, 4, 2)
    assert (got["heads_kv"], got["batch"]) == (2, 2)


def test_the_grid_never_exceeds_the_tiles_that_could_exist():
    target, launches = compiled(replace(SPEC, multiprocessors=500))
    target.execute(**arguments(tokens_q=10))
    # Ten tokens of two sequences touch at most two tiles of 128 rows, times 4 heads.
    assert received(launches[0])["ctas"] == 8


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
    assert received(launches[0])["ctas"] == 2 * clusters


def test_no_query_capacity_means_no_launch():
    target, launches = compiled(SPEC)
    target.execute(**arguments(tokens_q=0))
    assert launches == []


def test_keys_without_storage_borrow_an_address():
    target, launches = compiled(SPEC)
    call = arguments(tokens_kv=0)
    target.execute(**call)
    got = received(launches[0])
    assert [got["k"], got["v"]] == [call["workspace"].data_ptr()] * 2
    assert got["tokens_kv"] == 0


def test_an_output_interleaved_with_its_query_is_accepted():
    target, launches = compiled(SPEC)
    slab = torch.zeros(10, 8, 64, dtype=torch.half)
    target.execute(**(arguments() | {"q": slab[:, :4], "out": slab[:, 4:]}))
    assert len(launches) == 1


def test_head_major_lse_passes_its_head_stride():
    target, launches = compiled(replace(SPEC, lse="head_major"))
    target.execute(**(arguments() | {"lse": torch.zeros(4, 32)[:, :17]}))
    assert received(launches[0])["lse_head_stride"] == 32
    with pytest.raises(ContractError, match="cannot hold 10 tokens"):
        target.execute(**(arguments() | {"lse": torch.zeros(4, 9)}))
