"""Whatever the text, the front end answers with a result or a `PtxError`."""

import random
import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidestream.harness.errors import PtxError
from sidestream.harness.ptx import lexer
from sidestream.harness.ptx.decode import decode
from sidestream.harness.ptx.parser import parse
from sidestream.harness.ptx.printer import print_module
from sidestream.harness.tests.form_instances import instances, module
from sidestream.harness.tests.test_ptx_parser import WHOLE

CASES = 500
SEEDS = range(5)
_SPLIT = re.compile(r"\w+|\s+|.", re.DOTALL)
_TOKEN = re.compile(r"%?[\w$]+|\.[\w:]+|\s+|.", re.DOTALL)
_JUNK = (
    "", "{", "}", "[", "]", "(", ")", "<", ">", ";", ",", ":", "::", ".", "%", "@",
    "!", "|", "+", "-", "_", "0x", "0f", "1e999", "9" * 90, '"', "/*", "*/", "//",
    "\n", "\x00", "\u00e9", ".reg", ".b32", ".param", ".align", "%r<9999999>",
    "bra", ".branchtargets", "mov.b64", "{%r1,%r2}", "%r999999999", ".v4", "-1",
)  # fmt: skip


def corpus() -> tuple[str, ...]:
    every = [instance.text for instance in instances(limit=1)]
    size = 40
    parts = [module(every[i : i + size]) for i in range(0, len(every), size)]
    return (WHOLE, *parts)


TEXTS = corpus()


def mutate(text: str, rng: random.Random) -> str:
    """Delete, double, swap or replace tokens or characters in a few places."""
    pieces = _SPLIT.findall(text)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(pieces))
        match rng.randrange(6):
            case 0:
                del pieces[at : at + rng.randint(1, 4)]
            case 1:
                pieces.insert(at, pieces[rng.randrange(len(pieces))])
            case 2:
                other = rng.randrange(len(pieces))
                pieces[at], pieces[other] = pieces[other], pieces[at]
            case 3:
                pieces[at] = rng.choice(_JUNK)
            case 4:
                pieces.insert(at, rng.choice(_JUNK))
            case 5:
                piece = pieces[at]
                cut = rng.randrange(len(piece) + 1)
                pieces[at] = piece[:cut] + chr(rng.randrange(256)) + piece[cut:]
        if not pieces:
            return ""
    return "".join(pieces)


def exchange(text: str, rng: random.Random) -> str:
    """Put one token in place of another of its kind, so that more is still PTX."""
    pieces = _TOKEN.findall(text)
    kinds = [kind(piece) for piece in pieces]
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(pieces))
        same = [i for i, k in enumerate(kinds) if k == kinds[at]]
        pieces[at] = pieces[rng.choice(same)]
    return "".join(pieces)


def kind(piece: str) -> str:
    first = piece[0]
    if first.isdigit():
        return "number"
    return "word" if first.isalpha() else first


def outcome(text: str) -> str:
    """`parse`, `decode` or `read`: how far the text came; other errors escape."""
    try:
        tree = parse(text)
    except PtxError:
        return "parse"
    assert parse(print_module(tree)) == tree
    try:
        for entry in tree.entries:
            decode(tree, entry)
        decode(tree)
    except PtxError:
        return "decode"
    return "read"


@pytest.mark.parametrize("seed", SEEDS)
def test_mutated_texts(seed: int):
    rng = random.Random(seed)
    outcomes = Counter(
        outcome(change(rng.choice(TEXTS), rng))
        for _ in range(CASES // 2)
        for change in (mutate, exchange)
    )
    # The mutations reach every stage.
    assert all(outcomes[stage] > CASES // 100 for stage in ("parse", "decode", "read"))


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200))
def test_arbitrary_texts(text: str):
    outcome(text)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([*_JUNK, " ", "mov", "%p1", "k"]), max_size=60))
def test_arbitrary_bodies(pieces: list[str]):
    text = " ".join(pieces)
    outcome(f".version 9.4\n.target sm_90a\n.entry k() {{ .reg .b32 %r<9>; {text} }}")


@pytest.mark.parametrize(
    "text",
    [
        "/*" * 50_000,
        '"' * 50_001,
        "{" * 50_000,
        "[" * 50_000,
        "." * 50_000,
        "a:" * 50_000,
        ".entry k(" + ".param .b32 a, " * 20_000,
        ".entry k() { mov " + "a, " * 20_000,
        ".entry k() { a" + ".b" * 50_000 + "; }",
        ".entry k() { a" + " .b" * 50_000 + "; }",
        ".entry k() { " + ".reg .b32 %r<9>; { " * 20_000,
        ".entry k() { mov.b32 a, " + "1" * 50_000 + "; }",
        ".global .b8 a[1099511627776] = {1};",
        ".global .b8 a" + "[65536]" * 4_000 + ";",
        ".entry k() { " + "L: .branchtargets L; " * 20_000 + "}",
        ".entry k() { " + "{ L: } " * 20_000 + "bra L; }",
    ],
    ids=lambda text: text[:24],
)
def test_hostile_texts_end_soon(text: str):
    outcome(f".version 9.4\n.target sm_90a\n{text}")


def test_reading_is_linear():
    # Counted, not timed: tokens are made in one pass without rescanning.
    line = "mov.b32 %r1, %r2; // comment\n"
    counts = [len(lexer.tokenize(line * n).texts) - 1 for n in (100, 1000)]
    assert counts == [500, 5000]
