"""What the C compiler must refuse when the core is built."""

import pytest

from sidestream.harness.errors import BuildError
from sidestream.harness.exec.build import build_library

SLIPS = {
    "call": "int f(int a) { return g(a); }",
    "prototype": "int g(); int f(int a) { return g(a); }",
    "pointer": "int f(double *a) { int *b = a; return *b; }",
    "integer": "int *f(long a) { return a; }",
    "return": "int f(int a) { if (a) return 1; }",
    "uninitialized": "int f(void) { int a; return a; }",
    "bounds": "int f(void) { int a[2] = {0, 1}; return a[2]; }",
    "shift": "unsigned f(unsigned a) { return a << 32; }",
}


def built(text, tmp_path, monkeypatch):
    monkeypatch.setenv("SIDESTREAM_CACHE", str(tmp_path / "cache"))
    source = tmp_path / "source"
    source.mkdir()
    (source / "slip.c").write_text(text + "\n")
    return build_library("slip", source)


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_that_c_lets_pass_is_an_error(slip, tmp_path, monkeypatch):
    with pytest.raises(BuildError, match=r"slip\.c does not compile"):
        built(SLIPS[slip], tmp_path, monkeypatch)


def test_other_text_is_built(tmp_path, monkeypatch):
    path = built("int f(int a) { return a + 1; }", tmp_path, monkeypatch)
    assert path.exists()
