"""Kernels ready to execute, kept by their text: parsed and lowered once a process."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TypeVar

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.exec.program import Program, lower
from sidestream.harness.launch import Launch
from sidestream.harness.ptx import ir
from sidestream.harness.ptx.decode import decode
from sidestream.harness.ptx.parser import parse

K = TypeVar("K")
V = TypeVar("V")

_MOST = 256


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A program, and the seconds it took to parse and to lower: 0 if kept."""

    program: Program
    parse_seconds: float
    lower_seconds: float


@dataclass(kw_only=True)
class ProgramCache:
    """Decoded and lowered kernels, the least recently used dropped first.

    Variables of the module in global memory live in the launch's table, so a kernel
    that has some is lowered again for each table, with the addresses it has there.
    """

    most: int = _MOST
    _functions: OrderedDict[tuple[str, str], ir.Function] = field(
        default_factory=OrderedDict
    )
    _programs: OrderedDict[tuple[str, str, int], Program] = field(
        default_factory=OrderedDict
    )
    _other: tuple[ir.Function, int, Collection[int], Program] | None = None

    def get(
        self,
        launch: Launch,
        table: AllocationTable,
        code: ir.Function | None = None,
        past: Collection[int] = (),
    ) -> Prepared:
        """Return the program of a launch.

        Given `code`, it is lowered in place of what the text says, and kept until
        other code comes; `past` as `lower` takes it, which is of such code alone.

        Raises:
            PtxError: the text cannot be read.
            UnsupportedError: the target or the memory demand is of no known device.
        """
        began = time.perf_counter()
        digest = hashlib.sha256(launch.ptx.encode()).hexdigest()
        if code is not None:
            return self._other_code(code, past, launch, digest, table)
        name = (digest, launch.kernel)
        function = self._functions.get(name)
        if function is None:
            function = decode(parse(launch.ptx), launch.kernel)
            _keep(self._functions, name, function, self.most)
        parsed = time.perf_counter()
        places = _place_globals(function, digest, table)
        key = (*name, launch.dynamic_smem)
        program = None if places else self._programs.get(key)
        if program is None:
            program = lower(
                function, globals_at=places, dynamic_smem=launch.dynamic_smem
            )
            if not places:
                _keep(self._programs, key, program, self.most)
        else:
            self._programs.move_to_end(key)
        return Prepared(
            program=program,
            parse_seconds=parsed - began,
            lower_seconds=time.perf_counter() - parsed,
        )

    def _other_code(
        self,
        code: ir.Function,
        past: Collection[int],
        launch: Launch,
        digest: str,
        table: AllocationTable,
    ) -> Prepared:
        began = time.perf_counter()
        places = _place_globals(code, digest, table)
        smem, kept = launch.dynamic_smem, self._other
        fits = kept and kept[0] is code and kept[1:3] == (smem, past)
        if kept is None or not fits or places:
            program = lower(code, globals_at=places, dynamic_smem=smem, past=past)
            self._other = kept = (code, smem, past, program)
        spent = time.perf_counter() - began
        return Prepared(program=kept[3], parse_seconds=0.0, lower_seconds=spent)


def _keep(kept: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    kept[key] = value
    while len(kept) > most:
        kept.popitem(last=False)


def _place_globals(
    function: ir.Function, digest: str, table: AllocationTable
) -> dict[str, int]:
    """Give module variables memory in `table`, once for all launches of the module."""
    places: dict[str, int] = {}
    for var in function.variables:
        if var.space not in ("global", "const"):
            continue
        name = f"{var.name}@{digest[:8]}"
        made = next((a for a in table if a.name == name and not a.freed), None)
        if made is None:
            fill = var.init if var.init else b"\0"
            made = table.allocate(
                var.size, name, fill=fill, writable=var.space == "global"
            )
        places[var.name] = made.va
    return places


CACHE = ProgramCache()
"""The programs of this process."""
