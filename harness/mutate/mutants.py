"""What can be done to a synchronisation: not order, be gone, count wrongly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from sidestream.harness.mutate.sites import SyncSite, sites_of
from sidestream.harness.mutate.splice import built, fresh_register, spliced
from sidestream.harness.ptx import ir

_TX_STEP = 16
_WAITS = ("mbarrier.test_wait", "mbarrier.try_wait")
WEAKEN, DELETE = "weaken", "delete"


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change to one synchronisation.

    Attributes:
        site: The instruction.
        change: `weaken` (it is executed and orders nothing), `delete`, or what is
            counted otherwise.
        step: What is added to the number that it counts; 0 where it is not counted.
    """

    site: SyncSite
    change: str
    step: int = 0

    @property
    def name(self) -> str:
        """Spell the mutant: line, instruction, change."""
        ins = self.site.instruction
        return f"{ins.line} {ins.spelling}: {self.change}"


def mutants_of(
    function: ir.Function,
    *,
    only: frozenset[str] = frozenset(),
    executed: Callable[[int], bool] = lambda index: True,
) -> Iterator[Mutant]:
    """Give every mutant of a kernel, in the order of its text.

    Args:
        function: The decoded kernel.
        only: Classes of `sites.CLASSES` to take, all if empty.
        executed: Tells whether an instruction was executed by its index; one that
            was not says nothing.
    """
    for site in sites_of(function):
        if (only and site.kind not in only) or not executed(site.index):
            continue
        # Nothing is weaker than a relaxed operation.
        relaxed = site.instruction.mods.get("sem") == "relaxed"
        if site.kind not in ("init", "transaction") and not relaxed:
            yield Mutant(site=site, change=WEAKEN)
        if site.kind not in ("order", "init"):  # of an order `weaken` says it
            yield Mutant(site=site, change=DELETE)
        for word, step in _counts(site):
            if _may_count(site.instruction, step):
                change = f"{word} {step:+d}"
                yield Mutant(site=site, change=change, step=step)


def changed(function: ir.Function, mutant: Mutant) -> ir.Function | None:
    """Return the kernel with a mutant's change, or None where its code stays.

    Raises:
        PtxError: the changed instruction has no form.
    """
    site = mutant.site
    old = function.instructions[site.index]
    if mutant.change == WEAKEN:
        return None
    if mutant.step:
        return _counted(function, old, mutant.step)
    passed = old.args.get("p")
    if old.op not in _WAITS or not isinstance(passed, ir.Register):
        return spliced(function, site.index, ())
    # A wait that always succeeds at once.
    zero = ir.Immediate("int", 0)
    return spliced(
        function, site.index, [built(old, "setp.eq.u32", [passed, zero, zero])]
    )


def _counts(site: SyncSite) -> Iterator[tuple[str, int]]:
    """Give what a site counts, and the steps by which it may count wrongly."""
    if site.kind == "init":
        yield from (("count", 1), ("count", -1))
    elif site.kind in ("arrive", "transaction"):
        if "expect_tx" in site.instruction.op:
            yield from (("bytes", -_TX_STEP), ("bytes", _TX_STEP))
    elif site.kind == "group-wait":
        yield "groups", 1


def _number(ins: ir.Instruction) -> tuple[str, ir.Operand] | None:
    """Return the name and value of the argument that an instruction counts with."""
    for name in ("tx", "count"):
        if name in ins.args:
            return name, ins.args[name]
    return None  # cp.async.wait_all counts nothing


def _may_count(ins: ir.Instruction, step: int) -> bool:
    found = _number(ins)
    if found is None:
        return False
    operand = found[1]
    return not isinstance(operand, ir.Immediate) or operand.value + step >= 0


def _counted(function: ir.Function, old: ir.Instruction, step: int) -> ir.Function:
    """The kernel with one of an instruction's numbers changed."""
    found = _number(old)
    assert found is not None
    name, operand = found
    if isinstance(operand, ir.Immediate):
        more: ir.Operand = ir.Immediate("int", operand.value + step)
        new = replace(old, args={**old.args, name: more})
        return spliced(function, old.index, [new])
    register = fresh_register(function, "b32")
    added = built(old, "add.s32", [register, operand, ir.Immediate("int", step)])
    new = replace(old, args={**old.args, name: register})
    return spliced(function, old.index, [added, new], [register])
