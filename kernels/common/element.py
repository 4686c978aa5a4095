"""The DSL's element types by name."""

from typing import Any

import cutlass

from sidestream.kernels.common.config import ForwardContract

_TYPES = {
    "float16": cutlass.Float16,
    "bfloat16": cutlass.BFloat16,
    "float8_e4m3fn": cutlass.Float8E4M3FN,
    "float8_e5m2": cutlass.Float8E5M2,
}


def element_type(config: ForwardContract) -> Any:
    """The DSL's type of Q, K and V, and of the weights."""
    return _TYPES[config.dtype]


def output_type(config: ForwardContract) -> Any:
    """The DSL's type of the output."""
    return _TYPES[config.out_dtype]
