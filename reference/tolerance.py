r"""Elementwise error bounds on O and LSE, derived from the arithmetic of the kernel.

    bounds = bound(problem, dtype="bfloat16")
    parity = parity.compare(bounds, out=kernel_out, lse=kernel_lse)
    parity.worst <= 1.0

Nothing here is tuned to a kernel or to data. The model is the algorithm that every
flash-attention forward follows: 16- or 8-bit Q, K, V taken exactly; fp32 scores
from a tensor core; a running maximum; weights p = exp2(...) in fp32, their sum in
fp32, and rounded to the input type T for the second matrix product; fp32 accumulation
of O with rescaling; one division; one rounding of O to its type, T if that has 16 bits.
LSE stays in fp32.

Notation: u = 2**-24 (fp32 roundoff), u_T (roundoff of T: 2**-11 for fp16, 2**-8 for
bf16, 2**-4 for E4M3, 2**-3 for E5M2), gamma_n = n u' / (1 - n u') (Higham, *Accuracy
and Stability of Numerical Algorithms*, 2nd ed., section 3.1) with u' = 2**-23 in a
tensor core, whose additions truncate instead of rounding (Fasi, Higham, Mikaitis,
Pranesh, *Numerical behavior of NVIDIA tensor cores*, PeerJ CS 2021). A truncating block
of b products aligned to the largest term has b + 1 errors of u' relative to the sum of
magnitudes, so n terms count as n + n / b. S_i = max over visible keys of |s_ij|; t =
key tiles of the row; P the exact normalised weights; L the normaliser in units of the
largest weight.

1. Score. |fl(s_ij) - s_ij| <= gamma_D |scale| sum_d |q_id||k_jd| by Higham section
   3.1 (inner products).
2. Exponent. exp2 takes fma(s, scale log2e, -m scale log2e): 3 roundings in the
   factor, 1 for the product, 1 for the sum, each relative to |s_ij| or |m| <= S_i:
   5 u (|s_ij| + S_i), in natural units.
3. Rescaling. Each new maximum multiplies what is held by alpha = exp2(m_old - m_new),
   the same alpha for O and for the sum. Its rounding cancels there, and its error
   acts as a relative error of the weights that were already held: at most t times
   8 u S_i + eps_alpha. alpha = 1 is exact, so this counts maxima that rose.
4. exp2. `ex2.approx.f32` has a relative error of 2**-22 (PTX ISA, "Floating Point
   Instructions: ex2"); kernels that evaluate a polynomial for some of the weights
   pass its error as `exp_error`, which then is not that of alpha.
   Terms 1 to 4 add up to delta_ij; |fl(p) - p| <= theta_ij p, theta = expm1(delta).
5. P to T. |rho_ij| <= u_T, or half a subnormal step of T in absolute terms where a
   weight lies below the smallest normal number (weights are at most that small
   relative to the final maximum, since every running maximum is no larger). Kernels
   whose T has few exponents carry weights times a power of two, `weight_scale`,
   which leaves sum and O exactly and puts that threshold and that step lower.
   In O: sum_j P rho_ij v_jd. The worst case is u_T sum_j P|v|. Roundings of unlike
   weights behave as independent and unbiased, so Hoeffding's inequality gives
   lambda u_T sqrt(sum_j P^2 v^2) with failure probability 2 exp(-lambda^2/2) (Higham
   and Mary, *A new approach to probabilistic rounding error analysis*, SISC 2019);
   lambda follows from the number of outputs and `false_alarm`, the probability
   that any of them fails. Weights that round to one value of T may share their
   error, so they count as one: by Cauchy-Schwarz, c_ij P^2 v^2 with c_ij the number
   of keys in the row that share the rounded weight. The smaller of the two holds.
   Where all scores of a row are equal and there is no sink, every weight is 1 times a
   power of two whatever the order, and nothing is rounded.
6. PV accumulation. gamma_n sum_j P|v| with n = visible keys + keys / b + t.
7. Sum. gamma_n' relative, n' = visible keys + t, in fp32; and sum_j P theta_ij.
8. End. Reciprocal (`rcp.approx.f32`: 1 ulp = 2 u) and product: 3 u |O|; rounding to
   the type of O: its roundoff times |O|, or half a subnormal step. An O of 8 bits is
   multiplied by a factor first, one product more, and then held to the largest finite
   number (PTX ISA, "Data Movement and Conversion Instructions: cvt": there is no other
   conversion to these types); so is the reference. It is judged divided by that factor
   again, and so are the step and the largest number.
9. LSE = m scale + ln2 log2(sum). sum_j P theta_ij + the sum's error, and
   `lg2.approx.f32`: 2**-22 absolute near 1, otherwise relative (PTX ISA,
   "Floating Point Instructions: lg2"), both counted; 4 u S_i for the product with
   the scale, u |LSE| for the last rounding, u for the constant ln2.
   A sink is one more column with an exponent error of 5 u (|sink| + M), where M is
   the larger of S_i and |sink|, which then stands for S_i everywhere above.
10. Descales of Q and K enter the factor of step 2 and the scale of step 9 with two
   roundings more, that of V is one more product in step 8; with powers of two they
   are exact, which is not used.
11. Splits. Each of n parts of the keys has its own fp32 O_p, divided by its own sum,
   and its own LSE_p. Of a part nothing is known but that its weights err by at most
   max theta and its sum lies between 1 and N, the keys of the row, in units of its
   own largest weight; so |LSE_p| <= S_i + ln N, and its error e_p is step 9 with these
   for P theta and LSE. Parts are combined with weights w_p = exp(LSE_p - max LSE),
   divided by their sum. exp2 of a difference in log2 units errs by 8 u (S_i + ln N) +
   2**-22, so w_p is known to eta = expm1(e_p + that); numerator and sum both carry it,
   which moves O by at most 2 eta / (1 - eta) sum_j P|v|. Adding n parts in fp32 costs
   gamma_n in both, the product and the division 3 u more, and LSE gains eta, gamma_n
   and one more logarithm.
12. The largest |O| that a kernel tells of is that of step 8 before the factor of O and
   the rounding. A maximum moves by no more than what it is taken of: it lies between
   the largest |O| less its error and the largest |O| with it, where there is no NaN.

A row that sees no key has O = 0 exactly, and LSE = -inf exactly or the sink within
the roundings of a change of base and back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidestream.reference.attention import (
    Attention,
    Problem,
    RowBlock,
    blank,
    row_blocks,
    softmax,
    unpack,
)
from sidestream.reference.narrow import FLOAT32, Format, by_name, round_to

F64 = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Arithmetic:
    """The facts about an implementation that the bound depends on."""

    dtype: Format
    """Type of Q, K, V and of P in the second product."""
    out_dtype: Format | None = None
    """Type of O; None means that of the inputs."""
    tile_keys: int = 32
    """Keys between two possible rescalings; smaller is the safer assumption."""
    tensor_roundoff: float = 2.0**-23
    tensor_block: int = 8
    """Products a tensor core adds at once; m16n8k8 is the narrowest 16-bit shape."""
    exp_error: float = 2.0**-22
    alpha_error: float | None = None
    """Relative error of exp2 where held sums are rescaled; None: as `exp_error`."""
    log_error: float = 2.0**-22
    weight_scale: float = 1.0
    """Power of two that weights are multiplied with while they are of type T."""
    descaled: bool = False
    """Whether Q, K and V come with factors of their own."""
    out_scale: float | None = None
    """What O is multiplied by before it is rounded; None means that it is not. What is
    judged has been divided by it."""
    splits: int = 1
    """Parts of the keys that are worked on apart and combined."""
    false_alarm: float = 1e-9
    """Probability that a faithful kernel exceeds the bound anywhere in a call."""

    @property
    def stored(self) -> Format:
        """Type of O."""
        return self.out_dtype or self.dtype


@dataclass(frozen=True, kw_only=True)
class Bound:
    """Largest admissible absolute errors, with the reference they belong to.

    Computed from operands that already carry their descales.
    """

    out: F64
    """(Tq, Hq, Dv)"""
    lse: F64
    """(Tq, Hq)"""
    reference: Attention
    """O is held to the largest number of its type, if that has 8 bits."""
    peaks: F64
    """(3, Tq): largest |O| of a token at least, in the reference, and at most."""


def gamma(terms: Any, roundoff: float) -> Any:
    """Higham's gamma_n = n u / (1 - n u)."""
    return terms * roundoff / (1.0 - terms * roundoff)


def hoeffding(outputs: int, false_alarm: float) -> float:
    """Return lambda with 2 * outputs * exp(-lambda**2 / 2) = false_alarm."""
    return math.sqrt(2.0 * math.log(2.0 * max(1, outputs) / false_alarm))


def shared(rounded: F64, target: Format) -> F64:
    """Count, along the last axis, the weights that round to the same value.

    Zero weights count as one. Only values of narrow formats up to a small power of
    two occur, so the pattern of the value fits 16 bits and sorting by it is a radix
    sort.
    """
    code = rounded.astype(np.float32).view(np.uint32)
    drop = np.uint32(24 - target.precision)
    keys = ((code - (np.uint32(64) << np.uint32(23))) >> drop).astype(np.uint16)
    keys[rounded < 2.0**-62] = 0
    order = np.argsort(keys, axis=-1, kind="stable")
    ordered = np.take_along_axis(keys, order, axis=-1)
    index = np.arange(ordered.shape[-1])
    edge = np.ones(ordered.shape, dtype=bool)
    edge[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    head = np.maximum.accumulate(np.where(edge, index, 0), axis=-1)
    tail_edge = np.ones(ordered.shape, dtype=bool)
    tail_edge[..., :-1] = edge[..., 1:]
    past = np.where(tail_edge, index, ordered.shape[-1])
    tail = np.minimum.accumulate(past[..., ::-1], axis=-1)[..., ::-1]
    counts = np.empty(rounded.shape, dtype=np.float64)
    np.put_along_axis(counts, order, (tail - head + 1).astype(np.float64), axis=-1)
    return np.where(keys == 0, 1.0, counts)


def bound(problem: Problem, *, dtype: str | Arithmetic) -> Bound:
    """Compute the reference of `problem` and its error bounds in one pass.

    `dtype` is 'float16' or 'bfloat16' for the standard arithmetic, or an
    `Arithmetic` for a kernel that departs from it. The operands of `problem` are what
    the kernel's stand for, descales included.

    Raises:
        ValueError: an unknown type, or scores so large that the derived bound says
            nothing (an error of half the softmax mass).
    """
    model = Arithmetic(dtype=by_name(dtype)) if isinstance(dtype, str) else dtype
    reference = blank(problem)
    out = np.zeros_like(reference.out)
    lse = np.zeros_like(reference.lse)
    if problem.sinks is not None:
        # Keyless rows: sink * log2e * ln2, with the two constants rounded as well.
        lse = np.where(np.isfinite(reference.lse), 5.0 * 2.0**-24, 0.0)
        lse = lse * np.abs(np.nan_to_num(reference.lse, neginf=0.0, posinf=0.0))
    peaks = np.zeros((3, out.shape[0]))
    factor = hoeffding(out.size, model.false_alarm)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        for block in row_blocks(problem):
            parts = _block(block, problem.softmax_scale, model, factor)
            seen = slice(block.tokens.start, block.tokens.stop)
            reference.out[seen], reference.lse[seen] = parts.out, parts.lse
            empty = np.isneginf(parts.lse) | parts.keyless
            before = np.where(empty[..., None], 0.0, parts.before)
            size = np.abs(parts.out)
            for place, tried in enumerate((size - before, size, size + before)):
                peaks[place, seen] = tried.max(axis=(1, 2), initial=0.0)
            out[seen] = np.where(
                empty[..., None], 0.0, before + _rounding(size + before, model)
            )
            lse[seen] = np.where(empty, lse[seen], parts.bound_lse)
    if model.stored.width == 8:
        most = model.stored.largest / (model.out_scale or 1.0)
        np.clip(reference.out, -most, most, out=reference.out)
    return Bound(out=out, lse=lse, reference=reference, peaks=peaks)


def _rounding(size: F64, model: Arithmetic) -> F64:
    """Return the error of rounding numbers up to `size` to the type of O."""
    step = model.stored.half_subnormal / (model.out_scale or 1.0)
    return np.maximum(model.stored.unit_roundoff * size, np.minimum(step, size))


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """Packed results of a row block.

    Attributes:
        out: O (R, Hq, Dv).
        lse: LSE (R, Hq).
        before: Bound of O before it is rounded to its type.
        bound_lse: Bound of LSE.
        keyless: Which rows see no key.
    """

    out: F64
    lse: F64
    before: F64
    bound_lse: F64
    keyless: NDArray[np.bool_]


def _block(block: RowBlock, scale: float, model: Arithmetic, factor: float) -> _Parts:
    """Return O and LSE of a row block, and their bounds."""
    u, u_t = FLOAT32.unit_roundoff, model.dtype.unit_roundoff
    alpha = model.exp_error if model.alpha_error is None else model.alpha_error
    descales = 2.0 if model.descaled else 0.0
    heads, group, rows, dim = block.q.shape
    scores = block.scores(scale)
    visible = np.isfinite(scores)
    size = np.where(visible, np.abs(scores), 0.0)
    peak = size.max(axis=-1, keepdims=True)
    if block.sinks is not None:
        peak = np.maximum(peak, np.abs(block.sinks)[..., None])
    magnitude = np.matmul(
        np.abs(block.q).reshape(heads, group * rows, dim),
        np.abs(block.k).transpose(0, 2, 1),
    ).reshape(scores.shape)
    weights, lse, norm = softmax(scores, block.sinks)
    count = visible.sum(axis=-1)
    tiles = np.ceil(count / model.tile_keys)

    products = dim + dim / model.tensor_block
    delta = abs(scale) * gamma(products, model.tensor_roundoff) * magnitude
    delta += (5.0 + descales) * u * (size + peak)
    rescale = tiles * (8.0 * u * peak[..., 0] + alpha)
    delta += rescale[..., None] + model.exp_error
    theta = np.expm1(delta)

    values = np.abs(block.v)
    out = unpack(block.weigh(weights, block.v))
    weighted = block.weigh(weights, values)
    drift = block.weigh(weights * theta, values)
    largest = 1.0 + np.max(theta, axis=-1, initial=0.0, where=visible)[..., None]

    held = weights * norm[..., None] * model.weight_scale
    rounded = round_to(held, model.dtype)
    spread = weights * np.sqrt(shared(rounded, model.dtype))
    likely = factor * np.sqrt(block.weigh(spread * spread, values * values))
    small = visible & (held < model.dtype.smallest_normal)
    step = model.dtype.half_subnormal / model.weight_scale
    steps = np.where(small, step / norm[..., None], 0.0)
    top = np.max(scores, axis=-1, initial=-np.inf, where=visible)
    even = top == np.min(scores, axis=-1, initial=np.inf, where=visible)
    if block.sinks is not None:
        even = np.zeros_like(even)
    rounding = u_t * np.where(even[..., None], 0.0, np.minimum(weighted, likely))
    rounding += block.weigh(steps, values)

    adds = count + count / model.tensor_block + tiles
    summed = gamma(adds, model.tensor_roundoff)[..., None] * weighted * (1.0 + u_t)
    numerator = drift + (rounding + summed) * largest

    mass = (weights * theta).sum(axis=-1)
    if block.sinks is not None:
        share = 1.0 - weights.sum(axis=-1)
        sink = 5.0 * u * (np.abs(block.sinks) + peak[..., 0])
        mass = mass + share * np.expm1(sink + rescale + model.exp_error)
    mass = mass + gamma(count + tiles, u) * (1.0 + mass)

    if np.any(mass >= 0.5):
        raise ValueError(
            f"scores up to {float(np.nanmax(peak)):.3g} leave fp32 softmax no accuracy"
        )
    log_norm = np.abs(np.log(np.where(norm > 0.0, norm, 1.0)))
    bound_lse = -np.log1p(-mass)
    bound_lse += model.log_error * (1.0 + log_norm) + u * log_norm
    bound_lse += (4.0 + descales) * u * peak[..., 0]
    bound_lse += u * np.abs(np.where(count > 0, lse, 0.0))
    exact = np.abs(out)
    packed_mass = unpack(mass)[..., None]
    before = (unpack(numerator) + exact * packed_mass) / (1.0 - packed_mass)
    ends = 3.0 + descales / 2.0 + (model.out_scale is not None)
    before = before + ends * u * (exact + before)
    if model.splits > 1:
        worst = np.max(theta, axis=-1, initial=0.0, where=visible)
        eta = _part_error(worst, peak[..., 0], count, tiles, model)
        parts = float(gamma(model.splits, u))
        share = unpack(2.0 * eta / (1.0 - eta))[..., None] * unpack(weighted)
        before = before + share + (2.0 * parts + 3.0 * u) * (exact + before)
        bound_lse += eta + parts + model.log_error * (1.0 + np.log(model.splits))
    return _Parts(
        out=out,
        lse=unpack(lse),
        before=before,
        bound_lse=unpack(bound_lse),
        keyless=unpack(count) == 0,
    )


def _part_error(
    worst: F64, peak: F64, count: F64, tiles: F64, model: Arithmetic
) -> F64:
    """Return step 11's eta, the relative error of a part's weight (Hk, G, R).

    Args:
        worst: Largest relative error of a weight (Hk, G, R).
        peak: Largest absolute score.
        count: Visible keys.
        tiles: Possible rescalings.
        model: The arithmetic of the parts.

    Raises:
        ValueError: the sum of a part may be off by half.
    """
    u = FLOAT32.unit_roundoff
    mass = worst + gamma(count + tiles, u) * (1.0 + worst)
    if np.any(mass >= 0.5):
        raise ValueError("scores leave the fp32 softmax of a part no accuracy")
    spread = np.log(np.maximum(1.0, count))
    error = -np.log1p(-mass) + model.log_error * (1.0 + spread) + u * spread
    error += 4.0 * u * peak + u * (peak + spread)
    eta: F64 = np.expm1(error + 8.0 * u * (peak + spread) + 2.0**-22)
    return eta
