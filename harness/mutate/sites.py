"""The synchronisation of a kernel: every instruction that orders something.

Classes follow PTX ISA, Parallel Synchronization and Communication Instructions;
TensorCore 5th Generation Instructions; Data Movement and Conversion Instructions.
"""

from __future__ import annotations

from dataclasses import dataclass

from sidestream.harness.ptx import ir

CLASSES = (
    *("barrier", "warp", "cluster", "arrive", "wait", "init", "transaction"),
    *("fence", "commit", "group-wait", "tensor-wait", "order", "grid"),
)
"""What `--only` may name."""

_BY_WORDS = {
    "bar.warp": "warp",
    "barrier.cluster": "cluster",
    "barrier": "barrier",
    "bar": "barrier",
    "mbarrier.init": "init",
    "mbarrier.arrive": "arrive",
    "mbarrier.arrive_drop": "arrive",
    "mbarrier.expect_tx": "transaction",
    "mbarrier.test_wait": "wait",
    "mbarrier.try_wait": "wait",
    "cp.async.mbarrier.arrive": "arrive",
    "cp.async.commit_group": "commit",
    "cp.async.bulk.commit_group": "commit",
    "tcgen05.commit": "commit",
    "cp.async.wait_group": "group-wait",
    "cp.async.wait_all": "group-wait",
    "cp.async.bulk.wait_group": "group-wait",
    "tcgen05.wait::ld": "tensor-wait",
    "tcgen05.wait::st": "tensor-wait",
    "tcgen05.fence::before_thread_sync": "fence",
    "tcgen05.fence::after_thread_sync": "fence",
    "fence": "fence",
    "griddepcontrol": "grid",
}
_ORDERED = ("acquire", "release", "acq_rel", "sc")


@dataclass(frozen=True, kw_only=True)
class SyncSite:
    """One synchronising instruction.

    Attributes:
        index: Into `Function.instructions`.
        kind: One of `CLASSES`.
        instruction: Itself.
    """

    index: int
    kind: str
    instruction: ir.Instruction


def class_of(ins: ir.Instruction) -> str | None:
    """Return the class of an instruction that orders something, else None."""
    words = ins.op.split(".")
    for n in range(len(words), 0, -1):
        kind = _BY_WORDS.get(".".join(words[:n]))
        if kind is not None:
            return kind
    if words[0] in ("ld", "st", "atom", "red") and ins.mods.get("sem") in _ORDERED:
        return "order"
    return None


def sites_of(function: ir.Function) -> tuple[SyncSite, ...]:
    """Return the synchronisation of a function in the order of its text."""
    found = []
    for index, ins in enumerate(function.instructions):
        kind = class_of(ins)
        if kind is not None:
            found.append(SyncSite(index=index, kind=kind, instruction=ins))
    return tuple(found)
