"""Names, labels, parameters, literals and lines: what the decoder resolves."""

import struct

import pytest

from sidestream.harness.errors import PtxError
from sidestream.harness.ptx import ir
from sidestream.harness.ptx.decode import decode
from sidestream.harness.ptx.parser import parse


def function(body: str, *, head: str = "", params: str = "") -> ir.Function:
    text = (
        f".version 9.4\n.target sm_120a\n.address_size 64\n{head}\n"
        f".visible .entry k({params})\n{{\n"
        ".reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<20>; .reg .b64 %rd<9>;\n"
        f"{body}\n}}\n"
    )
    return decode(parse(text))


def one(body: str, **more: str) -> ir.Instruction:
    (instruction,) = function(body, **more).instructions
    return instruction


def operand(text: str) -> ir.Operand:
    return one(f"frob {text};").args["0"]


def test_inner_registers_shadow_outer_ones():
    outer, inner, after = function(
        "mov.b32 %r1, 1; { .reg .b32 %r1; mov.b32 %r1, 2; } mov.b32 %r1, 3;"
    ).instructions
    assert outer.args["d"] == after.args["d"]
    assert inner.args["d"] != outer.args["d"]
    assert isinstance(inner.args["d"], ir.Register)
    assert inner.args["d"].name == "%r1"


def test_registers_of_the_function_are_those_that_are_used():
    found = function("add.s32 %r3, %r17, %r3; mov.pred %p0, 1;")
    assert [(r.id, r.name, r.type) for r in found.registers] == [
        (0, "%r3", "b32"),
        (1, "%r17", "b32"),
        (2, "%p0", "pred"),
    ]


def test_registers_declared_between_blocks_serve_later_blocks():
    first, second = function(
        "{ } .reg .b32 desc; { mov.b32 desc, 1; } { mov.b32 %r1, desc; }"
    ).instructions
    assert first.args["d"] == second.args["a"]


def test_a_range_may_have_a_prefix_that_ends_with_digits():
    (ins,) = function(".reg .b32 %x1<5>; mov.b32 %x14, %x10;").instructions
    assert {r.name for r in ins.args.values() if isinstance(r, ir.Register)} == {
        "%x14",
        "%x10",
    }


@pytest.mark.parametrize("name", ["%r20", "%r01", "%r", "%q1", "nothing"])
def test_undeclared_names_are_refused(name: str):
    with pytest.raises(PtxError, match="not declared") as fault:
        function(f"\n\nmov.b32 %r1, {name};")
    assert fault.value.line == 10


def test_repeated_labels_resolve_within_their_own_block():
    branches = [
        ins
        for ins in function(
            "bra OUT; { bra L; nanosleep.u32 1; L: } { L: bra L; bra OUT; } OUT: ret;"
        ).instructions
        if ins.op == "bra"
    ]
    targets = [b.args["target"] for b in branches]
    assert targets == [
        ir.Label("OUT", 5),
        ir.Label("L", 3),
        ir.Label("L", 3),
        ir.Label("OUT", 5),
    ]


def test_a_label_at_the_end_points_behind_the_last_instruction():
    assert one("bra END; END:").args["target"] == ir.Label("END", 1)


def test_branch_tables_give_their_labels():
    found = function("brx.idx %r1, T; T: .branchtargets A, B; A: trap; B: ret;")
    assert found.instructions[0].args["targets"] == ir.Vector(
        (ir.Label("A", 1), ir.Label("B", 2))
    )
    assert found.branch_targets == {"T": (1, 2)}


def test_repeated_branch_tables_keep_their_own_labels():
    block = "{ brx.idx %r1, T; T: .branchtargets A; A: trap; }"
    found = function(block * 3)
    tables = [i.args["targets"] for i in found.instructions if i.op == "brx.idx"]
    assert tables == [ir.Vector((ir.Label("A", at),)) for at in (1, 3, 5)]
    assert sorted(found.branch_targets.values()) == [(1,), (3,), (5,)]


def test_parameters_lie_at_aligned_offsets():
    found = function(
        "",
        params=".param .u8 a, .param .align 64 .b8 map[128], .param .b32 n, "
        ".param .u64 .ptr .global .align 16 q, .param .v4 .f32 v, .param .u16 w",
    )
    assert [(p.name, p.offset, p.size, p.align) for p in found.params] == [
        ("a", 0, 1, 1),
        ("map", 64, 128, 64),
        ("n", 192, 4, 4),
        ("q", 200, 8, 8),
        ("v", 208, 16, 16),
        ("w", 224, 2, 2),
    ]


def test_variables_have_sizes_spaces_and_initial_bytes():
    found = function(
        ".local .align 8 .b8 spill[24]; { .shared .b32 s; } { .shared .u16 s[3]; }",
        head=".extern .shared .align 1024 .b8 dyn[];\n"
        ".global .align 16 .b32 t[2][2] = {{1, -2}, {0x3}};\n"
        ".const .f32 third = 0.25; .global .b8 text[] = {72, 0};\n",
    )
    assert [(v.name, v.space, v.align, v.size, v.init) for v in found.variables] == [
        ("dyn", "shared", 1024, 0, None),
        ("t", "global", 16, 16, struct.pack("<iiii", 1, -2, 3, 0)),
        ("third", "const", 4, 4, struct.pack("<f", 0.25)),
        ("text", "global", 1, 2, b"H\0"),
        ("spill", "local", 8, 24, None),
        ("s", "shared", 4, 4, None),
        ("s#2", "shared", 2, 6, None),
    ]


def test_variables_of_one_name_stay_apart():
    first, second = function(
        "{ .shared .b32 s; mov.b32 %r1, s; } { .shared .b32 s; mov.b32 %r1, s; }"
    ).instructions
    assert first.args["a"] == ir.Symbol("s", "shared")
    assert second.args["a"] == ir.Symbol("s#2", "shared")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-1", ir.Immediate("int", -1)),
        ("~0", ir.Immediate("int", -1)),
        ("0x80U", ir.Immediate("int", 128)),
        ("017", ir.Immediate("int", 15)),
        ("0b101", ir.Immediate("int", 5)),
        ("0f3F800000", ir.Immediate("f32", 0x3F800000)),
        ("-0f3F800000", ir.Immediate("f32", 0xBF800000)),
        ("-0fBF800000", ir.Immediate("f32", 0x3F800000)),
        ("0d3FF0000000000000", ir.Immediate("f64", 0x3FF0000000000000)),
        ("1.0", ir.Immediate("f64", 0x3FF0000000000000)),
        ("-2.5e-1", ir.Immediate("f64", 0xBFD0000000000000)),
        ("WARP_SZ", ir.Immediate("int", 32)),
        ("_", ir.Sink()),
        ("%tid.x", ir.Special("%tid.x")),
        ("%cluster_ctarank", ir.Special("%cluster_ctarank")),
        ("%globaltimer", ir.Special("%globaltimer")),
    ],
)
def test_literals_and_special_registers(text: str, value: ir.Operand):
    assert operand(text) == value


@pytest.mark.parametrize("text", ["0x1FFFFFFFFFFFFFFFF", "08", "9" * 79, "!%r1", "!1"])
def test_impossible_operands_are_refused(text: str):
    with pytest.raises(PtxError):
        operand(text)


def test_addresses():
    r4 = ir.Register(0, "%r4", "b32")
    assert operand("[%r4+8]") == ir.Address(r4, 8)
    assert operand("[%r4+-8]") == ir.Address(r4, -8)
    assert operand("[%r4+4-16]") == ir.Address(r4, -12)
    assert operand("[%r4+-8+4]") == ir.Address(r4, -4)
    assert operand("[16]") == ir.Address(ir.Immediate("int", 16), 0)
    assert one("frob [n+4];", params=".param .b64 n").args["0"] == ir.Address(
        ir.Symbol("n", "param"), 4
    )
    assert one("mov.u64 %rd1, dyn+16;", head=".extern .shared .b8 dyn[];").args[
        "a"
    ] == ir.Symbol("dyn", "shared", 16)


def test_vector_registers_are_their_elements():
    (ins,) = function(".reg .v2 .b32 v; mov.b64 %rd1, v;").instructions
    (part,) = function(".reg .v2 .b32 v; mov.b32 %r1, v.y;").instructions
    assert ins.op == "mov.pack"
    assert isinstance(ins.args["a"], ir.Vector)
    assert [r.name for r in ins.args["a"].elements if isinstance(r, ir.Register)] == [
        "v.x",
        "v.y",
    ]
    assert isinstance(part.args["a"], ir.Register)
    assert part.args["a"].name == "v.y"


def test_guards():
    plain, negated, none = function("@%p1 trap; @!%p1 trap; trap;").instructions
    assert plain.guard == negated.guard == ir.Register(0, "%p1", "pred")
    assert (plain.guard_negated, negated.guard_negated) == (False, True)
    assert none.guard is None
    with pytest.raises(PtxError, match="not a predicate"):
        function("@%r1 trap;")


def test_unknown_opcodes_keep_their_operands_and_line():
    first, second = function("\n frob.b32 %r1, 4;\n mbarrier.frob %r2;").instructions
    assert not first.known
    assert (first.op, first.spelling, first.line) == ("frob", "frob.b32", 9)
    assert first.args["1"] == ir.Immediate("int", 4)
    assert (first.mods, first.writes) == ({}, ())
    assert (second.op, second.line) == ("mbarrier", 10)


def test_source_lines_come_from_the_nearest_loc():
    before, first, second = function(
        "trap; .loc 1 12 5 trap; .loc 2 40 3, function_name f, inlined_at 1 9 9\ntrap;"
        '.file 2 "b.py"',
        head='.file 1 "/src/a.py"',
    ).instructions
    assert before.source is None
    assert first.source == ir.SourceLine("/src/a.py", 12, 5)
    assert second.source == ir.SourceLine("b.py", 40, 3)
    with pytest.raises(PtxError, match="names file 7"):
        function(".loc 7 1 1 trap;")


def test_performance_directives():
    text = (
        ".version 9.4\n.target sm_100a\n.entry k()\n.maxntid 128, 2, 1\n"
        '.minnctapersm 1\n.explicitcluster\n.pragma "x";\n{ ret; }'
    )
    assert decode(parse(text)).directives == {
        "maxntid": (128, 2, 1),
        "minnctapersm": (1,),
        "explicitcluster": (),
    }


def test_the_entry_is_chosen_by_name():
    text = ".version 9.4\n.target sm_100a\n.entry a() { ret; }\n.entry b() { trap; }"
    module = parse(text)
    assert decode(module, "b").instructions[0].op == "trap"
    with pytest.raises(PtxError, match="2 kernels"):
        decode(module)
    with pytest.raises(PtxError, match=r"no kernel 'c'.*'a', 'b'"):
        decode(module, "c")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (".entry k() { ret; }", "no .target"),
        (".target sm_999\n.entry k() { ret; }", "unknown target 'sm_999'"),
        (".target sm_120a\n.entry k(.param .b8 x[]) { }", "needs a size"),
        (".target sm_120a\n.entry k(.param .b32 x, .param .b32 x) { }", "twice"),
        (".target sm_120a\n.entry k() { .reg .b32 a, a; }", "twice"),
        (".target sm_120a\n.entry k() { .reg .b32 %r<0>; }", "number of registers"),
        (".target sm_120a\n.entry k() { .reg .frob a; }", "no type"),
        (".target sm_120a\n.entry k() { L: L: }", "twice"),
        (".target sm_120a\n.entry k() { .shared .align 3 .b8 x; }", "power of two"),
        (".target sm_120a\n.global .b32 x = y;\n.entry k() { }", "not a literal"),
        (".target sm_120a\n.global .b32 x = {1, 2};\n.entry k() { }", "not fit"),
    ],
)
def test_modules_that_cannot_be_resolved(text: str, says: str):
    with pytest.raises(PtxError, match=says):
        decode(parse(f".version 9.4\n{text}"))
