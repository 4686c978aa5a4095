"""tcgen05.ld and tcgen05.st: which lane's register is which cell, and who may access.

The layouts are those of the figures under PTX ISA, Data Movement Shape, as index
formulas over whole arrays; they share nothing with the core's.
"""

import numpy as np
import pytest
from tmem_case import (
    COLUMNS,
    LANES,
    clean,
    image,
    load_registers,
    run,
    store_registers,
    vector,
)

from sidestream.harness.exec.machine import Options

REGISTERS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
NUMBERS = (1, 2, 4, 8, 16, 32, 64, 128)
FORMS = [(s, n) for s in REGISTERS for n in NUMBERS if REGISTERS[s] * n <= 128]
SEEDS = (0, 1, 2)
T = np.arange(32)


def cells_of(shape, count, split=0):
    """Lane and 32-bit column, relative to the address, of `[register][thread]`."""
    r = np.arange(count)[:, None]
    t = T[None, :]
    if shape == "32x32b":
        return t + 0 * r, r + 0 * t
    if shape == "16x32bx2":
        return t % 16 + 0 * r, r + split * (t // 16)
    if shape == "16x64b":
        # Threads pair up over two columns; odd ones hold the lower eight lanes.
        return t // 4 + 8 * (t % 2) + 0 * r, 2 * r + (t // 2) % 2
    if shape == "16x128b":
        # Four threads a lane, one column each; every second register is eight below.
        return t // 4 + 8 * (r % 2), 4 * (r // 2) + t % 4
    # 16x256b: a thread holds two neighbouring columns, then the same eight below.
    return t // 4 + 8 * (r // 2 % 2), 8 * (r // 4) + 2 * (t % 4) + r % 2


def width_of(shape, count):
    return cells_of(shape, count)[1].max() + 1


def half(shape):
    """A lane within the quarter and the columns to start from."""
    return 0 if shape == "32x32b" else 16


def address(lane, column):
    return f"[%quarter + {(lane << 16) + column}]"


def gathered(cells, shape, count, *, lane, column, split=0, packed=False):
    """What `[register][thread]` of the four warps must hold."""
    lanes, columns = cells_of(shape, count, 0 if packed else split)
    warps = []
    for warp in range(4):
        rows = 32 * warp + lane + lanes
        if packed:
            first = column + 2 * columns + split * (T // 16)[None, :]
            low = cells[first, rows] & 0xFFFF
            warps.append(low | cells[first + 1, rows] << np.uint32(16))
        else:
            warps.append(cells[column + columns, rows])
    return np.concatenate(warps, axis=1)


def start_column(shape, count, packed=False):
    width = width_of(shape, count) * (2 if packed else 1)
    width *= 2 if shape == "16x32bx2" else 1
    return min(37, COLUMNS - width)


def split_of(shape, count, packed=False):
    """An offset of the second half that is not just behind the first."""
    if shape != "16x32bx2":
        return 0
    width = count * (2 if packed else 1)
    return min(width + 5, COLUMNS - width - start_column(shape, count, packed))


def spell(shape, count, packing=""):
    num = count // REGISTERS[shape]
    return f"sync.aligned.{shape}.x{num}{packing}.b32"


def tail(split, shape):
    return f", {split}" if shape == "16x32bx2" else ""


@pytest.mark.parametrize(("shape", "num"), FORMS)
def test_a_load_gathers_the_fragment(shape, num):
    count = REGISTERS[shape] * num
    lane, column = half(shape), start_column(shape, count)
    split = split_of(shape, count)
    cells = image(num)
    body = f""".reg .b32 %d<{count}>;
tcgen05.ld.{spell(shape, count)} {vector("d", count)}, {address(lane, column)}\
{tail(split, shape)};
tcgen05.wait::ld.sync.aligned;
{store_registers("d", count, "%got")}"""
    wanted = gathered(cells, shape, count, lane=lane, column=column, split=split)
    for seed in SEEDS:
        buffers = {"got": np.zeros((count, LANES), np.uint32)}
        ran = clean(run(body, cells=cells, buffers=buffers, options=Options(seed=seed)))
        assert np.array_equal(ran.buffers["got"], wanted)
        assert np.array_equal(ran.dump, cells)


@pytest.mark.parametrize(
    ("shape", "num"), [(s, n) for s, n in FORMS if n in (1, 4, 32, 128)]
)
def test_pack_takes_the_low_halves_of_two_columns(shape, num):
    count = REGISTERS[shape] * num
    column = start_column(shape, count, packed=True)
    split = split_of(shape, count, packed=True)
    cells = image(num)
    body = f""".reg .b32 %d<{count}>;
tcgen05.ld.{spell(shape, count, ".pack::16b")} {vector("d", count)}, \
{address(0, column)}{tail(split, shape)};
tcgen05.wait::ld.sync.aligned;
{store_registers("d", count, "%got")}"""
    buffers = {"got": np.zeros((count, LANES), np.uint32)}
    ran = clean(run(body, cells=cells, buffers=buffers, options=Options(seed=num)))
    wanted = gathered(
        cells, shape, count, lane=0, column=column, split=split, packed=True
    )
    assert np.array_equal(ran.buffers["got"], wanted)


@pytest.mark.parametrize(("shape", "num"), FORMS)
def test_a_store_scatters_the_fragment_and_nothing_else(shape, num):
    count = REGISTERS[shape] * num
    lane, column = half(shape), start_column(shape, count)
    split = split_of(shape, count)
    cells, values = image(3), image(num + 100).reshape(-1)[: count * LANES]
    values = values.reshape(count, LANES)
    body = f""".reg .b32 %s<{count}>;
{load_registers("s", count, "%given")}
tcgen05.st.{spell(shape, count)} {address(lane, column)}{tail(split, shape)}, \
{vector("s", count)};
tcgen05.wait::st.sync.aligned;"""
    lanes, columns = cells_of(shape, count, split)
    wanted = cells.copy()
    for warp in range(4):
        part = values[:, 32 * warp : 32 * warp + 32]
        wanted[column + columns, 32 * warp + lane + lanes] = part
    for seed in SEEDS:
        ran = clean(
            run(
                body,
                cells=cells,
                buffers={"given": values},
                options=Options(seed=seed),
            )
        )
        assert np.array_equal(ran.dump, wanted)


@pytest.mark.parametrize(
    ("shape", "num"), [(s, n) for s, n in FORMS if n in (1, 4, 32, 128)]
)
def test_unpack_spreads_a_register_over_two_columns(shape, num):
    count = REGISTERS[shape] * num
    column = start_column(shape, count, packed=True)
    split = split_of(shape, count, packed=True)
    values = image(num + 7).reshape(-1)[: count * LANES].reshape(count, LANES)
    body = f""".reg .b32 %s<{count}>;
{load_registers("s", count, "%given")}
tcgen05.st.{spell(shape, count, ".unpack::16b")} {address(0, column)}\
{tail(split, shape)}, {vector("s", count)};"""
    lanes, columns = cells_of(shape, count)
    wanted = np.zeros((COLUMNS, LANES), np.uint32)
    for warp in range(4):
        part = values[:, 32 * warp : 32 * warp + 32]
        first = column + 2 * columns + split * (T // 16)[None, :]
        wanted[first, 32 * warp + lanes] = part & 0xFFFF
        wanted[first + 1, 32 * warp + lanes] = part >> 16
    ran = clean(run(body, buffers={"given": values}, options=Options(seed=num)))
    assert np.array_equal(ran.dump, wanted)


def test_the_second_warpgroup_reaches_the_same_quarters():
    cells = image(9)
    body = f""".reg .b32 %d<4>; .reg .pred %late;
setp.gt.u32 %late, %warp, 3;
@!%late bra OVER;
tcgen05.ld.sync.aligned.32x32b.x4.b32 {vector("d", 4)}, [%quarter + 8];
tcgen05.wait::ld.sync.aligned;
.reg .b32 %u; .reg .b64 %at;
sub.u32 %u, %kc_tid, 128;
mad.wide.u32 %at, %u, 4, %got;
st.global.b32 [%at], %d3;
OVER:"""
    ran = clean(
        run(
            body,
            cells=cells,
            warps=8,
            buffers={"got": np.zeros(LANES, np.uint32)},
        )
    )
    assert np.array_equal(ran.buffers["got"], cells[8 + 3])


# Reductions beside a load; the architectures that have them come after sm_100a.

SPECIAL = np.array(
    [
        *(0, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000),
        *(1, 0x80000001, 0x7FC00000, 0xFFC12345, 0x7F800001, 0x7F7FFFFF),
        *(0xFF7FFFFF, 0x00800000),
    ],
    np.uint32,
)


def reduced_f32(rows, op, *, magnitude, propagate):
    """`rows` is [register][thread]; min or max of a thread's numbers, as bits."""
    bits = rows & 0x7FFFFFFF if magnitude else rows
    is_nan = (bits & 0x7FFFFFFF) > 0x7F800000
    out = []
    for column in range(bits.shape[1]):
        values = [
            # Zeros differ by sign: -0 is the lesser one.
            (float(np.uint32(b).view(np.float32)), -(int(b) >> 31), int(b))
            for b, nan in zip(bits[:, column], is_nan[:, column], strict=True)
            if not nan
        ]
        none = not values or (propagate and is_nan[:, column].any())
        pick = max if op == "max" else min
        out.append(0x7FFFFFFF if none else pick(values)[2])
    return np.array(out, np.uint32)


def red_case(spelled, cells, num):
    body = f""".reg .b32 %d<{num + 1}>;
tcgen05.ld.red.sync.aligned.32x32b.x{num}.{spelled} {vector("d", num)}, %d{num}, \
[%quarter + 16];
tcgen05.wait::ld.sync.aligned;
{store_registers("d", num + 1, "%got")}"""
    for seed in (0, 5):
        ran = clean(
            run(
                body,
                cells=cells,
                buffers={"got": np.zeros((num + 1, LANES), np.uint32)},
                options=Options(seed=seed),
                target="sm_103a",
            )
        )
        rows = cells[16 : 16 + num]
        assert np.array_equal(ran.buffers["got"][:num], rows)
        yield rows, ran.buffers["got"][num]


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("magnitude", [False, True])
@pytest.mark.parametrize("propagate", [False, True])
def test_float_reduction_beside_a_load(op, magnitude, propagate):
    rng = np.random.default_rng(4)
    cells = image(1)
    cells[16:20] = rng.choice(SPECIAL, (4, LANES))
    spelled = op + ".abs" * magnitude + ".NaN" * propagate + ".f32"
    for rows, got in red_case(spelled, cells, 4):
        wanted = reduced_f32(rows, op, magnitude=magnitude, propagate=propagate)
        assert np.array_equal(got, wanted)


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("kind", ["u32", "s32"])
def test_integer_reduction_beside_a_load(op, kind):
    cells = image(2)
    for rows, got in red_case(f"{op}.{kind}", cells, 32):
        typed = rows.view(np.int32 if kind == "s32" else np.uint32)
        wanted = getattr(np, op)(typed, axis=0).view(np.uint32)
        assert np.array_equal(got, wanted)


def test_the_b200_has_no_reduction_beside_a_load():
    body = """.reg .b32 %d<3>;
tcgen05.ld.red.sync.aligned.32x32b.x2.min.u32 {%d0, %d1}, %d2, [%quarter];"""
    ran = run(body)
    assert ran.result.status == "unsupported"
    assert "sm_100" in ran.program.unsupported[0][1]


# Who may access what. Codes of `enum TmemError` and `enum Tcgen05Error`.

RANGE, UNALLOCATED, QUADRANT, ALIGNMENT = 8, 9, 11, 12
DIVERGED, NOT_UNIFORM = 4, 5


@pytest.mark.parametrize(
    ("where", "code"),
    [
        ("[%base + 0x7f0000]", ALIGNMENT),  # 127: would end past the lanes
        ("[%base + 0x610000]", RANGE),
        ("[%base + 0x800000]", RANGE),
        ("[%base + 0xffff0000]", RANGE),
        ("[%quarter + 252]", UNALLOCATED),
        ("[%quarter + 256]", UNALLOCATED),
        ("[%quarter + 509]", RANGE),
        ("[%quarter + 512]", RANGE),
        ("[%quarter + 0xffff]", RANGE),
        ("[%quarter + 0x10000]", ALIGNMENT),
    ],
)
@pytest.mark.parametrize("store", [False, True])
def test_an_access_stays_within_its_allocation(where, code, store):
    if code == ALIGNMENT and "7f" in where:
        code = RANGE
    operation = (
        f"tcgen05.st.sync.aligned.32x32b.x8.b32 {where}, {vector('d', 8)};"
        if store
        else f"tcgen05.ld.sync.aligned.32x32b.x8.b32 {vector('d', 8)}, {where};"
    )
    body = f""".reg .b32 %d<8>;
setp.ne.u32 %tq, %warp, 0;
@%tq bra OVER;
{operation}
OVER:"""
    cells = image(5)
    for seed in (0, 1):
        ran = run(body, cells=cells, columns=256, options=Options(seed=seed))
        assert ran.result.status == "done"
        (fault,) = ran.result.faults
        assert (fault.kind, fault.info) == ("tmem", code)
        assert np.array_equal(ran.dump[:256], cells[:256])  # dropped, not redirected


def test_a_load_may_not_straddle_two_allocations():
    body = """.reg .b32 %d<8>, %more, %at; .shared .align 8 .b32 second[2];
mov.u32 %at, second;
@%first tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%at], 32;
bar.sync 0;
tcgen05.ld.sync.aligned.32x32b.x8.b32 {%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7}, \
[%quarter + 60];
ld.shared.b32 %more, [%at];
@%first tcgen05.dealloc.cta_group::1.sync.aligned.b32 %more, 32;"""
    ran = run(body, columns=64)
    assert {(f.kind, f.info) for f in ran.result.faults} == {("tmem", UNALLOCATED)}


@pytest.mark.parametrize("shape", ["32x32b", "16x64b"])
def test_a_column_alone_means_the_warps_own_quarter(shape):
    """Released kernels load and store so in every warp."""
    cells = image(5)
    body = f""".reg .b32 %d<4>;
tcgen05.ld.{spell(shape, 4)} {vector("d", 4)}, [%base + 24];
tcgen05.wait::ld.sync.aligned;
{store_registers("d", 4, "%got")}
tcgen05.st.{spell(shape, 4)} [%base + 40], {vector("d", 4)};
tcgen05.wait::st.sync.aligned;"""
    buffers = {"got": np.zeros((4, LANES), np.uint32)}
    ran = clean(run(body, cells=cells, buffers=buffers))
    wanted = gathered(cells, shape, 4, lane=0, column=24)
    assert np.array_equal(ran.buffers["got"], wanted)
    assert np.array_equal(gathered(ran.dump, shape, 4, lane=0, column=40), wanted)


@pytest.mark.parametrize("warp", range(8))
@pytest.mark.parametrize("lane", [0, 32, 64, 96])
def test_only_the_warps_own_quarter_is_accessible(warp, lane):
    body = f""".reg .b32 %d;
setp.ne.u32 %tq, %warp, {warp};
@%tq bra OVER;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%d}}, [%base + {lane << 16}];
OVER:"""
    ran = run(body, warps=8)
    faults = {(f.kind, f.info) for f in ran.result.faults}
    own = lane in (0, 32 * (warp % 4))
    assert faults == (set() if own else {("tmem", QUADRANT)})


@pytest.mark.parametrize(
    ("lane", "code"), [(0, None), (16, None), (8, ALIGNMENT), (32, QUADRANT)]
)
def test_sixteen_lanes_start_at_either_half(lane, code):
    body = f""".reg .b32 %d;
setp.ne.u32 %tq, %warp, 0;
@%tq bra OVER;
tcgen05.ld.sync.aligned.16x64b.x1.b32 {{%d}}, [%base + {lane << 16}];
OVER:"""
    faults = {(f.kind, f.info) for f in run(body).result.faults}
    assert faults == ({("tmem", code)} if code else set())


@pytest.mark.parametrize(("split", "code"), [(8, None), (250, RANGE), (400, RANGE)])
def test_the_second_half_is_checked_too(split, code):
    body = f""".reg .b32 %d<8>;
tcgen05.ld.sync.aligned.16x32bx2.x8.b32 {vector("d", 8)}, [%quarter + 256], {split};"""
    faults = {(f.kind, f.info) for f in run(body).result.faults}
    assert faults == ({("tmem", code)} if code else set())


def test_lanes_may_not_name_different_addresses():
    body = """.reg .b32 %d, %a;
and.b32 %a, %kc_tid, 1;
add.u32 %a, %a, %quarter;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%d}, [%a];"""
    faults = {(f.kind, f.info) for f in run(body).result.faults}
    assert faults == {("tcgen05", NOT_UNIFORM)}


@pytest.mark.parametrize("operation", ["ld", "st", "wait::ld", "wait::st"])
def test_a_part_of_the_warp_may_not_go_alone(operation):
    text = {
        "ld": "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%d}, [%quarter];",
        "st": "tcgen05.st.sync.aligned.32x32b.x1.b32 [%quarter], {%d};",
    }.get(operation, f"tcgen05.{operation}.sync.aligned;")
    body = f""".reg .b32 %d, %a; .reg .pred %odd;
mov.u32 %d, 7;
and.b32 %a, %kc_tid, 1;
setp.eq.u32 %odd, %a, 1;
@%odd {text}"""
    faults = {(f.kind, f.info) for f in run(body).result.faults}
    assert faults == {("tcgen05", DIVERGED)}


def test_a_guarded_store_reaches_only_the_lanes_that_execute_it():
    body = """.reg .b32 %d, %a; .reg .pred %odd;
mov.u32 %d, 7;
and.b32 %a, %kc_tid, 1;
setp.eq.u32 %odd, %a, 1;
@%odd tcgen05.st.sync.aligned.32x32b.x1.b32 [%quarter], {%d};"""
    cells = image(1)
    for seed in (0, 3):
        dump = run(body, cells=cells, options=Options(seed=seed)).dump
        assert (dump[0, 1::2] == 7).all()
        assert np.array_equal(dump[0, ::2], cells[0, ::2])


# Reads of what nobody wrote; off unless asked for.

UNWRITTEN = 13


def read_of(column, *, lane=0, check=True, seed=0):
    """Faults of a load after a store to columns 4 to 7 of warp 1's quarter."""
    body = f""".reg .b32 %d<4>, %slot2, %at; .shared .align 4 .b32 more;
mov.u32 %slot2, more;
@%first tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%slot2], 32;
bar.sync 0;
ld.shared.b32 %at, [%slot2];
sub.u32 %at, %at, %base;
add.u32 %at, %at, %quarter;
setp.ne.u32 %tq, %warp, 1;
@%tq bra READ;
tcgen05.st.sync.aligned.32x32b.x4.b32 [%at + 4], {vector("d", 4)};
tcgen05.wait::st.sync.aligned;
READ:
setp.ne.u32 %tq, %warp, {lane // 32};
@%tq bra OVER;
tcgen05.ld.sync.aligned.32x32b.x2.b32 {{%d0, %d1}}, [%at + {column}];
OVER:
bar.sync 0;
ld.shared.b32 %at, [%slot2];
@%first tcgen05.dealloc.cta_group::1.sync.aligned.b32 %at, 32;"""
    options = Options(seed=seed, tensor_memory_check=check)
    return {
        (f.kind, f.info) for f in run(body, columns=32, options=options).result.faults
    }


@pytest.mark.parametrize("seed", [0, 3])
def test_a_read_of_cells_that_nothing_wrote(seed):
    for column in (4, 5, 6):
        assert read_of(column, lane=32, seed=seed) == set()
    for column in (0, 3, 7, 8, 30):
        assert read_of(column, lane=32, seed=seed) == {("tmem-uninit", UNWRITTEN)}
    assert read_of(4, lane=0, seed=seed) == {("tmem-uninit", UNWRITTEN)}
    assert read_of(0, lane=32, check=False, seed=seed) == set()
