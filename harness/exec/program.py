"""A lowered kernel: bytecode, constants, register-file layout and its PTX origin."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sidestream.harness.errors import UnsupportedError
from sidestream.harness.exec import abi
from sidestream.harness.exec.build import load
from sidestream.harness.exec.lower.builder import Builder, Ref, Row, Unsupported
from sidestream.harness.exec.lower.families import FAMILIES
from sidestream.harness.exec.registers import share_rows
from sidestream.harness.exec.scoreboard import guard_loads
from sidestream.harness.exec.undefined import Undefined, undefined_in
from sidestream.harness.ptx import ir

SMEM_BASE = 1024
"""First shared-memory address a kernel gets; the driver keeps what lies below."""

_ROW_BYTES = {1: 4, 32: 128, 64: 256, 128: 512}
_MAX_SHARED = 1 << 20
_MAX_LOCAL = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Program:
    """One kernel ready to execute.

    Attributes:
        function: The decoded entry it came from.
        code: Bytecode (`INSN_DTYPE`).
        ext: Operand references of vector operands.
        consts: The constant pool.
        rf_bytes: Bytes of one warp's register file.
        origin: Per bytecode row, the index of its PTX instruction.
        static_smem: Bytes of statically declared shared memory.
        local_bytes: Bytes of local memory a thread.
        unsupported: PTX line and reason of every instruction without semantics.
    """

    function: ir.Function
    code: NDArray[np.void]
    ext: NDArray[np.int32]
    consts: NDArray[np.uint8]
    rf_bytes: int
    origin: NDArray[np.int32]
    static_smem: int
    local_bytes: int
    unsupported: tuple[tuple[int, str], ...]

    @property
    def tensor_memory(self) -> bool:
        """Whether the kernel uses tensor memory: it has a tcgen05 instruction."""
        return any(i.op.startswith("tcgen05") for i in self.function.instructions)

    @cached_property
    def undefined(self) -> Undefined:
        """Registers that some path reads before it writes them."""
        return undefined_in(self.function)

    def instruction(self, pc: int) -> ir.Instruction | None:
        """The PTX instruction a bytecode row came from."""
        index = int(self.origin[pc])
        return self.function.instructions[index] if index >= 0 else None


def _align(value: int, to: int) -> int:
    return -(-value // to) * to


@dataclass(frozen=True, kw_only=True)
class _Layout:
    symbols: dict[str, tuple[str, int]]
    static_smem: int
    local_bytes: int


def shared_symbols(function: ir.Function) -> dict[str, int]:
    """Return the shared addresses of a function's variables by name.

    Raises:
        UnsupportedError: it declares more memory than any chip has.
    """
    symbols = _place(function, {}).symbols
    return {name: at for name, (space, at) in symbols.items() if space == "shared"}


def _place(function: ir.Function, globals_at: dict[str, int]) -> _Layout:
    """Give every variable an address in its space."""
    symbols: dict[str, tuple[str, int]] = {}
    shared, local = SMEM_BASE, 0
    dynamic: list[ir.Variable] = []
    for var in function.variables:
        if var.space == "shared" and var.size == 0:
            dynamic.append(var)
        elif var.space == "shared":
            shared = _align(shared, max(var.align, 1))
            symbols[var.name] = ("shared", shared)
            shared += var.size
        elif var.space == "local":
            local = _align(local, max(var.align, 1))
            symbols[var.name] = ("local", local)
            local += var.size
        elif var.name in globals_at:
            symbols[var.name] = (var.space, globals_at[var.name])
    if shared - SMEM_BASE > _MAX_SHARED or local > _MAX_LOCAL:
        raise UnsupportedError(
            f"{function.name} declares {shared - SMEM_BASE} bytes of shared and "
            f"{local} bytes of local memory, more than any chip has"
        )
    # Dynamic shared memory starts behind the static part, as aligned as declared.
    if dynamic:
        shared = _align(shared, max(max(v.align for v in dynamic), 1))
        for var in dynamic:
            symbols[var.name] = ("shared", shared)
    for param in function.params:
        symbols[param.name] = ("param", param.offset)
    return _Layout(
        symbols=symbols,
        static_smem=shared - SMEM_BASE,
        local_bytes=_align(local, 16),
    )


def arch_number(target: str) -> int:
    """`sm_120a` -> 120.

    Raises:
        UnsupportedError: for a target that is not an `sm_` one.
    """
    digits = "".join(c for c in target.removeprefix("sm_") if c.isdigit())
    if not target.startswith("sm_") or not digits:
        raise UnsupportedError(f"unknown PTX target {target!r}: expected sm_NN")
    return int(digits)


def lower(
    function: ir.Function,
    *,
    globals_at: dict[str, int] | None = None,
    dynamic_smem: int = 0,
    share: bool = True,
    past: Collection[int] = (),
) -> Program:
    """Lower a decoded kernel to bytecode.

    An instruction without semantics becomes one that stops the launch when it is
    executed, and is listed in `Program.unsupported`; lowering itself goes on.

    Args:
        function: The decoded entry.
        globals_at: Virtual addresses of `.global` and `.const` variables.
        dynamic_smem: Bytes the launch asks for, for `%dynamic_smem_size`.
        share: Let registers that are never alive together share a row.
        past: Waits for loads of tensor memory, by index, behind which the first read
            of their registers is told as well (`guard_loads`).

    Raises:
        UnsupportedError: for a target or a memory demand no device has.
    """
    layout = _place(function, globals_at or {})
    low = Builder(
        symbols=layout.symbols,
        function=function,
        dynamic_smem=dynamic_smem,
        arch=arch_number(function.target),
        shared_rows=share_rows(function) if share else {},
    )
    ops = load().ops
    unsupported: list[tuple[int, str]] = []
    start: list[int] = []
    for ins in function.instructions:
        start.append(len(low.rows))
        low.begin(ins)
        reason = ""
        if not ins.known:
            reason = ins.refused or "unknown instruction"
        else:
            family = FAMILIES.get(ins.op)
            if family is None:
                reason = "no semantics for this instruction"
            else:
                try:
                    family(low, ins)
                    missing = [r.op for r in low.rows[start[-1] :] if r.op not in ops]
                    if missing:
                        reason = f"no operation {missing[0]}"
                except Unsupported as why:
                    reason = str(why)
                except (
                    KeyError,
                    IndexError,
                    TypeError,
                    ValueError,
                    OverflowError,
                ) as e:
                    # An operand or modifier the form allows but the family's
                    # function does not expect: not executed, never guessed at.
                    reason = f"operands not understood ({type(e).__name__}: {e})"
        if reason:
            del low.rows[start[-1] :]
            low.emit("unsupported", imm=len(unsupported))
            unsupported.append((ins.line, f"{ins.spelling}: {reason}"))
    low.begin(None)
    start.append(len(low.rows))
    low.emit("exit")
    low.rows, start = guard_loads(function, low.rows, start, past)
    return _link(function, low, layout, start, tuple(unsupported), ops)


def _link(
    function: ir.Function,
    low: Builder,
    layout: _Layout,
    start: list[int],
    unsupported: tuple[tuple[int, str], ...],
    ops: dict[str, int],
) -> Program:
    base: dict[tuple[str, int], int] = {}
    rf_bytes = 0
    for width in (1, 32, 64, 128):
        rf_bytes = _align(rf_bytes, 64)
        base["reg", width] = rf_bytes
        rf_bytes += low.counts.get(width, 0) * _ROW_BYTES[width]
        base["temp", width] = rf_bytes
        rf_bytes += low.most_temps.get(width, 0) * _ROW_BYTES[width]
    const_bytes = 0
    for width in (1, 32, 64, 128):
        const_bytes = _align(const_bytes, 64)
        base["const", width] = const_bytes
        same = sum(1 for w, _ in low.constants if w == width)
        const_bytes += same * _ROW_BYTES[width]

    # References have many readers; sources narrower than they look are caught here.
    def offset(ref: Ref | int | None) -> int:
        if ref is None:
            return abi.NOREF
        if isinstance(ref, int):
            return ref
        at = base[ref.kind, ref.width] + ref.index * _ROW_BYTES[ref.width]
        return ~at if ref.kind == "const" else at

    code = np.zeros(len(low.rows), abi.INSN_DTYPE)
    ext: list[int] = []
    for k, row in enumerate(low.rows):
        _encode(code[k : k + 1], row, ops, ext, offset, start)
    pool = np.zeros(_align(const_bytes, 64) + 64, np.uint8)
    for (width, bits), ref in low.constants.items():
        at = base["const", width] + ref.index * _ROW_BYTES[width]
        if width == 1:
            pool[at : at + 4] = 0xFF if bits else 0
        elif width == 128:
            halves = np.array([bits & (2**64 - 1), bits >> 64], np.uint64)
            pool[at : at + 512] = np.repeat(halves, 32).view(np.uint8)
        else:
            kind = np.uint32 if width == 32 else np.uint64
            lanes = np.full(32, bits, kind)
            pool[at : at + _ROW_BYTES[width]] = lanes.view(np.uint8)
    return Program(
        function=function,
        code=code,
        ext=np.array([*ext, 0], np.int32),
        consts=pool,
        rf_bytes=max(_align(rf_bytes, 64), 64),
        origin=np.array([r.pc_of for r in low.rows], np.int32),
        static_smem=layout.static_smem,
        local_bytes=layout.local_bytes,
        unsupported=unsupported,
    )


def _encode(
    slot: NDArray[np.void],
    row: Row,
    ops: dict[str, int],
    ext: list[int],
    offset: Callable[[Ref | int | None], int],
    start: list[int],
) -> None:
    s = slot[0]
    s["op"] = ops[row.op]
    s["guard"] = offset(row.guard)
    s["guard_neg"] = row.guard_neg
    for name in "dabc":
        s[name] = offset(getattr(row, name))
    s["x"] = [offset(v) for v in row.x]
    s["ext"] = len(ext)
    s["imm"] = row.imm if row.target is None else start[row.target]
    if row.targets:
        ext.extend(start[t] for t in row.targets)
        s["n_ext"] = len(row.targets)
    else:
        ext.extend(offset(v) for v in row.ext)
        s["n_ext"] = len(row.ext)
