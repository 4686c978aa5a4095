"""Our SM120 kernel's sm_90a build on the virtual GPU, bit against bit with the card.

The card's results are those that `test_card_catalogue.py` recorded. With `card=True`
the approximations of PTX (ex2, rcp, lg2), whose bits it leaves open, are replaced by
what the card answers; everything else is the emulator's own, and nothing may differ.

    PYTHONPATH=harness/tests/hw python scenarios/tests/card_bits.py

compares the whole catalogue both ways and prints the figures of docs/hardware.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import card_digests
import hw_approximations
import numpy as np
from hw_substitute import substitute

from sidestream.harness.checks.observation import Execution
from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.cuda.virtual_cuda import VirtualCuda
from sidestream.harness.device.in_order import InOrder
from sidestream.harness.drivers.protocol import Driver
from sidestream.harness.exec.machine import Options
from sidestream.harness.launch import Launch
from sidestream.harness.run import virtual_call
from sidestream.harness.run.bench import Bench
from sidestream.harness.run.phases import Phases
from sidestream.harness.run.problem import problem_of
from sidestream.harness.run.settings import Settings
from sidestream.scenarios.case import build
from sidestream.scenarios.catalogue import CATALOGUE
from sidestream.scenarios.scenario import Scenario

RECORD = Path(__file__).parent / "data" / "h200_catalogue.npz"
OPS = ("ex2", "rcp", "lg2")


@dataclass(frozen=True, kw_only=True)
class Apart:
    """How one output differs from the card's.

    Attributes:
        elements: Elements of live rows.
        differ: Those whose bits differ.
        ulp: The greatest distance, in units in the last place; a NaN beside a number
            counts as the distance of their bits.
    """

    elements: int
    differ: int
    ulp: int


def apart(ours: Any, card: Any) -> Apart:
    """Compare the bits of two equally shaped arrays of floats."""
    kind = f"u{ours.dtype.itemsize}"
    a, b = (_ordered(x.view(kind)) for x in (ours, card))
    distance = np.abs(a - b)
    differ = int((ours.view(kind) != card.view(kind)).sum())
    return Apart(
        elements=distance.size, differ=differ, ulp=int(distance.max(initial=0))
    )


def _ordered(words: Any) -> Any:
    """Bits as integers that count units in the last place; -0 lies below 0."""
    half = 1 << (8 * words.dtype.itemsize - 1)
    wide = words.astype(np.int64)
    return np.where(wide >= half, half - wide - 1, wide)


@contextmanager
def card_approximations(table: AllocationTable, tables: Any) -> Iterator[None]:
    """Run launches inside with the card's answers, from tables in device memory."""
    bases = {}
    for name in OPS:
        values = getattr(tables, name)
        home = table.allocate(values.nbytes, f"{name} of the card", writable=False)
        home.data[:] = values.view(np.uint8)
        bases[name] = home.va

    as_it_is = InOrder.run

    def run(order: InOrder, launch: Launch, *rest: Any) -> Any:
        text, _ = substitute(launch.ptx, bases)
        return as_it_is(order, replace(launch, ptx=text), *rest)

    with mock.patch.object(InOrder, "run", run):
        yield


class Comparison:
    """Runs scenarios of the catalogue and compares them with the record."""

    def __init__(self) -> None:
        self._bench = Bench(settings=Settings(arch="sm_90a"))
        self.tables = hw_approximations.load()
        with np.load(RECORD) as archive:
            self._recorded = dict(archive)

    @property
    def driver(self) -> Driver:
        """The implementation that is compared."""
        return self._bench.implementation()

    def digests(self, scenario: Scenario, *, card: bool) -> dict[str, str]:
        """Return a digest of each output, as `card_digests` keeps them of the card."""
        run, live = self._run(scenario, card=card)
        return card_digests.digests(run, live)

    def outputs(
        self, scenario: Scenario, *, card: bool, tables: Any = None
    ) -> tuple[Any, Any]:
        """Bits of the live rows of O, and the LSE or None."""
        run, live = self._run(scenario, card=card, tables=tables)
        return run.out[live], None if run.lse is None else run.lse[live]

    def _run(
        self, scenario: Scenario, *, card: bool, tables: Any = None
    ) -> tuple[Execution, Any]:
        device, driver = self._bench.device(), self.driver
        inputs, memory = build(scenario), AllocationTable()
        with VirtualCuda(device, memory) as world:
            prepared = driver.prepare(problem_of(scenario), world)
            call = virtual_call.VirtualCall(
                world,
                inputs,
                workspace_bytes=prepared.workspace_bytes,
                phases=Phases(origin=0.0, track=""),
            )

            def execute() -> Any:
                return call.execute(
                    prepared, label="card", pattern="zeros", options=self._options
                )

            if card:
                with card_approximations(memory, tables or self.tables):
                    world.publish()
                    run = execute()
            else:
                run = execute()
        assert run.finished, run.incomplete
        assert not run.findings, run.findings
        return run, inputs.live

    def _options(self) -> Options:
        chip = self._bench.device().chip
        return Options(sms=self._bench.settings.sms, max_smem=chip.smem_per_block)

    def compare(
        self, scenario: Scenario, *, card: bool, tables: Any = None
    ) -> dict[str, Apart]:
        """Return how O and, where there is one, the LSE differ from the card's."""
        out, lse = self.outputs(scenario, card=card, tables=tables)
        found = {"O": apart(out, self._recorded[f"{scenario.name}/out"])}
        if lse is not None:
            found["LSE"] = apart(lse, self._recorded[f"{scenario.name}/lse"])
        return found


def show() -> None:
    """Print both comparisons of the whole catalogue as a table."""
    comparison = Comparison()
    sys.stdout.write("| scenario | output | elements | differ | ulp | card's |\n")
    sums: dict[tuple[str, bool], list[int]] = {}
    for scenario in CATALOGUE:
        plain = comparison.compare(scenario, card=False)
        exact = comparison.compare(scenario, card=True)
        for name, was in plain.items():
            now = exact[name]
            for card, seen in ((False, was), (True, now)):
                total = sums.setdefault((name, card), [0, 0, 0])
                total[0] += seen.elements
                total[1] += seen.differ
                total[2] = max(total[2], seen.ulp)
            row = (scenario.name, name, was.elements, was.differ, was.ulp, now.differ)
            sys.stdout.write("| " + " | ".join(map(str, row)) + " |\n")
    for (name, card), total in sums.items():
        how = "with the card's approximations" if card else "as the emulator is"
        sys.stdout.write(
            f"{name}, {how}: {total[1]} of {total[0]} differ, at most {total[2]} ulp\n"
        )


if __name__ == "__main__":
    show()
