"""FlashAttention 4's varlen forward on a side stream, as a serving loop calls it."""

import torch
from flash_attn.cute.interface import flash_attn_varlen_func

HEADS, KV_HEADS, DIM = 4, 2, 128
torch.manual_seed(0)
side = torch.cuda.Stream()


def packed(tokens, heads):
    """Make values (tokens, heads, dim)."""
    return torch.randn(tokens, heads, DIM).to("cuda", torch.bfloat16)


for lengths in ((100, 0, 37), (7, 61, 70), (1, 0, 136)):
    prefix = torch.tensor((0, *lengths)).cumsum(0).to("cuda", torch.int32)
    q = packed(sum(lengths), HEADS)
    k, v = (packed(sum(lengths), KV_HEADS) for _ in "kv")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        out, lse = flash_attn_varlen_func(
            q,
            k,
            v,
            cu_seqlens_q=prefix,
            cu_seqlens_k=prefix,
            max_seqlen_q=max(lengths),
            max_seqlen_k=max(lengths),
            causal=True,
            return_lse=True,
        )[:2]
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
