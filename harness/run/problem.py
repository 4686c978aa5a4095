"""A scenario in the terms of a driver, and variations of it for the cache check."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from sidestream.harness.errors import ContractError
from sidestream.scenarios.declaration import DTYPES, ONE_BYTE
from sidestream.scenarios.scenario import Scenario

if TYPE_CHECKING:
    from sidestream.harness.drivers.protocol import Problem


@lru_cache(maxsize=8)
def problem_of(scenario: Scenario) -> Problem:
    """Return what a driver is asked to serve."""
    from sidestream.harness.drivers.protocol import Problem

    return Problem(
        dtype=scenario.dtype,
        heads_q=scenario.heads_q,
        heads_kv=scenario.heads_kv,
        head_dim=scenario.head_dim,
        head_dim_v=scenario.width_v,
        out_dtype=scenario.output_dtype,
        descales=scenario.descales,
        block_scaled=scenario.block_scaled,
        scale_out=scenario.scale_out,
        splits=scenario.splits,
        route=scenario.route,
        max_len_q=scenario.declared_max_q,
        max_len_kv=scenario.declared_max_kv,
        lengths_q=scenario.lengths_q,
        lengths_kv=scenario.lengths_kv,
        capacity_q=scenario.capacity_q,
        capacity_kv=scenario.capacity_kv,
        causal=scenario.causal,
        window_left=scenario.window_left,
        window_right=scenario.window_right,
        anchor=scenario.anchor or "top_left",
        sinks=scenario.sinks,
        lse=scenario.lse,
        lengths_q_form=scenario.lengths_q_form,
        lengths_kv_form=scenario.lengths_kv_form,
        scale=scenario.scale
        if scenario.scale is not None
        else 1.0 / math.sqrt(scenario.head_dim),
    )


def code_label(scenario: Scenario) -> str:
    """Spell the declared facts that attention code usually depends on."""
    facts = [scenario.dtype, f"d{scenario.head_dim}"]
    if scenario.width_v != scenario.head_dim:
        facts[-1] += f"x{scenario.width_v}"
    if scenario.output_dtype != scenario.dtype:
        facts[0] += f" to {scenario.output_dtype}"
    if scenario.descales is not None:
        facts.append("descales")
    if scenario.block_scaled:
        facts.append("block scales")
    if scenario.splits > 1:
        facts.append(f"{scenario.splits} splits")
    if scenario.route != "default":
        facts.append(scenario.route)
    if scenario.causal != "none":
        facts.append(f"causal {scenario.causal}")
    for side in ("left", "right"):
        if getattr(scenario, f"window_{side}") is not None:
            facts.append(f"{side} window")
    if scenario.causal == "none" and scenario.anchor:
        facts.append(scenario.anchor)
    if scenario.sinks:
        facts.append("sinks")
    facts.append(f"lse {scenario.lse}")
    facts.append(f"{scenario.lengths_q_form}/{scenario.lengths_kv_form}")
    if (scenario.scale or 1.0) < 0.0:
        facts.append("negative scale")
    return ", ".join(facts)


def compile_group(scenario: Scenario) -> tuple[object, ...]:
    """Return facts such that scenarios which differ in them never share code.

    Coarser than any compile key: a group that stays in one process is compiled once.
    """
    return (
        scenario.dtype,
        scenario.output_dtype,
        scenario.head_dim,
        scenario.width_v,
        scenario.block_scaled,
        scenario.route,
        scenario.splits > 1,
        scenario.sinks,
        scenario.lse,
        scenario.lengths_q_form,
        scenario.lengths_kv_form,
    )


def other_totals(scenario: Scenario, *, same_capacity: bool) -> Scenario:
    """Return an equal declaration with other lengths and packed totals.

    Sequences come in reverse order, and the first that is not empty loses a token; a
    call without tokens gains one. With `same_capacity` the tensors keep their sizes.
    """

    def shifted(lengths: tuple[int, ...]) -> tuple[int, ...]:
        turned = list(reversed(lengths))
        for index, length in enumerate(turned):
            if length:
                turned[index] = length - 1
                return tuple(turned)
        turned[0] = 1
        return tuple(turned)

    lengths_q, lengths_kv = shifted(scenario.lengths_q), shifted(scenario.lengths_kv)
    tail_q = max(0, scenario.capacity_q - sum(lengths_q))
    tail_kv = max(0, scenario.capacity_kv - sum(lengths_kv))
    if not same_capacity:
        tail_q += 3
        tail_kv += 3 if scenario.layout == "fused_qkv" else 5
    return dataclasses.replace(
        scenario,
        name=f"{scenario.name}+totals",
        lengths_q=lengths_q,
        lengths_kv=lengths_kv,
        tail_q=tail_q,
        tail_kv=tail_kv,
        max_len_q=scenario.declared_max_q,
        max_len_kv=scenario.declared_max_kv,
        nan_sequences=(),
    )


def one_bit_away(scenario: Scenario) -> Iterator[tuple[str, Scenario]]:
    """Yield scenarios whose declaration differs in one contract bit, with its name."""
    windowed = scenario.window_left is not None or scenario.window_right is not None
    causal = scenario.causal
    scale = scenario.scale or 1.0 / math.sqrt(scenario.head_dim)
    changes: list[tuple[str, dict[str, object]]] = [
        *_other_types(scenario),
        ("head_dim", {"head_dim": scenario.head_dim + 16 // scenario.item}),
        ("head_dim", {"head_dim": scenario.head_dim - 16 // scenario.item}),
        ("window_left", {"window_left": None if scenario.window_left else 7}),
        ("window_left", {"window_left": (scenario.window_left or 0) + 3}),
        ("sinks", {"sinks": not scenario.sinks, "sink_value": None}),
        ("scale", {"scale": scale * 1.5}),
        ("scale", {"scale": -scale}),
        ("heads_q", {"heads_q": scenario.heads_q * 2}),
    ]
    changes += [
        ("causal", {"causal": other, "window_right": None, "anchor": None})
        for other in ("none", "top_left", "bottom_right")
        if other != causal
    ]
    if causal == "none":
        right = scenario.window_right
        changes.append(("window_right", {"window_right": None if right else 5}))
        changes.append(("window_right", {"window_right": (right or 0) + 2}))
    if causal == "none" and windowed:
        changes.append(
            ("anchor", {"anchor": _other(scenario.anchor, "bottom_right", "top_left")})
        )
    changes += [
        ("lse", {"lse": other, "lse_slack": 0})
        for other in ("none", "token_major", "head_major")
        if other != scenario.lse
    ]
    for side in ("q", "kv"):
        field = f"lengths_{side}_form"
        form = _other(getattr(scenario, field), "prefix", "counts")
        changes.append((field, {field: form, f"base_{side}": 0}))
    for bit, fields in changes:
        try:
            varied = dataclasses.replace(scenario, **fields)  # type: ignore[arg-type]
        except ContractError:
            continue
        if varied.declaration() != scenario.declaration():
            before, after = _spell(scenario, bit), _spell(varied, bit)
            yield f"{bit} {before} -> {after}", varied


def _other_types(scenario: Scenario) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield other types of inputs, and of the output where it has its own."""
    if not scenario.narrow:
        yield "dtype", {"dtype": _other(scenario.dtype, *DTYPES)}
        return
    yield "dtype", {"dtype": _other(scenario.dtype, *ONE_BYTE)}
    if scenario.block_scaled:
        yield "block_scaled", {"block_scaled": False, "descales": (0.75, 1.25, 0.5)}
    for kind in (*DTYPES, *ONE_BYTE):
        scale = 1.0 if kind in ONE_BYTE else None
        yield "output_dtype", {"out_dtype": kind, "scale_out": scale}


def _other(value: object, first: str, second: str) -> str:
    return second if value == first else first


def _spell(scenario: Scenario, bit: str) -> str:
    value = getattr(scenario, bit)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
