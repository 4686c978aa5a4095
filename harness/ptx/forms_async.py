"""Forms of `cp.async`, the bulk copies without a tensor map, and their groups.

PTX ISA chapter "Data Movement and Conversion Instructions: Asynchronous copy".
"""

from __future__ import annotations

from collections.abc import Mapping

from sidestream.harness.ptx import ir
from sidestream.harness.ptx.forms import Family, Form

_HINT = "cache_hint=L2::cache_hint?"
_PREFETCH = "prefetch_size=L2::64B|L2::128B|L2::256B?"
_POLICY = " policy:b64?cache_hint"
_MBARRIER = "completion=mbarrier::complete_tx::bytes"
_GROUP = "completion=bulk_group"


def _section(name: str) -> str:
    return f"Data Movement and Conversion Instructions: {name}"


def _copy_size(mods: Mapping[str, str], args: Mapping[str, ir.Operand]) -> bool:
    """`.cg` copies 16 bytes, `.ca` 4, 8 or 16."""
    size = args["size"]
    allowed = (16,) if mods["cop"] == "cg" else (4, 8, 16)
    return isinstance(size, ir.Immediate) and size.value in allowed


_CP_ASYNC = f"cop=ca|cg dst=shared|shared::cta src=global {_HINT} {_PREFETCH}"
_REDUCED: tuple[tuple[str, str], ...] = (
    ("and|or|xor", "b32"),
    ("add", "u32|s32|u64"),
    ("inc|dec", "u32"),
    ("min|max", "u32|s32"),
)
_REDUCED_GLOBAL: tuple[tuple[str, str], ...] = (
    ("and|or|xor", "b32|b64"),
    ("add", "u32|s32|u64|f32|f64"),
    ("inc|dec", "u32"),
    ("min|max", "u32|s32|u64|s64|f16|bf16"),
    ("add noftz", "f16|bf16"),
)

FAMILIES: tuple[Family, ...] = (
    Family(
        "cp.async",
        _section("cp.async"),
        (
            Form(
                _CP_ASYNC,
                "[dst] [src] $size src_size:b32?" + _POLICY,
                rule=_copy_size,
            ),
            Form(
                _CP_ASYNC,
                "[dst] [src] $size ignore_src:pred" + _POLICY,
                rule=_copy_size,
            ),
        ),
    ),
    Family("cp.async.commit_group", _section("cp.async.commit_group"), (Form("", ""),)),
    Family(
        "cp.async.wait_group", _section("cp.async.wait_group"), (Form("", "$count"),)
    ),
    Family("cp.async.wait_all", _section("cp.async.wait_all"), (Form("", ""),)),
    Family(
        "cp.async.mbarrier.arrive",
        "Parallel Synchronization and Communication Instructions:"
        " cp.async.mbarrier.arrive",
        (Form("noinc? space=shared|shared::cta? type=b64", "[addr]"),),
    ),
    Family(
        "cp.async.bulk",
        _section("cp.async.bulk"),
        (
            Form(
                f"dst=shared::cta src=global {_MBARRIER} {_HINT} ignore_oob?",
                "[dst] [src] size:b32 ignore_left:b32?ignore_oob"
                " ignore_right:b32?ignore_oob [mbar]" + _POLICY,
            ),
            Form(
                f"dst=shared::cluster src=global {_MBARRIER}"
                f" multicast=multicast::cluster? {_HINT}",
                "[dst] [src] size:b32 [mbar] cta_mask:b16?multicast" + _POLICY,
            ),
            Form(
                f"dst=shared::cluster src=shared::cta {_MBARRIER}",
                "[dst] [src] size:b32 [mbar]",
            ),
            Form(
                f"dst=global src=shared::cta {_GROUP} {_HINT} cp_mask?",
                "[dst] [src] size:b32" + _POLICY + " byte_mask:b16?cp_mask",
            ),
        ),
    ),
    Family(
        "cp.reduce.async.bulk",
        _section("cp.reduce.async.bulk"),
        (
            *(
                Form(
                    f"dst=shared::cluster src=shared::cta {_MBARRIER} op={ops}"
                    f" type={types}",
                    "[dst] [src] size:b32 [mbar]",
                )
                for ops, types in _REDUCED
            ),
            *(
                Form(
                    f"dst=global src=shared::cta {_GROUP} {_HINT} op={ops}"
                    f" type={types}",
                    "[dst] [src] size:b32" + _POLICY,
                )
                for ops, types in _REDUCED_GLOBAL
            ),
        ),
    ),
    Family(
        "cp.async.bulk.prefetch",
        _section("cp.async.bulk.prefetch"),
        (Form(f"level=L2 src=global {_HINT}", "[src] size:b32" + _POLICY),),
    ),
    Family(
        "cp.async.bulk.commit_group",
        _section("cp.async.bulk.commit_group"),
        (Form("", ""),),
    ),
    Family(
        "cp.async.bulk.wait_group",
        _section("cp.async.bulk.wait_group"),
        (Form("read?", "$count"),),
    ),
)
