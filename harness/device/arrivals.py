"""Which instructions may arrive at an mbarrier, as far as the text tells.

The address of a barrier is mostly a shared variable and a constant. Where it is known,
an instruction arrives at that barrier or it does not; where it is computed, it may.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sidestream.harness.exec.program import Program, shared_symbols
from sidestream.harness.ptx import ir

_ARRIVALS = (
    *("mbarrier.arrive", "mbarrier.arrive_drop", "mbarrier.complete_tx"),
    *("cp.async.bulk", "st.async", "red.async", "cp.reduce.async.bulk"),
    *("cp.async.mbarrier.arrive", "tcgen05.commit", "clusterlaunchcontrol"),
)
_BY_THREADS = ("mbarrier", "cp.async.mbarrier")
_BARRIER_NAMES = ("mbar", "bar", "a", "addr")
_COPIES = ("mov", "cvt", "cvta", "cvta.to")
_WORD = 0xFFFF_FFFF


@dataclass(frozen=True, kw_only=True)
class Phase:
    """State of an mbarrier (PTX ISA, Contents of the mbarrier object).

    Attributes:
        pending: Arrivals that the phase still waits for.
        expected: Arrivals of a whole phase.
        bytes: Bytes of transactions that are still to come.
        parity: Of the phase that is under way.
    """

    pending: int
    expected: int
    bytes: int
    parity: int


@dataclass(frozen=True, kw_only=True)
class Arriver:
    """An instruction that arrives at a barrier, or may.

    Attributes:
        pc: First bytecode row.
        executed: How often a warp executed it.
        sure: Whether its address is known to be that of the barrier.
    """

    pc: int
    executed: int
    sure: bool


def arrives(ins: ir.Instruction) -> bool:
    """Whether an instruction arrives at an mbarrier, or brings it bytes."""
    if not any(ins.op == op or ins.op.startswith(f"{op}.") for op in _ARRIVALS):
        return False
    # What completes in a bulk group names no barrier, nor does query_cancel.
    return ins.op.startswith(_BY_THREADS) or "mbar" in ins.args


def phase_of(word: int) -> Phase:
    """Read the word that the core keeps of an mbarrier (`exec/core/mbarrier.h`)."""
    count = (1 << 20) - 1
    transactions = word >> 40 & (1 << 21) - 1
    if transactions >> 20:
        transactions -= 1 << 21
    return Phase(
        pending=word & count,
        expected=word >> 20 & count,
        bytes=transactions,
        parity=word >> 61 & 1,
    )


def ahead_of(function: ir.Function, index: int) -> frozenset[int]:
    """Return the instructions that may be executed after instruction `index`."""
    code = function.instructions
    seen: set[int] = set()
    left = [index]
    while left:
        at = left.pop()
        if at in seen or at >= len(code):
            continue
        seen.add(at)
        ins = code[at]
        left += [a.target for a in ins.args.values() if isinstance(a, ir.Label)]
        ends = ins.op in ("ret", "exit", "trap", "bra", "bra.uni")
        if ins.guard is not None or not ends:
            left.append(at + 1)
    return frozenset(seen)


class Places:
    """Addresses of barriers in one program, by what defines them."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._symbols = shared_symbols(program.function)
        self._writers: dict[int, list[ir.Instruction]] = {}
        for ins in program.function.instructions:
            for name in ins.writes:
                written = ins.args[name]
                if isinstance(written, ir.Register):
                    self._writers.setdefault(written.id, []).append(ins)

    def arrivers(self, offset: int, counts: dict[int, int]) -> list[Arriver]:
        """Return what may arrive at the barrier at `offset`, the silent first.

        Args:
            offset: Shared address within the CTA.
            counts: Executions by index of the instruction.
        """
        found = []
        for index, pc in self._rows():
            ins = self._program.function.instructions[index]
            at = self.of(ins)
            if at is None or at == offset:
                executed = counts.get(index, 0)
                found.append(Arriver(pc=pc, executed=executed, sure=at is not None))
        return sorted(found, key=lambda a: (a.executed > 0, not a.sure, a.executed))

    def _rows(self) -> Iterator[tuple[int, int]]:
        seen: set[int] = set()
        for pc, index in enumerate(self._program.origin.tolist()):
            ins = self._program.instruction(pc)
            if ins is None or index in seen:
                continue
            if arrives(ins):
                seen.add(index)
                yield index, pc

    def of(self, ins: ir.Instruction) -> int | None:
        """Address of the barrier that an instruction arrives at, if the text tells."""
        name = next((n for n in _BARRIER_NAMES if n in ins.args), None)
        operand = None if name is None else ins.args[name]
        if not isinstance(operand, ir.Address):
            return None
        base = self._value(operand.base, 0)
        return None if base is None else base + operand.offset & 0xFF_FFFF

    def _value(self, operand: ir.Operand | None, depth: int) -> int | None:
        if isinstance(operand, ir.Immediate):
            return operand.value if operand.kind == "int" else None
        if isinstance(operand, ir.Symbol):
            at = self._symbols.get(operand.name)
            return None if at is None else at + operand.offset
        if not isinstance(operand, ir.Register) or depth > 64:
            return None
        writers = self._writers.get(operand.id, [])
        if len(writers) != 1 or writers[0].guard is not None:
            return None
        ins = writers[0]
        if ins.op.startswith("shfl"):  # of a value that all lanes share
            return self._value(ins.args.get("a"), depth + 1)
        parts = [
            self._value(arg, depth + 1)
            for name, arg in ins.args.items()
            if name not in ins.writes
        ]
        if None in parts or not parts:
            return None
        known = [part for part in parts if part is not None]
        if ins.op in _COPIES and len(known) == 1:
            return known[0]
        if ins.op == "add" and len(known) == 2:
            return sum(known) & _WORD
        return None
