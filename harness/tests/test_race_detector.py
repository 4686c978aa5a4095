"""The detector against the model of sets, over random histories."""

import ctypes
import random

import pytest
from race_model import Model

from sidestream.harness.race.watcher import _Race, library

FULL = 0xFFFF_FFFF
SLOTS, WARPS, BYTES = 2, 2, 64
CLUSTER_SCOPE, GPU_SCOPE = 2, 3
WRITE, ASYNC = 1, 2
ADDRESSES = (1000, 1008)
PLANE_SHARED = 1


class History:
    """Plays the same random events to the detector and to the model."""

    def __init__(self, seed: int, *, isa: bool = True) -> None:
        self.random = random.Random(seed)
        self.lib = library()
        self.lib.detector_new.restype = ctypes.c_void_p
        new = self.lib.detector_new(SLOTS, SLOTS, WARPS, BYTES, int(isa), 0)
        self.detector = ctypes.c_void_p(new)
        for slot in range(SLOTS):
            self.lib.detector_cta(self.detector, slot, WARPS * 32, slot)
        self.model = Model(SLOTS, WARPS, practice=not isa)
        self.pc, self.number = 100, 0
        self.lanes = (0, 1, 5)
        self.flying: dict[int, int] = {}
        self.log: list[tuple[object, ...]] = []
        for memory in range(SLOTS):
            for address in ADDRESSES:
                for slot in range(SLOTS):
                    self._init(memory, address, slot)

    def _init(self, memory: int, address: int, slot: int) -> None:
        # Initialised by whoever uses it first: not what is tested here.
        if slot == memory:
            self.lib.detector_mbar_init(self.detector, memory, 0, 1, 0, memory, address)
        self.lib.race_forget_inits(self.detector)

    def play(self, steps: int) -> None:
        """Draw and play events."""
        deeds = (
            *([self.access] * 6 + [self.engine] * 3 + [self.issue] * 2),
            *([self.wait] * 3 + [self.arrive] * 2 + [self.phase] * 2),
            *([self.converge] * 2 + [self.land] * 2),
            *(self.fence_proxy, self.fence),
        )
        for _ in range(steps):
            self.pc += 1
            self.random.choice(deeds)()

    def relay(self, steps: int) -> None:
        """Draw accesses, and hand on from one to the next, with steps left out.

        One lane a warp is by itself: of two that hand on, knowledge may be widened.
        """
        self.lanes = (5,)
        holder = self.where()
        for _ in range(steps):
            self.pc += 1
            if self.random.random() < 0.5:
                self.access(self.random.choice((holder, holder, self.where())))
                continue
            if self.random.random() < 0.5:
                self.fence_proxy(holder)
            after = self.where()
            barrier = after[0], self.barrier()
            if self.random.random() < 0.5:
                self.arrive(holder, barrier)
            else:
                self.copy(holder, barrier)
            if self.random.random() < 0.9:
                self.phase(barrier)
                self.wait(after, barrier[1])
            holder = after

    def copy(self, where: tuple[int, int, int], barrier: tuple[int, int]) -> None:
        """One of the lanes issues an operation that lands at a barrier."""
        slot, warp, lanes = where
        self.issue((slot, warp, (lanes & -lanes).bit_length() - 1))
        if self.random.random() < 0.5:
            self.engine()
        self.land(barrier)

    def close(self) -> set[tuple[int, int]]:
        """Return the pairs that the detector reports."""
        count = self.lib.race_count(self.detector)
        at = self.lib.race_table(self.detector)
        table = (_Race * max(count, 1)).from_address(at)
        pairs = {(table[k].pc[0], table[k].pc[1]) for k in range(count)}
        assert self.lib.race_lost(self.detector) == 0
        self.lib.detector_free(self.detector)
        return pairs

    def where(self) -> tuple[int, int, int]:
        """Draw a slot, a warp and lanes: all of them, or a single one."""
        lane = 1 << self.random.choice(self.lanes)
        lanes = self.random.choice((FULL, lane, lane))
        return self.random.randrange(SLOTS), self.random.randrange(WARPS), lanes

    def access(self, where: tuple[int, int, int] | None = None) -> None:
        slot, warp, lanes = where or self.where()
        memory = self.random.randrange(SLOTS) if self.random.random() < 0.3 else slot
        size = self.random.choice((1, 2, 4, 4, 8, 16))
        write = self.random.random() < 0.5
        if write and lanes == FULL and size > 2:
            lanes = 1  # lanes of one instruction must not overwrite each other
        spread = [lane * size % BYTES for lane in range(32)]
        one = [self.random.randrange(4) * 4 // size * size] * 32
        whole = write and lanes == FULL
        offsets = spread if whole or self.random.random() < 0.5 else one
        self.lib.detector_shared(
            *(self.detector, slot, warp, self.pc, lanes, memory),
            *((ctypes.c_uint32 * 32)(*offsets), size, WRITE if write else 0, 0, None),
        )
        self.model.access(
            self.pc, (slot, warp, lanes), memory, offsets, size, write=write
        )
        self.log.append(("access", self.pc, slot, warp, lanes, offsets[0], size, write))

    def issue(self, thread: tuple[int, int, int] | None = None) -> None:
        slot, warp, _ = self.where()
        slot, warp, lane = thread or (slot, warp, self.random.choice((0, 1, 5)))
        self.number += 1
        self.flying[self.number] = self.lib.detector_issue(
            self.detector, slot, warp, 1 << lane
        )
        self.model.issue(self.number, slot, warp, lane)
        self.log.append(("issue", self.number, slot, warp, lane))

    def engine(self) -> None:
        if not self.flying:
            return
        operation = self.random.choice(list(self.flying))
        memory, write = self.random.randrange(SLOTS), self.random.random() < 0.5
        size, part = self.random.choice(((4, 4), (6, 4), (16, 4), (16, 16), (48, 16)))
        offset = part * self.random.randrange((BYTES - size) // part + 1)
        self.lib.detector_engine_shared(
            *(self.detector, self.flying[operation], self.pc, memory, offset),
            *(ctypes.c_uint64(size), (WRITE if write else 0) | ASYNC),
        )
        self.model.engine(self.pc, operation, memory, offset, size, write)
        self.log.append(("engine", self.pc, operation, memory, offset, size, write))

    def land(self, barrier: tuple[int, int] | None = None) -> None:
        if not self.flying:
            return
        operation = self.random.choice(list(self.flying))
        engine = self.flying.pop(operation)
        if barrier or self.random.random() < 0.5:
            memory, address = barrier or (
                self.random.randrange(SLOTS),
                self.barrier(),
            )
            self.lib.detector_mbar_engine(
                self.detector, engine, self.pc, memory, address, 0
            )
            self.model.complete_at(operation, (memory, address))
            self.log.append(("lands at", operation, memory, address))
        else:
            where = self.where()
            self.lib.detector_complete(self.detector, engine, *where)
            self.model.complete_to(operation, *where)
            self.log.append(("lands to", operation, *where))
        self.lib.detector_drop(self.detector, engine)

    def barrier(self) -> int:
        return self.random.choice(ADDRESSES)

    def wait(
        self, where: tuple[int, int, int] | None = None, address: int | None = None
    ) -> None:
        slot, warp, lanes = where or self.where()
        address = address or self.barrier()
        relaxed = self.random.random() < 0.2
        scope = 0 if relaxed else CLUSTER_SCOPE
        self.lib.detector_mbar_wait(
            self.detector, slot, warp, self.pc, lanes, address, scope
        )
        self.model.wait((slot, warp, lanes), (slot, address), relaxed=relaxed)
        self.log.append(("wait", slot, warp, lanes, address, relaxed))

    def arrive(
        self,
        where: tuple[int, int, int] | None = None,
        barrier: tuple[int, int] | None = None,
    ) -> None:
        slot, warp, lanes = where or self.where()
        memory, address = barrier or (
            self.random.randrange(SLOTS),
            self.barrier(),
        )
        relaxed = self.random.random() < 0.2
        scope = 0 if relaxed else CLUSTER_SCOPE
        self.lib.detector_mbar_arrive(
            self.detector, slot, warp, self.pc, lanes, memory, address, scope
        )
        self.model.arrive((slot, warp, lanes), (memory, address), relaxed=relaxed)
        self.log.append(("arrive", slot, warp, lanes, memory, address, relaxed))

    def phase(self, barrier: tuple[int, int] | None = None) -> None:
        memory, address = barrier or (
            self.random.randrange(SLOTS),
            self.barrier(),
        )
        self.lib.detector_mbar_phase(self.detector, memory, address)
        self.model.phase((memory, address))
        self.log.append(("phase", memory, address))

    def converge(self) -> None:
        slot, warp, _ = self.where()
        self.lib.detector_converge(self.detector, slot, warp, FULL)
        self.model.converge((slot, warp, FULL))
        self.log.append(("converge", slot, warp))

    def fence_proxy(self, where: tuple[int, int, int] | None = None) -> None:
        where = where or self.where()
        self.lib.detector_fence_proxy(self.detector, *where, PLANE_SHARED)
        self.model.fence_proxy(where)
        self.log.append(("fence.proxy", *where))

    def fence(self) -> None:
        where = self.where()
        self.lib.detector_fence(self.detector, *where, GPU_SCOPE, 1, 1)
        self.model.fence(where)
        self.log.append(("fence", *where))


def compared(play: str, steps: int, *, isa: bool) -> tuple[int, int]:
    """Play histories and compare what is told: how many race, and how many do not."""
    racy = clean = 0
    for seed in range(12000 // steps):
        history = History(seed * 1000 + steps, isa=isa)
        getattr(history, play)(steps)
        found, races = history.close(), history.model.races
        assert found <= races, (seed, found - races, history.log)
        assert bool(found) == bool(races), (seed, races, history.log)
        racy += bool(races)
        clean += not races
    assert racy > 0, "histories that never race test nothing"
    return racy, clean


@pytest.mark.parametrize("isa", [True, False])
@pytest.mark.parametrize("steps", [8, 16, 30, 60])
def test_every_report_is_a_race_and_no_racy_history_passes(
    steps: int, isa: bool
) -> None:
    compared("play", steps, isa=isa)


@pytest.mark.parametrize("isa", [True, False])
@pytest.mark.parametrize("steps", [4, 8, 16])
def test_the_same_where_accesses_are_handed_on(steps: int, isa: bool) -> None:
    _, clean = compared("relay", steps, isa=isa)
    assert clean > 0, "histories that always race test little"
