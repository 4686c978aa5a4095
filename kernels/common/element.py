"""The DSL's element types by name."""

from typing import Any

import cutlass

from sidestream.kernels.common.config import ForwardContract


def element_type(config: ForwardContract) -> Any:
    """The DSL's type for the configured 16-bit format."""
    return cutlass.Float16 if config.dtype == "float16" else cutlass.BFloat16
