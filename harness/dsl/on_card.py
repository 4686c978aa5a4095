"""CuTe DSL on a real GPU: its compilations and launches seen, and otherwise untouched.

Host functions resolve their CUDA calls in the libraries that `CUTE_DSL_LIBS` lists. A
small one is put in front: it tells of every launch and hands it on.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sidestream.harness.dsl import dsl_patches
from sidestream.harness.dsl.activation import (
    BLOCK_CALLBACK,
    LAUNCH_CALLBACK,
    LAUNCH_FAILURE,
    RawLaunch,
)
from sidestream.harness.dsl.build import ON_CARD, build_runtime
from sidestream.harness.dsl.capture import attributes_of, launch_of, read_image
from sidestream.harness.dsl.compile_log import CompileLog, CompileRecord
from sidestream.harness.dsl.entry_scan import EntryScan, scan_entry
from sidestream.harness.dsl.source_lines import ask_for_lines, keep_lines
from sidestream.harness.errors import UnsupportedError, UsageError
from sidestream.harness.launch import Launch


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Who is told of launches, before they are made, and of waits of host code."""

    on_launch: Callable[[Launch], None]
    on_block: Callable[[str, int], None]


@dataclass(kw_only=True)
class OnCard:
    """CuTe DSL of this process, watched.

    A launch of code that was not compiled here, or before `watch_dsl`, has no PTX: its
    `ptx` is empty and it has no parameters.

    Attributes:
        compiles: Every compilation since.
    """

    compiles: CompileLog = field(default_factory=CompileLog)
    _watches: list[Watch] = field(default_factory=list)
    _entries: dict[tuple[str, str], EntryScan] = field(default_factory=dict)
    _images: dict[int, tuple[bytes, CompileRecord | None]] = field(default_factory=dict)
    _callbacks: tuple[object, ...] = ()
    _raised: BaseException | None = None

    @contextmanager
    def watched(
        self,
        on_launch: Callable[[Launch], None],
        on_block: Callable[[str, int], None] = lambda call, stream: None,
    ) -> Iterator[None]:
        """Tell of launches and waits inside; what a callback raises is raised here.

        A launch whose callback raises is not made, and its host function fails.
        """
        watch = Watch(on_launch=on_launch, on_block=on_block)
        self._watches.append(watch)
        self._raised = None
        try:
            yield
        except Exception as error:
            if self._raised is not None:
                raise self._raised from error
            raise
        finally:
            self._watches.remove(watch)
        if self._raised is not None:
            raise self._raised

    def install(self, library: ctypes.CDLL) -> None:
        """Give the library its callbacks."""
        self._callbacks = (
            LAUNCH_CALLBACK(self._launch),
            BLOCK_CALLBACK(self._block),
        )
        library.on_card_callbacks.argtypes = [LAUNCH_CALLBACK, BLOCK_CALLBACK]
        library.on_card_callbacks.restype = None
        library.on_card_callbacks(*self._callbacks)

    def _launch(self, pointer: Any) -> int:
        try:
            if self._watches:
                self._watches[-1].on_launch(self._read(pointer.contents))
        except BaseException as error:
            self._raised = self._raised or error
            return LAUNCH_FAILURE
        return 0

    def _block(self, call: bytes, stream: int) -> int:
        try:
            if self._watches:
                self._watches[-1].on_block(call.decode(), stream)
        except BaseException as error:
            self._raised = self._raised or error
        return 0

    def _read(self, raw: RawLaunch) -> Launch:
        name = raw.kernel.decode()
        record = self._record(raw.image) if raw.image and name else None
        attributes = attributes_of(raw)
        if record is None:
            return Launch(
                kernel=name or "a kernel without a name",
                ptx="",
                grid=(raw.grid[0], raw.grid[1], raw.grid[2]),
                block=(raw.block[0], raw.block[1], raw.block[2]),
                cluster=attributes.cluster,
                dynamic_smem=raw.dynamic_smem,
                stream=raw.stream,
                pdl=attributes.pdl,
            )
        key = record.image_sha256, name
        if key not in self._entries:
            self._entries[key] = scan_entry(record.ptx, name)
        return launch_of(raw, record.ptx, self._entries[key], attributes)

    def _record(self, address: int) -> CompileRecord | None:
        """Return the compilation of the image at an address, which may change."""
        image = read_image(address)
        before = self._images.get(address)
        if before is None or before[0] != image:
            before = self._images[address] = image, self.compiles.of_image(image)
        return before[1]


_watched: OnCard | None = None


def watch_dsl(*, arch: str) -> OnCard:
    """Watch CuTe DSL in this process, which compiles for `arch`; the same every time.

    Raises:
        UsageError: `CUTE_DSL_ARCH` names another target, or the DSL finds no runtime.
        UnsupportedError: nvidia-cutlass-dsl is not installed.
        BuildError: the library in front cannot be built.
    """
    global _watched
    fixed = os.environ.setdefault("CUTE_DSL_ARCH", arch)
    if fixed != arch:
        raise UsageError(f"CUTE_DSL_ARCH is {fixed}; {arch} needs a process of its own")
    if _watched is not None:
        return _watched
    # A function loaded from the DSL's disk cache would come without its PTX, and
    # processes that fill it at the same time would meet there.
    os.environ["CUTE_DSL_DISABLE_FILE_CACHING"] = "1"
    line_info = ask_for_lines()
    try:
        import cutlass  # noqa: F401  (the import itself is what is wanted)
        from cutlass.base_dsl.dsl import DSLSingletonMeta
        from cutlass.base_dsl.env_manager import get_prefix_dsl_libs
        from cutlass.cutlass_dsl.cutlass import CutlassBaseDSL
    except ImportError as error:
        raise UnsupportedError(
            "nvidia-cutlass-dsl is not installed: pip install 'nvidia-cutlass-dsl>=4.8'"
        ) from error
    behind = get_prefix_dsl_libs("CUTE_DSL")
    if not behind:
        raise UsageError("CuTe DSL finds no runtime: set CUTE_DSL_LIBS to its path")
    made = OnCard()
    made.install(_in_front(build_runtime(ON_CARD), behind.split(os.pathsep)))
    libraries = os.pathsep.join([str(build_runtime(ON_CARD)), behind])
    os.environ["CUTE_DSL_LIBS"] = libraries
    dsls = list(DSLSingletonMeta._instances.values())
    for dsl in dsls:
        dsl.envar.arch = arch
        dsl.envar.shared_libs = libraries
        dsl.envar.disable_file_caching = True
    keep_lines(dsls, wanted=line_info)
    forget = getattr(CutlassBaseDSL.get_shared_libs, "cache_clear", None)
    if forget is not None:
        forget()  # it keeps its first answer
    dsl_patches.keep_ptx(made.compiles, lambda: None)
    _watched = made
    return made


def _in_front(library: Path, behind: list[str]) -> ctypes.CDLL:
    """Load the library and tell it what to hand calls on to."""
    loaded = ctypes.CDLL(str(library))
    loaded.on_card_behind.argtypes = [ctypes.c_char_p]
    for path in behind:
        if loaded.on_card_behind(path.encode()):
            raise UsageError(f"CuTe DSL's runtime {path} cannot be loaded")
    return loaded
