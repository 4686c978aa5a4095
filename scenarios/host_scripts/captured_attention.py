"""Our SM100 kernel captured on its first call, then replayed for other lengths.

    python captured_attention.py [baked]

With `baked`, the lengths of the capture go into the graph instead of a buffer that a
replay reads: each replay then serves the lengths of the first batch.
"""

import sys

import torch

from sidestream.kernels.adapter import AttentionSpec, plan

LENGTHS = ((100, 0, 37), (7, 61, 70), (128, 9, 1))
ROWS, HEADS, KV_HEADS, DIM = 138, 2, 1, 64
baked = "baked" in sys.argv

spec = AttentionSpec(
    arch="sm_100a",
    dtype="bfloat16",
    batch=3,
    heads_q=HEADS,
    heads_kv=KV_HEADS,
    head_dim=DIM,
    max_len_q=128,
    max_len_kv=128,
    lengths_q="prefix",
    lengths_kv="prefix",
    causal="bottom_right",
    multiprocessors=4,
)
declared = plan(spec)
compiled = declared.compile()
torch.manual_seed(0)
q = torch.randn(ROWS, HEADS, DIM).to("cuda", torch.bfloat16)
k = torch.randn(ROWS, KV_HEADS, DIM).to("cuda", torch.bfloat16)
v = torch.randn(ROWS, KV_HEADS, DIM).to("cuda", torch.bfloat16)
out = torch.empty_like(q)
prefix = torch.zeros(4, dtype=torch.int32, device="cuda")
scratch = torch.empty(declared.workspace_bytes(), dtype=torch.uint8, device="cuda")


def starts(lengths):
    """Return where each sequence starts, and the total."""
    return torch.tensor((0, *lengths), dtype=torch.int32).cumsum(0).to(torch.int32)


pinned = starts(LENGTHS[0]).pin_memory()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    prefix.copy_(pinned, non_blocking=True)
    stream = torch.cuda.current_stream().cuda_stream
    compiled.execute(q, k, v, out, None, prefix, prefix, scratch, stream)

for lengths in LENGTHS:
    if not baked:
        pinned.copy_(starts(lengths))
    out.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    begin = 0
    for length in lengths:
        rows = slice(begin, begin + length)
        qs, ks, vs = (t[rows].float().cpu().transpose(0, 1) for t in (q, k, v))
        expected = torch.nn.functional.scaled_dot_product_attention(
            qs, ks.repeat_interleave(2, 0), vs.repeat_interleave(2, 0), is_causal=True
        )
        got = out[rows].float().cpu().transpose(0, 1)
        torch.testing.assert_close(got, expected, atol=0.02, rtol=0.02)
        begin += length
    assert out[begin:].isnan().all()
