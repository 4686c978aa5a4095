"""Cases spread over processes; a worker that dies costs its case, not the run.

Each worker takes a case when it is done with the last one. Cases that may share a
compilation stay with one worker, so that nothing is compiled twice.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from typing import Any

from sidestream.harness.checks import execution
from sidestream.harness.finding import Verdict
from sidestream.harness.run.bench import Bench, kept_keys
from sidestream.harness.run.card_fault import death
from sidestream.harness.run.case import CaseOutcome, run_case, unjudged
from sidestream.harness.run.gpus import take
from sidestream.harness.run.problem import compile_group
from sidestream.harness.run.settings import Settings
from sidestream.harness.run.watchdog import hang
from sidestream.reports.model import Check
from sidestream.scenarios.scenario import Scenario

_GRACE = 60.0
"""Seconds past its deadline after which a worker is ended."""
_POLL = 0.5


@dataclass(kw_only=True)
class _Worker:
    process: Any
    pipe: Connection
    group: tuple[object, ...] | None = None
    index: int | None = None
    since: float = 0.0


@dataclass(kw_only=True)
class Pool:
    """Runs cases in `jobs` processes, or in this one if `jobs` is 1.

    Attributes:
        settings: How to run.
        jobs: Processes.
        origin: `time.time()` at the start of the run.
        on_start: Called with the index of a case when it starts.
    """

    settings: Settings
    jobs: int
    origin: float
    on_start: Callable[[int], None] | None = None
    _workers: list[_Worker] = field(default_factory=list)

    def run(
        self, cases: Sequence[Scenario]
    ) -> Generator[tuple[int, CaseOutcome], None, None]:
        """Yield (index, outcome) of each case as it ends.

        Closing the iterator, or an exception in it, ends the workers.
        """
        # A kernel that hangs on a card costs its process, so that is not this one.
        on_card = self.settings.device == "cuda"
        if not on_card and (self.jobs == 1 or len(cases) <= 1):
            yield from self._here(cases)
            return
        groups: dict[tuple[object, ...], list[int]] = {}
        for index, scenario in enumerate(cases):
            groups.setdefault(compile_group(scenario), []).append(index)
        waiting = sorted(groups.items(), key=lambda item: -len(item[1]))
        queue = {key: list(indices) for key, indices in waiting}
        try:
            for number in range(min(self.jobs, len(queue))):
                self._workers.append(self._start(number))
            while queue or any(w.index is not None for w in self._workers):
                for worker in self._workers:
                    if worker.index is None:
                        self._hand_out(worker, queue, cases)
                yield from self._collect(cases)
        finally:
            self._end()

    def _here(self, cases: Sequence[Scenario]) -> Iterator[tuple[int, CaseOutcome]]:
        bench = Bench(settings=self.settings, origin=self.origin, keys=kept_keys())
        for index, scenario in enumerate(cases):
            if self.on_start:
                self.on_start(index)
            yield index, run_case(bench, scenario)

    def _start(self, number: int) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(
            target=_work,
            args=(theirs, self.settings, self.origin, number),
            daemon=True,
        )
        process.start()
        theirs.close()
        return _Worker(process=process, pipe=ours)

    def _hand_out(
        self,
        worker: _Worker,
        queue: dict[tuple[object, ...], list[int]],
        cases: Sequence[Scenario],
    ) -> None:
        """Give a worker the next case of its group, or of a group nobody has."""
        if worker.group not in queue:
            taken = {w.group for w in self._workers if w is not worker}
            worker.group = next((g for g in queue if g not in taken), None)
        if worker.group is None:
            return
        indices = queue[worker.group]
        index = indices.pop(0)
        if not indices:
            del queue[worker.group]
        worker.index, worker.since = index, time.monotonic()
        if self.on_start:
            self.on_start(index)
        with contextlib.suppress(OSError):  # a dead worker is seen when collecting
            worker.pipe.send(cases[index])

    def _collect(self, cases: Sequence[Scenario]) -> Iterator[tuple[int, CaseOutcome]]:
        busy = {w.pipe: w for w in self._workers if w.index is not None}
        ready = wait(list(busy), timeout=_POLL)
        for pipe, worker in busy.items():
            index = worker.index
            if index is None:
                continue
            limit = self.settings.deadline + _GRACE
            if pipe in ready:
                outcome: CaseOutcome
                try:
                    outcome, dead = pipe.recv()
                except (EOFError, OSError):
                    worker.process.join(5)
                    reason = f"the process died (exit {worker.process.exitcode})"
                    outcome = self._replace(worker, cases[index], reason)
                else:
                    if dead:
                        self._renew(worker)
            elif time.monotonic() - worker.since > limit:
                reason = f"no answer {_GRACE:.0f} s after the deadline"
                outcome = self._replace(worker, cases[index], reason)
                if self.settings.device == "cuda":
                    outcome = self._hung(cases[index], outcome, limit)
            else:
                continue
            worker.index = None
            yield index, outcome

    def _replace(self, worker: _Worker, scenario: Scenario, reason: str) -> CaseOutcome:
        """Put a fresh process in the place of one that is dead or stuck."""
        self._renew(worker)
        return unjudged(self.settings, scenario, reason)

    def _renew(self, worker: _Worker) -> None:
        """Give a worker a fresh process, whose CUDA context is its own."""
        worker.process.kill()
        worker.process.join()
        worker.pipe.close()
        fresh = self._start(self._workers.index(worker))
        worker.process, worker.pipe = fresh.process, fresh.pipe

    def _hung(
        self, scenario: Scenario, outcome: CaseOutcome, seconds: float
    ) -> CaseOutcome:
        """Turn a case that no deadline of its own could end into a finding.

        On a card a launch has no budget: it ends by itself or not at all.
        """
        finding = replace(
            hang(f"scenario {scenario.name}", seconds=seconds, scenario=scenario.name),
            kernel=self.settings.kernel,
            replay=outcome.case.replay,
        )
        case = replace(
            outcome.case,
            verdict=Verdict.FINDINGS,
            checks={execution.NAME: Check(status="failed", reason=finding.message)},
            findings=(finding.id,),
        )
        return replace(outcome, case=case, findings=(finding,), incomplete=())

    def _end(self) -> None:
        for worker in self._workers:
            worker.pipe.close()
            worker.process.join(0.2)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
        self._workers.clear()


def _work(pipe: Connection, settings: Settings, origin: float, number: int) -> None:
    """Serve cases until the pipe closes; Ctrl-C is the parent's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if settings.device == "cuda":
        take(number)
    bench = Bench(
        settings=settings,
        origin=origin,
        track=f"worker {number}",
        keys=kept_keys(),
    )
    with contextlib.suppress(EOFError, OSError):
        while True:
            outcome = run_case(bench, pipe.recv())
            pipe.send((outcome, bool(death())))
