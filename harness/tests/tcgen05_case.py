"""Kernels around tensor core instructions: fill memories, execute a body, dump them.

A CTA (or a pair) of four warps fills its shared memory and its tensor memory from
images, one thread executes the body, a commit completes, and tensor memory is dumped.
The body finds the shared memory image at `%sm` (1024-byte aligned), an allocation of
tensor memory at address 0 and an mbarrier at `%bar`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from kernel_case import run_kernel
from numpy.typing import NDArray

from sidestream.harness.exec.machine import Options, Result
from sidestream.harness.exec.program import Program

COLUMNS, LANES = 512, 128
SMEM = 65536
"""Bytes of the shared memory image."""
AT = 2048
"""Shared memory address of the image: the first multiple of 1024 behind the barrier."""

Cells = NDArray[np.uint32]
Bytes = NDArray[np.uint8]

_HEAD = """
.reg .b32 %sm, %bar, %slot, %w, %tl, %tc, %tv, %v, %lane, %rank, %n, %issuer;
.reg .b64 %tp, %cta, %from, %in, %out;
.reg .pred %first, %q, %one; .reg .b32 %c<16>;
.shared .align 1024 .b8 tc_head[1024];
.shared .align 1024 .b8 tc_image[{smem}];
mov.u32 %slot, tc_head;
add.u32 %bar, %slot, 8;
mov.u32 %sm, tc_image;
mov.u32 %rank, %cluster_ctarank;
shr.u32 %w, %kc_tid, 5;
setp.eq.u32 %first, %w, 0;
setp.eq.u32 %one, %kc_tid, 0;
@%one mbarrier.init.shared.b64 [%bar], {arrivals};
@%first tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 \
    [%slot], {columns};
cvt.u64.u32 %cta, %kc_cta;
mul.lo.u64 %from, %cta, {smem};
add.u64 %from, %from, %tc_smem;
shl.b32 %tc, %kc_tid, 2;
TC_COPY:
cvt.u64.u32 %tp, %tc;
add.u64 %tp, %tp, %from;
ld.global.b32 %v, [%tp];
add.u32 %tv, %sm, %tc;
st.shared.b32 [%tv], %v;
add.u32 %tc, %tc, 512;
setp.lt.u32 %q, %tc, {smem};
@%q bra TC_COPY;
shl.b64 %cta, %cta, 18;
add.u64 %in, %tc_in, %cta;
add.u64 %out, %tc_out, %cta;
shl.b32 %lane, %w, 21;
mov.u32 %tc, 0;
TC_FILL:
mad.lo.u32 %tv, %tc, 128, %kc_tid;
mad.wide.u32 %tp, %tv, 4, %in;
add.u32 %tv, %lane, %tc;
{loads}
tcgen05.st.sync.aligned.32x32b.x16.b32 [%tv], {vector};
add.u32 %tc, %tc, 16;
setp.lt.u32 %q, %tc, {filled};
@%q bra TC_FILL;
tcgen05.wait::st.sync.aligned;
fence.proxy.async.shared::cta;
fence.mbarrier_init.release.cluster;
tcgen05.fence::before_thread_sync;
barrier.cluster.arrive;
barrier.cluster.wait;
tcgen05.fence::after_thread_sync;
"""
_TAIL = """
TC_WAIT:
mbarrier.try_wait.parity.shared.b64 %q, [%bar], 0;
@!%q bra TC_WAIT;
tcgen05.fence::after_thread_sync;
mov.u32 %tc, 0;
TC_DUMP:
mad.lo.u32 %tv, %tc, 128, %kc_tid;
mad.wide.u32 %tp, %tv, 4, %out;
add.u32 %tv, %lane, %tc;
tcgen05.ld.sync.aligned.32x32b.x16.b32 {vector}, [%tv];
tcgen05.wait::ld.sync.aligned;
{stores}
add.u32 %tc, %tc, 16;
setp.lt.u32 %q, %tc, {dumped};
@%q bra TC_DUMP;
barrier.cluster.arrive;
barrier.cluster.wait;
@%first tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 0, {columns};
"""


@dataclass(frozen=True, kw_only=True)
class CoreRun:
    """What executing a body gave.

    Attributes:
        result: Status, faults and counters.
        program: The lowered kernel.
        cells: Tensor memory afterwards, `[cta][column][lane]`.
    """

    result: Result
    program: Program
    cells: Cells


def commit(group: int, mask: str = "") -> str:
    """Signal `%bar` of the CTA, or of both of a pair."""
    if group == 1:
        return (
            "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 "
            "[%bar];"
        )
    return (
        "{.reg .b16 %both; mov.b16 %both, 3;\n"
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster"
        ".multicast::cluster.b64 [%bar], %both;}"
    )


def run(
    body: str,
    *,
    smem: Bytes | None = None,
    cells: Cells | None = None,
    group: int = 1,
    issuer: int = 0,
    arrivals: int = 1,
    columns: int = COLUMNS,
    filled: int | None = None,
    dumped: int | None = None,
    options: Options | None = None,
    target: str = "sm_100a",
    tail: str | None = None,
    everyone: bool = False,
) -> CoreRun:
    """Execute `body` in one thread of CTA `issuer` between filling and dumping.

    Args:
        body: Statements; the commit that ends them is its own.
        smem: `[cta][SMEM]`, what shared memory holds at `AT`.
        cells: `[cta][column][lane]`, what tensor memory holds at first.
        group: CTAs: 1, or 2 with `.cta_group::2` everywhere.
        issuer: Rank of the CTA whose thread executes the body.
        arrivals: Arrivals that the barrier waits for.
        columns: Columns of tensor memory that are allocated.
        filled: How many are written at first, in steps of 16; all by default.
        dumped: How many are read at the end, in steps of 16; all by default.
        options: Schedule and budgets.
        target: The `.target`.
        tail: Statements after the body instead of waiting for the barrier.
        everyone: All threads execute the body, not one.
    """
    images = np.zeros((group, SMEM), np.uint8) if smem is None else smem
    inside = np.zeros((group, COLUMNS, LANES), np.uint32) if cells is None else cells
    # Sixteen columns at a time, whose words are 512 bytes apart in the image.
    each = [(f"%c{k}", f"[%tp+{512 * k}]") for k in range(16)]
    words: dict[str, object] = {
        "vector": "{" + ", ".join(c for c, _ in each) + "}",
        "loads": "\n".join(f"ld.global.b32 {c}, {at};" for c, at in each),
        "stores": "\n".join(f"st.global.b32 {at}, {c};" for c, at in each),
    }
    words |= {"group": group, "arrivals": arrivals, "smem": SMEM, "columns": columns}
    words["filled"] = columns if filled is None else filled
    words["dumped"] = columns if dumped is None else dumped
    chosen = f"setp.eq.u32 %q, %rank, {issuer};\nand.pred %q, %q, %one;\n"
    chosen += "@!%q bra TC_OVER;"
    parts = [
        _HEAD.format(**words),
        "" if everyone else chosen,
        "{\n" + body + "\n}",
        "TC_OVER:\nbar.sync 0;",
        _TAIL.format(**words) if tail is None else tail,
    ]
    out = np.zeros((group, COLUMNS, LANES), np.uint32)
    ran = run_kernel(
        "\n".join(parts),
        buffers={"tc_smem": images.reshape(-1), "tc_in": inside, "tc_out": out},
        threads=128 * group,
        block=128,
        cluster=(group, 1, 1),
        target=target,
        options=options,
    )
    return CoreRun(
        result=ran.result,
        program=ran.program,
        cells=ran.buffers["tc_out"].astype(np.uint32),
    )


def clean(case: CoreRun) -> CoreRun:
    """The run, after checking that nothing went wrong.

    Raises:
        AssertionError: if an instruction has no semantics, the kernel did not finish,
            or a fault was recorded.
    """
    assert not case.program.unsupported, case.program.unsupported
    assert case.result.status == "done", case.result
    assert not case.result.faults, case.result.faults
    return case
