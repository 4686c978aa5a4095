"""What a family's function must check before it trusts the spelling it was given."""

from __future__ import annotations

from sidestream.harness.exec.lower.builder import WIDTHS, Builder, Ref, Unsupported
from sidestream.harness.ptx import ir

FTZ, SAT, RELU, NAN, XORSIGN, ABS, SATFINITE, THREE = 1, 2, 4, 8, 16, 32, 64, 256
"""Flags of floating-point operations, as in core/fbits.h."""

_S32 = range(-(2**31), 2**31)
_FLAGS = {
    "ftz": FTZ,
    "sat": SAT,
    "relu": RELU,
    "nan": NAN,
    "xorsign": XORSIGN,
    "abs": ABS,
    "satfinite": SATFINITE,
}


def only(ins: ir.Instruction, *allowed: str) -> None:
    """Refuse an instruction with a modifier slot its family does not handle.

    Raises:
        Unsupported: naming the slot and its spelling.
    """
    for slot, spelling in ins.mods.items():
        if slot not in allowed:
            raise Unsupported(f"modifier .{spelling} ({slot})")


def small(offset: int) -> int:
    """Return an address offset that fits a 32-bit field.

    Raises:
        Unsupported: for one that does not.
    """
    if offset not in _S32:
        raise Unsupported(f"address offset {offset}")
    return offset


def width(kind: str) -> int:
    """Row width of a type.

    Raises:
        Unsupported: if there is no such type.
    """
    if kind not in WIDTHS:
        raise Unsupported(f"type .{kind}")
    return WIDTHS[kind]


def bits(kind: str) -> int:
    """Bits of a scalar type by its name: `s16` -> 16, `pred` -> 1."""
    return 1 if kind == "pred" else int(kind.lstrip("busfpred"))


def flags(ins: ir.Instruction, *allowed: str) -> int:
    """The flags of an instruction's floating-point modifiers.

    Args:
        ins: The instruction.
        allowed: The modifiers the operation can have.

    Raises:
        Unsupported: for a modifier that is not allowed.
    """
    total = 0
    for slot, flag in _FLAGS.items():
        if slot in ins.mods:
            if slot not in allowed:
                raise Unsupported(f"modifier .{slot}")
            total |= flag
    return total


def arithmetic(
    low: Builder,
    ins: ir.Instruction,
    op: str,
    kind: str,
    x: tuple[int | Ref, ...] = (),
) -> None:
    """Emit `op` on sources `a`, `b`, `c` (as present) into `d`, all of type `kind`."""
    w = width(kind)
    args = ins.args
    low.emit(
        op,
        d=low.dest(args["d"], w),
        a=low.source(args["a"], w, kind),
        b=low.source(args["b"], w, kind) if "b" in args else None,
        c=low.source(args["c"], w, kind) if "c" in args else None,
        x=x,
    )
