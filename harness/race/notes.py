"""What the text of a kernel says about ordering, one note a bytecode row.

PTX ISA, Memory Consistency Model: Operation types, Scope, Memory Operations on Vector
Data Types and on Packed Data Types; membar / fence; mbarrier; barrier.cluster. Where
the text leaves a qualifier out, the default of its section.
"""

from __future__ import annotations

import weakref

import numpy as np
from numpy.typing import NDArray

from sidestream.harness.exec.program import Program
from sidestream.harness.ptx import ir
from sidestream.harness.ptx.literals import WIDTHS

_FIELDS = ("sem", "scope", "fence", "weak", "red", "unit", "constant")
NOTE_DTYPE = np.dtype([(name, "u1") for name in _FIELDS])
"""`struct Note` of `core/watch.h`."""

WEAK, RELAXED, ACQUIRE, RELEASE, ACQ_REL = range(5)
_SEMS = {
    "weak": WEAK,
    "relaxed": RELAXED,
    "volatile": RELAXED,
    "mmio": RELAXED,
    "acquire": ACQUIRE,
    "release": RELEASE,
    "acq_rel": ACQ_REL,
    "sc": ACQ_REL,
}
_SCOPES = {"": 0, "cta": 1, "cluster": 2, "gpu": 3, "sys": 4}
_NO_FENCE, _MEMORY, _ASYNC, _ASYNC_SHARED, _ASYNC_GLOBAL, _TENSOR_BEFORE = range(6)
_INIT, _MAP_RELEASE, _MAP_ACQUIRE, _MAP_COPY, _TENSOR_AFTER = range(6, 11)

_DEFAULT_SEM = {
    "mbarrier.arrive": RELEASE,
    "mbarrier.arrive_drop": RELEASE,
    "mbarrier.test_wait": ACQUIRE,
    "mbarrier.try_wait": ACQUIRE,
    "barrier.cluster.arrive": RELEASE,
    "barrier.cluster.wait": ACQUIRE,
    "atom": RELAXED,
    "red": RELAXED,
}
"""By the first words of the operation."""
_DEFAULT_SCOPE = {"mbarrier": "cta", "barrier.cluster": "cluster", "atom": "gpu"}
_DEFAULT_SCOPE |= {"red": "gpu"}


def _default(op: str, table: dict[str, int] | dict[str, str]) -> int | str | None:
    words = op.split(".")
    for n in range(len(words), 0, -1):
        value = table.get(".".join(words[:n]))
        if value is not None:
            return value
    return None


def _fence(ins: ir.Instruction) -> int:
    if ins.op == "fence.proxy":
        if ins.mods.get("proxy") == "async::generic":
            return _ASYNC_SHARED
        if ins.mods.get("proxy") == "tensormap::generic":
            return _MAP_ACQUIRE if ins.mods["sem"] == "acquire" else _MAP_RELEASE
        if ins.mods.get("proxy") != "async":
            return _NO_FENCE
        space = ins.mods.get("space", "")
        if space == "global":
            return _ASYNC_GLOBAL
        return _ASYNC_SHARED if space else _ASYNC
    if ins.op == "tcgen05.fence::before_thread_sync":
        return _TENSOR_BEFORE
    if ins.op == "tcgen05.fence::after_thread_sync":
        return _TENSOR_AFTER
    if ins.op == "tensormap.cp_fenceproxy":
        return _MAP_COPY
    if ins.op == "fence.mbarrier_init":
        return _INIT
    return _MEMORY if ins.op in ("fence", "fence.sync_restrict") else _NO_FENCE


def notes_of(program: Program) -> NDArray[np.void]:
    """Return a `NOTE_DTYPE` row for each bytecode row, which the caller owns."""
    key = id(program)
    kept = _KEPT.get(key)
    if kept is None or kept[0]() is not program:
        alive = weakref.ref(program, lambda _: _KEPT.pop(key, None))
        kept = _KEPT[key] = (alive, _notes(program))
    return kept[1].copy()


_TELLING = ("sem", "scope", "proxy", "space", "type", "vec", "nc")
"""Modifiers that a note depends on."""
_KEPT: dict[int, tuple[weakref.ref[Program], NDArray[np.void]]] = {}
"""By identity: a program is launched more than once, and it does not change."""


def _notes(program: Program) -> NDArray[np.void]:
    known: dict[tuple[object, ...], tuple[int, ...]] = {}
    told = []
    for ins in program.function.instructions:
        said = tuple(ins.mods.get(n) for n in _TELLING)
        if (ins.op, *said) not in known:
            known[ins.op, *said] = _note(ins)
        told.append(known[ins.op, *said])
    nothing = (0,) * len(NOTE_DTYPE.fields or ())
    told.append(nothing)  # for an index of -1: a row of no instruction
    notes: NDArray[np.void] = np.array(told, NOTE_DTYPE)[program.origin]
    return notes


def _note(ins: ir.Instruction) -> tuple[int, ...]:
    """Return the fields of a note in their order."""
    sem = ins.mods.get("sem")
    number = _SEMS[sem] if sem else _default(ins.op, _DEFAULT_SEM) or WEAK
    scope = ins.mods.get("scope") or _default(ins.op, _DEFAULT_SCOPE) or ""
    if sem in ("volatile", "mmio"):
        scope = "sys"
    red = ins.op.split(".")[0] == "red"
    fence, constant = _fence(ins), int("nc" in ins.mods)
    return int(number), _SCOPES[str(scope)], fence, 0, int(red), _unit(ins), constant


def _unit(ins: ir.Instruction) -> int:
    """Bytes of each operation that a vector or a packed type stands for, else 0."""
    kind = ins.mods.get("type", "")
    if ins.op not in ("ld", "st", "atom", "red"):
        return 0
    if kind.endswith("x2"):
        return WIDTHS[kind] // 16
    return WIDTHS[kind] // 8 if "vec" in ins.mods else 0
