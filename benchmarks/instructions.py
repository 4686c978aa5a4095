"""Warp instructions a second of single instruction families, on one core.

Each row is a loop of 16 copies of one instruction over 8 warps; the last column is the
cost relative to a 32-bit integer add in the same run, which is what to compare between
machines.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sidestream.harness.exec import abi
from sidestream.harness.exec.machine import Options, execute
from sidestream.harness.exec.program import lower
from sidestream.harness.launch import Launch
from sidestream.harness.ptx.decode import decode
from sidestream.harness.ptx.parser import parse

_COPIES = 16
_WARPS = 8
_BODIES = {
    "add.u32": "add.u32 %r1, %r2, %r3;",
    "add.u64": "add.u64 %rd1, %rd2, %rd3;",
    "mad.lo.s32": "mad.lo.s32 %r1, %r2, %r3, %r1;",
    "lop3.b32": "lop3.b32 %r1, %r2, %r3, %r1, 0x96;",
    "setp + selp": "setp.lt.s32 %p1, %r2, %r3; selp.b32 %r1, %r2, %r3, %p1;",
    "fma.rn.f32": "fma.rn.f32 %f1, %f2, %f3, %f1;",
    "fma.rn.f32x2": "fma.rn.f32x2 %rd1, %rd2, %rd3, %rd1;",
    "ex2.approx.ftz.f32": "ex2.approx.ftz.f32 %f1, %f2;",
    "cvt.rn.bf16x2.f32": "cvt.rn.bf16x2.f32 %r1, %f2, %f3;",
    "shfl.sync.bfly": "shfl.sync.bfly.b32 %r1, %r2, 1, 31, -1;",
    "ld.shared.b32": "ld.shared.b32 %r1, [%r5];",
    "ld.shared.v4.b32": "ld.shared.v4.b32 {%r1, %r6, %r7, %r8}, [%r5];",
    "st.shared.b32": "st.shared.b32 [%r5], %r2;",
    "ld.global.b32": "ld.global.b32 %r1, [%rd4];",
    "st.global.v4.b32": "st.global.v4.b32 [%rd4], {%r1, %r6, %r7, %r8};",
    "ldmatrix.x4": "ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
    "{%r1, %r6, %r7, %r8}, [%r5];",
    "mma.m16n8k16.bf16": "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
    "{%f4, %f5, %f6, %f7}, {%r2, %r3, %r2, %r3}, {%r2, %r3}, {%f4, %f5, %f6, %f7};",
    "bar.sync": "bar.sync 0;",
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measured family."""

    name: str
    millions_per_second: float
    nanoseconds: float


def _kernel(body: str, rounds: int) -> str:
    return f"""
.version 8.7
.target sm_120a
.address_size 64
.visible .entry bench(.param .u64 out)
{{
.reg .pred %p<4>;
.reg .b32 %r<16>;
.reg .f32 %f<8>;
.reg .b64 %rd<8>;
.shared .align 16 .b8 buffer[8192];
ld.param.u64 %rd4, [out];
mov.u32 %r4, %tid.x;
mul.wide.u32 %rd5, %r4, 16;
add.u64 %rd4, %rd4, %rd5;
and.b32 %r5, %r4, 255;
shl.b32 %r5, %r5, 4;
mov.u32 %r9, buffer;
add.u32 %r5, %r5, %r9;
mov.u32 %r1, 1; mov.u32 %r2, 0x3f803f80; mov.u32 %r3, 0x3f003f00;
mov.u32 %r6, 6; mov.u32 %r7, 7; mov.u32 %r8, 8;
mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0fBF000000; mov.f32 %f3, 0f3F000000;
mov.f32 %f4, 0f00000000; mov.f32 %f5, %f4; mov.f32 %f6, %f4; mov.f32 %f7, %f4;
mov.u64 %rd1, 1; mov.u64 %rd2, 2; mov.u64 %rd3, 3;
mov.u32 %r10, {rounds};
LOOP:
{body * _COPIES}
sub.u32 %r10, %r10, 1;
setp.ne.u32 %p2, %r10, 0;
@%p2 bra LOOP;
ret;
}}
"""


def measure(rounds: int = 4000) -> list[Row]:
    """Run every family; `rounds` loop iterations a warp."""
    memory = np.zeros(32 * _WARPS * 16 + 64, np.uint8)
    table = np.zeros(1, abi.ALLOC_DTYPE)
    address = memory.ctypes.data // 16 * 16 + 16
    table[0] = (address, len(memory) - 32, address, 0, 1, 3)
    rows = []
    for name, body in _BODIES.items():
        text = _kernel(body, rounds)
        program = lower(decode(parse(text)))
        launch = Launch(
            kernel="bench",
            ptx=text,
            grid=(1, 1, 1),
            block=(32 * _WARPS, 1, 1),
            params=(address.to_bytes(8, "little"),),
        )
        best = min(
            (execute(program, launch, table, Options()) for _ in range(3)),
            key=lambda r: r.seconds,
        )
        if best.status != "done":
            raise RuntimeError(f"{name}: {best.status} {program.unsupported}")
        rate = best.warp_instructions / best.seconds
        rows.append(
            Row(name=name, millions_per_second=rate / 1e6, nanoseconds=1e9 / rate)
        )
    return rows


def show(rows: list[Row]) -> None:
    """Print the table."""
    base = rows[0].nanoseconds
    print("| instruction | M warp instr/s | ns | x add.u32 |")
    print("|---|---|---|---|")
    for row in rows:
        print(
            f"| {row.name} | {row.millions_per_second:.1f} | {row.nanoseconds:.1f} "
            f"| {row.nanoseconds / base:.1f} |"
        )
