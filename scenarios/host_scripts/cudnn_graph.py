"""cuDNN frontend's graph interface: attention on the stream of a handle.

    python cudnn_graph.py [library]

With `library` the graph is one that only libcudnn's own engines serve.
"""

import sys

import cudnn
import torch

BATCH, HEADS, LONGEST, DIM = 2, 4, 128, 64
torch.manual_seed(0)


def strided():
    """Make values (batch, heads, longest, dim) that lie as (batch, longest, ...)."""
    data = torch.randn(BATCH, LONGEST, HEADS, DIM).to("cuda", torch.bfloat16)
    return data.transpose(1, 2)


q, k, v = strided(), strided(), strided()
out = torch.empty_like(q)
side = torch.cuda.Stream()
handle = cudnn.create_handle()
cudnn.set_stream(handle=handle, stream=side.cuda_stream)
graph = cudnn.pygraph(
    handle=handle,
    io_data_type=cudnn.data_type.BFLOAT16,
    intermediate_data_type=cudnn.data_type.FLOAT,
    compute_data_type=cudnn.data_type.FLOAT,
)
names = {t: graph.tensor_like(t) for t in (q, k, v)}
if "library" in sys.argv:
    result = graph.relu(names[q])
else:
    result, _ = graph.sdpa(
        q=names[q],
        k=names[k],
        v=names[v],
        generate_stats=False,
        attn_scale=DIM**-0.5,
        use_causal_mask=True,
    )
result.set_output(True).set_dim(out.shape).set_stride(out.stride())
graph.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
space = torch.empty(graph.get_workspace_size(), dtype=torch.uint8, device="cuda")
side.wait_stream(torch.cuda.current_stream())
operands = {names[t]: t for t in (q, k, v)} | {result: out}
graph.execute(operands, space, handle=handle)
torch.cuda.current_stream().wait_stream(side)
right = torch.nn.functional.scaled_dot_product_attention(
    *(t.float().cpu() for t in (q, k, v)), is_causal=True
)
torch.testing.assert_close(out.cpu().float(), right, atol=0.02, rtol=0.02)
