"""Moves, packing, selection and address conversion.

PTX ISA, Data Movement and Conversion Instructions: mov, prmt, cvta, isspacep;
Comparison and Selection Instructions: selp, slct.
"""

from __future__ import annotations

from sidestream.harness.exec.lower.builder import Builder, Ref, Unsupported
from sidestream.harness.exec.lower.checks import FTZ, arithmetic, bits, only, width
from sidestream.harness.exec.lower.special import emit_special
from sidestream.harness.ptx import ir

WINDOWS = {"global": 0, "const": 0, "shared": 1, "local": 2, "param": 3}
"""Generic-address window of a space: bits 60 and up (`WINDOW_` in core/core.h)."""
_WINDOW_SHIFT = 60


def _mov(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "type")
    kind = ins.mods["type"]
    w = width(kind)
    destination = ins.args["d"]
    if w == 1:
        low.emit("mov.pred", d=low.dest(destination, 1), a=low.pred(ins.args["a"]))
        return
    source = ins.args["a"]
    if isinstance(source, ir.Special) and ins.guard is None:
        emit_special(low, low.dest(destination, w), source.name)
        return
    low.emit(f"mov.b{w}", d=low.dest(destination, w), a=low.source(source, w, kind))


_PACKS = {
    (16, 2): "pack.b16",
    (32, 2): "pack.b32",
    (32, 4): "pack4.b32",
    (64, 2): "pack.b64",
    (64, 4): "pack4.b64",
    (128, 2): "pack.b128",
    (128, 4): "pack4.b128",
}
_UNPACKS = {
    (32, 2): "unpack.b32",
    (64, 2): "unpack.b64",
    (128, 2): "unpack.b128",
    (128, 4): "unpack4.b128",
    **dict.fromkeys(((16, 2), (32, 4), (64, 4)), "unpack.small"),
}


def _vector(ins: ir.Instruction, name: str) -> tuple[ir.Vector, int, int]:
    """A vector operand, and the row widths of the whole and of an element."""
    vector = ins.args[name]
    if not isinstance(vector, ir.Vector):
        raise Unsupported("mov of something that is not a vector")
    whole = bits(ins.mods["type"])
    return vector, max(whole, 32), 64 if whole // len(vector.elements) == 64 else 32


def _pack(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "type")
    vector, whole, part = _vector(ins, "a")
    size = bits(ins.mods["type"])
    op = _PACKS.get((size, len(vector.elements)))
    if op is None:
        raise Unsupported(f"pack of {len(vector.elements)} parts into {size} bits")
    parts = [low.source(e, part) for e in vector.elements]
    low.emit(op, d=low.dest(ins.args["d"], whole), ext=parts)


def _unpack(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "type")
    vector, whole, part = _vector(ins, "d")
    size = bits(ins.mods["type"])
    op = _UNPACKS.get((size, len(vector.elements)))
    if op is None:
        raise Unsupported(f"unpack of {size} bits into {len(vector.elements)} parts")
    parts: list[Ref | None] = [low.optional_dest(e, part) for e in vector.elements]
    source = low.source(ins.args["a"], whole)
    x = (size // len(parts), int(size == 64)) if op == "unpack.small" else ()
    low.emit(op, a=source, ext=parts, x=x)


def _selp(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "type")
    kind = ins.mods["type"]
    w = width(kind)
    low.emit(
        f"selp.b{w}",
        d=low.dest(ins.args["d"], w),
        a=low.source(ins.args["a"], w, kind),
        b=low.source(ins.args["b"], w, kind),
        c=low.pred(ins.args["c"]),
    )


def _slct(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "dtype", "stype", "ftz")
    kind, by = ins.mods["dtype"], ins.mods["stype"]
    w = width(kind)
    low.emit(
        f"{'slct64' if w == 64 else 'slct'}.{by}",
        d=low.dest(ins.args["d"], w),
        a=low.source(ins.args["a"], w, kind),
        b=low.source(ins.args["b"], w, kind),
        c=low.source(ins.args["c"], 32, by),
        x=(FTZ if "ftz" in ins.mods else 0,),
    )


_PERMUTE = ("", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16")


def _prmt(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "type", "mode")
    mode = _PERMUTE.index(ins.mods.get("mode", ""))
    arithmetic(low, ins, "prmt", "b32", (mode,))


def _space(ins: ir.Instruction) -> str:
    space = ins.mods["space"].split("::")[0]
    if space not in WINDOWS:
        raise Unsupported(f"address space .{space}")
    return space


def _cvta(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "space", "type")
    if ins.mods["type"] != "u64":
        raise Unsupported("32-bit generic addresses")
    window = WINDOWS[_space(ins)] << _WINDOW_SHIFT
    source = low.source(ins.args["a"], 64)
    destination = low.dest(ins.args["d"], 64)
    if not window:
        low.emit("mov.b64", d=destination, a=source)
    elif ins.op == "cvta.to":
        mask = low.const((1 << _WINDOW_SHIFT) - 1, 64)
        low.emit("and.b64", d=destination, a=source, b=mask)
    else:
        low.emit("or.b64", d=destination, a=source, b=low.const(window, 64))


def _isspacep(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "space")
    space = _space(ins)
    if space == "const":
        raise Unsupported("isspacep.const: constants lie among global addresses here")
    cta = ins.mods["space"] in ("shared", "shared::cta")
    low.emit(
        "isspacep",
        d=low.dest(ins.args["p"], 1),
        a=low.source(ins.args["a"], 64),
        x=(WINDOWS[space], int(cta)),
    )


FAMILY = {
    "mov": _mov,
    "mov.pack": _pack,
    "mov.unpack": _unpack,
    "selp": _selp,
    "slct": _slct,
    "prmt": _prmt,
    "cvta": _cvta,
    "cvta.to": _cvta,
    "isspacep": _isspacep,
}
