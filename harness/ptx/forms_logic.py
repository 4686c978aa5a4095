"""Forms of the PTX ISA chapters on comparison, selection, logic and shifts."""

from __future__ import annotations

from sidestream.harness.ptx.forms import Family, Form

_BITS = "b16|b32|b64"
_UNSIGNED = "u16|u32|u64"
_SIGNED = "s16|s32|s64"
_EVERY = f"{_BITS}|{_UNSIGNED}|{_SIGNED}|f32|f64"
_BOOL = "bool=and|or|xor"
_EQUAL = "cmp=eq|ne"
_ORDER = "cmp=eq|ne|lt|le|gt|ge"
# The ISA's names for unsigned order mean what lt, le, gt and ge mean there.
_UNSIGNED_ORDER = f"{_ORDER}|lo>lt|ls>le|hi>gt|hs>ge"
_FLOAT = f"{_ORDER}|equ|neu|ltu|leu|gtu|geu|num|nan"

_COMPARED: tuple[tuple[str, str, str], ...] = (
    (_EQUAL, "", _BITS),
    (_UNSIGNED_ORDER, "", _UNSIGNED),
    (_ORDER, "", _SIGNED),
    (_FLOAT, "ftz? ", "f32"),
    (_FLOAT, "", "f64"),
)
_WITHOUT_FTZ = tuple((compare, "", types) for compare, _, types in _COMPARED)
_COMPARED_HALF: tuple[tuple[str, str, str], ...] = (
    (_FLOAT, "ftz? ", "f16"),
    (_FLOAT, "", "bf16"),
)
_COMPARED_PACKED: tuple[tuple[str, str, str], ...] = (
    (_FLOAT, "ftz? ", "f16x2"),
    (_FLOAT, "", "bf16x2"),
)


def _setp(rows: tuple[tuple[str, str, str], ...], dest: str) -> tuple[Form, ...]:
    found: list[Form] = []
    for compare, ftz, types in rows:
        found.append(Form(f"{compare} {ftz}type={types}", f"{dest} a:type b:type"))
        found.append(
            Form(
                f"{compare} {_BOOL} {ftz}type={types}",
                f"{dest} a:type b:type c:pred",
            )
        )
    return tuple(found)


def _set(rows: tuple[tuple[str, str, str], ...], results: str) -> tuple[Form, ...]:
    found: list[Form] = []
    for compare, ftz, types in rows:
        slots = f"{ftz}dtype={results} stype={types}"
        found.append(Form(f"{compare} {slots}", "=d:dtype a:stype b:stype"))
        found.append(
            Form(f"{compare} {_BOOL} {slots}", "=d:dtype a:stype b:stype c:pred")
        )
    return tuple(found)


def _bitwise(spelling: str) -> Family:
    return Family(
        spelling,
        f"Logic and Shift Instructions: {spelling}",
        (Form(f"type=pred|{_BITS}", "=d:type a:type b:type"),),
    )


FAMILIES: tuple[Family, ...] = (
    Family(
        "setp",
        "Comparison and Selection Instructions: setp",
        _setp(_COMPARED, "=p|q?"),
    ),
    Family(
        "setp",
        "Half Precision Comparison Instructions: setp",
        (*_setp(_COMPARED_HALF, "=p"), *_setp(_COMPARED_PACKED, "=p|q")),
    ),
    Family(
        "set",
        "Comparison and Selection Instructions: set",
        _set(_COMPARED, "u32|s32|f32"),
    ),
    Family(
        "set",
        "Half Precision Comparison Instructions: set",
        (
            *_set((*_COMPARED, _COMPARED_HALF[0]), "f16"),
            *_set((*_WITHOUT_FTZ, (_FLOAT, "", "f16|bf16")), "bf16"),
            *_set(_COMPARED_HALF, "u16|s16|u32|s32"),
            *_set(_COMPARED_PACKED[:1], "f16x2|u32|s32"),
            *_set(_COMPARED_PACKED[1:], "bf16x2|u32|s32"),
        ),
    ),
    Family(
        "selp",
        "Comparison and Selection Instructions: selp",
        (Form(f"type={_EVERY}", "=d:type a:type b:type c:pred"),),
    ),
    Family(
        "slct",
        "Comparison and Selection Instructions: slct",
        (
            Form(f"dtype={_EVERY} stype=s32", "=d:dtype a:dtype b:dtype c:stype"),
            Form(f"ftz? dtype={_EVERY} stype=f32", "=d:dtype a:dtype b:dtype c:stype"),
        ),
    ),
    _bitwise("and"),
    _bitwise("or"),
    _bitwise("xor"),
    Family(
        "not",
        "Logic and Shift Instructions: not",
        (Form(f"type=pred|{_BITS}", "=d:type a:type"),),
    ),
    Family(
        "cnot",
        "Logic and Shift Instructions: cnot",
        (Form(f"type={_BITS}", "=d:type a:type"),),
    ),
    Family(
        "lop3",
        "Logic and Shift Instructions: lop3",
        (
            Form("type=b32", "=d:b32 a:b32 b:b32 c:b32 $lut"),
            Form("bool=or|and type=b32", "=d|p:b32 a:b32 b:b32 c:b32 $lut t:pred"),
        ),
    ),
    Family(
        "shf",
        "Logic and Shift Instructions: shf",
        (Form("direction=l|r mode=clamp|wrap type=b32", "=d:b32 a:b32 b:b32 c:b32"),),
    ),
    Family(
        "shl",
        "Logic and Shift Instructions: shl",
        (Form(f"type={_BITS}", "=d:type a:type b:b32"),),
    ),
    Family(
        "shr",
        "Logic and Shift Instructions: shr",
        (Form(f"type={_BITS}|{_UNSIGNED}|{_SIGNED}", "=d:type a:type b:b32"),),
    ),
    Family(
        "prmt",
        "Data Movement and Conversion Instructions: prmt",
        (Form("type=b32 mode=f4e|b4e|rc8|ecl|ecr|rc16?", "=d:b32 a:b32 b:b32 c:b32"),),
    ),
)
