"""Tokens of PTX text, by PTX ISA section "Syntax"; comments and spaces go.

One regular expression reads every token, so the time is linear in the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sidestream.harness.errors import PtxError

WORD = "word"
"""An identifier or an opcode with all its dotted words: `%tid.x`, `ld.global.b32`."""
DOT = "dot"
"""One dotted word that stands alone: `.reg`, `.shared::cta`."""
NUMBER = "number"
STRING = "string"
PUNCT = "punct"
END = "end"

_TOKEN = re.compile(
    r"""
      (?P<space>[ \t\r\f\v]+)
    | (?P<newline>\n+)
    | (?P<comment>//[^\n]*|/\*.*?\*/)
    | (?P<word>(?:[A-Za-z_$]|%[\w$])[\w$]*(?:(?:\.|::)[\w$]+)*)
    | (?P<dot>\.[\w$]+(?:::[\w$]+)*)
    | (?P<number>(?:0[fF][0-9A-Fa-f]{8}|0[dD][0-9A-Fa-f]{16}|0[xX][0-9A-Fa-f]+U?
        |0[bB][01]+U?|\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+U?)(?![\w$.]))
    | (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<punct><<|>>|==|!=|<=|>=|&&|\|\||[{}\[\]()<>,;:@!|+\-=*/%&^~?])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one text, as parallel tuples that end with an `END` token."""

    kinds: tuple[str, ...]
    texts: tuple[str, ...]
    lines: tuple[int, ...]


def tokenize(text: str) -> Tokens:
    """Split PTX text into tokens.

    Raises:
        PtxError: a character or literal that PTX does not have.
    """
    kinds: list[str] = []
    texts: list[str] = []
    lines: list[int] = []
    line = 1
    position = 0
    length = len(text)
    match_at = _TOKEN.match
    while position < length:
        match = match_at(text, position)
        if match is None:
            shown = text[position : position + 16].split("\n")[0]
            raise PtxError(f"cannot read {shown!r}", line)
        kind = match.lastgroup or END
        found = match.group()
        position = match.end()
        if kind == "space":
            continue
        if kind in ("newline", "comment"):
            line += found.count("\n")
            continue
        kinds.append(kind)
        texts.append(found)
        lines.append(line)
        if kind == STRING:
            line += found.count("\n")
    kinds.append(END)
    texts.append("end of text")
    lines.append(line)
    return Tokens(tuple(kinds), tuple(texts), tuple(lines))
