"""Sidestream's own kernels through their adapter: plan, compile, execute."""

from __future__ import annotations

import importlib
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import torch

from sidestream.harness.cuda.virtual_cuda import VirtualCuda
from sidestream.harness.drivers.arithmetic import standard
from sidestream.harness.drivers.protocol import CallTensors, Problem, Results
from sidestream.harness.errors import UnsupportedError
from sidestream.reference.tolerance import Arithmetic


class Sidestream:
    """Drives an adapter: `sidestream.kernels.adapter`, or one with its interface.

    Args:
        adapter: Offers `plan`, `cache_info`, `AttentionSpec` and `PlanError`; our own
            adapter unless given.
    """

    name = "sidestream"

    def __init__(self, adapter: Any = None) -> None:
        self._given = adapter
        self._last: tuple[Problem, str, Any] | None = None

    @property
    def _adapter(self) -> Any:
        if self._given is None:
            self._given = importlib.import_module("sidestream.kernels.adapter")
        return self._given

    def compile_key(self, problem: Problem, arch: str) -> Hashable:
        """Return what the code for a problem depends on; nothing is compiled."""
        key: Hashable = self._accepted(problem, arch).key
        return key

    def _accepted(self, problem: Problem, arch: str) -> Any:
        """Return a plan to be asked, not to be called: one for many questions.

        What is called comes of a plan of its own, as a caller makes it.
        """
        if self._last is None or self._last[0] is not problem or self._last[1] != arch:
            plan = self._adapter.plan(self._spec(problem, arch, 1))
            self._last = problem, arch, plan
        return self._last[2]

    def cache_info(self) -> Any:
        """Return the adapter's hits and misses so far."""
        return self._adapter.cache_info()

    def _spec(self, problem: Problem, arch: str, multiprocessors: int) -> Any:
        facts = _declared(problem)
        return self._adapter.AttentionSpec(
            **facts, arch=arch, multiprocessors=multiprocessors
        )

    def supports(self, problem: Problem, arch: str) -> str | None:
        """Return why our kernels do not serve a problem, or None."""
        reasons = (
            (
                problem.is_float8
                and problem.descales is None
                and not problem.block_scaled,
                "inputs of one byte come with factors or scales",
            ),
            (problem.splits > 1, "the keys of a row are never split"),
            (problem.route != "default", f"there is no {problem.route} route"),
        )
        for broken, reason in reasons:
            if broken:
                return reason
        try:
            self._accepted(problem, arch)
        except self._adapter.PlanError as error:
            return str(error)
        return None

    def arithmetic(self, problem: Problem, arch: str) -> Arithmetic:
        """Return the standard arithmetic, but for the factor on one-byte weights."""
        usual = standard(problem)
        if not problem.is_float8:
            return usual
        config = self._accepted(problem, arch).key.config
        return replace(usual, weight_scale=2.0**config.bias)

    def prepare(self, problem: Problem, world: VirtualCuda) -> PreparedSidestream:
        """Plan and compile, for as many multiprocessors as the chip shows.

        Raises:
            UnsupportedError: if the plan is refused.
        """
        chip = world.chip
        try:
            plan = self._adapter.plan(self._spec(problem, chip.arch, chip.sms))
        except self._adapter.PlanError as error:
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
        narrow: dict[str, Any] = {}
        if tensors.descales is not None:
            names = ("descale_q", "descale_k", "descale_v")
            narrow = dict(zip(names, tensors.descales, strict=True))
        if tensors.scales is not None:
            names = ("scales_q", "scales_k", "scales_v")
            narrow = dict(zip(names, tensors.scales, strict=True))
        if self.problem.is_float8:
            narrow |= {"scale_out": tensors.scale_out, "amax": tensors.amax}
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
            **narrow,
        )
        lse = tensors.lse
        if lse is not None and self.problem.lse == "head_major":
            lse = lse[:, : tensors.q.shape[0]].t()
        return Results(
            out=tensors.out, lse=lse, returned=False, amax=narrow.get("amax")
        )


def _declared(problem: Problem) -> dict[str, Any]:
    """Return the plan-time facts of a problem as arguments of `AttentionSpec`."""
    return {
        "dtype": problem.dtype,
        "out_dtype": problem.out_dtype,
        "batch": problem.batch,
        "heads_q": problem.heads_q,
        "heads_kv": problem.heads_kv,
        "head_dim": problem.head_dim,
        "head_dim_v": problem.head_dim_v,
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
        "block_scaled": problem.block_scaled,
    }
