"""What the harness costs on a card: `python -m benchmarks.card_cost`.

*Bare* is what a test without the harness does: make the tensors, compute the float64
reference with its bound, send, execute once, fetch, compare. *Every check* is a case
that shows all by itself, *in a run* one of many, as `sidestream check --device cuda`
makes them: what host code does is shown once for each plan. Code is compiled before.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import statistics
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sidestream.harness.drivers.protocol import Prepared
from sidestream.harness.exec.machine import Options
from sidestream.harness.run.bench import Bench
from sidestream.harness.run.card_call import CardCall
from sidestream.harness.run.card_case import CardRun
from sidestream.harness.run.card_world import card_arch
from sidestream.harness.run.phases import Phases
from sidestream.harness.run.problem import problem_of
from sidestream.harness.run.settings import Settings
from sidestream.scenarios import catalogue, trace
from sidestream.scenarios.case import build
from sidestream.scenarios.core import CORE_TAG
from sidestream.scenarios.scenario import Scenario


class BareRun(CardRun):
    """One execute of a case, held against the reference."""

    def bare(self) -> None:
        """Build, execute once, compare."""
        driver: Any = self.bench.implementation()
        inputs = build(self.scenario)
        limits, why = self._bounds(inputs)
        world: Any = self.world()
        prepared: Prepared = driver.prepare(problem_of(self.scenario), world)
        call = CardCall(
            world,
            inputs,
            workspace_bytes=prepared.workspace_bytes,
            phases=self.phases,
        )
        self.runs.append(
            call.execute(
                prepared, label="bare", pattern=self.scenario.scratch, options=Options
            )
        )
        self._parity(inputs, limits, why)


def seconds(work: Callable[[], object], rounds: int) -> float:
    """Return the median time of some rounds."""
    spent = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        spent.append(time.perf_counter() - began)
    return statistics.median(spent)


def profile(scenario: Scenario) -> None:
    """Print where the time of a case goes, compiled before."""
    bench = Bench(settings=Settings(device="cuda", arch=card_arch() or ""))
    profiler = cProfile.Profile()
    for _ in range(3):
        CardRun(bench, scenario, Phases(origin=0.0, track="")).run()
    began = time.perf_counter()
    for _ in range(20):
        CardRun(bench, scenario, Phases(origin=0.0, track="")).run()
    print(f"{(time.perf_counter() - began) / 20 * 1e3:.2f} ms a case")
    with profiler:
        for _ in range(5):
            CardRun(bench, scenario, Phases(origin=0.0, track="")).run()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(30)
    pstats.Stats(profiler).sort_stats("cumulative").print_stats(45)


def measure(scenarios: list[Scenario], rounds: int) -> list[dict[str, Any]]:
    """Return one row a scenario: bare, with every check, and as a run has it."""
    bench = Bench(settings=Settings(device="cuda", arch=card_arch() or ""))
    rows = []

    def case(kind: type[CardRun], scenario: Scenario) -> Any:
        return kind(bench, scenario, Phases(origin=0.0, track=""))

    def every(scenario: Scenario) -> None:
        bench.watched.clear()  # as if no case before had shown anything
        case(CardRun, scenario).run()

    for scenario in scenarios:
        every(scenario)  # compiles
        rows.append(
            {
                "name": scenario.name,
                "bare": seconds(lambda s=scenario: case(BareRun, s).bare(), rounds),
                "every": seconds(lambda s=scenario: every(s), rounds),
            }
        )
    spent: list[list[float]] = [[] for _ in scenarios]
    for _ in range(rounds):
        bench.watched.clear()
        for at, scenario in enumerate(scenarios):
            made = case(CardRun, scenario)
            spent[at].append(seconds(made.run, 1))
            rows[at]["phases"] = dict(made.phases.seconds)
            rows[at]["first"] = not made.known
    for at, row in enumerate(rows):
        row["case"] = statistics.median(spent[at])
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    """Print the table; a star marks cases that watch their plan's host code."""
    print("| scenario | bare, ms | every check, ms | in a run, ms | ratio |")
    print("|---|---|---|---|---|")

    def line(name: str, chosen: list[dict[str, Any]]) -> None:
        if not chosen:
            return
        bare, every, case = (
            sum(row[key] for row in chosen) * 1e3 for key in ("bare", "every", "case")
        )
        print(f"| {name} | {bare:.1f} | {every:.1f} | {case:.1f} | {case / bare:.2f} |")

    for row in sorted(rows, key=lambda row: -row["case"] / row["bare"]):
        line(row["name"] + "*" * row["first"], [row])
    line("all", rows)
    line("all without a star", [row for row in rows if not row["first"]])
    line("of the trace", [row for row in rows if row["name"].startswith("trace")])
    phases: Counter[str] = Counter()
    for row in rows:
        phases.update(row["phases"])
    told = ", ".join(f"{name} {s * 1e3:.0f}" for name, s in phases.most_common())
    print(f"\nIn a run, by phase, in ms: {told}")


def everything() -> list[Scenario]:
    """Return the scenarios of the core declaration, and a trace."""
    steps = trace.steps(trace.EXCERPTS["conv"], limit=24)
    return [*catalogue.with_tags(CORE_TAG), *(step.scenario() for step in steps)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--scenario", action="append", default=[])
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    chosen = [catalogue.by_name(n) for n in given.scenario] or everything()
    if given.profile:
        profile(chosen[0])
        raise SystemExit
    found = measure(list(chosen), given.rounds)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))
    show(found)
