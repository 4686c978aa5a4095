"""What a driver says of its implementation's arithmetic, for the parity bound."""

from __future__ import annotations

from sidestream.harness.drivers.protocol import Problem
from sidestream.reference.narrow import by_name
from sidestream.reference.tolerance import Arithmetic

CUBIC_EXP2_ERROR = 2.0**-13
"""Relative error of 2**f, f in [0, 1), by a cubic: 8.8e-5 at best, and fp32 rounding.

Kernels evaluate some weights so, to spare the unit that has `ex2`.
"""
EX2_ERROR = 2.0**-22
"""Relative error of `ex2.approx.f32` (PTX ISA, "Floating Point Instructions: ex2")."""


def standard(problem: Problem) -> Arithmetic:
    """Return the arithmetic that every flash-attention forward has in common."""
    dtype = str(problem.torch_dtype).removeprefix("torch.")
    return Arithmetic(
        dtype=by_name(dtype),
        out_dtype=by_name(str(problem.torch_out_dtype).removeprefix("torch.")),
        descaled=problem.descales is not None,
        out_scale=problem.scale_out,
        splits=problem.splits,
    )
