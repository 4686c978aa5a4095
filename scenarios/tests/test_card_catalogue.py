"""The catalogue on a real card: recorded results judged anywhere, a live run on SM90.

`data/h200_catalogue.npz` holds what our kernel, compiled for sm_90a, wrote on the card
that its `about` entry names: the bits of every live row of O and the LSE of every
scenario. To record again, on a machine with the card:

    SIDESTREAM_RECORD=h200_catalogue.npz pytest -m hardware THIS_FILE
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from card_record import about, card_missing

from sidestream.kernels import adapter
from sidestream.reference import narrow, parity, tolerance
from sidestream.scenarios.case import CaseInputs, build
from sidestream.scenarios.catalogue import CATALOGUE
from sidestream.scenarios.fill import LSE_SENTINEL, OUT_SENTINEL
from sidestream.scenarios.scenario import Scenario

RECORD = Path(__file__).parent / "data" / "h200_catalogue.npz"
NAMES = [scenario.name for scenario in CATALOGUE]


def judge(inputs: CaseInputs, out: Any, lse: Any) -> parity.Parity:
    """Compare live rows, given as bits and float32, with the float64 reference."""
    case = inputs.scenario
    rows = inputs.judged[inputs.live]
    bounds = tolerance.bound(inputs.problem(), dtype=case.dtype)
    target = narrow.by_name(case.dtype)
    full = np.zeros((case.capacity_q, case.heads_q, case.head_dim))
    full[inputs.live] = narrow.from_bits(out, target)
    columns = None
    if lse is not None:
        columns = np.zeros((case.capacity_q, case.heads_q), np.float32)
        columns[inputs.live] = lse
    judged = inputs.live.copy()
    judged[inputs.live] = rows
    return parity.compare(bounds, out=full, lse=columns, rows=judged)


@pytest.fixture(scope="module")
def recorded() -> Any:
    with np.load(RECORD) as archive:
        return dict(archive)


def test_the_record_names_its_card_and_covers_the_catalogue(recorded):
    named = json.loads(str(recorded["about"]))
    assert named["capability"] == [9, 0]
    assert {"card", "driver", "date"} <= set(named)
    assert {key.removesuffix("/out") for key in recorded if key.endswith("/out")} == {
        *NAMES
    }


@pytest.mark.parametrize("scenario", CATALOGUE, ids=NAMES)
def test_recorded_results_lie_within_the_bound(recorded, scenario):
    inputs = build(scenario)
    lse = recorded.get(f"{scenario.name}/lse")
    assert (lse is None) == (scenario.lse == "none")
    assert judge(inputs, recorded[f"{scenario.name}/out"], lse).worst <= 1.0


def run_on_card(scenario: Scenario, inputs: CaseInputs) -> tuple[Any, Any]:
    """Execute on the current card; returns the slabs of O and LSE it left behind."""
    spec = adapter.AttentionSpec(arch="sm_90a", **scenario.declaration())
    plan = adapter.plan(spec)
    compiled = plan.compile()
    kind = getattr(torch, scenario.dtype)
    slabs = {
        name: torch.from_numpy(array.copy()).cuda()
        for name, array in inputs.slabs.items()
    }

    def view(v: Any) -> Any:
        slab = slabs[v.slab]
        typed = slab.view(kind) if slab.dtype == torch.uint16 else slab
        return torch.as_strided(typed, v.shape, v.strides, v.offset)

    lse = None if inputs.lse is None else view(inputs.lse)
    if lse is not None and scenario.lse == "head_major":
        lse = lse.t()
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    workspace = torch.from_numpy(inputs.scratch(plan.workspace_bytes())).cuda()
    compiled.execute(
        view(inputs.q),
        view(inputs.k),
        view(inputs.v),
        view(inputs.out),
        lse,
        torch.from_numpy(inputs.lengths_q).cuda(),
        torch.from_numpy(inputs.lengths_kv).cuda(),
        workspace,
        stream.cuda_stream,
        sinks=None if inputs.sinks is None else torch.from_numpy(inputs.sinks).cuda(),
    )
    torch.cuda.synchronize()
    return (
        slabs["out"].cpu().numpy(),
        None if lse is None else slabs["lse"].cpu().numpy(),
    )


def split(inputs: CaseInputs, out: Any, lse: Any) -> tuple[Any, Any]:
    """Take the live rows out; every other element must still be the sentinel."""
    inputs.slabs["out"][:] = out
    rows = inputs.array(inputs.out)
    live_out = rows[inputs.live].copy()
    rows[inputs.live] = OUT_SENTINEL
    assert (inputs.slabs["out"] == OUT_SENTINEL).all(), "O written outside live rows"
    if lse is None or inputs.lse is None:
        return live_out, None
    inputs.slabs["lse"][:] = lse
    cells = inputs.array(inputs.lse)
    live_lse = cells[inputs.live].copy()
    cells[inputs.live] = np.uint32(LSE_SENTINEL).view(np.float32)
    untouched = inputs.slabs["lse"].view(np.uint32) == LSE_SENTINEL
    assert untouched.all(), "LSE written outside live rows"
    return live_out, live_lse


@pytest.mark.hardware
@pytest.mark.skipif(card_missing() is not None, reason=str(card_missing()))
def test_the_card_meets_the_bound_and_repeats_bit_by_bit(recorded_anew):
    worst: dict[str, float] = {}
    for scenario in CATALOGUE:
        first = split(build(scenario), *run_on_card(scenario, build(scenario)))
        again = split(build(scenario), *run_on_card(scenario, build(scenario)))
        assert (first[0] == again[0]).all(), scenario.name
        recorded_anew[f"{scenario.name}/out"] = first[0]
        if first[1] is not None:
            assert (first[1].view(np.uint32) == again[1].view(np.uint32)).all()
            recorded_anew[f"{scenario.name}/lse"] = first[1]
        worst[scenario.name] = judge(build(scenario), *first).worst
    assert {name: ratio for name, ratio in worst.items() if ratio > 1.0} == {}


@pytest.fixture
def recorded_anew() -> Any:
    results: dict[str, Any] = {}
    yield results
    target = os.environ.get("SIDESTREAM_RECORD")
    if not target:
        return
    np.savez_compressed(target, about=json.dumps(about()), **results)
