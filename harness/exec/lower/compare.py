"""Comparisons (PTX ISA, Comparison and Selection Instructions: setp, set)."""

from __future__ import annotations

from sidestream.harness.exec.lower.builder import Builder, Ref, Unsupported
from sidestream.harness.exec.lower.checks import only, width
from sidestream.harness.ptx import ir

_BOOL = {"": 0, "and": 1, "or": 2, "xor": 3}
_WORDS = frozenset({"u16", "s16", "u32", "s32", "u64", "s64", "f32", "f64"})
_HALVES = frozenset({"f16", "f16x2", "bf16", "bf16x2"})
_ONE = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}


def _halves(low: Builder, ins: ir.Instruction, name: str, kind: str) -> list[Ref]:
    """An operand of one or two halves, each widened to f32, the lowest first."""
    row = low.source(ins.args[name], 32, kind)
    form = kind.removesuffix("x2")
    if "ftz" in ins.mods:
        low.emit("ftz.f16x2", d=(flushed := low.temp(32)), a=row, guarded=False)
        row = flushed
    parts = [row]
    if kind.endswith("x2"):
        parts = [low.temp(32), low.temp(32)]
        low.emit("unpack.b32", a=row, ext=parts, guarded=False)
    wide = [low.temp(32) for _ in parts]
    for d, a in zip(wide, parts, strict=True):
        low.emit(f"cvt.f32.{form}", d=d, a=a, guarded=False)
    return wide


def _test(
    low: Builder,
    ins: ir.Instruction,
    kind: str,
    d: list[Ref | None],
    complement: Ref | None = None,
) -> None:
    """Compare into predicates: one, or one for each half of a pair."""
    compare = ins.mods["cmp"]
    mode = _BOOL[ins.mods.get("bool", "")]
    c = low.pred(ins.args["c"]) if mode else None
    if kind in _HALVES:
        pairs = zip(
            _halves(low, ins, "a", kind), _halves(low, ins, "b", kind), strict=True
        )
        for p, (a, b) in zip(d, pairs, strict=True):
            low.emit(f"setp.{compare}.f32", d=p, a=a, b=b, c=c, x=(mode, complement))
        return
    kind = f"u{kind[1:]}" if kind[0] == "b" else kind
    if kind not in _WORDS:
        raise Unsupported(f"comparison of .{kind}")
    suffix = ".ftz" if "ftz" in ins.mods and kind == "f32" else ""
    low.emit(
        f"setp.{compare}.{kind}{suffix}",
        d=d[0],
        a=low.source(ins.args["a"], width(kind), kind),
        b=low.source(ins.args["b"], width(kind), kind),
        c=c,
        x=(mode, complement),
    )


def _setp(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "cmp", "type", "bool", "ftz")
    kind = ins.mods["type"]
    p = low.optional_dest(ins.args["p"], 1)
    q = low.optional_dest(ins.args.get("q"), 1)
    if not kind.endswith("x2"):
        _test(low, ins, kind, [p], q)
        return
    # Both results are written at once: the guard may be one of them.
    parts: list[Ref | None] = [low.temp(1), low.temp(1)]
    _test(low, ins, kind, parts)
    low.emit("mov.preds", d=p, a=parts[0], b=parts[1], x=(q,))


def _set(low: Builder, ins: ir.Instruction) -> None:
    only(ins, "cmp", "dtype", "stype", "bool", "ftz")
    dtype, stype = ins.mods["dtype"], ins.mods["stype"]
    pair = stype.endswith("x2")
    parts: list[Ref | None] = [low.temp(1) for _ in range(2 if pair else 1)]
    _test(low, ins, stype, parts)
    form = dtype.removesuffix("x2")
    true = _ONE.get(form, 0xFFFF if pair or form in ("u16", "s16") else 0xFFFF_FFFF)
    d = low.dest(ins.args["d"], 32)
    yes, no = low.const(true, 32), low.const(0, 32)
    if not pair:
        low.emit("selp.b32", d=d, a=yes, b=no, c=parts[0])
        return
    halves = [low.temp(32), low.temp(32)]
    for row, part in zip(halves, parts, strict=True):
        low.emit("selp.b32", d=row, a=yes, b=no, c=part, guarded=False)
    low.emit("pack.b32", d=d, ext=halves)


FAMILY = {"setp": _setp, "set": _set}
