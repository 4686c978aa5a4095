"""What a launch executed and the race detector does not model: told, never passed over.

Every instruction that can be executed is of one of three sorts: it touches no memory
that others see and orders nothing; the detector hears of it; or it is in `UNMODELLED`,
and a launch that executed it is not judged. An instruction of none of the three, of a
new family say, is not judged either.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from sidestream.harness.exec.lower import (
    arithmetic,
    compare,
    control,
    convert,
    integer,
    logic,
    mma,
    move,
)
from sidestream.harness.exec.program import Program
from sidestream.harness.ptx import ir

PROFILES = ("practice", "isa")


@dataclass(frozen=True, kw_only=True)
class Unmodelled:
    """An effect that the detector does not know.

    Attributes:
        ops: Operations that have it.
        what: What of them is not known.
        profiles: Under which it matters.
        when: Tells by the instruction, where not all forms have the effect.
    """

    ops: tuple[str, ...]
    what: str
    profiles: tuple[str, ...] = PROFILES
    when: Callable[[ir.Instruction], bool] = lambda ins: True


@dataclass(frozen=True, kw_only=True)
class Unjudged:
    """One executed instruction that could not be judged.

    Attributes:
        reason: Names the instruction and what of it is not modelled.
        line: Of the PTX text.
    """

    reason: str
    line: int


UNMODELLED: tuple[Unmodelled, ...] = (
    Unmodelled(
        ops=("fence.sync_restrict", "fence.proxy"),
        what="a fence of one direction for the memory of one state space",
        when=lambda ins: "sync_restrict" in ins.mods,
    ),
)
"""Take a row out once the detector models it; `MODELLED` has its operations by then."""

MODELLED = frozenset(
    {
        *("ld", "ldu", "st", "st.bulk", "discard", "ldmatrix", "stmatrix"),
        *("atom", "red", "st.async", "red.async"),
        *("cp.async", "cp.async.commit_group", "cp.async.mbarrier.arrive"),
        *("cp.async.wait_all", "cp.async.wait_group"),
        *("cp.async.bulk", "cp.async.bulk.commit_group", "cp.async.bulk.wait_group"),
        *("cp.async.bulk.tensor", "cp.reduce.async.bulk"),
        "cp.reduce.async.bulk.tensor",
        *("bar.warp.sync", "barrier.sync", "barrier.arrive", "barrier.red"),
        *("barrier.cluster.arrive", "barrier.cluster.wait"),
        *("mbarrier.init", "mbarrier.inval", "mbarrier.pending_count"),
        *("mbarrier.expect_tx", "mbarrier.complete_tx"),
        *("mbarrier.arrive", "mbarrier.arrive.expect_tx", "mbarrier.arrive.noComplete"),
        *("mbarrier.arrive_drop", "mbarrier.arrive_drop.expect_tx"),
        *("mbarrier.arrive_drop.noComplete", "mbarrier.test_wait", "mbarrier.try_wait"),
        *("fence", "fence.mbarrier_init", "fence.proxy", "fence.sync_restrict"),
        *("tensormap.replace", "tensormap.cp_fenceproxy"),
        *("clusterlaunchcontrol.try_cancel", "clusterlaunchcontrol.query_cancel"),
        *("griddepcontrol.launch_dependents", "griddepcontrol.wait"),
        *("tcgen05.alloc", "tcgen05.dealloc", "tcgen05.relinquish_alloc_permit"),
        *("tcgen05.ld", "tcgen05.ld.red", "tcgen05.st", "tcgen05.cp", "tcgen05.shift"),
        *("tcgen05.mma", "tcgen05.mma.ws", "tcgen05.commit"),
        *("tcgen05.wait::ld", "tcgen05.wait::st"),
        "tcgen05.fence::before_thread_sync",
        "tcgen05.fence::after_thread_sync",
    }
)
"""Operations whose accesses and order the detector knows, but for `UNMODELLED`."""

EFFECTLESS = frozenset(
    {
        *(op for family in (arithmetic, compare, convert) for op in family.FAMILY),
        *(op for family in (integer, logic, mma, move) for op in family.FAMILY),
        *control.FAMILY,
        *("mapa", "getctarank", "movmatrix", "setmaxnreg"),
        # These wait for lanes and order no memory.
        *("activemask", "elect.sync", "match.sync", "redux.sync", "shfl.sync"),
        "vote.sync",
        # Caches and their hints.
        *("applypriority", "createpolicy.cvt", "createpolicy.fractional"),
        *("createpolicy.range", "prefetch", "prefetchu", "prefetch.tensormap"),
        *("cp.async.bulk.prefetch", "cp.async.bulk.prefetch.tensor"),
    }
)
"""Operations without an access that others see and without an order of memory."""


def unjudged(
    program: Program, executed: Collection[int], profile: str
) -> tuple[Unjudged, ...]:
    """Return what was executed and is not modelled, each effect once.

    Args:
        program: The launch's kernel.
        executed: Indices of its instructions that were executed.
        profile: `practice` or `isa`.
    """
    found: dict[str, Unjudged] = {}
    # Most operations can be judged in all of their forms.
    listed = {op for row in UNMODELLED for op in row.ops}
    judged = (MODELLED | EFFECTLESS) - listed
    for index in sorted(executed):
        if index < 0:
            continue
        ins = program.function.instructions[index]
        if ins.op in judged:
            continue
        for what in _unmodelled(ins, profile):
            reason = f"the race check does not model {what} ({ins.spelling})"
            found.setdefault(what, Unjudged(reason=reason, line=ins.line))
    return tuple(found.values())


def _unmodelled(ins: ir.Instruction, profile: str) -> list[str]:
    found = [
        row.what
        for row in UNMODELLED
        if profile in row.profiles and ins.op in row.ops and row.when(ins)
    ]
    if ins.op not in MODELLED and ins.op not in EFFECTLESS:
        found.append(ins.op)
    return found
