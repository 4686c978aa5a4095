"""The library in front of the DSL's runtime, with the replacement runtime behind it.

Each test runs in a process of its own: the DSL keeps its libraries for a process.
"""

import subprocess
import sys

import pytest

PRELUDE = """
import os
from sidestream.harness.dsl.activation import activate
device = activate(arch="sm_90a")
from sidestream.harness.dsl.on_card import watch_dsl
card = watch_dsl(arch="sm_90a")
import cuda.bindings.driver as driver
import cutlass
from cutlass.cute.runtime import make_fake_compact_tensor
from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.cuda.virtual_cuda import VirtualCuda
from sidestream.harness.dsl.capture import Capture
from sidestream.scenarios.host_packages.scaled import Scaled
import torch
told, seen, blocked = [], [], []

def call():
    x, y = torch.ones(40, device="cuda"), torch.zeros(40, device="cuda")
    package.execute(x, y, torch.zeros(2, device="cuda"),
                    torch.cuda.Stream())

package = Scaled()
"""


def run(body):
    code = PRELUDE + "with VirtualCuda(device, AllocationTable()), "
    code += "Capture(seen.append):\n"
    code += "".join(f"    {line}\n" for line in body.strip().splitlines())
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_launch_is_told_and_handed_on():
    out = run("""
with card.watched(told.append):
    call()
assert len(seen) == len(told) == 1
assert told == seen, (told, seen)
assert told[0].stream and told[0].grid == (2, 1, 1)
assert told[0].params and ".entry" in told[0].ptx
assert [r.source_name for r in card.compiles.records] == ["scale"]
with card.watched(told.append):
    call()
assert len(told) == 2 and len(card.compiles.records) == 1
call()
assert len(told) == 2 and len(seen) == 3
print("fine")
""")
    assert out.strip() == "fine"


def test_what_a_watcher_raises_stops_the_launch():
    out = run("""
def refuse(launch):
    raise KeyError(launch.kernel)
try:
    with card.watched(refuse):
        call()
except KeyError as error:
    print("refused", "scale" in str(error), len(seen))
""")
    assert out.strip() == "refused True 0"


def test_another_target_is_refused():
    out = run("""
from sidestream.harness.errors import UsageError
try:
    watch_dsl(arch="sm_120a")
except UsageError as error:
    print("needs a process of its own" in str(error))
assert watch_dsl(arch="sm_90a") is card
""")
    assert out.strip() == "True"


@pytest.mark.parametrize("rounds", [3])
def test_processes_that_build_at_once_meet_one_library(tmp_path, rounds):
    code = (
        "from sidestream.harness.dsl.build import ON_CARD, build_runtime\n"
        "print(build_runtime(ON_CARD))"
    )
    import os

    environment = dict(os.environ, SIDESTREAM_CACHE=str(tmp_path))
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(rounds)
    ]
    paths = {process.communicate()[0].strip() for process in running}
    assert len(paths) == 1
    assert [p.name for p in tmp_path.iterdir()] == [paths.pop().rpartition("/")[2]]
