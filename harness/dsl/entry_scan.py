"""What a launch needs to know of a PTX entry, read without parsing its body."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sidestream.harness.errors import PtxError

_ENTRY = re.compile(r"^[^/\n]*\.entry\s+([\w$%]+)", re.MULTILINE)
_PARAM = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s*(?:\.ptr[^,)]*?)?"
    r"([\w$%]+)\s*(?:\[(\d+)\])?\s*(?=[,)]|$)"
)
_SHARED = re.compile(
    r"^\s*(?:\.visible\s+|\.weak\s+)?\.shared\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+"
    r"[\w$%]+\s*(?:\[(\d+)\])?\s*;",
    re.MULTILINE,
)
_THREADS = re.compile(r"\.(maxntid|reqntid)\s+([\d,\s]+)")
_SIZES = {"b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2,
          "b32": 4, "u32": 4, "s32": 4, "f32": 4, "b64": 8, "u64": 8, "s64": 8,
          "f64": 8, "b128": 16}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class EntryScan:
    """The launch contract of one entry.

    Attributes:
        name: The entry's name.
        param_sizes: Bytes of every parameter, in order.
        static_smem: Bytes of statically declared shared memory in the module.
        max_threads: Bound of `.maxntid`, or None.
        required_block: CTA dimensions of `.reqntid`, or None.
    """

    name: str
    param_sizes: tuple[int, ...]
    static_smem: int
    max_threads: int | None
    required_block: tuple[int, int, int] | None


def entry_names(ptx: str) -> tuple[str, ...]:
    """Return the names of the entries in order of their text."""
    return tuple(_ENTRY.findall(ptx))


def _size(type_: str, count: str | None, line: int) -> int:
    if type_ not in _SIZES:
        raise PtxError(f"type .{type_} of a declaration is not known", line)
    return _SIZES[type_] * int(count or 1)


def scan_entry(ptx: str, name: str) -> EntryScan:
    """Read the signature of the entry `name`.

    Raises:
        PtxError: if the entry is absent or its parameter list cannot be read.
    """
    found = re.search(rf"\.entry\s+{re.escape(name)}(?![\w$%])", ptx)
    if found is None:
        raise PtxError(f"there is no .entry {name}")
    line = ptx.count("\n", 0, found.start()) + 1
    body = ptx.find("{", found.end())
    if body < 0:
        raise PtxError(f"entry {name} has no body", line)
    header = re.sub(r"//[^\n]*", "", ptx[found.end() : body])
    params: list[int] = []
    if header.lstrip().startswith("("):
        listing = header[header.index("(") + 1 : header.rfind(")")]
        for text in filter(None, (part.strip() for part in listing.split(","))):
            match = _PARAM.fullmatch(text)
            if match is None:
                raise PtxError(f"parameter {text!r} of {name} cannot be read", line)
            params.append(_size(match[2], match[4], line))
    static = 0
    for align, type_, count in _SHARED.findall(ptx):
        step = int(align or _size(type_, None, line))
        static = -(-static // step) * step + _size(type_, count or None, line)
    bounds = {
        kind: [int(n) for n in numbers.split(",") if n.strip()]
        for kind, numbers in _THREADS.findall(header)
    }
    limit = bounds.get("maxntid")
    needed = bounds.get("reqntid")
    product = 1
    for n in limit or ():
        product *= n
    block = (*needed, 1, 1)[:3] if needed else None
    return EntryScan(
        name=name,
        param_sizes=tuple(params),
        static_smem=static,
        max_threads=product if limit else None,
        required_block=(block[0], block[1], block[2]) if block else None,
    )
