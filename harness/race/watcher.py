"""Watch one launch with the race detector."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from sidestream.harness.exec.build import SOURCE, build_library, pointer
from sidestream.harness.exec.observer import Geometry
from sidestream.harness.exec.program import Program
from sidestream.harness.exec.result import Fault
from sidestream.harness.race.notes import notes_of

ANY_LANE = 32
"""Lane number of an access that several lanes made to the same bytes."""

UNWRITTEN = "smem-uninit"
"""Kind of the fault that a read of shared memory is which nothing wrote."""

UNDEFINED = "register-uninit"
"""The same of a register."""

RELAXED = (
    *("peer-arrive", "read-proxy", "tensor-handoff", "tensor-issue-order"),
    *("load-scoreboard", "lanes-met", "same-value", "peer-exit"),
    "over",
)
"""Relaxations of the practice profile, as `enum Relaxation` of `core/detector.h`."""

_SPACES = ("", "shared", "global", "tensor")
_VERDICTS = (
    *("", "unordered", "behind-proxy", "unscoped"),
    *("tensor-unsent", "tensor-unreceived"),
    *("map-unreleased", "map-unacquired", "map-unscoped", "unread", "outlasts"),
    "not-constant",
)
_MOST_REGISTERS = 64
_USE_DTYPE = np.dtype([(name, np.uint64) for name in ("reads", "guard", "writes")])
_ENGINES, _PIPES = 48, 3
_WRITE, _ASYNC, _STRONG, _ENGINE = 1, 2, 4, 8
_MAP = _ASYNC | _STRONG | _ENGINE
_NONE = 0xFFFF_FFFF


class _Race(ctypes.Structure):
    _fields_ = [
        *((n, ctypes.c_uint32) for n in ("space", "verdict")),
        ("pc", ctypes.c_uint32 * 2),
        ("comp", ctypes.c_uint32 * 2),
        ("lane", ctypes.c_uint32 * 2),
        ("flags", ctypes.c_uint32 * 2),
        ("clock", ctypes.c_uint32 * 2),
        ("cta", ctypes.c_uint32 * 2),
        ("handed_pc", ctypes.c_uint32),
        ("learned_pc", ctypes.c_uint32),
        ("known", ctypes.c_uint32),
        ("over", ctypes.c_uint32),
        ("by", ctypes.c_uint32 * 2),
        ("by_lanes", ctypes.c_uint32 * 2),
        ("address", ctypes.c_uint64),
        ("count", ctypes.c_uint64),
    ]


class _Unwritten(ctypes.Structure):
    _fields_ = [
        *((n, ctypes.c_uint32) for n in ("pc", "warp", "lane")),
        ("cta", ctypes.c_uint32 * 3),
        *((n, ctypes.c_uint32) for n in ("address", "size")),
        ("count", ctypes.c_uint64),
    ]


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of two accesses that race.

    Attributes:
        pc: Bytecode row.
        cta: Linear id of the CTA whose warp or engine it is, or None of one that had
            the same place on the machine before.
        warp: Warp of the CTA; of an operation the one that issued it, None if that is
            no longer known.
        lane: Lane, or None where several lanes touched the same bytes.
        engine: Whether it is an asynchronous operation.
        write: Whether it writes.
        proxy: `generic`, `async`, or `tensormap` of a copy that reads its tensor map.
    """

    pc: int
    cta: int | None
    warp: int | None
    lane: int | None
    engine: bool
    write: bool
    proxy: str
    clock: int
    """Of the warp or engine, at the access."""


@dataclass(frozen=True, kw_only=True)
class Race:
    """Two conflicting accesses that nothing orders.

    Attributes:
        space: `shared`, `global` or `tensor`.
        verdict: `unordered`; `behind-proxy`: ordered, but without the proxy fence;
            `unscoped`: both strong, with scopes that do not include each other;
            `tensor-unsent`, `tensor-unreceived`: ordered, but without the earlier or
            the later thread's tcgen05.fence; `map-unreleased`, `map-unacquired`,
            `map-unscoped`: a tensor map was written before its use, without one of its
            proxy fences, or with too narrow ones.
            `unread`: a store's source, not known to be read when its CTA is over.
            `outlasts`: what another CTA does in shared memory or to an mbarrier there,
            not known to be over when the CTA is.
            `not-constant`: a write, and in order after it an `ld.global.nc`.
        earlier: The access that happened first in this run.
        later: The other one.
        address: Of the word they share.
        count: How often the two places in the code met so.
        handed_over: Bytecode row by which the earlier warp first handed over what it
            had done, or None if it had not yet, or is an operation.
        learned: Row by which the later warp last learned of others, or None.
        known: Clock up to which the later side knew the earlier one.
        over: `earlier` or `later`: the side, an operation, of whose issue the other one
            knew, so that its completion is what has to be awaited; else None.
    """

    space: str
    verdict: str
    earlier: Side
    later: Side
    address: int
    count: int
    handed_over: int | None
    learned: int | None
    known: int
    over: str | None


@functools.cache
def library() -> ctypes.CDLL:
    """Return the detector's C functions, built and loaded once per process.

    Raises:
        BuildError: with the compiler's own message if it fails.
    """
    lib = ctypes.CDLL(
        str(build_library("race", Path(__file__).parent / "core", include=(SOURCE,)))
    )
    lib.race_watch_new.restype = ctypes.c_void_p
    lib.race_watch_new.argtypes = [
        *([ctypes.c_uint32] * 7),
        ctypes.c_void_p,
        ctypes.c_uint32,
    ]
    lib.race_watch_registers.restype = ctypes.c_uint32
    lib.race_watch_registers.argtypes = [
        *([ctypes.c_void_p] * 2),
        ctypes.c_uint32,
    ]
    lib.race_watch_free.argtypes = [ctypes.c_void_p]
    for name in (
        *("race_observer", "race_detector", "race_table", "race_crossed"),
        *("race_written", "race_registers", "race_unwritten_table"),
    ):
        getattr(lib, name).restype = ctypes.c_void_p
        getattr(lib, name).argtypes = [ctypes.c_void_p]
    for name in ("race_count", "race_unwritten_count"):
        getattr(lib, name).restype = ctypes.c_uint32
        getattr(lib, name).argtypes = [ctypes.c_void_p]
    for name in (
        *("race_lost", "race_digest", "race_touched"),
        "race_unwritten_dropped",
    ):
        getattr(lib, name).restype = ctypes.c_uint64
        getattr(lib, name).argtypes = [ctypes.c_void_p]
    lib.race_relaxed.restype = ctypes.c_uint64
    lib.race_relaxed.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
    for name in ("race_keep_digest", "race_depend"):
        getattr(lib, name).argtypes = [ctypes.c_void_p]
        getattr(lib, name).restype = None
    lib.race_cross.restype = ctypes.c_uint32
    lib.race_cross.argtypes = [*([ctypes.c_void_p] * 2), ctypes.c_uint32]
    lib.race_met_in_flight.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    lib.race_met_in_flight.restype = ctypes.c_uint32
    lib.race_untimely.argtypes = [ctypes.c_void_p]
    lib.race_untimely.restype = ctypes.c_uint32
    return lib


def _uses_of(program: Program) -> NDArray[np.void]:
    """What every bytecode row does to registers that may be undefined.

    An instruction's last row stands for it all.
    """
    undefined = program.undefined
    bit = {r: 1 << k for k, r in enumerate(undefined.registers[:_MOST_REGISTERS])}
    uses = np.zeros(len(program.origin), _USE_DTYPE)
    last = {int(index): row for row, index in enumerate(program.origin)}
    for index, row in last.items():
        for name, registers in (
            ("reads", undefined.reads.get(index, ())),
            ("writes", undefined.writes.get(index, ())),
            ("guard", undefined.guards.get(index, ())),
        ):
            uses[row][name] = sum(bit.get(register, 0) for register in registers)
    return uses


class Watcher:
    """Detects races of one execution of a program; a context manager.

    Args:
        program: What will be executed.
        profile: `practice` or `isa`.
        weak: Instructions of the program's function, by index, that order nothing:
            the execution is the same, the judgement as if they were not there.
        digest: Whether to keep a digest of what was known at every access.
        dependent: Whether the launch may start before the one before it in its stream
            has completed.
        unwritten: Whether to look for reads of shared memory that nothing wrote.
        undefined: Whether to look for reads of registers that nothing wrote.
    """

    def __init__(
        self,
        program: Program,
        *,
        profile: str = "practice",
        weak: Collection[int] = (),
        digest: bool = False,
        dependent: bool = False,
        unwritten: bool = True,
        undefined: bool = True,
    ) -> None:
        self._notes = notes_of(program)
        if weak:
            self._notes["weak"] = np.isin(program.origin, list(weak))
        self._digest = digest
        self._dependent = dependent
        self._unwritten = unwritten
        self._registers = program.undefined.registers if undefined else ()
        self._uses = _uses_of(program) if self._registers else None
        self._tensor_memory = program.tensor_memory
        self.profile = profile
        self._watch: int | None = None
        self._geometry: Geometry | None = None

    def __enter__(self) -> Watcher:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._watch:
            library().race_watch_free(self._watch)
            self._watch = None

    def attach(self, geometry: Geometry) -> int:
        """Return the address of the observer for a machine of this geometry.

        Raises:
            MemoryError: it does not fit, or has more agents than can be told apart.
        """
        lib = library()
        self._geometry = geometry
        self._watch = lib.race_watch_new(
            geometry.slots,
            geometry.cluster,
            geometry.warps,
            geometry.smem,
            ("practice", "isa").index(self.profile),
            int(self._tensor_memory),
            int(self._unwritten),
            pointer(self._notes),
            len(self._notes),
        )
        if not self._watch:
            raise MemoryError(
                "the race detector does not fit: take fewer --sms, or --no-races"
            )
        if self._uses is not None and not lib.race_watch_registers(
            self._watch, pointer(self._uses), len(self._uses)
        ):
            raise MemoryError("the race detector does not fit: take fewer --sms")
        if self._digest:
            lib.race_keep_digest(self._watch)
        if self._dependent:
            lib.race_depend(self._watch)
        return int(lib.race_observer(self._watch))

    @property
    def digest(self) -> int:
        """Of what every agent knew at each of its accesses, in their order."""
        lib = library()
        return int(lib.race_digest(lib.race_detector(self._watch)))

    @property
    def relaxed(self) -> dict[str, int]:
        """How often each relaxation of the practice profile decided something."""
        lib = library()
        detector = lib.race_detector(self._watch)
        counts = {n: int(lib.race_relaxed(detector, k)) for k, n in enumerate(RELAXED)}
        return {name: count for name, count in counts.items() if count}

    @property
    def lost(self) -> int:
        """Accesses and races that could not be kept: not 0 means incomplete."""
        lib = library()
        lost = int(lib.race_lost(lib.race_detector(self._watch)))
        for kept in self._unwritten_reads():
            lost += int(lib.race_unwritten_dropped(kept))
        return lost + len(self._registers[_MOST_REGISTERS:])

    def _unwritten_reads(self) -> dict[int, str]:
        """What was found, by where it lies, with the kind of fault that it is."""
        lib = library()
        if not self._watch:
            return {}
        found = {
            lib.race_written(self._watch): UNWRITTEN,
            lib.race_registers(self._watch): UNDEFINED,
        }
        return {address: kind for address, kind in found.items() if address}

    @property
    def touched(self) -> int:
        """Bytes of memory that were accessed, in steps of a shadow cell."""
        lib = library()
        return int(lib.race_touched(lib.race_detector(self._watch)))

    def races(self) -> tuple[Race, ...]:
        """The races found, one for each pair of places in the code."""
        if self._watch is None:
            return ()
        lib = library()
        detector = lib.race_detector(self._watch)
        count = lib.race_count(detector)
        table = (_Race * max(count, 1)).from_address(lib.race_table(detector))
        return tuple(self._race(table[k]) for k in range(count))

    def unwritten(self) -> tuple[Fault, ...]:
        """Reads of what nothing wrote, one for each instruction.

        Of shared memory the address is that of the first such byte and the size that
        of the access; of registers the address is the id of one.
        """
        lib = library()
        told = []
        for address, kind in self._unwritten_reads().items():
            count = lib.race_unwritten_count(address)
            table = (_Unwritten * max(count, 1)).from_address(
                lib.race_unwritten_table(address)
            )
            told += [
                Fault(
                    kind=kind,
                    pc=read.pc,
                    cta=(read.cta[0], read.cta[1], read.cta[2]),
                    warp=read.warp,
                    lane=read.lane,
                    allocation=None,
                    address=(
                        read.address
                        if kind == UNWRITTEN
                        else self._registers[read.address]
                    ),
                    size=read.size,
                    info=0,
                    count=read.count,
                )
                for read in table[:count]
            ]
        return tuple(told)

    def after(self, first: Watcher, *, overlapping: bool) -> tuple[Race, ...]:
        """Races of an earlier launch of the stream with this one.

        A copy here by a tensor map that the earlier launch wrote needs an acquiring
        proxy fence: a kernel's start acquires nothing through that proxy.

        Args:
            first: Watched the earlier launch, to its end.
            overlapping: Whether this one may have run while the earlier one did.
        """
        if self._watch is None or first._watch is None:
            return ()
        lib = library()
        detector = lib.race_detector(self._watch)
        count = lib.race_cross(
            lib.race_detector(first._watch), detector, int(overlapping)
        )
        table = (_Race * max(count, 1)).from_address(lib.race_crossed(detector))
        return tuple(self._race(table[k], first) for k in range(count))

    def met_in_flight(self, first: Watcher) -> bool:
        """Whether it saw what an earlier launch released, before waiting for that."""
        if self._watch is None or first._watch is None:
            return False
        lib = library()
        first_detector = lib.race_detector(first._watch)
        return bool(
            lib.race_met_in_flight(first_detector, lib.race_detector(self._watch))
        )

    @property
    def untimely(self) -> bool:
        """Whether it lets dependents start before its own wait is over."""
        lib = library()
        return self._watch is None or bool(
            lib.race_untimely(lib.race_detector(self._watch))
        )

    def _race(self, race: _Race, first: Watcher | None = None) -> Race:
        return Race(
            space=_SPACES[race.space],
            verdict=_VERDICTS[race.verdict],
            earlier=(first or self)._side(race, 0),
            later=self._side(race, 1),
            address=race.address,
            count=race.count,
            handed_over=None if race.handed_pc == _NONE else race.handed_pc,
            learned=None if race.learned_pc == _NONE else race.learned_pc,
            known=race.known,
            over=(None, "earlier", "later")[race.over],
        )

    def _side(self, race: _Race, which: int) -> Side:
        assert self._geometry is not None
        warps = self._geometry.warps
        per_cta = -(-(warps + _ENGINES + _PIPES * warps) // 16) * 16
        at = race.comp[which] % per_cta
        cta = race.cta[which]
        flags, lane = race.flags[which], race.lane[which]
        warp: int | None = at
        engine = bool(flags & _ENGINE)
        if engine:
            by, lanes = race.by[which], race.by_lanes[which]
            warp = (by - 1) % per_cta if by else None
            lane = (
                ANY_LANE if lanes & (lanes - 1) or not lanes else lanes.bit_length() - 1
            )
        proxy = "async" if flags & _ASYNC else "generic"
        return Side(
            pc=race.pc[which],
            cta=None if cta == _NONE else cta,
            warp=warp,
            lane=None if lane == ANY_LANE else lane,
            engine=engine,
            write=bool(flags & _WRITE),
            proxy="tensormap" if flags == _MAP else proxy,
            clock=race.clock[which],
        )
