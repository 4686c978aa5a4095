"""NVIDIA/cutlass#3165: a tensor map changes while the peer CTA still copies by it."""

from __future__ import annotations

from sidestream.scenarios.bugs.kernels.kernel_bug import Kernel, KernelBug
from sidestream.scenarios.litmus.statements import expect, lead, wait
from sidestream.scenarios.litmus.twin import race

_GROUPS = 3
_BOX = 256
_IN = "cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes"
_REPLACE = "tensormap.replace.tile.global_address.global.b1024.b64"
_JOIN = "barrier.cluster.arrive;\nbarrier.cluster.wait;\n"
_RELEASE = "fence.proxy.tensormap::generic.release.gpu;\n"
_ACQUIRE = "fence.proxy.tensormap::generic.acquire.gpu [%rd2], 128;\n"
_PLACE = "add.u64 %rd2, %g, 2048;\n"
# The map of the first group is a copy of the one in the parameters.
_MAKE = (
    "mul.wide.u32 %rd3, %lane, 4;\nadd.u64 %rd4, %map, %rd3;\nld.b32 %r3, [%rd4];\n"
    "add.u64 %rd4, %rd2, %rd3;\nst.global.b32 [%rd4], %r3;\n"
    f"{_RELEASE}bar.warp.sync -1;\n"
)


def _change(group: int) -> str:
    """Point the pair's map at the tensor of the next group."""
    place = f"add.u64 %rd5, %g, {_BOX * group};\n"
    return lead(f"{place}{_REPLACE} [%rd2], %rd5;\n{_RELEASE}")


def _load(group: int) -> str:
    copy = f"{_IN} [%x], [%rd2, {{0}}], [%bar];\n"
    return lead(_ACQUIRE + expect(_BOX) + copy) + wait(group & 1)


def _kernel(*, fixed: bool) -> Kernel:
    leader, peer = _PLACE + _MAKE, _PLACE
    for group in range(_GROUPS):
        # Where a CTA ends a group its own loads are complete; the other's need not be.
        end = _JOIN if fixed and group else ""
        leader += end + (_change(group) if group else "") + _JOIN + _load(group)
        peer += end + _JOIN + _load(group)
    return Kernel(warps=(leader,), peers=(peer,), bars=(1,), ctas=2, cluster=2)


MAP_CHANGED_UNDER_PEER = KernelBug(
    name="map-changed-under-peer",
    issue="NVIDIA/cutlass#3165",
    bug_class="async-proxy",
    wrong="the CTAs of a pair work through the groups of a grouped GEMM with one "
    "tensor map. One of them changes it for the next group once its own loads are "
    "complete, while loads of its peer still read it: illegal addresses.",
    fix="both CTAs meet at the end of a group, before the map is changed.",
    kernel=_kernel,
    found=(race("tensormap", _REPLACE, _IN),),
)
