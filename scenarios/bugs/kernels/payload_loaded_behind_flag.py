"""deepseek-ai/DeepEP#642: a flag polled by loads, its payload fetched by TMA."""

from __future__ import annotations

from sidestream.scenarios.bugs.kernels.kernel_bug import Kernel, KernelBug
from sidestream.scenarios.bugs.kernels.parts import LOADED
from sidestream.scenarios.litmus.statements import (
    bulk_load,
    expect,
    lead,
    until,
    wait,
)
from sidestream.scenarios.litmus.twin import proxy


def _kernel(*, fixed: bool) -> Kernel:
    # The two ranks are two CTAs: what matters is the scope of flag and payload.
    producer = (
        "st.global.v2.b32 [%rd1], {%lane, %lane};\n"
        "bar.warp.sync -1;\n"
        "@%one st.release.sys.global.b32 [%g+1024], 1;\n"
    )
    consumer = (
        lead(
            until("ld.acquire.sys.global.b32 %r1, [%g+1024];")
            + ("fence.proxy.async.global;\n" if fixed else "")
            + expect(256)
            + bulk_load()
        )
        + wait()
        + "ld.shared.b32 %r2, [%xl];\nst.global.b32 [%gl+2048], %r2;\n"
    )
    return Kernel(
        warps=("mad.wide.u32 %rd1, %lane, 8, %g;\n" + producer,),
        peers=(consumer,),
        bars=(1,),
        ctas=2,
    )


PAYLOAD_LOADED_BEHIND_FLAG = KernelBug(
    name="payload-loaded-behind-flag",
    issue="deepseek-ai/DeepEP#642",
    bug_class="async-proxy",
    wrong="a rank acquires the flag of another by ordinary loads and then has TMA load "
    "the payload: the acquire orders the generic proxy only.",
    fix="fence.proxy.async between the poll and the copy.",
    kernel=_kernel,
    found=proxy("st.global.v2.b32", LOADED),
)
