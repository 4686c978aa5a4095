"""Mistakes with devices and contexts in scripts, and their fixed twin."""

from pathlib import Path

import pytest

from sidestream.harness.exec.machine import Options
from sidestream.harness.run.script import run_script
from sidestream.harness.runtime import Landing

SCRIPT = Path(__file__).parents[1] / "host_scripts" / "two_devices.py"


def run(*words, policy="eager", devices=2, script=SCRIPT):
    return run_script(
        script,
        words,
        arch="sm_120a",
        landing=Landing.parse(policy),
        options=Options(),
        profile=None,
        devices=devices,
    )


@pytest.mark.parametrize("policy", ["eager", "laziest", "latest"])
def test_a_program_of_two_devices_is_clean(policy):
    done = run(policy=policy)
    assert [f"{f.kind}: {f.message}" for f in done.findings] == []
    assert done.incomplete == ()
    assert len(done.outcomes) == 2


MISTAKES = {
    "stream": ("goes to stream", "placed.py"),
    "left": ("the call leaves device 1 current, which was 0", "placed.py"),
    "memory": ("launched on device 1; parameter 0 is memory of device 0", "placed.py"),
    "thread": ("cuMemAlloc on a host thread that no context", "two_devices.py"),
}


def kinds_of(word):
    """Return the kinds of a mistake; a launch for foreign memory faults besides."""
    return {"contract", *(["out-of-bounds"] if word == "memory" else [])}


@pytest.mark.parametrize("policy", ["eager", "latest"])
@pytest.mark.parametrize("word", MISTAKES)
def test_a_mistake_is_told(word, policy):
    words, place = MISTAKES[word]
    done = run(word, policy=policy)
    (finding,) = (f for f in done.findings if f.kind == "contract")
    assert words in finding.message
    assert place in str(finding.sites[0].source)
    assert {f.kind for f in done.findings} == kinds_of(word)


THREAD = """
import threading
import torch
from cuda.bindings import driver, runtime

def work():
    {first}
    print(driver.cuMemAlloc(64))

torch.zeros(1, device="cuda")
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


@pytest.mark.parametrize(
    ("first", "told"),
    [
        ("pass", True),
        ("driver.cuCtxGetCurrent()", True),
        ("driver.cuDevicePrimaryCtxRetain(0)", True),
        ("torch.ones(1)", True),  # on the host
        ("torch.ones(1, device='cuda')", False),
        ("torch.cuda.current_stream().synchronize()", False),
        ("runtime.cudaSetDevice(0)", False),
        ("runtime.cudaFree(0)", False),
        ("driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])", False),
        ("driver.cuCtxPushCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])", False),
        ("runtime.cudaSetDevice(0); driver.cuCtxSetCurrent(0)", True),
    ],
)
def test_what_gives_a_thread_a_context(first, told, tmp_path):
    script = tmp_path / "threads.py"
    script.write_text(THREAD.format(first=first))
    done = run(script=script, devices=1)
    assert done.incomplete == ()
    assert [f.kind for f in done.findings] == ["contract"] * told


def test_a_device_that_is_not_there_is_refused(tmp_path):
    script = tmp_path / "third.py"
    script.write_text(
        "from cuda.bindings import driver, runtime\n"
        "assert runtime.cudaGetDeviceCount() == (0, 2)\n"
        "assert runtime.cudaSetDevice(2)[0] == 101\n"
        "assert runtime.cudaSetDevice(1) == (0,)\n"
        "assert runtime.cudaGetDevice() == (0, 1)\n"
        "assert int(driver.cuCtxGetCurrent()[1]) == "
        "int(driver.cuDevicePrimaryCtxRetain(1)[1])\n"
        "assert driver.cuCtxPopCurrent()[0] == 201\n"
    )
    done = run(script=script)
    assert (done.findings, done.incomplete) == ((), ())
