"""Edits of tensor maps in memory (PTX ISA, tensormap.replace)."""

from __future__ import annotations

from sidestream.harness.exec.lower.builder import Builder, Unsupported
from sidestream.harness.exec.lower.checks import only
from sidestream.harness.exec.lower.logic import literal
from sidestream.harness.ptx import ir

# The order is that of the enum in core/tensormap_edit.c; the last ordinal of each.
_FIELDS = {
    "global_address": 0,
    "rank": 0,
    "box_dim": 4,
    "global_dim": 4,
    "global_stride": 3,
    "element_stride": 4,
    "elemtype": 0,
    "interleave_layout": 0,
    "swizzle_mode": 0,
    "fill_mode": 0,
}
_MOST = {"elemtype": 12, "interleave_layout": 2, "swizzle_mode": 3, "fill_mode": 1}
_SPACES = {None: 0, "global": 1, "shared::cta": 2}
_S32 = range(-(2**31), 2**31)


def _replace(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "mode", "field", "space", "type")
    field = ins.mods["field"]
    if field not in _FIELDS:
        raise Unsupported(f"tensormap field .{field}")
    address = ins.args["addr"]
    if not isinstance(address, ir.Address):
        raise Unsupported("a tensor map that is not addressed")
    ordinal = literal(ins.args["ord"], "an ordinal") if "ord" in ins.args else 0
    if not 0 <= ordinal <= _FIELDS[field]:
        raise Unsupported(f"ordinal {ordinal} of .{field}")
    if field in _MOST:
        value = literal(ins.args["value"], f"a .{field}")
        if not 0 <= value <= _MOST[field]:
            raise Unsupported(f".{field} {value}")
    wide = ins.mods["type"] == "b64"
    row, offset = low.address(address, 64)
    space = _SPACES[ins.mods.get("space")]
    low.emit(
        "tensormap.replace",
        a=row,
        b=low.source(ins.args["value"], 64 if wide else 32),
        x=(list(_FIELDS).index(field), ordinal, space, int(wide)),
        imm=offset,
    )


def _copy(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "dst", "src", "proxy", "sem", "scope", "sync", "aligned")
    size = literal(ins.args["size"], "a size")
    if size != 128:
        raise Unsupported(f"tensormap.cp_fenceproxy of {size} bytes")
    to, source = ins.args["dst"], ins.args["src"]
    if not (isinstance(to, ir.Address) and isinstance(source, ir.Address)):
        raise Unsupported("a tensor map that is not addressed")
    a, to_offset = low.address(to, 64)
    b, from_offset = low.address(source, 64)
    if to_offset not in _S32 or from_offset not in _S32:
        raise Unsupported("address offset")
    low.emit("tensormap.cp_fenceproxy", a=a, b=b, x=(to_offset, from_offset, size))


FAMILY = {"tensormap.replace": _replace, "tensormap.cp_fenceproxy": _copy}
