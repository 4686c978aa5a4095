"""Where an instruction has to wait for the registers of a `tcgen05.ld` in flight.

A load from tensor memory writes its registers when it lands, at the latest at
`tcgen05.wait::ld`, or at the first instruction that touches one of them: the hardware
keeps a scoreboard, and shipping kernels rely on it (PTX ISA, Memory Consistency Model
for 5th generation of TensorCore operations: a true register dependency is respected
whatever else synchronises). The bytecode has no scoreboard, so a row that waits goes
before every instruction that may come to such a register with the load still pending.

Registers share rows (`registers.share_rows`), so that it is rows that count, and a
write counts like a read: it must not be overwritten by a load that lands later.

The rows also tell where a register of a load is read for the first time
(`first_reads`): from there on the load is over on the chip.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from sidestream.harness.exec.first_reads import first_reads, outlived
from sidestream.harness.exec.lower.builder import Ref, Row
from sidestream.harness.exec.registers import blocks_of, successors
from sidestream.harness.ptx import ir

OPERATION = "tcgen05.scoreboard"


def _union(references: Iterable[Ref | int | None]) -> int:
    """Bit mask of the 32-bit register rows among the references."""
    bits = 0
    for ref in references:
        if isinstance(ref, Ref) and ref.kind == "reg" and ref.width == 32:
            bits |= 1 << ref.index
    return bits


def _touched(rows: Iterable[Row]) -> int:
    return _union(ref for r in rows for ref in (r.d, r.a, r.b, r.c, *r.x, *r.ext))


@dataclass(frozen=True, slots=True)
class _Loads:
    """The loads of a function: sets of them are bit masks over `numbers`."""

    touched: tuple[int, ...]
    """Per instruction, bits of the rows it touches."""
    numbers: dict[int, int]
    """Bit of each load, by its instruction's index."""
    written: tuple[int, ...]
    """Per load, bits of the rows it writes."""
    cleared: frozenset[int]
    """Indices of the instructions that wait for every load."""

    def waits(self, pending: int, index: int) -> int:
        """The pending loads that instruction `index` has to see landed."""
        touched = self.touched[index]
        found, left = 0, pending if touched else 0
        while left:
            low = left & -left
            left ^= low
            if self.written[low.bit_length() - 1] & touched:
                found |= low
        return found

    def after(self, pending: int, index: int) -> int:
        """What may be pending behind instruction `index`."""
        if index in self.cleared:
            return 0
        pending &= ~self.waits(pending, index)
        number = self.numbers.get(index)
        return pending if number is None else pending | 1 << number


def _loads_of(
    function: ir.Function, rows: Sequence[Row], start: Sequence[int]
) -> _Loads:
    instructions = function.instructions
    touched = tuple(
        _touched(rows[start[k] : start[k + 1]]) for k in range(len(instructions))
    )
    numbers: dict[int, int] = {}
    written: list[int] = []
    for ins in instructions:
        issued = rows[start[ins.index] : start[ins.index + 1]]
        loads = [r for r in issued if r.op == "tcgen05.ld"]
        if loads:
            numbers[ins.index] = len(written)
            written.append(_union(r for row in loads for r in (row.c, *row.ext)))
    return _Loads(
        touched=touched,
        numbers=numbers,
        written=tuple(written),
        cleared=frozenset(
            i.index
            for i in instructions
            if i.op == "tcgen05.wait::ld" and i.guard is None
        ),
    )


def _before(function: ir.Function, after: Callable[[int, int], int]) -> list[int]:
    """Per instruction, the loads that may be in a state when it is reached."""
    blocks = blocks_of(function)
    number = {begin: k for k, (begin, _) in enumerate(blocks)}
    at = [0] * len(blocks)
    todo = set(range(len(blocks)))
    while todo:
        k = todo.pop()
        begin, end = blocks[k]
        state = at[k]
        for index in range(begin, end):
            state = after(state, index)
        for target in successors(function, end - 1):
            successor = number.get(target)
            if successor is not None and state & ~at[successor]:
                at[successor] |= state
                todo.add(successor)
    before = [0] * len(function.instructions)
    for (begin, end), entry in zip(blocks, at, strict=True):
        state = entry
        for index in range(begin, end):
            before[index] = state
            state = after(state, index)
    return before


def guard_loads(
    function: ir.Function,
    rows: list[Row],
    start: list[int],
    past: Collection[int] = (),
) -> tuple[list[Row], list[int]]:
    """Put the rows that wait for loads in front of those that need them.

    Args:
        function: The decoded kernel.
        rows: Its bytecode rows.
        start: First row of each instruction, and of the row behind the last one.
        past: Waits, by index, behind which a first read is told all the same: whether
            it orders what the wait does can be asked only if both are there.

    Returns:
        Rows and starts with the waiting rows in them. A branch to an instruction
        reaches its waiting row first.
    """
    loads = _loads_of(function, rows, start)
    if not loads.numbers:
        return rows, start
    by_bit = {bit: index for index, bit in loads.numbers.items()}
    out: list[Row] = []
    begins: list[int] = []
    pending = _before(function, loads.after)
    cleared = loads.cleared.difference(past)
    first = first_reads(function, loads.numbers, cleared)
    unread = _before(function, first.after)
    if again := outlived(first, unread):
        first = first_reads(function, loads.numbers, cleared, moves_read=again)
        unread = _before(function, first.after)
    for index in range(len(function.instructions)):
        begins.append(len(out))
        if index not in loads.cleared:
            read = first.loads(unread[index], index)
            needed = _bits(loads.waits(pending[index], index))
            awaited = [*read, *(by_bit[b] for b in needed if by_bit[b] not in read)]
            if awaited:
                out.append(_row(index, awaited, len(read)))
        out += rows[start[index] : start[index + 1]]
    begins.append(len(out))
    return out + rows[start[-1] :], begins


def _bits(mask: int) -> list[int]:
    return [b for b in range(mask.bit_length()) if mask >> b & 1]


def _row(index: int, awaited: Sequence[int], read: int) -> Row:
    """A row that waits for the loads issued by instructions `awaited`.

    Of the first `read` of them the instruction reads a register, the first time.
    """
    return Row(
        op=OPERATION,
        pc_of=index,
        guard=None,
        guard_neg=False,
        d=None,
        a=None,
        b=None,
        c=None,
        x=(0, 0, 0, 0),
        ext=tuple(awaited),
        imm=read,
    )
