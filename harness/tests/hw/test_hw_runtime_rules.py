"""The virtual CUDA runtime against an H200: `hw_runtime_record.py` wrote the record."""

import json
from pathlib import Path

import pytest
from hw_runtime_layout import replay, replay_pinned
from hw_runtime_record import SEEDS
from hw_runtime_rules import RULES
from hw_runtime_virtual import VirtualApi

from sidestream.harness.runtime import Runtime

RECORD = json.loads((Path(__file__).parent / "runtime_rules.json").read_text())
SEEDS_RECORDED = range(1, SEEDS + 1)


def test_the_record_says_where_it_comes_from():
    assert RECORD["card"] == "NVIDIA H200"
    assert RECORD["cuda"] == "13.0"
    assert set(RECORD["rules"]) == set(RULES)


@pytest.mark.parametrize("name", RULES)
def test_the_runtime_answers_as_the_card_did(name):
    assert RULES[name](VirtualApi()) == RECORD["rules"][name]


@pytest.mark.parametrize("seed", SEEDS_RECORDED)
def test_blocks_lie_where_torch_put_them(seed):
    assert replay(seed, RECORD["allocations"][seed - 1], captured=False) == []


@pytest.mark.parametrize("seed", SEEDS_RECORDED)
def test_blocks_of_captures_lie_where_torch_put_them(seed):
    assert replay(seed, RECORD["captured"][seed - 1], captured=True) == []


def test_pinned_blocks_are_reused_as_torch_does():
    assert replay_pinned(1, RECORD["pinned"]) == []


def test_the_pool_begins_again_where_torchs_did():
    rt = Runtime()
    first, count = rt.pool_stream(), 1
    while rt.pool_stream() is not first:
        count += 1
    assert count == RECORD["pool_period"]


def test_external_stream_0_is_what_it_was_in_that_torch():
    major, minor = (int(part) for part in RECORD["torch"].split(".")[:2])
    rt = Runtime(torch_version=(major, minor))
    is_default = rt.external_stream(0) is rt.stream(0)
    assert is_default == RECORD["external_zero_is_default"]
