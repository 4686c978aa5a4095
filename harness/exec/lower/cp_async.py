"""Asynchronous copies without a tensor map.

PTX ISA, Data Movement and Conversion Instructions: cp.async and its waits;
cp.async.mbarrier.arrive.
"""

from __future__ import annotations

from sidestream.harness.exec.lower.builder import Builder, Unsupported
from sidestream.harness.exec.lower.checks import only, small
from sidestream.harness.exec.lower.memory import place
from sidestream.harness.ptx import ir


def _literal(operand: ir.Operand) -> int:
    if not isinstance(operand, ir.Immediate):
        raise Unsupported("a register where a literal is needed")
    return operand.value


def _copy(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "cop", "dst", "src", "cache_hint", "prefetch_size")
    base, offset, where = place(low, ins.args["dst"], ins.mods["dst"])
    source, source_offset, _ = place(low, ins.args["src"], ins.mods["src"])
    part, ignore = ins.args.get("src_size"), ins.args.get("ignore_src")
    c = None
    if part is not None:
        c = low.source(part, 32)
    elif ignore is not None:
        c = low.pred(ignore)
    low.emit(
        "cp.async",
        a=base,
        imm=offset,
        b=source,
        c=c,
        x=(
            where,
            _literal(ins.args["size"]),
            int(ignore is not None),
            small(source_offset),
        ),
    )


def _commit(low: Builder, ins: ir.Instruction) -> None:
    only(ins)
    low.emit("cp.async.commit")


def _wait_group(low: Builder, ins: ir.Instruction) -> None:
    only(ins)
    count = _literal(ins.args["count"])
    if count < 0:
        raise Unsupported(f"wait_group {count}")
    low.emit("cp.async.wait", imm=count)


def _wait_all(low: Builder, ins: ir.Instruction) -> None:
    only(ins)
    low.emit("cp.async.wait", x=(1,))


def _arrive(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "noinc", "space", "type")
    base, offset, where = place(low, ins.args["addr"], ins.mods.get("space"))
    low.emit(
        "cp.async.mbarrier.arrive",
        a=base,
        imm=offset,
        x=(where, int("noinc" in ins.mods)),
    )


FAMILY = {
    "cp.async": _copy,
    "cp.async.commit_group": _commit,
    "cp.async.wait_group": _wait_group,
    "cp.async.wait_all": _wait_all,
    "cp.async.mbarrier.arrive": _arrive,
}
