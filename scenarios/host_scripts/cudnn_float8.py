"""cuDNN frontend's packed forward of E4M3 operands, with a factor of each."""

import torch
from cudnn_thd import counted, planned
from packed_reference import attention, packed

torch.manual_seed(0)
lengths, dtype = (150, 1, 43), torch.float8_e4m3fn
options = {"is_causal": True, "causal_bottom_right": True}
options |= {"pertensor_fp8": True, "has_amax_o": False, "dtype_o": torch.bfloat16}
plan, workspace = planned(4, 2, dtype, max(lengths), len(lengths), **options)
q, k, v = (packed(sum(lengths), heads, dtype=dtype) for heads in (4, 2, 2))
factors = (0.5, 2.0, 0.25)
names = ("descale_q", "descale_k", "descale_v")
out = torch.empty(q.shape, dtype=torch.bfloat16, device="cuda")
plan.execute(
    q,
    k,
    v,
    out,
    seq_q_lens=counted(lengths),
    seq_kv_lens=counted(lengths),
    workspace=workspace,
    **{n: torch.tensor([f]).to("cuda") for n, f in zip(names, factors, strict=True)},
)
host = (t.cpu().float() * f for t, f in zip((q, k, v), factors, strict=True))
right, _ = attention(*host, lengths, lengths, causal=True)
torch.testing.assert_close(out.cpu().float(), right, atol=0.05, rtol=0.05)
