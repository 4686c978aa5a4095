"""Bulk and tensor copies (PTX ISA, Asynchronous copy; Tensor copy)."""

from __future__ import annotations

from sidestream.harness.exec.lower.builder import Builder, Ref, Unsupported
from sidestream.harness.exec.lower.checks import only, small
from sidestream.harness.exec.lower.logic import literal
from sidestream.harness.ptx import ir

# The order is that of the enums in core/bulk_reduce.h.
_OPS = ("", "add", "min", "max", "inc", "dec", "and", "or", "xor")
_TYPES = ("u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64", "b32", "b64")
_FOUR_ROWS = ("tile::gather4", "tile::scatter4")
_PARAM_WINDOW = 3 << 60


def _reduction(ins: ir.Instruction) -> int:
    return _OPS.index(ins.mods["op"]) if "op" in ins.mods else 0


def _address(
    low: Builder, ins: ir.Instruction, name: str, width: int
) -> tuple[Ref, int]:
    operand = ins.args[name]
    if not isinstance(operand, ir.Address):
        raise Unsupported(f"operand {name} that is not an address")
    row, offset = low.address(operand, width)
    return row, small(offset)


def _optional(low: Builder, ins: ir.Instruction, name: str) -> Ref | None:
    return low.source(ins.args[name], 32) if name in ins.args else None


def _map(low: Builder, ins: ir.Instruction) -> tuple[Ref, int, list[Ref]]:
    """Row of the map's generic address, its offset, and the coordinates."""
    where = ins.args["map"]
    if not isinstance(where, ir.TensorAddress):
        raise Unsupported("a tensor copy without a tensor map")
    coords = [low.source(c, 32) for c in where.coords]
    base = where.map.base
    if isinstance(base, ir.Symbol) and base.space == "param":
        at = low.const(_PARAM_WINDOW | low.symbol(base), 64)
        return at, where.map.offset, coords
    row, offset = low.address(where.map, 64)
    return row, offset, coords


def _dimension(ins: ir.Instruction, what: str) -> int:
    """Give the dimension, with `FOUR_ROWS` of core/tma.h where rows are named."""
    mode = ins.mods.get("mode", "tile")
    if mode not in ("tile", *_FOUR_ROWS):
        raise Unsupported(f"{what} mode .{mode}")
    return int(ins.mods["dim"][0]) | (0x100 if mode in _FOUR_ROWS else 0)


def _load_flags(ins: ir.Instruction) -> int:
    """Give `enum LoadFlag` of core/tma.c: the group, and whose memory it may be."""
    pair = ins.mods.get("cta_group") == "cta_group::2"
    return int(pair) | int(ins.mods["dst"] == "shared::cta") << 1


def _tensor(low: Builder, ins: ir.Instruction) -> None:
    only(
        ins,
        *("dim", "dst", "src", "mode", "completion", "multicast", "cache_hint", "op"),
        "cta_group",
    )
    dim = _dimension(ins, "tensor copy")
    row, offset, coords = _map(low, ins)
    store = ins.mods["dst"] == "global"
    shared, at = _address(low, ins, "src" if store else "dst", 32)
    mbar, mbar_at = (None, 0) if store else _address(low, ins, "mbar", 32)
    how = _reduction(ins) if store else _load_flags(ins)
    low.emit(
        "tma.store" if store else "tma.load",
        ext=(row, shared, mbar, _optional(low, ins, "cta_mask"), *coords),
        x=(dim, at, mbar_at, how),
        imm=offset,
    )


def _prefetch_tensor(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "dim", "src", "level", "mode", "cache_hint")
    dim = _dimension(ins, "tensor prefetch")
    row, offset, coords = _map(low, ins)
    low.emit(
        "tma.prefetch",
        ext=(row, None, None, None, *coords),
        x=(dim,),
        imm=offset,
    )


def _bulk(low: Builder, ins: ir.Instruction) -> None:
    only(
        ins,
        *("dst", "src", "completion", "multicast", "cache_hint", "cp_mask"),
        *("op", "type", "noftz", "ignore_oob"),
    )
    store = ins.mods["dst"] == "global"
    wide_source = ins.mods["src"] == "global"
    dst, dst_at = _address(low, ins, "dst", 64 if store else 32)
    src, src_at = _address(low, ins, "src", 64 if wide_source else 32)
    mbar, mbar_at = (None, 0) if store else _address(low, ins, "mbar", 32)
    mask = _optional(low, ins, "cta_mask") or _optional(low, ins, "byte_mask")
    red = _reduction(ins)
    own = int(wide_source and ins.mods["dst"] == "shared::cta")
    kind = _TYPES.index(ins.mods["type"]) if red else 0
    low.emit(
        "bulk.store" if store else "bulk.load" if wide_source else "bulk.cluster",
        ext=(
            *(dst, src, low.source(ins.args["size"], 32), mbar, mask),
            *(_optional(low, ins, name) for name in ("ignore_left", "ignore_right")),
        ),
        x=(red or own, kind, mbar_at, dst_at),
        imm=src_at,
    )


def _prefetch(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "level", "src", "cache_hint")
    src, offset = _address(low, ins, "src", 64)
    size = low.source(ins.args["size"], 32)
    low.emit("bulk.prefetch", ext=(None, src, size), imm=offset)


def _commit(low: Builder, ins: ir.Instruction) -> None:
    only(ins)
    low.emit("bulk.commit")


def _wait(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "read")
    count = literal(ins.args["count"], "a group count")
    if not 0 <= count < 2**31:
        raise Unsupported(f"wait for {count} groups")
    low.emit("bulk.wait", x=(count, int("read" in ins.mods)))


FAMILY = {
    "cp.async.bulk.tensor": _tensor,
    "cp.reduce.async.bulk.tensor": _tensor,
    "cp.async.bulk.prefetch.tensor": _prefetch_tensor,
    "cp.async.bulk": _bulk,
    "cp.reduce.async.bulk": _bulk,
    "cp.async.bulk.prefetch": _prefetch,
    "cp.async.bulk.commit_group": _commit,
    "cp.async.bulk.wait_group": _wait,
}
