"""Warp-level matrix multiply (PTX ISA, Warp-level Matrix Instructions: mma)."""

from __future__ import annotations

from sidestream.harness.exec.lower.builder import Builder, Ref, Unsupported
from sidestream.harness.exec.lower.checks import only
from sidestream.harness.ptx import ir

_INTEGER = ("s8", "u8")


def _elements(ins: ir.Instruction, name: str) -> tuple[ir.Operand, ...]:
    vector = ins.args[name]
    if not isinstance(vector, ir.Vector):
        raise Unsupported(f"operand {name} that is not a vector")
    return vector.elements


def _mma(low: Builder, ins: ir.Instruction) -> None:
    only(
        ins,
        *("sync", "aligned", "shape", "alayout", "blayout", "kind"),
        *("dtype", "atype", "btype", "ctype", "satfinite"),
    )
    mods = ins.mods
    if mods["alayout"] != "row" or mods["blayout"] != "col":
        raise Unsupported("layouts other than row.col")
    # kind::f8f6f4 without scales is, for 8-bit types, the plain instruction.
    if mods.get("kind", "kind::f8f6f4") != "kind::f8f6f4":
        raise Unsupported(mods["kind"])
    if mods["dtype"] != mods["ctype"]:
        raise Unsupported("accumulators of two types")
    types = f"{mods['dtype']}.{mods['atype']}.{mods['btype']}"
    ctype = "f32" if mods["ctype"] == "f32" else ""
    refs: list[Ref] = [low.dest(e, 32) for e in _elements(ins, "d")]
    for name in "ab":
        refs += [low.source(e, 32) for e in _elements(ins, name)]
    refs += [low.source(e, 32, ctype) for e in _elements(ins, "c")]
    if mods["atype"] in _INTEGER:
        signed = (mods["atype"] == "s8", mods["btype"] == "s8")
        low.emit(
            f"mma.{mods['shape']}.s32",
            ext=refs,
            x=(*map(int, signed), int("satfinite" in mods)),
        )
    else:
        low.emit(f"mma.{mods['shape']}.{types}", ext=refs)


FAMILY = {"mma.sync": _mma}
