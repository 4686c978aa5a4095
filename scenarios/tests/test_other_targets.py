"""Test files for other targets than sm_120a, each in a process of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILES = {
    "test_card_bits.py": 65,
    "test_our_sm100_kernel.py": 50,
    "test_our_sm100_narrow.py": 25,
    "test_our_sm100_scaled.py": 27,
    "test_sm100_public_rows.py": 50,
}
"""With how many tests each has at least."""


def unbound():
    """The environment without what binds this process to a target, if a test did."""
    return {k: v for k, v in os.environ.items() if not k.startswith("CUTE_DSL_")}


@pytest.mark.parametrize("name", FILES)
def test_a_file_for_another_target_passes(name):
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    done = subprocess.run(
        (*command, str(HERE / name)),
        cwd=HERE.parent.parent,
        env=unbound(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None, done.stdout
    assert int(passed[1]) >= FILES[name], done.stdout


def test_every_file_that_is_left_out_is_run_here():
    left_out = (HERE.parent.parent / "conftest.py").read_text()
    assert set(re.findall(r"scenarios/tests/(test_\w+\.py)\"", left_out)) == set(FILES)
