"""An independent flash-attention forward in float32 and 16-bit numpy.

Shares no code with the package under test: plain loops over sequences, heads and key
tiles, exp2, a running maximum, P rounded to the input type before the second product.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

TYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
LOG2E = np.float32(1.4426950408889634)


def visible(problem, i, j, len_q, len_kv):
    """The interface's words, one key at a time."""
    anchors = (problem.causal, problem.anchor)
    diag = i + (len_kv - len_q if "bottom_right" in anchors else 0)
    if problem.causal != "none" and j > diag:
        return False
    if problem.window_right is not None and j > diag + problem.window_right:
        return False
    return problem.window_left is None or j >= diag - problem.window_left


def flash(problem, dtype, *, tile=64, flaw=None):
    """Return float32 (out, lse); `flaw` plants one bug by name."""
    kind = TYPES[dtype]
    q = np.asarray(problem.q, np.float64).astype(kind).astype(np.float32)
    k = np.asarray(problem.k, np.float64).astype(kind).astype(np.float32)
    v = np.asarray(problem.v, np.float64).astype(kind).astype(np.float32)
    tokens, heads, dim = q.shape
    group = heads // k.shape[1]
    scale = problem.scale if problem.scale is not None else dim**-0.5
    if scale < 0:  # so that the largest score is the largest scaled score
        q, scale = -q, -scale
    if flaw == "scale":
        scale = scale * 1.01
    factor = np.float32(np.float32(scale) * LOG2E)
    out = np.zeros((tokens, heads, v.shape[2]), np.float32)
    lse = np.full((tokens, heads), -np.inf, np.float32)
    for b in range(len(problem.seq_q.lengths)):
        q0, n = int(problem.seq_q.starts[b]), int(problem.seq_q.lengths[b])
        k0, m = int(problem.seq_kv.starts[b]), int(problem.seq_kv.lengths[b])
        keys = max(0, m - 1) if flaw == "last key" else m
        shift = 1 if flaw == "mask column" else 0
        rows = [
            [j < keys and visible(problem, i + shift, j, n, m) for j in range(m)]
            for i in range(n)
        ]
        mask = np.array(rows, dtype=bool).reshape(n, m)
        for h in range(heads):
            g = h // group
            if flaw == "head":
                g = (g + 1) % k.shape[1]
            peak = np.full(n, -np.inf, np.float32)
            total = np.zeros(n, np.float32)
            acc = np.zeros((n, v.shape[2]), np.float32)
            for j in range(0, m, tile):
                at = slice(k0 + j, k0 + min(m, j + tile))
                s = q[q0 : q0 + n, h] @ k[at, g].T
                s = np.where(mask[:, j : j + tile], s, np.float32(-np.inf))
                new = np.maximum(peak, s.max(axis=1))
                base = np.where(np.isneginf(new), np.float32(0), new)
                with np.errstate(invalid="ignore"):
                    alpha = np.exp2((peak - base) * factor)
                p = np.exp2(s * factor - (base * factor)[:, None])
                total = total * alpha + p.sum(axis=1, dtype=np.float32)
                narrow = p.astype(kind).astype(np.float32)
                acc = acc * alpha[:, None] + narrow @ v[at, g]
                peak = new
            base = np.where(np.isneginf(peak), np.float32(0), peak * np.float32(scale))
            if problem.sinks is not None:
                sink = np.float32(problem.sinks[h])
                top = np.maximum(np.where(total > 0, base, sink), sink)
                drop = np.where(total > 0, base - top, np.float32(-np.inf))
                fade = np.exp2(drop * LOG2E)
                total = total * fade + np.exp2((sink - top) * LOG2E)
                acc = acc * fade[:, None]
                base = top
            with np.errstate(divide="ignore", invalid="ignore"):
                result = acc * (np.float32(1) / total)[:, None]
                lse[q0 : q0 + n, h] = base + np.log(total)
            result = np.where(total[:, None] > 0, result, np.float32(0))
            out[q0 : q0 + n, h] = result.astype(kind).astype(np.float32)
    return out, lse
