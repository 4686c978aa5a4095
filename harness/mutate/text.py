"""A module's text with one instruction replaced."""

from __future__ import annotations

from dataclasses import replace

from sidestream.harness.ptx import syntax
from sidestream.harness.ptx.printer import print_instruction, print_module

_MARK = "sidestream.mutant"


def instruction_at(
    module: syntax.Module, kernel: str, index: int
) -> syntax.InstructionSyntax:
    """Return instruction `index` of a kernel as it is spelt.

    Raises:
        KeyError: there is no such kernel, or no such instruction.
    """
    for function in module.functions:
        if function.name == kernel and function.body is not None:
            found = _nth(function.body, [index])
            if found is not None:
                return found
    raise KeyError(f"{kernel} has no instruction {index}")


def replaced(module: syntax.Module, kernel: str, index: int, text: str) -> str:
    """Return the module's text with `text` in the place of one instruction.

    Args:
        module: The parsed text.
        kernel: Name of the function.
        index: Of the instruction, in the order of the text.
        text: Statements, or nothing.

    Raises:
        KeyError: there is no such kernel, or no such instruction.
    """
    old = instruction_at(module, kernel, index)
    marked = syntax.InstructionSyntax(opcode=_MARK, operands=(), line=old.line)
    items = tuple(
        replace(item, body=_swap(item.body, [index], marked))
        if isinstance(item, syntax.FunctionSyntax)
        and item.name == kernel
        and item.body is not None
        else item
        for item in module.items
    )
    printed = print_module(replace(module, items=items))
    return printed.replace(print_instruction(marked), text or ";")


def _nth(block: syntax.Block, left: list[int]) -> syntax.InstructionSyntax | None:
    for statement in block.body:
        if isinstance(statement, syntax.Block):
            found = _nth(statement, left)
            if found is not None:
                return found
        elif isinstance(statement, syntax.InstructionSyntax):
            if left[0] == 0:
                return statement
            left[0] -= 1
    return None


def _swap(
    block: syntax.Block, left: list[int], new: syntax.InstructionSyntax
) -> syntax.Block:
    body: list[syntax.Statement] = []
    for statement in block.body:
        if isinstance(statement, syntax.Block):
            body.append(_swap(statement, left, new))
        elif isinstance(statement, syntax.InstructionSyntax):
            body.append(new if left[0] == 0 else statement)
            left[0] -= 1
        else:
            body.append(statement)
    return replace(block, body=tuple(body))
