"""A decoded kernel with other instructions in the place of one.

Mutants are made of the decoded kernel, not of its text: reading the text again takes
longer than most mutants run. Lines stay those of the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sidestream.harness.errors import PtxError
from sidestream.harness.ptx import ir
from sidestream.harness.ptx.families import bind_operands

_BRANCHES = ("bra", "brx.idx")


def built(
    like: ir.Instruction, spelling: str, operands: Sequence[ir.Operand]
) -> ir.Instruction:
    """Return an instruction with the guard and the line of `like`.

    Raises:
        PtxError: no form fits the spelling and the operands.
    """
    found = bind_operands(spelling, operands)
    if not found.known:
        raise PtxError(f"{spelling}: {found.refused}", like.line)
    return replace(
        like,
        op=found.op,
        mods=found.mods,
        args=found.args,
        writes=found.writes,
        spelling=spelling,
        known=True,
        refused="",
    )


def fresh_register(function: ir.Function, type_: str) -> ir.Register:
    """Return a register that the function does not have."""
    number = 1 + max((register.id for register in function.registers), default=-1)
    return ir.Register(number, f"%sidestream{number}", type_)


def spliced(
    function: ir.Function,
    index: int,
    instead: Sequence[ir.Instruction],
    registers: Sequence[ir.Register] = (),
) -> ir.Function:
    """Return the function with `instead` for its instruction `index`.

    A branch to the instruction goes to the first of `instead`, or to what stood behind.

    Args:
        function: The decoded kernel.
        index: Into its instructions.
        instead: Any number of instructions; their own `index` does not matter.
        registers: Those of `instead` that the function does not have.

    Raises:
        IndexError: there is no such instruction.
    """
    old = function.instructions
    if not 0 <= index < len(old):
        raise IndexError(f"{function.name} has no instruction {index}")
    grown = len(instead) - 1

    def place(target: int) -> int:
        return target + grown if target > index else target

    def moved(operand: ir.Operand) -> ir.Operand:
        match operand:
            case ir.Label(name, target):
                return ir.Label(name, place(target))
            case ir.Vector(elements):
                return ir.Vector(tuple(moved(element) for element in elements))
        return operand

    def jumps(ins: ir.Instruction) -> bool:
        return any(
            isinstance(part, ir.Label)
            for operand in ins.args.values()
            for part in (
                operand.elements if isinstance(operand, ir.Vector) else [operand]
            )
        )

    instructions = []
    for k, ins in enumerate((*old[:index], *instead, *old[index + 1 :])):
        if ins.op in _BRANCHES:
            args = {name: moved(operand) for name, operand in ins.args.items()}
            ins = replace(ins, index=k, args=args)
        elif ins.index != k:
            ins = replace(ins, index=k)
        instructions.append(ins)
    return replace(
        function,
        instructions=tuple(instructions),
        registers=(*function.registers, *registers),
        branch_targets={
            name: tuple(place(target) for target in targets)
            for name, targets in function.branch_targets.items()
        },
    )
