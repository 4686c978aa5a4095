"""A module named `triton` for packages that import it and never use it here.

FlashAttention-4 reaches `quack.autotuner`, which derives a class from one of
triton's when it is imported. Nothing of triton runs on that path. The stand-in is
in place during the import only, so that torch never finds it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

NAMES = ("triton", "triton.runtime", "triton.runtime.cache", "triton.testing")


class FileCacheManager:
    """Stands for `triton.runtime.cache.FileCacheManager` as a base class."""


@contextmanager
def triton_importable() -> Iterator[None]:
    """Let `import triton` succeed inside, unless the real one is installed."""
    if importlib.util.find_spec("triton") is not None:
        yield
        return
    modules = {name: ModuleType(name) for name in NAMES}
    for name, module in modules.items():
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(modules[parent], child, module)
    cache = modules["triton.runtime.cache"]
    cache.FileCacheManager = FileCacheManager  # type: ignore[attr-defined]
    modules["triton"].__version__ = "0"  # type: ignore[attr-defined]
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in NAMES:
            sys.modules.pop(name, None)


class TritonForAutotuner(MetaPathFinder):
    """Puts the stand-in in place while `quack.autotuner` is imported, whoever asks."""

    name = "quack.autotuner"

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Find that module alone, to be executed with the stand-in importable."""
        spec = PathFinder.find_spec(fullname, path) if fullname == self.name else None
        if spec is not None and spec.loader is not None:
            spec.loader = _WithTriton(spec.loader)
        return spec


class _WithTriton(Loader):
    def __init__(self, inner: Loader) -> None:
        self._inner = inner

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # It asks torch for what imports this, which must not meet the stand-in.
        importlib.import_module("torch._dynamo")
        with triton_importable():
            self._inner.exec_module(module)
