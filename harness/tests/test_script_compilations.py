"""Which compilations of a script count as one that its key should have spared."""

from pathlib import Path

from sidestream.harness.run.script_checks import compilations
from sidestream.harness.runtime import CallSite

HOME = Path("/project")
LINE = f"{HOME}/serve.py:9 in step"


def asked(*inner):
    return "__call__", CallSite(
        frames=(*inner, LINE, f"{HOME}/serve.py:20 in <module>")
    )


def test_one_place_that_compiles_at_three_calls_of_a_line_is_told():
    (found,) = compilations([asked("/site-packages/a.py:5 in plan")] * 3, HOME)
    assert found.count == 3
    assert found.sites[0].source == f"{HOME}/serve.py:9"


def test_three_kernels_that_one_line_needs_are_not():
    kernels = [asked(f"/site-packages/a.py:{n} in plan") for n in (5, 80, 311)]
    assert compilations(kernels, HOME) == ()


def test_the_way_to_the_line_does_not_matter():
    places = [
        (
            "__call__",
            CallSite(frames=("/site-packages/a.py:5 in plan", LINE, f"/x.py:{n} in f")),
        )
        for n in range(3)
    ]
    assert len(compilations(places, HOME)) == 1
