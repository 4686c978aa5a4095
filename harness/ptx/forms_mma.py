"""Forms of warp-level matrix instructions: `ldmatrix`, `stmatrix`, `mma.sync`, `wgmma`.

PTX ISA chapters "Warp Level Matrix Multiply-Accumulate Instructions" and
"Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions".
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sidestream.harness.ptx import ir
from sidestream.harness.ptx.forms import Family, Form

_NUM = {"x1": 1, "x2": 2, "x4": 4}
_SPACE = "space=shared|shared::cta?"
_F8F6F4 = "e4m3|e5m2|e3m2|e2m3|e2m1"
_ROW_COL = "alayout=row blayout=col"
_BITS = {
    **dict.fromkeys(("f64",), 64),
    **dict.fromkeys(("tf32", "f32", "s32"), 32),
    **dict.fromkeys(("f16", "bf16"), 16),
    **dict.fromkeys(("e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "u8", "s8"), 8),
    **dict.fromkeys(("u4", "s4"), 4),
    "b1": 1,
}
_LANES = 32
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")


def _section(name: str) -> str:
    return f"Warp-level Matrix Instructions: {name}"


def _length(operand: ir.Operand | None) -> int:
    return len(operand.elements) if isinstance(operand, ir.Vector) else 0


def _registers(elements: int, bits: int) -> int:
    """Registers of each lane that hold a warp's share of a matrix."""
    return elements * bits // (_LANES * max(bits, 32))


def _fragments(mods: Mapping[str, str], args: Mapping[str, ir.Operand]) -> bool:
    """The vectors have as many registers as shape and types ask for.

    A sparse A holds half of its columns. For `kind::mxf4` two E2M1 share a byte, for
    the other kinds each has a byte of its own.
    """
    found = _SHAPE.fullmatch(mods["shape"])
    if found is None:
        return False
    m, n, k = map(int, found.groups())
    if (m, n, k) == (8, 8, 4) and mods["atype"] == "f16":
        # One multiply for each quad pair, not one for the warp.
        wide = {"f16": 4, "f32": 8}
        wanted = (wide[mods["dtype"]], 2, 2, wide[mods["ctype"]])
    else:
        abits, bbits = _BITS[mods["atype"]], _BITS[mods["btype"]]
        if mods.get("kind", "").startswith("kind::mxf4"):
            abits = bbits = 4
        sparse = 2 if "sparsity" in mods else 1
        wanted = (
            _registers(m * n, _BITS[mods["dtype"]]),
            _registers(m * k // sparse, abits),
            _registers(k * n, bbits),
            _registers(m * n, _BITS[mods["ctype"]]),
        )
    if any(_length(args[ids]) != 2 for ids in ("ids_a", "ids_b") if ids in args):
        return False
    return tuple(_length(args.get(name)) for name in "dabc") == wanted


def _loaded(mods: Mapping[str, str], args: Mapping[str, ir.Operand]) -> bool:
    """An m16n16 matrix takes two registers of a lane, the others one."""
    each = 2 if mods["shape"] == "m16n16" else 1
    value = args["d"] if "d" in args else args["a"]
    return _length(value) == each * _NUM[mods["num"]]


_SPARSE = " metadata:b32 $selector"
_SCALES = " scale_a:b32 {ids_a}:b16 scale_b:b32 {ids_b}:b16"


def _operands(types: str) -> str:
    """Matrix operands; only double precision has 64-bit registers."""
    width = "b64" if types == "f64" else "b32"
    return f"=*d:{width} *a:{width} *b:{width} *c:{width}"


_DENSE: tuple[tuple[str, str], ...] = (
    # Shapes with layouts, types.
    (
        "shape=m8n8k4 alayout=row|col blayout=row|col",
        "dtype=f32 atype=f16 btype=f16 ctype=f16|f32",
    ),
    (
        "shape=m8n8k4 alayout=row|col blayout=row|col",
        "dtype=f16 atype=f16 btype=f16 ctype=f16",
    ),
    (
        f"shape=m16n8k8|m16n8k16 {_ROW_COL}",
        "dtype=f16 atype=f16 btype=f16 ctype=f16",
    ),
    (
        f"shape=m16n8k8|m16n8k16 {_ROW_COL}",
        "dtype=f32 atype=f16 btype=f16 ctype=f32",
    ),
    (
        f"shape=m16n8k8|m16n8k16 {_ROW_COL}",
        "dtype=f32 atype=bf16 btype=bf16 ctype=f32",
    ),
    (f"shape=m16n8k4|m16n8k8 {_ROW_COL}", "dtype=f32 atype=tf32 btype=tf32 ctype=f32"),
    (
        f"shape=m16n8k16|m16n8k32 {_ROW_COL}",
        "dtype=f16 atype=e4m3|e5m2 btype=e4m3|e5m2 ctype=f16",
    ),
    (
        f"shape=m16n8k16|m16n8k32 {_ROW_COL}",
        "dtype=f32 atype=e4m3|e5m2 btype=e4m3|e5m2 ctype=f32",
    ),
    (
        f"shape=m8n8k16|m16n8k16|m16n8k32 {_ROW_COL} satfinite?",
        "dtype=s32 atype=u8|s8 btype=u8|s8 ctype=s32",
    ),
    (
        f"shape=m8n8k32|m16n8k32|m16n8k64 {_ROW_COL} satfinite?",
        "dtype=s32 atype=u4|s4 btype=u4|s4 ctype=s32",
    ),
)
_SPARSE_FORMS: tuple[tuple[str, str], ...] = (
    (
        f"shape=m16n8k16|m16n8k32 {_ROW_COL}",
        "dtype=f16 atype=f16 btype=f16 ctype=f16",
    ),
    (
        f"shape=m16n8k16|m16n8k32 {_ROW_COL}",
        "dtype=f32 atype=f16 btype=f16 ctype=f32",
    ),
    (
        f"shape=m16n8k16|m16n8k32 {_ROW_COL}",
        "dtype=f32 atype=bf16 btype=bf16 ctype=f32",
    ),
    (f"shape=m16n8k8|m16n8k16 {_ROW_COL}", "dtype=f32 atype=tf32 btype=tf32 ctype=f32"),
    (
        f"shape=m16n8k64 {_ROW_COL}",
        "dtype=f32 atype=e4m3|e5m2 btype=e4m3|e5m2 ctype=f32",
    ),
    (
        f"shape=m16n8k32|m16n8k64 {_ROW_COL} satfinite?",
        "dtype=s32 atype=u8|s8 btype=u8|s8 ctype=s32",
    ),
    (
        f"shape=m16n8k64|m16n8k128 {_ROW_COL} satfinite?",
        "dtype=s32 atype=u4|s4 btype=u4|s4 ctype=s32",
    ),
)


def _kinds(*, sparse: bool) -> tuple[Form, ...]:
    """`kind::f8f6f4` and the block-scaled kinds, kind before or after the shape."""
    long, short = ("m16n8k128", "m16n8k64") if sparse else ("m16n8k64", "m16n8k32")
    metadata = _SPARSE if sparse else ""
    fp4 = "dtype=f32 atype=e2m1 btype=e2m1 ctype=f32"
    fp8 = f"dtype=f32 atype={_F8F6F4} btype={_F8F6F4} ctype=f32"
    rows = (
        ("kind=kind::f8f6f4", short, fp8.replace("=f32", "=f16"), ""),
        ("kind=kind::f8f6f4", short, fp8, ""),
        (
            "kind=kind::mxf4 block_scale scale_vec=scale_vec::2X?",
            long,
            f"{fp4} stype=ue8m0",
            _SCALES,
        ),
        (
            "kind=kind::mxf4nvf4 block_scale scale_vec=scale_vec::2X",
            long,
            f"{fp4} stype=ue8m0",
            _SCALES,
        ),
        (
            "kind=kind::mxf4nvf4 block_scale scale_vec=scale_vec::4X",
            long,
            f"{fp4} stype=ue8m0|ue4m3",
            _SCALES,
        ),
        (
            "kind=kind::mxf8f6f4 block_scale scale_vec=scale_vec::1X?",
            short,
            f"{fp8} stype=ue8m0",
            _SCALES,
        ),
    )
    found: list[Form] = []
    for kind, shape, types, scales in rows:
        operands = _operands("b32") + metadata + scales
        for words in (
            f"aligned shape={shape} {_ROW_COL} {kind} {types}",
            f"aligned {kind} shape={shape} {_ROW_COL} {types}",
        ):
            found.append(_mma(words, operands, sparse=sparse))
    return tuple(found)


def _mma(words: str, operands: str, *, sparse: bool = False) -> Form:
    return Form(
        f"sync {words}" if sparse else words,
        operands,
        op="mma.sp.sync" if sparse else "mma.sync",
        implied={"sync": "sync", **({"sparsity": "sp"} if sparse else {})},
        rule=_fragments,
    )


def _sparse_family(spelling: str) -> Family:
    forms = [
        _mma(f"aligned {shape} {types}", _operands("b32") + _SPARSE, sparse=True)
        for shape, types in _SPARSE_FORMS
    ]
    if spelling.endswith("ordered_metadata"):
        ordered = {"ordered": "ordered"}
        forms = [
            Form(f.words, f.operands, f.op, {**f.implied, **ordered}, f.rule)
            for f in (*_kinds(sparse=True), *forms)
        ]
    return Family(spelling, _section("mma.sp"), tuple(forms))


_WARP: tuple[Family, ...] = (
    Family(
        "ldmatrix",
        _section("ldmatrix"),
        (
            Form(
                f"sync aligned shape=m8n8 num=x1|x2|x4 trans? {_SPACE} type=b16",
                "=*d:b32 [addr]",
                rule=_loaded,
            ),
            Form(
                f"sync aligned shape=m16n16 num=x1|x2 trans {_SPACE} type=b8",
                "=*d:b32 [addr]",
                rule=_loaded,
            ),
            Form(
                f"sync aligned shape=m8n16 num=x1|x2|x4 {_SPACE} dst_fmt=b8x16"
                " src_fmt=b6x16_p32|b4x16_p64",
                "=*d:b32 [addr]",
                rule=_loaded,
            ),
            Form(
                f"sync aligned shape=m16n16 num=x1|x2 trans {_SPACE} dst_fmt=b8x16"
                " src_fmt=b6x16_p32|b4x16_p64",
                "=*d:b32 [addr]",
                rule=_loaded,
            ),
        ),
    ),
    Family(
        "stmatrix",
        _section("stmatrix"),
        (
            Form(
                f"sync aligned shape=m8n8 num=x1|x2|x4 trans? {_SPACE} type=b16",
                "[addr] *a:b32",
                rule=_loaded,
            ),
            Form(
                f"sync aligned shape=m16n8 num=x1|x2|x4 trans {_SPACE} type=b8",
                "[addr] *a:b32",
                rule=_loaded,
            ),
        ),
    ),
    Family(
        "movmatrix",
        _section("movmatrix"),
        (Form("sync aligned shape=m8n8 trans type=b16", "=d:b32 a:b32"),),
    ),
    Family(
        "mma.sync",
        _section("mma"),
        (
            *(
                _mma(f"aligned {shape} {types}", _operands("b32"))
                for shape, types in _DENSE
            ),
            _mma(
                f"aligned shape=m8n8k4|m16n8k4|m16n8k8|m16n8k16 {_ROW_COL}"
                " dtype=f64 atype=f64 btype=f64 ctype=f64",
                _operands("f64"),
            ),
            _mma(
                f"aligned shape=m8n8k128|m16n8k128|m16n8k256 {_ROW_COL}"
                " dtype=s32 atype=b1 btype=b1 ctype=s32 op=xor|and !popc",
                _operands("b32"),
            ),
            *_kinds(sparse=False),
        ),
    ),
    _sparse_family("mma.sp"),
    _sparse_family("mma.sp::ordered_metadata"),
)
FAMILIES: tuple[Family, ...] = _WARP
