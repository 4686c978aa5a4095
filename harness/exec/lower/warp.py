"""Exchanges between the lanes of a warp, and matrices in shared memory.

PTX ISA: shfl.sync, vote.sync, match.sync, redux.sync, activemask, elect.sync,
bar.warp.sync; ldmatrix, stmatrix, movmatrix.
"""

from __future__ import annotations

from sidestream.harness.exec.lower.builder import Builder, Unsupported
from sidestream.harness.exec.lower.checks import bits, only
from sidestream.harness.exec.lower.memory import elements, place
from sidestream.harness.ptx import ir

_SHUFFLES = ("up", "down", "bfly", "idx")
_VOTES = ("all", "any", "uni", "ballot")
# The order of the enum in core/warp.c.
_REDUCTIONS = (
    *(("add", "b"), ("min", "u"), ("max", "u"), ("min", "s"), ("max", "s")),
    *(("and", "b"), ("or", "b"), ("xor", "b"), ("min", "f"), ("max", "f")),
)
_ABS, _NAN = 1, 2


def _shfl(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "mode", "type")
    low.emit(
        "shfl",
        d=low.optional_dest(ins.args["d"], 32),
        a=low.source(ins.args["a"], 32),
        b=low.source(ins.args["b"], 32),
        c=low.source(ins.args["c"], 32),
        x=(
            _SHUFFLES.index(ins.mods["mode"]),
            low.optional_dest(ins.args.get("p"), 1),
            low.source(ins.args["membermask"], 32),
        ),
    )


def _vote(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "mode", "type")
    mode = _VOTES.index(ins.mods["mode"])
    name, width = ("d", 32) if mode == 3 else ("p", 1)
    low.emit(
        "vote",
        d=low.optional_dest(ins.args[name], width),
        a=low.pred(ins.args["a"]),
        c=low.source(ins.args["membermask"], 32),
        x=(mode,),
    )


def _match(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "mode", "type")
    width = bits(ins.mods["type"])
    low.emit(
        "match",
        d=low.optional_dest(ins.args["d"], 32),
        a=low.source(ins.args["a"], width),
        c=low.source(ins.args["membermask"], 32),
        x=(
            int(ins.mods["mode"] == "all"),
            low.optional_dest(ins.args.get("p"), 1),
            int(width == 64),
        ),
    )


def _redux(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "op", "type", "abs", "nan")
    op, kind = ins.mods["op"], ins.mods["type"][0]
    if op == "add":
        kind = "b"
    flags = _ABS * ("abs" in ins.mods) + _NAN * ("nan" in ins.mods)
    low.emit(
        "redux",
        d=low.optional_dest(ins.args["d"], 32),
        a=low.source(ins.args["a"], 32, ins.mods["type"]),
        c=low.source(ins.args["membermask"], 32),
        x=(_REDUCTIONS.index((op, kind)), flags),
    )


def _activemask(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "type")
    low.emit("activemask", d=low.dest(ins.args["d"], 32))


def _elect(low: Builder, ins: ir.Instruction) -> None:
    only(ins)
    low.emit(
        "elect",
        d=low.optional_dest(ins.args["d"], 32),
        c=low.source(ins.args["membermask"], 32),
        x=(0, low.optional_dest(ins.args.get("p"), 1)),
    )


def _warp_sync(low: Builder, ins: ir.Instruction) -> None:
    only(ins)
    low.emit("warp.sync", c=low.source(ins.args["membermask"], 32))


_MATRIX = ("sync", "aligned", "shape", "num", "trans", "space", "type")


def _ldmatrix(low: Builder, ins: ir.Instruction) -> None:
    only(ins, *_MATRIX)
    shape = ins.mods["shape"]
    if (shape, ins.mods["type"]) not in (("m8n8", "b16"), ("m16n16", "b8")):
        raise Unsupported(f"ldmatrix .{shape}")
    base, offset, where = place(low, ins.args["addr"], ins.mods.get("space"))
    low.emit(
        "ldmatrix" if shape == "m8n8" else "ldmatrix.b8",
        a=base,
        imm=offset,
        ext=[low.optional_dest(e, 32) for e in elements(ins.args["d"])],
        x=(where, int("trans" in ins.mods)),
    )


def _stmatrix(low: Builder, ins: ir.Instruction) -> None:
    only(ins, *_MATRIX)
    if ins.mods["shape"] != "m8n8":
        raise Unsupported(f"stmatrix .{ins.mods['shape']}")
    base, offset, where = place(low, ins.args["addr"], ins.mods.get("space"))
    low.emit(
        "stmatrix",
        a=base,
        imm=offset,
        ext=[low.source(e, 32) for e in elements(ins.args["a"])],
        x=(where, int("trans" in ins.mods)),
    )


def _movmatrix(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "sync", "aligned", "shape", "trans", "type")
    low.emit(
        "movmatrix", d=low.dest(ins.args["d"], 32), a=low.source(ins.args["a"], 32)
    )


FAMILY = {
    "shfl.sync": _shfl,
    "vote.sync": _vote,
    "match.sync": _match,
    "redux.sync": _redux,
    "activemask": _activemask,
    "elect.sync": _elect,
    "bar.warp.sync": _warp_sync,
    "ldmatrix": _ldmatrix,
    "stmatrix": _stmatrix,
    "movmatrix": _movmatrix,
}
