"""Storage of packed operands: which slab, which strides, which gaps.

Token and head strides are multiples of 16 bytes, the head stride is at least the head
dim and the innermost stride is one element: what the interface asks for, and all it
asks for, so each layout here is legal.
"""

from __future__ import annotations

from dataclasses import dataclass

OUT_LAYOUTS = ("packed", "padded", "spread")
"""packed: strides as small as they go. padded: 32 bytes after each token. spread: 16
bytes after each head as well."""
LAYOUTS = (*OUT_LAYOUTS, "kv_pair", "fused_qkv")
"""kv_pair: K and V are the halves of one [tokens, 2, heads, dim] record. fused_qkv:
all three are slices of one [tokens, heads_q + 2 heads_kv, dim] slab."""
SHARED_LAYOUTS = ("kv_pair", "fused_qkv")
"""Those with more than one operand in a record."""
LSE = ("none", "token_major", "head_major")


@dataclass(frozen=True, kw_only=True)
class View:
    """A strided view of a slab; offset and strides in elements."""

    slab: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def lay_out_alone(
    name: str, layout: str, *, tokens: int, heads: int, dim: int, item: int = 2
) -> tuple[int, View]:
    """Give one operand a slab of its own; return its size and the view.

    Sizes are in elements, of `item` bytes each.
    """
    head = dim + (16 // item if layout == "spread" else 0)
    token = heads * head + (0 if layout == "packed" else 32 // item)
    view = View(
        slab=name, offset=0, shape=(tokens, heads, dim), strides=(token, head, 1)
    )
    return tokens * token, view


def lay_out_inputs(
    layout: str,
    *,
    tokens_q: int,
    tokens_kv: int,
    heads_q: int,
    heads_kv: int,
    dim: int,
    dim_v: int,
    item: int = 2,
) -> tuple[dict[str, int], dict[str, View]]:
    """Lay out Q, K and V; return the slab sizes in elements and the views.

    The layouts in which K and V share a record need `dim_v == dim`.
    """
    if layout == "fused_qkv":
        return _slices(
            "qkv", tokens_q, dim, {"q": heads_q, "k": heads_kv, "v": heads_kv}
        )
    alone = "packed" if layout == "kv_pair" else layout
    sizes, views = {}, {}
    sizes["q"], views["q"] = lay_out_alone(
        "q", alone, tokens=tokens_q, heads=heads_q, dim=dim, item=item
    )
    if layout == "kv_pair":
        pair, halves = _slices("kv", tokens_kv, dim, {"k": heads_kv, "v": heads_kv})
        return {**sizes, **pair}, {**views, **halves}
    for name, width in (("k", dim), ("v", dim_v)):
        sizes[name], views[name] = lay_out_alone(
            name, alone, tokens=tokens_kv, heads=heads_kv, dim=width, item=item
        )
    return sizes, views


def lay_out_lse(
    layout: str, *, tokens: int, heads: int, slack: int
) -> tuple[int, View]:
    """Lay out LSE (tokens, heads): token-major packed, or head-major with slack."""
    if layout == "token_major":
        strides, size = (heads, 1), tokens * heads
    else:
        strides, size = (1, tokens + slack), heads * (tokens + slack)
    return size, View(slab="lse", offset=0, shape=(tokens, heads), strides=strides)


def _slices(
    slab: str, tokens: int, dim: int, heads: dict[str, int]
) -> tuple[dict[str, int], dict[str, View]]:
    """Cut one [tokens, sum of heads, dim] slab into one slice of heads a name."""
    token, offset, views = sum(heads.values()) * dim, 0, {}
    for name, count in heads.items():
        views[name] = View(
            slab=slab,
            offset=offset,
            shape=(tokens, count, dim),
            strides=(token, dim, 1),
        )
        offset += count * dim
    return {slab: tokens * token}, views
