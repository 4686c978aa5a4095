"""FlashAttention 4's sliding window: every query sees itself and 40 keys before."""

import torch
from flash_attn.cute.interface import flash_attn_varlen_func
from packed_reference import attention, packed, prefix_of

torch.manual_seed(0)
lengths = (150, 1, 43)
prefix = prefix_of(lengths)
q, k, v = packed(sum(lengths), 4), packed(sum(lengths), 2), packed(sum(lengths), 2)
out = flash_attn_varlen_func(
    q,
    k,
    v,
    cu_seqlens_q=prefix,
    cu_seqlens_k=prefix,
    max_seqlen_q=max(lengths),
    max_seqlen_k=max(lengths),
    causal=True,
    window_size=(40, 0),
)[0]
right, _ = attention(
    q.cpu(), k.cpu(), v.cpu(), lengths, lengths, causal=True, window=40
)
torch.testing.assert_close(out.cpu().float(), right, atol=0.02, rtol=0.02)
