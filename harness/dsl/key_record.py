"""What compile keys stood for in earlier processes: one small file for each key.

A package that keeps compiled code on disk under such a key would serve the code of the
first process to the second (Dao-AILab/flash-attention#2566).
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sidestream.harness.dsl.compile_keys import ptx_hash
from sidestream.harness.dsl.compile_log import CompileRecord


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """What a key stood for.

    Attributes:
        ptx: Hash of its PTX (`compile_keys.ptx_hash`).
        place: Where it was compiled.
    """

    ptx: str
    place: str


class KeyRecord:
    """Keys of all processes that share a folder.

    Args:
        folder: Made when something is to be kept.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def note(self, record: CompileRecord, place: str) -> Earlier | None:
        """Take note of a compilation; return what its key stands for if not for it.

        The first one stays in the record. A file that cannot be read counts as none.
        """
        path = self._folder / f"{record.key}.json"
        mine = Earlier(ptx=ptx_hash(record.ptx), place=place)
        try:
            kept = json.loads(path.read_text())
            earlier = Earlier(ptx=kept["ptx"], place=kept["place"])
        except (OSError, ValueError, KeyError, TypeError):
            _write(path, json.dumps({"ptx": mine.ptx, "place": mine.place}))
            return None
        return earlier if earlier.ptx != mine.ptx else None


def _write(path: Path, text: str) -> None:
    """Write a file whole, or not at all where the folder cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, suffix=".tmp", delete=False
        ) as made:
            made.write(text)
        os.replace(made.name, path)
    except OSError:
        return
