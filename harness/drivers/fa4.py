"""flash-attn-4: the public `flash_attn_varlen_func`, unmodified, on SM120."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from sidestream.harness.cuda.virtual_cuda import VirtualCuda
from sidestream.harness.drivers.protocol import CallTensors, Problem, Results
from sidestream.harness.drivers.triton_stand_in import triton_importable
from sidestream.harness.errors import UnsupportedError

INSTALL = (
    "pip install --no-deps flash-attn-4==4.0.0b36 quack-kernels==0.6.5 "
    "apache-tvm-ffi==0.1.15.post2 einops==0.8.2"
)
HEAD_DIMS = (64, 128)
"""Head dims that are driven; the SM120 kernel has one tile shape for each."""


def prefix_sums(lengths: tuple[int, ...]) -> torch.Tensor:
    """int32 (B + 1,) prefix sums on the host, from base 0."""
    sums = itertools.accumulate(lengths, initial=0)
    return torch.tensor(list(sums), dtype=torch.int32)


class FlashAttention4:
    """Drives FlashAttention-4."""

    name = "fa4"

    def supports(self, problem: Problem, arch: str) -> str | None:
        """Return why FlashAttention-4 does not serve a problem, or None."""
        reasons = (
            (arch != "sm_120a", f"driven on sm_120a, not {arch}"),
            (
                problem.head_dim not in HEAD_DIMS,
                f"driven at head dims {HEAD_DIMS}, not {problem.head_dim}",
            ),
            (problem.sinks, "its SM120 kernel takes no sinks"),
            (
                problem.diagonal == "top_left" and not problem.anchors_agree,
                "its masks follow the bottom right",
            ),
            (problem.scale <= 0, "its maximum assumes a positive scale"),
        )
        return next((reason for broken, reason in reasons if broken), None)

    def prepare(self, problem: Problem, world: VirtualCuda) -> PreparedFlashAttention4:
        """Load the package and put prefix sums of the lengths on the device.

        Raises:
            UnsupportedError: if a package is missing.
        """
        return PreparedFlashAttention4(
            problem=problem,
            function=_load(),
            cu_q=world.upload(prefix_sums(problem.lengths_q), "cu_seqlens_q"),
            cu_kv=world.upload(prefix_sums(problem.lengths_kv), "cu_seqlens_k"),
        )


@dataclass(frozen=True, kw_only=True)
class PreparedFlashAttention4:
    """One problem, ready to be called."""

    problem: Problem
    function: Callable[..., Any]
    cu_q: torch.Tensor
    cu_kv: torch.Tensor

    @property
    def workspace_bytes(self) -> int:
        """None: the function allocates what it needs."""
        return 0

    def execute(self, tensors: CallTensors, workspace: torch.Tensor) -> Results:
        """Call the function as a user would; it returns fresh tensors."""
        problem = self.problem
        causal = problem.causal != "none"
        result = self.function(
            tensors.q,
            tensors.k,
            tensors.v,
            cu_seqlens_q=self.cu_q,
            cu_seqlens_k=self.cu_kv,
            max_seqlen_q=problem.max_len_q,
            max_seqlen_k=problem.max_len_kv,
            softmax_scale=problem.scale,
            causal=causal,
            window_size=(
                problem.window_left,
                None if causal else problem.window_right,
            ),
            return_lse=problem.lse != "none",
        )
        out, lse = result if isinstance(result, tuple) else (result, None)
        if problem.lse == "none":
            lse = None
        return Results(out=out, lse=lse.t() if lse is not None else None, returned=True)


def _load() -> Callable[..., Any]:
    try:
        # torch's own lazy import of triton must come before the stand-in's.
        importlib.import_module("torch._dynamo")
        with triton_importable():
            interface = importlib.import_module("flash_attn.cute.interface")
    except ImportError as error:
        raise UnsupportedError(
            f"flash-attn-4 cannot be imported ({error}); {INSTALL}"
        ) from error
    function: Callable[..., Any] = interface.flash_attn_varlen_func
    return function
