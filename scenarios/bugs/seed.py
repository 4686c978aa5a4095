"""Put a seeded bug into a copy of our kernels and drive that copy.

CuTe DSL reads the source of what it traces, so the copy is a package on disk, under
a name of its own that lives as long as the process.
"""

from __future__ import annotations

import atexit
import importlib
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sidestream.kernels
from sidestream.harness.drivers.ours import Sidestream
from sidestream.scenarios.bugs.bug import Bug, Edit

_PACKAGE = "sidestream.kernels"


class EditError(ValueError):
    """An edit that does not fit the kernels as they are: the bug must be reworked."""


def apply(sources: dict[str, str], edits: Sequence[Edit]) -> dict[str, str]:
    """Return `sources` (text by path) with every edit made.

    Raises:
        EditError: a file that there is not, or a text that does not occur once.
    """
    changed = dict(sources)
    for edit in edits:
        text = changed.get(edit.file)
        if text is None:
            raise EditError(f"kernels have no file {edit.file}")
        if text.count(edit.old) != 1:
            raise EditError(
                f"{edit.file}: {edit.old!r} occurs {text.count(edit.old)} times, not 1"
            )
        changed[edit.file] = text.replace(edit.old, edit.new)
    return changed


def kernel_sources() -> dict[str, str]:
    """Return the text of every source file of our kernels, by relative path."""
    root = Path(next(iter(sidestream.kernels.__path__)))
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(root.rglob("*.py"))
        if "tests" not in path.relative_to(root).parts
    }


def adapter_with(name: str, edits: Sequence[Edit]) -> Any:
    """Import a copy of our adapter with `edits` in it; the same copy every time.

    Raises:
        EditError: an edit does not fit.
    """
    package = "seeded_" + "".join(c if c.isalnum() else "_" for c in name)
    if package not in sys.modules:
        sources = apply(kernel_sources(), edits)
        folder = Path(tempfile.mkdtemp(prefix="sidestream-seeded-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        for path, text in sources.items():
            target = folder / package / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text.replace(_PACKAGE, package), encoding="utf-8")
        sys.path.append(str(folder))
        importlib.invalidate_caches()
    return importlib.import_module(f"{package}.adapter")


def driver_of(bug: Bug) -> Sidestream:
    """Return a driver of our kernels with `bug` in them."""
    return Sidestream(adapter_with(bug.name, bug.edits))
