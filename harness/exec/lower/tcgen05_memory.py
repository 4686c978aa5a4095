"""Tensor memory: allocation, loads and stores, waits and fences.

PTX ISA, TensorCore 5th Generation Instructions: tcgen05.alloc, dealloc,
relinquish_alloc_permit, tcgen05.ld, tcgen05.st, tcgen05.wait, tcgen05.fence.
"""

from __future__ import annotations

from sidestream.harness.exec.lower.builder import Builder, Ref, Unsupported
from sidestream.harness.exec.lower.checks import only
from sidestream.harness.exec.lower.memory import place
from sidestream.harness.ptx import ir

GROUPS = {"cta_group::1": 1, "cta_group::2": 2}

# `enum Shape`, the flags and `enum RedType` of core/tcgen05_ldst.c.
_SHAPES = {"32x32b": 0, "16x64b": 1, "16x128b": 2, "16x256b": 3, "16x32bx2": 4}
_PACK, _MAX, _ABS, _NAN = 8, 16, 32, 64
_RED_TYPES = {"f32": 1, "u32": 2, "s32": 3}

_NO_RED = frozenset({100})
"""Architectures whose tcgen05.ld lacks .red (PTX ISA, tcgen05.ld, Target ISA Notes)."""


def _alloc(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "cta_group", "sync", "aligned", "space", "type")
    base, offset, where = place(low, ins.args["addr"], ins.mods.get("space"))
    low.emit(
        "tcgen05.alloc",
        a=base,
        imm=offset,
        b=low.source(ins.args["count"], 32, "b32"),
        x=(where, GROUPS[ins.mods["cta_group"]]),
    )


def _dealloc(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "cta_group", "sync", "aligned", "type")
    low.emit(
        "tcgen05.dealloc",
        a=low.source(ins.args["a"], 32, "b32"),
        b=low.source(ins.args["count"], 32, "b32"),
        x=(0, GROUPS[ins.mods["cta_group"]]),
    )


def _relinquish(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "cta_group", "sync", "aligned")
    low.emit("tcgen05.relinquish", x=(0, GROUPS[ins.mods["cta_group"]]))


def _bare(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "sync", "aligned")
    low.emit(ins.op)


def tensor_address(low: Builder, operand: ir.Operand) -> tuple[Ref, int]:
    """Row and constant offset of a tensor memory address.

    Raises:
        Unsupported: if the operand is no address.
    """
    if not isinstance(operand, ir.Address):
        raise Unsupported("tensor memory operand that is not an address")
    return low.address(operand, 32)


def _split(ins: ir.Instruction) -> int:
    if "split" not in ins.args:
        return 0
    split = ins.args["split"]
    if not isinstance(split, ir.Immediate) or not 0 <= split.value < 2**16:
        raise Unsupported("offset of the second half that is no count of columns")
    return split.value


def _shape(ins: ir.Instruction, packing: str) -> int:
    return _SHAPES[ins.mods["shape"]] | (_PACK if packing in ins.mods else 0)


def _registers(ins: ir.Instruction, name: str) -> tuple[ir.Operand, ...]:
    value = ins.args[name]
    return value.elements if isinstance(value, ir.Vector) else (value,)


def _ld(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "sync", "aligned", "shape", "num", "pack", "type")
    base, offset = tensor_address(low, ins.args["addr"])
    low.emit(
        "tcgen05.ld",
        a=base,
        imm=offset,
        ext=[low.dest(r, 32) for r in _registers(ins, "d")],
        x=(_shape(ins, "pack"), 0, _split(ins), ins.index),
    )


def _ld_red(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "sync", "aligned", "shape", "num", "op", "abs", "nan", "type")
    if low.arch in _NO_RED:
        raise Unsupported(f"tcgen05.ld.red on sm_{low.arch}")
    if ins.mods["shape"] == "16x32bx2":
        # The text does not say whether a lane's two halves are reduced together.
        raise Unsupported("reduction of a load in two halves")
    base, offset = tensor_address(low, ins.args["addr"])
    how = _shape(ins, "")
    how |= _MAX if ins.mods["op"] == "max" else 0
    how |= _ABS if "abs" in ins.mods else 0
    how |= _NAN if "nan" in ins.mods else 0
    low.emit(
        "tcgen05.ld",
        a=base,
        imm=offset,
        c=low.dest(ins.args["t"], 32),
        ext=[low.dest(r, 32) for r in _registers(ins, "d")],
        x=(how, _RED_TYPES[ins.mods["type"]], _split(ins), ins.index),
    )


def _st(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "sync", "aligned", "shape", "num", "unpack", "type")
    base, offset = tensor_address(low, ins.args["addr"])
    low.emit(
        "tcgen05.st",
        a=base,
        imm=offset,
        ext=[low.source(r, 32, "b32") for r in _registers(ins, "a")],
        x=(_shape(ins, "unpack"), 0, _split(ins), ins.index),
    )


FAMILY = {
    "tcgen05.alloc": _alloc,
    "tcgen05.dealloc": _dealloc,
    "tcgen05.relinquish_alloc_permit": _relinquish,
    "tcgen05.ld": _ld,
    "tcgen05.ld.red": _ld_red,
    "tcgen05.st": _st,
    "tcgen05.wait::ld": _bare,
    "tcgen05.wait::st": _bare,
    "tcgen05.fence::before_thread_sync": _bare,
    "tcgen05.fence::after_thread_sync": _bare,
}
