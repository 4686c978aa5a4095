"""cuDNN frontend's packed forward with the log-sum-exp of every row, as training asks.

The statistics are packed like the queries, (tokens, heads) in f32, and one plan serves
every packed total. Their values are held against float64 on the host.
"""

import torch
from cudnn.api_base import TensorDesc
from cudnn.sdpa.fwd.api_dsl import SdpaFwdDslSm100, SdpaFwdDslSm120

LONGEST, HEADS, DIM = 128, 4, 128
SM120 = torch.cuda.get_device_capability()[0] == 12
Forward = SdpaFwdDslSm120 if SM120 else SdpaFwdDslSm100
torch.manual_seed(0)


def described(dtype, *steps, shape=(2, HEADS, LONGEST, DIM)):
    """Describe an operand: its dtype, strides in elements and padded shape."""
    order = tuple(sorted(range(len(shape)), key=steps.__getitem__))
    device = torch.device("cuda:0")
    return TensorDesc(
        dtype=dtype, shape=shape, stride=steps, stride_order=order, device=device
    )


operand = described(torch.bfloat16, LONGEST * HEADS * DIM, DIM, HEADS * DIM, 1)
rows = described(torch.float32, LONGEST * HEADS, 1, HEADS, shape=(2, HEADS, LONGEST))
plan = Forward(operand, operand, operand, operand, sample_lse=rows, thd=True)
plan.check_support()
plan.compile()
size = int(plan.scratch_workspace_bytes())
workspace = torch.empty(size, dtype=torch.uint8, device="cuda")

for lengths in ((100, 37), (64, 0), (101, 38)):
    total = sum(lengths)
    counts = torch.tensor(lengths, dtype=torch.int32).to("cuda")
    host = [torch.randn(total, HEADS, DIM).to(torch.bfloat16) for _ in range(3)]
    q, k, v = (t.to("cuda") for t in host)
    out = torch.empty_like(q)
    lse = torch.empty(total, HEADS, device="cuda")
    plan.execute(
        q,
        k,
        v,
        out,
        lse_tensor=lse,
        seq_q_lens=counts,
        seq_kv_lens=counts,
        workspace=workspace,
    )
    first = 0
    for length in lengths:
        part = slice(first, first + length)
        queries, keys = (t[part].double().transpose(0, 1) for t in host[:2])
        scores = queries @ keys.transpose(1, 2) * DIM**-0.5
        right = scores.logsumexp(2).transpose(0, 1).float()
        torch.testing.assert_close(lse[part].cpu(), right, atol=1e-3, rtol=1e-3)
        first += length
