"""MoonshotAI/FlashKDA#24: an empty sequence skips the only proxy fence."""

from __future__ import annotations

from sidestream.scenarios.bugs.kernels.kernel_bug import Kernel, KernelBug
from sidestream.scenarios.bugs.kernels.parts import PROXY, SENT, STORED
from sidestream.scenarios.litmus.statements import bulk_store, lead
from sidestream.scenarios.litmus.twin import proxy


def _kernel(*, fixed: bool) -> Kernel:
    # One CTA a sequence; its number of chunks lies in global memory.
    state = (
        "mad.lo.u32 %r10, %tid, 4, %x;\n"
        "mad.wide.u32 %rd0, %rank, 4, %g;\nld.global.b32 %r2, [%rd0];\n"
        "st.shared.b32 [%r10], 0;\n"
        "$CHUNK: setp.eq.u32 %p3, %r2, 0;\n@%p3 bra $WRITE;\n"
        "ld.shared.b32 %r3, [%r10];\nadd.u32 %r3, %r3, 1;\n"
        f"st.shared.b32 [%r10], %r3;\n{PROXY}"
        "bar.sync 0;\n"
        "sub.u32 %r2, %r2, 1;\nbra $CHUNK;\n"
        "$WRITE:\n" + (PROXY if fixed else "") + "bar.sync 0;\n"
    )
    write = "mad.wide.u32 %rd0, %rank, 256, %g;\nadd.u64 %rd0, %rd0, 1024;\n" + lead(
        bulk_store(to="%rd0") + SENT
    )
    return Kernel(warps=(state + write, state), ctas=2, memory=(2, 0))


EMPTY_SEQUENCE_WITHOUT_FENCE = KernelBug(
    name="empty-sequence-without-fence",
    issue="MoonshotAI/FlashKDA#24",
    bug_class="async-proxy",
    wrong="the state of a sequence is written by ordinary stores and leaves by TMA; "
    "the proxy fence is in the loop over chunks, which an empty sequence never enters.",
    fix="the fence stands before the barrier in front of the copy.",
    kernel=_kernel,
    spared=(2, 1),
    found=proxy("st.shared.b32", STORED),
)
