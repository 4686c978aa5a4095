"""The text of public kernels goes through the front end without loss or gaps."""

import re
from collections.abc import Iterable, Iterator
from functools import cache

import pytest

from sidestream.harness.ptx import ir
from sidestream.harness.ptx.decode import decode
from sidestream.harness.ptx.parser import parse
from sidestream.harness.ptx.printer import print_module
from sidestream.harness.ptx.support import unread
from sidestream.harness.tests import public_kernels
from sidestream.harness.tests.public_kernels import KERNELS, PublicKernel


@cache
def _texts(kernel: PublicKernel) -> tuple[str, ...]:
    reason = public_kernels.missing(kernel.package)
    if reason is not None:
        pytest.skip(reason)
    return public_kernels.ptx_texts(kernel)


def _bare(text: str) -> str:
    """The text without comments and white space: what may not be lost."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return re.sub(r"\s+", "", re.sub(r"//[^\n]*", "", text))


@pytest.fixture(params=KERNELS, ids=lambda kernel: kernel.name)
def texts(request: pytest.FixtureRequest) -> tuple[str, ...]:
    kernel: PublicKernel = request.param
    return _texts(kernel)


def test_printing_keeps_every_token(texts: tuple[str, ...]) -> None:
    for text in texts:
        module = parse(text)
        printed = print_module(module)
        assert parse(printed) == module
        assert _bare(printed) == _bare(text)


def test_every_instruction_has_a_form(texts: tuple[str, ...]) -> None:
    for text in texts:
        module = parse(text)
        assert module.entries
        functions = [decode(module, entry) for entry in module.entries]
        assert sum(len(f.instructions) for f in functions) > 100
        assert unread(functions) == ()


def test_lines_and_operands_are_those_of_the_text(texts: tuple[str, ...]) -> None:
    # Read back by an independent rule: one of the statements that start on the
    # instruction's line has its opcode and spells every register it uses.
    for text in texts:
        module = parse(text)
        lines = text.split("\n")
        for entry in module.entries:
            for ins in decode(module, entry).instructions:
                near = "\n".join(lines[ins.line - 1 : ins.line + 7])
                names = {r.name for r in _registers(ins.args.values())}
                candidates = [
                    set(re.findall(r"[\w%$][\w$.:]*", statement))
                    for statement in near.split(";")
                ]
                assert any(names | {ins.spelling} <= words for words in candidates), ins


def test_branches_lead_to_the_instruction_after_their_label(
    texts: tuple[str, ...],
) -> None:
    for text in texts:
        module = parse(text)
        lines = text.split("\n")
        for entry in module.entries:
            function = decode(module, entry)
            for ins in function.instructions:
                target = ins.args.get("target")
                if not isinstance(target, ir.Label) or target.target >= len(
                    function.instructions
                ):
                    continue
                there = function.instructions[target.target].line
                before = "\n".join(lines[max(0, there - 40) : there])
                assert target.name + ":" in before


def _registers(operands: Iterable[ir.Operand]) -> Iterator[ir.Register]:
    for operand in operands:
        match operand:
            case ir.Register():
                yield operand
            case ir.Negated(register):
                yield register
            case ir.Vector(elements):
                yield from _registers(elements)
            case ir.Address(base, _):
                yield from _registers([base])
            case ir.TensorAddress(where, coords):
                yield from _registers([where, *coords])
