"""Hypothesis profiles: what `make test` draws, and what a night may draw."""

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
