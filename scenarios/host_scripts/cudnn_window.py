"""cuDNN frontend's sliding window, packed: a query sees itself and 40 keys before."""

import torch
from cudnn_thd import counted, planned
from packed_reference import attention, packed

torch.manual_seed(0)
lengths, dtype = (150, 1, 43), torch.bfloat16
options = {"is_causal": True, "causal_bottom_right": True, "window_size_left": 40}
plan, workspace = planned(4, 2, dtype, max(lengths), len(lengths), **options)
q, k, v = packed(sum(lengths), 4), packed(sum(lengths), 2), packed(sum(lengths), 2)
out = torch.empty_like(q)
plan.execute(
    q,
    k,
    v,
    out,
    seq_q_lens=counted(lengths),
    seq_kv_lens=counted(lengths),
    workspace=workspace,
)
right, _ = attention(
    q.cpu(), k.cpu(), v.cpu(), lengths, lengths, causal=True, window=40
)
torch.testing.assert_close(out.cpu().float(), right, atol=0.02, rtol=0.02)
