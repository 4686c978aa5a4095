"""FlashAttention 4 with E4M3 queries, keys and values, and an O of bfloat16."""

import torch
from flash_attn.cute.interface import flash_attn_varlen_func
from packed_reference import attention, packed, prefix_of

torch.manual_seed(0)
lengths = (150, 1, 43)
prefix, total = prefix_of(lengths), sum((150, 1, 43))
q, k, v = (packed(total, n, dtype=torch.float8_e4m3fn) for n in (4, 2, 2))
out = flash_attn_varlen_func(
    q,
    k,
    v,
    cu_seqlens_q=prefix,
    cu_seqlens_k=prefix,
    max_seqlen_q=max(lengths),
    max_seqlen_k=max(lengths),
    causal=True,
)[0]
assert out.dtype == torch.bfloat16
host = (t.cpu().float() for t in (q, k, v))
right, _ = attention(*host, lengths, lengths, causal=True)
torch.testing.assert_close(out.cpu().float(), right, atol=0.1, rtol=0.05)
