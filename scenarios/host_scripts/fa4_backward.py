"""FlashAttention 4 in training: forward, and backward through torch's autograd."""

import torch
from flash_attn.cute.interface import flash_attn_varlen_func
from packed_reference import attention, packed, prefix_of

torch.manual_seed(0)
lengths = (70, 1, 59)
prefix = prefix_of(lengths)
q, k, v = (packed(sum(lengths), 2).requires_grad_() for _ in "qkv")
out = flash_attn_varlen_func(
    q,
    k,
    v,
    cu_seqlens_q=prefix,
    cu_seqlens_k=prefix,
    max_seqlen_q=max(lengths),
    max_seqlen_k=max(lengths),
    causal=True,
)[0]
weight = packed(sum(lengths), 2)
out.backward(weight)

host = [t.detach().cpu().float().requires_grad_() for t in (q, k, v)]
attention(*host, lengths, lengths, causal=True)[0].backward(weight.cpu().float())
for ours, right in zip((q, k, v), host, strict=True):
    grad = ours.grad.cpu().float()
    torch.testing.assert_close(grad, right.grad, atol=0.05, rtol=0.05)
