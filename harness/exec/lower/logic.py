"""Logic, shifts, counting and bit fields.

PTX ISA, Logic and Shift Instructions; Integer Arithmetic Instructions: popc, clz,
bfind, fns, brev, bfe, bfi, szext, bmsk.
"""

from __future__ import annotations

from sidestream.harness.exec.lower.builder import Builder, Ref, Unsupported
from sidestream.harness.exec.lower.checks import arithmetic, bits, only, width
from sidestream.harness.ptx import ir


def _bitwise(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "type")
    kind = ins.mods["type"]
    if kind == "pred":
        low.emit(
            f"{ins.op}.pred",
            d=low.dest(ins.args["d"], 1),
            a=low.pred(ins.args["a"]),
            b=low.pred(ins.args["b"]) if "b" in ins.args else None,
        )
        return
    # Canonical 16-bit rows stay canonical under and, or, xor.
    narrow = kind == "b16" and ins.op not in ("not", "cnot")
    arithmetic(low, ins, f"{ins.op}.b{32 if narrow else bits(kind)}", kind)


def _shift(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "type")
    kind = ins.mods["type"]
    w = width(kind)
    form = f"s{bits(kind)}" if kind[0] == "s" else f"u{bits(kind)}"
    low.emit(
        f"shl.b{bits(kind)}" if ins.op == "shl" else f"shr.{form}",
        d=low.dest(ins.args["d"], w),
        a=low.source(ins.args["a"], w, kind),
        b=low.source(ins.args["b"], 32),
    )


def _funnel(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "type", "direction", "mode")
    arithmetic(low, ins, f"shf.{ins.mods['direction']}.{ins.mods['mode']}", "b32")


def literal(operand: ir.Operand, what: str) -> int:
    """The value of an operand that must be an integer literal.

    Raises:
        Unsupported: if it is not one.
    """
    if not isinstance(operand, ir.Immediate) or operand.kind != "int":
        raise Unsupported(f"{what} that is not a literal")
    return operand.value


def _lop3(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "type", "bool")
    table = literal(ins.args["lut"], "lop3 table") & 0xFF
    if "bool" not in ins.mods:
        arithmetic(low, ins, "lop3", "b32", (table,))
        return
    low.emit(
        "lop3.pred",
        d=low.optional_dest(ins.args["d"], 32),
        a=low.source(ins.args["a"], 32),
        b=low.source(ins.args["b"], 32),
        c=low.source(ins.args["c"], 32),
        x=(
            table,
            low.pred(ins.args["t"]),
            int(ins.mods["bool"] == "and"),
            low.optional_dest(ins.args["p"], 1),
        ),
    )


def _count(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "type", "shiftamt")
    kind = ins.mods["type"]
    low.emit(
        f"{ins.op}.{kind}",
        d=low.dest(ins.args["d"], width(kind) if ins.op == "brev" else 32),
        a=low.source(ins.args["a"], width(kind)),
        x=(int("shiftamt" in ins.mods),),
    )


def _find_nth(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "type")
    low.emit(
        "fns",
        d=low.dest(ins.args["d"], 32),
        a=low.source(ins.args["mask"], 32),
        b=low.source(ins.args["a"], 32),
        c=low.source(ins.args["b"], 32),
    )


def _field(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "type")
    kind = ins.mods["type"]
    w = width(kind)
    insert = ins.op == "bfi"
    x: tuple[int | Ref, ...] = (low.source(ins.args["t"], 32),) if insert else ()
    low.emit(
        f"{ins.op}.{kind}",
        d=low.dest(ins.args["d"], w),
        a=low.source(ins.args["a"], w),
        b=low.source(ins.args["b"], w if insert else 32),
        c=low.source(ins.args["c"], 32),
        x=x,
    )


def _clamped(low: Builder, ins: ir.Instruction) -> None:
    """Szext and bmsk: amounts past the width clamp or wrap."""
    only(ins, "type", "mode")
    wrap = int(ins.mods["mode"] == "wrap")
    arithmetic(low, ins, f"{ins.op}.{ins.mods['type']}", "b32", (wrap,))


FAMILY = {
    **dict.fromkeys(("and", "or", "xor", "not", "cnot"), _bitwise),
    **dict.fromkeys(("shl", "shr"), _shift),
    **dict.fromkeys(("popc", "clz", "brev", "bfind"), _count),
    **dict.fromkeys(("bfe", "bfi"), _field),
    **dict.fromkeys(("szext", "bmsk"), _clamped),
    "shf": _funnel,
    "lop3": _lop3,
    "fns": _find_nth,
}
