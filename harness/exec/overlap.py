"""Launches that overlap: programmatic dependent launch (PTX ISA, "griddepcontrol").

A dependent launch may start once every CTA of its predecessor has executed
`griddepcontrol.launch_dependents` or is over. Its own `griddepcontrol.wait` returns
when all launches before it have completed. Until then both run at once, in slices drawn
from the seed, and see each other's memory as it is.
"""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sidestream.harness.exec.machine import Options, Running
from sidestream.harness.exec.observer import Observer
from sidestream.harness.exec.program import Program
from sidestream.harness.exec.result import Result
from sidestream.harness.launch import Launch

_SLICES = (20, 200, 2_000, 20_000)
"""Warp instructions of a drawn slice: from a few steps ahead to far behind."""
_WHOLE = 1_000_000
_MOST_THREADS = 2048
_RESERVED = 1024
"""Bytes of shared memory that the driver takes for every CTA."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """One of several launches: a kernel ready to execute, and how it is launched."""

    program: Program
    launch: Launch

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        x, y, z = self.launch.block
        return x * y * z

    @property
    def smem(self) -> int:
        """Shared memory of a CTA in bytes, with the driver's part."""
        return self.program.static_smem + self.launch.dynamic_smem + _RESERVED


def fit_together(works: Sequence[Work], options: Options) -> bool:
    """Whether one multiprocessor can hold a CTA of each launch at the same time."""
    return (
        sum(work.threads for work in works) <= _MOST_THREADS
        and sum(work.smem for work in works) <= options.max_smem + _RESERVED
        and sum(work.program.tensor_memory for work in works) <= 1
    )


def execute_overlapped(
    works: Sequence[Work],
    allocations: NDArray[np.void],
    options: Options | None = None,
    progress: Callable[[int], None] | None = None,
    observers: Sequence[Observer | Sequence[Observer]] = (),
) -> tuple[Result, ...]:
    """Execute launches of one stream, each but the first dependent on the one before.

    With seed 0 they run one after another. With any other seed they share the chip:
    side by side where a multiprocessor holds CTAs of all, else in the slots that the
    earlier ones leave free. A launch whose predecessor did not complete is not
    executed further; its result says `prerequisite`.

    Args:
        works: In stream order.
        allocations: As for `execute`; the launches share them.
        options: As for `execute`; the budget is that of each launch, the deadline
            that of all together.
        progress: Called between slices with the warp instructions done so far.
        observers: One or several for each launch, or none.

    Raises:
        UsageError: for a launch no device would accept.
        MemoryError: if the resident CTAs do not fit.
    """
    together = _Together(works, allocations, options or Options(), observers)
    try:
        while together.step():
            if progress:
                progress(together.executed())
        return together.results()
    finally:
        together.close()


class _Together:
    def __init__(
        self,
        works: Sequence[Work],
        allocations: NDArray[np.void],
        options: Options,
        observers: Sequence[Observer | Sequence[Observer]],
    ) -> None:
        self._works = works
        self._observers = observers
        self._allocations = allocations
        self._options = options
        self._draw = random.Random(options.seed)
        self._share = fit_together(works, options)
        self._running: list[Running] = []
        self._status: list[str] = []
        self._seconds = [0.0] * len(works)
        self._began = time.perf_counter()
        self._late = False

    def step(self) -> bool:
        """Run one slice of one launch; False when nothing is left to run."""
        self._start()
        sound = self._sound()
        alive = [k for k in range(sound) if self._status[k] == "steps"]
        if not alive or self._late:
            return False
        chosen = self._draw.choice(alive) if self._options.seed else alive[0]
        running = self._running[chosen]
        if not self._share:
            taken = sum(r.live_ctas() for r in self._running if r is not running)
            running.hold(max(0, running.slots() - taken))
        steps = self._draw.choice(_SLICES) if self._options.seed else _WHOLE
        began = time.perf_counter()
        self._status[chosen] = running.run(steps)
        self._seconds[chosen] += time.perf_counter() - began
        if self._status[chosen] == "done":
            self._release()
        deadline = self._options.deadline
        self._late = deadline is not None and (
            time.perf_counter() - self._began > deadline
        )
        return True

    def _sound(self) -> int:
        """How many launches have no failed one before or among them."""
        for k, status in enumerate(self._status):
            if status not in ("steps", "done"):
                return k
        return len(self._status)

    def _start(self) -> None:
        """Start the next launch if the one before lets it."""
        number = len(self._running)
        if number == len(self._works) or self._sound() < number:
            return
        if self._running and not self._running[-1].lets_dependents_start():
            return
        work = self._works[number]
        options = self._options
        if number:  # launches do not draw the same schedule
            options = dataclasses.replace(
                options, seed=options.seed and self._draw.getrandbits(63) | 1
            )
        observer = self._observers[number] if self._observers else None
        self._running.append(
            Running(work.program, work.launch, self._allocations, options, observer)
        )
        self._status.append("steps")
        self._release()

    def _release(self) -> None:
        """Tell every launch whether all before it have completed."""
        pending = False
        for running, status in zip(self._running, self._status, strict=True):
            running.depend(pending=pending)
            pending = pending or status != "done"

    def executed(self) -> int:
        """Warp instructions of all launches."""
        return sum(running.executed() for running in self._running)

    def results(self) -> tuple[Result, ...]:
        """One for each launch."""
        found = [
            running.result(seconds, late=self._late)
            for running, seconds in zip(self._running, self._seconds, strict=False)
        ]
        # What could go no further for another's sake has no fault of its own.
        found = [
            dataclasses.replace(r, status="prerequisite") if r.status == "steps" else r
            for r in found
        ]
        found += [_never_ran(work) for work in self._works[len(found) :]]
        return tuple(found)

    def close(self) -> None:
        """Give all memory back."""
        for running in self._running:
            running.close()


def _never_ran(work: Work) -> Result:
    return Result(
        status="prerequisite",
        stop_pc=0,
        faults=(),
        dropped_faults=0,
        waiting=(),
        warp_instructions=0,
        mma_flops=0,
        tma_bytes=0,
        seconds=0.0,
        counts=np.zeros(len(work.program.code), np.uint64),
    )
