"""The tensors a scenario stands for, as numpy bits.

    scenario = catalogue.by_name("bottom-right-more-queries")
    inputs = build(scenario)                 # numpy only; nothing is uploaded
    inputs.array(inputs.k)                   # uint16 bits (tokens, heads, dim)
    bounds = tolerance.bound(inputs.problem(), dtype=scenario.dtype)
    parity.compare(bounds, out=..., lse=..., rows=inputs.judged)

Storage is given as slabs, one-dimensional arrays, and operands as strided views of
them, so that K and V can share a record and gaps between strides exist and hold
poison. A device uploads each slab once and makes the views there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidestream.reference import block_scales, narrow
from sidestream.reference import lengths as seq
from sidestream.reference.attention import Problem
from sidestream.scenarios.fill import (
    AMAX_SENTINEL,
    LSE_SENTINEL,
    TAIL_BITS,
    out_sentinel,
    scratch_bytes,
)
from sidestream.scenarios.layout import (
    View,
    lay_out_alone,
    lay_out_inputs,
    lay_out_lse,
)
from sidestream.scenarios.quantised import quantised
from sidestream.scenarios.scenario import Scenario

__all__ = ["CaseInputs", "Scenario", "build", "declared_lengths"]


@dataclass(frozen=True, kw_only=True)
class CaseInputs:
    """Everything a call of one scenario reads or writes, as numpy arrays.

    `slabs` maps a name to storage: bits of `scenario.dtype` as uint16 or uint8, those
    of `scenario.output_dtype` for `out`, or float32 for `lse` and, with one-byte
    inputs, `amax` (1,). All three start as the sentinels of
    `sidestream.scenarios.fill`.
    """

    scenario: Scenario
    slabs: dict[str, NDArray[Any]]
    q: View
    k: View
    v: View
    out: View
    lse: View | None
    """Always (tokens, heads) in logical order, whatever its strides."""
    lengths_q: NDArray[np.int32]
    """(B,) counts or (B + 1,) prefix sums, as declared."""
    lengths_kv: NDArray[np.int32]
    sinks: NDArray[np.float32] | None
    """(heads_q,)"""
    descales: tuple[NDArray[np.float32], ...] | None
    """Of Q, K and V, (1,) each."""
    scale_out: NDArray[np.float32] | None
    """Of O, (1,)."""
    scales: tuple[NDArray[np.uint8], ...] | None
    """Of blocks of Q, K and V, (heads, atoms, 512) each."""
    live: NDArray[np.bool_]
    """(capacity_q,): rows inside a sequence; the others must stay untouched."""
    judged: NDArray[np.bool_]
    """(capacity_q,): live rows whose own K and V are finite."""

    def array(self, view: View) -> NDArray[Any]:
        """Return `view` as a writable numpy array over its slab."""
        slab = self.slabs[view.slab]
        return np.lib.stride_tricks.as_strided(
            slab[view.offset :],
            shape=view.shape,
            strides=tuple(s * slab.itemsize for s in view.strides),
        )

    def values(self, view: View) -> NDArray[np.float64]:
        """Return the numbers that the bits of `view` stand for, without factors."""
        bits = np.ascontiguousarray(self.array(view))
        case = self.scenario
        kind = case.output_dtype if view.slab == self.out.slab else case.dtype
        return narrow.from_bits(bits, narrow.by_name(kind))

    def scratch(self, size: int) -> NDArray[np.uint8]:
        """Return `size` bytes for the workspace."""
        case = self.scenario
        return scratch_bytes(case.scratch, size, seed=case.seed)

    def problem(self) -> Problem:
        """Return the float64 problem whose result the call must match."""
        case = self.scenario
        q, k, v = (self.values(view) for view in (self.q, self.k, self.v))
        if self.descales is not None:
            factors = (float(d[0]) for d in self.descales)
            q, k, v = (x * f for x, f in zip((q, k, v), factors, strict=True))
        if self.scales is not None:
            of_q, of_k, of_v = self.scales
            # What is past the live tokens has none.
            q[: case.total_q] *= block_scales.column_factors(
                of_q, case.lengths_q, case.head_dim
            )
            k[: case.total_kv] *= block_scales.column_factors(
                of_k, case.lengths_kv, case.head_dim
            )
            v[: case.total_kv] *= block_scales.token_factors(
                of_v, case.lengths_kv, case.width_v
            )
        return Problem(
            q=q,
            k=k,
            v=v,
            seq_q=seq.declared(self.lengths_q, form=case.lengths_q_form),
            seq_kv=seq.declared(self.lengths_kv, form=case.lengths_kv_form),
            causal=case.causal,
            window_left=case.window_left,
            window_right=case.window_right,
            anchor=case.anchor,
            sinks=self.sinks,
            scale=case.scale,
        )


def build(scenario: Scenario, rng: np.random.Generator | None = None) -> CaseInputs:
    """Make the tensors of `scenario`; `rng` defaults to one from its seed.

    Values are drawn before storage is laid out, so two scenarios that differ only in
    layout, capacity, base or fill hold the same numbers.
    """
    generator = np.random.default_rng(scenario.seed) if rng is None else rng
    numbers = _draw(scenario, generator)
    sinks = None
    if scenario.sinks:
        drawn = generator.standard_normal(scenario.heads_q).astype(np.float32)
        fixed = scenario.sink_value
        sinks = drawn if fixed is None else np.full_like(drawn, fixed)
    segments = seq.from_counts(scenario.lengths_kv)
    for b in scenario.nan_sequences:
        first, length = segments.starts[b], segments.lengths[b]
        at = slice(first, first + length, scenario.nan_every)
        numbers["k"][at] = numbers["v"][at] = np.nan
    sizes, views = lay_out_inputs(
        scenario.layout,
        tokens_q=scenario.capacity_q,
        tokens_kv=scenario.capacity_kv,
        heads_q=scenario.heads_q,
        heads_kv=scenario.heads_kv,
        dim=scenario.head_dim,
        dim_v=scenario.width_v,
        item=scenario.item,
    )
    target = narrow.by_name(scenario.dtype)
    scales = None
    if scenario.block_scaled:
        numbers, scales = quantised(scenario, numbers, generator)
    stored = narrow.by_name(scenario.output_dtype)
    poison = TAIL_BITS[scenario.tail_fill][scenario.dtype]
    slabs: dict[str, NDArray[Any]] = {
        name: np.full(size, poison, target.bits_type) for name, size in sizes.items()
    }
    size, out = lay_out_alone(
        "out",
        scenario.out_layout,
        tokens=scenario.capacity_q,
        heads=scenario.heads_q,
        dim=scenario.width_v,
        item=stored.width // 8,
    )
    sentinel = out_sentinel(scenario.output_dtype)
    slabs["out"] = np.full(size, sentinel, dtype=stored.bits_type)
    if scenario.narrow:
        slabs["amax"] = np.full(1, AMAX_SENTINEL, np.uint32).view(np.float32)
    lse: View | None = None
    if scenario.lse != "none":
        size, lse = lay_out_lse(
            scenario.lse,
            tokens=scenario.capacity_q,
            heads=scenario.heads_q,
            slack=scenario.lse_slack,
        )
        slabs["lse"] = np.full(size, LSE_SENTINEL, np.uint32).view(np.float32)
    lengths_q, lengths_kv = declared_lengths(scenario)
    live = np.arange(scenario.capacity_q) < scenario.total_q
    owner = np.repeat(np.arange(scenario.batch), scenario.lengths_q)
    judged = live.copy()
    judged[: scenario.total_q] &= ~np.isin(owner, scenario.nan_sequences)
    inputs = CaseInputs(
        scenario=scenario,
        slabs=slabs,
        q=views["q"],
        k=views["k"],
        v=views["v"],
        out=out,
        lse=lse,
        lengths_q=lengths_q,
        lengths_kv=lengths_kv,
        sinks=sinks,
        descales=tuple(np.array([f], np.float32) for f in scenario.descales)
        if scenario.descales is not None
        else None,
        scale_out=np.array([scenario.scale_out], np.float32)
        if scenario.scale_out is not None
        else None,
        scales=scales,
        live=live,
        judged=judged,
    )
    for name, view in views.items():
        data = numbers[name]
        inputs.array(view)[: data.shape[0]] = narrow.to_bits(data, target)
    return inputs


def declared_lengths(
    scenario: Scenario,
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the length tensors of Q and of K and V, counts or prefix sums."""
    return (
        _declare(
            scenario.lengths_q, form=scenario.lengths_q_form, base=scenario.base_q
        ),
        _declare(
            scenario.lengths_kv, form=scenario.lengths_kv_form, base=scenario.base_kv
        ),
    )


def _declare(counts: tuple[int, ...], *, form: str, base: int) -> NDArray[np.int32]:
    if form == "counts":
        return np.asarray(counts, dtype=np.int32)
    return seq.to_prefix(counts, base=base)


def _draw(
    scenario: Scenario, generator: np.random.Generator
) -> dict[str, NDArray[np.float64]]:
    """Draw the live numbers of Q, K and V, not yet rounded."""
    dim = scenario.head_dim
    q = generator.standard_normal((scenario.total_q, scenario.heads_q, dim))
    k = generator.standard_normal((scenario.total_kv, scenario.heads_kv, dim))
    v = generator.standard_normal(
        (scenario.total_kv, scenario.heads_kv, scenario.width_v)
    )
    if scenario.values == "flat":
        k *= 2.0**-9
    elif scenario.values == "equal":
        k *= 0.0
    elif scenario.values == "sharp":
        k *= 16.0
    elif scenario.values == "ties":
        k[1::2] = k[: 2 * (k.shape[0] // 2) : 2]
    elif scenario.values == "faint":
        # At the usual scale, and a factor of 0.94: other weights are 2**-9.6 of its,
        # where E4M3 has 2**-9 and 0 alone.
        q[..., 0], k[...] = 8.0, 0.0
        k[:1, :, 0] = 10.0 * np.sqrt(dim / 128)
        v = np.abs(v)
        v[:1] = 0.0
    elif scenario.values == "large":
        # Products of 2**15 overflow fp16 already in pairs, and stay small in fp32.
        q, k = q * 2.0**9, k * 2.0**-7
        v *= 2.0**10
    return {"q": q, "k": k, "v": v}
