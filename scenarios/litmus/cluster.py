"""CTAs of a cluster: barrier.cluster, remote arrivals, distributed shared memory."""

from __future__ import annotations

from sidestream.scenarios.litmus.statements import ARRIVE, expect, lead, wait
from sidestream.scenarios.litmus.twin import Found, Twin, dsmem, race

_BARRIER = "Parallel Synchronization and Communication Instructions: barrier.cluster"
_ARRIVE = "Parallel Synchronization and Communication Instructions: mbarrier.arrive"
_WAIT = (
    "Parallel Synchronization and Communication Instructions: mbarrier.test_wait, "
    "mbarrier.try_wait"
)
_ASYNC = "Data Movement and Conversion Instructions: st.async"
_INIT = "Parallel Synchronization and Communication Instructions: membar, fence"
_BULK = "Data Movement and Conversion Instructions: cp.async.bulk"
_TENSOR = "Data Movement and Conversion Instructions: cp.async.bulk.tensor"
_FAR = "st.shared::cluster.b32 [%px], 1;\n"
_NEAR = "ld.shared.b32 %r1, [%x];\n"
_JOIN = "barrier.cluster.arrive;\nbarrier.cluster.wait;\n"
_PAIR = dsmem("st.shared::cluster.b32", "ld.shared.b32")
_REMOTE = "mbarrier.arrive.{}shared::cluster.b64 _, [%pbar];\n"
_ST_ASYNC = "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32"
_DSMEM_COPY = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
_CAST = (
    "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    ".multicast::cluster"
)
_FREE = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];\n"


def _pair(name: str, rule: str, title: str, first: str, second: str, **more) -> Twin:  # type: ignore[no-untyped-def]
    """Lane 0 of a warp of each of two CTAs."""
    return Twin(
        name=name,
        rule=rule,
        title=title,
        warps=(lead(first),),
        peers=(lead(second),),
        ctas=2,
        cluster=2,
        **more,
    )


TWINS = (
    _pair(
        "store_barrier_load",
        "B2",
        _BARRIER,
        _FAR + "<op>",
        "<op>" + _NEAR,
        op="",
        broken="",
        found=_PAIR,
    ),
)
