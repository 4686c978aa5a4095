"""An instruction case: PTX text and inputs that a card and the emulator both execute.

Nothing here needs Sidestream installed, so that the recorder runs on a bare machine
with numpy and cuda-bindings. Inputs come from an integer hash, not from numpy's
generators, and are the same under every numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]

TARGET = "sm_90a"


@dataclass(frozen=True, kw_only=True)
class MapSpec:
    """A tensor map over one of the case's buffers.

    `dtype` is the map's element type by PTX name, `strides` the bytes of dimensions
    1 and up, `fill` 1 for NaN. `offset` is the tensor's first byte in the buffer.
    """

    buffer: int
    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...] = ()
    swizzle: int = 0
    fill: int = 0
    offset: int = 0


@dataclass(frozen=True, kw_only=True)
class Case:
    """One kernel `k` and what it is given.

    Attributes:
        name: Unique name; its first word is the family.
        text: The PTX module. Parameters are the buffers' addresses, then the maps.
        buffers: Initial bytes of every buffer.
        outputs: Which buffers are results.
        ulp: None where every bit must agree, else how many units in the last place
            of f32 (or of f16 and bf16 pairs, see `form`) an approximation may differ.
        form: `b32`, `f32`, `f16x2` or `bf16x2`: how `ulp` reads the words; with
            `absolute` it counts steps of 2^-20.
    """

    name: str
    text: str
    buffers: tuple[NDArray[np.uint8], ...]
    outputs: tuple[int, ...]
    grid: int = 1
    block: int = 32
    maps: tuple[MapSpec, ...] = ()
    ulp: int | None = None
    form: str = "b32"
    smem: int = 0


def hashed(seed: int, count: int) -> Words:
    """`count` pseudo-random words (splitmix64, upper halves)."""
    with np.errstate(over="ignore"):
        z = np.arange(1, count + 1, dtype=np.uint64) + np.uint64(seed << 32)
        z = z * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(32)).astype(np.uint32)


def header(params: str, *, module: str = "") -> str:
    """Start of a module with entry `k`, up to its opening brace."""
    return (
        f".version 9.0\n.target {TARGET}\n.address_size 64\n{module}\n"
        f".visible .entry k({params})\n{{\n"
    )


_REGISTERS = """.reg .pred %p<8>;
.reg .b16 %h<16>;
.reg .b32 %t<32>, %lane, %at;
.reg .b64 %x<16>, %base;
"""


@dataclass(frozen=True, kw_only=True)
class Lanewise:
    """A body run by every thread on its own words.

    `body` reads `%i0..` and writes `%o0..`, 32-bit registers; `%p`, `%h` (16 bit),
    `%t` (32) and `%x` (64) are scratch, `%lane` the lane.
    """

    name: str
    body: str
    inputs: tuple[Words, ...]
    outputs: int = 1
    declare: str = ""
    module: str = ""
    block: int = 128
    ulp: int | None = None
    form: str = "b32"
    directives: dict[str, str] = field(default_factory=dict)

    def case(self) -> Case:
        """The kernel around the body. Threads are a whole number of blocks."""
        count = len(self.inputs[0])
        if count % self.block or any(len(i) != count for i in self.inputs):
            raise ValueError(f"{self.name}: {count} words in blocks of {self.block}")
        n = len(self.inputs)
        lines = [_REGISTERS, f".reg .b32 %i<{n}>, %o<{self.outputs}>;", self.declare]
        lines += [
            "mov.u32 %lane, %laneid;",
            "mov.u32 %t0, %tid.x;",
            "mov.u32 %t1, %ctaid.x;",
            f"mad.lo.u32 %at, %t1, {self.block}, %t0;",
            "ld.param.u64 %x0, [p_in];",
            "mad.wide.u32 %base, %at, 4, %x0;",
        ]
        lines += [f"ld.global.b32 %i{k}, [%base+{4 * count * k}];" for k in range(n)]
        lines += [f"mov.b32 %o{k}, 0;" for k in range(self.outputs)]
        lines += [self.body, "ld.param.u64 %x0, [p_out];"]
        lines += ["mad.wide.u32 %base, %at, 4, %x0;"]
        lines += [
            f"st.global.b32 [%base+{4 * count * k}], %o{k};"
            for k in range(self.outputs)
        ]
        text = header(".param .u64 p_in, .param .u64 p_out", module=self.module)
        text += "\n".join([*lines, "ret;", "}\n"])
        given = np.concatenate(self.inputs).view(np.uint8)
        made = np.zeros(4 * count * self.outputs, np.uint8)
        return Case(
            name=self.name,
            text=text,
            buffers=(given, made),
            outputs=(1,),
            grid=count // self.block,
            block=self.block,
            ulp=self.ulp,
            form=self.form,
        )


F32_SPECIAL = np.array(
    [
        *(0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000),
        *(0x7FC00000, 0x7F800001, 0xFFC12345, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FA00000),
        *(0x00800000, 0x80800000, 0x007FFFFF, 0x807FFFFF, 0x00000001, 0x80000001),
        *(0x7F7FFFFF, 0xFF7FFFFF, 0x3F000000, 0xBF000000, 0x3FC00000, 0x40200000),
        *(0x33000000, 0x33000001, 0x33800000, 0x38800000, 0x387FFFFF, 0x387FE000),
        *(0x477FE000, 0x477FEFFF, 0x477FF000, 0x47800000, 0xC77FF000, 0x477FF001),
        *(0x4F000000, 0xCF000000, 0x4EFFFFFF, 0x4F7FFFFF, 0x4F800000, 0x5F000000),
        *(0x5F7FFFFF, 0x5F800000, 0xDF000000, 0x4B000001, 0x4AFFFFFF, 0x4B7FFFFF),
        *(0x43E00000, 0x43E80000, 0x43E80001, 0x43F00000, 0xC3E80000, 0x3C800000),
        *(0x3B000000, 0x3A800000, 0x3A800001, 0x47600000, 0x47700000, 0x47700001),
        *(0x37800000, 0x37000000, 0x37000001, 0x42FE0000, 0x42FF0000, 0x43000000),
    ],
    np.uint32,
)


def f32_words(seed: int, count: int) -> Words:
    """f32 bit patterns: specials, any bits, common sizes, and ties of narrow types."""
    bits = hashed(seed, count)
    pick = hashed(seed + 1, count)
    kind = pick & 7
    near = (bits & 0x807FFFFF) | ((117 + (pick >> 3) % 21) << 23)
    narrow = (bits & 0x807FFFFF) | ((100 + (pick >> 3) % 46) << 23)
    # Cut the mantissa short and put it on, or one unit beside, a halfway point.
    keep = (pick >> 9) % 22 + 1
    half = (np.uint32(1) << (22 - keep)).astype(np.uint32)
    tie = (narrow & ~(half * 2 - 1)) | half
    tie = tie + ((pick >> 15) % 3) - 1
    special = F32_SPECIAL[(pick >> 3) % len(F32_SPECIAL)]
    out = np.where(kind < 2, bits, near)
    out = np.where((kind == 3) | (kind == 4), narrow, out)
    out = np.where((kind == 5) | (kind == 6), tie, out)
    return np.where(kind == 7, special, out).astype(np.uint32)


def plain_f32(seed: int, count: int, low: int, high: int) -> Words:
    """Finite f32 of both signs with exponents in [low, high]."""
    bits = hashed(seed, count)
    exponent = 127 + low + (hashed(seed + 1, count) % np.uint32(high - low + 1))
    return ((bits & 0x807FFFFF) | (exponent << 23)).astype(np.uint32)


def integers(seed: int, count: int) -> Words:
    """Integers: any bits, small ones of both signs, and ends of ranges."""
    bits = hashed(seed, count)
    pick = hashed(seed + 1, count)
    ends = np.array(
        [
            *(0, 1, 2, 31, 32, 33, 63, 64, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7F, 0x80),
            *(0xFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFF8000),
        ],
        np.uint32,
    )
    small = (bits % 129 - 64).astype(np.uint32)
    out = np.where((pick & 3) == 0, small, bits)
    return np.where((pick & 3) == 1, ends[(pick >> 2) % len(ends)], out).astype(
        np.uint32
    )


def halves(seed: int, count: int) -> Words:
    """Pairs of 16-bit patterns, each any bits or a common size of f16 or bf16."""
    bits = hashed(seed, count)
    pick = hashed(seed + 1, count)
    f16 = (bits & 0x83FF83FF) | ((12 + (pick >> 4) % 7) * 0x0400_0400)
    bf16 = (bits & 0x807F807F) | ((124 + (pick >> 4) % 7) * 0x0080_0080)
    kind = pick & 3
    out = np.where(kind == 0, bits, f16)
    return np.where(kind == 3, bf16, out).astype(np.uint32)


def names(cases: Sequence[Case]) -> list[str]:
    """The names, which must be different."""
    found = [c.name for c in cases]
    if len(set(found)) != len(found):
        raise ValueError(
            f"repeated: {sorted({n for n in found if found.count(n) > 1})}"
        )
    return found
