"""Registers that may be read before anything has written them.

PTX gives a register no initial value, and `setmaxnreg.inc` none to those that it adds.
Registers of PTX are virtual, so that either shows as an instruction which some path
reaches without a write of a register that it reads. Paths are those of the text:
whether one is taken is for who executes it to see.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sidestream.harness.exec.registers import blocks_of, registers_of, successors
from sidestream.harness.ptx import ir


@dataclass(frozen=True, kw_only=True)
class Undefined:
    """Where registers that may be undefined are read and written.

    Attributes:
        registers: Their ids, in order.
        reads: Registers that an instruction reads, its guard left out, by its index.
        guards: The register that guards it.
        writes: Registers that it writes.
    """

    registers: tuple[int, ...]
    reads: Mapping[int, tuple[int, ...]]
    guards: Mapping[int, tuple[int, ...]]
    writes: Mapping[int, tuple[int, ...]]


def _bits(registers: set[int]) -> int:
    bits = 0
    for register in registers:
        bits |= 1 << register
    return bits


def _written_by(ins: ir.Instruction) -> set[int]:
    return {r.id for name in ins.writes for r in registers_of(ins, name)}


def _read_by(ins: ir.Instruction) -> set[int]:
    """Registers that an instruction reads, its guard left out."""
    return {
        register.id
        for name in ins.args
        if name not in ins.writes
        for register in registers_of(ins, name)
    }


class _Block:
    """What may be undefined along the instructions of one block."""

    def __init__(self, state: int) -> None:
        self.state = state
        self._under: dict[int, tuple[int, bool]] = {}
        """Registers written by guarded instructions, with the guard as it still is."""

    def wrong(self, ins: ir.Instruction) -> int:
        """Registers that may be undefined where an instruction reads them."""
        wrong = _bits(_read_by(ins)) & self.state
        if ins.guard is not None:
            for register, guard in self._under.items():
                if guard == (ins.guard.id, ins.guard_negated):
                    wrong &= ~(1 << register)
            wrong |= self.state & (1 << ins.guard.id)
        return wrong

    def step(self, ins: ir.Instruction, written: set[int]) -> None:
        """Go past an instruction."""
        for register in written:
            self._under = {r: g for r, g in self._under.items() if g[0] != register}
        if ins.guard is None:
            self.state &= ~_bits(written)
        elif ins.guard.id not in written:
            under = (ins.guard.id, ins.guard_negated)
            self._under |= dict.fromkeys(written, under)


def undefined_in(function: ir.Function) -> Undefined:
    """Find registers that some path of a function reads before it writes them."""
    instructions = function.instructions
    written = [_written_by(ins) for ins in instructions]
    blocks = blocks_of(function)
    number = {start: k for k, (start, _) in enumerate(blocks)}
    sure = []
    for start, end in blocks:
        sets = [written[k] for k in range(start, end) if instructions[k].guard is None]
        sure.append(_bits(set().union(*sets)))
    entry: dict[int, int] = {}
    if blocks:
        entry[0] = _bits({register.id for register in function.registers})
    todo = list(entry)
    while todo:
        k = todo.pop()
        state = entry[k] & ~sure[k]
        for start in successors(function, blocks[k][1] - 1):
            after = number.get(start)
            if after is None:
                continue
            known = entry.get(after)
            if known is None or state & ~known:
                entry[after] = state | (known or 0)
                todo.append(after)
    found = 0
    for k, state in entry.items():
        block = _Block(state)
        for index in range(*blocks[k]):
            ins = instructions[index]
            if block.state:
                found |= block.wrong(ins)
            block.step(ins, written[index])
    return _placed(function, found, written)


def _placed(function: ir.Function, found: int, written: list[set[int]]) -> Undefined:
    registers = tuple(k for k in range(found.bit_length()) if found >> k & 1)
    wanted = set(registers)
    reading: dict[int, tuple[int, ...]] = {}
    guards: dict[int, tuple[int, ...]] = {}
    writes: dict[int, tuple[int, ...]] = {}
    for ins in function.instructions if wanted else ():
        if ins.guard is not None and ins.guard.id in wanted:
            guards[ins.index] = (ins.guard.id,)
        read = wanted & _read_by(ins)
        if read:
            reading[ins.index] = tuple(sorted(read))
        if wanted & written[ins.index]:
            writes[ins.index] = tuple(sorted(wanted & written[ins.index]))
    return Undefined(registers=registers, reads=reading, guards=guards, writes=writes)
