"""Kernels around tensor memory instructions: fill it, execute a body, dump it.

A CTA of four warps (or more) allocates, fills its tensor memory from an image, runs the
body, dumps what is there and deallocates. The body finds the address of the
allocation in `%base`, of its warp's lanes in `%quarter`, its warp in `%warp`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from kernel_case import run_kernel
from numpy.typing import NDArray

from sidestream.harness.exec.machine import Options, Result
from sidestream.harness.exec.program import Program

COLUMNS, LANES = 512, 128
Image = NDArray[np.uint32]

_DECLARE = """
.reg .b32 %base, %quarter, %warp, %slot, %tl, %tc, %tv;
.reg .b64 %tp;
.reg .pred %first, %tq;
.shared .align 8 .b32 tm_slot[2];
mov.u32 %slot, tm_slot;
shr.u32 %warp, %kc_tid, 5;
setp.eq.u32 %first, %warp, 0;
and.b32 %tl, %kc_tid, 127;
"""
_ALLOC = """
@%first tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%slot], {columns};
bar.sync 0;
ld.shared.b32 %base, [%slot];
and.b32 %quarter, %warp, 3;
shl.b32 %quarter, %quarter, 21;
add.u32 %quarter, %quarter, %base;
"""
_EACH = """
mov.u32 %tc, 0;
{label}:
shl.b32 %tv, %tc, 7;
add.u32 %tv, %tv, %tl;
mad.wide.u32 %tp, %tv, 4, {buffer};
add.u32 %tv, %quarter, %tc;
{step}
add.u32 %tc, %tc, 1;
setp.lt.u32 %tq, %tc, {columns};
@%tq bra {label};
"""
_FILL = """{.reg .b32 %v; ld.global.b32 %v, [%tp];
tcgen05.st.sync.aligned.32x32b.x1.b32 [%tv], {%v};}"""
_DUMP = """{.reg .b32 %v; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v}, [%tv];
tcgen05.wait::ld.sync.aligned;
st.global.b32 [%tp], %v;}"""
_FREE = """
bar.sync 0;
@%first tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
@%first tcgen05.dealloc.cta_group::1.sync.aligned.b32 %base, {columns};
"""


@dataclass(frozen=True, kw_only=True)
class TensorMemoryRun:
    """What executing a body gave.

    Attributes:
        result: Status, faults and counters.
        program: The lowered kernel.
        dump: Tensor memory afterwards, `[column][lane]`.
        buffers: The other buffers, by name.
    """

    result: Result
    program: Program
    dump: Image
    buffers: Mapping[str, NDArray[np.generic]]


def image(seed: int) -> Image:
    """Words that are all different, `[column][lane]`."""
    cells = np.arange(COLUMNS * LANES, dtype=np.uint32) * np.uint32(2654435761)
    return (cells ^ np.uint32(seed * 0x9E3779B1 & 0xFFFFFFFF)).reshape(COLUMNS, LANES)


def run(
    body: str,
    *,
    cells: Image | None = None,
    buffers: Mapping[str, NDArray[np.generic]] | None = None,
    warps: int = 4,
    columns: int = COLUMNS,
    options: Options | None = None,
    target: str = "sm_100a",
) -> TensorMemoryRun:
    """Execute `body` between filling and dumping tensor memory.

    Args:
        body: Statements; the buffers are 64-bit addresses by name.
        cells: What tensor memory holds at first; zeros by default.
        buffers: Further buffers.
        warps: Warps of the CTA; only the first four fill and dump.
        columns: How many are allocated.
        options: Schedule and budgets.
        target: The `.target`.
    """
    cells = np.zeros((COLUMNS, LANES), np.uint32) if cells is None else cells
    ours = "setp.gt.u32 %tq, %warp, 3;\n@%tq bra {}_OVER;\n"
    fill = _EACH.format(label="TM_FILL", buffer="%tm_in", step=_FILL, columns=columns)
    dump = _EACH.format(label="TM_DUMP", buffer="%tm_out", step=_DUMP, columns=columns)
    parts = [
        _DECLARE + _ALLOC.format(columns=columns),
        ours.format("TM_FILL") + fill,
        "tcgen05.wait::st.sync.aligned;\nTM_FILL_OVER:\nbar.sync 0;",
        body,
        "tcgen05.wait::st.sync.aligned;\nbar.sync 0;",
        ours.format("TM_DUMP") + dump + "TM_DUMP_OVER:",
        _FREE.format(columns=columns),
    ]
    ran = run_kernel(
        "\n".join(parts),
        buffers={"tm_in": cells, "tm_out": np.zeros_like(cells), **(buffers or {})},
        threads=32 * warps,
        block=32 * warps,
        target=target,
        options=options,
    )
    return TensorMemoryRun(
        result=ran.result,
        program=ran.program,
        dump=ran.buffers["tm_out"].astype(np.uint32),
        buffers=ran.buffers,
    )


def clean(case: TensorMemoryRun) -> TensorMemoryRun:
    """The run, after checking that nothing went wrong.

    Raises:
        AssertionError: if an instruction has no semantics, the kernel did not finish,
            or a fault was recorded.
    """
    assert not case.program.unsupported, case.program.unsupported
    assert case.result.status == "done", case.result
    assert not case.result.faults, case.result.faults
    return case


def vector(prefix: str, count: int) -> str:
    """`{%p0, %p1, ...}`."""
    return "{" + ", ".join(f"%{prefix}{k}" for k in range(count)) + "}"


def store_registers(prefix: str, count: int, buffer: str) -> str:
    """Write registers to `buffer[register][thread]`, 32-bit words."""
    lines = [".reg .b64 %sr;", f"mad.wide.u32 %sr, %kc_tid, 4, {buffer};"]
    for k in range(count):
        lines.append(f"st.global.b32 [%sr+{k * LANES * 4}], %{prefix}{k};")
    return "{\n" + "\n".join(lines) + "\n}"


def load_registers(prefix: str, count: int, buffer: str) -> str:
    """Read `buffer[register][thread]` into registers."""
    lines = [".reg .b64 %lr;", f"mad.wide.u32 %lr, %kc_tid, 4, {buffer};"]
    for k in range(count):
        lines.append(f"ld.global.b32 %{prefix}{k}, [%lr+{k * LANES * 4}];")
    return "{\n" + "\n".join(lines) + "\n}"
