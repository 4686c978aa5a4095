"""Integer arithmetic (PTX ISA, Integer Arithmetic Instructions)."""

from __future__ import annotations

from sidestream.harness.exec.lower.builder import WIDTHS, Builder, Unsupported
from sidestream.harness.ptx import ir


def _add(low: Builder, ins: ir.Instruction) -> None:
    kind = ins.mods["type"]
    if kind not in ("u32", "s32", "u64", "s64") or "sat" in ins.mods:
        raise Unsupported(f"add.{kind}")
    width = WIDTHS[kind]
    low.emit(
        f"add.b{width}",
        d=low.dest(ins.args["d"], width),
        a=low.source(ins.args["a"], width),
        b=low.source(ins.args["b"], width),
    )


FAMILY = {"add": _add}
