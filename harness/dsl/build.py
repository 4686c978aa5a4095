"""Build the libraries that CuTe DSL host functions call, once, into a cache."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sidestream.harness.errors import BuildError
from sidestream.harness.exec.build import cache_dir, compiler

RUNTIME = ("runtime.c", "tensor_map.c", "dlpack.c")
"""The replacement runtime of the virtual device."""
ON_CARD = ("on_card.c",)
"""What stands in front of the DSL's own runtime on a card."""
HEADERS = ("runtime.h",)
FLAGS = (
    *("-std=c11", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared"),
    *("-fvisibility=hidden", "-pthread"),
)


def build_runtime(sources: Sequence[str] = RUNTIME) -> Path:
    """Return the path of a shared library, building it if the cache lacks it.

    The name holds a hash of the sources, the flags and the compiler's version, and
    the file is put in place by an atomic rename, so that any number of processes
    may build at the same time.

    Raises:
        BuildError: if there is no C compiler, or with its message if it fails.
    """
    folder = Path(__file__).parent
    cc = compiler()
    version = subprocess.run([cc, "--version"], capture_output=True, check=False)
    digest = hashlib.sha256(version.stdout)
    digest.update("\0".join((platform.machine(), *FLAGS)).encode())
    for name in (*sources, *HEADERS):
        digest.update(name.encode() + b"\0" + (folder / name).read_bytes())
    stem = Path(sources[0]).stem
    target = cache_dir() / f"{stem}-{digest.hexdigest()[:16]}.so"
    if target.exists():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            built = Path(scratch) / "runtime.so"
            files = [str(folder / name) for name in sources]
            command = [cc, *FLAGS, "-o", str(built), *files, "-ldl"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise BuildError(f"the capture library does not build:\n{done.stderr}")
            os.replace(built, target)
    except OSError as error:
        raise BuildError(
            f"the capture library cannot be written to {target.parent}: {error}; "
            "name another folder in SIDESTREAM_CACHE"
        ) from error
    return target
