"""nvidia-cudnn-frontend: its packed (THD) SDPA forward, unmodified, on SM120."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import Any

import torch

from sidestream.harness.cuda.virtual_cuda import DEVICE, VirtualCuda
from sidestream.harness.drivers.protocol import CallTensors, Problem, Results
from sidestream.harness.errors import UnsupportedError

INSTALL = (
    "pip install --no-deps nvidia-cudnn-frontend==1.32.0 apache-tvm-ffi==0.1.15.post2"
)
HEAD_DIMS = (64, 128)
"""Head dims that are driven: those its SM120 template has tiles for."""


class CudnnFrontend:
    """Drives cuDNN frontend's `SdpaFwdDslSm120`."""

    name = "cudnn"

    def supports(self, problem: Problem, arch: str) -> str | None:
        """Return why cuDNN frontend does not serve a problem, or None."""
        left_only = problem.causal == "none" and problem.window_right is None
        reasons = (
            (arch != "sm_120a", f"driven on sm_120a, not {arch}"),
            (
                problem.head_dim not in HEAD_DIMS,
                f"driven at head dims {HEAD_DIMS}, not {problem.head_dim}",
            ),
            (
                problem.diagonal == "bottom_right"
                and left_only
                and not problem.anchors_agree,
                "a left window alone follows the top left",
            ),
        )
        return next((reason for broken, reason in reasons if broken), None)

    def prepare(self, problem: Problem, world: VirtualCuda) -> PreparedCudnn:
        """Declare, check and compile the plan.

        Raises:
            UnsupportedError: if the package is missing or declines the problem.
        """
        make, describe = _load()
        return PreparedCudnn(
            problem=problem, make=make, describe=describe, plans={}, world=world
        )


@dataclass(frozen=True, kw_only=True)
class PreparedCudnn:
    """One problem; the plan needs the operands' strides, so it is made at the call."""

    problem: Problem
    make: Any
    describe: Any
    plans: dict[tuple[tuple[int, ...], ...], Any]
    world: VirtualCuda

    @property
    def workspace_bytes(self) -> int:
        """Bytes of the plan's metadata: an upper bound that holds for any strides."""
        return 128 * (8 + self.problem.batch)

    def plan(self, tensors: CallTensors) -> Any:
        """Return the compiled plan for the declared strides of `tensors`.

        Raises:
            UnsupportedError: with the package's reason, if it declines.
        """
        problem = self.problem
        operands = (tensors.q, tensors.k, tensors.v, tensors.out)
        lse = tensors.lse
        key = tuple(tuple(t.stride()) for t in operands)
        if lse is not None:
            key = (*key, (*lse.stride(), int(lse.shape[-1])))
        if key in self.plans:
            return self.plans[key]
        declared = [
            self._declare(tensor, longest)
            for tensor, longest in zip(
                operands,
                (
                    problem.max_len_q,
                    problem.max_len_kv,
                    problem.max_len_kv,
                    problem.max_len_q,
                ),
                strict=True,
            )
        ]
        bounded = problem.causal != "none" or problem.window_right is not None
        plan = self.make(
            *declared,
            sample_lse=self._declare_lse(lse) if lse is not None else None,
            is_causal=bounded,
            causal_bottom_right=bounded and problem.diagonal == "bottom_right",
            window_size_left=problem.window_left,
            window_size_right=problem.window_right or None,
            scale_softmax=problem.scale,
            cu_seq_q_lens=problem.lengths_q_form == "prefix",
            cu_seq_kv_lens=problem.lengths_kv_form == "prefix",
            has_sink=problem.sinks,
            thd=True,
        )
        try:
            plan.check_support()
            plan.compile()
        except (NotImplementedError, ValueError) as error:
            raise UnsupportedError(f"cuDNN frontend declines: {error}") from error
        self.plans[key] = plan
        return plan

    def execute(self, tensors: CallTensors, workspace: torch.Tensor) -> Results:
        """Execute the plan; outputs go to the caller's tensors."""
        plan = self.plan(tensors)
        required = int(plan.scratch_workspace_bytes())
        plan.execute(
            tensors.q,
            tensors.k,
            tensors.v,
            tensors.out,
            lse_tensor=tensors.lse,
            sinks=tensors.sinks,
            seq_q_lens=tensors.lengths_q,
            seq_kv_lens=tensors.lengths_kv,
            workspace=workspace[:required],
        )
        lse = tensors.lse
        if lse is not None and self.problem.lse == "head_major":
            lse = lse[:, : tensors.q.shape[0]].t()
        return Results(out=tensors.out, lse=lse, returned=False)

    def _declare(self, tensor: torch.Tensor, longest: int) -> Any:
        """Describe a (tokens, heads, dim) operand as (batch, heads, longest, dim)."""
        _, heads, dim = tensor.shape
        token, head, unit = tensor.stride()
        return self._described(
            (self.problem.batch, heads, longest, dim),
            (token * longest, head, token, unit),
            self.problem.torch_dtype,
        )

    def _declare_lse(self, lse: torch.Tensor) -> Any:
        problem = self.problem
        longest = problem.max_len_q
        if problem.lse == "token_major":
            strides = (longest * problem.heads_q, 1, problem.heads_q)
        else:
            strides = (longest, int(lse.stride(0)), 1)
        return self._described(
            (problem.batch, problem.heads_q, longest), strides, torch.float32
        )

    def _described(
        self, shape: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype
    ) -> Any:
        order = tuple(sorted(range(len(shape)), key=lambda i: (stride[i], shape[i])))
        return self.describe(
            dtype=dtype,
            shape=shape,
            stride=stride,
            stride_order=order,
            device=torch.device(DEVICE),
        )


def _load() -> tuple[Any, Any]:
    # Its disk cache of compiled plans does not know the virtual device.
    os.environ.setdefault("CUDNN_FRONTEND_DISABLE_COMPILED_CACHE", "1")
    try:
        adapter = importlib.import_module("cudnn.sdpa.fwd").SdpaFwdDslSm120
        describe = importlib.import_module("cudnn.api_base").TensorDesc
    except ImportError as error:
        raise UnsupportedError(
            f"nvidia-cudnn-frontend cannot be imported ({error}); {INSTALL}"
        ) from error
    return adapter, describe
