"""One kernel for data of two formats: told where its PTX works with the first alone."""

from dataclasses import replace

import pytest
from device_case import launch_of

from sidestream.harness.run.launch_contracts import Contracts
from sidestream.harness.runtime import CallSite

FIRST, SECOND, BYTES = 0x1000, 0x2000, 0x3000
SITE = CallSite(frames=("package.py:1 in execute",))


def told(ptx, first, second, *, other=FIRST):
    formats = {FIRST: first, SECOND: second, BYTES: "torch.uint8"}
    contracts = Contracts(lambda address: formats.get(address, ""))
    for address in (other, SECOND, SECOND):
        contracts.note(launch_of(ptx, address), SITE)
    return [(s.first, s.second, s.parameter) for s in contracts.shared]


@pytest.mark.parametrize(
    ("ptx", "first", "second"),
    [
        ("fma.rn.bf16x2", "bfloat16", "float16"),
        ("cvt.rn.f16.f32", "float16", "bfloat16"),
        ("cvt.rn.f16x2.e4m3x2 x", "float8_e4m3fn", "float8_e5m2"),
    ],
)
def test_another_format_than_the_code_has(ptx, first, second):
    seen = told(ptx, f"torch.{first}", f"torch.{second}")
    assert seen == [(first, second, 0)] * 2


@pytest.mark.parametrize(
    ("ptx", "first", "second"),
    [
        ("ld.global.b16", "bfloat16", "float16"),  # moves bytes
        ("fma.rn.bf16 cvt.rn.f16.f32", "bfloat16", "float16"),  # works with both
        ("fma.rn.bf16", "bfloat16", "bfloat16"),
        ("fma.rn.bf16", "bfloat16", "float32"),
        ("fma.rn.bf16", "bfloat16", "float8_e4m3fn"),
        ("mma.kind::f16", "float16", "bfloat16"),  # the descriptor says which
    ],
)
def test_what_is_no_mistake_by_itself(ptx, first, second):
    assert told(ptx, f"torch.{first}", f"torch.{second}") == []


def test_scratch_of_bytes_has_no_format():
    assert told("fma.rn.bf16", "", "torch.float16", other=BYTES) == []


def test_kernels_are_told_apart():
    contracts = Contracts(
        lambda address: "torch.float16" if address == SECOND else "torch.bfloat16"
    )
    contracts.note(launch_of("fma.bf16", FIRST), SITE)
    contracts.note(replace(launch_of("fma.bf16", SECOND), kernel="other"), SITE)
    contracts.note(launch_of("fma.bf16 // other code", SECOND), SITE)
    assert contracts.shared == []
