"""The kernels that `benchmarks.speed` times, each as a call that returns its output."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch

from benchmarks.batches import Batch, Operands
from sidestream.harness.run.card_world import card_arch
from sidestream.kernels.adapter import AttentionSpec, plan

Call = Callable[[], torch.Tensor]

CTAS_PER_SM = int(os.environ.get("CTAS_PER_SM", "1"))
"""Persistent CTAs of our kernel on a multiprocessor."""


def ours(batch: Batch, operands: Operands) -> Call:
    """Our SM120 kernel through its adapter."""
    card = torch.cuda.get_device_properties(0)
    target: Any = card_arch()
    spec = AttentionSpec(
        arch=target,
        dtype="bfloat16",
        batch=len(batch.lengths),
        heads_q=batch.heads_q,
        heads_kv=batch.heads_kv,
        head_dim=batch.head_dim,
        max_len_q=max(batch.lengths),
        max_len_kv=max(batch.lengths),
        lengths_q="prefix",
        lengths_kv="prefix",
        causal="bottom_right" if batch.causal else "none",
        multiprocessors=card.multi_processor_count * CTAS_PER_SM,
    )
    declared = plan(spec)
    compiled = declared.compile()
    out = torch.empty_like(operands.q)
    workspace = torch.empty(
        declared.workspace_bytes(), dtype=torch.uint8, device="cuda"
    )

    def call() -> torch.Tensor:
        compiled.execute(
            operands.q,
            operands.k,
            operands.v,
            out,
            None,
            operands.prefix,
            operands.prefix,
            workspace,
            torch.cuda.current_stream().cuda_stream,
        )
        return out

    return call


def fa4(batch: Batch, operands: Operands) -> Call:
    """flash-attn-4's SM120 kernel, chosen by the package's own variable."""
    os.environ.setdefault("FLASH_ATTENTION_ARCH", "sm_120")
    function: Any = importlib.import_module(
        "flash_attn.cute.interface"
    ).flash_attn_varlen_func

    def call() -> torch.Tensor:
        result = function(
            operands.q,
            operands.k,
            operands.v,
            cu_seqlens_q=operands.prefix,
            cu_seqlens_k=operands.prefix,
            max_seqlen_q=max(batch.lengths),
            max_seqlen_k=max(batch.lengths),
            causal=batch.causal,
        )
        out: torch.Tensor = result[0] if isinstance(result, tuple) else result
        return out

    return call


@contextmanager
def _pairs_one_by_one() -> Iterator[None]:
    """Let packed f32x2 arithmetic be two operations, for targets without it."""
    primitives: Any = importlib.import_module("cutlass.experimental.primitives")
    scalar: dict[str, Callable[..., Any]] = {
        "add_packed_f32x2": lambda a, b: a + b,
        "sub_packed_f32x2": lambda a, b: a - b,
        "mul_packed_f32x2": lambda a, b: a * b,
        "fma_packed_f32x2": lambda a, b, c: a * b + c,
    }

    def pairwise(operation: Callable[..., Any]) -> Callable[..., Any]:
        def pair(*operands: Any, **_: Any) -> Any:
            # Vectors of any even length go by elements already.
            if not isinstance(operands[0], tuple):
                return operation(*operands)
            return tuple(operation(*(o[i] for o in operands)) for i in range(2))

        return pair

    with ExitStack() as stack:
        for name, operation in scalar.items():
            stack.enter_context(
                mock.patch.object(primitives, name, pairwise(operation))
            )
        yield


def _sm120(*_: Any) -> tuple[int, int]:
    return 12, 0


def cudnn(batch: Batch, operands: Operands) -> Call:
    """Return the SM120 kernel of cuDNN frontend; on SM90 it takes the card for one."""
    os.environ.setdefault("CUDNN_FRONTEND_DISABLE_COMPILED_CACHE", "1")
    module: Any = importlib.import_module("cudnn.sdpa.fwd.api_dsl")
    describe: Any = importlib.import_module("cudnn.api_base").TensorDesc
    longest = max(batch.lengths)

    def described(heads: int) -> Any:
        row, dim = heads * batch.head_dim, batch.head_dim
        shape = (len(batch.lengths), heads, longest, dim)
        stride = (row * longest, dim, row, 1)
        order = tuple(sorted(range(4), key=lambda i: (stride[i], shape[i])))
        return describe(
            dtype=torch.bfloat16,
            shape=shape,
            stride=stride,
            stride_order=order,
            device=torch.device("cuda", 0),
        )

    q, kv = described(batch.heads_q), described(batch.heads_kv)
    declared = module.SdpaFwdDslSm120(
        q,
        kv,
        kv,
        q,
        sample_lse=None,
        is_causal=batch.causal,
        causal_bottom_right=batch.causal,
        scale_softmax=1 / math.sqrt(batch.head_dim),
        cu_seq_q_lens=True,
        cu_seq_kv_lens=True,
        thd=True,
    )
    with ExitStack() as stack:
        if torch.cuda.get_device_capability() == (9, 0):
            stack.enter_context(_pairs_one_by_one())
            stack.enter_context(
                mock.patch.object(torch.cuda, "get_device_capability", _sm120)
            )
        declared.check_support()
        declared.compile()
    out = torch.empty_like(operands.q)
    workspace = torch.empty(
        int(declared.scratch_workspace_bytes()), dtype=torch.uint8, device="cuda"
    )

    def call() -> torch.Tensor:
        declared.execute(
            operands.q,
            operands.k,
            operands.v,
            out,
            seq_q_lens=operands.prefix,
            seq_kv_lens=operands.prefix,
            workspace=workspace,
        )
        return out

    return call


def flash(batch: Batch, operands: Operands) -> Call:
    """Flash attention of torch for packed batches."""
    longest = max(batch.lengths)
    group = batch.heads_q // batch.heads_kv
    k = operands.k.repeat_interleave(group, 1)
    v = operands.v.repeat_interleave(group, 1)
    function: Any = torch.ops.aten._flash_attention_forward

    def call() -> torch.Tensor:
        result = function(
            operands.q,
            k,
            v,
            operands.prefix,
            operands.prefix,
            longest,
            longest,
            dropout_p=0.0,
            is_causal=batch.causal,
            return_debug_mask=False,
        )
        out: torch.Tensor = result[0]
        return out

    return call


PEERS: dict[str, Callable[[Batch, Operands], Call]] = {
    "ours": ours,
    "fa4": fa4,
    "cudnn": cudnn,
    "torch": flash,
}
