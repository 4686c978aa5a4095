"""Cases of tensor and bulk copies: every swizzle, element size, edge and reduction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hw_case import Case, MapSpec, f32_words, halves, hashed, header, integers

BYTES = {
    **dict.fromkeys(("u8",), 1),
    **dict.fromkeys(("u16", "f16", "bf16"), 2),
    **dict.fromkeys(("u32", "s32", "f32", "f32.ftz", "tf32", "tf32.ftz"), 4),
    **dict.fromkeys(("u64", "s64", "f64"), 8),
}
_SPINS = 200000
_THREADS = 64

# Bounded, so that a barrier that never completes is an answer and not a hang.
_WAIT = f"""mov.b32 %n, 0;
WAIT: mbarrier.try_wait.parity.shared.b64 %p0, [bar], 0;
@%p0 bra DONE;
add.u32 %n, %n, 1;
setp.lt.u32 %p1, %n, {_SPINS};
@%p1 bra WAIT;
DONE: selp.b32 %flag, 1, 0, %p0;
"""


def _start(module: str, maps: int, tile: int) -> str:
    params = [".param .u64 p_in", ".param .u64 p_out"]
    params += [f".param .align 64 .b8 p_map{k}[128]" for k in range(maps)]
    return header(", ".join(params), module=module) + (
        ".reg .pred %p<4>;\n.reg .b32 %t, %a, %s, %n, %w, %flag, %v;\n"
        ".reg .b64 %in, %out, %m, %x, %y;\n"
        f".shared .align 1024 .b8 tile[{tile}];\n.shared .align 8 .b64 bar;\n"
        "ld.param.u64 %in, [p_in];\nld.param.u64 %out, [p_out];\n"
        "mov.u32 %t, %tid.x;\nmov.u32 %s, tile;\nmov.b32 %flag, 0;\n"
        + "".join(
            f"mov.b64 %m, p_map{k};\ncvta.param.u64 %m, %m;\n" for k in range(maps)
        )
        + "setp.ne.u32 %p2, %t, 0;\n"
    )


def _each_word(label: str, tile: int, body: str) -> str:
    """Loop of all threads over the tile's words; `%w` is the byte offset."""
    return (
        f"shl.b32 %w, %t, 2;\n{label}:\nsetp.ge.u32 %p3, %w, {tile};\n"
        f"@%p3 bra {label}_END;\nadd.u32 %a, %s, %w;\ncvt.u64.u32 %x, %w;\n{body}\n"
        f"add.u32 %w, %w, {4 * _THREADS};\nbra {label};\n{label}_END:\nbar.sync 0;\n"
    )


def _coords(values: Sequence[int]) -> str:
    return "{" + ", ".join(str(v) for v in values) + "}"


def _box_bytes(spec: MapSpec, *, padded: bool = False) -> int:
    """Bytes of the box, or its room in shared memory, where rows fill the swizzle."""
    total = spec.box[0] * BYTES[spec.dtype]
    if padded and spec.swizzle:
        total = 16 << spec.swizzle
    steps = spec.steps or (1,) * len(spec.box)
    for box, step in zip(spec.box[1:], steps[1:], strict=True):
        total *= -(-box // step)
    return total


def _data(dtype: str, size: int, seed: int) -> np.ndarray:
    """Bytes of a tensor of `dtype`; floats of common and of special values."""
    if dtype in ("f32", "f32.ftz", "tf32", "tf32.ftz"):
        words = f32_words(seed, size // 4)
    elif dtype in ("f16", "bf16"):
        words = halves(seed, size // 4)
    elif dtype in ("u32", "s32"):
        words = integers(seed, size // 4)
    else:
        words = hashed(seed, size // 4)
    return words.view(np.uint8)


def load(
    name: str,
    spec: MapSpec,
    size: int,
    coords: Sequence[int],
    *,
    at: int = 0,
    lanes: int = 1,
    transactions: int = 1,
) -> Case:
    """A tensor load into a filled tile; the whole tile and a flag are the result."""
    moved = _box_bytes(spec)
    tile = at + -(-_box_bytes(spec, padded=True) // 1024) * 1024
    text = _start("", 1, tile)
    text += _each_word("FILL", tile, "st.shared.b32 [%a], 0xa5a5a5a5;")
    text += (
        "@%p2 bra READY;\nmbarrier.init.shared.b64 [bar], 1;\n"
        "fence.proxy.async.shared::cta;\n"
        f"mbarrier.arrive.expect_tx.shared.b64 _, [bar], {moved * transactions};\n"
        "READY: bar.sync 0;\n"
        f"setp.ge.u32 %p2, %t, {lanes};\n@%p2 bra ISSUED;\n"
        f"add.u32 %a, %s, {at};\n"
        f"cp.async.bulk.tensor.{len(coords)}d.shared::cluster.global.tile"
        f".mbarrier::complete_tx::bytes [%a], [%m, {_coords(coords)}], [bar];\n"
        f"ISSUED:\n{_WAIT}"
    )
    text += _each_word(
        "READ", tile, "add.u64 %y, %out, %x;\nld.shared.b32 %v, [%a];\n"
        "st.global.b32 [%y], %v;",
    )  # fmt: skip
    text += f"@%p2 bra OUT;\nst.global.b32 [%out+{tile}], %flag;\nOUT: ret;\n}}\n"
    return Case(
        name=f"tma load {name}",
        text=text,
        buffers=(_data(spec.dtype, size, len(name)), np.zeros(tile + 4, np.uint8)),
        outputs=(1,),
        block=_THREADS,
        maps=(spec,),
    )


def store(
    name: str,
    spec: MapSpec,
    size: int,
    coords: Sequence[int],
    *,
    red: str = "",
    at: int = 0,
    lanes: int = 1,
) -> Case:
    """A tensor store or reduction; the whole destination is the result."""
    tile = at + -(-_box_bytes(spec, padded=True) // 1024) * 1024
    op = f"cp.reduce.async.bulk.tensor.{len(coords)}d.global.shared::cta.{red}.tile"
    if not red:
        op = f"cp.async.bulk.tensor.{len(coords)}d.global.shared::cta.tile"
    text = _start("", 1, tile)
    text += _each_word(
        "FILL", tile, "add.u64 %y, %in, %x;\nld.global.b32 %v, [%y];\n"
        "st.shared.b32 [%a], %v;",
    )  # fmt: skip
    text += (
        "fence.proxy.async.shared::cta;\nbar.sync 0;\n"
        f"setp.ge.u32 %p2, %t, {lanes};\n@%p2 bra OUT;\nadd.u32 %a, %s, {at};\n"
        f"{op}.bulk_group [%m, {_coords(coords)}], [%a];\n"
        "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nOUT: ret;\n}\n"
    )
    return Case(
        name=f"tma {'reduce ' + red + ' ' if red else 'store '}{name}",
        text=text,
        buffers=(_data(spec.dtype, tile, 50), _data(spec.dtype, size, 60)),
        outputs=(1,),
        block=_THREADS,
        maps=(spec,),
    )


def _plane(
    dtype: str,
    box: tuple[int, int],
    *,
    buffer: int,
    swizzle: int = 0,
    fill: int = 0,
    steps: tuple[int, ...] = (),
) -> tuple[MapSpec, int]:
    """A plane whose rows end inside their pitch, and the size of its buffer."""
    size = BYTES[dtype]
    pitch = 256 + 32
    columns = 256 // size - 3
    rows = 29
    spec = MapSpec(
        buffer=buffer,
        dtype=dtype,
        dims=(columns, rows),
        strides=(pitch,),
        box=box,
        steps=steps,
        swizzle=swizzle,
        fill=fill,
        offset=512,
    )
    return spec, 512 + pitch * rows + 256


def _loads() -> list[Case]:
    found = []
    for swizzle in range(4):
        for dtype in ("u8", "f16", "f32", "f64"):
            size = BYTES[dtype]
            span = 16 << swizzle if swizzle else 64
            spec, total = _plane(dtype, (span // size, 24), buffer=0, swizzle=swizzle)
            found.append(
                load(f"{dtype} swizzle {swizzle}", spec, total, (16 // size, 2))
            )
        span = 16 << swizzle if swizzle else 48
        spec, total = _plane("f16", (span // 2, 20), buffer=0, swizzle=swizzle)
        for where, coords in (
            ("low corner", (-8, -3)),
            ("high corner", (120, 17)),
            ("outside", (304, 2)),
            ("far below", (-2000000000, -7)),
            ("far above", (2000000000, 2000000000)),
        ):
            found.append(load(f"{where} swizzle {swizzle}", spec, total, coords))
        if swizzle:
            for at in (128, 512, 896):
                found.append(
                    load(f"at {at} swizzle {swizzle}", spec, total, (16, 1), at=at)
                )
            for inner in (8, 24):
                if inner * 2 < span:
                    part, size_ = _plane("f16", (inner, 20), buffer=0, swizzle=swizzle)
                    found.append(
                        load(f"inner {inner} swizzle {swizzle}", part, size_, (8, 1))
                    )
    for dtype in ("u16", "u32", "s32", "u64", "s64", "bf16"):
        spec, total = _plane(dtype, (32 // BYTES[dtype], 9), buffer=0)
        found.append(load(f"type {dtype}", spec, total, (-16 // BYTES[dtype], -1)))
    for dtype in ("f32.ftz", "tf32", "tf32.ftz"):
        spec, total = _plane(dtype, (32, 24), buffer=0)
        found.append(load(f"type {dtype}", spec, total, (4, 1)))
    for dtype in ("f16", "bf16", "f32", "f64", "tf32"):
        spec, total = _plane(
            dtype, (64 // BYTES[dtype], 8), buffer=0, fill=1, swizzle=2
        )
        coords = (-16 // BYTES[dtype], 25)
        found.append(load(f"NaN fill {dtype}", spec, total, coords))
    for steps in ((1, 2), (1, 3), (1, 8)):
        spec, total = _plane("f16", (32, 20), buffer=0, steps=steps)
        found.append(load(f"step {steps[1]}", spec, total, (8, 3)))
        found.append(load(f"step {steps[1]} low edge", spec, total, (8, -5)))
    line = MapSpec(
        buffer=0, dtype="f16", dims=(1001,), strides=(), box=(64,), offset=16
    )
    for start in (0, 8, 992, -16):
        found.append(load(f"1d at {start}", line, 4096, (start,)))
    cube = MapSpec(
        buffer=0, dtype="f32", dims=(13, 6, 5), strides=(64, 400), box=(8, 4, 3),
        swizzle=1,
    )  # fmt: skip
    found.append(load("3d", cube, 4096, (8, 4, 3)))
    four = MapSpec(
        buffer=0, dtype="f16", dims=(20, 5, 4, 3), strides=(48, 256, 1040),
        box=(8, 3, 2, 2), steps=(1, 2, 1, 1),
    )  # fmt: skip
    found.append(load("4d", four, 4096, (16, 1, 3, -1)))
    five = MapSpec(
        buffer=0, dtype="u8", dims=(30, 3, 3, 4, 2),
        strides=(32, 96, 288, 1152), box=(16, 2, 2, 3, 2), swizzle=1,
    )  # fmt: skip
    found.append(load("5d", five, 4096, (16, 1, -1, 2, 1)))
    overlap = MapSpec(
        buffer=0, dtype="f16", dims=(16, 40), strides=(16,), box=(16, 16), swizzle=1
    )
    found.append(load("overlapping rows", overlap, 4096, (0, 30)))
    still = MapSpec(
        buffer=0, dtype="f16", dims=(64, 40), strides=(0,), box=(16, 8), swizzle=0
    )
    found.append(load("stride 0", still, 4096, (8, 3)))
    spec, total = _plane("f16", (32, 16), buffer=0)
    found.append(load("from 32 lanes", spec, total, (0, 0), lanes=32, transactions=32))
    # A box must start on 16 bytes within a row, a tile on 128 in shared memory: the
    # card refuses these.
    found += [
        load("off 16 bytes by 2", spec, total, (9, 0)),
        load("off 16 bytes by 8", spec, total, (-4, 0)),
        load("off 16 bytes in 1d", line, 4096, (7,)),
        load("tile at 16", spec, total, (0, 0), at=16),
        load("tile at 64", spec, total, (0, 0), at=64),
    ]
    return found


def _stores() -> list[Case]:
    found = []
    for swizzle in range(4):
        span = 16 << swizzle if swizzle else 48
        spec, total = _plane("f16", (span // 2, 12), buffer=1, swizzle=swizzle)
        for where, coords in (
            ("inside", (8, 3)),
            ("high corner", (120, 22)),
            ("outside", (24, 30)),
            ("low corner", (-8, -3)),
        ):
            found.append(store(f"{where} swizzle {swizzle}", spec, total, coords))
        found.append(store(f"at 384 swizzle {swizzle}", spec, total, (16, 2), at=384))
    spec, total = _plane("f32", (8, 9), buffer=1, steps=(1, 2))
    found.append(store("step 2", spec, total, (4, 4)))
    for dtype in ("f32.ftz", "tf32", "u8", "f64"):
        spec, total = _plane(dtype, (32 // BYTES[dtype], 16), buffer=1)
        found.append(store(f"type {dtype}", spec, total, (32 // BYTES[dtype], 1)))
    for dtype in ("u8", "f32", "f64"):
        spec, total = _plane(dtype, (32 // BYTES[dtype], 4), buffer=1)
        coords = (240 // BYTES[dtype], 3)
        found.append(store(f"edge of {dtype}", spec, total, coords))
    four = MapSpec(
        buffer=1, dtype="f16", dims=(20, 5, 4, 3), strides=(48, 256, 1040),
        box=(8, 3, 2, 2),
    )  # fmt: skip
    found.append(store("4d", four, 4096, (16, 3, 3, 2)))
    kinds = {
        **dict.fromkeys(
            ("add",), ("u32", "s32", "u64", "f32", "f16", "bf16", "f32.ftz")
        ),
        **dict.fromkeys(("min", "max"), ("u32", "s32", "u64", "s64", "f16", "bf16")),
        **dict.fromkeys(("inc", "dec"), ("u32",)),
        **dict.fromkeys(("and", "or", "xor"), ("u32", "s32", "u64")),
    }
    for red, dtypes in kinds.items():
        for dtype in dtypes:
            spec, total = _plane(dtype, (64 // BYTES[dtype], 16), buffer=1, swizzle=2)
            coords = (16 // BYTES[dtype], 14)
            found.append(store(dtype, spec, total, coords, red=red))
    for dtype in ("u32", "f16"):
        spec, total = _plane(dtype, (32 // BYTES[dtype], 4), buffer=1)
        for red in ("add", "max"):
            coords = (240 // BYTES[dtype], 3)
            found.append(store(f"edge of {dtype}", spec, total, coords, red=red))
    spec, total = _plane("u32", (8, 4), buffer=1)
    for lanes in (2, 32):
        found.append(
            store(f"from {lanes} lanes", spec, total, (4, 2), red="add", lanes=lanes)
        )
    for swizzle in (1, 2, 3):
        spec, total = _plane("f16", (8, 12), buffer=1, swizzle=swizzle)
        found.append(store(f"inner 8 swizzle {swizzle}", spec, total, (16, 2)))
    spec, total = _plane("f16", (8, 4), buffer=1)
    found.append(store("off 16 bytes", spec, total, (2, 2)))
    found.append(store("off 16 bytes", spec, total, (1, 2), red="add"))
    return found


def bulk_load(size: int) -> Case:
    """A bulk copy into shared memory, and a flag of its completion."""
    tile = 2048
    text = _start("", 0, tile)
    text += _each_word("FILL", tile, "st.shared.b32 [%a], 0x5a5a5a5a;")
    text += (
        "@%p2 bra READY;\nmbarrier.init.shared.b64 [bar], 1;\n"
        "fence.proxy.async.shared::cta;\n"
        f"mbarrier.arrive.expect_tx.shared.b64 _, [bar], {size};\n"
        "add.u32 %a, %s, 32;\nadd.u64 %y, %in, 48;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
        f"[%a], [%y], {size}, [bar];\nREADY: bar.sync 0;\n{_WAIT}"
    )
    text += _each_word(
        "READ", tile, "add.u64 %y, %out, %x;\nld.shared.b32 %v, [%a];\n"
        "st.global.b32 [%y], %v;",
    )  # fmt: skip
    text += f"@%p2 bra OUT;\nst.global.b32 [%out+{tile}], %flag;\nOUT: ret;\n}}\n"
    return Case(
        name=f"bulk load {size}",
        text=text,
        buffers=(hashed(5, 1024).view(np.uint8), np.zeros(tile + 4, np.uint8)),
        outputs=(1,),
        block=_THREADS,
    )


def bulk_store(
    size: int, red: str = "", dtype: str = "b32", lanes: int = 1, *, tiny: bool = False
) -> Case:
    """A bulk copy or reduction from shared to global memory, perhaps of subnormals."""
    tile = 1024
    keep = np.tile(np.array([255, 255, 255 if not tiny else 0x7F, 255], np.uint8), 256)
    if tiny:
        keep[3::4] = 0x80
    text = _start("", 0, tile)
    text += _each_word(
        "FILL", tile, "add.u64 %y, %in, %x;\nld.global.b32 %v, [%y];\n"
        "st.shared.b32 [%a], %v;",
    )  # fmt: skip
    op = "cp.async.bulk.global.shared::cta.bulk_group"
    if red:
        noftz = ".noftz" if red == "add" and dtype in ("f16", "bf16") else ""
        op = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{red}{noftz}.{dtype}"
    text += (
        "fence.proxy.async.shared::cta;\nbar.sync 0;\n"
        f"setp.ge.u32 %p2, %t, {lanes};\n@%p2 bra OUT;\nadd.u32 %a, %s, 64;\n"
        f"add.u64 %y, %out, 16;\n{op} [%y], [%a], {size};\n"
        "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nOUT: ret;\n}\n"
    )
    name = f"bulk {'reduce ' + red + ' ' + dtype if red else 'store'} {size}"
    name += " tiny" if tiny else ""
    return Case(
        name=name + (f" from {lanes} lanes" if lanes > 1 else ""),
        text=text,
        buffers=(_data(dtype, tile, 70) & keep, _data(dtype, tile, 80) & keep),
        outputs=(1,),
        block=_THREADS,
    )


def _bulk() -> list[Case]:
    found = [bulk_load(n) for n in (16, 80, 1024)]
    found += [bulk_store(n) for n in (16, 240, 960)]
    for red, dtypes in (
        ("add", ("u32", "s32", "u64", "f32", "f64", "f16", "bf16")),
        ("min", ("u32", "s32", "u64", "s64", "f16", "bf16")),
        ("max", ("u32", "s32", "u64", "s64", "f16", "bf16")),
        ("inc", ("u32",)),
        ("dec", ("u32",)),
        ("xor", ("b32", "b64")),
    ):
        found += [bulk_store(640, red, dtype) for dtype in dtypes]
    found += [bulk_store(64, "add", "u32", lanes) for lanes in (2, 32)]
    found.append(bulk_store(640, "add", "f32", tiny=True))
    return found


_FIELDS = (
    ("global_address", "b64", None, "0x7123456789abcde0"),
    ("rank", "b32", None, "3"),
    *(("box_dim", "b32", k, str(33 + 40 * k)) for k in range(5)),
    *(("global_dim", "b32", k, str(70001 + 1000 * k)) for k in range(5)),
    *(("global_stride", "b64", k, hex(0x12_3456_7890 + 16 * k)) for k in range(4)),
    *(("element_stride", "b32", k, str(2 + k)) for k in range(5)),
    *(("elemtype", "b32", "imm", str(k)) for k in range(13)),
    *(("interleave_layout", "b32", "imm", str(k)) for k in range(3)),
    *(("swizzle_mode", "b32", "imm", str(k)) for k in range(4)),
    *(("fill_mode", "b32", "imm", str(k)) for k in range(2)),
)


def _replace(space: str) -> Case:
    """Every field replaced, each in a map of its own, from two starting patterns."""
    count = 2 * len(_FIELDS)
    text = header(".param .u64 p_in, .param .u64 p_out")
    text += (
        ".reg .b64 %in, %out, %x, %v;\n.reg .b32 %a, %w;\n"
        ".shared .align 128 .b8 map[128];\n"
        "ld.param.u64 %in, [p_in];\nld.param.u64 %out, [p_out];\n"
    )
    for k in range(count):
        field, kind, ordinal, value = _FIELDS[k // 2]
        at = f"[%out+{128 * k}]" if space == "global" else "[map]"
        if space != "global":
            text += "".join(
                f"ld.global.b32 %w, [%out+{128 * k + j}];\n"
                f"st.shared.b32 [map+{j}], %w;\n"
                for j in range(0, 128, 4)
            )
        head = f"tensormap.replace.tile.{field}.{space}.b1024.{kind} {at}"
        if ordinal == "imm":
            text += f"{head}, {value};\n"
        elif ordinal is None:
            reg = "%v" if kind == "b64" else "%w"
            text += f"mov.{kind} {reg}, {value};\n{head}, {reg};\n"
        else:
            reg = "%v" if kind == "b64" else "%w"
            text += f"mov.{kind} {reg}, {value};\n{head}, {ordinal}, {reg};\n"
        if space != "global":
            text += "".join(
                f"ld.shared.b32 %w, [map+{j}];\n"
                f"st.global.b32 [%out+{128 * k + j}], %w;\n"
                for j in range(0, 128, 4)
            )
    text += "ret;\n}\n"
    clear = np.zeros((len(_FIELDS), 128), np.uint8)
    start = np.concatenate([clear, ~clear], 1)
    return Case(
        name=f"tensormap.replace {space}",
        text=text,
        buffers=(np.zeros(16, np.uint8), start.reshape(-1)),
        outputs=(1,),
        block=1,
    )


def cases(scale: int) -> list[Case]:
    """All cases; `scale` changes nothing."""
    del scale
    return [
        *_loads(),
        *_stores(),
        *_bulk(),
        _replace("global"),
        _replace("shared::cta"),
    ]
