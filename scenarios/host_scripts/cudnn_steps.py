"""cuDNN frontend's packed forward, two steps on a handle's stream with one workspace.

All of a call belongs on the handle's stream. Then a second step may follow the first
without a wait: the stream keeps them apart. What a call puts on the current stream
meets the launch of the step before (NVIDIA/cudnn-frontend#543).
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
    return TensorDesc(
        dtype=torch.bfloat16,
        shape=(2, heads, LONGEST, DIM),
        stride=(heads * DIM * LONGEST, DIM, heads * DIM, 1),
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
size = getattr(plan, "scratch_workspace_bytes", lambda: 1 << 20)()
steps = []
for lengths in ((100, 37), (37, 100)):  # one total, one longest: one compilation
    counts = torch.tensor(lengths, dtype=torch.int32).to("cuda")
    shapes = [(sum(lengths), heads, DIM) for heads in (HEADS, KV_HEADS, KV_HEADS)]
    qkv = [torch.randn(shape, device="cuda").to(torch.bfloat16) for shape in shapes]
    steps.append((counts, qkv, torch.empty_like(qkv[0])))
workspace = torch.empty(int(size), dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()

for counts, qkv, out in steps:
    plan.execute(
        *qkv,
        out,
        seq_q_lens=counts,
        seq_kv_lens=counts,
        workspace=workspace,
        current_stream=driver.CUstream(side.cuda_stream),
    )
torch.cuda.synchronize()
