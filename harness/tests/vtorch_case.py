"""A virtual CUDA device under a landing policy, and what it has to say at the end."""

from contextlib import contextmanager

from sidestream.harness.dsl.chip import chip
from sidestream.harness.runtime import Landing
from sidestream.harness.vtorch import VirtualTorch

POLICIES = ("eager", "laziest", "round-robin", *(f"random:{n}" for n in range(1, 21)))


@contextmanager
def device(landing="laziest", **options):
    with VirtualTorch(
        chip("sm_100a"), landing=Landing.parse(landing), **options
    ) as made:
        yield made


def kinds(made):
    """Land everything and return the kinds of findings, dead fills left out."""
    made.runtime.drain()
    assert not made.runtime.incomplete()
    return [f.kind for f in made.runtime.findings() if f.kind != "hidden-launch"]
