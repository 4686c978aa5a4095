"""PTX text for every form in the tables: one instruction, well formed by its table.

Vectors get the shortest lengths that the form takes, so matrix shapes come out right.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sidestream.harness.ptx import ir
from sidestream.harness.ptx.families import FAMILIES
from sidestream.harness.ptx.forms import (
    Family,
    Form,
    Match,
    Mods,
    OperandRule,
    bind,
)
from sidestream.harness.ptx.literals import WIDTHS

FILES = {1: "%p", 8: "%b", 16: "%h", 32: "%r", 64: "%d", 128: "%q"}
"""Register names by width; `HEADER` declares them."""
COUNT = 160
HEADER = """.version {version}
.target {target}
.address_size 64
.extern .shared .align 16 .b8 smem[];
.func callee {{ ret; }}
.visible .entry main(.param .align 64 .b8 map[128])
{{
"""
DECLARATIONS = "".join(
    f"\t.reg .{'pred' if width == 1 else f'b{width}'} {prefix}<{COUNT}>;\n"
    for width, prefix in FILES.items()
)
_LENGTHS = (1, 2, 4, 8, 3, 5, 16, 32, 64, 128, *(4 * n for n in range(3, 32)))
_FRAGMENTS = (1, 2, 4, 8)
_LITERALS = {
    "lut": (0x3C,),
    "size": (128, 16, 4),
    "count": (0, 32),
    "ord": (0,),
    "negate_a": (1,),
    "negate_b": (1,),
    "selector": (0,),
    "split": (16,),
    "value": (0,),
}


@dataclass(frozen=True, kw_only=True)
class Instance:
    """One written instruction and what it must decode to."""

    family: Family
    form: Form
    op: str
    mods: Mods
    args: tuple[str, ...]
    spelling: str
    text: str


def instances(limit: int, seed: int = 0) -> Iterator[Instance]:
    """Up to `limit` instances of every form, chosen by `seed`."""
    for family in FAMILIES:
        for form in family.forms:
            yield from form_instances(family, form, limit, seed)


def form_instances(
    family: Family, form: Form, limit: int, seed: int
) -> Iterator[Instance]:
    """Up to `limit` instances of one form, of all its spellings if there are few."""
    chosen = random.Random(f"{family.spelling} {form.words} {seed}")
    found = 0
    for words, mods in _spellings(form, chosen):
        if found >= limit:
            return
        full = {**form.implied, **mods}
        for rules in _presences(form.rules, full):
            written = _operands(Match(form.op or family.spelling, form, full), rules)
            if written is None:
                continue
            args, text = written
            spelling = ".".join((family.spelling, *words))
            found += 1
            yield Instance(
                family=family,
                form=form,
                op=form.op or family.spelling,
                mods=full,
                args=args,
                spelling=spelling,
                text=f"{spelling} {text};",
            )


def _spellings(
    form: Form, chosen: random.Random
) -> Iterator[tuple[tuple[str, ...], Mods]]:
    """Spellings in random order: all of them, or 2000 drawn from very many."""
    choices: list[list[str | None]] = []
    for slot in form.slots:
        values: list[str | None] = list(slot.values)
        choices.append([*values, None] if slot.optional else values)
    if math.prod(map(len, choices)) <= 4096:
        drawn = list(itertools.product(*choices))
        chosen.shuffle(drawn)
    else:
        drawn = [tuple(map(chosen.choice, choices)) for _ in range(2000)]
    for combination in drawn:
        words: list[str] = []
        mods: Mods = {}
        for slot, word in zip(form.slots, combination, strict=True):
            if word is None:
                continue
            words.append(word)
            if slot.name is not None:
                mods[slot.name] = slot.values[word]
        yield tuple(words), mods


def _presences(
    rules: Sequence[OperandRule], mods: Mods
) -> Iterator[tuple[OperandRule, ...]]:
    """The operand lists with and without those that may be missing."""
    choices: list[tuple[OperandRule | None, ...]] = []
    for rule in rules:
        if rule.needs is not None:
            choices.append((rule,) if rule.needs in mods else (None,))
        elif rule.optional:
            choices.append((None, rule))
        else:
            choices.append((rule,))
    for combination in itertools.product(*choices):
        yield tuple(rule for rule in combination if rule is not None)


def _operands(
    found: Match, rules: Sequence[OperandRule]
) -> tuple[tuple[str, ...], str] | None:
    """Operand texts that the form takes; None if no lengths fit its rule."""
    vectors = sum(rule.kind in ("vector", "elements") for rule in rules)
    lengths = _LENGTHS if vectors < 3 else _FRAGMENTS
    options = [_options(found.op, rule, found.mods, lengths) for rule in rules]
    for combination in itertools.islice(itertools.product(*options), 20_000):
        operands = [operand for operand, _ in combination]
        bound = bind(found, operands)
        if bound is not None:
            names = tuple(sorted(bound.args))
            return names, ", ".join(text for _, text in combination)
    return None


def _options(
    op: str, rule: OperandRule, mods: Mods, lengths: Sequence[int]
) -> list[tuple[ir.Operand, str]]:
    if rule.second is not None:
        value = _register(rule, mods, 1)
        flag = ir.Register(0, "%p1", "pred")
        return [(ir.Pair(value, flag), f"{value.name}|{flag.name}")]
    kind = rule.kind
    if kind == "vec":
        count = int(mods["vec"][1:]) if "vec" in mods else 0
        return [_vector(rule, mods, count) if count else _scalar(rule, mods)]
    match kind:
        case "address":
            base = ir.Register(0, "%r9", "b32")
            wide = mods.get("space", "") in ("global", "", "const")
            if (wide or rule.name == "src") and not op.startswith("tcgen05"):
                base = ir.Register(0, "%d9", "b64")
            return [(ir.Address(base, 0), f"[{base.name}]")]
        case "tensor":
            base = ir.Register(0, "%d9", "b64")
            where = ir.Address(base, 0)
            return [
                (
                    ir.TensorAddress(where, _registers("%r", "b32", n)),
                    f"[%d9, {{{_list('%r', n)}}}]",
                )
                for n in range(1, 6)
            ]
        case "label":
            return [(ir.Label("end", 0), "end")]
        case "list":
            return [(ir.Vector(()), "table" if rule.name == "targets" else "()")]
        case "literal":
            values = _LITERALS.get(rule.name, (0, 1))
            return [(ir.Immediate("int", v), str(v)) for v in values]
        case "vector" | "elements":
            if rule.name in ("ids_a", "ids_b"):
                lengths = (2,)
            return [_vector(rule, mods, count) for count in lengths]
    if rule.name == "state" and rule.dest:
        return [_scalar(rule, mods), (ir.Sink(), "_")]
    if rule.name == "target":
        return [(ir.Symbol("callee", "func"), "callee")]
    return [_scalar(rule, mods)]


def _width(rule: OperandRule, mods: Mods) -> int:
    if rule.type is None:
        return 32
    return WIDTHS[mods.get(rule.type, rule.type)]


def _register(rule: OperandRule, mods: Mods, index: int) -> ir.Register:
    width = _width(rule, mods)
    if width == 8 and rule.wider:
        width = 16
    type_ = "pred" if width == 1 else f"b{width}"
    return ir.Register(0, f"{FILES[width]}{index}", type_)


def _scalar(rule: OperandRule, mods: Mods) -> tuple[ir.Operand, str]:
    register = _register(rule, mods, sum(map(ord, rule.name)) % 8)
    return register, register.name


def _vector(rule: OperandRule, mods: Mods, count: int) -> tuple[ir.Operand, str]:
    width = _width(rule, mods)
    if rule.type is None and "type" in mods and mods["type"] in WIDTHS:
        # The parts of a packing move.
        width = WIDTHS[mods["type"]] // count
    if width not in FILES or width == 1:
        width = 32
    if width == 8 and rule.wider:
        width = 16
    prefix = FILES[width]
    return (
        ir.Vector(_registers(prefix, f"b{width}", count)),
        f"{{{_list(prefix, count)}}}",
    )


def _registers(prefix: str, type_: str, count: int) -> tuple[ir.Register, ...]:
    return tuple(ir.Register(0, f"{prefix}{i}", type_) for i in range(count))


def _list(prefix: str, count: int) -> str:
    return ", ".join(f"{prefix}{i}" for i in range(count))


def module(lines: Iterable[str], target: str = "sm_100a", version: str = "9.4") -> str:
    """A module whose kernel holds the given instructions."""
    body = "".join(f"\t{line}\n" for line in lines)
    header = HEADER.format(version=version, target=target)
    table = "table: .branchtargets end;\n"
    return f"{header}{table}{DECLARATIONS}{body}end:\n\tret;\n}}\n"
