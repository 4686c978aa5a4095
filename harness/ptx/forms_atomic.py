"""Forms of `atom`, `red` and `red.async`.

PTX ISA chapter "Parallel Synchronization and Communication Instructions".
"""

from __future__ import annotations

from collections.abc import Mapping

from sidestream.harness.ptx import ir
from sidestream.harness.ptx.forms import Family, Form

_SPACE = "space=global|shared|shared::cta|shared::cluster?"
_SCOPE = "scope=cta|cluster|gpu|sys?"
_HINT = "cache_hint=L2::cache_hint?"
_POLICY = " policy:b64?cache_hint"
_REDUCTIONS: tuple[tuple[str, str], ...] = (
    ("and|or|xor", "b32|b64"),
    ("add", "u32|s32|u64|f32|f64"),
    ("inc|dec", "u32"),
    ("min|max", "u32|s32|u64|s64"),
)


def _section(name: str) -> str:
    return f"Parallel Synchronization and Communication Instructions: {name}"


def _hint_fits(mods: Mapping[str, str], args: Mapping[str, ir.Operand]) -> bool:
    """Cache hints are for global memory and generic addresses."""
    return "cache_hint" not in mods or mods.get("space", "global") == "global"


def _halves_fit(mods: Mapping[str, str], args: Mapping[str, ir.Operand]) -> bool:
    """Eight-element vectors are of 16-bit types only."""
    return mods["vec"] != "v8" or mods["type"] in ("f16", "bf16")


def _reductions(sem: str, dest: str) -> list[Form]:
    """What `atom` and `red` share; `dest` is the result operand with its space."""
    start = f"sem={sem}? {_SCOPE}"
    found = [
        Form(
            f"{start} {_SPACE} op={ops} {_HINT} type={types}",
            f"{dest.format('d:type')}[addr] b:type" + _POLICY,
            rule=_hint_fits,
        )
        for ops, types in _REDUCTIONS
    ]
    found.append(
        Form(
            f"{start} {_SPACE} op=add noftz {_HINT} type=f16|f16x2|bf16|bf16x2",
            f"{dest.format('d:type')}[addr] b:type" + _POLICY,
            rule=_hint_fits,
        )
    )
    found.append(
        Form(
            f"{start} space=global? op=add {_HINT} vec=v2|v4 type=f32",
            f"{dest.format('#d:type')}[addr] #b:type" + _POLICY,
        )
    )
    found.append(
        Form(
            f"{start} space=global? op=add|min|max noftz {_HINT} vec=v2|v4|v8"
            " type=f16|bf16|f16x2|bf16x2",
            f"{dest.format('#d:type')}[addr] #b:type" + _POLICY,
            rule=_halves_fit,
        )
    )
    return found


_ATOM_START = f"sem=relaxed|acquire|release|acq_rel? {_SCOPE} {_SPACE}"

FAMILIES: tuple[Family, ...] = (
    Family(
        "atom",
        _section("atom"),
        (
            *_reductions("relaxed|acquire|release|acq_rel", "={} "),
            Form(
                f"{_ATOM_START} op=exch {_HINT} type=b32|b64|b128",
                "=d:type [addr] b:type" + _POLICY,
                rule=_hint_fits,
            ),
            Form(
                f"{_ATOM_START} op=cas type=b16|b32|b64|b128",
                "=d:type [addr] b:type c:type",
            ),
        ),
    ),
    Family("red", _section("red"), tuple(_reductions("relaxed|release", ""))),
    Family(
        "red.async",
        _section("red.async"),
        (
            *(
                Form(
                    "sem=relaxed scope=cluster space=shared::cluster?"
                    f" completion=mbarrier::complete_tx::bytes op={ops} type={types}",
                    "[addr] b:type [mbar]",
                )
                for ops, types in (
                    ("inc|dec", "u32"),
                    ("min|max", "u32|s32"),
                    ("and|or|xor", "b32"),
                    ("add", "u32|s32|u64"),
                )
            ),
            Form(
                "mmio sem=release scope=sys space=global? op=add type=u32|s32|u64|s64",
                "[addr] b:type",
            ),
            Form(
                "sem=release scope=gpu|sys space=global? op=add type=u32|s32|u64|s64",
                "[addr] b:type",
            ),
        ),
    ),
)
