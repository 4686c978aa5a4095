"""The tensor core: multiplication, copies to tensor memory, shift and commit.

PTX ISA, TensorCore 5th Generation Instructions: tcgen05.mma, tcgen05.mma.ws,
tcgen05.cp, tcgen05.shift, tcgen05.commit.
"""

from __future__ import annotations

from sidestream.harness.exec.lower.builder import Builder, Ref, Unsupported
from sidestream.harness.exec.lower.checks import only
from sidestream.harness.exec.lower.memory import place
from sidestream.harness.exec.lower.tcgen05_memory import GROUPS, tensor_address
from sidestream.harness.ptx import ir

_KINDS = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")
"""`enum MmaKind` of core/tcgen05_descriptor.h."""

# Flags beside kind and group, as in core/tcgen05_mma.h.
_A_TMEM, _WS = 0x100, 0x200

_SCALES = {
    ("mxf8f6f4", ""): 1,
    ("mxf8f6f4", "scale_vec::1X"): 1,
    ("mxf8f6f4", "block32"): 1,
    ("mxf4", ""): 2,
    ("mxf4", "scale_vec::2X"): 2,
    ("mxf4", "block32"): 2,
    ("mxf4nvf4", "scale_vec::2X"): 2,
    ("mxf4nvf4", "block32"): 2,
    ("mxf4nvf4", "scale_vec::4X"): 4,
    ("mxf4nvf4", "block16"): 4,
}
"""Scale factors along K; sm_100 has no K = 96, where blocks count differently."""

# The order is that of the enums in core/tcgen05_cp.c.
_CP_SHAPES = ("128x256b", "4x256b", "128x128b", "64x128b", "32x128b")
_CP_FORMATS = ("", "b6x16_p32", "b4x16_p64")
_CP_MULTICAST = ("", "warpx2::02_13", "warpx2::01_23", "warpx4")

_S32 = range(-(2**31), 2**31)


def _tensor(low: Builder, ins: ir.Instruction, name: str) -> tuple[Ref, int]:
    row, offset = tensor_address(low, ins.args[name])
    if offset not in _S32:
        raise Unsupported(f"address offset {offset}")
    return row, offset


def _scale_input(ins: ir.Instruction) -> int:
    """The exponent s of D * 2^-s."""
    if "scale_input" not in ins.args:
        return 0
    value = ins.args["scale_input"]
    if not isinstance(value, ir.Immediate) or not 0 <= value.value <= 15:
        raise Unsupported("scale-input-d outside 0 to 15")
    return value.value


def _mma(low: Builder, ins: ir.Instruction) -> None:
    # The collector qualifiers permit reuse of what was read before; sources must not
    # change meanwhile, so that reading them anew gives the same.
    only(ins, "cta_group", "kind", "collector", "block_scale", "scale_vec")
    kind = ins.mods["kind"].removeprefix("kind::")
    weights = ins.op == "tcgen05.mma.ws"
    form = _KINDS.index(kind) | GROUPS[ins.mods["cta_group"]] << 4
    scales = 0
    if "block_scale" in ins.mods:
        scales = _SCALES[kind, ins.mods.get("scale_vec", "")]
    d = _tensor(low, ins, "d")
    if isinstance(ins.args["a"], ir.Address):
        form |= _A_TMEM
        a = _tensor(low, ins, "a")
    else:
        a = (low.source(ins.args["a"], 64), 0)
    if weights:
        form |= _WS
    refs: list[Ref | int | None] = [*d, *a]
    refs += [low.source(ins.args["b"], 64), low.source(ins.args["idesc"], 32)]
    refs.append(low.pred(ins.args["enable"]))
    for name in ("scale_a", "scale_b"):
        refs += _tensor(low, ins, name) if name in ins.args else (None, 0)
    zero = ins.args.get("zero_columns")
    refs.append(None if zero is None else low.source(zero, 64))
    mask = ins.args.get("mask")
    if isinstance(mask, ir.Vector):
        refs += [low.source(e, 32) for e in mask.elements]
    low.emit(
        "tcgen05.mma",
        x=(form, _scale_input(ins), scales, int(zero is not None)),
        ext=refs,
    )


def _cp(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "cta_group", "shape", "multicast", "dst_fmt", "src_fmt")
    form = _CP_SHAPES.index(ins.mods["shape"])
    form |= _CP_FORMATS.index(ins.mods.get("src_fmt", "")) << 4
    form |= _CP_MULTICAST.index(ins.mods.get("multicast", "")) << 8
    base, offset = _tensor(low, ins, "addr")
    low.emit(
        "tcgen05.cp",
        a=base,
        b=low.source(ins.args["a"], 64),
        x=(form, GROUPS[ins.mods["cta_group"]], offset),
    )


def _shift(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "cta_group", "down")
    base, offset = _tensor(low, ins, "addr")
    group = GROUPS[ins.mods["cta_group"]]
    low.emit("tcgen05.shift", a=base, x=(0, group, offset))


def _commit(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "cta_group", "completion", "space", "multicast", "type")
    base, offset, where = place(low, ins.args["mbar"], ins.mods.get("space"))
    mask = None
    if "multicast" in ins.mods:
        mask = low.source(ins.args["cta_mask"], 32, "b16")
    low.emit(
        "tcgen05.commit",
        a=base,
        b=mask,
        imm=offset,
        x=(where, GROUPS[ins.mods["cta_group"]]),
    )


FAMILY = {
    "tcgen05.mma": _mma,
    "tcgen05.mma.ws": _mma,
    "tcgen05.cp": _cp,
    "tcgen05.shift": _shift,
    "tcgen05.commit": _commit,
}
