"""Hypothesis profiles: what `make test` draws, and what a night may draw.

CuTe DSL keeps one target a process. Test files whose process must be bound to another
target than that of most are run by `scenarios/tests/test_other_targets.py`, each in a
process of its own; given by name they run as they are.
"""

import pytest
from hypothesis import HealthCheck, settings

# A first example may compile a kernel, so time says nothing about an example.
settings.register_profile("default-quick", deadline=None, print_blob=True)
settings.register_profile(
    "thorough",
    parent=settings.get_profile("default-quick"),
    max_examples=2000,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("default-quick")

collect_ignore = [
    "scenarios/tests/test_card_bits.py",
    "scenarios/tests/test_our_sm100_kernel.py",
    "scenarios/tests/test_our_sm100_narrow.py",
    "scenarios/tests/test_our_sm100_scaled.py",
    "scenarios/tests/test_sm100_public_rows.py",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with whole files in one test each, so that no process waits for one."""
    items.sort(key=lambda item: item.path.name != "test_other_targets.py")
