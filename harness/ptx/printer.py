"""Syntax tree to PTX text; reading the text again gives an equal tree."""

from __future__ import annotations

from collections.abc import Iterable

from sidestream.harness.ptx import syntax


def print_module(module: syntax.Module) -> str:
    """PTX text of a module, one statement a line, without the comments it had."""
    lines: list[str] = []
    for item in module.items:
        match item:
            case syntax.FunctionSyntax():
                _function(item, lines)
            case syntax.Section():
                lines.append(f".section {item.name} {{ {' '.join(item.tokens)} }}")
            case syntax.Declaration():
                lines.append(_declaration(item) + ";")
            case syntax.Directive():
                lines.append(_directive(item))
            case syntax.Empty():
                lines.append(";")
    return "\n".join(lines) + "\n"


def print_instruction(instruction: syntax.InstructionSyntax) -> str:
    """One instruction as PTX text, with its semicolon."""
    guard = instruction.guard
    before = "" if guard is None else f"@{'!' if guard.negated else ''}{guard.name} "
    if not instruction.operands:
        return f"{before}{instruction.opcode};"
    return f"{before}{instruction.opcode} {_list(instruction.operands)};"


def _function(function: syntax.FunctionSyntax, lines: list[str]) -> None:
    attributes = [d for d in function.directives if d.name == ".attribute"]
    words = [*function.linkage, function.kind, *(_directive(d) for d in attributes)]
    if function.results is not None:
        words.append(_parameters(function.results))
    words.append(function.name)
    if function.params is not None:
        words.append(_parameters(function.params))
    lines.append(" ".join(words))
    lines.extend(_directive(d) for d in function.directives if d.name != ".attribute")
    if function.body is None:
        lines[-1] += ";"
    else:
        _block(function.body, lines, "")


def _parameters(params: Iterable[syntax.Declaration]) -> str:
    return "(" + ", ".join(_declaration(p) for p in params) + ")"


def _directive(directive: syntax.Directive) -> str:
    text = " ".join((directive.name, *directive.tokens))
    return text + ";" if directive.ended else text


def _declaration(declaration: syntax.Declaration) -> str:
    words = " ".join(declaration.qualifiers)
    return words + " " + ", ".join(_declarator(d) for d in declaration.declarators)


def _declarator(declarator: syntax.Declarator) -> str:
    text = declarator.name
    if declarator.count is not None:
        text += f"<{declarator.count}>"
    text += "".join(f"[{dim}]" for dim in declarator.dims)
    if declarator.init:
        text += " = " + " ".join(declarator.init)
    return text


def _block(block: syntax.Block, lines: list[str], indent: str) -> None:
    lines.append(indent + "{")
    inner = indent + "\t"
    for statement in block.body:
        match statement:
            case syntax.InstructionSyntax():
                lines.append(inner + print_instruction(statement))
            case syntax.LabelSyntax():
                lines.append(f"{indent}{statement.name}:")
            case syntax.Declaration():
                lines.append(inner + _declaration(statement) + ";")
            case syntax.Directive():
                lines.append(inner + _directive(statement))
            case syntax.Block():
                _block(statement, lines, inner)
            case syntax.Empty():
                lines.append(inner + ";")
    lines.append(indent + "}")


def _list(operands: Iterable[syntax.OperandSyntax]) -> str:
    return ", ".join(_operand(operand) for operand in operands)


def _operand(operand: syntax.OperandSyntax) -> str:
    match operand:
        case syntax.Name(text, offset):
            return text + "".join(offset)
        case syntax.Number(text):
            return text
        case syntax.Not(inner):
            return "!" + _operand(inner)
        case syntax.PairOf(first, second):
            return f"{first.text}|{second.text}"
        case syntax.Braces(elements):
            return "{" + _list(elements) + "}"
        case syntax.Parens(elements):
            return "(" + _list(elements) + ")"
        case syntax.Brackets(base, offset, coords):
            inside = _operand(base) + "".join(offset)
            if coords is not None:
                inside += ", " + _operand(coords)
            return f"[{inside}]"
