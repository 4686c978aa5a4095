"""The table of rebuilt host bugs says what the scripts are and what the tests hold."""

import ast
import re
from pathlib import Path

import pytest
import test_host_bugs
import test_host_devices
import test_host_keys

DOCUMENT = Path(__file__).parents[2] / "docs" / "host-races.md"
HEADING = "## Public bugs, rebuilt"
REPORTS = {
    "host-stream": {
        "NVIDIA/cudnn-frontend#543",
        "NVIDIA/cudnn-frontend#483",
        "NVIDIA/cudnn-frontend#614",
        "NVIDIA/cudnn-frontend#1165",
        "sgl-project/mini-sglang#103",
        "vllm-project/vllm#36013",
    },
    "allocator": {
        "NVIDIA/TensorRT-LLM#15265",
        "NVIDIA/cudnn-frontend#429",
        "meta-pytorch/torchrec#4218",
    },
    "cachekey": {
        "NVIDIA/cudnn-frontend#552",
        "NVIDIA/cudnn-frontend#1039",
        "Dao-AILab/flash-attention#2507",
        "flashinfer-ai/flashinfer#4214",
        "Dao-AILab/flash-attention#2566",
    },
    "d2h": {
        "NVIDIA/cudnn-frontend#606",
        "NVIDIA/cudnn-frontend#619",
        "NVIDIA/cudnn-frontend#354",
    },
    "capture": {
        "NVIDIA/cudnn-frontend#1151",
        "pytorch/helion#2817",
        "vllm-project/flash-attention#162",
    },
}
"""Every public report of these classes that this project has looked at and can be a
script; the text below the table tells of the others."""
TOLD = {
    **{(name, "buggy"): {kind} for name, kind in test_host_bugs.BUGS.items()},
    **{
        ("package_at_every_step", word): {kind}
        for word, kind in test_host_bugs.PACKAGE.items()
    },
    **{
        ("keys_of_a_package", word): {kind}
        for word, kind in test_host_keys.KINDS.items()
    },
    **{
        ("two_devices", word): test_host_devices.kinds_of(word)
        for word in test_host_devices.MISTAKES
    },
}
"""What the tests require of each script and word: the kinds of its findings."""


def section():
    return DOCUMENT.read_text().partition(HEADING)[2].partition("\n## ")[0]


def rows():
    """Return class, report, script, word and the rest of each row."""
    found = []
    for line in section().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[3].startswith("`"):
            script, _, word = cells[3].strip("`").partition(" ")
            found.append((cells[0], cells[1], script, word, cells[4]))
    return found


def spoken_of(script):
    """Return the docstring of a script."""
    path = test_host_bugs.SCRIPTS / f"{script}.py"
    return ast.get_docstring(ast.parse(path.read_text())) or ""


@pytest.mark.parametrize("row", rows(), ids=lambda row: "-".join((row[2], row[3])))
def test_a_row_is_what_its_script_and_its_test_say(row):
    _, report, script, word, told = row
    text = spoken_of(script)
    repository, _, number = report.partition("#")
    if number:
        assert repository in text
        assert re.search(rf"#{number}\b", text)
    else:
        assert all(part.strip(" `") in text for part in report.split(","))
    assert f"`{word}`" in text or word in text.split("[")[-1].split("]")[0]
    kinds = set(re.findall(r"`([a-z-]+)`", told))
    assert kinds == TOLD[script, word]


@pytest.mark.parametrize("bug_class", REPORTS)
def test_every_report_of_a_class_has_its_row(bug_class):
    assert {r[1] for r in rows() if r[0] == bug_class} == REPORTS[bug_class]


def test_every_bug_that_is_tested_is_told_of():
    """In the table or, without a public report, in the text below it."""
    listed = {(script, word) for _, _, script, word, _ in rows()}
    assert len(listed) == len(rows()) >= 18
    below = section().rpartition("|\n")[2]
    for script, word in set(TOLD) - listed:
        assert f"`{script}`" in below
        assert word == "buggy" or f"`{word}`" in below
