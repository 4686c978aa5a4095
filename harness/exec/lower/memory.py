"""Loads, stores and cache hints.

PTX ISA, Data Movement and Conversion Instructions: ld, ldu, st, st.bulk, prefetch,
applypriority, discard, createpolicy.
"""

from __future__ import annotations

from sidestream.harness.exec.lower.builder import WIDTHS, Builder, Ref, Unsupported
from sidestream.harness.exec.lower.checks import bits, only, width
from sidestream.harness.ptx import ir

SPACES = {
    None: 0,
    "global": 1,
    "const": 1,
    "shared": 2,
    "shared::cta": 2,
    "shared::cluster": 5,
    "local": 3,
    "param": 4,
    "param::entry": 4,
}
"""`enum Space` of core/core.h by the space as written; None is generic."""
ADDR64 = 0x100
_SIGNED = ("s8", "s16", "s32")
# Orders hold because instructions execute one after another; caches have no effect.
_HINTS = ("sem", "scope", "cop", "level_eviction", "l2_eviction", "cache_hint")
_LOAD_HINTS = (*_HINTS, "prefetch_size", "nc", "mmio")


def place(
    low: Builder, address: ir.Operand, space: str | None, name: str = "state space"
) -> tuple[Ref, int, int]:
    """Base row, byte offset and the space number with its `ADDR64` flag.

    Raises:
        Unsupported: for a space that no instruction here reads.
    """
    if not isinstance(address, ir.Address):
        raise Unsupported(f"{name}: not an address")
    if space not in SPACES:
        raise Unsupported(f"{name} .{space}")
    number = SPACES[space]
    base = address.base
    wide = number not in (2, 3, 5)
    if isinstance(base, ir.Register):
        wide = wide or WIDTHS.get(base.type) == 64
    elif isinstance(base, ir.Symbol) and number in (0, 1):
        if base.space not in ("global", "const"):
            raise Unsupported(f"address of a .{base.space} variable here")
    elif isinstance(base, ir.Symbol) and (number, base.space) == (5, "shared"):
        pass  # the CTA's own variable lies in the cluster's window too
    elif isinstance(base, ir.Symbol) and SPACES.get(base.space) != number:
        raise Unsupported(f"address of a .{base.space} variable in .{space}")
    row, offset = low.address(address, 64 if wide else 32)
    return row, offset, number | (ADDR64 if wide else 0)


def elements(operand: ir.Operand) -> tuple[ir.Operand, ...]:
    """Elements of a vector; a lone operand is a vector of one."""
    return operand.elements if isinstance(operand, ir.Vector) else (operand,)


def _register_bits(operands: tuple[ir.Operand, ...], least: int) -> int:
    found = {bits(o.type) for o in operands if isinstance(o, ir.Register)}
    if len(found) > 1:
        raise Unsupported("elements of different widths")
    return max(found, default=max(least, 32))


def _ld(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "type", "space", "vec", *_LOAD_HINTS)
    kind = ins.mods["type"]
    size = bits(kind) // 8
    base, offset, where = place(low, ins.args["addr"], ins.mods.get("space"))
    wanted = elements(ins.args["d"])
    register = _register_bits(wanted, 8 * size)
    if register > 64 and size < 16:
        raise Unsupported(f"ld.{kind} into a {register}-bit register")
    row = WIDTHS[f"b{register}"]
    low.emit(
        f"ld.{size}",
        a=base,
        imm=offset,
        ext=[low.optional_dest(e, row) for e in wanted],
        x=(where, int(kind in _SIGNED), register),
    )


def _st(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "type", "space", "vec", *_HINTS, "mmio")
    kind = ins.mods["type"]
    size = bits(kind) // 8
    base, offset, where = place(low, ins.args["addr"], ins.mods.get("space"))
    row = width(kind)
    low.emit(
        f"st.{size}",
        a=base,
        imm=offset,
        ext=[low.source(e, row, kind) for e in elements(ins.args["b"])],
        x=(where,),
    )


def _st_bulk(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "sem", "space")
    value = ins.args["value"]
    if not isinstance(value, ir.Immediate) or value.value != 0:
        raise Unsupported("st.bulk of a value other than 0")
    base, offset, where = place(low, ins.args["addr"], ins.mods.get("space"))
    size = low.source(ins.args["size"], 64)
    low.emit("st.bulk", a=base, imm=offset, b=size, x=(where,))


def _discard(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "space", "level")
    size = ins.args["size"]
    if not isinstance(size, ir.Immediate) or size.value != 128:
        raise Unsupported("discard of a size other than 128")
    base, offset, where = place(low, ins.args["addr"], ins.mods.get("space"))
    low.emit("discard", a=base, imm=offset, x=(where,))


def _hint(low: Builder, ins: ir.Instruction) -> None:
    """Prefetches and priorities: no architectural effect, addresses not checked."""
    only(ins, "space", "level", "l2_eviction")
    low.emit("nop")


def _policy(low: Builder, ins: ir.Instruction) -> None:
    """An opaque cache policy: only ever handed to instructions that ignore it."""
    only(ins, "space", "level", "l2_eviction", "secondary", "type")
    low.emit("mov.b64", d=low.dest(ins.args["d"], 64), a=low.const(0, 64))


FAMILY = {
    "ld": _ld,
    "ldu": _ld,
    "st": _st,
    "st.bulk": _st_bulk,
    "discard": _discard,
    "prefetch": _hint,
    "prefetchu": _hint,
    "prefetch.tensormap": _hint,
    "applypriority": _hint,
    "createpolicy.fractional": _policy,
    "createpolicy.range": _policy,
    "createpolicy.cvt": _policy,
}
