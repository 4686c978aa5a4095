"""A packed batch through our SM100 kernel on a side stream.

    python attention.py [forget]

With `forget`, the side stream does not wait for the one that made the operands.
"""

import sys

import torch

from sidestream.kernels.adapter import AttentionSpec, plan

LENGTHS = (100, 0, 37)
TOKENS = sum(LENGTHS)

spec = AttentionSpec(
    arch="sm_100a",
    dtype="bfloat16",
    batch=len(LENGTHS),
    heads_q=4,
    heads_kv=2,
    head_dim=64,
    max_len_q=128,
    max_len_kv=128,
    lengths_q="prefix",
    lengths_kv="prefix",
    causal="bottom_right",
    multiprocessors=4,
)
declared = plan(spec)
compiled = declared.compile()

# From pageable memory: the host waits here, and not for what follows.
prefix = torch.tensor((0, *LENGTHS)).cumsum(0).to("cuda", torch.int32)
q = torch.randn(TOKENS, 4, 64, device="cuda", dtype=torch.bfloat16)
k = torch.randn(TOKENS, 2, 64, device="cuda", dtype=torch.bfloat16)
v = torch.randn(TOKENS, 2, 64, device="cuda", dtype=torch.bfloat16)
out = torch.empty_like(q)
scratch = torch.empty(declared.workspace_bytes(), dtype=torch.uint8, device="cuda")

side = torch.cuda.Stream()
if "forget" not in sys.argv:
    side.wait_stream(torch.cuda.current_stream())
compiled.execute(q, k, v, out, None, prefix, prefix, scratch, side.cuda_stream)
torch.cuda.current_stream().wait_stream(side)
torch.cuda.synchronize()

qs, ks, vs = (t[:100].float().cpu().transpose(0, 1) for t in (q, k, v))
expected = torch.nn.functional.scaled_dot_product_attention(
    qs, ks.repeat_interleave(2, 0), vs.repeat_interleave(2, 0), is_causal=True
)
if "forget" not in sys.argv:
    torch.testing.assert_close(
        out[:100].float().cpu().transpose(0, 1), expected, atol=0.02, rtol=0.02
    )
