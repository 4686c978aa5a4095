"""Titles of the PTX ISA sections that rules cite, as PTX ISA 9.2 spells them.

Numbers differ between versions of the ISA, titles seldom do. A citation is
`chapter: section`, or a section alone; several are joined by `; `.
"""

from __future__ import annotations

from collections.abc import Mapping

TENSOR_MODEL = "Memory Consistency Model for 5th generation of TensorCore operations"

SECTIONS: Mapping[str, frozenset[str]] = {
    "": frozenset(
        {
            "Register State Space",
            *("Global State Space", "Shared State Space", "Local State Space"),
            *("Kernel Function Parameters", "Addresses as Operands"),
            *("Instruction Operands", "Tensor-map", "CTA Pair", "Issue Granularity"),
            *("Cluster of Cooperative Thread Arrays", "Access restrictions"),
            *("Tensor Memory", "Tensor Memory Allocation", TENSOR_MODEL),
            "TensorCore 5th Generation Family Instructions",
            "Completion Mechanisms for Asynchronous Copy Operations",
        }
    ),
    "Memory Consistency Model": frozenset(
        {
            *("Scope", "Proxies", "Operation types", "Causality Order"),
            *("Conflict and Data-races", "Morally strong operations"),
            *("Release and Acquire Patterns", "Memory synchronization"),
            *("Asynchronous Operations", "Reductions do not form Acquire Patterns"),
            "Scope and applicability of the model",
            "Memory Operations on Vector Data Types",
            "Memory Operations on Packed Data Types",
        }
    ),
    TENSOR_MODEL: frozenset(
        {
            *("Asynchronous Operations", "Pipelined tcgen05 Instructions"),
            "mbarrier based completion mechanism",
            "Specialized Inter-thread Synchronization for tcgen05 instructions",
            "Non-pipelined instructions, same thread",
            "Pipelined instructions, different thread",
            "Non-pipelined instructions, different thread",
            *("Register dependencies, same thread", "Shared Memory Accesses"),
        }
    ),
    "TensorCore 5th Generation Instructions": frozenset(
        {
            "tcgen05.alloc, tcgen05.dealloc, tcgen05.relinquish_alloc_permit",
            *("tcgen05.ld", "tcgen05.st", "tcgen05.wait", "tcgen05.cp"),
            *("tcgen05.shift", "tcgen05.mma", "tcgen05.mma.ws", "tcgen05.fence"),
            "tcgen05.commit",
        }
    ),
    "Parallel Synchronization and Communication Instructions": frozenset(
        {
            *("bar, barrier", "bar.warp.sync", "barrier.cluster", "membar / fence"),
            *("vote.sync", "match.sync", "redux.sync", "elect.sync", "red.async"),
            *("griddepcontrol", "mbarrier", "mbarrier.init", "mbarrier.inval"),
            *("mbarrier.expect_tx", "mbarrier.complete_tx", "mbarrier.arrive"),
            *("mbarrier.arrive_drop", "mbarrier.test_wait / mbarrier.try_wait"),
            *("cp.async.mbarrier.arrive", "tensormap.cp_fenceproxy"),
            "clusterlaunchcontrol.try_cancel",
            "clusterlaunchcontrol.query_cancel",
        }
    ),
    "Parallel Synchronization and Communication Instructions: mbarrier": frozenset(
        {
            *("Lifecycle of the mbarrier object", "Phase of the mbarrier object"),
            "Tracking asynchronous operations by the mbarrier object",
            "Phase Completion of the mbarrier object",
            "Arrive-on operation on mbarrier object",
        }
    ),
    "Data Movement and Conversion Instructions": frozenset(
        {
            *("shfl.sync", "st.async", "st.bulk", "discard", "Asynchronous copy"),
            *("Async Proxy", "Mbarrier-based mechanism", "Async-group mechanism"),
            *("cp.async", "cp.async.commit_group", "tensormap.replace"),
            *("cp.async.wait_group / cp.async.wait_all", "cp.async.bulk"),
            *("cp.reduce.async.bulk", "cp.async.bulk.tensor"),
            *("cp.reduce.async.bulk.tensor", "cp.async.bulk.commit_group"),
            *("cp.async.bulk.wait_group", "ld.global.nc"),
        }
    ),
    "Miscellaneous Instructions": frozenset({"setmaxnreg", "trap"}),
}
"""By the chapter that a citation names before its colon."""


def unknown(citation: str) -> tuple[str, ...]:
    """Return the parts of a citation that are no title of the PTX ISA."""
    return tuple(part for part in citation.split("; ") if not _is_title(part))


def _is_title(part: str) -> bool:
    chapter, _, section = part.rpartition(": ")
    return section in SECTIONS.get(chapter, ())
