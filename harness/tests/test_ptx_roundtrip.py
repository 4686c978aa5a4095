"""Any module that can be built prints to text that reads back as the same module."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sidestream.harness.ptx import syntax
from sidestream.harness.ptx.parser import parse
from sidestream.harness.ptx.printer import print_module

words = st.from_regex(r"[A-Za-z_$][A-Za-z0-9_$]{0,6}", fullmatch=True)
registers = st.from_regex(r"%[A-Za-z0-9_$]{1,6}(\.[xyzw])?", fullmatch=True)
identifiers = st.one_of(words, registers)
dotted = st.from_regex(r"\.[A-Za-z0-9_]{1,6}(::[a-z0-9]{1,4})?", fullmatch=True)
integers = st.one_of(
    st.integers(0, 2**64 - 1).map(str),
    st.integers(0, 2**64 - 1).map(hex),
    st.integers(0, 2**32 - 1).map(lambda n: f"{n}U"),
)
floats = st.one_of(
    st.integers(0, 2**32 - 1).map(lambda n: f"0f{n:08X}"),
    st.integers(0, 2**64 - 1).map(lambda n: f"0d{n:016x}"),
    st.sampled_from(["1.5", "2.", "1e-3", "7.25E+10"]),
)
signs = st.sampled_from(["", "-", "+", "~"])
names = st.builds(syntax.Name, identifiers)
numbers = st.builds(
    lambda sign, text: syntax.Number(sign + text),
    signs,
    st.one_of(integers, floats),
)
offsets = st.one_of(
    st.just(()),
    st.tuples(st.sampled_from(["+", "-"]), integers),
    st.tuples(st.just("+"), st.just("-"), integers),
)
simple = st.one_of(
    names,
    numbers,
    st.builds(syntax.Not, st.one_of(names, numbers)),
    st.builds(syntax.PairOf, names, names),
    st.builds(syntax.Name, identifiers, offsets),
)
lists = st.lists(simple, max_size=4).map(tuple)
brackets = st.builds(
    syntax.Brackets,
    st.one_of(names, numbers),
    offsets,
    st.one_of(st.none(), names, st.builds(syntax.Braces, lists)),
)
operands = st.one_of(
    simple,
    st.builds(syntax.Braces, lists),
    st.builds(syntax.Parens, lists),
    brackets,
)
instructions = st.builds(
    syntax.InstructionSyntax,
    st.builds(
        lambda first, rest: first + "".join(rest), words, st.lists(dotted, max_size=5)
    ),
    st.lists(operands, max_size=5).map(tuple),
    st.one_of(st.none(), st.builds(syntax.Guard, identifiers, st.booleans())),
)
declarators = st.builds(
    syntax.Declarator,
    identifiers,
    st.one_of(st.none(), st.integers(1, 999).map(str)),
    st.lists(st.one_of(st.just(""), integers), max_size=2).map(tuple),
    st.one_of(
        st.just(()),
        st.tuples(integers),
        st.tuples(st.just("{"), integers, st.just(","), integers, st.just("}")),
    ),
)
spaces = st.sampled_from([".reg", ".shared", ".local", ".global", ".param"])
declarations = st.builds(
    lambda space, align, type_, names: syntax.Declaration(
        (space, *align, type_), tuple(names)
    ),
    spaces,
    st.sampled_from([(), (".align", "16")]),
    st.sampled_from([".b32", ".pred", ".f64"]),
    st.lists(declarators, min_size=1, max_size=3),
)
directives = st.one_of(
    st.builds(
        lambda a, b, c: syntax.Directive(".loc", (str(a), str(b), str(c))),
        st.integers(0, 9),
        st.integers(0, 9999),
        st.integers(0, 99),
    ),
    st.just(syntax.Directive(".pragma", ('"nounroll"',), ended=True)),
    st.builds(
        lambda a, b: syntax.Directive(".branchtargets", (a, ",", b), ended=True),
        words,
        words,
    ),
)
leaves = st.one_of(
    instructions,
    st.builds(syntax.LabelSyntax, identifiers),
    declarations,
    directives,
    st.just(syntax.Empty()),
)
statements = st.recursive(
    leaves,
    lambda inner: st.builds(syntax.Block, st.lists(inner, max_size=4).map(tuple)),
    max_leaves=12,
)
blocks = st.builds(syntax.Block, st.lists(statements, max_size=6).map(tuple))
parameters = st.lists(
    st.builds(
        lambda align, name: syntax.Declaration(
            (".param", *align, ".b8"), (syntax.Declarator(name, None, ("8",)),)
        ),
        st.sampled_from([(), (".align", "64")]),
        words,
    ),
    max_size=3,
).map(tuple)
functions = st.builds(
    syntax.FunctionSyntax,
    st.sampled_from([(), (".visible",), (".weak",)]),
    st.sampled_from([".entry", ".func"]),
    words,
    st.one_of(st.none(), parameters),
    st.one_of(st.none(), parameters),
    st.sampled_from(
        [
            (),
            (syntax.Directive(".maxntid", ("128", ",", "1", ",", "1")),),
            (syntax.Directive(".explicitcluster", ()),),
        ]
    ),
    st.one_of(st.none(), blocks),
)
modules = st.builds(
    lambda items: syntax.Module(
        (
            syntax.Directive(".version", ("9.4",)),
            syntax.Directive(".target", ("sm_120a", ",", "debug")),
            syntax.Directive(".file", ("1", '"a b.py"')),
            *items,
        )
    ),
    st.lists(
        st.one_of(
            functions,
            declarations,
            st.builds(
                lambda name, tokens: syntax.Section(name, tuple(tokens)),
                dotted,
                st.lists(st.one_of(words, integers, dotted), max_size=4),
            ),
        ),
        max_size=4,
    ),
)


@settings(max_examples=150, deadline=None)
@given(modules)
def test_printed_modules_read_back_equal(module: syntax.Module):
    assert parse(print_module(module)) == module
