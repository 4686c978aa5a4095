"""The cost model of executed code: what is charged, and what the core counted.

Units are abstract: one is an issue slot of a warp. They order kernels by what they
execute and wait for; they are no cycles of a chip.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sidestream.harness.exec import abi
from sidestream.harness.exec.build import load, pointer
from sidestream.harness.exec.observer import Geometry
from sidestream.harness.exec.program import Program
from sidestream.harness.exec.registers import MOVES
from sidestream.harness.ptx import ir

WARPS = 32
UNITS = (
    *("tcgen05", "mma.sync", "tmem", "tma load", "tma store", "cp.async", "remote"),
)
"""Units that work beside the warps' issue slots, in the order of `enum CostPart`."""
WAITS = ("mbarrier", "barrier", "group", "cluster")
"""What a warp can wait for, in the order of `enum CostWait`."""
PARTS = WARPS + len(UNITS)


@dataclass(frozen=True, kw_only=True)
class Unit:
    """Cost of one operation: `ceil(size / rate) + latency` units of time.

    Attributes:
        rate: Flops or bytes a unit of time.
        latency: From the end of the operation until who waits for it goes on.
    """

    rate: int
    latency: int = 0


@dataclass(frozen=True, kw_only=True)
class CostTable:
    """The parameters of the model.

    An instruction costs its warp one unit, also if its guard holds in no lane; a
    `mov` costs none. The rates are near those of
    one multiprocessor a clock in public data of the chips; the latencies are round
    numbers of their order. All of them are assumptions to compare kernels under.

    Attributes:
        units: By unit, for `UNITS`.
    """

    units: Mapping[str, Unit] = field(
        default_factory=lambda: {
            "tcgen05": Unit(rate=8192, latency=64),
            "mma.sync": Unit(rate=256),
            "tmem": Unit(rate=128),
            "tma load": Unit(rate=64, latency=512),
            "tma store": Unit(rate=64, latency=512),
            "cp.async": Unit(rate=64, latency=512),
            "remote": Unit(rate=64, latency=512),
        }
    )

    def __post_init__(self) -> None:
        if tuple(self.units) != UNITS:
            raise ValueError(f"units {tuple(self.units)} are not {UNITS}")
        if any(unit.rate < 1 or unit.latency < 0 for unit in self.units.values()):
            raise ValueError("rates must be positive and latencies not negative")


@dataclass(frozen=True, kw_only=True)
class Path:
    """A dependency chain: its length in units, and of what it is made.

    Attributes:
        length: The sum of the parts.
        warps: (32,) issue slots, by warp of the CTA.
        units: Time in each of `UNITS`.
    """

    length: int
    warps: NDArray[np.uint64]
    units: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class WarpWaits:
    """What one warp number waited for, in all CTAs.

    Attributes:
        passed: By `WAITS`, waits that ended.
        late: Of these, those whose event came after the warp on the virtual clock.
        units: How much later, in sum.
        causes: The same units by who ended the wait: `UNITS`, or `warp N`.
    """

    passed: Mapping[str, int]
    late: Mapping[str, int]
    units: Mapping[str, int]
    causes: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What the core counted in one launch.

    Attributes:
        rows: (warps, rows) issues of every bytecode row by warp of the CTA, those whose
            guard held in no lane included.
        lanes: (rows,) active lanes in sum.
        work: (rows,) flops or bytes of the asynchronous operations it issued.
        waits: By warp of the CTA.
        ctas: CTAs that ended.
        chain: Sum of the longest chains of all CTAs.
        longest: The longest of them.
    """

    rows: NDArray[np.uint64]
    lanes: NDArray[np.uint64]
    work: NDArray[np.uint64]
    waits: tuple[WarpWaits, ...]
    ctas: int
    chain: Path
    longest: Path


def main_rows(program: Program) -> NDArray[np.bool_]:
    """Mark one row of each PTX instruction: the one that is executed when it is.

    The rows before it convert operands whether or not the guard holds.
    """
    marked = np.zeros(len(program.code), np.bool_)
    guarded = program.code["guard"] != abi.NOREF
    rows_of: dict[int, list[int]] = {}
    for row, index in enumerate(program.origin.tolist()):
        if index >= 0:
            rows_of.setdefault(index, []).append(row)
    for rows in rows_of.values():
        marked[[r for r in rows if guarded[r]][-1:] or rows[-1:]] = True
    return marked


def mma_flops(ins: ir.Instruction) -> int:
    """Flops of a `mma.sync`, from its shape m16n8k16 and the like; 0 for others."""
    if ins.op not in ("mma.sync", "mma.sp.sync"):
        return 0
    sizes = str(ins.mods["shape"]).replace("m", " ").replace("n", " ").replace("k", " ")
    m, n, k = (int(size) for size in sizes.split())
    return 2 * m * n * k


def registers_moved(ins: ir.Instruction) -> int:
    """Registers a lane exchanges with tensor memory."""
    if ins.op not in ("tcgen05.ld", "tcgen05.ld.red", "tcgen05.st"):
        return 0
    vector = ins.args["a" if ins.op == "tcgen05.st" else "d"]
    return len(vector.elements) if isinstance(vector, ir.Vector) else 1


def charges(program: Program, table: CostTable) -> NDArray[np.void]:
    """Return (rows,) what the core charges for each row (`struct CostRow`)."""
    kind = np.dtype([(n, "u4") for n in ("issue", "extra", "part", "pad")])
    charged = np.zeros(len(program.code), kind)
    for row in np.flatnonzero(main_rows(program)).tolist():
        ins = program.instruction(row)
        if ins is None:
            continue
        charged[row]["issue"] = ins.op not in MOVES
        for unit, size in (
            ("mma.sync", mma_flops(ins)),
            ("tmem", registers_moved(ins) * WARPS * 4),
        ):
            if size:
                charged[row]["extra"] = -(-size // table.units[unit].rate)
                charged[row]["part"] = WARPS + UNITS.index(unit)
    return charged


class Clocks:
    """The cost model of one execution: an observer of it.

    Args:
        program: What will be executed.
        table: What is charged.
    """

    def __init__(self, program: Program, table: CostTable) -> None:
        self._rows = len(program.code)
        self._charged = charges(program, table)
        self._table = abi.CostTable(rows=pointer(self._charged))
        for slot, unit in zip(self._table.unit, table.units.values(), strict=True):
            slot.rate, slot.latency = unit.rate, unit.latency
        self._warps = 0
        self._clocks: int | None = None

    def attach(self, geometry: Geometry) -> int:
        """Return the address of the observer for a machine of this geometry.

        Raises:
            MemoryError: it does not fit.
        """
        lib = load().lib
        self._warps = geometry.warps
        self._clocks = lib.cost_new(
            geometry.slots, geometry.warps, geometry.smem, self._rows, self._table
        )
        if not self._clocks:
            raise MemoryError("the cost model does not fit")
        return int(lib.cost_observer(self._clocks))

    def read(self) -> Costs:
        """Copy out what was counted up to now."""
        lib = load().lib

        def take(what: int, count: int) -> NDArray[np.uint64]:
            raw = ctypes.string_at(lib.cost_result(self._clocks, what), 8 * count)
            return np.frombuffer(raw, np.uint64)

        each = 3 * len(WAITS) + PARTS
        path = 2 + PARTS
        waits = take(3, each * WARPS).reshape(WARPS, each)
        totals = take(4, 1 + 2 * path)
        return Costs(
            rows=take(0, self._rows * self._warps).reshape(self._warps, self._rows),
            lanes=take(1, self._rows),
            work=take(2, self._rows),
            waits=tuple(_waits(waits[k]) for k in range(self._warps)),
            ctas=int(totals[0]),
            chain=_path(totals[1 : 1 + path]),
            longest=_path(totals[1 + path :]),
        )

    def close(self) -> None:
        """Give its memory back."""
        load().lib.cost_free(self._clocks)
        self._clocks = None


def _path(words: NDArray[np.uint64]) -> Path:
    parts = words[2:]
    return Path(
        length=int(words[0]),
        warps=parts[:WARPS],
        units=_named(UNITS, parts[WARPS:]),
    )


def _waits(words: NDArray[np.uint64]) -> WarpWaits:
    n = len(WAITS)
    names = (*(f"warp {k}" for k in range(WARPS)), *UNITS)
    causes = _named(names, words[3 * n :])
    return WarpWaits(
        passed=_named(WAITS, words[:n]),
        late=_named(WAITS, words[n : 2 * n]),
        units=_named(WAITS, words[2 * n : 3 * n]),
        causes={name: units for name, units in causes.items() if units},
    )


def _named(names: tuple[str, ...], values: NDArray[np.uint64]) -> dict[str, int]:
    return {name: int(v) for name, v in zip(names, values, strict=True)}
