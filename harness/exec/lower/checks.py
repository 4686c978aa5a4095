"""What a family's function must check before it trusts the spelling it was given."""

from __future__ import annotations

from sidestream.harness.exec.lower.builder import WIDTHS, Unsupported
from sidestream.harness.ptx import ir

FTZ, SAT, RELU, NAN, XORSIGN, THREE = 1, 2, 4, 8, 16, 256
"""Flags of floating-point operations, as in core/fbits.h."""


def only(ins: ir.Instruction, *allowed: str) -> None:
    """Refuse an instruction with a modifier slot its family does not handle.

    Raises:
        Unsupported: naming the slot and its spelling.
    """
    for slot, spelling in ins.mods.items():
        if slot not in allowed:
            raise Unsupported(f"modifier .{spelling} ({slot})")


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


def flags(ins: ir.Instruction) -> int:
    """The FTZ, SAT, RELU, NAN and XORSIGN flags of an instruction."""
    names = {"ftz": FTZ, "sat": SAT, "relu": RELU, "nan": NAN, "xorsign": XORSIGN}
    return sum(flag for slot, flag in names.items() if slot in ins.mods)
