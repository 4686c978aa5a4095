"""What the card answered in the scenarios beside the catalogue's own, as digests.

The wide head dims and the one-byte types have several million outputs, of which
`data/h200_digests.json` keeps the SHA-256 of the bits of every live row.

    PYTHONPATH=harness/tests/hw python scenarios/tests/card_digests.py

compares all of them with the virtual GPU, given the card's approximations, and prints
those that differ. To record again, on a machine with the card:

    SIDESTREAM_RECORD_DIGESTS=DIR pytest -m hardware -n auto test_card_digests.py
    python scenarios/tests/card_digests.py --join DIR
"""

from __future__ import annotations

import hashlib
import json
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from sidestream.harness.checks.observation import Execution
from sidestream.harness.drivers.protocol import Driver
from sidestream.harness.run.problem import problem_of
from sidestream.scenarios.catalogue import CATALOGUE, EVERY
from sidestream.scenarios.scenario import Scenario

ARCH = "sm_90a"
LATER: tuple[str, ...] = ("wide-d128-*",)
"""Scenarios that came when the card was no longer at hand; empty once recorded anew."""
RECORD = Path(__file__).parent / "data" / "h200_digests.json"


def served(driver: Driver) -> list[Scenario]:
    """Return the scenarios beside `CATALOGUE` that an implementation serves."""
    listed = {scenario.name for scenario in CATALOGUE}
    return [
        scenario
        for scenario in EVERY
        if scenario.name not in listed
        and driver.supports(problem_of(scenario), ARCH) is None
    ]


def came_later(scenario: Scenario) -> bool:
    """Tell whether a scenario is younger than the record."""
    return any(fnmatchcase(scenario.name, pattern) for pattern in LATER)


def family(scenario: Scenario) -> str:
    """Name the kernels that share an input type and head dims."""
    return f"{scenario.dtype}-d{scenario.head_dim}x{scenario.width_v}"


def digests(run: Execution, live: Any) -> dict[str, str]:
    """Return a digest of each output of a finished call: bits of live rows, amax."""
    outputs = {
        "out": run.out[live],
        "lse": None if run.lse is None else run.lse[live],
        "amax": run.amax,
    }
    return {
        name: hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
        for name, array in outputs.items()
        if array is not None
    }


def recorded() -> dict[str, dict[str, str]]:
    """Return the digests by scenario and output."""
    kept: dict[str, dict[str, str]] = json.loads(RECORD.read_text())["scenarios"]
    return kept


def join(folder: Path) -> None:
    """Make the record of what each family wrote into a folder."""
    parts = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    scenarios = {
        name: kept for part in parts for name, kept in part["scenarios"].items()
    }
    whole = {"about": parts[0]["about"], "scenarios": scenarios}
    RECORD.write_text(json.dumps(whole, indent=1) + "\n")


def main() -> None:
    """Compare all and print those that differ, or join a recording."""
    if "--join" in sys.argv:
        join(Path(sys.argv[-1]))
        return
    import card_bits

    comparison, differ = card_bits.Comparison(), 0
    scenarios = [s for s in served(comparison.driver) if s.name in recorded()]
    for scenario in scenarios:
        found = comparison.digests(scenario, card=True)
        if found != recorded()[scenario.name]:
            differ += 1
            sys.stdout.write(f"{scenario.name}: differs\n")
    sys.stdout.write(f"{differ} of {len(scenarios)} scenarios differ\n")


if __name__ == "__main__":
    main()
