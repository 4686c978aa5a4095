"""Loads and stores of tensor memory land late, and registers wait for them.

A load writes its registers when it lands: at `tcgen05.wait::ld`, or at the first
instruction that touches one of them. Programs that wait where PTX asks for it give the
results of in-order execution under every schedule; programs that do not are seen.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tmem_case import LANES, clean, image, run, store_registers

from sidestream.harness.exec.machine import Options

REGISTERS, COLUMNS = 6, 16
U32 = np.uint32


# --- random programs ------------------------------------------------------------------
# A program is a list of statements over a few registers; one interpreter writes PTX,
# another executes it in order on arrays.

_REGISTER = st.integers(0, REGISTERS - 1)
_COLUMN = st.integers(0, COLUMNS - 4)
_SIMPLE = st.one_of(
    st.tuples(st.just("ld"), st.sampled_from([1, 2, 4]), _REGISTER, _COLUMN),
    st.tuples(st.just("st"), st.sampled_from([1, 2, 4]), _REGISTER, _COLUMN),
    st.tuples(st.just("add"), _REGISTER, _REGISTER, _REGISTER),
    st.tuples(st.just("const"), _REGISTER, st.integers(0, 2**32 - 1)),
    st.tuples(st.just("odd"), _REGISTER, _REGISTER),
    st.tuples(st.just("wait"), st.sampled_from(["ld", "st"])),
    st.tuples(st.just("pair"), _REGISTER, _REGISTER, _REGISTER),
    st.tuples(st.just("away"), _REGISTER),
)
_LOOP = st.tuples(
    st.just("loop"), st.integers(1, 3), st.lists(_SIMPLE, min_size=1, max_size=6)
)
_IF = st.tuples(
    st.just("if"),
    st.lists(_SIMPLE.filter(lambda s: s[0] in ("add", "const", "pair")), max_size=3),
    st.lists(_SIMPLE.filter(lambda s: s[0] in ("add", "const", "away")), max_size=3),
)
PROGRAMS = st.lists(st.one_of(_SIMPLE, _SIMPLE, _LOOP, _IF), min_size=2, max_size=14)


def group(count, first):
    """Registers of a vector operand, all different."""
    return [(first + k) % REGISTERS for k in range(count)]


class Text:
    """Writes a program as PTX, with the waits that memory order asks for."""

    def __init__(self):
        self.lines = []
        self.labels = 0

    def vector(self, count, first):
        return "{" + ", ".join(f"%v{r}" for r in group(count, first)) + "}"

    def label(self):
        self.labels += 1
        return f"L{self.labels}"

    def write(self, program):
        for statement in program:
            getattr(self, statement[0])(*statement[1:])

    def ld(self, count, first, column):
        # A store to these cells must have landed.
        self.wait("st")
        self.lines.append(
            f"tcgen05.ld.sync.aligned.32x32b.x{count}.b32 {self.vector(count, first)}, "
            f"[%quarter + {column}];"
        )

    def st(self, count, first, column):
        # An earlier load must have read them, an earlier store written them.
        self.wait("ld")
        self.wait("st")
        self.lines.append(
            f"tcgen05.st.sync.aligned.32x32b.x{count}.b32 [%quarter + {column}], "
            f"{self.vector(count, first)};"
        )

    def wait(self, what):
        self.lines.append(f"tcgen05.wait::{what}.sync.aligned;")

    def add(self, d, a, b):
        self.lines.append(f"mad.lo.u32 %v{d}, %v{a}, 3, %v{b};")

    def const(self, d, value):
        self.lines.append(f"mov.u32 %v{d}, {value};")

    def odd(self, d, a):
        self.lines.append(f"@%odd xor.b32 %v{d}, %v{a}, 0x5a5a5a5a;")

    def pair(self, d, a, b):
        self.lines.append(f"mov.b64 %wide, {{%v{a}, %v{b}}};")
        self.lines.append(f"{{.reg .b32 %drop; mov.b64 {{%drop, %v{d}}}, %wide;}}")

    def away(self, a):
        self.lines.append(f"st.shared.b32 [%mine], %v{a};")

    def loop(self, turns, body):
        label, counter = self.label(), f"%n{self.labels}"
        self.lines.append(f".reg .b32 {counter};\nmov.u32 {counter}, 0;\n{label}:")
        self.write(body)
        self.lines.append(
            f"add.u32 {counter}, {counter}, 1;\nsetp.lt.u32 %go, {counter}, {turns};\n"
            f"@%go bra {label};"
        )

    def __getattr__(self, name):
        if name == "if":
            return self.branch
        raise AttributeError(name)

    def branch(self, then, otherwise):
        other, over = self.label(), self.label()
        self.lines.append(f"@%odd bra {other};")
        self.write(then)
        self.lines.append(f"bra {over};\n{other}:")
        self.write(otherwise)
        # Loads and stores are for the whole warp: it must be together again.
        self.lines.append(f"{over}:\nbar.warp.sync 0xffffffff;")


class Machine:
    """Executes a program in order, all threads at once."""

    def __init__(self, cells):
        self.cells = cells.copy()
        thread = np.arange(LANES, dtype=U32)
        self.odd_lanes = thread % 2 == 1
        self.v = [thread * U32(17) + U32(r) for r in range(REGISTERS)]

    def execute(self, program, lanes):
        for op, *rest in program:
            if op == "ld":
                for k, r in enumerate(group(rest[0], rest[1])):
                    self.v[r] = self.cells[rest[2] + k].copy()
            elif op == "st":
                for k, r in enumerate(group(rest[0], rest[1])):
                    self.cells[rest[2] + k] = self.v[r]
            elif op == "add":
                value = self.v[rest[1]] * U32(3) + self.v[rest[2]]
                self.put(rest[0], value, lanes)
            elif op == "const":
                self.put(rest[0], np.full(LANES, rest[1], U32), lanes)
            elif op == "odd":
                value = self.v[rest[1]] ^ U32(0x5A5A5A5A)
                self.put(rest[0], value, lanes & self.odd_lanes)
            elif op == "pair":
                self.put(rest[0], self.v[rest[2]], lanes)
            elif op == "loop":
                for _ in range(rest[0]):
                    self.execute(rest[1], lanes)
            elif op == "if":
                self.execute(rest[0], lanes & ~self.odd_lanes)
                self.execute(rest[1], lanes & self.odd_lanes)

    def put(self, register, value, lanes):
        self.v[register] = np.where(lanes, value, self.v[register])


def body_of(program):
    text = Text()
    text.write(program)
    return "\n".join(
        [
            f".reg .b32 %v<{REGISTERS}>, %mine; .reg .b64 %wide; .reg .pred %odd, %go;",
            ".shared .align 4 .b32 away[128];",
            "mov.u32 %mine, away;\nmad.lo.u32 %mine, %kc_tid, 4, %mine;",
            "and.b32 %v0, %kc_tid, 1;\nsetp.eq.u32 %odd, %v0, 1;",
            *(f"mad.lo.u32 %v{r}, %kc_tid, 17, {r};" for r in range(REGISTERS)),
            *text.lines,
            store_registers("v", REGISTERS, "%got"),
        ]
    )


@settings(max_examples=150)
@given(PROGRAMS, st.integers(1, 2**32))
def test_waited_programs_give_the_results_of_in_order_execution(program, seed):
    cells = image(1)
    model = Machine(cells)
    model.execute(program, np.ones(LANES, bool))
    body = body_of(program)
    for schedule in (0, seed, seed + 1):
        ran = clean(
            run(
                body,
                cells=cells,
                columns=32,
                buffers={"got": np.zeros((REGISTERS, LANES), U32)},
                options=Options(seed=schedule, quantum=7),
            )
        )
        assert np.array_equal(ran.buffers["got"], np.stack(model.v))
        assert np.array_equal(ran.dump[:32], model.cells[:32])


# --- what is not waited for is seen ---------------------------------------------------

# Warps 0 and 4 share a quarter. Warp 0 loads and tells; warp 4 overwrites the cells,
# waits for its store and tells; warp 0 uses what it loaded.
HANDOFF = """
.reg .b32 %d<4>, %o; .reg .pred %zero, %four; .reg .b64 %out;
setp.eq.u32 %zero, %warp, 0;
setp.eq.u32 %four, %warp, 4;
@%zero bra LOADER;
@%four bra STORER;
bra OVER;
LOADER:
tcgen05.ld.sync.aligned.32x32b.x4.b32 {{%d0, %d1, %d2, %d3}}, [%quarter];
{wait}
bar.sync 1, 64;
bar.sync 2, 64;
mad.wide.u32 %out, %kc_tid, 4, %got;
st.global.b32 [%out], %d2;
bra OVER;
STORER:
mov.u32 %o, 99;
bar.sync 1, 64;
tcgen05.st.sync.aligned.32x32b.x4.b32 [%quarter], {{%o, %o, %o, %o}};
tcgen05.wait::st.sync.aligned;
bar.sync 2, 64;
OVER:
"""


def handed_off(seed, wait):
    cells = image(5)
    ran = clean(
        run(
            HANDOFF.format(wait=wait),
            cells=cells,
            columns=32,
            warps=8,
            buffers={"got": np.zeros(32, U32)},
            options=Options(seed=seed),
        )
    )
    got = ran.buffers["got"]
    if np.array_equal(got, cells[2, :32]):
        return "earlier"
    return "later" if (got == 99).all() else "mixed"


def test_a_load_that_nobody_waited_for_may_see_the_later_store():
    seen = {handed_off(seed, "") for seed in range(1, 25)}
    assert seen == {"earlier", "later"}
    assert handed_off(0, "") == "earlier"


def test_a_load_that_was_waited_for_never_does():
    wait = "tcgen05.wait::ld.sync.aligned;"
    assert {handed_off(seed, wait) for seed in range(25)} == {"earlier"}


def test_a_use_of_the_register_is_no_worse_than_a_wait():
    # The value has arrived, so that the cells have been read.
    assert {handed_off(seed, "add.u32 %o, %d3, 1;") for seed in range(25)} == {
        "earlier"
    }
    assert {handed_off(seed, "mov.u32 %d0, 1;") for seed in range(25)} == {"earlier"}


STORE = """
.reg .b32 %d, %s; .reg .b64 %out;
mov.u32 %s, 7;
tcgen05.st.sync.aligned.32x32b.x1.b32 [%quarter], {{%s}};
mov.u32 %s, 8;
{wait}
tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%d}}, [%quarter];
mad.wide.u32 %out, %kc_tid, 4, %got;
st.global.b32 [%out], %d;
"""


@pytest.mark.parametrize("wait", ["", "tcgen05.wait::st.sync.aligned;"])
def test_a_load_may_pass_a_store_that_nobody_waited_for(wait):
    cells, seen = image(6), set()
    for seed in range(1, 17):
        ran = clean(
            run(
                STORE.format(wait=wait),
                cells=cells,
                columns=32,
                buffers={"got": np.zeros(LANES, U32)},
                options=Options(seed=seed),
            )
        )
        got = ran.buffers["got"].reshape(4, 32)
        for warp in range(4):
            new = (got[warp] == 7).all()
            old = np.array_equal(got[warp], cells[0, 32 * warp : 32 * warp + 32])
            assert new or old  # never 8: a store takes its registers at issue
            seen.add("new" if new else "old")
        assert (ran.dump[0] == 7).all()
    assert seen == ({"new"} if wait else {"new", "old"})


def test_dealloc_does_not_wait_for_loads():
    body = """.reg .b32 %d, %a, %slot2; .shared .align 4 .b32 more;
mov.u32 %slot2, more;
@%first tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%slot2], 32;
bar.sync 0;
ld.shared.b32 %a, [%slot2];
setp.ne.u32 %tq, %warp, 0;
@%tq bra OVER;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%d}, [%a];
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %a, 32;
OVER:"""
    infos = {
        (f.kind, f.info)
        for seed in range(1, 9)
        for f in run(
            body, columns=32, options=Options(seed=seed, tensor_memory_check=False)
        ).result.faults
    }
    assert infos == {("tmem", 10)}


# --- where the waiting rows are -------------------------------------------------------
