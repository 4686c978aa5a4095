"""The PTX parser: what it reads, what it refuses, and that printing loses nothing."""

import pytest

from sidestream.harness.errors import PtxError
from sidestream.harness.ptx import syntax
from sidestream.harness.ptx.parser import MAX_NESTING, parse
from sidestream.harness.ptx.printer import print_module

HEADER = ".version 9.4\n.target sm_120a\n.address_size 64\n"


def body(text: str) -> tuple[syntax.Statement, ...]:
    module = parse(f"{HEADER}.visible .entry k()\n{{\n{text}\n}}\n")
    (function,) = module.functions
    assert function.body is not None
    return function.body.body


def roundtrip(text: str) -> syntax.Module:
    module = parse(text)
    assert parse(print_module(module)) == module
    return module


WHOLE = (
    HEADER
    + """
.extern .shared .align 1024 .b8 smem[];
.shared .align 8 .u64 bars[4]; // two rings
.global .align 4 .b32 table[2][2] = {{1, -2}, {0x3, 4}};
.const .f32 third = 0f3EAAAAAB;
.extern .func (.param .b32 out) vprintf (.param .b64 fmt, .param .b64 args);
.func callee;
.file 1 "/src/kernel.py"
.visible .entry kernel(
    .param .align 64 .b8 map[128],
    .param .u64 .ptr .global .align 16 q,
    .param .b32 n
)
.maxntid 128, 1, 1
.minnctapersm 1
.explicitcluster
.pragma "nounroll";
{
    .reg .pred %p<3>; .reg .b32 %r<10>, lone; .reg .b64 %rd<4>;
    .reg .v2 .f32 pair;
    .loc 1 12 5
    .loc 1 12 5, function_name info$0, inlined_at 1 40 3
    ld.param.b32 %r1, [n]; mov.b64 {%r2, %r3}, %rd1;
    { // begin inline asm
        .reg .pred p;
        elect.sync _|p, 0xffffffff;
        @p bra.uni DONE;
    DONE:
    }
    @!%p1 cp.async.bulk.tensor.2d.shared::cluster.global
        .mbarrier::complete_tx::bytes [%r4+128], [%rd1, {%r5, %r6}], [%r7+-8];
    setp.lt.and.s32 %p1|%p2, %r1, -5, !%p0;
    st.global.v4.b32 [%rd2], {%r1, 0f3F800000, 1.5e-3, %r2};
    call.uni (lone), vprintf, (%rd1, %rd2);
    brx.idx %r1, targets;
targets: .branchtargets A, B;
A:
B:  ret;;
}
.section .debug_info { .b8 1, 2 }
"""
)


def test_everything_survives_printing():
    module = roundtrip(WHOLE)
    assert module.entries == ("kernel",)
    target = module.directive(".target")
    assert target is not None
    assert target.tokens == ("sm_120a",)


def test_several_instructions_on_a_line_keep_their_line():
    mov, add = body("mov.b32 %r1, %r2; add.s32 %r1, %r1, 1;")
    assert isinstance(mov, syntax.InstructionSyntax)
    assert isinstance(add, syntax.InstructionSyntax)
    assert (mov.line, add.line) == (6, 6)
    assert add.operands[2] == syntax.Number("1")


def test_words_split_by_spaces_are_one_opcode():
    (split,) = body("ld .global\n.v2.b32 {%r1, _}, [%rd1 + 4];")
    (joined,) = body("ld.global.v2.b32 {%r1, _}, [%rd1+4];")
    assert split == joined


@pytest.mark.parametrize(
    ("text", "operand"),
    [
        ("_", syntax.Name("_")),
        ("_|p", syntax.PairOf(syntax.Name("_"), syntax.Name("p"))),
        ("!p", syntax.Not(syntax.Name("p"))),
        ("sym+8", syntax.Name("sym", ("+", "8"))),
        ("%tid.x", syntax.Name("%tid.x")),
        ("-0x10", syntax.Number("-0x10")),
        ("0d3FF0000000000000", syntax.Number("0d3FF0000000000000")),
        ("[a+-4]", syntax.Brackets(syntax.Name("a"), ("+", "-", "4"))),
        ("[0]", syntax.Brackets(syntax.Number("0"))),
        (
            "[m, {x, 1}]",
            syntax.Brackets(
                syntax.Name("m"),
                (),
                syntax.Braces((syntax.Name("x"), syntax.Number("1"))),
            ),
        ),
    ],
)
def test_operands(text: str, operand: syntax.OperandSyntax):
    (statement,) = body(f"op {text};")
    assert isinstance(statement, syntax.InstructionSyntax)
    assert statement.operands == (operand,)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("mov.b32 %r1 %r2;", 6, "expected ','"),
        ("\n\nmov.b32 %r1,, %r2;", 8, "an operand"),
        ("mov.b32 %r1, §;", 6, "cannot read"),
        ("mov.b32 %r1, 0x;", 6, "cannot read"),
        ("mov.b32 %r1, 12ab;", 6, "cannot read"),
        ("ld.b32 %r1, [%r2;", 6, r"expected '\]'"),
        ("mov.b64 {{a}, b}, c;", 6, "an operand"),
        (".reg .b32 %r<;", 6, "a number"),
        (".frob;", 6, "a declaration"),
        ("@;", 6, "a word"),
        ("bra L M;", 6, "expected ','"),
        (".loc 1 2;", 6, "a number"),
        ("/* open", 6, "expected|cannot read"),
        ("{", 8, "but the text ends"),
    ],
)
def test_faults_are_named_with_their_line(text: str, line: int, says: str):
    with pytest.raises(PtxError, match=says) as fault:
        body(text)
    assert fault.value.line == line


def test_nesting_is_bounded_on_both_sides():
    deep = MAX_NESTING - 1
    body("{" * deep + "}" * deep)
    with pytest.raises(PtxError, match="nested deeper"):
        body("{" * (deep + 1) + "}" * (deep + 1))
    with pytest.raises(PtxError, match="nested deeper"):
        body("{" * 100_000)


@pytest.mark.parametrize("text", ["", "\n", "// nothing", "/* a \n b */"])
def test_empty_texts_are_empty_modules(text: str):
    assert parse(text) == syntax.Module(())


@pytest.mark.parametrize("text", ["}", "mov.b32 a, b;", ".entry k(", ".version"])
def test_broken_modules_are_refused(text: str):
    with pytest.raises(PtxError):
        parse(text)
