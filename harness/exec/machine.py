"""Execute a lowered kernel on the virtual GPU."""

from __future__ import annotations

import ctypes
import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sidestream.harness.errors import UsageError
from sidestream.harness.exec import abi, cost
from sidestream.harness.exec.build import load, pointer
from sidestream.harness.exec.observer import Geometry, Observer
from sidestream.harness.exec.program import Program, arch_number
from sidestream.harness.exec.result import Result, Seen, read_result, read_seen
from sidestream.harness.exec.schedule import Choices, Schedule
from sidestream.harness.launch import Launch

_FIRST_SLICE, _MOST_SLICE = 50_000, 20_000_000
_SLICE_SECONDS = 0.2
_MAX_SMEM = 227 * 1024
_MAX_RESIDENT_BYTES = 4 << 30
_HORIZON = 200_000
"""Warp instructions within which `pct` lets warps fall behind."""
_TENSOR_MEMORY = 512 * 128 * 4
_GRID_LIMITS = (2**31 - 1, 65535, 65535)
_BLOCK_LIMITS = (1024, 1024, 64)


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to execute.

    Attributes:
        seed: 0 runs round-robin with operations landing at once; any other value
            draws the schedule from it.
        budget: Warp instructions after which the run is given up.
        deadline: Seconds of wall time after which it is given up, or None.
        sms: Streaming multiprocessors; with `ctas_per_sm` the CTAs alive at once.
        ctas_per_sm: CTAs resident on one multiprocessor.
        quantum: Warp instructions a warp runs before another gets its turn.
        smem_fill: 32-bit pattern found in uninitialised shared memory.
        register_fill: 32-bit pattern found in uninitialised registers.
        tensor_fill: 32-bit pattern found in uninitialised tensor memory, or None for
            that of registers.
        max_smem: Shared memory in bytes a CTA may have on the chip.
        tensor_memory_check: Whether a read of tensor memory that nothing has written is
            a fault. Known by quarters of columns: a write to any of 32 lanes counts.
        shared_memory_check: Whether whoever looks for races is to tell of reads of
            shared memory that nothing has written, too.
        register_check: The same of registers.
        isa_order: Whether `tcgen05.mma` of one thread are in order only where the PTX
            ISA promises it, and not always.
        cost: What the cost model charges; None leaves it out.
        policy: With a seed, who makes the scheduler's decisions: `random`, `pct` or
            `given` (`exec/schedule.py`).
        depth: Of `pct`.
        choices: Of `given`.
    """

    seed: int = 0
    budget: int = 2_000_000_000
    deadline: float | None = None
    sms: int = 4
    ctas_per_sm: int = 1
    quantum: int = 256
    smem_fill: int = 0xFFFF_FFFF
    register_fill: int = 0x7FC0_DEAD
    tensor_fill: int | None = None
    max_smem: int = _MAX_SMEM
    tensor_memory_check: bool = True
    shared_memory_check: bool = True
    register_check: bool = True
    isa_order: bool = False
    cost: cost.CostTable | None = None
    policy: str = "random"
    depth: int = 0
    choices: Choices = ()

    def scheduled(self, schedule: Schedule) -> Options:
        """Return the options with another schedule."""
        given = schedule.policy == "given"
        return dataclasses.replace(
            self,
            seed=1 if given else schedule.seed,
            policy=schedule.policy if schedule.seed or given else "random",
            depth=schedule.depth,
            choices=schedule.choices,
        )


def _geometry(
    program: Program, launch: Launch, resident: int, options: Options
) -> Geometry:
    """What `ss_create` makes of the launch."""
    cluster = launch.cluster[0] * launch.cluster[1] * launch.cluster[2]
    ctas = launch.grid[0] * launch.grid[1] * launch.grid[2]
    slots = min(resident * options.ctas_per_sm, ctas) // cluster * cluster
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    return Geometry(
        slots=max(slots, cluster),
        cluster=cluster,
        warps=-(-threads // 32),
        smem=program.static_smem + launch.dynamic_smem,
    )


def parameter_block(program: Program, launch: Launch) -> NDArray[np.uint8]:
    """Lay the launch's parameters out as the parameter space.

    Raises:
        UsageError: if their number or sizes differ from the kernel's declaration.
    """
    declared = program.function.params
    if len(launch.params) != len(declared):
        raise UsageError(
            f"{launch.kernel} declares {len(declared)} parameters, the launch has "
            f"{len(launch.params)}"
        )
    end = max((p.offset + p.size for p in declared), default=0)
    block = np.zeros(end + 64, np.uint8)
    for param, data in zip(declared, launch.params, strict=True):
        if len(data) != param.size:
            raise UsageError(
                f"parameter {param.name} of {launch.kernel} has {param.size} bytes, "
                f"the launch gives {len(data)}"
            )
        block[param.offset : param.offset + param.size] = np.frombuffer(data, np.uint8)
    return block


def check_geometry(program: Program, launch: Launch, options: Options) -> None:
    """Reject a launch that no device would accept.

    Raises:
        UsageError: naming the dimension or size and its limit.
    """
    for name, dims, limits in (
        ("grid", launch.grid, _GRID_LIMITS),
        ("block", launch.block, _BLOCK_LIMITS),
    ):
        for axis, dim, limit in zip("xyz", dims, limits, strict=True):
            if not 1 <= dim <= limit:
                raise UsageError(f"{name}.{axis} is {dim}, allowed are 1..{limit}")
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    if threads > 1024:
        raise UsageError(f"a block of {threads} threads, allowed are at most 1024")
    size = launch.cluster[0] * launch.cluster[1] * launch.cluster[2]
    if not all(c >= 1 for c in launch.cluster) or size > 16:
        raise UsageError(f"cluster {launch.cluster}, allowed are 1..16 CTAs")
    for axis, dim, part in zip("xyz", launch.grid, launch.cluster, strict=True):
        if dim % part:
            raise UsageError(
                f"grid.{axis} {dim} is not a multiple of the cluster's {part}"
            )
    if launch.grid[0] * launch.grid[1] * launch.grid[2] >= 2**32:
        raise UsageError(f"a grid of {launch.grid} has more than 2^32 CTAs")
    smem = program.static_smem + launch.dynamic_smem
    if launch.dynamic_smem < 0 or smem > options.max_smem:
        raise UsageError(
            f"{launch.kernel} wants {smem} bytes of shared memory a CTA, the chip has "
            f"{options.max_smem}"
        )


class Running:
    """A launch that is being executed, slice by slice; close it in the end.

    Args:
        program: The lowered kernel.
        launch: Grid, block, cluster, dynamic shared memory, parameters.
        allocations: `ALLOC_DTYPE` rows sorted by `va`; the memory they name must
            stay alive until `close` and is written in place.
        options: Schedule, budgets, chip limits.
        observer: Told of every access and synchronisation; it changes no byte.

    Raises:
        UsageError: for a launch no device would accept.
        MemoryError: if the resident CTAs do not fit.
    """

    def __init__(
        self,
        program: Program,
        launch: Launch,
        allocations: NDArray[np.void],
        options: Options,
        observer: Observer | Sequence[Observer] | None = None,
    ) -> None:
        check_geometry(program, launch, options)
        self._lib = load().lib
        self._program = program
        self._params = parameter_block(program, launch)
        allocs = np.ascontiguousarray(allocations, abi.ALLOC_DTYPE)
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        warps = -(-threads // 32)
        smem = program.static_smem + launch.dynamic_smem
        each = warps * (program.rf_bytes + program.local_bytes * 32) + smem
        each += _TENSOR_MEMORY if program.tensor_memory else 0
        resident = max(1, min(options.sms, _MAX_RESIDENT_BYTES // max(each, 1)))
        config = abi.Config(
            code=pointer(program.code),
            ext=pointer(program.ext),
            consts=pointer(program.consts),
            params=pointer(self._params),
            allocs=pointer(allocs) if len(allocs) else None,
            seed=options.seed & (2**64 - 1),
            budget=options.budget,
            n_code=len(program.code),
            n_ext=len(program.ext),
            n_consts=len(program.consts),
            n_params=len(self._params) - 64,
            n_allocs=len(allocs),
            rf_bytes=program.rf_bytes,
            smem_size=smem,
            local_bytes=program.local_bytes,
            grid=launch.grid,
            block=launch.block,
            cluster=launch.cluster,
            n_sms=resident,
            ctas_per_sm=options.ctas_per_sm,
            quantum=options.quantum,
            smem_fill=options.smem_fill,
            reg_fill=options.register_fill,
            tmem_fill=(
                options.register_fill
                if options.tensor_fill is None
                else options.tensor_fill
            ),
            arch=arch_number(program.function.target),
            regs_per_thread=_registers(program, threads),
            tensor_memory=program.tensor_memory,
            tmem_check=options.tensor_memory_check,
            isa_order=options.isa_order,
        )
        self._clocks = cost.Clocks(program, options.cost) if options.cost else None
        geometry = _geometry(program, launch, resident, options)
        observers = observer if isinstance(observer, Sequence) else (observer,)
        watching = [o.attach(geometry) for o in (*observers, self._clocks) if o]
        self._observers = (ctypes.c_void_p * (len(watching) + 1))(*watching)
        if watching:
            config.observer = ctypes.addressof(self._observers)
        self._choices = np.array(options.choices, abi.CHOICE_PAIR).reshape(-1, 2)
        config.policy = abi.POLICIES.index(options.policy)
        config.depth = options.depth
        config.horizon = _HORIZON
        config.choices = pointer(self._choices)
        config.n_choices = len(self._choices)
        self._machine: int | None = self._lib.ss_create(ctypes.byref(config))
        if not self._machine:
            self.close()
            raise MemoryError(
                f"{launch.kernel}: {resident} resident CTAs of {each >> 20} MiB do not "
                "fit"
            )

    def run(self, steps: int) -> str:
        """Execute about `steps` warp instructions; `steps` if there are more."""
        return abi.STATUSES[self._lib.ss_run(self._machine, steps)]

    def executed(self) -> int:
        """Warp instructions so far."""
        stats = abi.Stats()
        self._lib.ss_stats(self._machine, ctypes.byref(stats))
        return int(stats.executed)

    def seen(self) -> tuple[Seen, ...]:
        """Who has done what at the mbarriers of the CTAs that are alive."""
        assert self._machine
        return read_seen(self._machine)

    def result(self, seconds: float, *, late: bool = False) -> Result:
        """Return what it has given up to now."""
        assert self._machine
        result = read_result(self._program, self._machine, seconds, late=late)
        if self._clocks:
            result = dataclasses.replace(result, costs=self._clocks.read())
        return result

    def close(self) -> None:
        """Give its memory back."""
        self._lib.ss_destroy(self._machine)
        self._machine = None
        if self._clocks:
            self._clocks.close()

    # --- together with other launches (exec/overlap.py) -------------------------
    def depend(self, *, pending: bool) -> None:
        """Say whether a launch that it depends on is still running."""
        self._lib.ss_prerequisite(self._machine, int(pending))

    def lets_dependents_start(self) -> bool:
        """Whether every CTA has allowed it, or is over."""
        return bool(self._lib.ss_dependents_may_start(self._machine))

    def hold(self, ctas: int) -> None:
        """Let at most so many CTAs be alive at once."""
        self._lib.ss_hold(self._machine, ctas)

    def live_ctas(self) -> int:
        """CTAs alive."""
        return int(self._lib.ss_live_ctas(self._machine))

    def slots(self) -> int:
        """CTAs that it may have alive when it has the chip for itself."""
        return int(self._lib.ss_slots(self._machine))


def execute(
    program: Program,
    launch: Launch,
    allocations: NDArray[np.void],
    options: Options | None = None,
    progress: Callable[[int], None] | None = None,
    observer: Observer | Sequence[Observer] | None = None,
) -> Result:
    """Execute one launch to its end, or to the first reason to stop.

    Args:
        program: The lowered kernel.
        launch: Grid, block, cluster, dynamic shared memory, parameters.
        allocations: `ALLOC_DTYPE` rows sorted by `va`; the memory they name must
            stay alive during the call and is written in place.
        options: Schedule, budgets, chip limits.
        progress: Called between slices with the warp instructions done so far.
        observer: Told of every access and synchronisation, one or several; it
            changes no byte.

    Raises:
        UsageError: for a launch no device would accept.
        MemoryError: if the resident CTAs do not fit.
    """
    options = options or Options()
    running = Running(program, launch, allocations, options, observer)
    began = time.perf_counter()
    late = False
    steps, last = _FIRST_SLICE, 0.0
    try:
        # Python gets control back often enough for Ctrl-C, progress and deadlines.
        while running.run(steps) == "steps":
            spent = time.perf_counter() - began
            if options.deadline is not None and spent > options.deadline:
                late = True
                break
            fast = spent - last < _SLICE_SECONDS / 2
            steps = min(steps * 2, _MOST_SLICE) if fast else max(steps // 2, 1000)
            last = spent
            if progress:
                progress(running.executed())
        return running.result(time.perf_counter() - began, late=late)
    finally:
        running.close()


def _registers(program: Program, threads: int) -> int:
    """Registers a thread starts with: the maximum the launch bounds leave room for."""
    bound = program.function.directives.get("maxnreg")
    if bound:
        return bound[0]
    warps = -(-threads // 32)
    return max(24, min(255, 65536 // (warps * 32) // 8 * 8))
