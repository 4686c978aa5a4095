"""The form tables: every form reads what it says, and no form hides another."""

import itertools

import pytest

from sidestream.harness.ptx import ir
from sidestream.harness.ptx.decode import decode
from sidestream.harness.ptx.families import FAMILIES
from sidestream.harness.ptx.parser import parse
from sidestream.harness.ptx.support import main, operations, unread
from sidestream.harness.tests.form_instances import form_instances, module

PER_FORM = 5


@pytest.mark.parametrize(
    "family", FAMILIES, ids=lambda family: f"{family.spelling} ({family.section})"
)
def test_every_form_is_read_back_as_written(family):
    for form in family.forms:
        written = list(form_instances(family, form, PER_FORM, seed=0))
        assert written, form
        function = decode(parse(module(instance.text for instance in written)))
        for instance, read in zip(written, function.instructions, strict=False):
            assert read.known, instance.text
            assert read.op == instance.op
            assert read.mods == instance.mods, instance.text
            assert tuple(sorted(read.args)) == instance.args


def one(text: str) -> ir.Instruction:
    return decode(parse(module([text]))).instructions[0]


@pytest.mark.parametrize(
    ("text", "op", "mods", "args", "writes"),
    [
        (
            "ld.global.nc.L1::no_allocate.L2::cache_hint.v4.b32"
            " {%r0, _, %r2, %r3}, [%d1+16], %d2;",
            "ld",
            {
                "space": "global",
                "nc": "nc",
                "level_eviction": "L1::no_allocate",
                "cache_hint": "L2::cache_hint",
                "vec": "v4",
                "type": "b32",
            },
            {"d", "addr", "policy"},
            ("d",),
        ),
        (
            "setp.ltu.and.ftz.f32 %p0|%p1, %r1, 0f00000000, !%p2;",
            "setp",
            {"cmp": "ltu", "bool": "and", "ftz": "ftz", "type": "f32"},
            {"p", "q", "a", "b", "c"},
            ("p", "q"),
        ),
        (
            "setp.lo.u32 %p0, %r1, %r2;",
            "setp",
            {"cmp": "lt", "type": "u32"},
            {"p", "a", "b"},
            ("p",),
        ),
        (
            "bar.sync 1, 128;",
            "barrier.sync",
            {"aligned": "aligned"},
            {"barrier", "threads"},
            (),
        ),
        (
            "barrier.cta.red.popc.u32 %r1, 0, !%p1;",
            "barrier.red",
            {"op": "popc", "type": "u32"},
            {"d", "barrier", "c"},
            ("d",),
        ),
        (
            "membar.gl;",
            "fence",
            {"sem": "sc", "scope": "gpu"},
            set(),
            (),
        ),
        (
            "shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1;",
            "shfl.sync",
            {"mode": "bfly", "type": "b32"},
            {"d", "p", "a", "b", "c", "membermask"},
            ("d", "p"),
        ),
        (
            "shfl.sync.idx.b32 %r1, %r2, 1, 31, -1;",
            "shfl.sync",
            {"mode": "idx", "type": "b32"},
            {"d", "a", "b", "c", "membermask"},
            ("d",),
        ),
        (
            "elect.sync _|%p1, -1;",
            "elect.sync",
            {},
            {"d", "p", "membermask"},
            ("d", "p"),
        ),
        (
            "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64"
            " %p1, [%r1], %r2, 0x989680;",
            "mbarrier.try_wait",
            {
                "parity": "parity",
                "sem": "acquire",
                "scope": "cta",
                "space": "shared::cta",
                "type": "b64",
            },
            {"p", "addr", "parity", "time_hint"},
            ("p",),
        ),
        (
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 4096;",
            "mbarrier.arrive.expect_tx",
            {"space": "shared::cta", "type": "b64"},
            {"state", "addr", "tx"},
            ("state",),
        ),
        (
            "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
            ".multicast::cluster.L2::cache_hint"
            " [%r1], [%d1, {%r2, %r3, 0}], [%r4], %h1, %d2;",
            "cp.async.bulk.tensor",
            {
                "dim": "3d",
                "dst": "shared::cluster",
                "src": "global",
                "completion": "mbarrier::complete_tx::bytes",
                "multicast": "multicast::cluster",
                "cache_hint": "L2::cache_hint",
            },
            {"dst", "map", "mbar", "cta_mask", "policy"},
            (),
        ),
        (
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r0, %r1, %r2, %r3},"
            " {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%r0, %r1, %r2, %r3};",
            "mma.sync",
            {
                "sync": "sync",
                "aligned": "aligned",
                "shape": "m16n8k16",
                "alayout": "row",
                "blayout": "col",
                "dtype": "f32",
                "atype": "bf16",
                "btype": "bf16",
                "ctype": "f32",
            },
            {"d", "a", "b", "c"},
            ("d",),
        ),
        (
            "cvt.rn.satfinite.e4m3x2.f32 %h1, %r1, %r2;",
            "cvt",
            {
                "round": "rn",
                "satfinite": "satfinite",
                "dtype": "e4m3x2",
                "stype": "f32",
            },
            {"d", "a", "b"},
            ("d",),
        ),
        (
            "fma.rn.f32.bf16 %r1, %h1, %h2, %r2;",
            "fma.mixed",
            {"round": "rn", "type": "f32", "atype": "bf16"},
            {"d", "a", "b", "c"},
            ("d",),
        ),
        (
            "max.ftz.f32 %r1, %r2, %r3, %r4;",
            "max3",
            {"ftz": "ftz", "type": "f32"},
            {"d", "a", "b", "c"},
            ("d",),
        ),
        (
            "atom.acq_rel.gpu.global.cas.b32 %r1, [%d1], 0, 1;",
            "atom",
            {
                "sem": "acq_rel",
                "scope": "gpu",
                "space": "global",
                "op": "cas",
                "type": "b32",
            },
            {"d", "addr", "b", "c"},
            ("d",),
        ),
        (
            "tcgen05.mma.cta_group::1.kind::f16 [%r1+32], [%r2], %d1, %r3, 1;",
            "tcgen05.mma",
            {"cta_group": "cta_group::1", "kind": "kind::f16"},
            {"d", "a", "b", "idesc", "enable"},
            (),
        ),
        ("mov.b64 %d1, {%r1, 0};", "mov.pack", {"type": "b64"}, {"d", "a"}, ("d",)),
        ("mov.b32 {%h1, _}, %r1;", "mov.unpack", {"type": "b32"}, {"d", "a"}, ("d",)),
        (
            "add.cc.u32 %r1, %r2, 1;",
            "add.cc",
            {"cc": "cc", "type": "u32"},
            {"d", "a", "b"},
            ("d",),
        ),
    ],
)  # fmt: skip
def test_readings(text, op, mods, args, writes):
    read = one(text)
    assert read.known
    assert read.op == op
    assert read.mods == mods
    assert set(read.args) == args
    assert read.writes == writes


@pytest.mark.parametrize(
    "text",
    [
        "add.b32 %r1, %r2, %r3;",  # no such type
        "add.s32 %r1, %r2;",  # an operand short
        "add.s32 %d1, %d2, %d3;",  # registers of another width
        "add.s32 %r1, %p1, %r2;",  # a predicate as a number
        "add.s32 %r1, %r2, 0f3F800000;",  # a float in integer arithmetic
        "add.s32 _, %p1, %r2;",
        "add.s32 7, %r1, %r2;",  # a literal as destination
        "add.f32 %r1, !%p1, %r2;",
        "setp.lo.s32 %p1, %r1, %r2;",  # unsigned order of signed numbers
        "setp.lt.b32 %p1, %r1, %r2;",
        "setp.eq.f16x2 %p1, %r1, %r2;",  # packed comparison has two results
        "cvt.f16.f32 %h1, %r1;",  # narrowing without a rounding
        "cvt.rn.f32.f16 %r1, %h1;",  # rounding where nothing is lost
        "cvt.sat.s64.s32 %d1, %r1;",  # saturation where nothing can overflow
        "cvt.rn.e4m3x2.f32 %h1, %r1, %r2;",  # must saturate
        "ld.global.v4.b64 {%d0, %d1, %d2}, [%d4];",  # vector too short
        "ld.shared.v4.b64 {%d0, %d1, %d2, %d3}, [%r4];",  # 256 bits outside global
        "ld.shared.nc.b32 %r1, [%r2];",
        "ld.global.ca.L1::no_allocate.b32 %r1, [%d2];",
        "ld.global.L2::cache_hint.b32 %r1, [%d2];",  # hint without a policy
        "ld.global.b32 %r1, %d2;",  # not an address
        "st.global.b32 [%d1], _;",
        "mov.b64 %d1, {%r1, %h1};",
        "mov.b32 %r1, {%h0, %h1, %h2, %h3};",
        "cp.async.cg.shared.global [%r1], [%d1], 8;",  # .cg copies 16
        "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes"
        " [%r1], [%d1, {%r2}], [%r3];",  # a coordinate short
        "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4"
        ".mbarrier::complete_tx::bytes [%r1], [%d1, {%r2, %r3}], [%r3];",
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r0, %r1, %r2, %r3},"
        " {%r0, %r1}, {%r4, %r5}, {%r0, %r1, %r2, %r3};",  # A is too short
        "mma.sync.aligned.m16n8k16.col.col.f32.f16.f16.f32 {%r0, %r1, %r2, %r3},"
        " {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%r0, %r1, %r2, %r3};",
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f32 {%r0, %r1},"
        " {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%r0, %r1, %r2, %r3};",
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1}, [%r4];",
        "mbarrier.arrive.shared::cluster.b64 %d1, [%r1];",  # no state from afar
        "mbarrier.init.shared::cluster.b64 [%r1], 1;",
        "setmaxnreg.dec.sync.aligned.u32 25;",
        "tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r0, %r1}, [%r4];",
        "elect.sync %p1, -1;",
        "bra %r1;",
        "add.ftz.ftz.f32 %r1, %r2, %r3;",
        "." * 40,
    ],
)  # fmt: skip
def test_what_ptx_does_not_have_is_unknown(text: str):
    if text.startswith("."):
        text = "add" + ".f32" * 40 + " %r1, %r2, %r3;"
    assert not one(text).known


@pytest.mark.parametrize(
    ("one_way", "other"),
    [
        ("ld.relaxed.gpu.b32 %r1, [%d1];", "ld.gpu.relaxed.b32 %r1, [%d1];"),
        ("add.rn.ftz.f32 %r1, %r2, %r3;", "add.ftz.f32.rn %r1, %r2, %r3;"),
        ("cvt.rn.f16.f32 %h1, %r2;", "cvt.f16.rn.f32 %h1, %r2;"),
    ],
)  # fmt: skip
def test_modifiers_may_stand_in_any_order(one_way: str, other: str):
    assert one(one_way).mods == one(other).mods
    # Types keep theirs: they fit two slots.
    assert one("cvt.f32.f16.rn %r1, %h1;").known is False


@pytest.mark.parametrize(
    ("spelling", "lengths"),
    [
        # D, A, B, C: registers of a lane, from the fragment tables of the ISA.
        ("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16", (2, 2, 1, 2)),
        ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", (2, 4, 2, 2)),
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", (4, 4, 2, 4)),
        ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32", (4, 4, 2, 4)),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32", (4, 4, 2, 4)),
        ("mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32", (4, 4, 2, 4)),
        ("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc", (4, 4, 2, 4)),
        ("mma.sync.aligned.m8n8k4.col.row.f32.f16.f16.f16", (8, 2, 2, 4)),
        ("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e3m2.f32",
         (4, 4, 2, 4)),
        ("mma.sp.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32", (4, 4, 4, 4)),
        ("mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", (2, 2, 2, 2)),
    ],
)  # fmt: skip
def test_fragments_have_the_registers_that_the_shape_needs(
    spelling: str, lengths: tuple[int, ...]
):
    def written(lengths: tuple[int, ...]) -> str:
        groups = ("%r0, " * n for n in lengths)
        vectors = ", ".join("{" + group.removesuffix(", ") + "}" for group in groups)
        return f"{spelling} {vectors}{', %r1, 0' * ('.sp.' in spelling)};"

    assert one(written(lengths)).known
    for place in range(4):
        longer = tuple(n * (2 if i == place else 1) for i, n in enumerate(lengths))
        assert not one(written(longer)).known


def test_every_slot_and_operand_is_listed():
    listed = {operation.op: operation for operation in operations()}
    assert listed["mbarrier.try_wait"].slots["parity"] == ("parity",)
    assert "[addr] #b:type+ policy:b64?cache_hint" in listed["st"].operands
    read = list(itertools.chain(*(f.forms for f in FAMILIES)))
    assert {form.op for form in read if form.op} <= listed.keys()


def test_unread_opcodes_are_named_with_their_lines(tmp_path, capsys):
    function = decode(parse(module(["frob.x %r1;", "ret;", "frob.x %r2;"])))
    (item,) = unread([function])
    assert item.spelling == "frob.x"
    assert len(item.lines) == 2
    path = tmp_path / "k.ptx"
    path.write_text(module(["frob.x %r1;"]))
    assert main([str(path)]) == 1
    assert f"{path}:{item.lines[0]}: frob.x" in capsys.readouterr().out
    path.write_text("nonsense")
    assert main([str(path)]) == 2
    path.write_text(module(["ret;"]))
    assert main([str(path)]) == 0
