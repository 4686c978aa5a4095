"""The bytecode builder: operands become references, instructions become rows."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sidestream.harness.exec.abi import NOREF
from sidestream.harness.ptx import ir

WIDTHS = {
    "pred": 1,
    "b8": 32,
    "u8": 32,
    "s8": 32,
    "b16": 32,
    "u16": 32,
    "s16": 32,
    "f16": 32,
    "bf16": 32,
    "b32": 32,
    "u32": 32,
    "s32": 32,
    "f32": 32,
    "f16x2": 32,
    "bf16x2": 32,
    "b64": 64,
    "u64": 64,
    "s64": 64,
    "f64": 64,
    "f32x2": 64,
    "b128": 128,
}
"""Row width of a register type; types of up to 32 bits share one row form."""


_NARROW = {
    **dict.fromkeys(("b8", "u8", "s8"), 8),
    **dict.fromkeys(("b16", "u16", "s16", "f16", "bf16"), 16),
}
"""Bits of the types that fill only part of their row."""


class Unsupported(Exception):
    """The instruction has no semantics here; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Ref:
    """A row numbered per width; `kind` is `reg`, `temp` or `const`."""

    kind: str
    width: int
    index: int


@dataclass(slots=True)
class Row:
    """One bytecode instruction before references become byte offsets."""

    op: str
    pc_of: int
    """Index of the PTX instruction it came from."""
    guard: Ref | None
    guard_neg: bool
    d: Ref | None
    a: Ref | None
    b: Ref | None
    c: Ref | None
    x: tuple[int | Ref, ...]
    ext: tuple[Ref | int | None, ...]
    imm: int
    target: int | None = None
    """PTX instruction index to branch to, resolved into `imm`."""
    targets: tuple[int, ...] = ()
    """PTX instruction indices resolved into `ext` (indexed branch)."""


@dataclass(slots=True)
class Builder:
    """Collects rows for one function.

    `symbols` gives the address of every variable and parameter: shared and local
    variables as window offsets, parameters as parameter-space offsets, global ones
    as virtual addresses.
    """

    symbols: dict[str, tuple[str, int]]
    rows: list[Row] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)
    """Rows used so far by registers, per width."""
    temps: dict[int, int] = field(default_factory=dict)
    """Scratch rows used by the current instruction, per width."""
    most_temps: dict[int, int] = field(default_factory=dict)
    registers: dict[int, Ref] = field(default_factory=dict)
    shared_rows: dict[int, int] = field(default_factory=dict)
    """Row of each register as given by `registers.share_rows`; empty: one each."""
    constants: dict[tuple[int, int], Ref] = field(default_factory=dict)
    current: ir.Instruction | None = None
    function: ir.Function | None = None
    """What is lowered, for families that look at more than one instruction."""
    dynamic_smem: int = 0
    arch: int = 0

    # --- operands ---------------------------------------------------------------
    def begin(self, ins: ir.Instruction | None) -> None:
        """Start the rows of one PTX instruction; its predecessor's temps are free."""
        self.current = ins
        self.temps.clear()

    def temp(self, width: int) -> Ref:
        """A scratch row of `width` bits (1 is a predicate), for this instruction."""
        index = self.temps.get(width, 0)
        self.temps[width] = index + 1
        self.most_temps[width] = max(self.most_temps.get(width, 0), index + 1)
        return Ref("temp", width, index)

    def const(self, bits: int, width: int) -> Ref:
        """A constant row with `bits` in every lane."""
        key = (width, bits & ((1 << width) - 1))
        if key not in self.constants:
            same = sum(1 for w, _ in self.constants if w == width)
            self.constants[key] = Ref("const", width, same)
        return self.constants[key]

    def register(self, reg: ir.Register) -> Ref:
        """The row of a PTX register."""
        if reg.id not in self.registers:
            width = WIDTHS.get(reg.type)
            if width is None:
                raise Unsupported(f"register type .{reg.type}")
            used = self.counts.get(width, 0)
            row = self.shared_rows.get(reg.id, used)
            self.counts[width] = max(used, row + 1)
            self.registers[reg.id] = Ref("reg", width, row)
        return self.registers[reg.id]

    def immediate(self, value: ir.Immediate, width: int, ftype: str = "") -> Ref:
        """A literal as a constant row of type `ftype`.

        Float literals are rounded to an f32 row; narrow integers are cut to their
        type's bits, as rows hold them.
        """
        bits = value.value
        narrow = _NARROW.get(ftype)
        if narrow is not None:
            if value.kind != "int":
                raise Unsupported(f"floating-point literal as .{ftype}")
            bits &= (1 << narrow) - 1
        if value.kind == "f64" and width <= 32:
            number = struct.unpack("<d", struct.pack("<Q", bits))[0]
            bits = int.from_bytes(struct.pack("<f", number), "little")
        elif value.kind == "f32" and width == 64:
            number = struct.unpack("<f", struct.pack("<I", bits))[0]
            bits = struct.unpack("<Q", struct.pack("<d", number))[0]
        elif value.kind == "int" and ftype in ("f32", "f64"):
            raise Unsupported("integer literal as a floating-point operand")
        return self.const(bits, width)

    def source(self, operand: ir.Operand, width: int, ftype: str = "") -> Ref:
        """Reference to a source operand of `width` bits.

        A register narrower or wider than `width` is allowed where PTX allows it:
        rows of up to 32 bits are shared, and 64-bit rows are narrowed by a move.
        """
        match operand:
            case ir.Register():
                ref = self.register(operand)
                return self.fit(ref, width)
            case ir.Negated():
                ref = self.temp(1)
                self.emit("not.pred", d=ref, a=self.register(operand.register))
                return ref
            case ir.Immediate():
                return self.immediate(operand, width, ftype)
            case ir.Special():
                ref = self.temp(64 if width == 64 else 32)
                from sidestream.harness.exec.lower.special import emit_special

                emit_special(self, ref, operand.name)
                return ref
            case ir.Symbol():
                return self.variable(operand, width)
            case ir.Vector():
                return self.pack(operand, width)
            case ir.Sink():
                return self.const(0, width)
        raise Unsupported(f"operand {operand!r}")

    def fit(self, ref: Ref, width: int) -> Ref:
        """Convert a row between the 32- and 64-bit forms (truncate or zero-extend)."""
        if ref.width == width or width == 1 or ref.width == 1:
            if (ref.width == 1) != (width == 1):
                raise Unsupported("predicate where a value is needed, or the reverse")
            return ref
        if ref.width == 64 and width == 32:
            out = self.temp(32)
            self.emit("mov.lo", d=out, a=ref, guarded=False)
            return out
        if ref.width == 32 and width == 64:
            out = self.temp(64)
            self.emit("zext.b64", d=out, a=ref, guarded=False)
            return out
        raise Unsupported(f"{ref.width}-bit register where {width} bits are needed")

    def pack(self, vector: ir.Vector, width: int) -> Ref:
        """`{a, b, ...}` as one source row of `width` bits."""
        n = len(vector.elements)
        part = width // n if n else 0
        ops = {(64, 32): "pack.b64", (32, 16): "pack.b32", (64, 16): "pack4.b64"}
        ops |= {(128, 64): "pack.b128", (32, 8): "pack4.b32", (16, 8): "pack.b16"}
        if (width, part) not in ops:
            raise Unsupported(f"pack of {n} elements into {width} bits")
        out = self.temp(WIDTHS[f"b{width}"])
        refs = [self.source(e, 64 if part == 64 else 32) for e in vector.elements]
        self.emit(ops[width, part], d=out, ext=refs, guarded=False)
        return out

    def dest(self, operand: ir.Operand, width: int) -> Ref:
        """Reference to a destination; `_` gives a row nobody reads."""
        if isinstance(operand, ir.Sink):
            return self.temp(width)
        if isinstance(operand, ir.Register):
            ref = self.register(operand)
            if ref.width != width:
                raise Unsupported(
                    f"destination {operand.name} of {ref.width} bits where "
                    f"{width} are written"
                )
            return ref
        raise Unsupported(f"destination {operand!r}")

    def pred(self, operand: ir.Operand) -> Ref:
        """A predicate source (register, negated register or literal 0/1)."""
        if isinstance(operand, ir.Immediate):
            return self.const(1 if operand.value else 0, 1)
        return self.source(operand, 1)

    def optional_dest(self, operand: ir.Operand | None, width: int) -> Ref | None:
        """A destination that may be absent or `_`; None then (NOREF)."""
        if operand is None or isinstance(operand, ir.Sink):
            return None
        return self.dest(operand, width)

    def variable(self, symbol: ir.Symbol, width: int) -> Ref:
        """A row with a variable's address; a shared one has its CTA's rank in it."""
        at = self.symbol(symbol) + symbol.offset
        if symbol.space != "shared":
            return self.const(at, width)
        row = self.temp(width)
        self.emit(f"smem.addr.{width}", d=row, imm=at, guarded=False)
        return row

    def symbol(self, symbol: ir.Symbol) -> int:
        """Address of a variable in its own space."""
        if symbol.name not in self.symbols:
            raise Unsupported(f"address of {symbol.name}")
        return self.symbols[symbol.name][1]

    def address(self, address: ir.Address, width: int = 64) -> tuple[Ref, int]:
        """Base row of `width` bits and byte offset of `[base + offset]`."""
        base = address.base
        if isinstance(base, ir.Immediate):
            return self.const(base.value, width), address.offset
        if isinstance(base, ir.Symbol):
            return self.variable(base, width), address.offset
        return self.source(base, width), address.offset

    # --- rows -------------------------------------------------------------------
    def emit(
        self,
        op: str,
        *,
        d: Ref | None = None,
        a: Ref | None = None,
        b: Ref | None = None,
        c: Ref | None = None,
        x: Sequence[int | Ref | None] = (),
        ext: Iterable[Ref | int | None] = (),
        imm: int = 0,
        target: int | None = None,
        targets: Sequence[int] = (),
        guarded: bool = True,
    ) -> None:
        """Append one row, under the current instruction's guard if `guarded`."""
        ins = self.current
        guard = None
        negated = False
        if guarded and ins is not None and ins.guard is not None:
            guard, negated = self.register(ins.guard), ins.guard_negated
        xs = tuple(NOREF if v is None else v for v in x)
        self.rows.append(
            Row(
                op=op,
                pc_of=ins.index if ins else -1,
                guard=guard,
                guard_neg=negated,
                d=d,
                a=a,
                b=b,
                c=c,
                x=xs + (0,) * (4 - len(xs)),
                ext=tuple(ext),
                imm=imm,
                target=target,
                targets=tuple(targets),
            )
        )
