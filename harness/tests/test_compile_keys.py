"""What decides a compilation, spelled: equal means equal, addresses are not in it."""

import functools
import importlib
import importlib.util
from dataclasses import dataclass, replace

import pytest

from sidestream.harness.dsl.compile_keys import key_of, ptx_hash
from sidestream.harness.dsl.compile_log import CompileRecord
from sidestream.harness.run.script_keys import unequal
from sidestream.harness.runtime import CallSite


def body(x):
    return x


@dataclass
class Config:
    tile: int = 128
    causal: bool = False


class Kernel:
    def __init__(self, tile):
        self.config = Config(tile=tile)

    def __call__(self, x):
        return x


class SymInt:
    width, divisibility = 32, 1


def key(*args, function=body, arch="sm_100a", **kwargs):
    return key_of(function, args, kwargs, arch=arch)


def closing_over(value):
    def inner(x):
        return value

    return inner


A, B = SymInt(), SymInt()
EQUAL = [
    (lambda: key(Kernel(128)), lambda: key(Kernel(128))),
    (lambda: key({"a": 1, "b": 2}), lambda: key({"b": 2, "a": 1})),
    (lambda: key({0, 8}), lambda: key({8, 0})),
    (lambda: key(A, A, B), lambda: key(B, B, A)),
    (
        lambda: key(function=closing_over(Config())),
        lambda: key(function=closing_over(Config())),
    ),
]
DIFFERENT = [
    (lambda: key(Kernel(128)), lambda: key(Kernel(64))),
    (lambda: key(1), lambda: key(True)),
    (lambda: key(1), lambda: key("1")),
    (lambda: key(int), lambda: key(float)),
    (lambda: key(A, A), lambda: key(A, B)),
    (lambda: key(1), lambda: key(1, arch="sm_120a")),
    (lambda: key(1), lambda: key(function=closing_over(1))),
    (
        lambda: key(function=closing_over(1)),
        lambda: key(function=closing_over(2)),
    ),
    (
        lambda: key(functools.partial(body, 1)),
        lambda: key(functools.partial(body, 2)),
    ),
    (lambda: key(Kernel(1).__call__), lambda: key(Kernel(2).__call__)),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_what_is_asked_for_alike_has_one_key(one, other):
    assert one() == other() != ""


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_differs_has_another(one, other):
    assert one() != other()


TEMPLATE = """
def host(x):
    return WIDTH if x else more(x)

def more(x):
    return host(x)
"""


def executed(path, **names):
    """Execute a file with names put in, as packages do with templates."""
    spec = importlib.util.spec_from_file_location("template", path)
    module = importlib.util.module_from_spec(spec)
    vars(module).update(names)
    spec.loader.exec_module(module)
    return module.host


def test_what_a_package_puts_into_a_module_it_executes_counts(tmp_path):
    path = tmp_path / "template.py"
    path.write_text(TEMPLATE)
    wide = key(function=executed(path, WIDTH=Config(tile=128)))
    assert wide == key(function=executed(path, WIDTH=Config(tile=128))) != ""
    assert wide != key(function=executed(path, WIDTH=Config(tile=64)))
    other = tmp_path / "other.py"
    other.write_text(TEMPLATE.replace("return host(x)", "return 0"))
    assert wide != key(function=executed(other, WIDTH=Config(tile=128)))


def test_what_is_put_over_a_default_of_the_file_counts(tmp_path):
    path = tmp_path / "template.py"
    path.write_text("WIDTH = 64\n" + TEMPLATE)
    keys = []
    for width in (64, 128):
        host = executed(path)
        host.__globals__["WIDTH"] = width
        keys.append(key(function=host))
    assert keys[0] == key(function=executed(path)) != keys[1]


def test_a_global_of_an_imported_module_is_no_part_of_it(tmp_path, monkeypatch):
    """It is what two texts of one key tell of."""
    (tmp_path / "imported_template.py").write_text(TEMPLATE)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("imported_template")
    keys = []
    for module.WIDTH in (1, 2):
        keys.append(key(function=module.host))
    assert keys[0] == keys[1] != ""


def test_what_shows_nothing_of_itself_has_none():
    assert key(object()) == ""
    endless = []
    endless.append(endless)
    assert key(endless) == ""


def test_remarks_and_places_are_no_code():
    text = '.loc 1 2 3\n  ret; // done\n.file 1 "a.py"\n'
    assert ptx_hash(text) == ptx_hash(".loc 1 5 3\nret;\n")
    assert ptx_hash(text) != ptx_hash("exit;\n")


RECORD = CompileRecord(
    function="f",
    source_name="f",
    arch="sm_100a",
    seconds=0.0,
    kernels=("k",),
    ptx="ret;",
    image_sha256="",
    key="one",
)


@pytest.mark.parametrize(
    ("change", "count"),
    [
        ({}, 0),
        ({"ptx": "exit;"}, 1),
        ({"ptx": "exit;", "key": "two"}, 0),
        ({"ptx": "exit;", "key": ""}, 0),
        ({"ptx": "ret; // again"}, 0),
    ],
)
def test_one_key_with_two_texts_is_told(change, count):
    site = CallSite(frames=("package.py:3 in plan",))
    seen = [(RECORD, site), (replace(RECORD, **change), site)]
    found = unequal(seen, None)
    assert [f.kind for f in found] == ["stale-key"] * count
    assert all("in this process, at package.py:3" in f.message for f in found)
