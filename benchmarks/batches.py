"""Packed batches on which kernels are timed on a card."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import torch

from sidestream.scenarios.trace import excerpt


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Lengths of a packed self-attention batch and the shape of a token.

    Attributes:
        name: Shown in the table.
        lengths: Tokens of each sequence, of queries and of keys.
        heads_q: Query heads.
        heads_kv: Key heads; divides `heads_q`.
        head_dim: Elements of a head.
        causal: Whether query i sees keys up to i.
    """

    name: str
    lengths: tuple[int, ...]
    heads_q: int = 32
    heads_kv: int = 8
    head_dim: int = 128
    causal: bool = True

    @property
    def tokens(self) -> int:
        """Packed tokens."""
        return sum(self.lengths)

    @property
    def flops(self) -> int:
        """Multiplications and additions of both products, masked pairs left out."""
        pairs = sum(n * (n + 1) // 2 if self.causal else n * n for n in self.lengths)
        return 4 * pairs * self.heads_q * self.head_dim


@dataclass(frozen=True, kw_only=True)
class Operands:
    """Device tensors of a batch: bf16 (tokens, heads, head_dim), int32 (batch + 1,)."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    prefix: torch.Tensor

    @classmethod
    def drawn(cls, batch: Batch) -> Operands:
        """Draw normal values from a fixed seed."""
        generator = torch.Generator(device="cuda").manual_seed(7)

        def tensor(heads: int) -> torch.Tensor:
            return torch.randn(
                (batch.tokens, heads, batch.head_dim),
                device="cuda",
                dtype=torch.bfloat16,
                generator=generator,
            )

        sums = torch.tensor((0, *batch.lengths)).cumsum(0)
        return cls(
            q=tensor(batch.heads_q),
            k=tensor(batch.heads_kv),
            v=tensor(batch.heads_kv),
            prefix=sums.to(device="cuda", dtype=torch.int32),
        )


def prompts(trace: str, requests: int) -> tuple[int, ...]:
    """Lengths of the first prompts of a trace, unscaled."""
    with excerpt(trace).open(newline="") as file:
        rows = csv.DictReader(file)
        return tuple(int(row["ContextTokens"]) for row in islice(rows, requests))


def batches() -> Iterator[Batch]:
    """Uniform batches, trace prompts and very unequal lengths; d128, then d64."""
    shapes = (
        Batch(name="32 x 512 causal", lengths=(512,) * 32),
        Batch(name="8 x 2048 causal", lengths=(2048,) * 8),
        Batch(name="2 x 8192 causal", lengths=(8192,) * 2),
        Batch(name="8 x 2048 full", lengths=(2048,) * 8, causal=False),
        Batch(name="24 prompts of conv", lengths=prompts("conv", 24)),
        Batch(name="12 prompts of code", lengths=prompts("code", 12)),
        Batch(name="1 x 8000, 64 x 100", lengths=(8000, *(100,) * 64)),
    )
    for head_dim in (128, 64):
        for shape in shapes:
            yield replace(shape, head_dim=head_dim)
