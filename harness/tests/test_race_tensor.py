"""The detector's tensor memory against the model of sets, over random programs."""

import ctypes
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from race_tensor_model import Model, Operation

from sidestream.harness.race.watcher import _Race, library

FULL = 0xFFFF_FFFF
SLOTS, WARPS, COLUMNS = 2, 2, 4
CLUSTER_SCOPE, GPU_SCOPE, RELAXED_SCOPE = 2, 3, 0
WRITE = 1
ADDRESSES = (1000, 1008)
FLAGS = 0x7000_0000
FORM_COPY, FORM_SMALL_COPY, FORM_SHIFT = 1, 2, 3
PRODUCTS = {"S": 0x1000_0001, "O": 0x2000_0001}
FREED, TAKEN = 0, 1
PIPE_LOAD, PIPE_STORE = 1, 2
PROFILES = ("practice", "isa")


class Program:
    """Plays events that a source of chance picks, to the detector and to the model."""

    def __init__(self, random: Random, profile: str) -> None:
        self.random = random
        self.lib = library()
        self.lib.detector_new.restype = ctypes.c_void_p
        self.at = ctypes.c_void_p(
            self.lib.detector_new(
                SLOTS, SLOTS, WARPS, 64, PROFILES.index(profile), True
            )
        )
        warps = [(slot, warp) for slot in range(SLOTS) for warp in range(WARPS)]
        self.model = Model(warps, practice=profile == "practice")
        for slot in range(SLOTS):
            self.lib.detector_cta(self.at, slot, WARPS * 32, slot)
            for address in ADDRESSES:
                self.lib.detector_mbar_init(self.at, slot, 0, 1, 0, slot, address)
        self.lib.race_forget_inits(self.at)
        self.pc = 100
        self.queue: list[tuple[str, int, object, object]] = []
        self.loads: dict[tuple[int, int, int], Operation] = {}
        self.actor: tuple[int, int] | None = None
        self.box_kept: tuple[int, int, int, int] | None = None
        self.log: list[tuple[object, ...]] = []

    def play(self, steps: int) -> None:
        """Pick and play events; what is in flight at the end lands."""
        deeds = (
            *([self.product] * 4 + [self.copy] * 3 + [self.shift]),
            *([self.load] * 3 + [self.store] * 3 + [self.own]),
            *([self.load_again, self.split_load]),
            *([self.land] * 4 + [self.commit] * 3),
            *([self.arrive] * 4 + [self.phase] * 3 + [self.wait] * 5),
            *([self.tensor_wait] * 3 + [self.before] * 3 + [self.after] * 3),
            *([self.fence] + [self.use] * 2 + [self.flag, self.see] * 2),
        )
        for _ in range(steps):
            self.pc += 1
            self.random.choice(deeds)()
        while self.queue:
            self.land()

    def close(self) -> set[tuple[int, int]]:
        """Return the pairs that the detector reports."""
        count = self.lib.race_count(self.at)
        table = (_Race * max(count, 1)).from_address(self.lib.race_table(self.at))
        pairs = {(table[k].pc[0], table[k].pc[1]) for k in range(count)}
        assert self.lib.race_lost(self.at) == 0
        self.lib.detector_free(self.at)
        return pairs

    def chain(self, links: int) -> None:
        """Operations on the same cells, handed on from warp to warp; steps are missing.

        Each warp does one or two operations, waits for what the last one needs, fences,
        arrives; the next one waits and fences. Any of these steps may be left out.
        """
        self.box_kept = self.box()
        for _ in range(links):
            self.actor = None
            self.actor = self.warp()
            barrier = (self.actor[0], ADDRESSES[0])
            self._maybe(self.after)
            for _ in range(self.random.choice((1, 1, 2))):
                self.pc += 1
                kind = self.random.choice(
                    (
                        *(self.product, self.product, self.copy, self.shift),
                        *(self.load, self.store, self.own),
                        self.random.choice((self.load_again, self.split_load)),
                    )
                )
                kind()
                self._complete(kind, barrier)
            self.pc += 1
            # A commit is a fence of what it tracks alone.
            self._maybe(self.before if self.random.random() < 0.8 else self.commit)
            self._hand_over()
        self.actor = self.box_kept = None
        while self.queue:
            self.land()

    def reuse(self, steps: int) -> None:
        """Few instructions load the same cells time and again; uses, hardly a wait."""
        self.actor = self.warp()
        deeds = (
            *([self.load_again] * 6 + [self.split_load] * 2 + [self.use] * 5),
            *([self.store] * 2 + [self.before, self.after, self.tensor_wait]),
        )
        for step in range(steps):
            self.pc += 1
            self.random.choice(deeds)()
            if step == steps // 2:
                self._hand_over()
                self.actor = self.warp()

    def _maybe(self, deed: Callable[..., None], *arguments: object) -> None:
        if self.random.random() < 0.85:
            deed(*arguments)

    def _complete(self, kind: Callable[[], None], barrier: tuple[int, int]) -> None:
        if kind == self.store:
            self._maybe(self._tensor_wait, "st")
        elif kind in (self.load, self.load_again, self.split_load):
            self._maybe(self._tensor_wait, "ld")
            if self.random.random() < 0.3:
                self.use()
        elif kind != self.own and self.random.random() < 0.6:
            self._commit(barrier)
            while self.queue:
                self.land()
            self._phase(barrier)
            self._maybe(self._wait, self.actor, barrier[1], False)

    def _hand_over(self) -> None:
        """From the actor to every other warp, by a barrier of either CTA."""
        if self.random.random() < 0.2:
            self._maybe(self.flag)
            for _ in range(3):
                self._see(
                    (self.random.randrange(SLOTS), self.random.randrange(WARPS)),
                    self.actor,
                )
            return
        for slot in range(SLOTS):
            barrier = (slot, ADDRESSES[1])
            self._maybe(self._arrive, *barrier, self.random.random() < 0.3)
            self._phase(barrier)
            for warp in range(WARPS):
                relaxed = self.random.random() < 0.3
                self._maybe(self._wait, (slot, warp), ADDRESSES[1], relaxed)

    def warp(self) -> tuple[int, int]:
        if self.actor is not None and self.random.random() < 0.95:
            return self.actor
        return self.random.randrange(SLOTS), self.random.randrange(WARPS)

    def box(self) -> tuple[int, int, int, int]:
        """Draw lanes and columns: first lane, lanes, first column, columns."""
        if self.box_kept and self.random.random() < 0.95:
            return self.box_kept
        lane, lanes = self.random.choice(
            ((0, 128), (0, 32), (32, 32), (16, 16), (5, 1))
        )
        columns = self.random.choice((1, 2))
        return lane, lanes, self.random.randrange(COLUMNS - columns + 1), columns

    @staticmethod
    def cells(memory: int, box: tuple[int, int, int, int]):
        lane, lanes, column, columns = box
        return [
            (memory, at, of)
            for at in range(lane, lane + lanes)
            for of in range(column, column + columns)
        ]

    def _issue(self, kind: str, form: int, accumulator: str = "") -> None:
        slot, warp = self.warp()
        engine = self.lib.detector_core(self.at, slot, warp, 0, form)
        op = self.model.issue(self.pc, kind, (slot, warp), accumulator)
        self.queue.append(("work", engine, op, self.random.choice((0, 0, 1))))
        self.log.append((kind, self.pc, slot, warp, accumulator))

    def product(self) -> None:
        accumulator = self.random.choice("SSO")
        self._issue("mma", PRODUCTS[accumulator], accumulator)

    def copy(self) -> None:
        if self.random.random() < 0.3:
            self._issue("small copy", FORM_SMALL_COPY)
        else:
            self._issue("copy", FORM_COPY)

    def shift(self) -> None:
        self._issue("shift", FORM_SHIFT)

    def land(self) -> None:
        """The oldest operation of the tensor core, or a commit, lands."""
        if not self.queue:
            return
        what, engine, told, where = self.queue.pop(0)
        if what == "commit":
            memory, address = where
            self.lib.detector_mbar_engine(self.at, engine, self.pc, memory, address, 1)
            self.model.complete_at(told, where)
        else:
            # An operation of a pair touches the memory of both CTAs.
            slot = told.warp[0]
            box = self.box()
            for memory in (slot, 1 - slot)[: 1 + where]:
                self.lib.detector_engine_tensor(
                    *(self.at, engine, told.pc, memory, *box, WRITE)
                )
                self.model.touch(told, self.cells(memory, box), write=True)
            if told.kind == "mma":  # A lies in tensor memory
                box = self.box()
                self.lib.detector_engine_tensor(
                    *(self.at, engine, told.pc, slot, *box, 0)
                )
                self.model.touch(told, self.cells(slot, box), write=False)
            self.log.append(("lands", told.pc, box, where))
        self.lib.detector_drop(self.at, engine)

    def commit(self) -> None:
        self._commit((self.random.randrange(SLOTS), self.random.choice(ADDRESSES)))

    def _commit(self, barrier: tuple[int, int]) -> None:
        slot, warp = self.warp()
        engine = self.lib.detector_commit(self.at, slot, warp, 0)
        told = self.model.commit((slot, warp))
        self.queue.append(("commit", engine, told, barrier))
        self.log.append(("commit", slot, warp, barrier))

    def _move(self, kind: str, number: int = 0, places: int = 1) -> None:
        slot, warp = self.warp()
        op = self.model.issue(self.pc, kind, (slot, warp))
        if kind == "ld":  # an earlier one of that number gives its registers up
            self.loads[slot, warp, number] = op
        for second in range(places):
            box = self.box()
            self.lib.detector_warp_tensor(
                *(self.at, slot, warp, self.pc),
                *(PIPE_STORE if kind == "st" else PIPE_LOAD, number, second, *box),
            )
            self.model.touch(op, self.cells(slot, box), write=kind == "st")
            self.log.append((kind, self.pc, slot, warp, number, box))

    def load(self) -> None:
        self._move("ld", self.pc)

    def load_again(self) -> None:
        """By an instruction of few: it writes its registers once more."""
        self._move("ld", self.random.choice((1, 2)))

    def split_load(self) -> None:
        """In two places, as `.16x32bx2` does."""
        self._move("ld", self.random.choice((1, 2)), places=2)

    def store(self) -> None:
        self._move("st")

    def use(self) -> None:
        if not self.loads:
            return
        slot, warp, number = who = self.random.choice(list(self.loads))
        self.lib.detector_load_used(self.at, slot, warp, number)
        self.model.use(self.loads[who])
        self.log.append(("use", number, self.loads[who].pc))

    def own(self) -> None:
        slot, warp = self.warp()
        freed = self.random.random() < 0.5
        column, columns = self.random.randrange(COLUMNS - 1), 2
        op = self.model.own_columns(self.pc, (slot, warp), freed=freed)
        self.lib.detector_tensor_own(
            *(self.at, slot, warp, self.pc, column, columns),
            FREED if freed else TAKEN,
        )
        self.model.touch(op, self.cells(slot, (0, 128, column, columns)), write=True)
        self.log.append((op.kind, self.pc, slot, warp, column, columns))

    def arrive(self) -> None:
        self._arrive(
            self.random.randrange(SLOTS),
            self.random.choice(ADDRESSES),
            self.random.random() < 0.4,
        )

    def _arrive(self, memory: int, address: int, relaxed: bool) -> None:
        slot, warp = self.warp()
        self.lib.detector_mbar_arrive(
            *(self.at, slot, warp, self.pc, FULL, memory, address),
            RELAXED_SCOPE if relaxed else CLUSTER_SCOPE,
        )
        self.model.arrive((slot, warp), (memory, address), relaxed=relaxed)
        self.log.append(("arrive", slot, warp, memory, address, relaxed))

    def phase(self) -> None:
        self._phase((self.random.randrange(SLOTS), self.random.choice(ADDRESSES)))

    def _phase(self, barrier: tuple[int, int]) -> None:
        memory, address = barrier
        self.lib.detector_mbar_phase(self.at, memory, address)
        self.model.phase((memory, address))
        self.log.append(("phase", memory, address))

    def wait(self) -> None:
        self._wait(
            self.warp(), self.random.choice(ADDRESSES), self.random.random() < 0.4
        )

    def _wait(self, who: tuple[int, int], address: int, relaxed: bool) -> None:
        slot, warp = who
        self.lib.detector_mbar_wait(
            *(self.at, slot, warp, self.pc, FULL, address),
            RELAXED_SCOPE if relaxed else CLUSTER_SCOPE,
        )
        self.model.observe((slot, warp), (slot, address), relaxed=relaxed)
        self.log.append(("wait", slot, warp, address, relaxed))

    def flag(self) -> None:
        """A relaxed store to a word of the warp's own."""
        slot, warp = self.warp()
        address = FLAGS + 8 * (slot * WARPS + warp)
        self.lib.detector_release(
            *(self.at, slot, warp, 0, ctypes.c_uint64(address), 1, CLUSTER_SCOPE, 0)
        )
        self.model.arrive((slot, warp), (slot, address), relaxed=True)
        self.model.over[slot, address] = self.model.current[slot, address]
        self.log.append(("flag", slot, warp))

    def see(self) -> None:
        self._see(self.warp(), self.warp())

    def _see(self, who: tuple[int, int], whose: tuple[int, int]) -> None:
        """A relaxed load of that word, by all lanes."""
        address = FLAGS + 8 * (whose[0] * WARPS + whose[1])
        for lane in range(32):
            self.lib.detector_acquire(
                *(self.at, *who, lane, ctypes.c_uint64(address), 1, CLUSTER_SCOPE)
            )
        self.model.observe(who, (whose[0], address), relaxed=True)
        self.log.append(("see", *who, *whose))

    def tensor_wait(self) -> None:
        self._tensor_wait(self.random.choice(("ld", "st")))

    def _tensor_wait(self, kind: str) -> None:
        slot, warp = self.warp()
        self.lib.detector_tensor_wait(
            self.at, slot, warp, PIPE_STORE if kind == "st" else PIPE_LOAD
        )
        self.model.wait((slot, warp), kind)
        self.log.append(("tensor wait", slot, warp, kind))

    def before(self) -> None:
        slot, warp = self.warp()
        self.lib.detector_fence_before(self.at, slot, warp, FULL)
        self.model.before((slot, warp))
        self.log.append(("before", slot, warp))

    def after(self) -> None:
        slot, warp = self.warp()
        self.lib.detector_fence_after(self.at, slot, warp, FULL)
        self.model.after((slot, warp))
        self.log.append(("after", slot, warp))

    def fence(self) -> None:
        slot, warp = self.warp()
        self.lib.detector_fence(self.at, slot, warp, FULL, GPU_SCOPE, 1, 1)
        self.model.fence((slot, warp))
        self.log.append(("fence", slot, warp))


def judge(program: Program) -> int:
    """Check what both say of a program; whether it races.

    An access may stand for earlier ones that come before it or that it races with, so
    that of races that hang together only some are told.
    """
    found, races = program.close(), program.model.races
    assert found <= races, (found - races, program.log)
    silent, told = set(races), {side for pair in found for side in pair}
    while reached := {pair for pair in silent if told & set(pair)}:
        silent -= reached
        told |= {side for pair in reached for side in pair}
    assert not silent, (silent, found, program.log)
    return bool(races)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("steps", [6, 12, 24])
def test_reports_are_races_and_no_racy_program_passes(steps, profile):
    racy = 0
    programs = 3000 // steps
    for number in range(programs):
        program = Program(Random(number * 1000 + steps), profile)
        program.play(steps)
        racy += judge(program)
    assert 0 < racy < programs


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("links", [2, 3, 4])
def test_hand_overs_with_steps_left_out_are_judged_alike(links, profile):
    racy = 0
    programs = 1800 // links
    for number in range(programs):
        program = Program(Random(number * 1000 + links), profile)
        program.chain(links)
        racy += judge(program)
    assert programs // 20 < racy < programs - programs // 20


@pytest.mark.parametrize("profile", PROFILES)
def test_loads_by_the_same_instructions_are_judged_alike(profile):
    racy = 0
    for number in range(600):
        program = Program(Random(number), profile)
        program.reuse(12)
        racy += judge(program)
    assert 0 < racy < 600


@pytest.mark.parametrize("profile", PROFILES)
@seed(20260)
@settings(max_examples=100)
@given(random=st.randoms(use_true_random=False), links=st.integers(1, 4))
def test_a_drawn_program_is_judged_alike(profile, random, links):
    program = Program(random, profile)
    program.chain(links)
    judge(program)
