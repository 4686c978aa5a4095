"""Syntax tree to decoded function: scopes, labels and operands resolved, forms read.

Nothing after this module looks at spellings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sidestream.harness.errors import PtxError
from sidestream.harness.ptx import ir, syntax
from sidestream.harness.ptx.declarations import layout, parameters, variable
from sidestream.harness.ptx.families import bind_operands
from sidestream.harness.ptx.literals import integer, literal, special
from sidestream.harness.ptx.scopes import Registers, Scope

_TARGET = re.compile(
    r"sm_(?:50|52|53|60|61|62|70|72|75|80|86|87|88|89|90a?"
    r"|(?:100|101|103|110|120|121)[af]?)"
)


def decode(module: syntax.Module, entry: str | None = None) -> ir.Function:
    """Decode one kernel of a module.

    Args:
        module: What `parser.parse` made.
        entry: Name of the `.entry`; may be left out where there is only one.

    Raises:
        PtxError: no such entry, an unknown target, or names, sizes or operands that
            cannot be resolved. An instruction that no form fits is not an error: it
            is decoded with `known=False`.
    """
    return _Decoder(module, _entry(module, entry)).function()


def _entry(module: syntax.Module, name: str | None) -> syntax.FunctionSyntax:
    entries = {f.name: f for f in module.functions if f.kind == ".entry" and f.body}
    if name is None:
        if len(entries) != 1:
            raise PtxError(f"the module has {len(entries)} kernels, name one")
        return next(iter(entries.values()))
    if name not in entries:
        raise PtxError(f"the module has no kernel {name!r}; it has {sorted(entries)}")
    return entries[name]


def _target(module: syntax.Module) -> str:
    directive = module.directive(".target")
    if directive is None:
        raise PtxError("the module has no .target")
    word = directive.tokens[0]
    if not _TARGET.fullmatch(word):
        raise PtxError(f"unknown target {word!r}", directive.line)
    return word


class _Decoder:
    """One pass over a function for names, one for instructions."""

    def __init__(self, module: syntax.Module, kernel: syntax.FunctionSyntax) -> None:
        self._kernel = kernel
        self._target = _target(module)
        self._registers = Registers()
        self._module_scope = Scope(self._registers)
        self._variables: list[ir.Variable] = []
        self._instructions: list[ir.Instruction] = []
        self._tables: dict[str, tuple[int, ...]] = {}
        self._table_labels: dict[tuple[int, str], ir.Vector] = {}
        self._taken: dict[str, int] = {}
        self._files: dict[int, str] = {}
        self._source: ir.SourceLine | None = None
        self._count = 0
        self._scopes: Iterator[Scope] = iter(())
        self._module(module)

    def function(self) -> ir.Function:
        """Decode the body."""
        kernel = self._kernel
        params = parameters(kernel.params or ())
        outer = self._module_scope.child()
        for param in params:
            outer.add(param.name, ir.Symbol(param.name, "param"), kernel.line)
            self._taken[param.name] = 1
        if kernel.body is None:
            raise PtxError(f"{kernel.name} has no body", kernel.line)
        scopes: list[Scope] = []
        self._names(kernel.body, outer.child(), scopes)
        self._scopes = iter(scopes)
        self._body(kernel.body)
        return ir.Function(
            name=kernel.name,
            target=self._target,
            params=params,
            variables=tuple(self._variables),
            registers=tuple(self._registers.all),
            instructions=tuple(self._instructions),
            branch_targets=self._tables,
            directives=_directives(kernel),
        )

    def _module(self, module: syntax.Module) -> None:
        scope = self._module_scope
        functions: set[str] = set()
        for item in module.items:
            if isinstance(item, syntax.Declaration):
                self._declare(item, scope)
            elif isinstance(item, syntax.FunctionSyntax):
                # A function may be declared first and defined later.
                if item.name not in functions:
                    scope.add(item.name, ir.Symbol(item.name, "func"), item.line)
                    functions.add(item.name)
            elif isinstance(item, syntax.Directive) and item.name == ".file":
                self._file(item)

    def _file(self, directive: syntax.Directive) -> None:
        number = integer(directive.tokens[0], directive.line)
        self._files[number] = directive.tokens[1][1:-1]

    def _names(self, block: syntax.Block, scope: Scope, scopes: list[Scope]) -> None:
        """Find labels, tables and files first: text may use them before they stand."""
        scopes.append(scope)
        label: str | None = None
        for statement in block.body:
            match statement:
                case syntax.InstructionSyntax():
                    self._count += 1
                case syntax.LabelSyntax(name, line):
                    scope.add(name, ir.Label(name, self._count), line)
                    label = name
                    continue
                case syntax.Block():
                    self._names(statement, scope.child(), scopes)
                case syntax.Directive(".branchtargets", tokens, _, line):
                    if label is None:
                        raise PtxError(".branchtargets needs a label", line)
                    scope.tables[label] = tuple(t for t in tokens if t != ",")
                case syntax.Directive(".file"):
                    self._file(statement)
            label = None

    def _body(self, block: syntax.Block) -> None:
        scope = next(self._scopes)
        for statement in block.body:
            match statement:
                case syntax.InstructionSyntax():
                    self._instruction(statement, scope)
                case syntax.Block():
                    self._body(statement)
                case syntax.Declaration():
                    self._declare(statement, scope)
                case syntax.Directive(".loc"):
                    self._locate(statement)
        for label in scope.tables:
            self._table(label, scope, block.line)

    def _locate(self, directive: syntax.Directive) -> None:
        number, line, column = (integer(t, 0) for t in directive.tokens[:3])
        file = self._files.get(number)
        if file is None:
            raise PtxError(f".loc names file {number}, no .file has it", directive.line)
        self._source = ir.SourceLine(file, line, column)

    def _declare(self, declaration: syntax.Declaration, scope: Scope) -> None:
        line = declaration.line
        of = layout(declaration)
        for declarator in declaration.declarators:
            name = declarator.name
            if of.space != "reg":
                if declarator.count is not None:
                    raise PtxError("only registers come in ranges", line)
                unique = self._unique(name)
                self._variables.append(variable(of, declarator, unique, line))
                scope.add(name, ir.Symbol(unique, of.space), line)
            elif declarator.dims or declarator.init:
                raise PtxError(f"register {name} has no size and no value", line)
            elif declarator.count is not None and of.vec == 1:
                scope.add_range(name, integer(declarator.count, line), of.type, line)
            elif declarator.count is not None:
                raise PtxError("a range of vector registers is not read", line)
            elif of.vec > 1:
                scope.add_vector(name, f"v{of.vec}", of.type, line)
            else:
                scope.add_register(name, of.type, line)

    def _unique(self, name: str) -> str:
        """Variables of different scopes may share a spelling, not a name."""
        count = self._taken.get(name, 0) + 1
        self._taken[name] = count
        return name if count == 1 else f"{name}#{count}"

    def _table(self, label: str, scope: Scope, line: int) -> ir.Vector:
        """The labels that `.branchtargets` lists; also kept in the function."""
        found = scope.find_table(label)
        if found is None:
            raise PtxError(f"{label} has no .branchtargets", line)
        where, names = found
        known = self._table_labels.get((id(where), label))
        if known is not None:
            return known
        labels: list[ir.Label] = []
        for name in names:
            meaning = where.find(name)
            if not isinstance(meaning, ir.Label):
                raise PtxError(f"branch target {name!r} is not a label", line)
            labels.append(meaning)
        # Copies of inline assembly repeat their labels; a copy's table gets a number.
        copy = len(self._table_labels)
        key = f"{label}#{copy}" if label in self._tables else label
        self._tables[key] = tuple(item.target for item in labels)
        table = ir.Vector(tuple(labels))
        self._table_labels[id(where), label] = table
        return table

    def _instruction(self, statement: syntax.InstructionSyntax, scope: Scope) -> None:
        line = statement.line
        guard = None
        if statement.guard is not None:
            guard = self._predicate(statement.guard.name, scope, line)
        operands = [self._operand(o, scope, line) for o in statement.operands]
        if statement.opcode.startswith("brx.idx") and len(operands) == 2:
            table = operands[1]
            if isinstance(table, ir.Label):
                operands[1] = self._table(table.name, scope, line)
        found = bind_operands(statement.opcode, operands)
        self._instructions.append(
            ir.Instruction(
                index=len(self._instructions),
                op=found.op,
                mods=found.mods,
                args=found.args,
                guard=guard,
                guard_negated=statement.guard is not None and statement.guard.negated,
                line=line,
                spelling=statement.opcode,
                source=self._source,
                known=found.known,
                writes=found.writes,
                refused=found.refused,
            )
        )

    def _predicate(self, name: str, scope: Scope, line: int) -> ir.Register:
        found = scope.find(name)
        if isinstance(found, ir.Register) and found.type == "pred":
            return found
        raise PtxError(f"{name} is not a predicate register", line)

    def _operand(
        self, operand: syntax.OperandSyntax, scope: Scope, line: int
    ) -> ir.Operand:
        match operand:
            case syntax.Name(text, offset):
                return self._name(text, offset, scope, line)
            case syntax.Number(text):
                return literal(text, line)
            case syntax.Not(syntax.Name(text)):
                return ir.Negated(self._predicate(text, scope, line))
            case syntax.PairOf(first, second):
                return ir.Pair(
                    self._name(first.text, (), scope, line),
                    self._name(second.text, (), scope, line),
                )
            case syntax.Braces(elements) | syntax.Parens(elements):
                return ir.Vector(tuple(self._operand(e, scope, line) for e in elements))
            case syntax.Brackets():
                return self._brackets(operand, scope, line)
        raise PtxError("'!' stands before a predicate only", line)

    def _name(
        self, text: str, offset: tuple[str, ...], scope: Scope, line: int
    ) -> ir.Operand:
        if text == "_":
            return ir.Sink()
        found = scope.find(text) or special(text)
        if found is None:
            raise PtxError(f"{text} is not declared", line)
        if not offset:
            return found
        if not isinstance(found, ir.Symbol):
            raise PtxError(f"nothing can be added to {text} here", line)
        return ir.Symbol(found.name, found.space, _sum(offset, line))

    def _brackets(
        self, operand: syntax.Brackets, scope: Scope, line: int
    ) -> ir.Address | ir.TensorAddress:
        base: ir.Operand
        if isinstance(operand.base, syntax.Number):
            base = literal(operand.base.text, line)
        else:
            base = self._name(operand.base.text, (), scope, line)
        if not isinstance(base, ir.Register | ir.Symbol | ir.Immediate):
            raise PtxError("an address starts with a register or a variable", line)
        if isinstance(base, ir.Immediate) and base.kind != "int":
            raise PtxError("an address is not a floating-point number", line)
        address = ir.Address(base, _sum(operand.offset, line))
        if operand.coords is None:
            return address
        coords = self._operand(operand.coords, scope, line)
        elements = coords.elements if isinstance(coords, ir.Vector) else (coords,)
        return ir.TensorAddress(address, elements)


def _sum(tokens: tuple[str, ...], line: int) -> int:
    """Value of `+4`, `-4`, `+-4` and sums of them."""
    total, sign = 0, 1
    for token in tokens:
        if token == "-":
            sign = -sign
        elif token != "+":
            total += sign * integer(token, line)
            sign = 1
    if not -(1 << 63) <= total < 1 << 64:
        raise PtxError("an offset does not fit 64 bits", line)
    return total


def _directives(kernel: syntax.FunctionSyntax) -> dict[str, tuple[int, ...]]:
    """Performance directives by name without the dot, as numbers."""
    found: dict[str, tuple[int, ...]] = {}
    for directive in kernel.directives:
        if directive.name in (".pragma", ".attribute"):
            continue
        numbers = [t for t in directive.tokens if t != ","]
        found[directive.name[1:]] = tuple(integer(t, directive.line) for t in numbers)
    return found
