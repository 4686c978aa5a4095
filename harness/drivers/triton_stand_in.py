"""A module named `triton` for packages that import it and never use it here.

FlashAttention-4 reaches `quack.autotuner`, which derives a class from one of
triton's when it is imported. Nothing of triton runs on that path. The stand-in is
in place during the import only, so that torch never finds it.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
