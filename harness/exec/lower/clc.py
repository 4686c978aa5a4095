"""Cluster launch control (PTX ISA, clusterlaunchcontrol.try_cancel, .query_cancel).

The CTA id of a failed response is undefined. Compilers ask for it all the same, beside
`is_canceled`, and select another value where that is false: such a query is harmless
and told apart here, by looking at every use of its result.
"""

from __future__ import annotations

from collections.abc import Iterator

from sidestream.harness.exec.lower.builder import Builder, Unsupported
from sidestream.harness.exec.lower.checks import only, small
from sidestream.harness.exec.lower.memory import ADDR64, SPACES
from sidestream.harness.ptx import ir

_AXES = ("x", "y", "z")
_MOVES = ("mov", "mov.pack")


def _try_cancel(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "async", "space", "completion", "multicast", "type")
    space = ins.mods.get("space")
    width = 32 if space else 64
    address, barrier = ins.args["addr"], ins.args["mbar"]
    if not (isinstance(address, ir.Address) and isinstance(barrier, ir.Address)):
        raise Unsupported("an operand that is not an address")
    if not space and not (
        isinstance(address.base, ir.Register) and isinstance(barrier.base, ir.Register)
    ):
        raise Unsupported("a variable where a generic address is needed")
    row, offset = low.address(address, width)
    mbar, mbar_offset = low.address(barrier, width)
    low.emit(
        "clc.try_cancel",
        a=row,
        b=mbar,
        x=(
            SPACES[space] | (0 if space else ADDR64),
            small(mbar_offset),
            int("multicast" in ins.mods),
        ),
        imm=offset,
    )


def _query_cancel(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "query", "vec", "dtype", "type")
    handle = low.source(ins.args["a"], 128)
    query, _, axis = ins.mods["query"].partition("::")
    if query == "is_canceled":
        low.emit("clc.is_canceled", d=low.optional_dest(ins.args["p"], 1), a=handle)
        return
    wanted = ins.args["d"]
    if isinstance(wanted, ir.Vector):
        elements = list(wanted.elements[:3])
    else:
        elements = [wanted if axis == name else ir.Sink() for name in _AXES]
    low.emit(
        "clc.first_ctaid",
        a=handle,
        ext=[low.optional_dest(e, 32) for e in elements],
        x=(int(_dropped_on_failure(low.function, ins)),),
    )


def _registers(operand: ir.Operand) -> Iterator[ir.Register]:
    match operand:
        case ir.Register():
            yield operand
        case ir.Negated():
            yield operand.register
        case ir.Vector():
            for element in operand.elements:
                yield from _registers(element)
        case ir.Pair():
            yield from _registers(operand.first)
            yield from _registers(operand.second)
        case ir.Address():
            yield from _registers(operand.base)
        case ir.TensorAddress():
            yield from _registers(operand.map)
            for coord in operand.coords:
                yield from _registers(coord)


def _writers(function: ir.Function, register: ir.Register) -> list[ir.Instruction]:
    return [
        ins
        for ins in function.instructions
        for name in ins.writes
        if name in ins.args and register in _registers(ins.args[name])
    ]


def _readers(function: ir.Function, register: ir.Register) -> list[ir.Instruction]:
    return [
        ins
        for ins in function.instructions
        for name, operand in ins.args.items()
        if name not in ins.writes and register in _registers(operand)
    ]


def _origin(function: ir.Function, handle: ir.Operand) -> tuple[ir.Operand, ...]:
    """Registers that a handle is packed from, if one move does it; else the handle."""
    if isinstance(handle, ir.Register):
        made = _writers(function, handle)
        if len(made) == 1 and made[0].op in _MOVES and made[0].guard is None:
            source = made[0].args["a"]
            return source.elements if isinstance(source, ir.Vector) else (source,)
    return (handle,)


def _said_by(
    function: ir.Function, query: ir.Instruction, predicate: ir.Register
) -> bool:
    """Whether `predicate` is always what `is_canceled` says of the query's response."""
    made = _writers(function, predicate)
    if len(made) != 1 or made[0].op != query.op or made[0].guard is not None:
        return False
    asked = made[0]  # is_canceled: only it gives a predicate
    origin = _origin(function, query.args["a"])
    if _origin(function, asked.args["a"]) != origin:
        return False
    # One after the other, with nothing but moves between that leave the response alone.
    first, last = sorted((asked.index, query.index))
    kept = {register for part in origin for register in _registers(part)}
    between = function.instructions[first + 1 : last]
    return not any(first < at <= last for at in _targets(function)) and all(
        ins.op in _MOVES and kept.isdisjoint(_registers(ins.args["d"]))
        for ins in between
    )


def _targets(function: ir.Function) -> set[int]:
    """Return indices of all instructions that are jumped to."""
    found = {at for table in function.branch_targets.values() for at in table}
    for ins in function.instructions:
        target = ins.args.get("target")
        if isinstance(target, ir.Label):
            found.add(target.target)
    return found


def _dropped_on_failure(function: ir.Function | None, query: ir.Instruction) -> bool:
    """Whether every use of the CTA id is given up where the request has failed.

    A use is given up in a `selp` whose predicate is `is_canceled` of the same
    response, or in an instruction that this predicate guards.
    """
    if function is None:
        return False
    for register in _registers(query.args["d"]):
        for use in _readers(function, register):
            guard = None if use.guard_negated else use.guard
            if guard is not None and _said_by(function, query, guard):
                continue
            chooser = use.args.get("c")
            if (
                use.op != "selp"
                or use.args.get("b") == register
                or not isinstance(chooser, ir.Register)
                or not _said_by(function, query, chooser)
            ):
                return False
    return True


FAMILY = {
    "clusterlaunchcontrol.try_cancel": _try_cancel,
    "clusterlaunchcontrol.query_cancel": _query_cancel,
}
