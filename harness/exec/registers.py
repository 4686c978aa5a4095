"""Share register rows between virtual registers that are never alive together.

PTX has a register per value; a compiled attention kernel names thousands. Giving
each its own row makes the register file of a warp several hundred KiB and every
access a cache miss. Liveness over the control-flow graph and a linear scan bring it
down to what is alive at once.

The analysis is per lane and so holds under divergence: two registers share a row only
if no lane's path ever needs both, and a lane owns its own column of the row.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from sidestream.harness.ptx import ir

MOVES = frozenset({"mov", "mov.pack", "mov.unpack"})
"""Instructions that the assembler turns into a choice of registers; they are free."""

_DESTINATIONS = frozenset({"d", "p", "q"})


def _registers(operand: ir.Operand) -> Iterator[ir.Register]:
    match operand:
        case ir.Register():
            yield operand
        case ir.Negated():
            yield operand.register
        case ir.Vector():
            for element in operand.elements:
                yield from _registers(element)
        case ir.Pair():
            yield from _registers(operand.first)
            yield from _registers(operand.second)
        case ir.Address():
            yield from _registers(operand.base)
        case ir.TensorAddress():
            yield from _registers(operand.map)
            for coord in operand.coords:
                yield from _registers(coord)


def registers_of(ins: ir.Instruction, name: str) -> Iterator[ir.Register]:
    """Registers in an argument of an instruction; none without the argument."""
    if name in ins.args:
        yield from _registers(ins.args[name])


def reads(ins: ir.Instruction) -> Iterator[ir.Register]:
    """Registers whose value an instruction needs, its guard included."""
    for name, operand in ins.args.items():
        if name not in _DESTINATIONS or isinstance(operand, ir.Address):
            yield from _registers(operand)
    if ins.guard is not None:
        yield ins.guard


def _uses(ins: ir.Instruction) -> tuple[int, int]:
    """Bit sets of registers read and of registers surely overwritten.

    A guarded write leaves the old value in the lanes that skip it, so it counts as a
    read too, and so does any operand not known to be a plain destination.
    """
    read = written = 0
    sure = ins.guard is None and ins.known
    for name, operand in ins.args.items():
        for reg in _registers(operand):
            bit = 1 << reg.id
            if name in _DESTINATIONS and not isinstance(operand, ir.Address):
                written |= bit
                if not sure:
                    read |= bit
            else:
                read |= bit
    if ins.guard is not None:
        read |= 1 << ins.guard.id
    return read, written


def successors(function: ir.Function, index: int) -> list[int]:
    """Indices that may be executed next; one past the last one is the exit."""
    ins = function.instructions[index]
    after = [index + 1] if index + 1 < len(function.instructions) else []
    if ins.op in ("ret", "exit", "trap") and ins.guard is None:
        return []
    targets = []
    for operand in ins.args.values():
        each = operand.elements if isinstance(operand, ir.Vector) else (operand,)
        targets += [label.target for label in each if isinstance(label, ir.Label)]
    if ins.op in ("bra", "brx.idx") and ins.guard is None:
        return targets
    return after + targets


def blocks_of(function: ir.Function) -> list[tuple[int, int]]:
    """Half-open ranges of instructions with one entry and one exit."""
    count = len(function.instructions)
    leaders = {0}
    for index, ins in enumerate(function.instructions):
        ends = ins.op in ("bra", "brx.idx", "ret", "exit", "trap")
        if ends:
            leaders.add(index + 1)
            leaders.update(successors(function, index))
    ordered = sorted(k for k in leaders if k < count)
    return list(zip(ordered, [*ordered[1:], count], strict=True))


def live_ranges(function: ir.Function) -> dict[int, tuple[int, int]]:
    """First and last instruction index at which each register's row is needed.

    Registers that are never read or written are left out.
    """
    if not function.instructions:
        return {}
    blocks = blocks_of(function)
    number = {start: k for k, (start, _) in enumerate(blocks)}
    uses = [_uses(i) for i in function.instructions]
    gen, kill, succ = [], [], []
    for start, end in blocks:
        g = k = 0
        for read, written in uses[start:end]:
            g |= read & ~k
            k |= written & ~read
        gen.append(g)
        kill.append(k)
        after = successors(function, end - 1)
        # A label may stand behind the last instruction: branching there exits.
        succ.append([number[s] for s in after if s in number])
    live_in = [0] * len(blocks)
    live_out = [0] * len(blocks)
    changed = True
    while changed:
        changed = False
        for b in reversed(range(len(blocks))):
            out = 0
            for s in succ[b]:
                out |= live_in[s]
            new = gen[b] | (out & ~kill[b])
            if new != live_in[b] or out != live_out[b]:
                live_in[b], live_out[b] = new, out
                changed = True
    ranges: dict[int, tuple[int, int]] = {}

    def touch(bits: int, at: int) -> None:
        while bits:
            low = bits & -bits
            bits ^= low
            reg = low.bit_length() - 1
            first, last = ranges.get(reg, (at, at))
            ranges[reg] = (min(first, at), max(last, at))

    for b, (start, end) in enumerate(blocks):
        touch(live_in[b], start)
        touch(live_out[b], end - 1)
        for k in range(start, end):
            read, written = uses[k]
            touch(read | written, k)
    return ranges


def share_rows(function: ir.Function) -> dict[int, int]:
    """Row number of every used register, counted per register width.

    Two registers get the same number only if their live ranges are apart. An
    instruction's destination never shares a row with its sources unless it is the
    same register, since handlers may write a result before reading the last source.
    """
    from sidestream.harness.exec.lower.builder import WIDTHS

    width = {r.id: WIDTHS.get(r.type, 0) for r in function.registers}
    order = sorted(live_ranges(function).items(), key=lambda item: item[1])
    free: dict[int, list[int]] = {}
    count: dict[int, int] = {}
    active: dict[int, list[tuple[int, int]]] = {}
    rows: dict[int, int] = {}
    for reg, (first, last) in order:
        w = width.get(reg, 0)
        busy = active.setdefault(w, [])
        spare = free.setdefault(w, [])
        while busy and busy[0][0] < first:
            heapq.heappush(spare, heapq.heappop(busy)[1])
        if spare:
            row = heapq.heappop(spare)
        else:
            row = count.get(w, 0)
            count[w] = row + 1
        rows[reg] = row
        heapq.heappush(busy, (last, row))
    return rows
