"""nvidia-cudnn-frontend: its packed (THD) SDPA forward, unmodified."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.cuda.virtual_cuda import VirtualCuda
from sidestream.harness.drivers.arithmetic import (
    CUBIC_EXP2_ERROR,
    EX2_ERROR,
    standard,
)
from sidestream.harness.drivers.cudnn_plan import (
    ADAPTERS,
    Package,
    Strides,
    compile_plan,
    declare,
    load,
    packed,
    strides_of,
)
from sidestream.harness.drivers.protocol import CallTensors, Problem, Results
from sidestream.harness.dsl.activation import active
from sidestream.harness.errors import UnsupportedError
from sidestream.reference.tolerance import Arithmetic

SM120_SHAPES = ((64, 64), (128, 128), (192, 128), (256, 256))
"""Head dims, of V last, that are driven on SM120."""
FLOAT8_WEIGHT_SCALE = 2.0**4
"""P times this is what its kernels round to one byte."""


class CudnnFrontend:
    """Drives cuDNN frontend's `SdpaFwdDslSm100` and `SdpaFwdDslSm120`."""

    name = "cudnn"

    def supports(self, problem: Problem, arch: str) -> str | None:
        """Return why cuDNN frontend does not serve a problem, or None.

        For SM100 and for one-byte inputs the package is asked itself, about operands
        without gaps.
        """
        left_only = problem.causal == "none" and problem.window_right is None
        reasons = (
            (
                problem.is_float8 and problem.torch_out_dtype != torch.bfloat16,
                "driven with bfloat16 outputs of float8 inputs",
            ),
            (arch not in ADAPTERS, f"driven on {', '.join(ADAPTERS)}, not {arch}"),
            (
                problem.diagonal == "bottom_right"
                and left_only
                and not problem.anchors_agree,
                "a left window alone follows the top left",
            ),
            (problem.splits > 1, "driven without splits"),
            (
                problem.route not in ("default", "role-split"),
                f"it has no {problem.route} route",
            ),
            (
                problem.route == "role-split"
                and (arch != "sm_100a" or problem.head_dim != 512),
                "roles are split between CTA pairs only in the SM100 kernel of d512",
            ),
            *(_sm120(problem) if arch == "sm_120a" else ()),
        )
        for broken, reason in reasons:
            if broken:
                return reason
        asked = arch == "sm_100a" or problem.is_float8
        return _declines(problem, arch) if asked else None

    def arithmetic(self, problem: Problem, arch: str) -> Arithmetic:
        """Return the standard arithmetic, but for what its kernels do with weights."""
        used = standard(problem)
        if problem.is_float8:
            used = replace(used, weight_scale=FLOAT8_WEIGHT_SCALE)
        if arch != "sm_100a":
            return used
        return replace(used, exp_error=CUBIC_EXP2_ERROR, alpha_error=EX2_ERROR)

    def prepare(self, problem: Problem, world: VirtualCuda) -> PreparedCudnn:
        """Declare and check the plan.

        Raises:
            UnsupportedError: if the package is missing or declines the problem.
        """
        package = load(world.chip.arch)
        plan = declare(package, problem, packed(problem))
        return PreparedCudnn(
            problem=problem,
            package=package,
            workspace_bytes=int(plan.scratch_workspace_bytes()),
        )


def _sm120(problem: Problem) -> tuple[tuple[bool, str], ...]:
    """Pair what may be asked of SM120 in vain with the reason."""
    shape = (problem.head_dim, problem.head_dim_v)
    return (
        (
            shape not in SM120_SHAPES,
            f"driven on SM120 at head dims {SM120_SHAPES}, not {shape}",
        ),
        (problem.block_scaled, "driven on SM120 without scales of blocks"),
    )


def _declines(problem: Problem, arch: str) -> str | None:
    """Ask the package; one that is missing declines nothing yet."""
    try:
        package = load(arch)
    except UnsupportedError:
        return None
    with VirtualCuda(active(), AllocationTable()):
        try:
            declare(package, problem, packed(problem))
        except UnsupportedError as error:
            return str(error)
    return None


@dataclass(frozen=True, kw_only=True)
class PreparedCudnn:
    """One problem; the plan needs the operands' strides, so it is made at the call.

    Attributes:
        problem: What is asked.
        package: Who is asked.
        workspace_bytes: Bytes of the plan's metadata, which strides do not change.
    """

    problem: Problem
    package: Package
    workspace_bytes: int
    _plans: dict[Strides, Any] = field(default_factory=dict)

    def plan(self, tensors: CallTensors) -> Any:
        """Return the compiled plan for the declared strides of `tensors`.

        Raises:
            UnsupportedError: with the package's reason, if it declines.
        """
        strides = strides_of(self.problem, tensors)
        if strides not in self._plans:
            plan = declare(self.package, self.problem, strides)
            compile_plan(self.package, self.problem, plan)
            self._plans[strides] = plan
        return self._plans[strides]

    def execute(self, tensors: CallTensors, workspace: torch.Tensor) -> Results:
        """Execute the plan; outputs go to the caller's tensors."""
        plan = self.plan(tensors)
        required = int(plan.scratch_workspace_bytes())
        scales: dict[str, torch.Tensor] = {}
        if tensors.descales is not None:
            names = ("descale_q", "descale_k", "descale_v")
            scales = dict(zip(names, tensors.descales, strict=True))
        if tensors.scales is not None:
            names = ("sf_q", "sf_k", "sf_v")
            scales = dict(zip(names, tensors.scales, strict=True))
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
            **scales,
        )
        lse = tensors.lse
        if lse is not None and self.problem.lse == "head_major":
            lse = lse[:, : tensors.q.shape[0]].t()
        return Results(out=tensors.out, lse=lse, returned=False)
