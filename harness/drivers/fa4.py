"""flash-attn-4: the public `flash_attn_varlen_func`, unmodified.

On SM120 it has one kernel. On SM100 it has the forward of d64, d128 and d192x128, that
of d256 for one CTA or two, split keys with a kernel that prepares and one that
combines, and a scheduler that takes its tiles by cluster launch control.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import torch

from sidestream.harness.cuda.virtual_cuda import VirtualCuda
from sidestream.harness.drivers.arithmetic import (
    CUBIC_EXP2_ERROR,
    EX2_ERROR,
    standard,
)
from sidestream.harness.drivers.protocol import CallTensors, Problem, Results
from sidestream.harness.drivers.triton_stand_in import triton_importable
from sidestream.harness.errors import UnsupportedError
from sidestream.reference.tolerance import Arithmetic

INSTALL = (
    "pip install --no-deps flash-attn-4==4.0.0b36 quack-kernels==0.6.5 "
    "apache-tvm-ffi==0.1.15.post2 einops==0.8.2"
)
ARCHS = ("sm_120a", "sm_100a")
SM120_SHAPES = ((64, 64), (128, 128), (192, 128))
"""Head dims, of V last, that are driven on SM120; at (256, 256) its tiles of 128
queries and 64 keys do not fit into shared memory."""
WIDEST = 128
"""SM100: every multiple of 8 up to this has a kernel,"""
WIDE_SHAPES = ((192, 128), (256, 256))
"""and so have these pairs."""
FLOAT8_WEIGHT_SCALE = 2.0**8
"""P times this is what SM100 rounds to E4M3."""


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
            (
                problem.is_float8 and problem.torch_out_dtype != torch.bfloat16,
                "driven with bfloat16 outputs of float8 inputs",
            ),
            (arch not in ARCHS, f"driven on {' and '.join(ARCHS)}, not {arch}"),
            (
                problem.diagonal == "top_left" and not problem.anchors_agree,
                "its masks follow the bottom right",
            ),
            (problem.scale <= 0, "its maximum assumes a positive scale"),
            *(_sm120(problem) if arch == "sm_120a" else _sm100(problem)),
        )
        return next((reason for broken, reason in reasons if broken), None)

    def arithmetic(self, problem: Problem, arch: str) -> Arithmetic:
        """Return the standard arithmetic, but for what SM100 does with weights."""
        usual = standard(problem)
        if arch != "sm_100a":
            return usual
        return replace(
            usual,
            exp_error=CUBIC_EXP2_ERROR,
            alpha_error=EX2_ERROR,
            weight_scale=FLOAT8_WEIGHT_SCALE if problem.is_float8 else 1.0,
        )

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


def _sm120(problem: Problem) -> tuple[tuple[bool, str], ...]:
    """Pair what may be asked of SM120 in vain with the reason."""
    shape = (problem.head_dim, problem.head_dim_v)
    return (
        (
            shape not in SM120_SHAPES,
            f"driven on SM120 at head dims {SM120_SHAPES}, not {shape}",
        ),
        (problem.sinks, "its SM120 kernel takes no sinks"),
        (problem.is_float8, "its SM120 kernel takes no float8"),
        (problem.splits > 1, "its SM120 kernel has no splits"),
        (problem.route != "default", f"its SM120 kernel has no {problem.route} route"),
    )


def _sm100(problem: Problem) -> tuple[tuple[bool, str], ...]:
    """Pair what may be asked of SM100 in vain with the reason."""
    shape = (problem.head_dim, problem.head_dim_v)
    granule = 16 if problem.is_float8 else 8
    return (
        (
            shape not in WIDE_SHAPES
            and not (max(shape) <= WIDEST and not any(d % granule for d in shape)),
            f"its SM100 kernels take multiples of {granule} up to {WIDEST} and "
            f"{WIDE_SHAPES}, not {shape}",
        ),
        (problem.descales is not None, "its public function takes no descales"),
        (problem.block_scaled, "its public function takes no scales of blocks"),
        (
            problem.splits > 1 and problem.head_dim != problem.head_dim_v,
            "it splits unequal head dims only from 64 key tiles on",
        ),
        (
            problem.route not in ("default", "clc"),
            f"it has no {problem.route} route",
        ),
        (
            problem.route == "clc" and problem.heads_q == problem.heads_kv,
            "it takes no tiles by cluster launch control without grouped heads",
        ),
        (
            problem.route == "clc" and problem.head_dim == 256,
            "it takes no tiles of d256 by cluster launch control",
        ),
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
        """Call the function as a user would; it returns fresh tensors.

        Raises:
            UnsupportedError: with the package's reason, if it declines.
        """
        problem = self.problem
        causal = problem.causal != "none"
        try:
            with _route(problem.route):
                result = self._call(tensors, causal=causal)
        except (AssertionError, NotImplementedError) as error:
            raise UnsupportedError(f"flash-attn-4 declines: {error}") from error
        out, lse = result if isinstance(result, tuple) else (result, None)
        if problem.lse == "none":
            lse = None
        return Results(out=out, lse=lse.t() if lse is not None else None, returned=True)

    def _call(self, tensors: CallTensors, *, causal: bool) -> Any:
        problem = self.problem
        return self.function(
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
            learnable_sink=tensors.sinks,
            num_splits=problem.splits,
        )


def _route(route: str) -> Any:
    """Ask for a route as the environment variable `FA_CLC` does before the import."""
    if route != "clc":
        return nullcontext()
    options = importlib.import_module("flash_attn.cute.utils")
    return mock.patch.object(options, "_fa_clc_enabled", new=True)


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
