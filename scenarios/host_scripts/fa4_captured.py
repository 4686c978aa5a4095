"""FlashAttention 4 in a CUDA graph that is replayed for other lengths and values."""

import torch
from flash_attn.cute.interface import flash_attn_varlen_func
from packed_reference import attention, packed, prefix_of

CAPACITY, LONGEST = 160, 128
torch.manual_seed(0)
q, k, v = (packed(CAPACITY, 2) for _ in "qkv")
prefix = prefix_of((100, 60))


def call():
    """Return O for what the buffers hold."""
    return flash_attn_varlen_func(
        q,
        k,
        v,
        cu_seqlens_q=prefix,
        cu_seqlens_k=prefix,
        max_seqlen_q=LONGEST,
        max_seqlen_k=LONGEST,
        causal=True,
    )[0]


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    call()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    out = call()
for lengths in ((100, 60), (7, 120), (33, 1)):
    prefix.copy_(prefix_of(lengths))
    q.copy_(packed(CAPACITY, 2))
    graph.replay()
    live = sum(lengths)
    host = (t.cpu()[:live] for t in (q, k, v))
    right, _ = attention(*host, lengths, lengths, causal=True)
    torch.testing.assert_close(out.cpu()[:live].float(), right, atol=0.02, rtol=0.02)
