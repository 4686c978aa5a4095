"""What a race in tensor memory is, said with sets of operations.

A warp is one thread of the tcgen05 family. It knows which operations were issued, which
of them are behind a fence of their own thread (`sent`), which it may follow behind a
fence of its own (`ready`), and which are complete. PTX ISA, Memory Consistency Model
for 5th generation of TensorCore operations. No clocks, no pipes, no shadow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

Warp = tuple[int, int]
"""Slot, warp."""
Barrier = tuple[int, int]
"""Slot, address."""
CORE = ("mma", "shift", "copy", "small copy")
SYNCHRONOUS = ("alloc", "dealloc")


@dataclass
class Known:
    """What a warp, or a barrier, knows of operations by their numbers."""

    issued: set[int] = field(default_factory=set)
    sent: set[int] = field(default_factory=set)
    complete: set[int] = field(default_factory=set)

    def learn(self, other: Known) -> None:
        """Add what the other knows."""
        self.issued |= other.issued
        self.sent |= other.sent
        self.complete |= other.complete

    def copy(self) -> Known:
        """Return the same, apart."""
        return Known(set(self.issued), set(self.sent), set(self.complete))

    def without(self, numbers: set[int]) -> Known:
        """Return what of it is of no operation in `numbers`."""
        return Known(
            self.issued - numbers, self.sent - numbers, self.complete - numbers
        )


@dataclass
class Operation:
    """One operation: who, what, and what its warp knew when it issued it."""

    number: int
    pc: int
    kind: str
    warp: Warp
    known: Known
    ready: set[int]
    accumulator: str = ""
    used: int = 0
    """Of a load: number of the event by which a register of it was first read."""


@dataclass
class Access:
    """Cells that an operation touches, and which operations come before it there."""

    operation: Operation
    before: dict[tuple[int, int, int], set[int]]
    write: bool


def pipelined(first: Operation, second: Operation, *, practice: bool) -> bool:
    """Whether a pipeline keeps the second operation behind the first."""
    pair = (first.kind, second.kind)
    if pair == ("mma", "mma"):
        return practice or first.accumulator == second.accumulator
    if practice and pair == ("shift", "shift"):
        return True
    return pair in {
        ("copy", "mma"),
        ("small copy", "mma"),
        ("shift", "mma"),
        ("shift", "small copy"),
        ("mma", "shift"),
    }


class Model:
    """Events in, racing pairs of instructions out: `races` holds pairs of `pc`."""

    def __init__(self, warps: Iterable[Warp], *, practice: bool) -> None:
        self.practice = practice
        self.known = {warp: Known() for warp in warps}
        self.ready: dict[Warp, set[int]] = {warp: set() for warp in self.known}
        self.tracked = {warp: Known() for warp in self.known}
        self.released: dict[Warp, Known] = {}
        self.pending = {warp: Known() for warp in self.known}
        self.current: dict[Barrier, Known] = {}
        self.over: dict[Barrier, Known] = {}
        self.freed: dict[int, Known] = {}
        self.operations: list[Operation] = []
        self.accesses: list[Access] = []
        self.races: set[tuple[int, int]] = set()

    def issue(self, pc: int, kind: str, warp: Warp, accumulator: str = "") -> Operation:
        """A warp issues an operation."""
        known = self.known[warp]
        op = Operation(
            len(self.operations),
            pc,
            kind,
            warp,
            known.copy(),
            set(self.ready[warp]),
            accumulator,
        )
        self.operations.append(op)
        known.issued.add(op.number)
        if kind in CORE:
            self.tracked[warp].learn(op.known)
            self.tracked[warp].complete.add(op.number)
        if kind in SYNCHRONOUS:
            known.complete.add(op.number)
        return op

    def touch(
        self, op: Operation, cells: Iterable[tuple[int, int, int]], *, write: bool
    ) -> None:
        """An operation touches cells: slot, lane, column.

        Order is transitive. The detector follows it through operations that write the
        same cells, and so does this model.
        """
        now = Access(op, {}, write)
        for cell in cells:
            before: set[int] = set()
            for earlier in self.accesses:
                if cell in earlier.before and self.ordered(earlier.operation, op):
                    before.add(earlier.operation.number)
                    if earlier.write:
                        before |= earlier.before[cell]
            now.before[cell] = before
            for earlier in self.accesses:
                first = earlier.operation
                if first is op or not (earlier.write or write):
                    continue
                if cell in earlier.before and first.number not in before:
                    self.races.add((first.pc, op.pc))
        self.accesses.append(now)

    def ordered(self, first: Operation, second: Operation) -> bool:
        """Whether the second comes after the first, which happened before it here."""
        known, number = second.known, first.number
        own = first.warp == second.warp
        if {first.kind, second.kind} <= set(CORE) and number in known.issued:
            if own:
                if number in known.sent:
                    return True
                if pipelined(first, second, practice=self.practice):
                    return True
            elif pipelined(first, second, practice=True):
                # Fences order unlike products too: what they order forms a pipeline.
                # Under practice a hand-over of the issue is enough.
                return self.practice or number in second.ready
        if first.kind in SYNCHRONOUS:
            return number in known.complete
        if number not in known.complete:
            used = first.kind == "ld" and first.used and first.used in known.issued
            if not (self.practice and used):
                return False
        if second.kind in SYNCHRONOUS or self.practice:
            return True
        return number in second.ready or (own and first.kind not in CORE)

    def use(self, load: Operation) -> None:
        """The loading warp reads a register that the load gave: an event of its own."""
        event = Operation(len(self.operations), 0, "use", load.warp, Known(), set())
        self.operations.append(event)
        load.used = load.used or event.number
        self.known[load.warp].issued.add(event.number)

    def commit(self, warp: Warp) -> Known:
        """Return what whoever waits for the commit will know."""
        known = self.known[warp]
        known.sent |= self._own(warp, CORE) & known.issued
        self.tracked[warp].learn(known)
        return self.tracked[warp].copy()

    def _own(self, warp: Warp, kinds: Iterable[str]) -> set[int]:
        return {o.number for o in self.operations if o.warp == warp and o.kind in kinds}

    def wait(self, warp: Warp, kind: str) -> None:
        """The warp's loads, or its stores, are complete."""
        self.known[warp].complete |= self._own(warp, (kind,))

    def before(self, warp: Warp) -> None:
        """tcgen05.fence::before_thread_sync."""
        self.known[warp].sent |= self._own(warp, (*CORE, "ld", "st"))

    def after(self, warp: Warp) -> None:
        """tcgen05.fence::after_thread_sync."""
        self.ready[warp] |= self.known[warp].sent

    def own_columns(self, pc: int, warp: Warp, *, freed: bool) -> Operation:
        """The warp gives columns back, or takes them."""
        at = self.freed.setdefault(warp[0], Known())
        if not freed:
            self.known[warp].learn(at)
        op = self.issue(pc, "dealloc" if freed else "alloc", warp)
        if freed:
            at.learn(self.known[warp])
        return op

    def _synchronous(self) -> set[int]:
        return {o.number for o in self.operations if o.kind in SYNCHRONOUS}

    def arrive(self, warp: Warp, barrier: Barrier, *, relaxed: bool) -> None:
        """An arrival; relaxed: of tensor memory, and of what a fence released."""
        at, known = self.current.setdefault(barrier, Known()), self.known[warp]
        if not relaxed:
            at.learn(known)
            return
        at.learn(known.without(self._synchronous()))
        at.learn(self.released.get(warp, Known()))

    def complete_at(self, told: Known, barrier: Barrier) -> None:
        """A commit arrives."""
        self.current.setdefault(barrier, Known()).learn(told)

    def phase(self, barrier: Barrier) -> None:
        """The phase of a barrier ends."""
        self.over[barrier] = self.current.pop(barrier, Known())

    def observe(self, warp: Warp, barrier: Barrier, *, relaxed: bool) -> None:
        """A wait has seen the phase that ended last."""
        told = self.over.get(barrier, Known())
        if not relaxed:
            self.known[warp].learn(told)
            return
        self.known[warp].learn(told.without(self._synchronous()))
        self.pending[warp].learn(told)

    def fence(self, warp: Warp) -> None:
        """Relaxed operations before it acquire, those after it release."""
        self.known[warp].learn(self.pending[warp])
        self.released[warp] = self.known[warp].copy()
