"""Instruction statements: guard, opcode and operands, as written.

Source of the grammar: PTX ISA sections "Instruction Statements" and "Instruction
Operands".
"""

from __future__ import annotations

from sidestream.harness.errors import PtxError
from sidestream.harness.ptx import lexer, syntax
from sidestream.harness.ptx.cursor import Cursor

MAX_OPERANDS = 4096
"""Most operands or vector elements of one instruction; PTX has at most 128."""


def read_instruction(cursor: Cursor) -> syntax.InstructionSyntax:
    """Read `[@[!]p] opcode[.words] [operand, ...];`.

    Raises:
        PtxError: what stands there is no instruction.
    """
    line = cursor.line
    guard = None
    if cursor.text == "@":
        cursor.advance()
        negated = cursor.text == "!"
        if negated:
            cursor.advance()
        guard = syntax.Guard(cursor.take_kind(lexer.WORD), negated)
    opcode = cursor.take_kind(lexer.WORD)
    while cursor.kind == lexer.DOT:
        opcode += cursor.take()
    operands: list[syntax.OperandSyntax] = []
    while cursor.text != ";":
        if operands:
            cursor.expect(",")
        operands.append(_operand(cursor))
        if len(operands) > MAX_OPERANDS:
            raise PtxError(f"more than {MAX_OPERANDS} operands", line)
    cursor.advance()
    return syntax.InstructionSyntax(opcode, tuple(operands), guard, line)


def _operand(cursor: Cursor) -> syntax.OperandSyntax:
    text = cursor.text
    if text == "{":
        return syntax.Braces(_elements(cursor, "}"))
    if text == "(":
        return syntax.Parens(_elements(cursor, ")"))
    if text == "[":
        return _brackets(cursor)
    return _simple(cursor)


def _simple(cursor: Cursor) -> syntax.Name | syntax.Number | syntax.Not | syntax.PairOf:
    if cursor.text == "!":
        cursor.advance()
        return syntax.Not(_name_or_number(cursor))
    if cursor.kind != lexer.WORD:
        return _number(cursor)
    name = syntax.Name(cursor.take())
    if cursor.text == "|":
        cursor.advance()
        return syntax.PairOf(name, syntax.Name(cursor.take_kind(lexer.WORD)))
    if cursor.text in ("+", "-"):
        return syntax.Name(name.text, _offset(cursor))
    return name


def _name_or_number(cursor: Cursor) -> syntax.Name | syntax.Number:
    if cursor.kind == lexer.WORD:
        return syntax.Name(cursor.take())
    return _number(cursor)


def _number(cursor: Cursor) -> syntax.Number:
    sign = ""
    if cursor.text in ("-", "+", "~"):
        sign = cursor.take()
    if cursor.kind != lexer.NUMBER:
        raise cursor.unexpected("an operand")
    return syntax.Number(sign + cursor.take())


def _elements(cursor: Cursor, close: str) -> tuple[syntax.OperandSyntax, ...]:
    """Elements of a vector or an argument list; neither nests."""
    cursor.advance()
    line = cursor.line
    found: list[syntax.OperandSyntax] = []
    while cursor.text != close:
        if found:
            cursor.expect(",")
        found.append(_simple(cursor))
        if len(found) > MAX_OPERANDS:
            raise PtxError(f"more than {MAX_OPERANDS} elements", line)
    cursor.advance()
    return tuple(found)


def _offset(cursor: Cursor) -> tuple[str, ...]:
    """Tokens of `+imm`, `-imm`, `+-imm` and sums of them."""
    tokens: list[str] = []
    while cursor.text in ("+", "-"):
        tokens.append(cursor.take())
        if cursor.text == "-":
            tokens.append(cursor.take())
        tokens.append(cursor.take_kind(lexer.NUMBER))
    return tuple(tokens)


def _brackets(cursor: Cursor) -> syntax.Brackets:
    cursor.advance()
    base = _name_or_number(cursor)
    offset = _offset(cursor)
    coords: syntax.OperandSyntax | None = None
    if cursor.text == ",":
        cursor.advance()
        if cursor.text == "{":
            coords = syntax.Braces(_elements(cursor, "}"))
        else:
            coords = _simple(cursor)
    cursor.expect("]")
    return syntax.Brackets(base, offset, coords)
