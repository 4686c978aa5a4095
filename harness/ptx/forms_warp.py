"""Forms of warp-wide exchanges and of kernel, warp and register control.

PTX ISA chapters "Parallel Synchronization and Communication Instructions" and
"Miscellaneous Instructions".
"""

from __future__ import annotations

from collections.abc import Mapping

from sidestream.harness.ptx import ir
from sidestream.harness.ptx.forms import Family, Form


def _section(name: str) -> str:
    return f"Parallel Synchronization and Communication Instructions: {name}"


def _register_count(mods: Mapping[str, str], args: Mapping[str, ir.Operand]) -> bool:
    """A warp's registers come in eights, from 24 to 256."""
    count = args["count"]
    return (
        isinstance(count, ir.Immediate)
        and 24 <= count.value <= 256
        and count.value % 8 == 0
    )


FAMILIES: tuple[Family, ...] = (
    Family(
        "shfl.sync",
        "Data Movement and Conversion Instructions: shfl.sync",
        (
            Form(
                "mode=up|down|bfly|idx type=b32",
                "=d|p?:b32 a:b32 b:b32 c:b32 membermask:b32",
            ),
        ),
    ),
    Family(
        "vote.sync",
        _section("vote.sync"),
        (
            Form("mode=all|any|uni type=pred", "=p a:pred membermask:b32"),
            Form("mode=ballot type=b32", "=d:b32 a:pred membermask:b32"),
        ),
    ),
    Family(
        "match",
        _section("match.sync"),
        (
            Form(
                "mode=any !sync type=b32|b64",
                "=d:b32 a:type membermask:b32",
                op="match.sync",
            ),
            Form(
                "mode=all !sync type=b32|b64",
                "=d|p?:b32 a:type membermask:b32",
                op="match.sync",
            ),
        ),
    ),
    Family("activemask", _section("activemask"), (Form("type=b32", "=d:b32"),)),
    Family(
        "redux.sync",
        _section("redux.sync"),
        (
            Form("op=add|min|max type=u32|s32", "=d:b32 a:b32 membermask:b32"),
            Form("op=and|or|xor type=b32", "=d:b32 a:b32 membermask:b32"),
            Form("op=min|max abs? nan=NaN? type=f32", "=d:b32 a:b32 membermask:b32"),
        ),
    ),
    Family(
        "elect.sync", _section("elect.sync"), (Form("", "=d|p:b32 membermask:b32"),)
    ),
    Family(
        "griddepcontrol.launch_dependents", _section("griddepcontrol"), (Form("", ""),)
    ),
    Family("griddepcontrol.wait", _section("griddepcontrol"), (Form("", ""),)),
    Family(
        "setmaxnreg",
        "Miscellaneous Instructions: setmaxnreg",
        (Form("mode=inc|dec sync aligned type=u32", "$count", rule=_register_count),),
    ),
    Family(
        "nanosleep",
        "Miscellaneous Instructions: nanosleep",
        (Form("type=u32", "a:b32"),),
    ),
    Family("pmevent", "Miscellaneous Instructions: pmevent", (Form("", "$a"),)),
    Family("pmevent.mask", "Miscellaneous Instructions: pmevent", (Form("", "$a"),)),
    Family("trap", "Miscellaneous Instructions: trap", (Form("", ""),)),
    Family("brkpt", "Miscellaneous Instructions: brkpt", (Form("", ""),)),
)
