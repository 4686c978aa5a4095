"""The sm_90a build of our kernel gives the bits that the card gave.

PTX leaves the bits of ex2, rcp and lg2 open; with the card's own answers in their place
the emulator must give every bit of O and LSE. The core declaration and one scenario of
each other kind are run here, the whole catalogue by `card_bits.py`; of wide head dims
and one-byte types those that share few compilations, all by `card_digests.py`.
"""

from __future__ import annotations

from dataclasses import replace

import card_bits
import card_digests
import numpy as np
import pytest

from sidestream.scenarios import catalogue
from sidestream.scenarios.core import CORE_TAG

OTHERS = (
    *("causal-d128-fp16", "bottom-right-more-queries", "band-bottom-right"),
    *("sinks-window", "d8-fp16", "d72-fp16", "negative-scale", "lse-head-major"),
    *("prefix-query-only", "huge-tail", "last-sequence-one-row"),
)
SCENARIOS = list(
    dict.fromkeys(
        [*catalogue.with_tags(CORE_TAG), *(catalogue.by_name(n) for n in OTHERS)]
    )
)
# One compilation for each line.
BESIDE = (
    *("wide-d192x128-edges", "wide-d192x128-several-tiles"),
    *("wide-d256-edges", "wide-d256-several-tiles"),
    *("fp8-e4m3-edges", "fp8-e4m3-several-tiles", "fp8-e4m3-huge-tail"),
    *("fp8-e5m2-edges", "fp8-e5m2-several-tiles", "fp8-e5m2-huge-tail"),
    "fp8-e4m3-to-same",
)


@pytest.fixture(scope="module")
def comparison():
    return card_bits.Comparison()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[s.name for s in SCENARIOS])
def test_every_bit_is_the_cards(comparison, scenario):
    found = comparison.compare(scenario, card=True)
    assert {name: seen for name, seen in found.items() if seen.differ} == {}


@pytest.mark.parametrize("name", BESIDE)
def test_every_bit_of_wide_and_one_byte_kernels_is_the_cards(comparison, name):
    found = comparison.digests(catalogue.by_name(name), card=True)
    assert found == card_digests.recorded()[name]


def test_a_digest_tells_the_emulators_own_approximations_apart(comparison):
    found = comparison.digests(catalogue.by_name("fp8-e4m3-edges"), card=False)
    assert found["lse"] != card_digests.recorded()["fp8-e4m3-edges"]["lse"]


def test_what_differs_otherwise_is_little_and_seen(comparison):
    """Without the card's answers something differs, so the comparison can fail."""
    found = comparison.compare(catalogue.by_name("tile-edges"), card=False)
    assert 0 < found["O"].differ <= found["O"].elements // 1000
    assert 0 < found["LSE"].differ <= found["LSE"].elements // 2
    assert found["O"].ulp == 1


@pytest.mark.parametrize("name", card_bits.OPS)
def test_a_last_bit_of_one_approximation_is_seen(comparison, name):
    """One unit more in every entry: each of the three reaches a result."""
    tables = comparison.tables
    changed = replace(tables, **{name: getattr(tables, name) + np.uint32(1)})
    found = comparison.compare(
        catalogue.by_name("tile-edges"), card=True, tables=changed
    )
    assert found["LSE" if name == "lg2" else "O"].differ


def test_bits_are_told_apart():
    ours = np.array([1.0, -0.0, 0.0, np.nan], np.float32)
    card = np.array([1.0, 0.0, 0.0, np.nan], np.float32)
    assert card_bits.apart(ours, card) == card_bits.Apart(elements=4, differ=1, ulp=1)
    card.view(np.uint32)[0] += 3
    assert card_bits.apart(ours, card).ulp == 3
