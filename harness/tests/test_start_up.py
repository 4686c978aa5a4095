"""What a command does not import: seconds of start-up that no case needs."""

import subprocess
import sys

import pytest

RUN = """
import sys
sys.argv = ["sidestream", *{arguments!r}]
from sidestream.harness.cli import main
try:
    main()
except SystemExit as end:
    print("status", end.code)
print("modules", *sorted({{name.split(".")[0] for name in sys.modules}}))
print("dynamo", "torch._dynamo" in sys.modules)
"""


def modules(*arguments):
    """Run a command in a process of its own: top-level modules, dynamo, status."""
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(arguments=arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    lines = done.stdout.splitlines()
    last = {line.split()[0]: line.split()[1:] for line in lines if line.strip()}
    return set(last["modules"]), last["dynamo"], last["status"]


@pytest.mark.parametrize("arguments", [("--help",), ("check", "--help")])
def test_help_imports_neither_torch_nor_the_dsl(arguments):
    loaded, _, status = modules(*arguments)
    assert status == ["0"]
    assert not loaded & {"torch", "cutlass", "numpy", "jinja2"}


def test_listing_imports_neither_torch_nor_the_dsl():
    loaded, _, _ = modules("check", "--list")
    assert not loaded & {"torch", "cutlass"}


def test_a_case_imports_no_compiler_of_torch(tmp_path):
    """Dispatch modes, the DSL's patches and the adapter all do without it."""
    loaded, dynamo, status = modules(
        *("check", "--scenario", "one-token", "--out", str(tmp_path))
    )
    assert status == ["0"]
    assert {"torch", "cutlass"} <= loaded
    assert dynamo == ["False"]
    assert not loaded & {"sympy", "tvm_ffi"}
