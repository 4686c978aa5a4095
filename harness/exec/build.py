"""Build the execution core with the system's C compiler, once, into a cache."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from sidestream.harness.errors import BuildError
from sidestream.harness.exec import abi

SOURCE = Path(__file__).parent / "core"
FLAGS = (
    *("-std=gnu11", "-O3", "-march=native", "-fPIC", "-fvisibility=default"),
    # Bits must be those that PTX defines: no contraction, no reassociation.
    *("-ffp-contract=off", "-fno-math-errno", "-fwrapv", "-fno-strict-aliasing"),
    # Nobody reads exception flags; without them branches become vector selects.
    "-fno-trapping-math",
    # What C lets pass and is never meant: calls without a prototype, whose arguments
    # are then guessed, pointers and integers taken for each other, a forgotten return.
    "-Werror=implicit-function-declaration",
    "-Werror=implicit-int",
    "-Werror=incompatible-pointer-types",
    "-Werror=int-conversion",
    "-Werror=return-type",
    "-Werror=strict-prototypes",
    "-Werror=uninitialized",
    "-Werror=array-bounds",
    "-Werror=shift-count-overflow",
)


def cache_dir() -> Path:
    """Directory of built libraries: `$SIDESTREAM_CACHE`, or the user's cache."""
    if chosen := os.environ.get("SIDESTREAM_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "sidestream"


def compiler() -> str:
    """Path of the C compiler: `$CC`, else cc, gcc or clang.

    Raises:
        BuildError: if there is none.
    """
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and (found := shutil.which(name)):
            return found
    raise BuildError(
        "no C compiler found: install gcc or clang, or name one in CC; "
        "the virtual GPU's core is built with it at first use"
    )


def instruction_set(cpuinfo: str) -> str:
    """The lines of `/proc/cpuinfo` that decide what `-march=native` may emit.

    The rest of it, such as the clock, changes from one read to the next and must not
    make the cache miss.
    """
    kept: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "flags", "Features", "CPU part"):
            kept.setdefault(name.strip(), value.strip())
    return "\n".join(f"{name}={value}" for name, value in kept.items())


def _key(cc: str, flags: tuple[str, ...], folders: tuple[Path, ...]) -> str:
    digest = hashlib.sha256()
    version = subprocess.run([cc, "--version"], capture_output=True, check=False)
    digest.update(version.stdout)
    digest.update(" ".join(flags).encode())
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        digest.update(instruction_set(cpuinfo.read_text()).encode())
    for folder in folders:
        for path in sorted(folder.glob("*.[ch]")):
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def build(extra_flags: tuple[str, ...] = ()) -> Path:
    """Return the shared library of the core, building it if the cache lacks it.

    Args:
        extra_flags: Added to the compiler's flags, e.g. a sanitizer's; part of the
            cache key.

    Raises:
        BuildError: with the compiler's own message if it fails.
    """
    return build_library("core", SOURCE, extra_flags=extra_flags)


def build_library(
    name: str,
    source: Path,
    *,
    include: tuple[Path, ...] = (),
    extra_flags: tuple[str, ...] = (),
) -> Path:
    """Return a shared library of the C files of a folder, built if the cache lacks it.

    Args:
        name: Begins the name of the file in the cache.
        source: Folder of the `.c` and `.h` files.
        include: Folders of more headers; they are part of the cache key too.
        extra_flags: Added to the compiler's flags.

    Raises:
        BuildError: with the compiler's own message if it fails.
    """
    cc = compiler()
    flags = FLAGS + tuple(f"-I{folder}" for folder in include) + extra_flags
    key = _key(cc, FLAGS + extra_flags, (source, *include))
    target = cache_dir() / f"{name}-{key}.so"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    sources = sorted(source.glob("*.c"))
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:

        def compile_one(source: Path) -> Path:
            out = Path(scratch) / f"{source.stem}.o"
            command = [cc, *flags, "-c", str(source), "-o", str(out)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise BuildError(f"{source.name} does not compile:\n{done.stderr}")
            return out

        objects = []
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            for number, obj in enumerate(pool.map(compile_one, sources), 1):
                objects.append(str(obj))
                _progress(name, number, len(sources))
        linked = Path(scratch) / f"{name}.so"
        command = [cc, *flags, "-shared", *objects, "-o", str(linked), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BuildError(f"{name} does not link:\n{done.stderr}")
        os.replace(linked, target)  # atomic: processes may build at the same time
    return target


def _progress(name: str, number: int, total: int) -> None:
    end = "\n" if number == total else ""
    sys.stderr.write(f"\rbuilding the {name} library {number}/{total}{end}")
    sys.stderr.flush()


class Core:
    """The loaded core: C functions with their signatures, and the operation table."""

    def __init__(self, path: Path) -> None:
        lib = ctypes.CDLL(str(path))
        self.lib = lib
        lib.ss_op_count.restype = ctypes.c_uint32
        lib.ss_op_name.restype = ctypes.c_char_p
        lib.ss_op_name.argtypes = [ctypes.c_uint32]
        lib.ss_sizeof.restype = ctypes.c_uint32
        lib.ss_sizeof.argtypes = [ctypes.c_uint32]
        lib.ss_create.restype = ctypes.c_void_p
        lib.ss_create.argtypes = [ctypes.POINTER(abi.Config)]
        lib.ss_run.restype = ctypes.c_uint32
        lib.ss_run.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
        u32, machine = ctypes.c_uint32, ctypes.c_void_p
        for name, result, given in (
            ("ss_prerequisite", None, [machine, u32]),
            ("ss_hold", None, [machine, u32]),
            ("ss_dependents_may_start", u32, [machine]),
            ("ss_live_ctas", u32, [machine]),
            ("ss_slots", u32, [machine]),
            ("ss_choices", ctypes.c_void_p, [machine, *([ctypes.c_void_p] * 3)]),
        ):
            function = getattr(lib, name)
            function.restype, function.argtypes = result, given
        lib.ss_destroy.argtypes = [ctypes.c_void_p]
        lib.ss_stats.argtypes = [ctypes.c_void_p, ctypes.POINTER(abi.Stats)]
        lib.ss_faults.restype = ctypes.c_void_p
        lib.ss_faults.argtypes = [ctypes.c_void_p]
        lib.ss_counts.restype = ctypes.c_void_p
        lib.ss_counts.argtypes = [ctypes.c_void_p]
        lib.cost_new.restype = ctypes.c_void_p
        lib.cost_new.argtypes = [u32, u32, u32, u32, ctypes.POINTER(abi.CostTable)]
        lib.cost_free.argtypes = [ctypes.c_void_p]
        lib.cost_observer.restype = ctypes.c_void_p
        lib.cost_observer.argtypes = [ctypes.c_void_p]
        lib.cost_result.restype = ctypes.c_void_p
        lib.cost_result.argtypes = [ctypes.c_void_p, u32]
        lib.ss_blocked.restype = ctypes.c_uint32
        lib.ss_blocked.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32]
        lib.ss_ledger.restype = ctypes.c_uint32
        lib.ss_ledger.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32]
        sizes = (
            abi.INSN_DTYPE.itemsize,
            ctypes.sizeof(abi.Config),
            abi.FAULT_DTYPE.itemsize,
            abi.ALLOC_DTYPE.itemsize,
            abi.BLOCKED_DTYPE.itemsize,
            ctypes.sizeof(abi.Stats),
            abi.LEDGER_DTYPE.itemsize,
        )
        for what, size in enumerate(sizes):
            if lib.ss_sizeof(what) != size:
                raise BuildError(
                    f"struct {what} of the core does not match exec/abi.py"
                )
        count = lib.ss_op_count()
        self.ops = {lib.ss_op_name(k).decode(): k for k in range(count)}
        if len(self.ops) != count:
            raise BuildError("two operations of the core share a name")


@functools.cache
def load() -> Core:
    """Return the core, built and loaded once per process."""
    return Core(build())


def pointer(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> int:
    """Address of an array's first byte."""
    return int(array.ctypes.data)
