"""What a compilation was asked for, spelled: the function, its arguments, its sources.

A key that leaves something out which decides the code hands out the wrong code some
day. Two compilations that were asked for alike and made different PTX show that there
is such a thing: a global, an environment variable, the order of a set. But a package
may execute a file anew for every variant, with names put in, and keep the module to
itself: what it puts in is part of what was asked for.
"""

from __future__ import annotations

import dis
import enum
import functools
import hashlib
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

_DEEPEST = 8
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_HANDLES = ("cuda.bindings", "cutlass.base_dsl.export")
_REMARKS = re.compile(r"//.*|^\s*\.(?:loc|file)\b.*$", re.MULTILINE)


class _Unspellable(Exception):
    """Something in the arguments that says nothing of itself."""


def key_of(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    arch: str,
) -> str:
    """Return a hash of what decides a compilation, or "" where that cannot be told.

    Values that a kernel takes at run time count as well, so that keys of two calls may
    differ for nothing; equal keys mean that all of it was equal.
    """
    try:
        asked = (function, args, dict(kwargs))
        spelled = _Speller().spell(asked, 0)
    except (_Unspellable, RecursionError):
        return ""
    home = function.__module__
    text = "\n".join([arch, spelled, sources(home.partition(".")[0])])
    return hashlib.sha256(text.encode()).hexdigest()


def ptx_hash(ptx: str) -> str:
    """Return a hash of PTX without remarks and places in the source."""
    lines = (line.strip() for line in _REMARKS.sub("", ptx).splitlines())
    return hashlib.sha256("\n".join(filter(None, lines)).encode()).hexdigest()


def sources(package: str) -> str:
    """Return hashes of the imported files of a package, and the compiler's version."""
    files = set()
    for name in list(sys.modules):
        file = getattr(sys.modules[name], "__file__", None)
        if file and name.partition(".")[0] == package and file.endswith(".py"):
            files.add(file)
    if package == "__main__":  # a script, and what lies beside it
        main = getattr(sys.modules["__main__"], "__file__", None)
        folder = Path(main).resolve().parent if main else None
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if file and folder and Path(file).resolve().parent == folder:
                files.add(file)
    compiler = getattr(sys.modules.get("cutlass"), "__version__", "")
    return " ".join([str(compiler), *(_file_hash(f) for f in sorted(files))])


@functools.cache
def _file_hash(file: str) -> str:
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return ""


@functools.cache
def _assigned(file: str) -> frozenset[str]:
    """Return the names that a file gives values when it is executed."""
    try:
        code = compile(Path(file).read_bytes(), file, "exec")
    except (OSError, SyntaxError, ValueError):
        return frozenset()
    stores = ("STORE_NAME", "STORE_GLOBAL")
    return frozenset(i.argval for i in dis.get_instructions(code) if i.opname in stores)


class _Speller:
    """Spells values by their contents, symbols by the order in which they come."""

    def __init__(self) -> None:
        self._symbols: dict[int, int] = {}
        self._executed: set[int] = set()

    def spell(self, value: Any, depth: int) -> str:
        """Spell a value by its contents, without addresses.

        Raises:
            _Unspellable: it, or something in it, has no contents that Python shows.
        """
        if depth > _DEEPEST:
            raise _Unspellable
        deeper = depth + 1
        kind = type(value)
        name = f"{kind.__module__}.{kind.__qualname__}"
        if kind in _PLAIN:
            return repr(value)
        if isinstance(value, enum.Enum):
            return f"{name}.{value.name}"
        if isinstance(value, (list, tuple)):
            return f"{name}({', '.join(self.spell(one, deeper) for one in value)})"
        if isinstance(value, (set, frozenset)):
            return (
                f"{name}({', '.join(sorted(self.spell(one, deeper) for one in value))})"
            )
        if isinstance(value, Mapping):
            items = (
                (self.spell(k, deeper), self.spell(v, deeper)) for k, v in value.items()
            )
            return f"{name}({', '.join(': '.join(item) for item in sorted(items))})"
        if isinstance(value, type):
            return f"{value.__module__}.{value.__qualname__}"
        if isinstance(value, (FunctionType, MethodType, functools.partial)):
            return self._function(value, deeper)
        if isinstance(value, ModuleType):
            return value.__name__
        if any(kind.__module__.startswith(m) for m in _HANDLES):
            return name  # a stream or the like: known at the launch
        return f"{name}({self._object(value, deeper)})"

    def _object(self, value: Any, depth: int) -> str:
        if type(value).__name__ == "SymInt":
            number = self._symbols.setdefault(id(value), len(self._symbols))
            return f"{number}, {value.width}, {value.divisibility}"
        key = getattr(value, "__cache_key__", None)
        # That of a fake tensor holds addresses of its symbols.
        if key is not None and not type(value).__name__.startswith("_Fake"):
            return self.spell(key() if callable(key) else key, depth)
        if type(value).__module__.partition(".")[0] == "torch":
            return _torch(value)
        fields: dict[str, Any] = dict(getattr(value, "__dict__", {}))
        for owner in type(value).__mro__:
            slots = owner.__dict__.get("__slots__", ())
            for slot in (slots,) if isinstance(slots, str) else slots:
                if hasattr(value, slot):
                    fields[slot] = getattr(value, slot)
        if not fields and not hasattr(value, "__dict__"):
            raise _Unspellable
        return self.spell(fields, depth)

    def _function(self, value: Any, depth: int) -> str:
        if isinstance(value, MethodType):
            inner = self.spell(value.__func__, depth)
            return f"{inner} of {self.spell(value.__self__, depth)}"
        if isinstance(value, functools.partial):
            parts = (value.func, value.args, value.keywords)
            return f"partial({', '.join(self.spell(one, depth) for one in parts)})"
        cells = [c.cell_contents for c in value.__closure__ or () if _filled(c)]
        code = hashlib.sha256(_code(value.__code__).encode()).hexdigest()
        held = self.spell((value.__defaults__, value.__kwdefaults__, cells), depth)
        home = self._home(value)
        return f"{value.__module__}.{value.__qualname__} {code} {held} {home}"

    def _home(self, function: FunctionType) -> str:
        """Spell a module that is not the imported one: its file and what was put in."""
        names = function.__globals__
        imported = sys.modules.get(function.__module__)
        known = imported is not None and vars(imported) is names
        file = names.get("__file__")
        if known or not file or id(names) in self._executed:
            return ""
        self._executed.add(id(names))
        own = _assigned(file)
        data = {
            name: value
            for name, value in names.items()
            if not name.startswith("__") and (name not in own or type(value) in _PLAIN)
        }
        return f"{_file_hash(file)} {self.spell(data, 0)}"


def _torch(value: Any) -> str:
    if hasattr(value, "stride") and hasattr(value, "dtype"):
        shape, stride = tuple(value.shape), tuple(value.stride())
        return f"{value.dtype}, {shape}, {stride}"
    if type(value).__name__ in ("dtype", "device"):
        return str(value)
    raise _Unspellable


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 -- raises for an empty one
    except ValueError:
        return False
    return True


def _code(code: CodeType) -> str:
    inner = [
        _code(one) if isinstance(one, CodeType) else repr(one)
        for one in code.co_consts
        if not isinstance(one, frozenset)
    ]
    return f"{code.co_code.hex()} {code.co_names} {inner}"
