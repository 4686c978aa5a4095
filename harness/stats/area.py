"""How many scores a problem needs: those that no length, mask or window removes."""

from __future__ import annotations

import numpy as np

from sidestream.scenarios.scenario import Scenario


def live_area(scenario: Scenario) -> int:
    """Scores that count, over all sequences and query heads.

    Row i of a sequence has its diagonal at `i`, or `i + len_kv - len_q` with a mask
    anchored at the bottom right, and keeps keys from `diagonal - window_left` to
    `diagonal + window_right`; causal keeps none after the diagonal.
    """
    right = 0 if scenario.causal != "none" else scenario.window_right
    anchor = scenario.causal if scenario.causal != "none" else scenario.anchor
    total = 0
    for n_q, n_kv in zip(scenario.lengths_q, scenario.lengths_kv, strict=True):
        diagonal = np.arange(n_q, dtype=np.int64)
        if anchor == "bottom_right":
            diagonal += n_kv - n_q
        low, high = np.zeros_like(diagonal), np.full_like(diagonal, n_kv)
        if scenario.window_left is not None:
            low = np.maximum(low, diagonal - scenario.window_left)
        if right is not None:
            high = np.minimum(high, diagonal + right + 1)
        total += int(np.maximum(high - low, 0).sum())
    return total * scenario.heads_q
