"""FlashAttention 4 over keys in pages: decoding, with lengths that grow every step."""

import torch
from flash_attn.cute.interface import flash_attn_varlen_func
from packed_reference import attention, packed, prefix_of

PAGE, PAGES, HEADS, KV_HEADS = 128, 6, 4, 2
torch.manual_seed(0)
k_pages = packed(PAGES * PAGE, KV_HEADS).view(PAGES, PAGE, KV_HEADS, 128)
v_pages = packed(PAGES * PAGE, KV_HEADS).view(PAGES, PAGE, KV_HEADS, 128)
table = torch.tensor([[4, 1], [0, 3]], dtype=torch.int32, device="cuda")
used = torch.tensor([130, 5], dtype=torch.int32, device="cuda")
prefix = prefix_of((1, 1))

for step in range(2):
    q = packed(2, HEADS)
    out = flash_attn_varlen_func(
        q,
        k_pages,
        v_pages,
        cu_seqlens_q=prefix,
        seqused_k=used,
        max_seqlen_q=1,
        max_seqlen_k=2 * PAGE,
        page_table=table,
        causal=True,
    )[0]
    rows, lengths = table.cpu(), [130 + step, 5 + step]
    k, v = (
        torch.cat([p[r].flatten(0, 1)[:n] for r, n in zip(rows, lengths, strict=True)])
        for p in (k_pages.cpu(), v_pages.cpu())
    )
    right, _ = attention(q.cpu(), k, v, (1, 1), lengths, causal=True)
    torch.testing.assert_close(out.cpu().float(), right, atol=0.02, rtol=0.02)
    used += 1
