"""Forms of PTX ISA chapter "Control Flow Instructions"."""

from __future__ import annotations

from sidestream.harness.ptx.forms import Family, Form


def _section(name: str) -> str:
    return f"Control Flow Instructions: {name}"


FAMILIES: tuple[Family, ...] = (
    Family("bra", _section("bra"), (Form("uni?", "@target"),)),
    # The decoder puts the labels of the table in place of its name.
    Family("brx.idx", _section("brx.idx"), (Form("uni?", "a:b32 (targets)"),)),
    Family(
        "call",
        _section("call"),
        (
            Form("uni?", "target"),
            Form("uni?", "target (params)"),
            Form("uni?", "(results) target (params)"),
        ),
    ),
    Family("ret", _section("ret"), (Form("uni?", ""),)),
    Family("exit", _section("exit"), (Form("", ""),)),
)
