"""Memory asked for at every step, and what is none: warm-up, plans, kept results."""

import pytest

from sidestream.harness.exec.machine import Options
from sidestream.harness.run.script import run_script
from sidestream.harness.runtime import Landing

START = """
import torch
from sidestream.scenarios.host_packages.scaled import Scaled
stream = torch.cuda.current_stream()
lengths = torch.tensor([8]).cuda()
x = torch.ones(8, device="cuda")
"""


def run(folder, body, policy="eager"):
    script = folder / "steps.py"
    script.write_text(START + body)
    done = run_script(
        script,
        [],
        arch="sm_120a",
        landing=Landing.parse(policy),
        options=Options(),
        profile=None,
    )
    assert done.incomplete == ()
    return [(f.kind, f.count) for f in done.findings if f.kind == "host-alloc"]


STEPS = """
for _ in range({times}):
    package.execute(x, torch.empty_like(x), lengths, stream)
"""


@pytest.mark.parametrize("word", ["allocates", "pins"])
def test_the_first_call_of_a_line_is_its_warm_up(word, tmp_path):
    body = f"package = Scaled({word}=True)" + STEPS
    assert run(tmp_path, body.format(times=1)) == []
    assert run(tmp_path, body.format(times=2)) == [("host-alloc", 1)]
    assert run(tmp_path, body.format(times=5)) == [("host-alloc", 4)]


def test_two_lines_that_call_once_are_both_warm_up(tmp_path):
    line = "package.execute(x, torch.empty_like(x), lengths, stream)\n"
    assert run(tmp_path, f"package = Scaled(allocates=True)\n{line}{line}") == []


def test_a_call_that_compiles_is_warm_up(tmp_path):
    body = "for _ in range(3):\n    " + (
        "Scaled(allocates=True).execute(x, torch.empty_like(x), lengths, stream)\n"
    )
    assert run(tmp_path, body) == []


def test_planning_again_and_again_is_no_step(tmp_path):
    body = (
        "from sidestream.scenarios.host_packages.scaled import Planned\n"
        "for _ in range(4):\n    package = Planned()\n"
        "    for _ in range(3):\n"
        "        package.execute(x, torch.empty_like(x), lengths, stream)\n"
    )
    assert run(tmp_path, body) == []


@pytest.mark.parametrize("holder", ["outputs.append(y)", "here.y.append(y)"])
def test_what_the_script_keeps_is_its_own(holder, tmp_path):
    body = f"""
class Here:
    y = []
outputs, here = [], Here()
package = Scaled(returns=True)
for _ in range(5):
    y = package.execute(x, None, lengths, stream)
    {holder}
"""
    assert run(tmp_path, body) == []


def test_what_a_package_keeps_is_told_however_the_script_holds_the_package(tmp_path):
    body = "class Here: pass\nhere = Here()\nhere.package = Scaled(keeps=True)\n"
    step = "here.package.execute(x, torch.empty_like(x), lengths, stream)\n"
    body += f"for _ in range(4):\n    {step}"
    assert run(tmp_path, body) == [("host-alloc", 3)]


def test_two_blocks_may_be_a_pair_of_buffers(tmp_path):
    body = "package = Scaled(keeps=True)" + STEPS
    assert run(tmp_path, body.format(times=3)) == []
    assert run(tmp_path, body.format(times=4)) == [("host-alloc", 3)]


@pytest.mark.parametrize("word", ["grows", "grows_pinned", "empties"])
def test_a_cache_that_asks_the_driver_in_call_after_call(word, tmp_path):
    """Three such calls past the warm-up: less may be how it finds its sizes."""
    body = f"package = Scaled({word}=True)" + STEPS
    assert run(tmp_path, body.format(times=3)) == []
    # A cache that was emptied first has to ask for it in the call after that.
    first = 5 if word == "empties" else 4
    assert run(tmp_path, body.format(times=first)) == [("host-alloc", 3)]


def test_a_cache_that_the_script_empties_is_the_script_s_own(tmp_path):
    body = "package = Scaled(returns=True)\nx = torch.ones(1 << 22, device='cuda')\n"
    body += "for _ in range(6):\n    y = package.execute(x, None, lengths, stream)\n"
    assert run(tmp_path, body + "    del y\n    torch.cuda.empty_cache()\n") == []


@pytest.mark.parametrize("word", ["grows", "grows_pinned"])
def test_a_call_that_is_given_more_may_ask_for_more(word, tmp_path):
    body = f"""
package = Scaled({word}=True)
for rows in range(1, 7):
    x = torch.ones(8 * rows, device="cuda")
    package.execute(x, torch.empty_like(x), lengths, stream)
"""
    assert run(tmp_path, body) == []


def test_pinned_memory_that_a_package_keeps_is_told(tmp_path):
    body = "package = Scaled(keeps_pinned=True)" + STEPS
    assert run(tmp_path, body.format(times=4)) == [("host-alloc", 3)]


def test_pinned_memory_in_use_by_copies_is_no_growth(tmp_path):
    """The host runs ahead of the device: blocks come back once it waits."""
    body = "package = Scaled(stages=True)" + STEPS
    assert run(tmp_path, body.format(times=8), "laziest") == []
