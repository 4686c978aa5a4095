"""Every instruction family, and the search for the form that fits a spelling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sidestream.harness.ptx import (
    forms_async,
    forms_atomic,
    forms_barrier,
    forms_control,
    forms_convert,
    forms_float,
    forms_integer,
    forms_logic,
    forms_memory,
    forms_mma,
    forms_tcgen05,
    forms_tensor,
    forms_warp,
    forms_wgmma,
    ir,
)
from sidestream.harness.ptx.forms import Family, Match, bind, match, refusal

FAMILIES: tuple[Family, ...] = (
    *forms_integer.FAMILIES,
    *forms_float.FAMILIES,
    *forms_logic.FAMILIES,
    *forms_convert.FAMILIES,
    *forms_memory.FAMILIES,
    *forms_atomic.FAMILIES,
    *forms_async.FAMILIES,
    *forms_tensor.FAMILIES,
    *forms_barrier.FAMILIES,
    *forms_warp.FAMILIES,
    *forms_mma.FAMILIES,
    *forms_wgmma.FAMILIES,
    *forms_tcgen05.FAMILIES,
    *forms_control.FAMILIES,
)
"""All families, by PTX ISA chapter; a spelling may have several."""

MAX_WORDS = 24
"""Most dotted words a known spelling has."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the tables make of one instruction; the fields of `ir.Instruction`."""

    op: str
    mods: Mapping[str, str]
    args: Mapping[str, ir.Operand]
    writes: tuple[str, ...]
    known: bool
    refused: str = ""


def _index() -> dict[str, list[Family]]:
    found: dict[str, list[Family]] = {}
    for family in FAMILIES:
        found.setdefault(family.spelling.split(".")[0], []).append(family)
    for families in found.values():
        families.sort(key=lambda f: -f.spelling.count("."))
    return found


_BY_FIRST_WORD = _index()


@lru_cache(maxsize=4096)
def readings(spelling: str) -> tuple[Match, ...]:
    """Every form that the opcode's words fit; operands decide between them."""
    words = spelling.split(".")
    if len(words) > MAX_WORDS:
        return ()
    candidates = [
        (family, form, words[family.spelling.count(".") + 1 :])
        for family in _BY_FIRST_WORD.get(words[0], ())
        if _starts(words, family)
        for form in family.forms
    ]
    found = [match(*candidate) for candidate in candidates]
    found += [match(*candidate, any_order=True) for candidate in candidates]
    return tuple(reading for reading in found if reading is not None)


def _starts(words: Sequence[str], family: Family) -> bool:
    own = family.spelling.split(".")
    return list(words[: len(own)]) == own


def bind_operands(spelling: str, operands: Sequence[ir.Operand]) -> Reading:
    """Read one instruction; `known` is False where no form fits."""
    for fitting in readings(spelling):
        bound = bind(fitting, operands)
        if bound is not None:
            return Reading(
                fitting.op, fitting.mods, bound.args, bound.writes, known=True
            )
    numbered = {str(i): operand for i, operand in enumerate(operands)}
    why = [refusal(fitting, operands) for fitting in readings(spelling)]
    told = next(filter(None, why), "its operands do not fit") if why else ""
    return Reading(_family_name(spelling), {}, numbered, (), known=False, refused=told)


def _family_name(spelling: str) -> str:
    """The longest family spelling that starts an unread opcode, else its first word."""
    words = spelling.split(".")
    for family in _BY_FIRST_WORD.get(words[0], ()):
        if _starts(words, family):
            return family.spelling
    return words[0]
