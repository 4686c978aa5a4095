"""Registers that share a row are never alive together, on any path through the code."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from sidestream.harness.exec.registers import share_rows
from sidestream.harness.ptx.decode import decode
from sidestream.harness.ptx.parser import parse

REGISTERS = 8
HEAD = ".version 8.7\n.target sm_120a\n.address_size 64\n"


def _text(lines):
    body = "\n".join(lines)
    return (
        f"{HEAD}.visible .entry k()\n{{\n.reg .b32 %r<{REGISTERS}>;\n"
        f".reg .pred %p<2>;\n{body}\nret;\n}}\n"
    )


_reg = st.integers(0, REGISTERS - 1)
_line = st.one_of(
    st.tuples(st.just("def"), _reg, st.booleans()),
    st.tuples(st.just("op"), _reg, _reg, _reg, st.booleans()),
    st.tuples(st.just("use"), _reg, _reg),
    st.tuples(st.just("bra"), st.integers(0, 30), st.booleans()),
)


def _render(items):
    lines = []
    for k, item in enumerate(items):
        lines.append(f"L{k}:")
        match item:
            case ("def", d, guarded):
                lines.append(f"{'@%p0 ' if guarded else ''}mov.b32 %r{d}, {k};")
            case ("op", d, a, b, guarded):
                lines.append(
                    f"{'@!%p1 ' if guarded else ''}add.s32 %r{d}, %r{a}, %r{b};"
                )
            case ("use", a, b):
                lines.append(f"st.shared.b32 [%r{a}], %r{b};")
            case ("bra", to, conditional):
                lines.append(f"{'@%p0 ' if conditional else ''}bra L{to % len(items)};")
    return _text(lines)


def _walk(function, rows, seed):
    """Follow a random path; every read must find its own register's last value."""
    rng = random.Random(seed)
    value, row_value = {}, {}
    at = 0
    for step in range(200):
        if at >= len(function.instructions):
            return
        ins = function.instructions[at]
        taken = ins.guard is None or rng.random() < 0.5
        names = [k for k in ins.args if k not in ("d", "target")]
        if taken:
            for name in names:
                operand = ins.args[name]
                reg = getattr(operand, "base", operand)
                if hasattr(reg, "id") and reg.id in value:
                    held = row_value[reg.type, rows[reg.id]]
                    assert held == (reg.id, value[reg.id]), (at, ins.spelling)
            d = ins.args.get("d")
            if d is not None:
                value[d.id] = step
                row_value[d.type, rows[d.id]] = (d.id, step)
        if ins.op == "ret":
            return
        at = ins.args["target"].target if ins.op == "bra" and taken else at + 1


@settings(max_examples=300, deadline=None)
@given(st.lists(_line, min_size=1, max_size=30), st.integers(0, 2**32))
def test_a_read_finds_the_last_value_of_its_register(items, seed):
    function = decode(parse(_render(items)))
    rows = share_rows(function)
    for k in range(8):
        _walk(function, rows, seed + k)


def test_straight_line_code_needs_only_what_is_alive_at_once():
    lines = []
    for k in range(6):
        lines.append(f"mov.b32 %r{k}, {k};")
        lines.append(f"st.shared.b32 [%r{k}], %r{k};")
    rows = share_rows(decode(parse(_text(lines))))
    assert set(rows.values()) == {0}


def test_a_value_carried_around_a_loop_keeps_its_row():
    lines = [
        "mov.b32 %r0, 1;",
        "TOP:",
        "mov.b32 %r1, 2;",
        "st.shared.b32 [%r1], %r1;",
        "mov.b32 %r2, 3;",
        "st.shared.b32 [%r2], %r2;",
        "@%p0 bra TOP;",
        "st.shared.b32 [%r0], %r0;",
    ]
    function = decode(parse(_text(lines)))
    rows = share_rows(function)
    by_name = {r.name: rows[r.id] for r in function.registers if r.id in rows}
    assert by_name["%r0"] not in (by_name["%r1"], by_name["%r2"])
    assert by_name["%r1"] == by_name["%r2"]
