"""The language of instruction forms: how a spelling becomes slots and operands.

A form is written in two short texts, for example

    Form("mode=lo|hi type=u32|s32", "=d:type a:type b:type")

The first lists the dotted words after the family's own, in their order:

    word          the word itself, kept as a slot of that name
    name=a|b      one of several words, kept as slot `name`
    name=a>b      the word `a`, kept as `b` (synonyms of the ISA)
    !word         the word itself, kept nowhere
    ...?          the same, optional

The second lists the operands:

    a             register, literal, special register or symbol
    $a            an integer literal
    [a]           a memory address
    <a>           a tensor map address with coordinates
    {a}           a vector
    *a            a vector; a lone register counts as one element
    #a            a vector of slot `vec`'s length, a register without that slot
    @a            a label
    (a)           a parenthesised list
    =...          a destination: a register or `_`, or a vector of them
    d|p           a pair of destinations; `d|p?`: the second may be missing
    a:type        as wide as slot `type`; a:b64: as wide as that type; `+`: or wider
    a?            may be missing; a?slot: there exactly when the slot is

Forms are data. `match` is the one reader of spellings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sidestream.harness.ptx import ir
from sidestream.harness.ptx.literals import WIDTHS

Mods = dict[str, str]
Args = dict[str, ir.Operand]
Rule = Callable[[Mapping[str, str], Mapping[str, ir.Operand]], bool]

_OPERAND = re.compile(
    r"(?P<dest>=)?(?P<open>[\[<{(#*$@]?)(?P<name>\w+)[\]>})]?"
    r"(?:\|(?P<second>\w+)(?P<lone>\?)?)?"
    r"(?::(?P<type>\w+)(?P<wider>\+)?)?(?P<optional>\?(?P<needs>\w+)?)?"
)
_KINDS = {
    "": "scalar",
    "[": "address",
    "<": "tensor",
    "{": "vector",
    "(": "list",
    "#": "vec",
    "*": "elements",
    "$": "literal",
    "@": "label",
}
_FLOATS = ("f", "bf", "tf", "b")


@dataclass(frozen=True, slots=True)
class Slot:
    """One place among the dotted words; `values` maps spelling to what is kept."""

    name: str | None
    values: Mapping[str, str]
    optional: bool


@dataclass(frozen=True, slots=True)
class OperandRule:
    """One place among the operands; the fields mirror the module's notation."""

    name: str
    kind: str
    dest: bool
    second: str | None
    second_optional: bool
    type: str | None
    wider: bool
    optional: bool
    needs: str | None


def _slot(text: str) -> Slot:
    optional = text.endswith("?")
    body = text.removesuffix("?")
    name, equals, values = body.partition("=")
    if not equals:
        return Slot(
            None if body[0] == "!" else body, {body.lstrip("!"): body}, optional
        )
    pairs = (value.partition(">") for value in values.split("|"))
    return Slot(name, {a: c or a for a, _, c in pairs}, optional)


def _rule(text: str) -> OperandRule:
    found = _OPERAND.fullmatch(text)
    if found is None:
        raise ValueError(f"not an operand rule: {text!r}")
    return OperandRule(
        name=found["name"],
        kind=_KINDS[found["open"]],
        dest=found["dest"] is not None,
        second=found["second"],
        second_optional=found["lone"] is not None,
        type=found["type"] or ("pred" if found["name"] in ("p", "q") else None),
        wider=found["wider"] is not None,
        optional=found["optional"] is not None,
        needs=found["needs"],
    )


@dataclass(frozen=True)
class Form:
    """One way to write an instruction of a family.

    Attributes:
        words: The dotted words, in the notation above.
        operands: The operands, in the notation above.
        op: Family name given to the instruction; the family's spelling if None.
        implied: Slots that the spelling leaves unsaid.
        rule: Refuses combinations that PTX does not have; sees slots and operands.
        ruled: What the rule asks for, in words.
    """

    words: str
    operands: str
    op: str | None = None
    implied: Mapping[str, str] = field(default_factory=dict)
    rule: Rule | None = None
    ruled: str = ""
    slots: tuple[Slot, ...] = field(init=False)
    rules: tuple[OperandRule, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "slots", tuple(map(_slot, self.words.split())))
        object.__setattr__(self, "rules", tuple(map(_rule, self.operands.split())))


@dataclass(frozen=True)
class Family:
    """Instructions that share their first words.

    `spelling` is those words; `section` the PTX ISA section title they come from.
    """

    spelling: str
    section: str
    forms: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class Match:
    """A spelling read by a form; operands are still to be bound."""

    op: str
    form: Form
    mods: Mods


@dataclass(frozen=True, slots=True)
class Bound:
    """Operands by name, and which of them the instruction writes."""

    args: Args
    writes: tuple[str, ...]


def match(
    family: Family, form: Form, words: Sequence[str], *, any_order: bool = False
) -> Match | None:
    """Read the dotted words after the family's own; None if they do not fit.

    The ISA writes them in one order, and assemblers take them in any: only words that
    fit several slots, such as types, keep theirs. `any_order` reads those too.
    """
    if len(words) > len(form.slots):
        return None
    mods = (_words_in_any_order if any_order else _words)(form.slots, words)
    if mods is None:
        return None
    return Match(form.op or family.spelling, form, {**form.implied, **mods})


def _words(slots: Sequence[Slot], words: Sequence[str]) -> Mods | None:
    if not slots:
        return {} if not words else None
    slot, rest = slots[0], slots[1:]
    if words and words[0] in slot.values:
        mods = _words(rest, words[1:])
        if mods is not None:
            kept = slot.values[words[0]]
            return mods if slot.name is None else {slot.name: kept, **mods}
    return _words(rest, words) if slot.optional else None


def _words_in_any_order(slots: Sequence[Slot], words: Sequence[str]) -> Mods | None:
    """Give each word the first free slot that has it."""
    free = list(slots)
    mods: Mods = {}
    for word in words:
        slot = next((slot for slot in free if word in slot.values), None)
        if slot is None:
            return None
        free.remove(slot)
        if slot.name is not None:
            mods[slot.name] = slot.values[word]
    return mods if all(slot.optional for slot in free) else None


def refusal(found: Match, operands: Sequence[ir.Operand]) -> str:
    """Say what of an instruction, whose words the form fits, it refuses."""
    args: Args = {}
    form = found.form
    if len(operands) > len(form.rules) or not _bind(
        form.rules, operands, found.mods, args
    ):
        return ""
    return form.ruled or "its words and operands do not go together"


def bind(found: Match, operands: Sequence[ir.Operand]) -> Bound | None:
    """Give operands their names; None if they are not the form's."""
    args: Args = {}
    if len(operands) > len(found.form.rules):
        return None
    if not _bind(found.form.rules, operands, found.mods, args):
        return None
    rule = found.form.rule
    if rule is not None and not rule(found.mods, args):
        return None
    names = ((r.name, r.second) for r in found.form.rules if r.dest)
    writes = tuple(n for pair in names for n in pair if n is not None and n in args)
    return Bound(args, writes)


def _bind(
    rules: Sequence[OperandRule],
    operands: Sequence[ir.Operand],
    mods: Mods,
    args: Args,
) -> bool:
    if not rules:
        return not operands
    rule, rest = rules[0], rules[1:]
    wanted = rule.needs is None or rule.needs in mods
    if wanted and operands:
        taken = _take(rule, operands[0], mods)
        if taken is not None and _bind(rest, operands[1:], mods, args):
            args.update(taken)
            return True
    if rule.optional and (rule.needs is None or not wanted):
        return _bind(rest, operands, mods, args)
    return False


def _take(rule: OperandRule, operand: ir.Operand, mods: Mods) -> Args | None:
    if rule.second is not None:
        if isinstance(operand, ir.Pair):
            if _fits(rule, operand.first, mods) and _writable(operand.second, 1):
                return {rule.name: operand.first, rule.second: operand.second}
            return None
        if not rule.second_optional:
            return None
    if rule.kind == "elements" and not isinstance(operand, ir.Vector):
        operand = ir.Vector((operand,))
    return {rule.name: operand} if _fits(rule, operand, mods) else None


def _fits(rule: OperandRule, operand: ir.Operand, mods: Mods) -> bool:
    kind = rule.kind
    if kind == "vec":
        kind = "vector" if "vec" in mods else "scalar"
        if isinstance(operand, ir.Vector) and f"v{len(operand.elements)}" != mods.get(
            "vec"
        ):
            return False
    match kind:
        case "address":
            return isinstance(operand, ir.Address)
        case "tensor":
            return isinstance(operand, ir.TensorAddress)
        case "label":
            return isinstance(operand, ir.Label)
        case "list":
            return isinstance(operand, ir.Vector)
        case "literal":
            return isinstance(operand, ir.Immediate) and operand.kind == "int"
        case "vector" | "elements":
            return isinstance(operand, ir.Vector) and all(
                _scalar(rule, element, mods) for element in operand.elements
            )
    return _scalar(rule, operand, mods)


def _scalar(rule: OperandRule, operand: ir.Operand, mods: Mods) -> bool:
    type_ = None if rule.type is None else mods.get(rule.type, rule.type)
    width = None if type_ is None else WIDTHS.get(type_)
    if rule.dest:
        return _writable(operand, width, wider=rule.wider)
    match operand:
        case ir.Register():
            return _wide_enough(operand, width, wider=rule.wider)
        case ir.Negated():
            return width == 1
        case ir.Immediate():
            return operand.kind == "int" or type_ is None or type_.startswith(_FLOATS)
        case ir.Special() | ir.Symbol():
            return width != 1
    return False


def _writable(operand: ir.Operand, width: int | None, *, wider: bool = False) -> bool:
    if isinstance(operand, ir.Sink):
        return True
    return isinstance(operand, ir.Register) and _wide_enough(
        operand, width, wider=wider
    )


def _wide_enough(register: ir.Register, width: int | None, *, wider: bool) -> bool:
    has = WIDTHS[register.type]
    if width is None:
        return has != 1
    return has == width or (wider and has > width and width != 1)
