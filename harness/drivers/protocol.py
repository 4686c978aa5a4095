"""How an attention implementation is driven, whatever interface it has of its own.

driver = load("fa4")
reason = driver.supports(problem, "sm_120a")     # None: it serves the problem
prepared = driver.prepare(problem, world)        # host work, compilations
results = prepared.execute(tensors, workspace)   # the launches
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch

from sidestream.harness.cuda.virtual_cuda import VirtualCuda
from sidestream.reference.tolerance import Arithmetic

if TYPE_CHECKING:
    from typing_extensions import TypeIs


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One varlen attention forward, as a caller would declare and then call it.

    Row i of a sequence has its diagonal at `i` (top left) or `i + len_kv - len_q`
    (bottom right) and keeps key j if `j < len_kv`, `j <= diagonal + window_right`
    and `j >= diagonal - window_left`; causal is `window_right == 0`.

    Attributes:
        dtype: Of Q, K and V: `float16`, `bfloat16`, `float8_e4m3fn` or `float8_e5m2`.
        heads_q: Query heads.
        heads_kv: Key and value heads.
        head_dim: Head dimension of Q and K.
        head_dim_v: Head dimension of V and O.
        max_len_q: Declared longest query sequence.
        max_len_kv: Declared longest key sequence.
        lengths_q: Query length of every sequence. The host of a real caller does not
            know it; drivers use it to judge support and to write lengths in the form
            an interface wants, before the call.
        lengths_kv: Key length of every sequence.
        capacity_q: Token extent of Q, O and LSE.
        capacity_kv: Token extent of K and V.
        causal: `none`, `top_left` or `bottom_right`.
        window_left: Keys kept before the diagonal, or None for all.
        window_right: Keys kept after it, or None for all.
        anchor: Anchor of a window without `causal`.
        sinks: Whether a sink per query head is given.
        lse: `none`, `token_major` or `head_major`.
        lengths_q_form: `counts` (B,) or `prefix` (B + 1,).
        lengths_kv_form: Likewise.
        scale: Factor on the scores.
        out_dtype: Of O; None means `dtype`, or `bfloat16` with inputs of one byte.
        descales: Factors of Q, K and V, if they are given.
        block_scaled: Whether every 32 elements of Q, K and V have a scale.
        scale_out: Factor of O before it is rounded to a type of one byte.
        splits: Parts of the keys to work on apart and combine.
        route: Which way of the implementation's own is asked for; see
            `sidestream.scenarios.scenario.ROUTES`.
    """

    dtype: str
    heads_q: int
    heads_kv: int
    head_dim: int
    head_dim_v: int
    max_len_q: int
    max_len_kv: int
    lengths_q: tuple[int, ...]
    lengths_kv: tuple[int, ...]
    capacity_q: int
    capacity_kv: int
    causal: str = "none"
    window_left: int | None = None
    window_right: int | None = None
    anchor: str = "top_left"
    sinks: bool = False
    lse: str = "none"
    lengths_q_form: str = "counts"
    lengths_kv_form: str = "counts"
    scale: float
    out_dtype: str | None = None
    descales: tuple[float, float, float] | None = None
    block_scaled: bool = False
    scale_out: float | None = None
    splits: int = 1
    route: str = "default"

    @property
    def batch(self) -> int:
        """Number of sequences."""
        return len(self.lengths_q)

    @property
    def diagonal(self) -> str | None:
        """Anchor in force, or None if nothing is measured from the diagonal."""
        if self.causal != "none":
            return self.causal
        if self.window_left is None and self.window_right is None:
            return None
        return self.anchor

    @property
    def anchors_agree(self) -> bool:
        """Whether both anchors mean the same: every sequence is square."""
        return self.lengths_q == self.lengths_kv

    @property
    def torch_dtype(self) -> torch.dtype:
        """The element type of Q, K and V."""
        dtype: torch.dtype = getattr(torch, self.dtype)
        return dtype

    @property
    def is_float8(self) -> bool:
        """Whether Q, K and V have 8-bit elements."""
        return self.torch_dtype.itemsize == 1

    @property
    def torch_out_dtype(self) -> torch.dtype:
        """The element type of O."""
        if self.out_dtype is not None:
            dtype: torch.dtype = getattr(torch, self.out_dtype)
            return dtype
        return torch.bfloat16 if self.is_float8 else self.torch_dtype


@dataclass(frozen=True, kw_only=True)
class CallTensors:
    """The device tensors of one call.

    Attributes:
        q: (capacity_q, heads_q, head_dim).
        k: (capacity_kv, heads_kv, head_dim).
        v: (capacity_kv, heads_kv, head_dim_v).
        out: (capacity_q, heads_q, head_dim_v).
        lse: float32 (tokens, heads) or (heads, tokens) as declared, or None.
        lengths_q: int32 counts or prefix sums, as declared.
        lengths_kv: Likewise.
        sinks: float32 (heads_q,), or None.
        descales: float32 (1,) for each of Q, K and V, or None.
        scales: float8_e8m0fnu (heads, atoms, 512) for each of Q, K and V, or None; see
            `sidestream.reference.block_scales`.
        scale_out: float32 (1,), or None.
        amax: float32 (1,) for the largest |O|, with inputs of one byte.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    out: torch.Tensor
    lse: torch.Tensor | None
    lengths_q: torch.Tensor
    lengths_kv: torch.Tensor
    sinks: torch.Tensor | None
    descales: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None
    scales: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None
    scale_out: torch.Tensor | None = None
    amax: torch.Tensor | None = None


@dataclass(frozen=True, kw_only=True)
class Results:
    """What to judge: the call's own tensors, or those an interface returned.

    Attributes:
        out: (capacity_q, heads_q, head_dim_v).
        lse: float32, always viewed as (capacity_q, heads_q), or None.
        returned: True if the interface allocated them itself, so that nothing can be
            said of rows past the live total.
        amax: float32 (1,), the largest |O| before `scale_out`, or None.
    """

    out: torch.Tensor
    lse: torch.Tensor | None
    returned: bool
    amax: torch.Tensor | None = None

    @property
    def outputs(self) -> tuple[torch.Tensor, ...]:
        """The tensors that there are."""
        every = (self.out, self.lse, self.amax)
        return tuple(tensor for tensor in every if tensor is not None)

    def kept(self) -> Results:
        """Return copies in memory of their own, made on the current stream."""
        lse, amax = (
            tensor.clone() if tensor is not None else None
            for tensor in (self.lse, self.amax)
        )
        return replace(self, out=self.out.clone(), lse=lse, amax=amax)


class Prepared(Protocol):
    """An implementation ready to be called on a problem."""

    @property
    def workspace_bytes(self) -> int:
        """Scratch that the caller provides, aligned to 128 bytes."""

    def execute(self, tensors: CallTensors, workspace: torch.Tensor) -> Results:
        """Make the call on the world's current stream."""


class Driver(Protocol):
    """An implementation under test."""

    name: str
    """Its name on the command line."""

    def supports(self, problem: Problem, arch: str) -> str | None:
        """Return why the implementation does not serve a problem, or None."""

    def prepare(self, problem: Problem, world: VirtualCuda) -> Prepared:
        """Do everything that precedes the call; `world` is entered.

        Raises:
            UnsupportedError: if the implementation is not installed, with the
                command that installs it, or declines the problem.
        """


@runtime_checkable
class TellsArithmetic(Protocol):
    """A driver whose implementation departs from the standard arithmetic."""

    def arithmetic(self, problem: Problem, arch: str) -> Arithmetic:
        """Return the facts that the parity bound of a problem depends on."""


@runtime_checkable
class PlansAhead(Protocol):
    """A driver whose implementation compiles at plan time, and tells its key."""

    def compile_key(self, problem: Problem, arch: str) -> Hashable:
        """Return what the compiled code for a problem depends on."""

    def cache_info(self) -> Any:
        """Return the `hits` and `misses` of the compile cache so far."""


def plans_ahead(driver: object) -> TypeIs[PlansAhead]:
    """Tell whether a driver compiles at plan time; by its class, which is asked once.

    To ask an object for a protocol looks up every member each time, which costs tens
    of microseconds.
    """
    return issubclass(type(driver), PlansAhead)


def tells_arithmetic(driver: object) -> TypeIs[TellsArithmetic]:
    """Tell whether a driver's implementation departs from the standard arithmetic."""
    return issubclass(type(driver), TellsArithmetic)
