"""An independent flash-attention forward in float32 and 16-bit numpy.

Shares no code with the package under test: plain loops over sequences, heads and key
tiles, exp2, a running maximum, P rounded to the input type before the second product.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

TYPES = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}
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


def cubic_exp2(x):
    """Exp2 by a cubic in the fraction, as kernels do that spare their special unit."""
    x = np.maximum(x, np.float32(-127))
    whole = np.floor(x)
    f = (x - whole).astype(np.float32)
    near = np.float32(1) + f * (
        0.6951461 + f * (0.22756439 + f * np.float32(0.0771191))
    )
    return np.ldexp(near.astype(np.float32), whole.astype(np.int32)).astype(np.float32)


def combine(parts):
    """Put parts of the keys together: (out, lse) each, in float32."""
    outs, lses = (np.stack(x) for x in zip(*parts, strict=True))
    top = lses.max(axis=0)
    top = np.where(np.isneginf(top), np.float32(0), top)
    weights = np.exp2((lses - top) * LOG2E)
    total = weights.sum(axis=0, dtype=np.float32)
    share = weights / np.where(total > 0, total, np.float32(1))
    with np.errstate(divide="ignore"):
        return (share[..., None] * outs).sum(axis=0, dtype=np.float32), top + np.log(
            total
        )


def flash(
    problem,
    dtype,
    *,
    tile=64,
    flaw=None,
    out_dtype=None,
    weight_scale=1.0,
    splits=1,
    exp2=np.exp2,
    descales=(1.0, 1.0, 1.0),
    out_scale=None,
):
    """Return float32 (out, lse); `flaw` plants one bug by name.

    The operands of `problem` are multiplied by `descales` (q, k, v) in the kernel, and
    its result by `out_scale`, which holds it to the largest number of its type.
    """
    kind = TYPES[dtype]
    out_kind = TYPES[out_dtype or dtype]
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
    scale = np.float32(np.float32(scale) * np.float32(descales[0]))
    scale = np.float32(scale * np.float32(descales[1]))
    factor = np.float32(scale * LOG2E)
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
            step = -(-max(1, -(-m // tile)) // splits) * tile
            parts = [
                attend(
                    q[q0 : q0 + n, h],
                    k[k0 + a : k0 + min(m, a + step), g],
                    v[k0 + a : k0 + min(m, a + step), g],
                    mask[:, a : a + step],
                    factor=factor,
                    scale=scale,
                    tile=tile,
                    sink=None if problem.sinks is None else problem.sinks[h],
                    kind=kind,
                    weight_scale=np.float32(weight_scale),
                    exp2=exp2,
                )
                for a in range(0, max(1, m), step)
            ]
            result, lse[q0 : q0 + n, h] = combine(parts) if splits > 1 else parts[0]
            result = result * np.float32(descales[2])
            if out_scale is not None:
                most = np.float32(ml_dtypes.finfo(out_kind).max)
                result = np.clip(result * np.float32(out_scale), -most, most)
            out[q0 : q0 + n, h] = result.astype(out_kind).astype(np.float32)
    return out, lse


def attend(q, k, v, mask, *, factor, scale, tile, sink, kind, weight_scale, exp2):
    """One head of one sequence over some of its keys: float32 (out, lse)."""
    n, m = mask.shape
    peak = np.full(n, -np.inf, np.float32)
    total = np.zeros(n, np.float32)
    acc = np.zeros((n, v.shape[1]), np.float32)
    for j in range(0, m, tile):
        at = slice(j, j + tile)
        s = np.where(mask[:, at], q @ k[at].T, np.float32(-np.inf))
        new = np.maximum(peak, s.max(axis=1))
        base = np.where(np.isneginf(new), np.float32(0), new)
        with np.errstate(invalid="ignore"):
            alpha = np.exp2((peak - base) * factor)
        x = s * factor - (base * factor)[:, None]
        p = np.where(np.isneginf(x), np.float32(0), exp2(x)) * weight_scale
        total = total * alpha + p.sum(axis=1, dtype=np.float32)
        acc = acc * alpha[:, None] + p.astype(kind).astype(np.float32) @ v[at]
        peak = new
    total, acc = total / weight_scale, acc / weight_scale
    base = np.where(np.isneginf(peak), np.float32(0), peak * np.float32(scale))
    if sink is not None:
        sink = np.float32(sink)
        top = np.maximum(np.where(total > 0, base, sink), sink)
        drop = np.where(total > 0, base - top, np.float32(-np.inf))
        fade = np.exp2(drop * LOG2E)
        total = total * fade + np.exp2((sink - top) * LOG2E)
        acc = acc * fade[:, None]
        base = top
    with np.errstate(divide="ignore", invalid="ignore"):
        result = acc * (np.float32(1) / total)[:, None]
        lse = base + np.log(total)
    return np.where(total[:, None] > 0, result, np.float32(0)), lse
