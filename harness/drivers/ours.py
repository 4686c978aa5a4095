"""Sidestream's own kernels through their adapter: plan, compile, execute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from sidestream.harness.cuda.virtual_cuda import VirtualCuda
from sidestream.harness.drivers.protocol import CallTensors, Problem, Results
from sidestream.harness.errors import UnsupportedError


class Sidestream:
    """Drives `sidestream.kernels`."""

    name = "sidestream"

    def supports(self, problem: Problem, arch: str) -> str | None:
        """Return why our kernels do not serve a problem, or None."""
        from sidestream.kernels import adapter

        try:
            adapter.plan(_spec(problem, arch, 1))
        except adapter.PlanError as error:
            return str(error)
        return None

    def prepare(self, problem: Problem, world: VirtualCuda) -> PreparedSidestream:
        """Plan and compile, for as many multiprocessors as the chip shows.

        Raises:
            UnsupportedError: if the plan is refused.
        """
        from sidestream.kernels import adapter

        chip = world.chip
        try:
            plan = adapter.plan(_spec(problem, chip.arch, chip.sms))
        except adapter.PlanError as error:
            raise UnsupportedError(f"our kernels decline: {error}") from error
        return PreparedSidestream(
            problem=problem,
            plan=plan,
            compiled=plan.compile(),
            stream=world.stream.cuda_stream,
        )


@dataclass(frozen=True, kw_only=True)
class PreparedSidestream:
    """A compiled plan of one problem."""

    problem: Problem
    plan: Any
    compiled: Any
    stream: int

    @property
    def workspace_bytes(self) -> int:
        """Scratch of the plan, in bytes."""
        return int(self.plan.workspace_bytes())

    def execute(self, tensors: CallTensors, workspace: torch.Tensor) -> Results:
        """Execute into the caller's tensors."""
        self.compiled.execute(
            tensors.q,
            tensors.k,
            tensors.v,
            tensors.out,
            tensors.lse,
            tensors.lengths_q,
            tensors.lengths_kv,
            workspace,
            self.stream,
            sinks=tensors.sinks,
        )
        lse = tensors.lse
        if lse is not None and self.problem.lse == "head_major":
            lse = lse[:, : tensors.q.shape[0]].t()
        return Results(out=tensors.out, lse=lse, returned=False)


def _spec(problem: Problem, arch: str, multiprocessors: int) -> Any:
    from sidestream.kernels import adapter

    given: dict[str, Any] = {
        "dtype": problem.dtype,
        "batch": problem.batch,
        "heads_q": problem.heads_q,
        "heads_kv": problem.heads_kv,
        "head_dim": problem.head_dim,
        "max_len_q": problem.max_len_q,
        "max_len_kv": problem.max_len_kv,
        "causal": problem.causal,
        "window_left": problem.window_left,
        "window_right": problem.window_right,
        "anchor": problem.diagonal or "top_left",
        "sinks": problem.sinks,
        "lse": problem.lse,
        "lengths_q": problem.lengths_q_form,
        "lengths_kv": problem.lengths_kv_form,
        "scale": problem.scale,
        "arch": arch,
        "multiprocessors": multiprocessors,
    }
    return adapter.AttentionSpec(**given)
