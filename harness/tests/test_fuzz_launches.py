"""No input PTX or launch may crash, hang past its budget or corrupt the process."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "fuzz_launches.py"
CASES = 2_400
CHUNK = 300


@pytest.mark.parametrize("seed", range(0, CASES, CHUNK))
def test_mutated_launches_end_in_an_outcome(seed):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(seed), str(CHUNK)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    lines = done.stdout.split("\n")
    last = next((x for x in reversed(lines) if x), "nothing")
    assert done.returncode == 0, f"{last}\n{done.stderr[-2000:]}"
    outcomes = Counter(x.split()[2] for x in lines if x.startswith("end"))
    assert sum(outcomes.values()) == CHUNK
    # The corpus must exercise the machine, not only the parser.
    assert outcomes["done"] > CHUNK // 10, outcomes
