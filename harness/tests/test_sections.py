"""Rules cite sections that the PTX ISA has, by their titles."""

import re
from pathlib import Path

import pytest

from sidestream.harness.device.races import RULES
from sidestream.harness.device.rules import FAULTS
from sidestream.harness.ptx.sections import SECTIONS, unknown

DOCS = Path(__file__).parents[2] / "docs"
OURS = {"gmem.readonly", "gmem.init"}
"""Rules of the calls' contract, of which the ISA says nothing."""


@pytest.mark.parametrize("rule", RULES)
def test_a_race_s_rule_cites_a_section(rule):
    assert unknown(RULES[rule]) == ()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_s_rule_cites_a_section(fault):
    rule = FAULTS[fault].rule
    assert bool(unknown(rule.title)) == (rule.id in OURS)


@pytest.mark.parametrize("page", ["races.md", "isa-differences.md"])
def test_a_page_cites_sections(page):
    text = " ".join((DOCS / page).read_text().split())
    cited = {
        title
        for title in re.findall(r"(?<!\*)\*([A-Z][^*|]+)\*(?!\*)", text)
        if title.split(": ")[0] in SECTIONS
    }
    assert cited
    assert [title for title in cited if unknown(title)] == []


@pytest.mark.parametrize(
    "title",
    [
        "Memory Consistency Model: Synchronizes-With",
        "Memory Consistency Model: Proxies; fence.proxy",
        "Proxies",
        "tcgen05.commit",
        "",
    ],
)
def test_what_is_no_section_is_told(title):
    assert unknown(title)
