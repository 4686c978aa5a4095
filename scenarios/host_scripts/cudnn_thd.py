"""Plans of cuDNN frontend's packed forward, for the scripts of its features."""

import torch
from cudnn.api_base import TensorDesc
from cudnn.sdpa.fwd.api_dsl import SdpaFwdDslSm100, SdpaFwdDslSm120

SM120 = torch.cuda.get_device_capability()[0] == 12
Forward = SdpaFwdDslSm120 if SM120 else SdpaFwdDslSm100


def planned(heads, kv_heads, dtype, longest, batch, **options):
    """Return a compiled plan of head dim 128 with an O of bfloat16, and its workspace.

    Operands are packed, (tokens, heads, 128) in `dtype`; a plan is told of them as
    (batch, heads, longest, 128).
    """

    def described(dtype, heads):
        return TensorDesc(
            dtype=dtype,
            shape=(batch, heads, longest, 128),
            stride=(heads * 128 * longest, 128, heads * 128, 1),
            stride_order=(3, 1, 2, 0),
            device=torch.device("cuda:0"),
        )

    q, kv = described(dtype, heads), described(dtype, kv_heads)
    plan = Forward(q, kv, kv, described(torch.bfloat16, heads), thd=True, **options)
    plan.check_support()
    plan.compile()
    size = int(plan.scratch_workspace_bytes())
    return plan, torch.empty(size, dtype=torch.uint8, device="cuda")


def counted(lengths):
    """Return lengths as the plan takes them."""
    return torch.tensor(lengths, dtype=torch.int32).to("cuda")
