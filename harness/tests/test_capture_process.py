"""What holds for a whole process: order of activation, targets, the built library."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

HEADER = """
import os, sys
from sidestream.harness.dsl.activation import activate
from sidestream.harness.errors import SidestreamError
"""


def run(code, **env):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("CUTE_DSL")}
    done = subprocess.run(
        [sys.executable, "-c", HEADER + code],
        env=clean | env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_cutlass_imported_for_another_target_is_a_usage_error():
    out = run(
        "import cutlass\n"
        "try: activate(arch='sm_120a')\n"
        "except SidestreamError as e: print(type(e).__name__, e)",
        CUTE_DSL_ARCH="sm_100a",
    )
    assert out.startswith("UsageError cutlass was imported with CUTE_DSL_ARCH=sm_100a")


def test_no_activation_changes_nothing():
    out = run(
        "import cutlass\n"
        "print('CUTE_DSL_ARCH' in os.environ, 'sidestream' in"
        " os.environ.get('CUTE_DSL_LIBS', ''))"
    )
    assert out == "False False"


def test_concurrent_processes_build_one_library(tmp_path):
    code = (
        "from sidestream.harness.dsl.build import build_runtime\n"
        "import ctypes\n"
        "path = build_runtime(); ctypes.CDLL(str(path)); print(path.name)"
    )
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(run, code, SIDESTREAM_CACHE=str(tmp_path)) for _ in "1234"]
        names = {job.result() for job in jobs}
    assert len(names) == 1
    assert [path.name for path in tmp_path.iterdir()] == [names.pop()]


def test_a_missing_compiler_is_said(tmp_path):
    out = run(
        "from sidestream.harness.dsl.build import build_runtime\n"
        "os.environ['PATH'] = ''\n"
        "try: build_runtime()\n"
        "except SidestreamError as e: print(type(e).__name__, e)",
        SIDESTREAM_CACHE=str(tmp_path),
        CC="no-such-compiler",
    )
    assert out.startswith("BuildError no C compiler found")


def test_a_cache_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    out = run(
        "from sidestream.harness.dsl.build import build_runtime\n"
        "try: build_runtime()\n"
        "except SidestreamError as e: print(type(e).__name__, e)",
        SIDESTREAM_CACHE=str(tmp_path / "file" / "sub"),
    )
    assert out.startswith("BuildError the capture library cannot be written")
    assert "SIDESTREAM_CACHE" in out


@pytest.mark.parametrize(("arch", "sms"), [("sm_90a", 4), ("sm_100a", 2)])
def test_other_targets_compile_and_launch(arch, sms, tmp_path):
    kernel = tmp_path / "kernel_of_test.py"
    kernel.write_text(
        "import cutlass\n"
        "from cutlass import cute\n"
        "@cute.kernel\n"
        "def fill(x: cute.Tensor):\n"
        "    tid, _, _ = cute.arch.thread_idx()\n"
        "    x[tid] = tid\n"
        "@cute.jit\n"
        "def host(x: cute.Tensor):\n"
        "    fill(x).launch(grid=(1, 1, 1), block=(32, 1, 1))\n"
    )
    out = run(
        f"activate(arch='{arch}', sms={sms})\n"
        f"sys.path.insert(0, '{tmp_path}')\n"
        "import torch, kernel_of_test as k\n"
        "from cutlass import cute, utils\n"
        "from cutlass.cute.runtime import from_dlpack\n"
        "from sidestream.harness.dsl.capture import Capture\n"
        "x = from_dlpack(torch.zeros(32, dtype=torch.int32))\n"
        "got = []\n"
        "with Capture(got.append): cute.compile(k.host, x)(x)\n"
        "info = utils.HardwareInfo()\n"
        f"print(len(got), '.target {arch}' in got[0].ptx,"
        " info.get_device_multiprocessor_count())"
    )
    assert out == f"1 True {sms}"
