"""Cluster launch control: the response, its completion, its reuse."""

from __future__ import annotations

from sidestream.scenarios.litmus.statements import expect, lead, wait
from sidestream.scenarios.litmus.twin import Twin, dsmem, fault, race, smem

_TRY = (
    "Parallel Synchronization and Communication Instructions: "
    "clusterlaunchcontrol.try_cancel"
)
_ASK = (
    "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
    ".b128"
)
_QUERY = (
    "Parallel Synchronization and Communication Instructions: "
    "clusterlaunchcontrol.query_cancel"
)
_ALL = f"{_ASK.removesuffix('.b128')}.multicast::cluster::all.b128"
_ID = "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128"
_WAIT = "mbarrier.try_wait.parity.shared::cta.b64"
_WORD = "ld.shared.b32 %r1, [%x];\n"
_FENCE = "fence.proxy.async.shared::cta;\n"
_LOAD = "ld.shared.v2.b64 {%rd1, %rd2}, [%x];\nmov.b128 %q, {%rd1, %rd2};\n"
_GIVEN = "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q;\n"


def _ask(bar: str = "%bar") -> str:
    return f"{expect(16, bar)}{_ASK} [%x], [{bar}];\n"


TWINS = (
    Twin(
        name="response_is_awaited",
        rule="B6",
        title=_TRY,
        warps=(lead(_ask() + "<op>" + _WORD + wait()),),
        bars=(1,),
        op=wait(),
        found=smem(_ASK, "ld.shared.b32", "P3"),
    ),
    Twin(
        name="response_is_read_before_the_next_request",
        rule="B6",
        title=_TRY,
        warps=(
            "<op>" + lead(_ask() + wait()),
            _WORD + _FENCE + "bar.arrive 1, 64;\n",
        ),
        bars=(1,),
        op="bar.sync 1, 64;\n",
        found=smem("ld.shared.b32", _ASK),
    ),
    Twin(
        name="place_of_a_response_is_written_by_nobody_else",
        rule="B6",
        title=_TRY,
        warps=(lead(_ask() + "<op>st.shared.b32 [%x], 1;\n" + wait()),),
        bars=(1,),
        op=wait(),
        found=smem(_ASK, "st.shared.b32", "P3"),
    ),
    Twin(
        name="stored_place_crosses_the_proxy",
        rule="B6",
        title=_TRY,
        warps=(lead("st.shared.b32 [%x], 1;\n<op>" + _ask() + wait()),),
        bars=(1,),
        op=_FENCE,
        found=(race("proxy", "st.shared.b32", _ASK, "P2"),),
    ),
    Twin(
        name="loaded_place_crosses_the_proxy",
        rule="B6",
        title=_TRY,
        warps=(lead(_WORD + "<op>" + _ask() + wait()),),
        bars=(1,),
        op=_FENCE,
        found=(race("proxy", "ld.shared.b32", _ASK, "P2"),),
        broken_in=("isa",),
    ),
    Twin(
        name="no_request_after_a_failure",
        rule="B6",
        title=_TRY,
        warps=(
            lead(
                ".reg .b128 %q;\n"
                + _ask()
                + wait()
                + _LOAD
                + _GIVEN
                + _FENCE
                + "<op>"
                + _ask("%bar+8")
                + wait(0, "%bar+8")
                + "$OUT:\n"
            ),
        ),
        bars=(1, 1),
        op="@!%p3 bra $OUT;\n",
        found=(
            *fault("contract", "clusterlaunchcontrol", _ASK),
            *fault("deadlock", "progress", _WAIT, "bar.warp.sync"),
        ),
        finishes=False,
    ),
    Twin(
        name="no_id_of_a_failure",
        rule="B6",
        title=_QUERY,
        warps=(
            lead(
                ".reg .b128 %q;\n"
                + _ask()
                + wait()
                + _LOAD
                + _GIVEN
                + f"<op>{_ID} {{%r1, %r2, %r3, %r4}}, %q;\n"
                + "st.shared.b32 [%y], %r1;\n"
            ),
        ),
        bars=(1,),
        op="@%p3 ",
        found=fault("contract", "clusterlaunchcontrol", _ID),
    ),
    Twin(
        name="response_in_each_cta_is_awaited",
        rule="B6",
        title=_TRY,
        warps=(lead(expect(16) + f"{_ALL} [%x], [%bar];\n") + wait(),),
        peers=(lead(expect(16)) + "<op>",),
        bars=(1,),
        ctas=2,
        cluster=2,
        op=wait() + _WORD,
        broken=_WORD + wait(),
        found=dsmem(_ALL, "ld.shared.b32"),
    ),
)
