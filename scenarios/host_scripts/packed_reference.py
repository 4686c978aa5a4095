"""Attention of packed sequences in plain torch, for scripts to compare with."""

import torch


def prefix_of(lengths):
    """Return prefix sums of lengths on the device."""
    return torch.tensor((0, *lengths)).cumsum(0).to("cuda", torch.int32)


def packed(tokens, heads, dim=128, dtype=torch.bfloat16):
    """Make values (tokens, heads, dim)."""
    return torch.randn(tokens, heads, dim).to("cuda", dtype)


def attention(
    q, k, v, lengths_q, lengths_k, *, causal=False, window=None, cap=0.0, sinks=None
):
    """Return O and LSE (tokens, heads) in float32; queries end where keys end.

    `window` is how many keys before its own a query sees. `sinks` (heads) in float32
    are scores of one more key of each head, whose value is 0.
    """
    outs, sums, group = [], [], q.shape[1] // k.shape[1]
    rows = zip(q.split(lengths_q), k.split(lengths_k), v.split(lengths_k), strict=True)
    for a, b, c in rows:
        b, c = (x.float().repeat_interleave(group, 1) for x in (b, c))
        s = torch.einsum("qhd,khd->hqk", a.float(), b) * q.shape[-1] ** -0.5
        if cap:
            s = cap * torch.tanh(s / cap)
        own = torch.arange(len(a))[:, None] + len(b) - len(a)
        keys = torch.arange(len(b))
        hidden = (keys > own) if causal else torch.zeros(len(a), len(b)).bool()
        if window is not None:
            hidden |= keys < own - window
        s = s.masked_fill(hidden.to(s.device), float("-inf"))
        if sinks is not None:
            s = torch.cat((s, sinks[:, None, None].expand(-1, len(a), 1)), -1)
        weights = s.softmax(-1)[..., : len(b)]
        outs.append(torch.einsum("hqk,khd->qhd", weights, c))
        sums.append(s.logsumexp(-1).T)
    return torch.cat(outs), torch.cat(sums)
