"""PTX with the approximations of `hw_approximations.py` in place of its own.

Each `ex2`, `rcp` and `lg2` (`.approx.ftz.f32`) becomes a block that reads the card's
table from global memory, so that a kernel run on the virtual GPU differs from one on
the card by nothing that PTX leaves open. Inputs outside what a table covers keep the
instruction.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from hw_approximations import LG2_BELOW, LG2_FIRST, SIZE

_FOUND = re.compile(
    r"(?P<op>ex2|rcp|lg2)\.approx\.ftz\.f32\s+(?P<to>%\w+)\s*,\s*(?P<x>%\w+)\s*;"
)
_LAST = SIZE - 1
_BLOCKS = {
    # Zero, NaN and x >= 128 keep the instruction, which is exact for them.
    "ex2": f"""{{{{
.reg .b32 size, k, whole, power, word, plain;
.reg .pred below, keep, flush;
.reg .b64 at;
ex2.approx.ftz.f32 plain, {{x}};
abs.ftz.f32 size, {{x}};
setp.equ.f32 keep, size, 0f00000000;
setp.geu.or.f32 keep, {{x}}, 0f43000000, keep;
min.f32 size, size, 0f43400000;
mul.rz.f32 size, size, 0f4B000000;
cvt.rzi.u32.f32 k, size;
mov.b32 word, {{x}};
setp.lt.s32 below, word, 0;
and.b32 whole, k, {_LAST};
min.u32 whole, whole, 1;
sub.u32 whole, 0, whole;
@below sub.u32 k, 0, k;
@below add.u32 k, k, whole;
shr.s32 power, k, 23;
and.b32 k, k, {_LAST};
mul.wide.u32 at, k, 4;
add.u64 at, at, {{base}};
ld.global.u32 word, [at];
setp.lt.s32 flush, power, -126;
shl.b32 power, power, 23;
add.u32 word, word, power;
selp.b32 word, 0, word, flush;
selp.b32 {{to}}, plain, word, keep;
}}}}""",
    # Zeros, subnormals, infinities, NaN and inputs whose result may be subnormal keep
    # the instruction.
    "rcp": f"""{{{{
.reg .b32 bits, exponent, place, word, plain;
.reg .pred normal;
.reg .b64 at;
rcp.approx.ftz.f32 plain, {{x}};
mov.b32 bits, {{x}};
bfe.u32 exponent, bits, 23, 8;
and.b32 place, bits, {_LAST};
mul.wide.u32 at, place, 4;
add.u64 at, at, {{base}};
ld.global.u32 word, [at];
sub.u32 place, exponent, 127;
shl.b32 place, place, 23;
sub.u32 word, word, place;
and.b32 bits, bits, 0x80000000;
or.b32 word, word, bits;
sub.u32 exponent, exponent, 1;
setp.lt.u32 normal, exponent, 250;
selp.b32 {{to}}, word, plain, normal;
}}}}""",
    # Inputs below the table keep the instruction.
    "lg2": f"""{{{{
.reg .b32 bits, exponent, place, word, plain;
.reg .pred known, two;
.reg .b64 at;
lg2.approx.ftz.f32 plain, {{x}};
mov.b32 bits, {{x}};
sub.u32 place, bits, {LG2_FIRST};
setp.lt.u32 known, place, {0x7F80_0000 - LG2_FIRST};
setp.ge.s32 two, bits, 0x40000000;
and.b32 exponent, bits, {_LAST};
add.u32 exponent, exponent, {LG2_BELOW};
selp.b32 place, exponent, place, two;
min.u32 place, place, {LG2_BELOW + _LAST};
mul.wide.u32 at, place, 4;
add.u64 at, at, {{base}};
ld.global.u32 word, [at];
shr.u32 exponent, bits, 23;
sub.s32 exponent, exponent, 127;
cvt.rn.f32.s32 exponent, exponent;
@two add.rz.f32 word, word, exponent;
selp.b32 {{to}}, word, plain, known;
}}}}""",
}


def substitute(ptx: str, bases: Mapping[str, int]) -> tuple[str, int]:
    """Return the text with its approximations replaced, and how many there were.

    Args:
        ptx: The module.
        bases: Address of each table in global memory, by instruction.
    """

    def block(found: re.Match[str]) -> str:
        op = found["op"]
        return _BLOCKS[op].format(to=found["to"], x=found["x"], base=bases[op])

    return _FOUND.subn(block, ptx)
