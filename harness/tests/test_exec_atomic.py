"""atom and red against numpy, lane by lane."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from ptx_case import Case

from sidestream.harness.exec.machine import Options

Binary = Callable[[np.generic, np.generic], np.generic]


def _inc(old: np.generic, b: np.generic) -> np.generic:
    return np.uint32(0 if old >= b else int(old) + 1)


def _dec(old: np.generic, b: np.generic) -> np.generic:
    return np.uint32(b if old == 0 or old > b else int(old) - 1)


INTEGERS: list[tuple[str, str, str, Binary]] = [
    ("add", "u32", "u4", np.add),
    ("add", "s32", "i4", np.add),
    ("add", "u64", "u8", np.add),
    ("min", "u32", "u4", np.minimum),
    ("max", "u32", "u4", np.maximum),
    ("min", "s32", "i4", np.minimum),
    ("max", "s32", "i4", np.maximum),
    ("min", "u64", "u8", np.minimum),
    ("max", "u64", "u8", np.maximum),
    ("min", "s64", "i8", np.minimum),
    ("max", "s64", "i8", np.maximum),
    ("and", "b32", "u4", np.bitwise_and),
    ("or", "b64", "u8", np.bitwise_or),
    ("xor", "b32", "u4", np.bitwise_xor),
    ("inc", "u32", "u4", _inc),
    ("dec", "u32", "u4", _dec),
    ("exch", "b32", "u4", lambda _, b: b),
    ("exch", "b64", "u8", lambda _, b: b),
]


def _registers(size: int) -> tuple[str, str]:
    return {2: ("%h1", "%h2"), 4: ("%r5", "%r6"), 8: ("%rd10", "%rd11")}[size]


def _program(op: str, kind: str, size: int, space: str, *, red: bool) -> str:
    """All lanes hit cell 0, lanes 8 and up also their own; results go to buffer 2."""
    source, result = _registers(size)
    unit = f"b{8 * size}"
    where = {"shared": ".shared", "global": ".global", "generic": ""}[space]
    base = {"shared": "%rd20", "global": "%rd0", "generic": "%rd20"}[space]
    word = "red" if red else "atom"
    target = f"[{base}]" if red else f"{result}, [{base}]"
    generic = "cvta.shared.u64 %rd20, %rd20;" if space == "generic" else ""
    copy_in = f"ld.global.{unit} {result}, [%rd0]; st.shared.{unit} [cell], {result};"
    copy_out = f"ld.shared.{unit} {result}, [cell]; st.global.{unit} [%rd0], {result};"
    store = "" if red else f"st.global.{unit} [%rd6], {result};"
    return f"""mul.wide.u32 %rd4, %r0, {size}; add.s64 %rd5, %rd1, %rd4;
    add.s64 %rd6, %rd2, %rd4; ld.global.{unit} {source}, [%rd5];
    mov.u64 %rd20, cell; {generic} {copy_in if space != "global" else ""}
    bar.warp.sync -1;
    {word}{where}.{op}.{kind} {target}, {source}; {store}
    bar.warp.sync -1; {copy_out if space != "global" else ""}"""


DECLARE = ".shared .align 16 .b8 cell[64];"


@pytest.mark.parametrize(("op", "kind", "dtype", "function"), INTEGERS)
@pytest.mark.parametrize("space", ["global", "shared", "generic"])
def test_integers(op: str, kind: str, dtype: str, function: Binary, space: str) -> None:
    rng = np.random.default_rng(11)
    values = np.frombuffer(rng.bytes(256), dtype).copy()[:32]
    if op in ("inc", "dec"):
        values = rng.integers(0, 6, 32).astype(np.uint32)
    cell = values[5:6].copy()
    for red in (False, True):
        if red and op == "exch":
            continue
        memory, results = cell.copy(), np.zeros_like(values)
        body = _program(op, kind, values.itemsize, space, red=red)
        Case(body, declare=DECLARE).clean(memory, values, results)
        state = cell[0]
        with np.errstate(over="ignore"):
            for lane in range(32):
                if not red:
                    assert results[lane] == state, lane
                state = np.dtype(dtype).type(function(state, values[lane]))
        assert memory[0] == state


FLOATS = [
    ("f32", np.float32, ""),
    ("f64", np.float64, ""),
    ("f16", np.float16, ".noftz"),
    ("bf16", ml_dtypes.bfloat16, ".noftz"),
]


@pytest.mark.parametrize(("kind", "dtype", "extra"), FLOATS)
def test_float_addition_rounds_once_per_lane(
    kind: str, dtype: type, extra: str
) -> None:
    values = np.random.default_rng(12).normal(0, 3, 32).astype(dtype)
    memory, results = np.array([0.1], dtype), np.zeros(32, dtype)
    body = _program(f"add{extra}", kind, values.itemsize, "global", red=False)
    Case(body, declare=DECLARE).clean(memory, values, results)
    state = np.array([0.1], dtype)[0]
    for lane in range(32):
        assert results[lane] == state
        state = dtype(state + values[lane])
    assert memory[0] == state


@pytest.mark.parametrize("kind", ["f16x2", "bf16x2"])
def test_packed_halves(kind: str) -> None:
    dtype = np.float16 if kind == "f16x2" else ml_dtypes.bfloat16
    values = np.random.default_rng(13).normal(0, 3, (32, 2)).astype(dtype)
    memory, results = np.array([0.5, -0.25], dtype), np.zeros((32, 2), dtype)
    body = _program("add.noftz", kind, 4, "shared", red=False)
    Case(body, declare=DECLARE).clean(memory, values, results)
    state = np.array([0.5, -0.25], dtype)
    for lane in range(32):
        assert (results[lane] == state).all()
        state = (state + values[lane]).astype(dtype)
    assert (memory == state).all()


@pytest.mark.parametrize("space", ["global", "shared", "generic"])
def test_f32_flushes_subnormals_in_global_memory_only(space: str) -> None:
    tiny = np.float32(1e-40)
    values = np.zeros(32, np.float32)
    values[0] = tiny
    memory, results = np.array([tiny]), np.zeros(32, np.float32)
    body = _program("add", "f32", 4, space, red=False)
    Case(body, declare=DECLARE).clean(memory, values, results)
    assert results[0] == tiny
    assert memory[0] == (0 if space == "global" else tiny + tiny)


def test_half_subnormals_and_nan() -> None:
    tiny = np.float16(6e-8)
    values = np.zeros(32, np.float16)
    values[:2] = tiny
    memory, results = np.array([tiny]), np.zeros(32, np.float16)
    body = _program("add.noftz", "f16", 2, "global", red=False)
    Case(body, declare=DECLARE).clean(memory, values, results)
    assert memory[0] == np.float16(3 * float(tiny))
    values[3] = np.nan
    Case(body, declare=DECLARE).clean(memory, values, results)
    assert memory.view(np.uint16)[0] == 0x7FFF


@pytest.mark.parametrize("kind", ["b16", "b32", "b64"])
def test_cas_lets_one_lane_win(kind: str) -> None:
    size = int(kind[1:]) // 8
    dtype = f"u{size}"
    source, result = _registers(size)
    other = {2: "%h3", 4: "%r7", 8: "%rd12"}[size]
    memory = np.array([7, 9], dtype)
    results = np.zeros(32, dtype)
    body = f"""mul.wide.u32 %rd4, %r0, {size}; add.s64 %rd6, %rd1, %rd4;
    cvt.u{8 * size}.u32 {other}, %r0; add.u{8 * size} {other}, {other}, 20;
    mov.b{8 * size} {source}, 7;
    atom.global.cas.{kind} {result}, [%rd0], {source}, {other};
    st.global.b{8 * size} [%rd6], {result};"""
    Case(body).clean(memory, results)
    np.testing.assert_array_equal(memory, [20, 9])
    np.testing.assert_array_equal(results, [7] + [20] * 31)


def test_128_bit_exchange_and_cas() -> None:
    memory, results = np.array([1, 2], np.uint64), np.zeros((32, 2), np.uint64)
    body = """cvt.u64.u32 %rd10, %r0; mov.b128 %q1, {%rd10, %rd10};
    mov.u64 %rd11, 1; mov.u64 %rd12, 2; mov.b128 %q2, {%rd11, %rd12};
    setp.ge.u32 %p1, %r0, 3; @%p1 bra end;
    atom.global.cas.b128 %q3, [%rd0], %q2, %q1;
    setp.eq.u32 %p2, %r0, 2; @%p2 atom.global.exch.b128 %q3, [%rd0], %q2;
    mul.wide.u32 %rd4, %r0, 16; add.s64 %rd6, %rd1, %rd4;
    st.global.b128 [%rd6], %q3; end:"""
    Case(body).clean(memory, results)
    assert memory.tolist() == [1, 2]
    assert results[:3].tolist() == [[1, 2], [0, 0], [0, 0]]


def test_vector_forms() -> None:
    values = np.arange(8, dtype=np.float32).reshape(2, 4)
    memory, results = np.ones(4, np.float32), np.zeros((2, 4), np.float32)
    body = """setp.ge.u32 %p1, %r0, 2; @%p1 bra end; mul.wide.u32 %rd4, %r0, 16;
    add.s64 %rd5, %rd1, %rd4; add.s64 %rd6, %rd2, %rd4;
    ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd5];
    atom.global.add.v4.f32 {%f2, %f3, %f4, %f5}, [%rd0], {%f1, %f2, %f3, %f4};
    st.global.v4.f32 [%rd6], {%f2, %f3, %f4, %f5}; end:"""
    Case(body, declare=DECLARE).clean(memory, values, results)
    np.testing.assert_array_equal(results, [[1, 1, 1, 1], [1, 2, 3, 4]])
    np.testing.assert_array_equal(memory, 1 + values.sum(0))


HALVES = [
    (np.nan, 2.0, 2.0, 2.0),
    (-0.0, 0.0, -0.0, 0.0),
    (3.0, -5.0, -5.0, 3.0),
    (-1.0, -2.0, -2.0, -1.0),
]


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_vector_minimum_and_maximum_of_halves(kind: str) -> None:
    dtype = np.float16 if kind == "f16" else ml_dtypes.bfloat16
    first = np.array([h[0] for h in HALVES], dtype)
    second = np.array([h[1] for h in HALVES], dtype)
    for column, op in ((2, "min"), (3, "max")):
        memory, values = first.copy(), second.copy()
        body = f"""setp.ne.u32 %p1, %r0, 0; @%p1 bra end;
        ld.global.v4.b16 {{%h1, %h2, %h3, %h4}}, [%rd1];
        red.global.{op}.noftz.v4.{kind} [%rd0], {{%h1, %h2, %h3, %h4}}; end:"""
        Case(body).clean(memory, values)
        want = np.array([h[column] for h in HALVES], dtype)
        np.testing.assert_array_equal(memory.view(np.uint16), want.view(np.uint16))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_tickets_of_many_warps_are_unique(seed: int) -> None:
    counter, out = np.zeros(1, np.uint32), np.zeros(512, np.uint32)
    body = """atom.relaxed.gpu.global.add.u32 %r5, [%rd0], 1;
    mul.wide.u32 %rd4, %r5, 4; add.s64 %rd4, %rd4, %rd1; add.u32 %r6, %r5, 1;
    st.global.u32 [%rd4], %r6;"""
    options = Options(seed=seed, quantum=1)
    Case(body, threads=128, grid=4, options=options).clean(counter, out)
    np.testing.assert_array_equal(out, np.arange(512) + 1)


def test_faults() -> None:
    cell = np.zeros(2, np.uint32)
    case = Case("atom.global.add.u32 %r5, [%rd0+8], 1;")
    case.faulty("oob-write", cell)
    Case("red.global.add.u64 [%rd0+4], 1;").faulty("misaligned", cell)
    Case("red.shared.add.u32 [cell+64], 1;", declare=DECLARE).faulty("smem-oob", cell)
    assert not cell.any()


def test_remote_shared_memory() -> None:
    out: NDArray[np.uint32] = np.zeros(2, np.uint32)
    body = """mov.u32 %r5, cell; xor.b32 %r6, %r5, 0x01000000; st.shared.u32 [cell], 0;
    barrier.cluster.arrive; barrier.cluster.wait; mov.u32 %r7, %cluster_ctarank;
    add.u32 %r8, %r7, 1; red.relaxed.cluster.shared::cluster.add.u32 [%r6], %r8;
    barrier.cluster.arrive; barrier.cluster.wait; ld.shared.u32 %r9, [cell];
    mul.wide.u32 %rd4, %r7, 4; add.s64 %rd4, %rd4, %rd0; st.global.u32 [%rd4], %r9;"""
    Case(body, declare=DECLARE, grid=2, cluster=2).clean(out)
    assert out.tolist() == [64, 32]
