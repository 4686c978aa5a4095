"""Literals, types and special registers: what PTX words denote, without context.

Sources: PTX ISA sections "Constants", "Fundamental Types", "Packed Data Types",
"Alternate Floating-Point Data Formats" and "Special Registers".
"""

from __future__ import annotations

import re
import struct

from sidestream.harness.errors import PtxError
from sidestream.harness.ptx import ir

WIDTHS: dict[str, int] = {
    "pred": 1,
    **dict.fromkeys(("b8", "u8", "s8", "e2m1x2"), 8),
    **dict.fromkeys(("e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "ue8m0", "ue4m3"), 8),
    **dict.fromkeys(("b16", "u16", "s16", "f16", "bf16"), 16),
    **dict.fromkeys(("e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2"), 16),
    **dict.fromkeys(("e2m1x4", "ue8m0x2", "s2f6x2"), 16),
    **dict.fromkeys(("b32", "u32", "s32", "f32", "tf32"), 32),
    **dict.fromkeys(("f16x2", "bf16x2", "u16x2", "s16x2", "u8x4", "s8x4"), 32),
    **dict.fromkeys(("e4m3x4", "e5m2x4", "e2m3x4", "e3m2x4"), 32),
    **dict.fromkeys(("b64", "u64", "s64", "f64", "f32x2"), 64),
    "b128": 128,
}
"""Bits of a register or operand of each type."""

BYTES: dict[str, int] = {
    name: width // 8
    for name, width in WIDTHS.items()
    if re.fullmatch(r"[bus](8|16|32|64|128)|f(16|32|64)|f16x2|bf16|bf16x2", name)
}
"""Bytes of a variable of each type that can be declared in memory."""

_XYZ = "tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid"
_SPECIAL = re.compile(
    rf"%(?:(?:{_XYZ})(?:\.[xyz])?"
    r"|laneid|warpid|nwarpid|smid|nsmid|gridid|is_explicit_cluster"
    r"|cluster_ctarank|cluster_nctarank|lanemask_(?:eq|le|lt|ge|gt)"
    r"|clock|clock_hi|clock64|globaltimer(?:_lo|_hi)?|pm[0-7](?:_64)?"
    r"|envreg(?:[12]?\d|3[01])|total_smem_size|aggr_smem_size|dynamic_smem_size"
    r"|reserved_smem_offset_(?:begin|end|cap|[01])|current_graph_exec)"
)

WARP_SIZE = 32
_MAX_DIGITS = 80


def special(name: str) -> ir.Special | ir.Immediate | None:
    """The special register of that spelling; `WARP_SZ` is the constant 32."""
    if name == "WARP_SZ":
        return ir.Immediate("int", WARP_SIZE)
    return ir.Special(name) if _SPECIAL.fullmatch(name) else None


def integer(text: str, line: int) -> int:
    """Value of an integer literal, sign included.

    Raises:
        PtxError: it is not an integer literal or needs more than 64 bits.
    """
    value = _magnitude(text.lstrip("+-~"), line)
    if text.startswith("-"):
        value = -value
    elif text.startswith("~"):
        value = ~value
    return value


def _magnitude(text: str, line: int) -> int:
    digits = text[:-1] if text.endswith("U") else text
    if len(digits) > _MAX_DIGITS:
        raise PtxError("an integer literal is too long", line)
    try:
        if digits[:2] in ("0x", "0X", "0b", "0B"):
            value = int(digits, 0)
        else:
            value = int(digits, 8 if digits.startswith("0") else 10)
    except ValueError:
        raise PtxError(f"{text!r} is not an integer literal", line) from None
    if value >> 64:
        raise PtxError(f"{text!r} does not fit 64 bits", line)
    return value


def literal(text: str, line: int) -> ir.Immediate:
    """A literal operand: integer, or the IEEE bits of a float.

    Raises:
        PtxError: it is not a literal.
    """
    body = text.lstrip("+-~")
    negative = text.startswith("-")
    if body[:2] in ("0f", "0F"):
        return ir.Immediate("f32", int(body[2:], 16) ^ (negative << 31))
    if body[:2] in ("0d", "0D"):
        return ir.Immediate("f64", int(body[2:], 16) ^ (negative << 63))
    if body[:2] not in ("0x", "0X") and ("." in body or "e" in body or "E" in body):
        if len(body) > _MAX_DIGITS:
            raise PtxError("a literal is too long", line)
        value = -float(body) if negative else float(body)
        return ir.Immediate("f64", struct.unpack("<Q", struct.pack("<d", value))[0])
    return ir.Immediate("int", integer(text, line))


def element_bytes(text: str, kind: str, line: int) -> bytes:
    """Bytes of one initial value of a variable of type `kind`, little-endian.

    Raises:
        PtxError: it is not a literal that fits the type.
    """
    value = literal(text, line)
    size = BYTES[kind]
    if kind in ("f32", "f64"):
        if value.kind == "int":
            raise PtxError(f"{text!r} does not initialise a {kind}", line)
        if value.kind == kind:
            return value.value.to_bytes(size, "little")
        number = struct.unpack("<d", value.value.to_bytes(8, "little"))[0]
        if value.kind == "f32":
            number = struct.unpack("<f", value.value.to_bytes(4, "little"))[0]
        try:
            return struct.pack("<f" if kind == "f32" else "<d", number)
        except OverflowError:
            raise PtxError(f"{text!r} does not fit {kind}", line) from None
    if value.kind != "int":
        raise PtxError(f"{text!r} does not initialise a {kind}", line)
    return (value.value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
