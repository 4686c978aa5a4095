"""What tests of compiled code share: one compilation of each text."""

from functools import cache

import pytest
from artifact import compile_text


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    """`build(config, arch)`: the `Artifact`, compiled by the first test that asks."""
    return cache(
        lambda config, arch: compile_text(config, arch, tmp_path_factory.mktemp("ptx"))
    )
