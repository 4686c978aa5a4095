"""NVIDIA/cudnn-frontend#610: a response is read in parts, for a relaxed credit."""

from __future__ import annotations

from sidestream.scenarios.bugs.kernels.kernel_bug import Kernel, KernelBug
from sidestream.scenarios.bugs.kernels.parts import PROXY, wait_lap
from sidestream.scenarios.litmus.statements import expect
from sidestream.scenarios.litmus.twin import smem

_CTAS = 14
_TRY = (
    "clusterlaunchcontrol.try_cancel.async"
    ".shared::cta.mbarrier::complete_tx::bytes.b128"
)
_WORD = "ld.shared.b32"
_QUERY = "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128"


def _decode(*, fixed: bool) -> str:
    """The response into `%r2-5`, and the credit for the next one."""
    credit = "bar.warp.sync -1;\n@%one mbarrier.arrive{}.shared.b64 _, [%bar+8];\n"
    if fixed:
        whole = "ld.shared.v4.b32 {%r2, %r3, %r4, %r5}, [%x];\n"
        return whole + PROXY + credit.format("")
    # Success, x and y of the CTA; the grid has no more dimensions.
    words = "".join(f"{_WORD} %r{2 + k}, [%x+{4 * k}];\n" for k in range(3))
    return words + "mov.u32 %r5, 0;\n" + credit.format(".relaxed.cta")


def _kernel(*, fixed: bool) -> Kernel:
    reader = (
        "mov.u32 %r8, 0;\n"  # parity of the response
        "$NEXT:\n"
        + wait_lap("%r8")
        + _decode(fixed=fixed)
        + "mov.b64 %rd0, {%r2, %r3};\nmov.b64 %rd1, {%r4, %r5};\n"
        "{\n.reg .b128 %answer;\nmov.b128 %answer, {%rd0, %rd1};\n"
        f"{_QUERY} %p4, %answer;\n}}\n"
        "xor.b32 %r8, %r8, 1;\n@%p4 bra $NEXT;\n"
    )
    scheduler = (
        "mov.u32 %r8, 0;\n"
        "$NEXT:\n@%one "
        + expect(16)
        + f"@%one {_TRY} [%x], [%bar];\n"
        # The response is known here too, to stop asking once it fails.
        + wait_lap("%r8")
        + "ld.shared.v2.b64 {%rd0, %rd1}, [%x];\n"
        "{\n.reg .b128 %answer;\nmov.b128 %answer, {%rd0, %rd1};\n"
        f"{_QUERY} %p4, %answer;\n}}\n"
        + PROXY
        + "bar.warp.sync -1;\n"
        + wait_lap("%r8", "%bar+8")
        + "xor.b32 %r8, %r8, 1;\n@%p4 bra $NEXT;\n"
    )
    return Kernel(warps=(scheduler, reader), bars=(1, 1), ctas=_CTAS)


CLC_RESPONSE_TORN = KernelBug(
    name="clc-response-torn",
    issue="NVIDIA/cudnn-frontend#610",
    bug_class="scheduler",
    wrong="a reader decodes the 16 bytes of a response by three loads and gives a "
    "relaxed credit for them: nothing orders the loads before the next response, which "
    "may land between them.",
    fix="one 16-byte load, the proxy fence, then a credit that releases.",
    kernel=_kernel,
    found=smem(_WORD, _TRY),
)
