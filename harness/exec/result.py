"""What executing a launch gave: its state, its faults and who still waits."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sidestream.harness.exec import abi, cost
from sidestream.harness.exec.build import load, pointer
from sidestream.harness.exec.program import Program
from sidestream.harness.exec.schedule import Choices

_NO_LANE = 0xFFFF_FFFF
"""`NO_LANE` of `core/core.h`."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One defect: its first occurrence, and how often it came.

    Attributes:
        warp: Warp that did it, or that issued the operation which did.
        lane: Its lane; None where the warp acts as a whole.
        engine: Whether an asynchronous operation did it.
    """

    kind: str
    pc: int
    cta: tuple[int, int, int]
    warp: int
    lane: int | None
    allocation: int | None
    address: int
    size: int
    info: int
    count: int
    engine: bool = False


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A warp that did not finish, and what it waits for."""

    cta: tuple[int, int, int]
    warp: int
    pc: int
    mask: int
    kind: str
    address: int
    info: int
    word: int = 0
    """Of the mbarrier that it waits for, as the core keeps it; else 0."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What one instruction of one warp has done at one mbarrier.

    Attributes:
        cta: Of the mbarrier.
        by: The CTA of the warp.
        offset: Of the mbarrier, in bytes of the CTA's shared memory.
        pc: Bytecode row.
        warp: The warp, or the one that issued the operation which landed.
        op: `enum MbarOp` of `core/mbarrier.h`.
        last: Phase in which it last happened, counted from 0; of a wait that was
            passed the number of phases that were over.
        phases: Number of phases in which it happened.
        phase: The phase that the mbarrier is in.
        amount: Arrivals or bytes of phase `last`.
        before: The same of the phase before in which it happened.
    """

    cta: tuple[int, int, int]
    by: tuple[int, int, int]
    offset: int
    pc: int
    warp: int
    op: int
    last: int
    phases: int
    phase: int
    amount: int
    before: int


@dataclass(frozen=True, kw_only=True)
class Result:
    """What executing a launch gave.

    `status` is `done`, `budget`, `deadline`, `deadlock`, `unsupported`, `trap`,
    `divergent-sync` or `internal`; anything but `done` left the work unfinished.
    `prerequisite` is a dependent launch whose prerequisite did not complete.
    """

    status: str
    stop_pc: int
    faults: tuple[Fault, ...]
    dropped_faults: int
    waiting: tuple[Waiting, ...]
    warp_instructions: int
    mma_flops: int
    tma_bytes: int
    seconds: float
    counts: NDArray[np.uint64]
    """Executions of every bytecode row."""
    unfinished: int = 0
    """Mbarriers that CTAs left in the middle of a phase when they exited."""
    costs: cost.Costs | None = None
    """What the cost model counted, if it was asked for."""
    seen: tuple[Seen, ...] = ()
    """Who was at which mbarrier, where nothing could go on."""
    made: bytes = b""
    """Decisions of the scheduler that were not the usual ones, as the core has them."""

    @property
    def choices(self) -> Choices:
        """Decisions of the scheduler that were not the usual ones."""
        return choices_of(self.made)


def choices_of(made: bytes) -> Choices:
    """Return decisions as the core has them as numbers and answers."""
    pairs = np.frombuffer(made, abi.CHOICE_PAIR).reshape(-1, 2)
    return tuple((int(at), int(answer)) for at, answer in pairs.tolist())


def read_result(
    program: Program, machine: int, seconds: float, *, late: bool = False
) -> Result:
    """Copy out what a machine of the core holds; `late`: it was given up."""
    core = load()
    stats = abi.Stats()
    core.lib.ss_stats(machine, ctypes.byref(stats))

    def view(address: int, count: int, dtype: np.dtype[np.void]) -> NDArray[np.void]:
        raw = ctypes.string_at(address, count * dtype.itemsize)
        return np.frombuffer(raw, dtype)

    faults = view(core.lib.ss_faults(machine), stats.n_faults, abi.FAULT_DTYPE)
    raw = ctypes.string_at(core.lib.ss_counts(machine), 8 * len(program.code))
    status = abi.STATUSES[stats.status]
    waiting: tuple[Waiting, ...] = ()
    if status != "done":
        buffer = np.zeros(4096, abi.BLOCKED_DTYPE)
        count = core.lib.ss_blocked(machine, pointer(buffer), len(buffer))
        waiting = tuple(_waiting(b) for b in buffer[:count])
    stuck = status in ("deadlock", "divergent-sync")
    return Result(
        status="deadline" if late and status == "steps" else status,
        stop_pc=stats.stop_pc,
        faults=tuple(_fault(f) for f in faults),
        dropped_faults=stats.dropped_faults,
        unfinished=stats.unfinished,
        waiting=waiting,
        seen=read_seen(machine) if stuck else (),
        warp_instructions=stats.executed,
        mma_flops=stats.mma_flops,
        tma_bytes=stats.tma_bytes,
        seconds=seconds,
        counts=np.frombuffer(raw, np.uint64),
        made=_choices(machine),
    )


def _choices(machine: int) -> bytes:
    """The schedule of an execution; empty if it was too long to keep."""
    core = load()
    number, dropped = ctypes.c_uint32(), ctypes.c_uint32()
    decisions = ctypes.c_uint64()
    at = core.lib.ss_choices(
        machine,
        ctypes.byref(number),
        ctypes.byref(decisions),
        ctypes.byref(dropped),
    )
    if not at or dropped.value:
        return b""
    return ctypes.string_at(at, 8 * number.value)


def _triple(values: NDArray[np.uint32]) -> tuple[int, int, int]:
    return int(values[0]), int(values[1]), int(values[2])


def _fault(f: np.void) -> Fault:
    alloc = int(f["alloc"])
    return Fault(
        kind=abi.FAULT_KINDS[int(f["kind"])],
        pc=int(f["pc"]),
        cta=_triple(f["cta"]),
        warp=int(f["warp"]),
        lane=None if f["lane"] == _NO_LANE else int(f["lane"]),
        allocation=None if alloc == 0xFFFF_FFFF else alloc,
        address=int(f["addr"]),
        size=int(f["size"]),
        info=int(f["info"]),
        count=int(f["count"]),
        engine=bool(f["engine"]),
    )


def read_seen(machine: int) -> tuple[Seen, ...]:
    """Copy out who has done what at the mbarriers of the CTAs that are alive."""
    core = load()
    number = core.lib.ss_ledger(machine, None, 0)
    lines = np.zeros(number, abi.LEDGER_DTYPE)
    core.lib.ss_ledger(machine, pointer(lines), number)
    return tuple(_seen(line) for line in lines)


def _seen(line: np.void) -> Seen:
    return Seen(
        cta=_triple(line["cta"]),
        by=_triple(line["by"]),
        offset=int(line["at"]),
        pc=int(line["pc"]),
        warp=int(line["warp"]),
        op=int(line["op"]),
        last=int(line["last"]),
        phases=int(line["phases"]),
        phase=int(line["phase"]),
        amount=int(line["amount"]),
        before=int(line["before"]),
    )


def _waiting(b: np.void) -> Waiting:
    return Waiting(
        cta=_triple(b["cta"]),
        warp=int(b["warp"]),
        pc=int(b["pc"]),
        mask=int(b["mask"]),
        kind=abi.BLOCK_KINDS[int(b["kind"])],
        address=int(b["addr"]),
        info=int(b["info"]),
        word=int(b["word"]),
    )
