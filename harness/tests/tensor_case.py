"""Tensor maps and tiles for tests: an independent statement of what TMA does.

A tensor is read element by element with coordinates; a tile in shared memory is
placed chunk by chunk with the swizzle table of the PTX ISA. Nothing here shares a
formula with the execution core.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sidestream.harness.exec import abi
from sidestream.harness.exec.machine import Options, Result, execute
from sidestream.harness.exec.program import Program, lower
from sidestream.harness.launch import Launch
from sidestream.harness.ptx.decode import decode
from sidestream.harness.ptx.parser import parse

Bytes = NDArray[np.uint8]

TYPES = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32.ftz", "f64")
TYPES += ("bf16",)
SIZE = {"u8": 1, "u16": 2, "f16": 2, "bf16": 2, "u64": 8, "s64": 8, "f64": 8}
GLOBAL = 0x7000_0000_0000
SPACING = 1 << 28
SMEM = 16384
"""Bytes of shared memory of `load_box` and `store_box`."""
FILL = 0xA5


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """A tensor in global memory and the box its map copies."""

    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...] = ()
    swizzle: int = 0
    nan_fill: bool = False
    offset: int = 0
    """Bytes from the start of its buffer."""

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return SIZE.get(self.dtype, 4)

    @property
    def span(self) -> int:
        """Bytes from row to row of the tile."""
        return 16 << self.swizzle if self.swizzle else self.box[0] * self.size

    def counts(self) -> tuple[int, ...]:
        """Elements of the box that are copied in each dimension."""
        steps = self.steps or (1,) * len(self.box)
        pairs = zip(self.box[1:], steps[1:], strict=True)
        return (self.box[0], *(-(-box // step) for box, step in pairs))

    def box_bytes(self) -> int:
        """Bytes that a load signals."""
        return int(np.prod(self.counts())) * self.size

    def tile_bytes(self) -> int:
        """Bytes of shared memory that the tile covers."""
        return int(np.prod(self.counts()[1:], initial=1)) * self.span

    def map(self, base: int, *, version: int = 2) -> bytes:
        """The 128-byte map of the tensor over a buffer at `base`."""
        words = [0] * 32
        address = base + self.offset
        words[0], words[1] = address % 2**32, address // 2**32
        words[2] = version + (len(self.dims) - 1 << 4) + (TYPES.index(self.dtype) << 7)
        words[2] += (self.swizzle << 13) + (int(self.nan_fill) << 15)
        for d, stride in enumerate(self.strides):
            words[3 + d] = stride // 16 % 2**32
            words[7] += stride // 2**36 << 4 * d
        for d, extent in enumerate(self.dims):
            words[8 + d] = extent - 1
        for d, step in enumerate(self.steps):
            words[13] += step - 1 << 3 * d
        words[13] += self.box[0] - 1 << 24
        for d, box in enumerate(self.box[1:]):
            words[14] += box - 1 << 8 * d
        return np.array(words, np.uint32).tobytes()

    def elements(self, coords: tuple[int, ...]):
        """(place in the tile's rows, coordinates or None if outside) of every element.

        The place is (row number, element of the row).
        """
        counts = self.counts()
        steps = self.steps or (1,) * len(self.dims)
        rows = itertools.product(*(range(n) for n in reversed(counts[1:])))
        for number, outer in enumerate(rows):
            outer = tuple(reversed(outer))
            for x in range(counts[0]):
                at = [coords[0] + x]
                at += [
                    c + k * s
                    for c, k, s in zip(coords[1:], outer, steps[1:], strict=True)
                ]
                inside = all(0 <= v < n for v, n in zip(at, self.dims, strict=True))
                yield (number, x), tuple(at) if inside else None

    def place(self, at: tuple[int, ...]) -> int:
        """Byte offset in the buffer of the element at coordinates `at`."""
        strides = (self.size, *self.strides)
        return self.offset + sum(c * s for c, s in zip(at, strides, strict=True))

    def chunk(self, start: int, number: int, x: int) -> int:
        """Shared-memory address of element `x` of row `number` of a tile at `start`.

        In each 128-byte line the eight 16-byte chunks change places: a chunk's number
        is combined, exclusive-or, with the low bits of the line's number; one bit of
        it for a 32-byte swizzle, two for 64, three for 128.
        """
        line, inside = divmod(start + number * self.span + x * self.size, 128)
        chunk, byte = divmod(inside, 16)
        return line * 128 + (chunk ^ line % (1 << self.swizzle)) * 16 + byte


@dataclass
class Ran:
    """Buffers after a run, and the machine's result."""

    buffers: list[Bytes]
    result: Result
    program: Program


def _dims(size: int | tuple[int, int, int]) -> tuple[int, int, int]:
    return (size, 1, 1) if isinstance(size, int) else size


@dataclass(kw_only=True)
class Kernel:
    """Statements of a kernel with buffers `%g0..` and maps `%m0..` as parameters."""

    body: str
    buffers: list[Bytes]
    maps: list[tuple[Tensor | bytes, int]] = field(default_factory=list)
    """Each map: the tensor (or raw bytes) and the buffer it lies over."""
    smem: int = 8192
    threads: int = 32
    grid: int | tuple[int, int, int] = 1
    cluster: int | tuple[int, int, int] = 1
    target: str = "sm_120a"
    options: Options = field(default_factory=Options)

    def text(self) -> str:
        """The PTX module."""
        params = [f".param .u64 g{k}" for k in range(len(self.buffers))]
        params += [f".param .align 64 .b8 m{k}[128]" for k in range(len(self.maps))]
        head = [
            f".version 9.0\n.target {self.target}\n.address_size 64",
            f".visible .entry k({', '.join(params)})\n{{",
            ".reg .pred %p<4>;\n.reg .b32 %r<8>, %t, %s, %bar, %lane;",
            f".reg .b64 %x<8>, %g<{len(self.buffers)}>, %m<{len(self.maps) + 1}>;",
            f".shared .align 1024 .b8 tile[{self.smem}];\n.shared .b64 bars[4];",
            "mov.u32 %t, %tid.x;\nmov.u32 %s, tile;\nmov.u32 %bar, bars;",
            "mov.u32 %lane, %laneid;",
        ]
        head += [f"ld.param.u64 %g{k}, [g{k}];" for k in range(len(self.buffers))]
        head += [
            f"mov.b64 %m{k}, m{k};\ncvta.param.u64 %m{k}, %m{k};"
            for k in range(len(self.maps))
        ]
        return "\n".join([*head, self.body, "ret;\n}\n"])

    def run(self) -> Ran:
        """Execute on copies of the buffers."""
        text = self.text()
        program = lower(decode(parse(text)))
        buffers = [b.copy() for b in self.buffers]
        table = np.zeros(len(buffers), abi.ALLOC_DTYPE)
        params = []
        for k, buffer in enumerate(buffers):
            at = GLOBAL + k * SPACING
            flags = abi.ALLOC_READ | abi.ALLOC_WRITE
            table[k] = (at, buffer.nbytes, buffer.ctypes.data, 0, k, flags)
            params.append(at.to_bytes(8, "little"))
        for tensor, number in self.maps:
            base = GLOBAL + number * SPACING
            raw = tensor if isinstance(tensor, bytes) else tensor.map(base)
            params.append(raw)
        launch = Launch(
            kernel="k",
            ptx=text,
            grid=_dims(self.grid),
            block=(self.threads, 1, 1),
            cluster=_dims(self.cluster),
            params=tuple(params),
        )
        result = execute(program, launch, table, self.options)
        return Ran(buffers=buffers, result=result, program=program)


def copy_tile(direction: str, buffer: int, size: int) -> str:
    """Statements that move the whole tile from or to a buffer, by one warp."""
    load = direction == "in"
    source, to = ("[%x0]", "[%r1]") if load else ("[%r1]", "[%x0]")
    first, second = ("global", "shared") if load else ("shared", "global")
    label = f"MOVE_{direction.upper()}"
    return (
        f"shl.b32 %r0, %t, 2;\n{label}: setp.ge.u32 %p0, %r0, {size};\n"
        f"@%p0 bra {label}_END;\nadd.u32 %r1, %s, %r0;\ncvt.u64.u32 %x0, %r0;\n"
        f"add.u64 %x0, %x0, %g{buffer};\nld.{first}.b32 %r2, {source};\n"
        f"st.{second}.b32 {to}, %r2;\nadd.u32 %r0, %r0, 128;\nbra {label};\n"
        f"{label}_END: bar.sync 0;\nfence.proxy.async.shared::cta;\n"
    )


def only_thread(number: int, statements: str, label: str) -> str:
    """Statements for one thread; the others wait at the barrier behind."""
    return (
        f"setp.ne.u32 %p1, %t, {number};\n@%p1 bra {label};\n{statements}\n"
        f"{label}: bar.sync 0;\n"
    )


def braces(values) -> str:
    """`{a, b, c}`."""
    return "{" + ", ".join(str(v) for v in values) + "}"


def random_bytes(size: int, seed: int = 0) -> Bytes:
    """Reproducible bytes."""
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


def plane(dtype: str, inner: int, swizzle: int, **more: object) -> Tensor:
    """A plane whose rows end inside their pitch, with a box `inner` bytes wide."""
    size = Tensor(dtype=dtype, dims=(1,), strides=(), box=(1,)).size
    given = {"dims": (200 // size, 37), "strides": (224,), "box": (inner // size, 11)}
    return Tensor(dtype=dtype, swizzle=swizzle, offset=4096, **(given | more))


def load_box(
    tensor: Tensor,
    coords: tuple[int, ...],
    *,
    at: int = 0,
    size: int = 1 << 16,
    options: Options | None = None,
) -> tuple[Bytes, Ran]:
    """Load one box into a filled tile and return the tile and the run."""
    issue = (
        "mbarrier.init.shared.b64 [%bar], 1;\n"
        f"mbarrier.arrive.expect_tx.shared.b64 _, [%bar], {tensor.box_bytes()};\n"
        f"cp.async.bulk.tensor.{len(coords)}d.shared::cta.global.tile"
        f".mbarrier::complete_tx::bytes [%s+{at}], [%m0, {braces(coords)}], [%bar];"
    )
    body = copy_tile("in", 1, SMEM) + only_thread(0, issue, "ISSUED")
    body += "WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%bar], 0;\n"
    body += "@!%p2 bra WAIT;\n" + copy_tile("out", 2, SMEM)
    source = random_bytes(size, 1)
    ran = Kernel(
        body=body,
        buffers=[source, np.full(SMEM, FILL, np.uint8), np.zeros(SMEM, np.uint8)],
        maps=[(tensor, 0)],
        smem=SMEM,
        options=options or Options(),
    ).run()
    return source, ran


def store_box(
    tensor: Tensor,
    coords: tuple[int, ...],
    *,
    red: str = "",
    at: int = 0,
    size: int = 1 << 16,
    options: Options | None = None,
    lanes: int = 1,
    mask: int = 0xFF,
) -> tuple[Bytes, Bytes, Ran]:
    """Store or reduce one box: the tile, the destination before, and the run.

    `mask` is laid over every byte of both, to make equal elements common.
    """
    name = "cp.reduce.async.bulk.tensor" if red else "cp.async.bulk.tensor"
    middle = f"{red}.tile" if red else "tile"
    body = copy_tile("in", 0, SMEM)
    body += (
        f"setp.ge.u32 %p1, %t, {lanes};\n@%p1 bra OUT;\n"
        f"{name}.{len(coords)}d.global.shared::cta.{middle}.bulk_group "
        f"[%m0, {braces(coords)}], [%s+{at}];\n"
        "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nOUT:"
    )
    source, target = random_bytes(SMEM, 3) & mask, random_bytes(size, 4) & mask
    ran = Kernel(
        body=body,
        buffers=[source, target],
        maps=[(tensor, 1)],
        smem=SMEM,
        options=options or Options(),
    ).run()
    return source, target, ran
