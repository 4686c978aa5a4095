"""PTX text to syntax tree: modules, functions, declarations and statements.

Source of the grammar: PTX ISA sections "Syntax", "Directives" and "State Spaces,
Types, and Variables". `instructions.py` next door reads single instructions.
"""

from __future__ import annotations

from sidestream.harness.errors import PtxError
from sidestream.harness.ptx import lexer, syntax
from sidestream.harness.ptx.cursor import Cursor
from sidestream.harness.ptx.instructions import read_instruction

MAX_NESTING = 128
"""Deepest `{ }` nesting read; real text has two or three levels."""

_LINKAGE = frozenset({".extern", ".visible", ".weak", ".common"})
_SPACES = frozenset({".reg", ".sreg", ".param", ".shared", ".local", ".global"})
_DECLARES = _SPACES | {".const", ".tex"}
_WORD_ARGUMENTS = frozenset({".align", ".maxnreg"})
_ONE_LINE = frozenset({".version", ".target", ".address_size"})
_ENDED = frozenset(
    {".pragma", ".branchtargets", ".calltargets", ".callprototype", ".alias"}
)
_PERFORMANCE = frozenset(
    {
        ".maxntid",
        ".reqntid",
        ".minnctapersm",
        ".maxnctapersm",
        ".maxnreg",
        ".noreturn",
        ".explicitcluster",
        ".reqnctapercluster",
        ".maxclusterrank",
        ".blocksareclusters",
        ".abi_preserve",
        ".abi_preserve_control",
    }
)


def parse(text: str) -> syntax.Module:
    """Read PTX text without loss.

    Raises:
        PtxError: the text is not PTX; the only exception any text can cause.
    """
    cursor = Cursor(lexer.tokenize(text))
    items: list[syntax.Item] = []
    while cursor.kind != lexer.END:
        items.append(_item(cursor))
    return syntax.Module(tuple(items))


def _item(cursor: Cursor) -> syntax.Item:
    line = cursor.line
    name = cursor.text
    if name == ";":
        cursor.advance()
        return syntax.Empty(line)
    if cursor.kind != lexer.DOT:
        raise cursor.unexpected("a directive")
    if name in _ONE_LINE:
        cursor.advance()
        return syntax.Directive(name, _module_arguments(cursor), line=line)
    if name in (".loc", ".file"):
        return _debug_directive(cursor)
    if name in _ENDED:
        return _ended_directive(cursor)
    if name == ".section":
        return _section(cursor)
    linkage: list[str] = []
    while cursor.text in _LINKAGE and cursor.kind == lexer.DOT:
        linkage.append(cursor.take())
    if cursor.text in (".entry", ".func"):
        return _function(cursor, tuple(linkage), line)
    return _declaration(cursor, tuple(linkage), line)


def _module_arguments(cursor: Cursor) -> tuple[str, ...]:
    tokens = [cursor.take_kind(lexer.NUMBER, lexer.WORD)]
    while cursor.text == ",":
        tokens.append(cursor.take())
        tokens.append(cursor.take_kind(lexer.NUMBER, lexer.WORD))
    return tuple(tokens)


def _debug_directive(cursor: Cursor) -> syntax.Directive:
    """`.loc file line column [, function_name name [+n], inlined_at f l c]` etc.

    They end with their operands, not with a semicolon or a line.
    """
    line = cursor.line
    name = cursor.take()
    tokens: list[str] = []
    if name == ".file":
        tokens += [cursor.take_kind(lexer.NUMBER), cursor.take_kind(lexer.STRING)]
        while cursor.text == ",":
            tokens += [cursor.take(), cursor.take_kind(lexer.NUMBER)]
        return syntax.Directive(name, tuple(tokens), line=line)
    tokens += [cursor.take_kind(lexer.NUMBER) for _ in range(3)]
    while cursor.text == ",":
        tokens.append(cursor.take())
        word = cursor.take_kind(lexer.WORD)
        tokens.append(word)
        if word == "function_name":
            tokens.append(cursor.take_kind(lexer.WORD, lexer.DOT))
            if cursor.text == "+":
                tokens += [cursor.take(), cursor.take_kind(lexer.NUMBER)]
        elif word == "inlined_at":
            tokens += [cursor.take_kind(lexer.NUMBER) for _ in range(3)]
        else:
            raise PtxError(f".loc does not take {word!r}", line)
    return syntax.Directive(name, tuple(tokens), line=line)


def _ended_directive(cursor: Cursor) -> syntax.Directive:
    line = cursor.line
    name = cursor.take()
    tokens: list[str] = []
    while cursor.text != ";":
        if cursor.kind == lexer.END or cursor.text in ("{", "}"):
            raise cursor.unexpected(f"';' after {name}")
        tokens.append(cursor.take())
    cursor.advance()
    return syntax.Directive(name, tuple(tokens), ended=True, line=line)


def _section(cursor: Cursor) -> syntax.Section:
    line = cursor.line
    cursor.advance()
    name = cursor.take_kind(lexer.DOT, lexer.WORD)
    cursor.expect("{")
    tokens: list[str] = []
    while cursor.text != "}":
        if cursor.kind == lexer.END or cursor.text == "{":
            raise cursor.unexpected("'}' after .section")
        tokens.append(cursor.take())
    cursor.advance()
    return syntax.Section(name, tuple(tokens), line)


def _function(
    cursor: Cursor, linkage: tuple[str, ...], line: int
) -> syntax.FunctionSyntax:
    kind = cursor.take()
    directives: list[syntax.Directive] = []
    while cursor.text == ".attribute":
        directives.append(
            syntax.Directive(cursor.take(), _parenthesised(cursor), line=line)
        )
    results = _parameters(cursor) if cursor.text == "(" else None
    name = cursor.take_kind(lexer.WORD)
    params = _parameters(cursor) if cursor.text == "(" else None
    while cursor.kind == lexer.DOT:
        if cursor.text in _ENDED:
            directives.append(_ended_directive(cursor))
        elif cursor.text in _PERFORMANCE:
            directives.append(_performance_directive(cursor))
        else:
            raise cursor.unexpected("a performance directive or a body")
    body = None
    if cursor.text == ";":
        cursor.advance()
    else:
        body = _block(cursor, 0)
    return syntax.FunctionSyntax(
        linkage, kind, name, results, params, tuple(directives), body, line
    )


def _performance_directive(cursor: Cursor) -> syntax.Directive:
    line = cursor.line
    name = cursor.take()
    tokens: list[str] = []
    if cursor.kind == lexer.NUMBER:
        tokens.append(cursor.take())
        while cursor.text == ",":
            tokens += [cursor.take(), cursor.take_kind(lexer.NUMBER)]
    return syntax.Directive(name, tuple(tokens), line=line)


def _parenthesised(cursor: Cursor) -> tuple[str, ...]:
    """Tokens of `( ... )`, nested parentheses included, both ends kept."""
    tokens = [cursor.expect("(")]
    depth = 1
    while depth:
        if cursor.kind == lexer.END or cursor.text in ("{", "}", ";"):
            raise cursor.unexpected("')'")
        depth += (cursor.text == "(") - (cursor.text == ")")
        tokens.append(cursor.take())
    return tuple(tokens)


def _parameters(cursor: Cursor) -> tuple[syntax.Declaration, ...]:
    cursor.expect("(")
    found: list[syntax.Declaration] = []
    while cursor.text != ")":
        if found:
            cursor.expect(",")
        line = cursor.line
        qualifiers = _qualifiers(cursor, ())
        declarator = _declarator(cursor)
        found.append(syntax.Declaration(qualifiers, (declarator,), line))
    cursor.advance()
    return tuple(found)


def _qualifiers(cursor: Cursor, first: tuple[str, ...]) -> tuple[str, ...]:
    tokens = list(first)
    while cursor.kind == lexer.DOT:
        word = cursor.take()
        tokens.append(word)
        if word in _WORD_ARGUMENTS:
            tokens.append(cursor.take_kind(lexer.NUMBER))
        elif word == ".attribute":
            tokens += _parenthesised(cursor)
    return tuple(tokens)


def _declarator(cursor: Cursor) -> syntax.Declarator:
    name = cursor.take_kind(lexer.WORD)
    count = None
    dims: list[str] = []
    if cursor.text == "<":
        cursor.advance()
        count = cursor.take_kind(lexer.NUMBER)
        cursor.expect(">")
    while cursor.text == "[":
        cursor.advance()
        dims.append("" if cursor.text == "]" else cursor.take_kind(lexer.NUMBER))
        cursor.expect("]")
    return syntax.Declarator(name, count, tuple(dims))


def _declaration(
    cursor: Cursor, linkage: tuple[str, ...], line: int
) -> syntax.Declaration:
    if cursor.text not in _DECLARES:
        raise cursor.unexpected("a declaration")
    qualifiers = _qualifiers(cursor, linkage)
    declarators: list[syntax.Declarator] = []
    while True:
        declarator = _declarator(cursor)
        if cursor.text == "=":
            cursor.advance()
            declarator = syntax.Declarator(
                declarator.name, declarator.count, declarator.dims, _initial(cursor)
            )
        declarators.append(declarator)
        if cursor.text != ",":
            break
        cursor.advance()
    cursor.expect(";")
    return syntax.Declaration(qualifiers, tuple(declarators), line)


def _initial(cursor: Cursor) -> tuple[str, ...]:
    """The tokens of an initial value: to the comma or semicolon outside braces."""
    tokens: list[str] = []
    depth = 0
    while depth or cursor.text not in (",", ";"):
        if cursor.kind == lexer.END or cursor.text == ";":
            raise cursor.unexpected("the rest of an initial value")
        depth += (cursor.text in ("{", "(")) - (cursor.text in ("}", ")"))
        if depth < 0:
            raise cursor.unexpected("an initial value")
        tokens.append(cursor.take())
    if not tokens:
        raise cursor.unexpected("an initial value")
    return tuple(tokens)


def _block(cursor: Cursor, depth: int) -> syntax.Block:
    line = cursor.line
    if depth >= MAX_NESTING:
        raise PtxError(f"blocks are nested deeper than {MAX_NESTING}", line)
    cursor.expect("{")
    body: list[syntax.Statement] = []
    while cursor.text != "}":
        body.append(_statement(cursor, depth))
    cursor.advance()
    return syntax.Block(tuple(body), line)


def _statement(cursor: Cursor, depth: int) -> syntax.Statement:
    line = cursor.line
    kind = cursor.kind
    text = cursor.text
    if kind == lexer.WORD:
        if cursor.next_text == ":":
            cursor.advance()
            cursor.advance()
            return syntax.LabelSyntax(text, line)
        return read_instruction(cursor)
    if text == "@":
        return read_instruction(cursor)
    if text == "{":
        return _block(cursor, depth + 1)
    if text == ";":
        cursor.advance()
        return syntax.Empty(line)
    if kind == lexer.DOT:
        if text in (".loc", ".file"):
            return _debug_directive(cursor)
        if text in _ENDED:
            return _ended_directive(cursor)
        linkage: tuple[str, ...] = ()
        while cursor.text in _LINKAGE:
            linkage = (*linkage, cursor.take())
        return _declaration(cursor, linkage, line)
    raise cursor.unexpected("a statement")
