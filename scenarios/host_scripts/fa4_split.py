"""FlashAttention 4 with keys in parts: few queries over many keys, then a combine."""

import torch
from flash_attn.cute.interface import flash_attn_varlen_func
from packed_reference import attention, packed, prefix_of

torch.manual_seed(0)
lengths_q, lengths_k = (2, 1), (400, 290)
q = packed(sum(lengths_q), 4)
k, v = packed(sum(lengths_k), 2), packed(sum(lengths_k), 2)
out, lse = flash_attn_varlen_func(
    q,
    k,
    v,
    cu_seqlens_q=prefix_of(lengths_q),
    cu_seqlens_k=prefix_of(lengths_k),
    max_seqlen_q=max(lengths_q),
    max_seqlen_k=max(lengths_k),
    causal=True,
    num_splits=3,
    return_lse=True,
)[:2]
right, sums = attention(q.cpu(), k.cpu(), v.cpu(), lengths_q, lengths_k, causal=True)
torch.testing.assert_close(out.cpu().float(), right, atol=0.02, rtol=0.02)
torch.testing.assert_close(lse.cpu().T, sums, atol=0.02, rtol=0.02)
