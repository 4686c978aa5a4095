"""What tests of compiled code share: one target, and one compilation of each text."""

from functools import cache

import pytest
from artifact import compile_text

from sidestream.harness.dsl.activation import activate


@pytest.fixture(scope="session", autouse=True)
def bound():
    """Bind the process first, as tests that execute kernels in it later need.

    Host functions find their CUDA calls in the libraries of the first compilation.
    """
    return activate(arch="sm_120a")


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    """`build(config, arch)`: the `Artifact`, compiled by the first test that asks."""
    return cache(
        lambda config, arch: compile_text(config, arch, tmp_path_factory.mktemp("ptx"))
    )
