"""A packed batch from the first device through our SM100 kernel on the second.

    python second_device.py [bare | ambient | forget]

With `bare` the first device is current at the call, and the launch goes to a stream of
the second; with `ambient` it goes to the first device's stream, for memory of the
second; with `forget` the second device's stream does not wait for the kernel.
"""

import sys
from contextlib import nullcontext

import torch

from sidestream.kernels.adapter import AttentionSpec, plan

LENGTHS = (100, 0, 37)
TOKENS = sum(LENGTHS)
words = sys.argv[1:]

spec = AttentionSpec(
    arch="sm_100a",
    dtype="bfloat16",
    batch=len(LENGTHS),
    heads_q=2,
    heads_kv=1,
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

here, there = torch.device("cuda:0"), torch.device("cuda:1")
prefix = torch.tensor((0, *LENGTHS)).cumsum(0).to(there, torch.int32)
made = [torch.randn(TOKENS, h, 64, device=here).bfloat16() for h in (2, 1, 1)]
q, k, v = (one.to(there, non_blocking=True) for one in made)
out = torch.empty_like(q)
scratch = torch.empty(declared.workspace_bytes(), dtype=torch.uint8, device=there)

side = torch.cuda.Stream(device=there)
side.wait_stream(torch.cuda.current_stream(there))
stream = torch.cuda.current_stream(here) if "ambient" in words else side
wrong = "bare" in words or "ambient" in words
with nullcontext() if wrong else torch.cuda.device(there):
    compiled.execute(q, k, v, out, None, prefix, prefix, scratch, stream.cuda_stream)
if "forget" not in words:
    torch.cuda.current_stream(there).wait_stream(side)
back = out.to(here)
torch.cuda.synchronize(here)

if not words:
    qs, ks, vs = (t[:100].float().cpu().transpose(0, 1) for t in made)
    expected = torch.nn.functional.scaled_dot_product_attention(
        qs, ks.repeat_interleave(2, 0), vs.repeat_interleave(2, 0), is_causal=True
    )
    got = back[:100].float().cpu().transpose(0, 1)
    torch.testing.assert_close(got, expected, atol=0.02, rtol=0.02)
