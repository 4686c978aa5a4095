"""Moves, packing, selection and address conversion.

PTX ISA, Data Movement and Conversion Instructions; Comparison and Selection
Instructions.
"""

from __future__ import annotations

from sidestream.harness.exec.lower.builder import Builder, Ref, Unsupported
from sidestream.harness.exec.lower.checks import bits, only, width
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
    if isinstance(source, ir.Special) and isinstance(destination, ir.Register):
        from sidestream.harness.exec.lower.special import emit_special

        emit_special(low, low.dest(destination, w), source.name)
        return
    low.emit(f"mov.b{w}", d=low.dest(destination, w), a=low.source(source, w, kind))


def _pack(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "type")
    w = bits(ins.mods["type"])
    source = ins.args["a"]
    if not isinstance(source, ir.Vector):
        raise Unsupported("mov of something that is not a vector")
    part = w // len(source.elements)
    names = {(64, 32): "pack.b64", (32, 16): "pack.b32", (64, 16): "pack4.b64"}
    names |= {(128, 64): "pack.b128", (32, 8): "pack4.b32", (16, 8): "pack.b16"}
    if (w, part) not in names:
        raise Unsupported(f"pack of {len(source.elements)} parts into {w} bits")
    parts = [low.source(e, 64 if part == 64 else 32) for e in source.elements]
    row = w if w > 32 else 32
    low.emit(names[w, part], d=low.dest(ins.args["d"], row), ext=parts)


def _unpack(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "type")
    w = bits(ins.mods["type"])
    destination = ins.args["d"]
    if not isinstance(destination, ir.Vector):
        raise Unsupported("mov into something that is not a vector")
    part = w // len(destination.elements)
    row = 64 if part == 64 else 32
    parts: list[Ref | None] = [low.optional_dest(e, row) for e in destination.elements]
    source = low.source(ins.args["a"], w if w > 32 else 32)
    if part in (32, 64) and len(parts) == 2:
        low.emit(f"unpack.b{w}", a=source, ext=parts)
    elif part in (8, 16):
        low.emit("unpack.small", a=source, ext=parts, x=(part, int(w == 64)))
    else:
        raise Unsupported(f"unpack of {w} bits into {len(parts)} parts")


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
    only(ins, "dtype", "stype")
    w = width(ins.mods["dtype"])
    prefix = "slct64" if w == 64 else "slct"
    low.emit(
        f"{prefix}.{ins.mods['stype']}",
        d=low.dest(ins.args["d"], w),
        a=low.source(ins.args["a"], w, ins.mods["dtype"]),
        b=low.source(ins.args["b"], w, ins.mods["dtype"]),
        c=low.source(ins.args["c"], 32, ins.mods["stype"]),
    )


_PERMUTE = ("", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16")


def _prmt(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "type", "mode")
    low.emit(
        "prmt",
        d=low.dest(ins.args["d"], 32),
        a=low.source(ins.args["a"], 32),
        b=low.source(ins.args["b"], 32),
        c=low.source(ins.args["c"], 32),
        x=(_PERMUTE.index(ins.mods.get("mode", "")),),
    )


def _space(ins: ir.Instruction) -> str:
    space = ins.mods["space"].split("::")[0]
    if space not in WINDOWS:
        raise Unsupported(f"address space .{space}")
    return space


def _cvta(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "space", "type")
    w = width(ins.mods["type"])
    if w != 64:
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
    destination = ins.args["p"] if "p" in ins.args else ins.args["d"]
    low.emit(
        "isspacep",
        d=low.dest(destination, 1),
        a=low.source(ins.args["a"], 64),
        x=(WINDOWS[_space(ins)],),
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
