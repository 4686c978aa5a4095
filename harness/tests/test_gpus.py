"""Which GPU a worker takes, for any number of them, and what hangs."""

import subprocess
import sys
import types

import pytest

from sidestream.harness.exec.build import compiler
from sidestream.harness.finding import Verdict
from sidestream.harness.run import gpus, pool
from sidestream.harness.run.gpus import VISIBLE, devices, take, worker_number
from sidestream.harness.run.pool import Pool
from sidestream.harness.run.settings import Settings
from sidestream.harness.run.watchdog import Watchdog, finding_of
from sidestream.scenarios import catalogue

pytest_plugins = ["pytester"]


@pytest.mark.parametrize("count", [1, 2, 8])
def test_workers_take_gpus_in_turn(count):
    for worker in range(2 * count + 1):
        environment = {}
        assert take(worker, environment, count) == str(worker % count)
        assert environment == {VISIBLE: str(worker % count)}


def test_without_a_gpu_nothing_is_set():
    environment = {}
    assert take(3, environment, 0) is None
    assert environment == {}


def test_the_users_own_list_is_kept_to():
    for worker, chosen in enumerate(("5", "GPU-7f", "5")):
        environment = {VISIBLE: "5, GPU-7f"}
        assert take(worker, environment, 8) == chosen
        assert environment[VISIBLE] == chosen
    assert devices({VISIBLE: ""}, 8) == ()
    assert devices({VISIBLE: "2,-1,3"}, 8) == ("2",)


def test_a_process_that_has_started_cuda_chooses_the_device(monkeypatch):
    chosen = []
    torch = types.SimpleNamespace(
        cuda=types.SimpleNamespace(
            is_initialized=lambda: True, set_device=chosen.append
        )
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    environment = {}
    assert take(5, environment, 4) == "1"
    assert chosen == [1]
    assert environment == {}


def test_the_number_of_a_worker():
    assert [worker_number(name) for name in ("gw0", "gw12", "main")] == [0, 12, 0]


def test_no_driver_means_no_gpu(monkeypatch):
    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(gpus.ctypes, "CDLL", missing)
    assert gpus.installed() == 0


WORKERS = """
import os, pytest

@pytest.mark.parametrize("n", range(40))
def test_one(n, worker_id):
    with open(f"{os.environ['SEEN']}/{worker_id}", "a") as file:
        file.write(os.environ.get("CUDA_VISIBLE_DEVICES", "none") + " ")
"""


@pytest.mark.parametrize(("visible", "expected"), [("4,6", ["4", "6", "4"]), ("", [])])
def test_workers_of_xdist_have_one_each(pytester, monkeypatch, visible, expected):
    seen = pytester.mkdir("seen")
    monkeypatch.setenv("SEEN", str(seen))
    monkeypatch.setenv(VISIBLE, visible)
    pytester.makepyfile(WORKERS)
    pytester.runpytest_subprocess("-n", "3", "-q").assert_outcomes(passed=40)
    told = {
        path.name: set(path.read_text().split(" ")) - {""} for path in seen.iterdir()
    }
    assert set(told) <= {"gw0", "gw1", "gw2"}
    for name, values in told.items():
        number = worker_number(name)
        assert values == ({expected[number]} if expected else set()), told


NVML = """
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 4; return 0; }
"""
ON_FOUR = """
import ctypes, os, pytest
from sidestream.harness.dsl.build import ON_CARD, build_runtime

@pytest.mark.parametrize("n", range(40))
def test_one(n, worker_id):
    library = build_runtime(ON_CARD)
    assert ctypes.CDLL(str(library)).on_card_behind
    with open(f"{os.environ['SEEN']}/{worker_id}", "a") as file:
        file.write(f"{os.environ.get('CUDA_VISIBLE_DEVICES', 'none')} {library.name} ")
"""


def test_six_workers_share_four_gpus_and_one_cache(pytester, monkeypatch):
    """The driver's library stands in for four GPUs; all workers build at once."""
    seen, cache = pytester.mkdir("seen"), pytester.mkdir("cache")
    source = pytester.path / "nvml.c"
    source.write_text(NVML)
    library = pytester.path / "libnvidia-ml.so.1"
    build = [compiler(), "-shared", "-fPIC", "-o", str(library), str(source)]
    subprocess.run(build, check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(pytester.path))
    monkeypatch.setenv("SIDESTREAM_CACHE", str(cache))
    monkeypatch.setenv("SEEN", str(seen))
    monkeypatch.delenv(VISIBLE, raising=False)
    pytester.makepyfile(ON_FOUR)
    pytester.runpytest_subprocess("-n", "6", "-q").assert_outcomes(passed=40)
    told = {path.name: set(path.read_text().split()) for path in seen.iterdir()}
    assert len(told) >= 2
    (built,) = cache.glob("*.so")
    for name, values in told.items():
        assert values == {str(worker_number(name) % 4), built.name}, told
    assert [path.name for path in cache.iterdir()] == [built.name]


HANGS = """
import ctypes, pytest

@pytest.mark.hardware
@pytest.mark.parametrize("scenario", ["two-short", "other"])
def test_hangs(scenario):
    if scenario == "two-short":
        ctypes.PyDLL(None).sleep(600)  # holds the interpreter, as native code may

def test_after():
    pass
"""


def test_a_test_that_hangs_fails_with_a_finding_and_the_others_run(pytester):
    pytester.makepyfile(HANGS)
    pytester.makeini("[pytest]\nmarkers = hardware: real")
    done = pytester.runpytest_subprocess("-n", "1", "--sidestream-hang-limit", "3")
    done.assert_outcomes(passed=2, failed=1)
    done.stdout.fnmatch_lines(
        [
            "*deadlock: *test_hangs*two-short* did not end within 3 s*",
            "scenario: two-short",
        ]
    )


def test_a_test_in_time_and_one_that_is_not_marked_are_left_alone(pytester):
    pytester.makepyfile(
        "import pytest, time\n"
        "@pytest.mark.hardware\n"
        "def test_quick(): pass\n"
        "def test_slow(): time.sleep(1.5)\n"
    )
    pytester.makeini("[pytest]\nmarkers = hardware: real")
    done = pytester.runpytest_subprocess("--sidestream-hang-limit", "1")
    done.assert_outcomes(passed=2)


def test_the_watchdog_names_the_last_launches(tmp_path):
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from sidestream.harness.run.watchdog import Watchdog\n"
        "with Watchdog(Path(sys.argv[1])) as watchdog:\n"
        "    watchdog.arm('early', seconds=60)\n"
        "    watchdog.launched('before')\n"
        "    watchdog.disarm()\n"
        "    watchdog.arm('late', seconds=0.3, scenario='two-short')\n"
        "    watchdog.launched('prepare')\n"
        "    watchdog.launched('fwd')\n"
        "    time.sleep(60)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, check=False
    )
    assert done.returncode == -9
    assert finding_of(tmp_path, "early") is None
    finding = finding_of(tmp_path, "late")
    assert finding.kind == "deadlock"
    assert (finding.kernel, finding.scenario) == ("fwd", "two-short")
    assert "prepare, fwd" in finding.message


def test_a_watchdog_that_is_disarmed_lets_go(tmp_path):
    with Watchdog(tmp_path) as watchdog:
        watchdog.arm("quick", seconds=60)
        watchdog.disarm()
    assert list(tmp_path.iterdir()) == []


def test_a_case_that_hangs_on_a_card_is_a_finding_of_its_scenario(monkeypatch):
    class Hung(Pool):
        def _start(self, number):
            from multiprocessing import Pipe

            ours, self.other = Pipe()
            idle = types.SimpleNamespace(
                kill=lambda: None, join=lambda *_: None, is_alive=lambda: False
            )
            return pool._Worker(process=idle, pipe=ours)

    monkeypatch.setattr(pool, "_GRACE", 0.0)
    settings = Settings(device="cuda", arch="sm_90a", deadline=0.1)
    cases = [catalogue.by_name("two-short")]
    ((index, outcome),) = Hung(settings=settings, jobs=1, origin=0.0).run(cases)
    assert index == 0
    assert outcome.case.verdict is Verdict.FINDINGS
    (finding,) = outcome.findings
    assert (finding.kind, finding.scenario) == ("deadlock", "two-short")
    assert finding.replay.startswith("sidestream replay ")
    assert outcome.incomplete == ()
