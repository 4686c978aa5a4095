"""What the decoder reads: every family with its slots and operands, by PTX chapter.

`python -m sidestream.harness.ptx.support` prints the listing, which is the reference
for whoever gives instructions a meaning; with PTX files as arguments it names the
opcodes of each that no form reads, with their lines.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sidestream.harness.errors import PtxError
from sidestream.harness.ptx import ir
from sidestream.harness.ptx.decode import decode
from sidestream.harness.ptx.families import FAMILIES
from sidestream.harness.ptx.forms import Form
from sidestream.harness.ptx.parser import parse


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One `Instruction.op` and all that may come with it.

    Attributes:
        op: Family name, as in `ir.Instruction.op`.
        section: PTX ISA section title of its first form.
        slots: Values that each modifier slot can have, by slot name.
        operands: Operand lists of its forms, in the notation of `forms`.
    """

    op: str
    section: str
    slots: dict[str, tuple[str, ...]]
    operands: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Unread:
    """An opcode that no form reads: its spelling and the lines it stands on."""

    spelling: str
    lines: tuple[int, ...]


def operations() -> tuple[Operation, ...]:
    """Every operation the tables know, in the order of the chapters."""
    sections: dict[str, str] = {}
    slots: dict[str, dict[str, dict[str, None]]] = {}
    operands: dict[str, dict[str, None]] = {}
    for family in FAMILIES:
        for form in family.forms:
            op = form.op or family.spelling
            sections.setdefault(op, family.section)
            operands.setdefault(op, {})[form.operands or "-"] = None
            known = slots.setdefault(op, {})
            for name, value in _values(form):
                known.setdefault(name, {})[value] = None
    return tuple(
        Operation(
            op=op,
            section=section,
            slots={name: tuple(values) for name, values in slots[op].items()},
            operands=tuple(operands[op]),
        )
        for op, section in sections.items()
    )


def unread(functions: Iterable[ir.Function]) -> tuple[Unread, ...]:
    """The opcodes without a form in decoded kernels, by first line."""
    lines: dict[str, list[int]] = {}
    for function in functions:
        for instruction in function.instructions:
            if not instruction.known:
                lines.setdefault(instruction.spelling, []).append(instruction.line)
    found = (
        Unread(spelling=spelling, lines=tuple(sorted(set(at))))
        for spelling, at in lines.items()
    )
    return tuple(sorted(found, key=lambda item: item.lines))


def _values(form: Form) -> Iterable[tuple[str, str]]:
    for slot in form.slots:
        if slot.name is not None:
            for value in slot.values.values():
                yield slot.name, value
    yield from form.implied.items()


def _listing() -> Iterable[str]:
    chapter = ""
    for operation in operations():
        title = operation.section.split(":")[0]
        if title != chapter:
            chapter = title
            yield f"\n# {chapter}\n"
        yield f"{operation.op}    ({operation.section})"
        for name, values in operation.slots.items():
            yield f"    mods[{name!r}]: {' '.join(values)}"
        for operands in operation.operands:
            yield f"    args: {operands}"


def main(arguments: Sequence[str]) -> int:
    """Print the listing, or what files hold that it lacks; 0 if they lack nothing."""
    if not arguments:
        sys.stdout.write("\n".join(_listing()) + "\n")
        return 0
    status = 0
    for path in arguments:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                module = parse(file.read())
            missing = unread(decode(module, entry) for entry in module.entries)
        except (PtxError, OSError) as error:
            sys.stdout.write(f"{path}: {error}\n")
            status = 2
            continue
        for item in missing:
            sys.stdout.write(f"{path}:{item.lines[0]}: {item.spelling}\n")
            status = max(status, 1)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
