"""Every instruction names the line of the kernel it came from, not the launch's."""

import inspect

import cutlass
import pytest
from cutlass import cute
from cutlass._mlir.dialects import nvvm
from cutlass.cute.runtime import make_fake_compact_tensor

from sidestream.harness.dsl.activation import activate
from sidestream.harness.ptx.decode import decode
from sidestream.harness.ptx.parser import parse


@cute.jit
def order() -> None:
    nvvm.fence_proxy(nvvm.ProxyKind.async_)


@cute.kernel
def ordered_kernel(x: cute.Tensor):
    x[cute.arch.lane_idx()] = cutlass.Int32(1)
    order()
    with cute.arch.elect_one():
        x[32] = cutlass.Int32(2)


@cute.jit
def ordered(x: cute.Tensor):
    ordered_kernel(x).launch(grid=(1, 1, 1), block=(32, 1, 1))


@pytest.fixture(scope="module")
def code():
    device = activate(arch="sm_120a")
    cute.compile(
        ordered, make_fake_compact_tensor(cutlass.Int32, (64,), assumed_align=16)
    )
    return decode(parse(device.compiles.records[-1].ptx)).instructions


def line_of(text):
    lines = inspect.getsource(inspect.getmodule(line_of)).splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize(
    ("op", "text"),
    [
        # The call gives no location, and the DSL's own one gives none either.
        ("fence.proxy", "nvvm.fence_proxy(nvvm.ProxyKind.async_)"),
        ("elect.sync", "with cute.arch.elect_one():"),
        ("st", "x[cute.arch.lane_idx()] = cutlass.Int32(1)"),
    ],
)
def test_an_operation_has_the_innermost_line_outside_of_the_dsl(code, op, text):
    source = next(ins.source for ins in code if ins.op == op)
    assert source.file == __file__
    assert source.line == line_of(text)
