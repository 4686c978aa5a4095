"""cuDNN frontend's packed forward in a CUDA graph, replayed for other lengths."""

import torch
from cuda.bindings import driver
from cudnn_thd import counted, planned
from packed_reference import attention, packed

CAPACITY, LONGEST = 160, 128
torch.manual_seed(0)
options = {"is_causal": True, "causal_bottom_right": True}
plan, workspace = planned(2, 2, torch.bfloat16, LONGEST, 2, **options)
q, k, v = (packed(CAPACITY, 2) for _ in "qkv")
out, counts = torch.empty_like(q), counted((100, 60))

graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
with torch.cuda.graph(graph, stream=side):  # the plan's first execute
    plan.execute(
        q,
        k,
        v,
        out,
        seq_q_lens=counts,
        seq_kv_lens=counts,
        workspace=workspace,
        current_stream=driver.CUstream(side.cuda_stream),
    )
for lengths in ((100, 60), (7, 120), (33, 1)):
    counts.copy_(counted(lengths))
    q.copy_(packed(CAPACITY, 2))
    graph.replay()
    live = sum(lengths)
    host = (t.cpu()[:live] for t in (q, k, v))
    right, _ = attention(*host, lengths, lengths, causal=True)
    torch.testing.assert_close(out.cpu()[:live].float(), right, atol=0.02, rtol=0.02)
