"""A kernel that CuTe DSL compiled before the virtual device was there."""

import subprocess
import sys
import textwrap

import pytest

SCRIPT = textwrap.dedent(
    """
    import os
    import sys

    os.environ["CUTE_DSL_ARCH"] = "sm_120a"
    import cutlass
    import torch
    from cutlass import cute
    from cutlass.cute.runtime import from_dlpack, make_fake_compact_tensor

    from sidestream.harness.dsl.activation import activate

    @cute.kernel
    def increment_kernel(x: cute.Tensor):
        x[0] = x[0] + 1.0

    @cute.jit
    def increment(x: cute.Tensor):
        increment_kernel(x).launch(grid=(1, 1, 1), block=(1, 1, 1))

    def compiled():
        x = make_fake_compact_tensor(cutlass.Float32, (4,))
        return cute.compile(increment, x, options=sys.argv[2])

    early = sys.argv[1] == "early" and compiled()
    activate(arch="sm_120a")
    function = early or compiled()
    value = torch.zeros(4)
    function(value if sys.argv[2] else from_dlpack(value))
    """
)


@pytest.mark.parametrize("options", ["", "--enable-tvm-ffi"])
def test_is_refused_and_the_message_says_what_to_do(tmp_path, options):
    script = tmp_path / "early.py"
    script.write_text(SCRIPT)

    def last_lines(when):
        done = subprocess.run(
            [sys.executable, script, when, options],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
        return done.stderr.strip().splitlines()[-12:]

    told = last_lines("early")[-1]
    assert "UsageError" in told
    assert "increment" in told
    assert "before the virtual device was active" in told
    assert "sidestream run" in told
    # Compiled afterwards it gets further: to a launch without anybody to run it.
    assert not any("before the virtual device" in line for line in last_lines("late"))
