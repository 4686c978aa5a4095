"""Comparisons (PTX ISA, Comparison and Selection Instructions: setp)."""

from __future__ import annotations

from sidestream.harness.exec.lower.builder import Builder, Unsupported
from sidestream.harness.exec.lower.checks import only, width
from sidestream.harness.ptx import ir

_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_BOOL = {"": 0, "and": 1, "or": 2, "xor": 3}


def _setp(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "cmp", "type", "bool", "ftz")
    kind = ins.mods["type"]
    compare = _UNSIGNED.get(ins.mods["cmp"], ins.mods["cmp"])
    if kind[0] == "b" and kind[1:].isdigit():
        kind = f"u{kind[1:]}"
    if kind not in ("u16", "s16", "u32", "s32", "u64", "s64", "f32", "f64"):
        raise Unsupported(f"setp.{kind}")
    w = width(kind)
    suffix = ".ftz" if "ftz" in ins.mods and kind == "f32" else ""
    mode = _BOOL[ins.mods.get("bool", "")]
    low.emit(
        f"setp.{compare}.{kind}{suffix}",
        d=low.optional_dest(ins.args["p"], 1),
        a=low.source(ins.args["a"], w, kind),
        b=low.source(ins.args["b"], w, kind),
        c=low.pred(ins.args["c"]) if mode else None,
        x=(mode, low.optional_dest(ins.args.get("q"), 1)),
    )


FAMILY = {"setp": _setp}
