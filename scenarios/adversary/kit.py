"""What a situation needs: an implementation, device tensors of calls, a judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from sidestream.kernels import adapter
from sidestream.reference import block_scales, narrow, parity, tolerance
from sidestream.reference import lengths as seq
from sidestream.reference.attention import Problem

HEADS_Q, HEADS_KV = 2, 1
HEAD_DIMS = (64, 64)
"""Of Q and K, and of V and O, unless others are asked for."""
TYPES = ("bfloat16", "bfloat16")
"""Of Q, K and V, and of O, unless others are asked for."""
CAPACITY = 192
"""Tokens that the tensors of a call have room for, on either side."""
ATOMS = 3
"""Of scales that a head has, as many as the lengths of any call need."""
LENGTHS = ((33, 100), (67, 111))
"""Query and key lengths of most calls."""
OTHER_LENGTHS = ((90, 5), (12, 150))
DESCALES = {"descale_q": 0.75, "descale_k": 1.25, "descale_v": 0.5}
"""Factors of one-byte operands, as arguments of a call."""
SCALE_OUT = 40.0
WEIGHT_SCALE = 16.0
"""What our kernels multiply weights by before they are rounded to one byte."""
STALE = 1e30
"""The largest output that an earlier call has left."""


class WrongResultError(AssertionError):
    """A call gave something else than attention."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """Device tensors of one call; all of `CAPACITY` tokens.

    Attributes:
        q: (tokens, HEADS_Q, head dim) of the subject's input type, as K and V.
        k: (tokens, HEADS_KV, head dim).
        v: (tokens, HEADS_KV, head dim of values).
        out: (tokens, HEADS_Q, head dim of values) of its output type; starts as NaN.
        lse: float32 (tokens, HEADS_Q); starts as NaN.
        lengths_q: int32 (3,), prefix sums.
        lengths_kv: Likewise.
        seed: What the values were drawn with.
        scalars: float32 (1,) each, by argument: with one-byte inputs their factors and
            the largest output, with a one-byte output its factor.
        scales: float8_e8m0fnu (heads, ATOMS, 512) each, by argument, in place of the
            factors of block-scaled inputs.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    out: torch.Tensor
    lse: torch.Tensor
    lengths_q: torch.Tensor
    lengths_kv: torch.Tensor
    seed: int
    scalars: dict[str, torch.Tensor]
    scales: dict[str, torch.Tensor]


class Subject(Protocol):
    """An implementation under test."""

    @property
    def head_dims(self) -> tuple[int, int]:
        """Head dims of Q and K, and of V and O, that it is called with."""

    @property
    def types(self) -> tuple[str, str]:
        """Element types of Q, K and V, and of O."""

    @property
    def block_scaled(self) -> bool:
        """Whether one-byte inputs have scales of blocks and no factors."""

    def workspace_bytes(self) -> int:
        """Scratch that the caller provides, aligned to 128 bytes."""

    def execute(self, call: Call, workspace: torch.Tensor, stream: int) -> None:
        """Make a call on a stream; everything it does belongs there."""


class OurKernels:
    """Sidestream's own kernels; planned and compiled at the first call.

    Args:
        arch: Target, e.g. `sm_120a`.
        head_dims: Of Q and K, and of V and O.
        types: Of Q, K and V, and of O.
        block_scaled: Whether one-byte inputs have scales of blocks.
    """

    def __init__(
        self,
        arch: str,
        head_dims: tuple[int, int] = HEAD_DIMS,
        types: tuple[str, str] = TYPES,
        *,
        block_scaled: bool = False,
    ) -> None:
        self._arch = arch
        self.block_scaled = block_scaled
        self.head_dims = head_dims
        self.types = types
        self._plan: Any = None

    def workspace_bytes(self) -> int:
        """Scratch of the plan."""
        return int(self._planned().workspace_bytes())

    def execute(self, call: Call, workspace: torch.Tensor, stream: int) -> None:
        """Compile if nobody has, and launch."""
        self._planned().compile().execute(
            *(call.q, call.k, call.v, call.out, call.lse),
            *(call.lengths_q, call.lengths_kv, workspace, stream),
            **call.scalars,
            **call.scales,
        )

    def _planned(self) -> Any:
        if self._plan is None:
            self._plan = adapter.plan(
                adapter.AttentionSpec(
                    dtype=self.types[0],  # type: ignore[arg-type]  # as the arch
                    out_dtype=self.types[1],  # type: ignore[arg-type]
                    batch=2,
                    heads_q=HEADS_Q,
                    heads_kv=HEADS_KV,
                    head_dim=self.head_dims[0],
                    head_dim_v=self.head_dims[1],
                    max_len_q=512,
                    max_len_kv=512,
                    causal="bottom_right",
                    lse="token_major",
                    lengths_q="prefix",
                    lengths_kv="prefix",
                    block_scaled=self.block_scaled,
                    arch=self._arch,  # type: ignore[arg-type]  # checked by the plan
                    multiprocessors=4,
                )
            )
        return self._plan


class Kit:
    """Makes calls of one implementation and judges them.

    Args:
        subject: The implementation.
        planted: Whether a situation leaves out what the caller owes.
    """

    def __init__(self, subject: Subject, *, planted: bool = False) -> None:
        self.subject = subject
        self.planted = planted

    def call(self, *, seed: int = 1) -> Call:
        """Make the tensors of a call on the current stream; the host waits nowhere."""
        dtype, out_dtype = self.subject.types
        drawn = _draw(seed, self.subject.head_dims, narrow.by_name(dtype))
        shape = (CAPACITY, HEADS_Q, self.subject.head_dims[1])
        scalars: dict[str, float] = {}
        if is_narrow(dtype):
            scalars["amax"] = STALE
            if not self.subject.block_scaled:
                scalars |= DESCALES
        if is_narrow(out_dtype):
            scalars["scale_out"] = SCALE_OUT
        kind = getattr(torch, out_dtype)
        return Call(
            q=_upload(_bits(drawn[0], dtype)),
            k=_upload(_bits(drawn[1], dtype)),
            v=_upload(_bits(drawn[2], dtype)),
            out=torch.full(shape, torch.nan, dtype=kind, device="cuda"),
            lse=torch.full(shape[:2], torch.nan, device="cuda"),
            lengths_q=_upload(torch.from_numpy(seq.to_prefix(LENGTHS[0]))),
            lengths_kv=_upload(torch.from_numpy(seq.to_prefix(LENGTHS[1]))),
            seed=seed,
            scalars={
                name: torch.full((1,), value, device="cuda")
                for name, value in scalars.items()
            },
            scales={
                name: _upload(torch.from_numpy(held).view(torch.float8_e8m0fnu))
                for name, held in _scales(seed).items()
            }
            if self.subject.block_scaled
            else {},
        )

    def workspace(self) -> torch.Tensor:
        """Make scratch on the current stream; it holds anything."""
        return torch.empty(
            max(self.subject.workspace_bytes(), 1), dtype=torch.uint8, device="cuda"
        )

    def execute(self, call: Call, workspace: torch.Tensor, stream: Any) -> None:
        """Make a call on a stream, given as one of torch's or as a raw handle."""
        handle = stream if isinstance(stream, int) else stream.cuda_stream
        self.subject.execute(call, workspace, handle)

    def check(
        self, call: Call, lengths: Sequence[Sequence[int]] = LENGTHS, *, what: str = ""
    ) -> None:
        """Read the results on the current stream and hold them against float64.

        Factors and scales count as the device has them.

        Raises:
            WrongResultError: they are not attention.
        """
        dtype, out_dtype = self.subject.types
        kind, stored = narrow.by_name(dtype), narrow.by_name(out_dtype)
        q, k, v = _draw(call.seed, self.subject.head_dims, kind)
        held = {name: float(there.cpu()) for name, there in call.scalars.items()}
        for name, values, side, read in (
            ("scales_q", q, lengths[0], block_scales.column_factors),
            ("scales_k", k, lengths[1], block_scales.column_factors),
            ("scales_v", v, lengths[1], block_scales.token_factors),
        ):
            if name in call.scales:
                there = call.scales[name].cpu().view(torch.uint8).numpy()
                values[: sum(side)] *= read(there, side, values.shape[2])
        problem = Problem(
            q=q * held.get("descale_q", 1.0),
            k=k * held.get("descale_k", 1.0),
            v=v * held.get("descale_v", 1.0),
            seq_q=seq.from_counts(lengths[0]),
            seq_kv=seq.from_counts(lengths[1]),
            causal="bottom_right",
        )
        model = tolerance.Arithmetic(
            dtype=kind,
            out_dtype=stored,
            descaled="descale_q" in held,
            weight_scale=WEIGHT_SCALE if is_narrow(dtype) else 1.0,
            out_scale=held.get("scale_out"),
        )
        bounds = tolerance.bound(problem, dtype=model)
        rows = np.zeros(CAPACITY, bool)
        rows[: sum(lengths[0])] = True
        same = torch.uint8 if stored.width == 8 else torch.uint16
        out = narrow.from_bits(call.out.cpu().view(same).numpy(), stored)
        distance = parity.compare(
            bounds,
            out=out / held.get("scale_out", 1.0),
            lse=call.lse.cpu().numpy().astype(np.float64),
            amax=held.get("amax"),
            rows=rows,
        )
        if not distance.worst <= 1.0:
            raise WrongResultError(
                f"{what or 'the call'}: {distance.worst:.3g} times the bound at token, "
                f"head, column {distance.out_at}"
            )


def is_narrow(dtype: str) -> bool:
    """Whether elements of a type have one byte."""
    return narrow.by_name(dtype).width == 8


def _draw(
    seed: int, head_dims: tuple[int, int], kind: narrow.Format
) -> tuple[Any, Any, Any]:
    """Return Q, K and V as float64 values of a type."""
    generator = np.random.default_rng(seed)
    wide, of_values = head_dims
    drawn = (
        generator.standard_normal((CAPACITY, heads, dim))
        for heads, dim in ((HEADS_Q, wide), (HEADS_KV, wide), (HEADS_KV, of_values))
    )
    q, k, v = (narrow.round_to(values, kind) for values in drawn)
    return q, k, v


def _scales(seed: int) -> dict[str, NDArray[np.uint8]]:
    """Return the scales of Q, K and V: a half, 1 or 2 each."""
    generator = np.random.default_rng(seed)
    shapes = {"scales_q": HEADS_Q, "scales_k": HEADS_KV, "scales_v": HEADS_KV}
    size = (ATOMS, block_scales.ATOM_BYTES)
    return {
        name: generator.integers(126, 129, (heads, *size), dtype=np.uint8)
        for name, heads in shapes.items()
    }


def _bits(values: Any, dtype: str) -> torch.Tensor:
    """Return values of a type as a host tensor."""
    bits = narrow.to_bits(values, narrow.by_name(dtype))
    return torch.from_numpy(bits).view(getattr(torch, dtype))


def _upload(host: torch.Tensor) -> torch.Tensor:
    """Copy a tensor to the device through pinned memory, on the current stream."""
    return host.pin_memory().to("cuda", non_blocking=True)


def new_stream() -> Any:
    """Return a stream of torch's pool."""
    make: Any = torch.cuda.Stream
    return make()


def external(handle: int) -> Any:
    """Return torch's view of a stream that other code made."""
    make: Any = torch.cuda.ExternalStream
    return make(handle)
