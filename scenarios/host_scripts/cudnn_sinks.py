"""cuDNN frontend's packed forward with a sink of each head, other ones by call."""

import torch
from cudnn_thd import counted, planned
from packed_reference import attention, packed

torch.manual_seed(0)
lengths, dtype = (150, 1, 43), torch.bfloat16
options = {"is_causal": True, "causal_bottom_right": True, "has_sink": True}
plan, workspace = planned(4, 2, dtype, max(lengths), len(lengths), **options)
q, k, v = packed(sum(lengths), 4), packed(sum(lengths), 2), packed(sum(lengths), 2)
for sinks in (torch.tensor([-1.0, 0.0, 2.0, 4.0]), torch.full((4,), float("-inf"))):
    out = torch.empty_like(q)
    plan.execute(
        q,
        k,
        v,
        out,
        sinks=sinks.to("cuda"),
        seq_q_lens=counted(lengths),
        seq_kv_lens=counted(lengths),
        workspace=workspace,
    )
    right, _ = attention(
        q.cpu(), k.cpu(), v.cpu(), lengths, lengths, causal=True, sinks=sinks
    )
    torch.testing.assert_close(out.cpu().float(), right, atol=0.02, rtol=0.02)
