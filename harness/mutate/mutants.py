"""What can be done to a synchronisation: not order, be gone, count wrongly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sidestream.harness.mutate.sites import SyncSite, sites_of
from sidestream.harness.mutate.text import instruction_at, replaced
from sidestream.harness.ptx import ir, syntax
from sidestream.harness.ptx.printer import print_instruction

_TX_STEP = 16
_WAITS = ("mbarrier.test_wait", "mbarrier.try_wait")


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change to one synchronisation.

    Attributes:
        site: The instruction.
        change: `weaken` (it is executed and orders nothing), `delete`, or what is
            counted otherwise.
        text: The whole module with the change, or None where the text stays.
    """

    site: SyncSite
    change: str
    text: str | None

    @property
    def name(self) -> str:
        """Spell the mutant: line, instruction, change."""
        ins = self.site.instruction
        return f"{ins.line} {ins.spelling}: {self.change}"


def mutants_of(
    module: syntax.Module,
    function: ir.Function,
    *,
    only: frozenset[str] = frozenset(),
    executed: Callable[[int], bool] = lambda index: True,
) -> Iterator[Mutant]:
    """Give every mutant of a kernel, in the order of its text.

    Args:
        module: The parsed text.
        function: The kernel, decoded from it.
        only: Classes of `sites.CLASSES` to take, all if empty.
        executed: Tells whether an instruction was executed by its index; one that
            was not says nothing.
    """
    for site in sites_of(function):
        if (only and site.kind not in only) or not executed(site.index):
            continue
        if site.kind not in ("init", "transaction"):
            yield Mutant(site=site, change="weaken", text=None)
        for change, text in _changes(module, function.name, site):
            new = replaced(module, function.name, site.index, text)
            yield Mutant(site=site, change=change, text=new)


def _changes(
    module: syntax.Module, kernel: str, site: SyncSite
) -> Iterator[tuple[str, str]]:
    """Give changes of the text of one site, as what stands in its place."""
    old = instruction_at(module, kernel, site.index)
    spelt = print_instruction(old)
    op = site.instruction.op
    if site.kind == "order":
        return  # weaken says it
    if site.kind == "wait" and op in _WAITS:
        yield "delete", _passes(old)
    elif site.kind != "init":
        yield "delete", ""
    if site.kind == "init":
        yield from _counted(spelt, old, -1, (1, -1), "count {:+d}")
    elif site.kind in ("arrive", "transaction") and "expect_tx" in op:
        yield from _counted(spelt, old, -1, (-_TX_STEP, _TX_STEP), "bytes {:+d}")
    elif site.kind == "group-wait":  # cp.async.wait_all counts nothing
        yield from _counted(spelt, old, -1, (1,), "groups {:+d}")


def _passes(old: syntax.InstructionSyntax) -> str:
    """A wait that always succeeds at once."""
    guard = old.guard
    before = "" if guard is None else f"@{'!' if guard.negated else ''}{guard.name} "
    first = old.operands[0]
    name = first.text if isinstance(first, syntax.Name) else "_"
    return f"{before}setp.eq.u32 {name}, 0, 0;"


def _counted(
    spelt: str,
    old: syntax.InstructionSyntax,
    position: int,
    steps: tuple[int, ...],
    change: str,
) -> Iterator[tuple[str, str]]:
    """The instruction with one of its numbers changed, literal or register."""
    if not old.operands:
        return
    operand = old.operands[position]
    for step in steps:
        if isinstance(operand, syntax.Number):
            value = int(operand.text, 0) + step
            if value < 0:
                continue
            new = spelt[: spelt.rindex(operand.text)] + f"{value};"
            yield change.format(step), new
        elif isinstance(operand, syntax.Name) and operand.text.startswith("%"):
            head = spelt[: spelt.rindex(operand.text)]
            yield (
                change.format(step),
                f"{{ .reg .b32 %sidestream_count; "
                f"add.s32 %sidestream_count, {operand.text}, {step}; "
                f"{head}%sidestream_count; }}",
            )
