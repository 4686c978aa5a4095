"""Plans of nvidia-cudnn-frontend's packed (THD) forward, declared from a problem."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch

from sidestream.harness.cuda.virtual_cuda import DEVICE
from sidestream.harness.drivers.package_caches import SWITCHED_OFF
from sidestream.harness.drivers.protocol import CallTensors, Problem
from sidestream.harness.errors import UnsupportedError

INSTALL = (
    "pip install --no-deps nvidia-cudnn-frontend==1.32.0 apache-tvm-ffi==0.1.15.post2"
)
ADAPTERS = {"sm_100a": "SdpaFwdDslSm100", "sm_120a": "SdpaFwdDslSm120"}
"""By target, the package's class."""


@dataclass(frozen=True, kw_only=True)
class Strides:
    """What a plan is told of memory: (token, head, unit) strides in elements.

    `lse` is (head-major stride or None): None without LSE or if it is token-major.
    """

    q: tuple[int, ...]
    k: tuple[int, ...]
    v: tuple[int, ...]
    out: tuple[int, ...]
    lse: int | None


def packed(problem: Problem) -> Strides:
    """Return the strides of operands without gaps."""

    def rows(heads: int, dim: int) -> tuple[int, ...]:
        return (heads * dim, dim, 1)

    return Strides(
        q=rows(problem.heads_q, problem.head_dim),
        k=rows(problem.heads_kv, problem.head_dim),
        v=rows(problem.heads_kv, problem.head_dim_v),
        out=rows(problem.heads_q, problem.head_dim_v),
        lse=problem.capacity_q if problem.lse == "head_major" else None,
    )


def strides_of(problem: Problem, tensors: CallTensors) -> Strides:
    """Return the strides of a call's tensors."""
    lse = tensors.lse
    major = lse is not None and problem.lse == "head_major"
    return Strides(
        q=tuple(tensors.q.stride()),
        k=tuple(tensors.k.stride()),
        v=tuple(tensors.v.stride()),
        out=tuple(tensors.out.stride()),
        lse=int(lse.stride(0)) if lse is not None and major else None,
    )


@dataclass(frozen=True, kw_only=True)
class Package:
    """The parts of the package that are called.

    Attributes:
        adapter: The forward's class for the target.
        describe: Its description of a tensor.
        module: The module of the class.
    """

    adapter: Any
    describe: Any
    module: Any


def load(arch: str) -> Package:
    """Import the package.

    Raises:
        UnsupportedError: it cannot be imported, with the command that installs it.
    """
    os.environ.update(SWITCHED_OFF)
    try:
        module = importlib.import_module("cudnn.sdpa.fwd.api_dsl")
        describe = importlib.import_module("cudnn.api_base").TensorDesc
    except ImportError as error:
        raise UnsupportedError(
            f"nvidia-cudnn-frontend cannot be imported ({error}); {INSTALL}"
        ) from error
    return Package(
        adapter=getattr(module, ADAPTERS[arch]), describe=describe, module=module
    )


def declare(package: Package, problem: Problem, strides: Strides) -> Any:
    """Return a plan that the package has checked and not compiled.

    Raises:
        UnsupportedError: with the package's reason, if it declines.
    """
    bounded = problem.causal != "none" or problem.window_right is not None
    options: dict[str, Any] = {}
    if problem.is_float8:
        options = {"pertensor_fp8": not problem.block_scaled, "has_amax_o": False}
    try:
        plan = package.adapter(
            *_operands(package, problem, strides),
            sample_lse=_lse(package, problem, strides),
            is_causal=bounded,
            causal_bottom_right=bounded and problem.diagonal == "bottom_right",
            window_size_left=problem.window_left,
            window_size_right=problem.window_right or None,
            scale_softmax=problem.scale,
            cu_seq_q_lens=problem.lengths_q_form == "prefix",
            cu_seq_kv_lens=problem.lengths_kv_form == "prefix",
            has_sink=problem.sinks,
            thd=True,
            **options,
        )
        plan.check_support()
    except (NotImplementedError, ValueError) as error:
        raise UnsupportedError(f"cuDNN frontend declines: {error}") from error
    return plan


def compile_plan(package: Package, problem: Problem, plan: Any) -> None:
    """Compile a checked plan.

    Raises:
        UnsupportedError: with the package's reason, if it declines only now.
    """
    try:
        with routed(package, problem.route):
            plan.compile()
    except (NotImplementedError, ValueError) as error:
        raise UnsupportedError(f"cuDNN frontend declines: {error}") from error


@contextmanager
def routed(package: Package, route: str) -> Iterator[None]:
    """Choose among the two d512 kernels by the package's own switch."""
    two_by_two = route != "role-split"
    with mock.patch.object(package.module, "D512_2X2", two_by_two, create=True):
        yield


def _operands(package: Package, problem: Problem, strides: Strides) -> Iterator[Any]:
    """Describe each (tokens, heads, dim) operand as (batch, heads, longest, dim)."""
    kind, out = problem.torch_dtype, problem.torch_out_dtype
    q, kv = problem.max_len_q, problem.max_len_kv
    for steps, heads, dim, longest, dtype in (
        (strides.q, problem.heads_q, problem.head_dim, q, kind),
        (strides.k, problem.heads_kv, problem.head_dim, kv, kind),
        (strides.v, problem.heads_kv, problem.head_dim_v, kv, kind),
        (strides.out, problem.heads_q, problem.head_dim_v, q, out),
    ):
        token, head, unit = steps
        yield _described(
            package,
            (problem.batch, heads, longest, dim),
            (token * longest, head, token, unit),
            dtype,
        )


def _lse(package: Package, problem: Problem, strides: Strides) -> Any:
    if problem.lse == "none":
        return None
    longest, heads = problem.max_len_q, problem.heads_q
    steps: tuple[int, ...] = (longest * heads, 1, heads)
    if problem.lse == "head_major":
        steps = (longest, strides.lse or longest, 1)
    return _described(package, (problem.batch, heads, longest), steps, torch.float32)


def _described(
    package: Package, shape: Sequence[int], stride: Sequence[int], dtype: torch.dtype
) -> Any:
    order = tuple(sorted(range(len(shape)), key=lambda i: (stride[i], shape[i])))
    return package.describe(
        dtype=dtype,
        shape=tuple(shape),
        stride=tuple(stride),
        stride_order=order,
        device=torch.device(DEVICE),
    )
