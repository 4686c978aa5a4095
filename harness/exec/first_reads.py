"""Where a register that a `tcgen05.ld` gave is read for the first time.

From there on the load is over on the chip, whether or not anyone waited for it: the
hardware holds an instruction back until its sources have arrived. A `mov` that copies,
packs or unpacks a register is no such instruction, for the assembler may make a choice
of registers of it. It hands on what it moves, and who reads the copy reads the load.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from sidestream.harness.exec.lower.builder import WIDTHS
from sidestream.harness.exec.lower.checks import bits
from sidestream.harness.exec.registers import MOVES, reads, registers_of
from sidestream.harness.ptx import ir

Part = tuple[int, int]
"""32 bits of a register, or all of a narrow one: its id and which of them."""


@dataclass(frozen=True, slots=True)
class FirstReads:
    """What the loads of a function gave: a bit for each part that may hold it.

    Copies that outlive the next issue of their load are not told from copies of that:
    a move of such a load counts as a read (`outlived`).
    """

    of_load: dict[int, int]
    """Bits of a load, by its instruction's index."""
    given: dict[int, int]
    """Those of them that the instruction itself sets."""
    read: tuple[int, ...]
    """Per instruction, bits of what it reads."""
    moved: dict[int, tuple[tuple[int, int], ...]]
    """Bits of the source and of the destination of what an instruction moves."""
    written: tuple[int, ...]
    """Per instruction, bits of what it surely gives another value."""
    cleared: Collection[int]
    """Indices of the instructions that wait for every load."""

    def loads(self, unread: int, index: int) -> list[int]:
        """Loads of which instruction `index` reads a register that nothing read yet."""
        hit = unread & self.read[index]
        return [k for k, of in self.of_load.items() if of & hit] if hit else []

    def after(self, unread: int, index: int) -> int:
        """What may hold a load's result behind `index`, when none of it has been read.

        Args:
            unread: The same in front of the instruction.
            index: Of an instruction of the function.
        """
        if index in self.cleared:
            return 0
        for k in self.loads(unread, index):
            unread &= ~self.of_load[k]
        gained = self.given.get(index, 0)
        for source, destination in self.moved.get(index, ()):
            if unread & source:
                gained |= destination
        return unread & ~self.written[index] | gained


def _parts(register: ir.Register) -> list[Part]:
    return [(register.id, k) for k in range(max(1, WIDTHS.get(register.type, 0) // 32))]


def _moves(ins: ir.Instruction) -> Iterator[tuple[Part, Part]]:
    """Parts that a `mov` brings from one register to another."""
    size = bits(ins.mods["type"])
    sides = ("d", "a") if ins.op == "mov.unpack" else ("a", "d")
    vector, whole = (ins.args[name] for name in sides)
    elements = vector.elements if isinstance(vector, ir.Vector) else (vector,)
    each = size // len(elements)
    for number, element in enumerate(elements):
        if not (isinstance(element, ir.Register) and isinstance(whole, ir.Register)):
            continue
        first = number * each // 32
        pairs = zip(_parts(element), _parts(whole)[first:], strict=False)
        for of_element, of_whole in pairs:
            if ins.op == "mov.unpack":
                yield of_whole, of_element
            else:
                yield of_element, of_whole


def outlived(first: FirstReads, unread: Collection[int]) -> frozenset[int]:
    """Return the loads that are issued again while a copy of their registers is unread.

    Args:
        first: Of the function.
        unread: Per instruction, what may hold a result that nothing read, in front.
    """
    before = list(unread)
    return frozenset(
        load
        for load, of in first.of_load.items()
        if before[load] & of & ~first.given.get(load, 0)
    )


def first_reads(
    function: ir.Function,
    loads: Collection[int],
    cleared: Collection[int],
    *,
    moves_read: Collection[int] = (),
) -> FirstReads:
    """Find what each instruction does to the registers that loads give.

    Args:
        function: The decoded kernel.
        loads: Indices of its `tcgen05.ld`.
        cleared: Indices of the instructions that wait for every load.
        moves_read: Loads of which a move counts as a read.
    """
    instructions = function.instructions
    moves = {
        i.index: tuple(_moves(i))
        for i in instructions
        if i.op in MOVES
        and "type" in i.mods  # or it was not understood, and is refused
    }
    onward: dict[Part, list[Part]] = {}
    for pairs in moves.values():
        for source, destination in pairs:
            onward.setdefault(source, []).append(destination)
    holds: dict[Part, dict[int, int]] = {}
    of_load: dict[int, int] = {}
    given: dict[int, int] = {}
    bit = 1
    for index in loads:
        todo = [
            part
            for name in ("d", "t")
            for register in registers_of(instructions[index], name)
            for part in _parts(register)
        ]
        own = set(todo)
        while todo:
            part = todo.pop()
            if index in holds.setdefault(part, {}):
                continue
            holds[part][index] = bit
            of_load[index] = of_load.get(index, 0) | bit
            if part in own:
                given[index] = given.get(index, 0) | bit
            bit <<= 1
            if index not in moves_read:
                todo += onward.get(part, ())

    def union(registers: Iterator[ir.Register]) -> int:
        found = 0
        for register in registers:
            for part in _parts(register):
                for bit in holds.get(part, {}).values():
                    found |= bit
        return found

    by_moves = 0
    for index in moves_read:
        by_moves |= of_load.get(index, 0)

    def reads_by(ins: ir.Instruction) -> int:
        if ins.index in of_load:
            return 0
        return union(reads(ins)) & (by_moves if ins.index in moves else ~0)

    return FirstReads(
        of_load=of_load,
        given=given,
        read=tuple(map(reads_by, instructions)),
        moved={
            index: found
            for index, pairs in moves.items()
            if (found := tuple(_handed(holds, pairs)))
        },
        written=tuple(
            union(r for name in ("d", "t", "p", "q") for r in registers_of(i, name))
            if i.guard is None
            else 0
            for i in instructions
        ),
        cleared=cleared,
    )


def _handed(
    holds: dict[Part, dict[int, int]], pairs: tuple[tuple[Part, Part], ...]
) -> Iterator[tuple[int, int]]:
    """Bits of the source and of the destination, for each load that may be moved."""
    for source, destination in pairs:
        for load, bit in holds.get(source, {}).items():
            if load in holds.get(destination, {}):
                yield bit, holds[destination][load]
