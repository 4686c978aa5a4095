"""What a caller can get wrong; each message names the argument and the rule."""

from __future__ import annotations


class PlanError(ValueError):
    """The declaration asks for something these kernels do not serve."""


class ContractError(ValueError):
    """An execute call that breaks its plan: dtype, shape, stride, size, overlap."""
