"""cuDNN frontend's packed forward on a handle's stream, as its users call it.

Metadata has to be made on the stream that the launch runs on, without a read on the
host, and one compilation has to serve every packed total (NVIDIA/cudnn-frontend#543,
#606, #552).
"""

import torch
from cuda.bindings import driver
from cudnn.api_base import TensorDesc
from cudnn.sdpa.fwd.api_dsl import SdpaFwdDslSm100, SdpaFwdDslSm120

LONGEST, HEADS, KV_HEADS, DIM = 128, 4, 2, 128
SM120 = torch.cuda.get_device_capability()[0] == 12
Forward = SdpaFwdDslSm120 if SM120 else SdpaFwdDslSm100


def described(heads):
    """Describe an operand as (batch, heads, longest, dim)."""
    shape = (2, heads, LONGEST, DIM)
    stride = (heads * DIM * LONGEST, DIM, heads * DIM, 1)
    return TensorDesc(
        dtype=torch.bfloat16,
        shape=shape,
        stride=stride,
        stride_order=(3, 1, 2, 0),
        device=torch.device("cuda:0"),
    )


q_like, kv_like = described(HEADS), described(KV_HEADS)
plan = Forward(
    q_like, kv_like, kv_like, q_like, is_causal=True, causal_bottom_right=True, thd=True
)
plan.check_support()
plan.compile()
side = torch.cuda.Stream()
handle = driver.CUstream(side.cuda_stream)
size = getattr(plan, "scratch_workspace_bytes", lambda: 1 << 20)()
workspace = torch.empty(int(size), dtype=torch.uint8, device="cuda")


def tensor(tokens, heads):
    """Make packed values (tokens, heads, dim)."""
    return torch.randn(tokens, heads, DIM, device="cuda").to(torch.bfloat16)


for lengths in ((100, 37), (101, 37), (100, 39)):
    counts = torch.tensor(lengths, dtype=torch.int32).to("cuda")
    total = sum(lengths)
    q, k, v = tensor(total, HEADS), tensor(total, KV_HEADS), tensor(total, KV_HEADS)
    out = torch.empty_like(q)
    side.wait_stream(torch.cuda.current_stream())
    plan.execute(
        q,
        k,
        v,
        out,
        seq_q_lens=counts,
        seq_kv_lens=counts,
        workspace=workspace,
        current_stream=handle,
    )
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
