"""FlashAttention 4 with a learned sink of each head, and a sliding window besides."""

import torch
from flash_attn.cute.interface import flash_attn_varlen_func
from packed_reference import attention, packed, prefix_of

torch.manual_seed(0)
lengths = (140, 1, 43)
prefix = prefix_of(lengths)
q, k, v = packed(sum(lengths), 4), packed(sum(lengths), 2), packed(sum(lengths), 2)
sinks = torch.tensor([-1.0, 0.0, 2.0, 4.0])
for window in (None, 40):
    out, lse = flash_attn_varlen_func(
        q,
        k,
        v,
        cu_seqlens_q=prefix,
        cu_seqlens_k=prefix,
        max_seqlen_q=max(lengths),
        max_seqlen_k=max(lengths),
        causal=True,
        window_size=(window, 0 if window else None),
        learnable_sink=sinks.to("cuda", torch.bfloat16),
        return_lse=True,
    )
    host = q.cpu(), k.cpu(), v.cpu()
    right, sums = attention(
        *host, lengths, lengths, causal=True, window=window, sinks=sinks
    )
    torch.testing.assert_close(out.cpu().float(), right, atol=0.02, rtol=0.02)
    torch.testing.assert_close(lse.cpu().T, sums, atol=1e-2, rtol=1e-2)
