"""The rule behind every fault of the execution core, and what would put it right.

Titles are those of PTX ISA sections; numbers differ between its versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sidestream.harness.finding import Rule


@dataclass(frozen=True, kw_only=True)
class FaultRule:
    """How one kind of fault is told.

    Attributes:
        kind: Kind of the finding.
        rule: What is broken.
        what: The deed, to be followed by where.
        need: What would put it right.
    """

    kind: str
    rule: Rule
    what: str
    need: str


def _rule(
    kind: str, identifier: str, title: str, what: str, need: str = ""
) -> FaultRule:
    return FaultRule(
        kind=kind, rule=Rule(id=identifier, title=title), what=what, need=need
    )


_BOUND = "a bound on the index, or a predicate that switches the access off"
_GLOBAL, _SHARED = "Global State Space", "Shared State Space"
_ALIGNED = "Addresses as Operands"

FAULTS: Mapping[str, FaultRule] = {
    "oob-read": _rule(
        "out-of-bounds",
        "gmem.bounds",
        _GLOBAL,
        "reads outside every allocation",
        _BOUND,
    ),
    "oob-write": _rule(
        "out-of-bounds",
        "gmem.bounds",
        _GLOBAL,
        "writes outside every allocation",
        _BOUND,
    ),
    "misaligned": _rule(
        "misaligned",
        "gmem.align",
        _ALIGNED,
        "accesses a misaligned address",
        "an address that is a multiple of the access size, or a narrower access",
    ),
    "freed": _rule(
        "use-after-free",
        "gmem.lifetime",
        _GLOBAL,
        "accesses freed memory",
        "an allocation that lives until the kernel has ended",
    ),
    "readonly": _rule(
        "stray-write",
        "gmem.readonly",
        "Execute writes its outputs and its workspace only",
        "writes an input",
        "a store that goes to an output or to the workspace",
    ),
    "uninit": _rule(
        "uninit-read",
        "gmem.init",
        "Scratch and outputs hold anything before they are written",
        "reads bytes that nothing has written",
        "a write of these bytes that is ordered before the read",
    ),
    "smem-oob": _rule(
        "out-of-bounds",
        "smem.bounds",
        _SHARED,
        "accesses shared memory outside the CTA's",
        _BOUND,
    ),
    "smem-misaligned": _rule(
        "misaligned",
        "smem.align",
        _ALIGNED,
        "accesses a misaligned shared address",
        "an address that is a multiple of the access size, or a narrower access",
    ),
    "local-oob": _rule(
        "out-of-bounds",
        "local.bounds",
        "Local State Space",
        "accesses local memory outside the thread's",
        _BOUND,
    ),
    "param-oob": _rule(
        "out-of-bounds",
        "param.bounds",
        "Kernel Function Parameters",
        "reads past the kernel's parameters",
        "an offset inside the declared parameters",
    ),
    "mbarrier": _rule(
        "mbarrier",
        "mbarrier.state",
        "Parallel Synchronization and Communication Instructions: mbarrier",
        "breaks the protocol of an mbarrier",
    ),
    "named-barrier": _rule(
        "barrier",
        "barrier.cta",
        "Parallel Synchronization and Communication Instructions: bar, barrier",
        "breaks the protocol of a named barrier",
        "one thread count, a multiple of the warp size, at every use of the barrier",
    ),
    "tensormap": _rule(
        "tensormap",
        "tensormap.valid",
        "Tensor-map",
        "uses a tensor map that is not valid",
        "a map whose fields fit the instruction and the memory it names",
    ),
    "bulk": _rule(
        "misaligned",
        "bulk.size",
        "Data Movement and Conversion Instructions: cp.async.bulk",
        "copies with a size or an address that bulk copies do not allow",
        "a size that is a multiple of 16 bytes, and 16-byte aligned addresses",
    ),
    "setmaxnreg": _rule(
        "contract",
        "setmaxnreg.count",
        "Miscellaneous Instructions: setmaxnreg",
        "asks for a register count that is not allowed here",
        "24 to 256 in steps of 8, raised by inc only and lowered by dec only",
    ),
    "trap": _rule(
        "contract",
        "trap",
        "Miscellaneous Instructions: trap",
        "executes a trap",
        "the condition that guards the trap to stay false",
    ),
    "illegal": _rule(
        "contract",
        "operand.range",
        "Instruction Operands",
        "has an operand value that the instruction does not allow",
    ),
    "tmem-alloc": _rule(
        "tmem-alloc",
        "tmem.alloc",
        "TensorCore 5th Generation Instructions: "
        "tcgen05.alloc, tcgen05.dealloc, tcgen05.relinquish_alloc_permit",
        "breaks the rules of tensor memory allocation",
    ),
    "tmem": _rule(
        "out-of-bounds",
        "tmem.access",
        "Tensor Memory; Access restrictions",
        "accesses tensor memory that it may not",
    ),
    "tmem-uninit": _rule(
        "uninit-read",
        "tmem.init",
        "Tensor Memory",
        "reads tensor memory that nothing has written",
    ),
    "smem-uninit": _rule(
        "uninit-read",
        "smem.init",
        _SHARED,
        "reads shared memory that nothing has written",
        "a write of these bytes by the launch, ordered before the read",
    ),
    "register-uninit": _rule(
        "uninit-read",
        "register.init",
        "Register State Space",
        "reads a register that nothing has written",
        "a write of the register on every path to the read",
    ),
    "tcgen05": _rule(
        "contract",
        "tcgen05.operand",
        "TensorCore 5th Generation Family Instructions",
        "has a descriptor or an operand that the instruction does not allow",
    ),
    "cluster": _rule(
        "contract",
        "cluster.peer",
        "Cluster of Cooperative Thread Arrays; CTA Pair",
        "uses another CTA of its cluster in a way that is not allowed",
    ),
    "clc": _rule(
        "contract",
        "clusterlaunchcontrol",
        "Parallel Synchronization and Communication Instructions: "
        "clusterlaunchcontrol.try_cancel; "
        "Parallel Synchronization and Communication Instructions: "
        "clusterlaunchcontrol.query_cancel",
        "breaks the protocol of cluster launch control",
    ),
}
"""By the fault's name in `sidestream.harness.exec.abi.FAULT_KINDS`, and what the race
detector tells as a fault."""

DEADLOCK = Rule(
    id="progress",
    title="Every wait ends: each phase gets the arrivals and bytes it expects",
)
DIVERGENT = Rule(
    id="warp.convergence",
    title="Threads of a warp execute the same .sync instruction of a membermask",
)
