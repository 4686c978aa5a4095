"""Forms of moves, loads, stores, prefetches and cache policies.

PTX ISA chapter "Data Movement and Conversion Instructions".
"""

from __future__ import annotations

from collections.abc import Mapping

from sidestream.harness.ptx import ir
from sidestream.harness.ptx.forms import Family, Form
from sidestream.harness.ptx.literals import WIDTHS

_MEMORY = "b8|b16|b32|b64|b128|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64"
_SMALL = _MEMORY.replace("|b128", "")
_MOVED = "b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64"
_LOAD_SPACE = (
    "space=const|global|local|param|param::entry|param::func"
    "|shared|shared::cta|shared::cluster"
)
_STORE_SPACE = "space=global|local|param|param::func|shared|shared::cta|shared::cluster"
_VOLATILE_SPACE = "space=global|local|shared|shared::cta|shared::cluster"
_STRONG_SPACE = "space=global|shared|shared::cta|shared::cluster"
_SCOPE = "scope=cta|cluster|gpu|sys"
_L1 = (
    "level_eviction=L1::evict_normal|L1::evict_unchanged|L1::evict_first"
    "|L1::evict_last|L1::no_allocate?"
)
_L2 = "l2_eviction=L2::evict_normal|L2::evict_first|L2::evict_last?"
_HINT = "cache_hint=L2::cache_hint?"
_PREFETCH = "prefetch_size=L2::64B|L2::128B|L2::256B?"
_VEC = "vec=v2|v4|v8?"
_ASYNC = (
    " completion=mbarrier::complete_tx::bytes vec=v2|v4?"
    " type=b32|b64|b128|u32|u64|s32|s64|f32|f64"
)
_LOADED = "=#d:type+ [addr]"
_STORED = "[addr] #b:type+"
_POLICY = " policy:b64?cache_hint"


_GLOBAL_ONLY = {"level_eviction", "l2_eviction", "cache_hint", "prefetch_size"}


def _section(name: str) -> str:
    return f"Data Movement and Conversion Instructions: {name}"


def _vector(mods: Mapping[str, str], args: Mapping[str, ir.Operand]) -> bool:
    """Vectors are of 128 bits at most, in global memory of 256.

    A cache operator and an eviction priority exclude each other. `.nc` is for global
    memory; eviction priorities, cache hints and prefetch sizes are for global memory
    and generic addresses, those of the second level for 256-bit vectors.
    """
    count = int(mods["vec"][1:]) if "vec" in mods else 1
    width = WIDTHS[mods["type"]]
    if count > 1 and count * width > 128:
        wide = count * width == 256 and width in (32, 64)
        if not wide or mods.get("space") != "global":
            return False
    if count == 8 and width != 32:
        return False
    if "nc" in mods and (mods.get("space") != "global" or "sem" in mods):
        return False
    if "nc" in mods and mods.get("cop") in ("lu", "cv"):
        return False
    if _GLOBAL_ONLY & mods.keys() and mods.get("space", "global") != "global":
        return False
    if "l2_eviction" in mods and count * width != 256:
        return False
    return "cop" not in mods or not {"level_eviction", "l2_eviction"} & mods.keys()


def _short_vector(mods: Mapping[str, str], args: Mapping[str, ir.Operand]) -> bool:
    return int(mods.get("vec", "v1")[1:]) * WIDTHS[mods["type"]] <= 128


def _parts(mods: Mapping[str, str], args: Mapping[str, ir.Operand]) -> bool:
    """The elements of a packing or unpacking `mov` fill its type exactly."""
    parts = next(v for v in args.values() if isinstance(v, ir.Vector)).elements
    if len(parts) not in (2, 4):
        return False
    each = WIDTHS[mods["type"]] // len(parts)
    return each >= 8 and all(
        WIDTHS[part.type] == each for part in parts if isinstance(part, ir.Register)
    )


FAMILIES: tuple[Family, ...] = (
    Family(
        "mov",
        _section("mov"),
        (
            Form(f"type=pred|{_MOVED}|b128", "=d:type a:type"),
            Form("type=b16|b32|b64|b128", "=d:type {a}", op="mov.pack", rule=_parts),
            Form(
                "type=b16|b32|b64|b128",
                "={d} a:type",
                op="mov.unpack",
                rule=_parts,
            ),
        ),
    ),
    Family(
        "ld",
        _section("ld"),
        (
            Form(
                f"sem=weak? {_LOAD_SPACE}? cop=ca|cg|cs|lu|cv? nc? {_L1} {_L2} {_HINT}"
                f" {_PREFETCH} {_VEC} type={_MEMORY}",
                _LOADED + _POLICY,
                rule=_vector,
            ),
            Form(
                f"sem=volatile {_VOLATILE_SPACE}? {_PREFETCH} {_VEC} type={_MEMORY}",
                _LOADED,
                rule=_vector,
            ),
            Form(
                f"sem=relaxed|acquire {_SCOPE} {_STRONG_SPACE}? {_L1} {_L2} {_HINT}"
                f" {_PREFETCH} {_VEC} type={_MEMORY}",
                _LOADED + _POLICY,
                rule=_vector,
            ),
            Form(
                f"mmio sem=relaxed scope=sys space=global? type={_MEMORY}",
                _LOADED,
            ),
        ),
    ),
    Family(
        "ldu",
        _section("ldu"),
        (
            Form(
                f"space=global? vec=v2|v4? type={_MEMORY}",
                _LOADED,
                rule=_short_vector,
            ),
        ),
    ),
    Family(
        "st",
        _section("st"),
        (
            Form(
                f"sem=weak? {_STORE_SPACE}? cop=wb|cg|cs|wt? {_L1} {_L2} {_HINT}"
                f" {_VEC} type={_MEMORY}",
                _STORED + _POLICY,
                rule=_vector,
            ),
            Form(
                f"sem=volatile {_VOLATILE_SPACE}? {_VEC} type={_MEMORY}",
                _STORED,
                rule=_vector,
            ),
            Form(
                f"sem=relaxed|release {_SCOPE} {_STRONG_SPACE}? {_L1} {_L2} {_HINT}"
                f" {_VEC} type={_MEMORY}",
                _STORED + _POLICY,
                rule=_vector,
            ),
            Form(f"mmio sem=relaxed scope=sys space=global? type={_MEMORY}", _STORED),
        ),
    ),
    Family(
        "st.async",
        _section("st.async"),
        (
            Form(
                f"sem=weak? space=shared::cluster?{_ASYNC}",
                "[addr] #b:type [mbar]",
                rule=_vector,
            ),
            Form(
                f"scope=cluster space=shared::cluster?{_ASYNC}",
                "[addr] #b:type [mbar]",
                rule=_vector,
            ),
            Form(
                f"mmio sem=release scope=sys space=global? type={_SMALL}",
                "[addr] #b:type",
            ),
            Form(
                f"sem=release scope=gpu|sys space=global? type={_SMALL}",
                "[addr] #b:type",
            ),
        ),
    ),
    Family(
        "st.bulk",
        _section("st.bulk"),
        (Form("sem=weak? space=shared::cta?", "[addr] size:b64 $value"),),
    ),
    Family(
        "prefetch",
        _section("prefetch, prefetchu"),
        (
            Form("space=global|local? level=L1|L2", "[addr]"),
            Form("space=global level=L2::evict_last|L2::evict_normal", "[addr]"),
            Form("space=const|param? !tensormap", "[addr]", op="prefetch.tensormap"),
        ),
    ),
    Family("prefetchu", _section("prefetch, prefetchu"), (Form("level=L1", "[addr]"),)),
    Family(
        "applypriority",
        _section("applypriority"),
        (Form("space=global? l2_eviction=L2::evict_normal", "[addr] $size"),),
    ),
    Family(
        "discard",
        _section("discard"),
        (Form("space=global? level=L2", "[addr] $size"),),
    ),
    Family(
        "createpolicy.fractional",
        _section("createpolicy"),
        (
            Form(
                "l2_eviction=L2::evict_last|L2::evict_normal|L2::evict_first"
                "|L2::evict_unchanged secondary=L2::evict_first|L2::evict_unchanged?"
                " type=b64",
                "=d:b64 fraction:f32?",
            ),
        ),
    ),
    Family(
        "createpolicy.range",
        _section("createpolicy"),
        (
            Form(
                "space=global? l2_eviction=L2::evict_last|L2::evict_normal"
                "|L2::evict_first|L2::evict_unchanged"
                " secondary=L2::evict_first|L2::evict_unchanged? type=b64",
                "=d:b64 [addr] size:b32 total:b32",
            ),
        ),
    ),
    Family(
        "createpolicy.cvt",
        _section("createpolicy"),
        (Form("level=L2 type=b64", "=d:b64 a:b64"),),
    ),
)
