"""Plan-time declarations: types, heads, masks, sinks, LSE and length forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from sidestream.reference.mask import ANCHORS, CAUSAL
from sidestream.scenarios.declaration import DTYPES, FORMS

HEAD_DIMS = (64, 128, 8, 40, 72, 96, 16, 120)


@st.composite
def heads(draw: st.DrawFn, *, most: int = 8) -> tuple[int, int]:
    """Draw (query heads, key heads): equal, grouped or one key head."""
    kv = draw(st.integers(1, min(4, most)))
    group = draw(st.integers(1, most // kv))
    return kv * group, kv


@st.composite
def masks(draw: st.DrawFn, *, widest: int = 200) -> dict[str, Any]:
    """Draw the mask fields, in every combination that a plan accepts."""
    width = st.integers(0, 9) | st.sampled_from((31, 63, 64, 127, widest))
    causal = draw(st.sampled_from(CAUSAL))
    left, right = draw(st.none() | width), draw(st.none() | width)
    anchor = draw(st.sampled_from((None, *ANCHORS)))
    if causal != "none":
        # Drawn and dropped: no causal must not cost the shrinker more choices.
        return {"causal": causal, "window_left": left}
    return {"window_left": left, "window_right": right, "anchor": anchor}


@st.composite
def declarations(
    draw: st.DrawFn,
    *,
    head_dims: Sequence[int] = HEAD_DIMS,
    dtypes: Sequence[str] = DTYPES,
    most_heads: int = 8,
) -> dict[str, Any]:
    """Draw the plan-time fields of a `Scenario`; maxima follow from its lengths."""
    heads_q, heads_kv = draw(heads(most=most_heads))
    return {
        "dtype": draw(st.sampled_from(sorted(dtypes))),
        "heads_q": heads_q,
        "heads_kv": heads_kv,
        "head_dim": draw(st.sampled_from(tuple(head_dims))),
        "sinks": draw(st.booleans()),
        "lse": draw(st.sampled_from(("token_major", "none", "head_major"))),
        "lengths_q_form": draw(st.sampled_from(FORMS)),
        "lengths_kv_form": draw(st.sampled_from(FORMS)),
        "scale": draw(st.none() | st.sampled_from((0.25, 0.2171, -0.3, 1.5))),
        **draw(masks()),
    }
