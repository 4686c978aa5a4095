"""Dependencies point one way: every import of every module, read from its source."""

import ast
import graphlib
import sys
from pathlib import Path

import pytest

import sidestream.harness

ROOT = Path(next(iter(sidestream.harness.__path__))).parent
TOPS = ("harness", "kernels", "reference", "scenarios", "reports")

LEAVES = {"harness.errors", "harness.finding", "harness.launch"}
ALLOWED = {
    "harness.errors": set(),
    "harness.finding": set(),
    "harness.launch": set(),
    "harness.ptx": {"harness.errors"},
    "harness.exec": {"harness.ptx", "harness.errors", "harness.launch"},
    # Memory, host log and the torch stand-in know how the core sees an allocation.
    "harness.cuda": {
        *("harness.bindings", "harness.exec", "harness.runtime", "harness.vtorch"),
        *LEAVES,
    },
    "harness.dsl": {"harness.cuda", "harness.exec", *LEAVES},
    # Execution knows nothing of those who watch it.
    "harness.race": {"harness.exec", "harness.ptx"},
    "harness.footprint": {"harness.exec"},
    "harness.device": {
        *("harness.cuda", "harness.exec", "harness.ptx", "harness.race"),
        *LEAVES,
    },
    # Schedules are spelled as execution spells them; the rest stands alone.
    "harness.runtime": {"harness.exec", "harness.errors", "harness.finding"},
    "harness.bindings": {"harness.runtime"},
    # torch on that runtime; what the chip and the native side are it is told.
    "harness.vtorch": {"harness.runtime", *LEAVES},
    "harness.mutate": {
        *("harness.device", "harness.dsl", "harness.exec", "harness.ptx"),
        *LEAVES,
    },
    "harness.checks": {"harness.cuda", "harness.finding", "reference"},
    "harness.drivers": {"harness.cuda", "harness.dsl", "harness.errors", "reference"},
    "harness.stats": {"harness.exec", "harness.ptx", "reports", "scenarios"},
    "kernels": set(),
    "reference": set(),
    "reports": {"harness.finding"},
    "scenarios": {"harness.drivers", "harness.errors", "kernels", "reference"},
    "harness.run": {
        *("harness.checks", "harness.cuda", "harness.device", "harness.drivers"),
        *("harness.dsl", "harness.exec", "harness.footprint", "harness.runtime"),
        *("harness.bindings", "harness.race", "harness.vtorch", "harness.stats"),
        *("reference", "reports", "scenarios"),
        *LEAVES,
    },
    "harness.commands": {
        "harness.runtime",
        *("harness.checks", "harness.device", "harness.dsl", "harness.exec"),
        *("harness.mutate", "harness.ptx"),
        *("harness.run", "reports", "scenarios", *LEAVES),
    },
    "harness.cli": {"harness.commands", "harness.run", "harness.errors"},
    "harness.plugin": {
        *("harness.checks", "harness.cuda", "harness.drivers", "harness.dsl"),
        *("harness.run", "harness.hang_guard", "harness.vtorch", "scenarios"),
        *LEAVES,
    },
    "harness.hang_guard": {"harness.run"},
}
"""What each part may import; tests are free."""

OUTSIDE = {
    "kernels": {"cutlass", "cuda"},
    "reference": {"numpy"},
    "reports": {"jinja2"},
    "harness.ptx": set(),
    "harness.exec": {"numpy"},
    "harness.runtime": {"numpy"},
    "harness.finding": set(),
    "harness.errors": set(),
    "harness.launch": set(),
}
"""Packages that a part may import, where that is part of its meaning."""

HEAVY = {"torch", "cutlass", "cuda", "numpy", "hypothesis", "jinja2"}
"""What the command line and the plugin must not import before they are asked to."""


def part_of(module: str) -> str:
    """`harness.ptx.parser` -> `harness.ptx`; other top levels are one part each."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "harness" else parts[0]


def imports(tree: ast.AST, *, lazy: bool = True) -> set[str]:
    """Modules that a module imports, but for those only type checkers see.

    Without `lazy`, imports inside functions are left out.
    """
    found = set()
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            todo += node.orelse
            continue
        if not lazy and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        todo += ast.iter_child_nodes(node)
    return found


def modules():
    for top in TOPS:
        for path in sorted((ROOT / top).rglob("*.py")):
            relative = path.relative_to(ROOT)
            if "tests" in relative.parts or path.name.startswith("test_"):
                continue
            name = ".".join(relative.with_suffix("").parts).removesuffix(".__init__")
            yield name, ast.parse(path.read_text(encoding="utf-8"))


MODULES = dict(modules())


def wrong(name: str, tree: ast.AST) -> list[str]:
    """Imports of a module that its part may not have."""
    part = part_of(name)
    bad = []
    for imported in sorted(imports(tree)):
        head = imported.split(".")[0]
        if head == "sidestream":
            target = part_of(imported.removeprefix("sidestream."))
            if target not in ({part, "harness"} | ALLOWED.get(part, set())):
                bad.append(f"{name} imports {target}")
        elif head not in (OUTSIDE.get(part, {head}) | sys.stdlib_module_names):
            bad.append(f"{name} imports {head}")
    return bad


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_only_what_its_part_may(name):
    assert name == "harness" or part_of(name) in ALLOWED, f"{name}: a part unknown here"
    assert wrong(name, MODULES[name]) == []


def test_what_is_allowed_has_no_cycle():
    order = list(graphlib.TopologicalSorter(ALLOWED).static_order())
    assert order.index("harness.exec") < order.index("harness.checks")
    # Execution is never told of judgement.
    for low in ("harness.ptx", "harness.exec", "kernels", "reference"):
        assert not ALLOWED[low] & {"harness.checks", "harness.run", "reports"}


@pytest.mark.parametrize("name", ["harness.cli", "harness.plugin", "harness.commands"])
def test_what_starts_a_command_is_light(name):
    heads = {m.split(".")[0] for m in imports(MODULES[name], lazy=False)}
    assert not heads & HEAVY
    own = {m for m in imports(MODULES[name], lazy=False) if m.startswith("sidestream.")}
    assert all(m.startswith("sidestream.harness.errors") for m in own), own


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        (
            "harness.exec.machine",
            "from sidestream.harness.checks import parity",
            "checks",
        ),
        ("harness.exec.machine", "import torch", "torch"),
        ("kernels.plan", "import sidestream.harness.finding", "finding"),
        ("reference.mask", "def f():\n    import torch", "torch"),
        ("reports.html", "from sidestream.harness.run.bench import Bench", "run"),
        ("harness.dsl.chip", "from sidestream.scenarios import catalogue", "scenarios"),
    ],
)
def test_a_wrong_import_is_seen(name, text, word):
    assert any(word in line for line in wrong(name, ast.parse(text)))


def test_imports_for_type_checkers_do_not_count():
    text = "if TYPE_CHECKING:\n    import torch\nelse:\n    import numpy"
    assert imports(ast.parse(text)) == {"numpy"}


def test_no_two_test_files_share_a_name():
    """Pytest imports them by their name alone, since their folders are no packages."""
    roots = ("harness", "kernels", "reference", "reports", "scenarios")
    files = [p for root in roots for p in (ROOT / root).rglob("tests/**/*.py")]
    names = [path.name for path in files]
    assert sorted({name for name in names if names.count(name) > 1}) == []
