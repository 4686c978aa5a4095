"""Every compilation of a CuTe DSL host function: what it was and what it made."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sidestream.harness.dsl.entry_scan import entry_names


@dataclass(frozen=True, kw_only=True)
class CompileRecord:
    """One run of the compiler.

    Attributes:
        function: Mangled name of the host function: it spells the static part of
            every argument, so two records of one kernel tell what set them apart.
        source_name: The host function's name in Python.
        arch: The PTX target.
        seconds: Wall time of lowering and assembling.
        kernels: Names of the entries in `ptx`.
        ptx: The PTX text; empty for a host function without kernels.
        image_sha256: Hash of the library image the host function loads, or "".
        key: Hash of what was asked for (`compile_keys.key_of`), or "".
    """

    function: str
    source_name: str
    arch: str
    seconds: float
    kernels: tuple[str, ...]
    ptx: str
    image_sha256: str
    key: str = ""

    @property
    def ptx_sha256(self) -> str:
        """Hash of the PTX text."""
        return hashlib.sha256(self.ptx.encode()).hexdigest()


@dataclass(kw_only=True)
class CompileLog:
    """The compilations of this process, in order."""

    records: list[CompileRecord] = field(default_factory=list)
    _by_image: dict[str, CompileRecord] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(
        self,
        *,
        function: str,
        source_name: str,
        arch: str,
        seconds: float,
        ptx: str,
        image: bytes,
        key: str = "",
    ) -> CompileRecord:
        """Append one compilation; `image` is the library image, empty without one."""
        record = CompileRecord(
            function=function,
            source_name=source_name,
            arch=arch,
            seconds=seconds,
            kernels=entry_names(ptx),
            ptx=ptx,
            image_sha256=hashlib.sha256(image).hexdigest() if image else "",
            key=key,
        )
        with self._lock:
            self.records.append(record)
            if image:
                self._by_image[record.image_sha256] = record
        return record

    def of_image(self, image: bytes) -> CompileRecord | None:
        """Return the compilation that made a library image."""
        return self._by_image.get(hashlib.sha256(image).hexdigest())

    def since(self, mark: int) -> tuple[CompileRecord, ...]:
        """Return the records after the first `mark` ones."""
        return tuple(self.records[mark:])

    @contextmanager
    def unused(self) -> Iterator[None]:
        """Require that nothing is compiled inside.

        Raises:
            AssertionError: at the end, with the host functions that were.
        """
        mark = self.mark()
        yield
        names = [record.source_name for record in self.since(mark)]
        assert not names, f"compiled inside: {', '.join(names)}"

    def mark(self) -> int:
        """Return the number of records so far, for `since`."""
        return len(self.records)
