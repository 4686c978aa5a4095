"""A launch as a folder: the code, what was asked for, and the memory before it.

    kernel.ptx    the PTX text
    launch.json   the launch and the allocations (schema `sidestream.launch/1`)
    memory.npz    the bytes of every allocation, keyed by its id

Device addresses inside parameters and tensor maps stay those of the recording; the
reader backs them with new host memory. A folder may come from anyone, so reading
trusts nothing: whatever is malformed is a `UsageError` that names file and reason.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.errors import UsageError
from sidestream.harness.launch import Launch

SCHEMA = "sidestream.launch/1"
PTX_FILE, LAUNCH_FILE, MEMORY_FILE = "kernel.ptx", "launch.json", "memory.npz"
MOST_BYTES = 16 << 30
"""Most memory a recording may claim, so that a damaged size is no memory bomb."""
_MOST_ADDRESS = 2**63
_ARCH = re.compile(r"sm_\d{2,3}[af]?")


@dataclass(frozen=True, kw_only=True)
class RecordedLaunch:
    """A launch read back: the memory is a table of its own."""

    launch: Launch
    arch: str
    memory: AllocationTable


def write_launch(
    folder: Path, launch: Launch, table: AllocationTable, arch: str
) -> Path:
    """Write a launch and the memory before it; the folder appears whole or not.

    Args:
        folder: The folder to make; its parent is made too.
        launch: The launch.
        table: Global memory; freed allocations are left out.
        arch: The PTX target, e.g. `sm_120a`.

    Returns:
        `folder`.

    Raises:
        UsageError: if the folder exists or cannot be written.
    """
    if folder.exists():
        raise UsageError(f"{folder} exists; a recording never overwrites")
    live = [a for a in table if not a.freed]
    document = {
        "schema": SCHEMA,
        "arch": arch,
        "kernel": launch.kernel,
        "grid": launch.grid,
        "block": launch.block,
        "cluster": launch.cluster,
        "dynamic_smem": launch.dynamic_smem,
        "stream": launch.stream,
        "pdl": launch.pdl,
        "params": [param.hex() for param in launch.params],
        "allocations": [
            {
                "id": a.id,
                "name": a.name,
                "va": a.va,
                "size": a.size,
                "writable": a.writable,
                "init": a.init is not None,
            }
            for a in live
        ],
    }
    arrays = {str(a.id): a.data for a in live}
    arrays |= {f"init{a.id}": a.init for a in live if a.init is not None}
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".launch-", dir=folder.parent))
        try:
            (scratch / PTX_FILE).write_text(launch.ptx, encoding="utf-8")
            (scratch / LAUNCH_FILE).write_text(json.dumps(document, indent=1) + "\n")
            np.savez_compressed(scratch / MEMORY_FILE, **arrays)  # type: ignore[arg-type]
            scratch.chmod(0o755)
            os.rename(scratch, folder)
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error}") from error
    return folder


def read_launch(folder: Path, ptx_file: Path | None = None) -> RecordedLaunch:
    """Read a recorded launch.

    Args:
        folder: A folder that `write_launch` made.
        ptx_file: PTX text to use in place of the recorded one.

    Raises:
        UsageError: naming the file that is missing or malformed, and why.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder with a recorded launch")
    if not (folder / LAUNCH_FILE).exists():
        # Folders that `record` makes lie one or two levels above a launch.
        depths = (f"*/{LAUNCH_FILE}", f"*/*/{LAUNCH_FILE}", f"*/*/*/{LAUNCH_FILE}")
        for depth in depths:
            for path in sorted(folder.glob(depth))[:1]:
                raise UsageError(
                    f"{folder} is not a recorded launch; name one, such as "
                    f"{path.parent}"
                )
    ptx = _read_text(ptx_file or folder / PTX_FILE)
    path = folder / LAUNCH_FILE
    try:
        document = json.loads(_read_text(path))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON: {error}") from error
    fields = _Fields(path, document)
    schema = fields.text("schema")
    if schema != SCHEMA:
        raise UsageError(f"{path}: schema {schema!r} is not {SCHEMA!r}")
    arch = fields.text("arch")
    if not _ARCH.fullmatch(arch):
        raise UsageError(f"{path}: arch {arch!r} is no PTX target")
    launch = Launch(
        kernel=fields.text("kernel"),
        ptx=ptx,
        grid=fields.triple("grid", 2**31 - 1),
        block=fields.triple("block", 1024),
        cluster=fields.triple("cluster", 64),
        dynamic_smem=fields.integer("dynamic_smem", 0, 2**31),
        stream=fields.integer("stream", 0, 2**64 - 1),
        params=fields.byte_strings("params"),
        pdl=fields.flag("pdl"),
    )
    return RecordedLaunch(launch=launch, arch=arch, memory=_memory(folder, fields))


def _memory(folder: Path, fields: _Fields) -> AllocationTable:
    path = folder / MEMORY_FILE
    rows = [_Fields(fields.path, row) for row in fields.items("allocations")]
    table = AllocationTable()
    total, seen = 0, set()
    try:
        with np.load(path, allow_pickle=False) as archive:
            sizes = _declared_sizes(path)
            for row in rows:
                number = row.integer("id", 0, 2**32 - 1)
                size = row.integer("size", 0, MOST_BYTES)
                total += size
                if number in seen or total > MOST_BYTES:
                    raise UsageError(
                        f"{fields.path}: allocation {number} is listed twice or the "
                        f"sizes pass {MOST_BYTES} bytes"
                    )
                seen.add(number)
                made = table.map(
                    va=row.integer("va", 0, _MOST_ADDRESS - size),
                    data=_array(path, archive, sizes, str(number), size),
                    name=row.text("name"),
                    id=number,
                    writable=row.flag("writable"),
                )
                if row.flag("init"):
                    made.init = _array(path, archive, sizes, f"init{number}", size)
    except UsageError:
        raise
    except FileNotFoundError as error:
        raise UsageError(f"{path}: there is no such file") from error
    except (
        *(OSError, ValueError, KeyError, EOFError, TypeError, IndexError),
        *(zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError),
        *(SyntaxError, UnicodeError, MemoryError, RecursionError, AttributeError),
    ) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    return table


def _declared_sizes(path: Path) -> dict[str, int]:
    """Uncompressed sizes by member, so that no member inflates past its allocation."""
    with zipfile.ZipFile(path) as archive:
        return {
            info.filename.removesuffix(".npy"): info.file_size
            for info in archive.infolist()
        }


def _array(
    path: Path, archive: Any, sizes: Mapping[str, int], key: str, size: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    header = 4096
    if key not in sizes:
        raise UsageError(f"{path}: the bytes of allocation {key} are missing")
    if sizes[key] > size + header:
        raise UsageError(f"{path}: {key} holds more than its {size} bytes")
    data = archive[key]
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 1:
        raise UsageError(f"{path}: {key} is not an array of bytes")
    if len(data) != size:
        raise UsageError(f"{path}: {key} holds {len(data)} bytes, not {size}")
    return np.ascontiguousarray(data)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UsageError(f"{path}: there is no such file") from error
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error


class _Fields:
    """Typed access to a JSON object; every miss names the file and the field."""

    def __init__(self, path: Path, document: object) -> None:
        if not isinstance(document, dict):
            raise UsageError(f"{path}: an object was expected, not {document!r:.40}")
        self.path = path
        self._document = document

    def _get(self, name: str) -> object:
        if name not in self._document:
            raise UsageError(f"{self.path}: field {name!r} is missing")
        return self._document[name]

    def _wrong(self, name: str, wanted: str) -> UsageError:
        value = self._document[name]
        return UsageError(f"{self.path}: {name} must be {wanted}, not {value!r:.60}")

    def text(self, name: str) -> str:
        """A string."""
        value = self._get(name)
        if not isinstance(value, str):
            raise self._wrong(name, "a string")
        return value

    def flag(self, name: str) -> bool:
        """A boolean."""
        value = self._get(name)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def integer(self, name: str, least: int, beyond: int) -> int:
        """An integer in [least, beyond]."""
        value = self._get(name)
        if type(value) is not int or not least <= value <= beyond:
            raise self._wrong(name, f"an integer from {least} to {beyond}")
        return value

    def items(self, name: str) -> list[object]:
        """A list."""
        value = self._get(name)
        if not isinstance(value, list):
            raise self._wrong(name, "a list")
        return value

    def triple(self, name: str, most: int) -> tuple[int, int, int]:
        """Three positive integers."""
        value = self.items(name)
        if len(value) != 3:
            raise self._wrong(name, "three integers")
        x, y, z = value
        if (
            not (type(x) is int and type(y) is int and type(z) is int)
            or min(x, y, z) < 1
            or max(x, y, z) > most
        ):
            raise self._wrong(name, f"three integers from 1 to {most}")
        return (x, y, z)

    def byte_strings(self, name: str) -> tuple[bytes, ...]:
        """A list of strings in hexadecimal."""
        try:
            return tuple(bytes.fromhex(item) for item in self.items(name))  # type: ignore[arg-type]
        except (ValueError, TypeError) as error:
            raise self._wrong(name, "a list of strings in hexadecimal") from error
