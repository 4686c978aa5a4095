"""The declaration of a varlen attention forward, and what it may ask for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from sidestream.kernels.common.config import element_bytes
from sidestream.kernels.errors import ContractError, PlanError

DType = Literal["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
Causal = Literal["none", "top_left", "bottom_right"]
Anchor = Literal["top_left", "bottom_right"]
LseLayout = Literal["none", "token_major", "head_major"]
LengthForm = Literal["counts", "prefix"]
Arch = Literal["sm_120a", "sm_100a", "sm_90a"]

MAX_TOKENS = 1 << 29
"""Tokens of one packed side; keeps every int32 token index and mask bound exact."""

LARGEST_HEAD_DIM: dict[str, int] = {
    "sm_120a": 256,
    "sm_100a": 512,
    "sm_90a": 256,
}
"""Of queries and keys, and of values, by target."""

LARGEST_NARROW_HEAD_DIM: dict[str, int] = {
    "sm_120a": 256,
    "sm_90a": 256,
    "sm_100a": 128,
}
"""The same of one-byte inputs."""

_MULTIPROCESSORS: dict[str, int] = {
    "sm_120a": 188,
    "sm_100a": 148,
    "sm_90a": 132,
}


@dataclass(frozen=True, kw_only=True)
class AttentionSpec:
    """Plan-time facts of a packed (THD) attention forward.

    Row i of a sequence has its diagonal at `i` (top-left) or `i + len_kv - len_q`
    (bottom-right). It keeps key j when `j < len_kv`, `j <= diagonal + window_right`
    and `j >= diagonal - window_left`; `causal` is `window_right == 0` with its anchor.

    One-byte inputs stand for their numbers times a float32 factor each, which `execute`
    takes as device scalars; it then also writes the output's largest magnitude. With
    `block_scaled` (MXFP8) no tensor has a factor, and every 32 elements along the
    dimension that is contracted have a scale, a power of two of one byte (UE8M0): 32
    columns of a row of Q or K, 32 keys of a column of V, counted from a sequence's
    first. `docs/kernels.md` has the order of the scales.

    Args:
        dtype: element type of Q, K and V.
        out_dtype: of the output, any of them with one-byte inputs; when None, and
            always with two-byte inputs, `dtype`, but bfloat16 with one-byte ones.
        batch: sequences; fixed per plan, lengths may be 0.
        heads_q: query heads, a multiple of `heads_kv`.
        heads_kv: key/value heads.
        head_dim: of queries and keys; a multiple of 8, at most `LARGEST_HEAD_DIM`.
            With one-byte inputs a multiple of 16, at most `LARGEST_NARROW_HEAD_DIM`.
        head_dim_v: of values and the output, `head_dim` when None.
        max_len_q: longest query sequence; chooses the tile height and the grid bound.
        max_len_kv: longest key sequence.
        causal: the mask's anchor, or "none".
        window_left: keys kept before the diagonal, or None for all.
        window_right: keys kept after the diagonal, or None for all; not with `causal`.
        anchor: anchor of a window without `causal`; top-left when None.
        sinks: whether a float32 sink per query head (natural units) is given.
        lse: layout of the float32 natural-log log-sum-exp, or "none".
        lengths_q: int32 counts (B,) or prefix sums (B+1,) with any base.
        lengths_kv: likewise, independently.
        scale: factor on the scores, 1/sqrt(head_dim) when None; any finite non-zero.
        block_scaled: whether one-byte inputs have a scale for every 32 elements, and no
            factor; on sm_100a only.
        arch: compilation target.
        multiprocessors: what the persistent grid fills, the card's usual when None.
    """

    dtype: DType
    out_dtype: DType | None = None
    batch: int
    heads_q: int
    heads_kv: int
    head_dim: int
    head_dim_v: int | None = None
    max_len_q: int
    max_len_kv: int
    causal: Causal = "none"
    window_left: int | None = None
    window_right: int | None = None
    anchor: Anchor | None = None
    sinks: bool = False
    lse: LseLayout = "none"
    lengths_q: LengthForm = "counts"
    lengths_kv: LengthForm = "counts"
    scale: float | None = None
    block_scaled: bool = False
    arch: Arch = "sm_120a"
    multiprocessors: int | None = None

    @property
    def width_v(self) -> int:
        """Head dimension of values and the output."""
        return self.head_dim if self.head_dim_v is None else self.head_dim_v

    @property
    def narrow(self) -> bool:
        """Whether Q, K and V are of one byte, and come with factors or scales."""
        return element_bytes(self.dtype) == 1

    @property
    def descaled(self) -> bool:
        """Whether Q, K and V come with a factor each."""
        return self.narrow and not self.block_scaled

    @property
    def output_dtype(self) -> DType:
        """The element type of the output."""
        if self.out_dtype is not None:
            return self.out_dtype
        return "bfloat16" if self.narrow else self.dtype

    @property
    def narrow_output(self) -> bool:
        """Whether the output is of one byte, and scaled by a factor of its own."""
        return element_bytes(self.output_dtype) == 1

    @property
    def softmax_scale(self) -> float:
        """The factor on the scores."""
        return 1.0 / math.sqrt(self.head_dim) if self.scale is None else self.scale

    @property
    def diagonal(self) -> Anchor:
        """The anchor in force."""
        if self.causal != "none":
            return self.causal
        return self.anchor or "top_left"

    @property
    def right(self) -> int | None:
        """Keys kept after the diagonal, or None for all."""
        return 0 if self.causal != "none" else self.window_right

    @property
    def sms(self) -> int:
        """Multiprocessors that a launch fills."""
        return self.multiprocessors or _MULTIPROCESSORS[self.arch]


def check_spec(spec: AttentionSpec) -> None:
    """Raise PlanError with the reason if the kernels do not serve `spec`."""
    choices = (
        ("dtype", DType),
        ("causal", Causal),
        ("lse", LseLayout),
        ("lengths_q", LengthForm),
        ("lengths_kv", LengthForm),
        ("arch", Arch),
    )
    for name, kind in choices:
        _require_choice(name, getattr(spec, name), get_args(kind))
    if spec.out_dtype is not None:
        _require_choice("out_dtype", spec.out_dtype, get_args(DType))
    if not spec.narrow and spec.output_dtype != spec.dtype:
        raise PlanError(
            f"out_dtype is {spec.out_dtype}; {spec.dtype} inputs give their own type"
        )
    if spec.block_scaled and not spec.narrow:
        raise PlanError(
            f"block_scaled is set; it needs one-byte inputs, dtype is {spec.dtype}"
        )
    if spec.block_scaled and spec.arch != "sm_100a":
        raise PlanError(f"block_scaled is not served on {spec.arch}, only on sm_100a")
    if spec.anchor is not None:
        _require_choice("anchor", spec.anchor, get_args(Anchor))
    for name in ("batch", "heads_q", "heads_kv", "max_len_q", "max_len_kv"):
        value = getattr(spec, name)
        if not 1 <= value < MAX_TOKENS:
            raise PlanError(f"{name} is {value}; it must be in [1, {MAX_TOKENS})")
    _check_head_dims(spec)
    if spec.heads_q % spec.heads_kv:
        raise PlanError(
            f"heads_q {spec.heads_q} is not a multiple of heads_kv {spec.heads_kv}"
        )
    _check_mask(spec)
    scale = spec.softmax_scale
    if not math.isfinite(scale) or scale == 0.0:
        raise PlanError(f"scale is {scale}; it must be finite and not zero")
    if spec.multiprocessors is not None and spec.multiprocessors < 1:
        raise PlanError("multiprocessors must be at least 1")


def _require_choice(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        names = ", ".join(str(item) for item in allowed)
        raise PlanError(f"{name} is {value!r}; it must be one of {names}")


def _check_head_dims(spec: AttentionSpec) -> None:
    step, largest = 8, LARGEST_HEAD_DIM[spec.arch]
    if spec.narrow:
        # Rows of whole 16-byte units, as TMA and wide stores need.
        step, largest = 16, LARGEST_NARROW_HEAD_DIM[spec.arch]
    for name, value in (("head_dim", spec.head_dim), ("head_dim_v", spec.width_v)):
        if value % step or not step <= value <= largest:
            raise PlanError(
                f"{name} is {value}; on {spec.arch} with {spec.dtype} inputs it must "
                f"be a multiple of {step} in [{step}, {largest}]"
            )


def _check_mask(spec: AttentionSpec) -> None:
    for name in ("window_left", "window_right"):
        width = getattr(spec, name)
        if width is not None and width < 0:
            raise PlanError(f"{name} is {width}; it must not be negative")
    if spec.causal == "none":
        return
    if spec.window_right is not None:
        raise PlanError("causal already means window_right 0; give one of the two")
    if spec.anchor not in (None, spec.causal):
        raise PlanError(f"anchor {spec.anchor} contradicts causal {spec.causal}")


def validate_lengths(
    spec: AttentionSpec, lengths_q: Sequence[int], lengths_kv: Sequence[int]
) -> None:
    """Check host copies of the lengths, where a caller has them.

    `execute` cannot do this: lengths live on the device. There, a length beyond its
    declared maximum still yields correct rows as far as the buffers reach.

    Args:
        spec: the declaration; its length forms say how to read the sequences.
        lengths_q: counts (B) or prefix sums (B+1) of the query side.
        lengths_kv: likewise for the key side.

    Raises:
        ContractError: wrong number of entries, a negative length, or a length above
            the declared maximum.
    """
    sides = (
        ("lengths_q", spec.lengths_q, lengths_q, spec.max_len_q),
        ("lengths_kv", spec.lengths_kv, lengths_kv, spec.max_len_kv),
    )
    for name, form, values, longest in sides:
        expected = spec.batch + (form == "prefix")
        if len(values) != expected:
            raise ContractError(
                f"{name} has {len(values)} entries; {form} of batch {spec.batch} "
                f"needs {expected}"
            )
        counts = (
            [b - a for a, b in itertools.pairwise(values)]
            if form == "prefix"
            else list(values)
        )
        for index, count in enumerate(counts):
            if not 0 <= count <= longest:
                raise ContractError(
                    f"{name}: sequence {index} has length {count}; the plan declares "
                    f"at most {longest}"
                )
