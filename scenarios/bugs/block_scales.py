"""Mutants of what block-scaled inputs add: which scale is whose, and when it is there.

    for mutant in BLOCK_SCALE_MUTANTS:
        ...                      # `mutant.check` fails on `mutant.scenario`

None is of a public report; each is a mistake that a kernel of such inputs invites.
"""

from __future__ import annotations

from sidestream.scenarios.bugs.bug import Edit
from sidestream.scenarios.bugs.one_byte import OneByteMutant

_ODD = "mxfp8-e4m3-odd-starts"
_LOADER, _SCALES = "sm100/loader.py", "sm100/scales.py"


def _one(
    name: str, scenario: str, file: str, old: str, new: str, **facts: str
) -> OneByteMutant:
    """Return the mistake that changes a text of a file to another."""
    return OneByteMutant(
        name=name,
        arch="sm_100a",
        scenario=scenario,
        edits=(Edit(file=file, old=old, new=new),),
        **facts,
    )


BLOCK_SCALE_MUTANTS: tuple[OneByteMutant, ...] = (
    _one(
        "atoms of whole ones only",
        _ODD,
        "common/worklist.py",
        "(length + (ATOM_ROWS - 1)) // ATOM_ROWS, Int32(UNCAPPED)",
        "length // ATOM_ROWS, Int32(UNCAPPED)",
        said="LSE at",
    ),
    _one(
        "one scale for all blocks",
        _ODD,
        _SCALES,
        "mma.set(field, first + block)",
        "mma.set(field, first)",
        said="LSE at",
    ),
    _one(
        "scales of Q of the first rows",
        "mxfp8-e4m3-odd-group",
        _LOADER,
        "number = found.first + row0 // config.tile_m",
        "number = found.first",
        said="LSE at",
    ),
    _one(
        "scales of K of the query head",
        _ODD,
        _LOADER,
        "Atoms(of.k, kv_head, keys)",
        "Atoms(of.k, head, keys)",
        said="LSE at",
    ),
    _one(
        "scales of V of K",
        _ODD,
        _LOADER,
        "Atoms(of.v, kv_head, keys)",
        "Atoms(of.k, kv_head, keys)",
    ),
    _one(
        "scales of dead blocks of V kept",
        "mxfp8-e4m3-edges",
        _SCALES,
        "word[0] & ((Uint32(1) << Uint32(8 * live)) - Uint32(1))",
        "word[0]",
    ),
    _one(
        "scale of the last live block of V cleared",
        "mxfp8-e4m3-edges",
        _SCALES,
        "live = (keys + (BLOCK - 1)) // BLOCK",
        "live = keys // BLOCK",
    ),
    _one(
        "P without a scale",
        _ODD,
        _SCALES,
        "tmem.store_row(base, Int32(P_COLUMN), thread, COLUMNS, cells)",
        "pass",
    ),
    _one(
        "scales of K of the tile before",
        _ODD,
        "sm100/products.py",
        "column = scales.key_column(slot)",
        "column = scales.key_column(1 - slot)",
        said="LSE at",
    ),
)
