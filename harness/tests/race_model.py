"""What a race is, said again with sets: every thread knows a set of accesses.

An access conflicts with an earlier one to the same byte if one of them writes; it races
if its thread (or the thread that issued the operation) does not know the earlier one.
An operation of the async proxy knows a generic access only if a proxy fence came in
between. No clocks, no lanes folded into warps, no shadow: slow, and easily believed.

With `practice` a proxy fence is not asked for behind a read, and a write races with
nothing that its thread knows to be over: operations that are complete, and accesses of
other warps behind their proxy fence, told by relaxed operations or by the completion of
a copy whose issuer knew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Thread = tuple[int, int, int]
"""Slot, warp, lane."""


@dataclass(frozen=True)
class Access:
    """One byte touched."""

    pc: int
    place: tuple[int, int]
    write: bool
    warp: tuple[int, int] | None = None
    """Slot and warp, or None of an operation of the async proxy."""


@dataclass
class Knowledge:
    """Accesses known, those of them behind a proxy fence, and what is over."""

    order: set[int] = field(default_factory=set)
    fenced: set[int] = field(default_factory=set)
    over: set[int] = field(default_factory=set)

    def learn(self, other: Knowledge) -> None:
        """Add what the other knows."""
        self.order |= other.order
        self.fenced |= other.fenced
        self.over |= other.over

    def copy(self) -> Knowledge:
        """Return the same, apart."""
        return Knowledge(set(self.order), set(self.fenced), set(self.over))


@dataclass
class Operation:
    """An asynchronous operation: what its issuer knew, and its own accesses."""

    known: Knowledge
    own: set[int] = field(default_factory=set)


class Model:
    """Events in, racing pairs of instructions out: `races` holds pairs of `pc`."""

    def __init__(self, slots: int, warps: int, *, practice: bool = False) -> None:
        self.practice = practice
        threads = [
            (slot, warp, lane)
            for slot in range(slots)
            for warp in range(warps)
            for lane in range(32)
        ]
        self.known = {thread: Knowledge() for thread in threads}
        self.released: dict[Thread, Knowledge] = {}
        self.pending = {thread: Knowledge() for thread in threads}
        self.current: dict[tuple[int, int], Knowledge] = {}
        self.complete: dict[tuple[int, int], Knowledge] = {}
        self.operations: dict[int, Operation] = {}
        self.accesses: list[Access] = []
        self.races: set[tuple[int, int]] = set()

    def threads(self, slot: int, warp: int, lanes: int) -> Iterator[Thread]:
        """The threads of a lane mask."""
        return ((slot, warp, lane) for lane in range(32) if lanes >> lane & 1)

    def _touch(self, access: Access, known: Knowledge, own: set[int]) -> int:
        for number, other in enumerate(self.accesses):
            if other.place != access.place or not (other.write or access.write):
                continue
            crossing = access.warp is None and other.warp is not None
            if self.practice and not other.write:
                crossing = False
            apart = number in (known.fenced if crossing else known.order)
            apart |= access.write and number in known.over
            if number not in own and not apart:
                self.races.add((other.pc, access.pc))
        self.accesses.append(access)
        return len(self.accesses) - 1

    def _at(self, accesses: set[int], place: tuple[int, int]) -> set[int]:
        return {n for n in accesses if self.accesses[n].place == place}

    def _over(self, known: Knowledge, own: tuple[int, int] | None) -> set[int]:
        """What is over by what a thread of warp `own` knows, or by several."""
        if not self.practice:
            return set()
        of = {number: self.accesses[number].warp for number in known.order}
        return known.over | {
            number
            for number, warp in of.items()
            if warp is None or (warp != own and number in known.fenced)
        }

    def access(
        self,
        pc: int,
        where: tuple[int, int, int],
        memory: int,
        offsets: Sequence[int],
        size: int,
        *,
        write: bool,
    ) -> None:
        """Lanes touch `size` bytes each; lanes of one instruction are not ordered."""
        made = []
        for thread in self.threads(*where):
            known = self.known[thread]
            for byte in range(offsets[thread[2]], offsets[thread[2]] + size):
                access = Access(pc, (memory, byte), write, where[:2])
                number = self._touch(access, known, set())
                made.append((thread, number))
        for thread, number in made:
            known = self.known[thread]
            known.order.add(number)
            if write:
                known.order |= self._at(known.over, self.accesses[number].place)

    def issue(self, operation: int, slot: int, warp: int, lane: int) -> None:
        """A thread starts an operation."""
        known = self.known[slot, warp, lane].copy()
        known.over = self._over(known, (slot, warp))
        self.operations[operation] = Operation(known)

    def engine(
        self, pc: int, operation: int, memory: int, offset: int, size: int, write: bool
    ) -> None:
        """An operation touches bytes through the async proxy.

        Whoever is behind its write is behind what the write came after at this byte:
        PTX ISA, Memory Consistency Model: Axioms: Coherence, Causality.
        """
        op = self.operations[operation]
        for byte in range(offset, offset + size):
            access = Access(pc, (memory, byte), write)
            number = self._touch(access, op.known, op.own)
            op.own.add(number)
            if write:
                before = op.known.order | op.known.over
                op.own |= self._at(before, self.accesses[number].place)

    def complete_to(self, operation: int, slot: int, warp: int, lanes: int) -> None:
        """Threads learn that an operation is complete."""
        own = self.operations[operation].own
        for thread in self.threads(slot, warp, lanes):
            self.known[thread].learn(Knowledge(set(own), set(own)))

    def arrive(
        self, where: tuple[int, int, int], barrier: tuple[int, int], *, relaxed: bool
    ) -> None:
        """Threads arrive; relaxed, with what a fence released before."""
        at = self.current.setdefault(barrier, Knowledge())
        for thread in self.threads(*where):
            handed: Mapping[Thread, Knowledge] = (
                self.released if relaxed else self.known
            )
            at.learn(handed.get(thread, Knowledge()))
            if relaxed:
                over = self._over(self.known[thread], where[:2])
                at.learn(Knowledge(over=over))

    def complete_at(self, operation: int, barrier: tuple[int, int]) -> None:
        """An operation completes at a barrier: its own accesses, and what was over."""
        op = self.operations[operation]
        at = self.current.setdefault(barrier, Knowledge())
        at.learn(Knowledge(set(op.own), set(op.own), set(op.known.over)))

    def phase(self, barrier: tuple[int, int]) -> None:
        """The phase of a barrier ends."""
        self.complete[barrier] = self.current.pop(barrier, Knowledge())

    def wait(
        self, where: tuple[int, int, int], barrier: tuple[int, int], *, relaxed: bool
    ) -> None:
        """Threads observe the phase that ended last."""
        for thread in self.threads(*where):
            to = self.pending if relaxed else self.known
            done = self.complete.get(barrier, Knowledge())
            to[thread].learn(done)
            if relaxed:
                self.known[thread].over |= self._over(done, None)

    def converge(self, where: tuple[int, int, int]) -> None:
        """Lanes of a warp synchronise."""
        together = Knowledge()
        for thread in self.threads(*where):
            together.learn(self.known[thread])
        for thread in self.threads(*where):
            self.known[thread].learn(together)

    def fence_proxy(self, where: tuple[int, int, int]) -> None:
        """What threads know is behind a proxy fence."""
        for thread in self.threads(*where):
            self.known[thread].fenced |= self.known[thread].order

    def fence(self, where: tuple[int, int, int]) -> None:
        """Relaxed operations before it acquire, those after it release."""
        for thread in self.threads(*where):
            self.known[thread].learn(self.pending[thread])
            self.released[thread] = self.known[thread].copy()
