"""mbarrier objects, named barriers, fences, register reallocation.

PTX ISA, Parallel Synchronization and Communication Instructions; setmaxnreg is under
Miscellaneous Instructions.
"""

from __future__ import annotations

from collections.abc import Callable

from sidestream.harness.exec.lower.builder import Builder, Ref, Unsupported
from sidestream.harness.exec.lower.checks import only
from sidestream.harness.exec.lower.memory import place
from sidestream.harness.ptx import ir

# `enum MbarOp` of core/mbarrier.h.
_INIT, _INVAL, _ARRIVE, _DROP, _EXPECT, _COMPLETE, _PARITY, _STATE = range(8)
_NO_COMPLETE = 1
_ORDER = ("sem", "scope")
_SYNC, _BAR_ARRIVE, _RED = range(3)

Lowering = Callable[[Builder, ir.Instruction], None]


def _update(operation: int, flags: int = 0, *, own: bool = False) -> Lowering:
    def lower(low: Builder, ins: ir.Instruction) -> None:
        only(ins, "space", "type", *_ORDER)
        space = ins.mods.get("space")
        base, offset, where = place(low, ins.args["addr"], space)
        count, tx, state = (ins.args.get(n) for n in ("count", "tx", "state"))
        local = own or space in ("shared", "shared::cta")
        low.emit(
            "mbarrier.update",
            d=low.optional_dest(state, 64),
            a=base,
            imm=offset,
            b=None if count is None else low.source(count, 32),
            c=None if tx is None else low.source(tx, 32),
            x=(where, operation, flags, int(local)),
        )

    return lower


def _wait(operation: str) -> Lowering:
    def lower(low: Builder, ins: ir.Instruction) -> None:
        only(ins, "space", "type", "parity", *_ORDER)
        base, offset, where = place(low, ins.args["addr"], ins.mods.get("space"))
        parity, state = ins.args.get("parity"), ins.args.get("state")
        low.emit(
            operation,
            d=low.optional_dest(ins.args["p"], 1),
            a=base,
            imm=offset,
            b=None if parity is None else low.source(parity, 32),
            c=None if state is None else low.source(state, 64),
            x=(where, _STATE if parity is None else _PARITY, 0, 1),
        )

    return lower


def _pending_count(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "type")
    low.emit(
        "mbarrier.pending_count",
        d=low.dest(ins.args["d"], 32),
        a=low.source(ins.args["state"], 64),
    )


def _barrier(use: int) -> Lowering:
    def lower(low: Builder, ins: ir.Instruction) -> None:
        only(ins, "aligned", "op", "type")
        threads = ins.args.get("threads")
        d: Ref | None = None
        predicate: Ref | None = None
        result = 0
        if use == _RED:
            result = ("popc", "and", "or").index(ins.mods["op"])
            name, width = ("d", 32) if result == 0 else ("p", 1)
            d = low.optional_dest(ins.args[name], width)
            predicate = low.pred(ins.args["c"])
        low.emit(
            "barrier",
            d=d,
            a=low.source(ins.args["barrier"], 32),
            b=None if threads is None else low.source(threads, 32),
            c=predicate,
            x=(use, int("aligned" in ins.mods), result),
        )

    return lower


def _fence(low: Builder, ins: ir.Instruction) -> None:
    """Nothing to order: instructions execute one after another, in every proxy.

    The row is there for an observer.
    """
    only(ins, "sem", "scope", "proxy", "space", "sync_restrict")
    address = ins.args.get("addr")
    if isinstance(address, ir.Address):  # of a tensor map
        row, offset = low.address(address, 64)
        low.emit("fence", a=row, imm=offset)
    else:
        low.emit("fence")


def _grid_dependency(low: Builder, ins: ir.Instruction) -> None:
    only(ins)
    low.emit(ins.op)


def _setmaxnreg(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "mode", "sync", "aligned", "type")
    count = ins.args["count"]
    if not isinstance(count, ir.Immediate):
        raise Unsupported("setmaxnreg of something that is not a literal")
    low.emit("setmaxnreg", x=(int(ins.mods["mode"] == "inc"),), imm=count.value)


_FENCES = ("fence", "fence.mbarrier_init", "fence.proxy", "fence.sync_restrict")
_ARRIVALS = {"mbarrier.arrive": _ARRIVE, "mbarrier.arrive_drop": _DROP}

FAMILY = {
    "mbarrier.init": _update(_INIT, own=True),
    "mbarrier.inval": _update(_INVAL, own=True),
    "mbarrier.expect_tx": _update(_EXPECT),
    "mbarrier.complete_tx": _update(_COMPLETE),
    **{op: _update(number) for op, number in _ARRIVALS.items()},
    **{f"{op}.expect_tx": _update(number) for op, number in _ARRIVALS.items()},
    **{
        f"{op}.noComplete": _update(number, _NO_COMPLETE, own=True)
        for op, number in _ARRIVALS.items()
    },
    "mbarrier.test_wait": _wait("mbarrier.test_wait"),
    "mbarrier.try_wait": _wait("mbarrier.try_wait"),
    "mbarrier.pending_count": _pending_count,
    "barrier.sync": _barrier(_SYNC),
    "barrier.arrive": _barrier(_BAR_ARRIVE),
    "barrier.red": _barrier(_RED),
    **dict.fromkeys(_FENCES, _fence),
    "griddepcontrol.launch_dependents": _grid_dependency,
    "griddepcontrol.wait": _grid_dependency,
    "setmaxnreg": _setmaxnreg,
}
