"""Our kernels with one edit of their source, as a package of its own."""

from __future__ import annotations

import importlib
import itertools
import shutil
import sys
from pathlib import Path
from types import ModuleType

import sidestream.kernels.adapter as original

_HOME = Path(original.__file__).parent
_numbers = itertools.count()


def mutant(folder: Path, *edits: tuple[str, str, str]) -> ModuleType:
    """Return the adapter of a copy with edits (file, text, replacement).

    Raises:
        AssertionError: a text does not occur exactly once, so that a mutant never
            turns into the original when the kernels change.
    """
    name = f"mutant_{next(_numbers)}"
    home = folder / name
    shutil.copytree(_HOME, home, ignore=shutil.ignore_patterns("tests", "__pycache__"))
    for file, text, replacement in edits:
        path = home / file
        source = path.read_text(encoding="utf-8")
        assert source.count(text) == 1, f"{file}: {source.count(text)} times {text!r}"
        path.write_text(source.replace(text, replacement), encoding="utf-8")
    for path in home.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        path.write_text(source.replace("sidestream.kernels", name), encoding="utf-8")
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(f"{name}.adapter")
    finally:
        sys.path.remove(str(folder))
