"""FlashAttention 4's capped scores, and the same cap as a user's own `score_mod`."""

import cutlass.cute as cute
import torch
from flash_attn.cute.interface import flash_attn_varlen_func
from packed_reference import attention, packed, prefix_of

CAP = 4.0


@cute.jit
def halved(scores, batch, head, q_idx, kv_idx, seqlen_info, aux_tensors):
    """Halve every score."""
    return scores * 0.5


torch.manual_seed(0)
lengths = (60, 70)
prefix = prefix_of(lengths)
q, k, v = (packed(sum(lengths), 4) for _ in "qkv")


def call(**options):
    """Return O."""
    return flash_attn_varlen_func(
        q,
        k,
        v,
        cu_seqlens_q=prefix,
        cu_seqlens_k=prefix,
        max_seqlen_q=max(lengths),
        max_seqlen_k=max(lengths),
        **options,
    )[0]


host = q.cpu(), k.cpu(), v.cpu()
right, _ = attention(*host, lengths, lengths, cap=CAP)
torch.testing.assert_close(call(softcap=CAP).cpu().float(), right, atol=0.02, rtol=0.02)
right, _ = attention(host[0] * 0.5, *host[1:], lengths, lengths)
out = call(score_mod=halved).cpu().float()
torch.testing.assert_close(out, right, atol=0.02, rtol=0.02)
