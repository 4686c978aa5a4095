"""The pytest plugin: options that mirror the command line, and fixtures.

Nothing heavy is imported until a fixture is asked for, so that test runs which use
none pay nothing for the plugin being installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sidestream.scenarios.scenario import Scenario


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, named as those of `sidestream check`."""
    group = parser.getgroup("sidestream", "varlen attention checks")
    group.addoption(
        "--sidestream-arch",
        default="sm_120a",
        metavar="ARCH",
        help="PTX target of the virtual GPU: sm_90a, sm_100a or sm_120a",
    )
    group.addoption(
        "--sidestream-scenario",
        action="append",
        default=[],
        metavar="NAME",
        help="scenario for the `scenario` fixture; repeatable; default: all",
    )
    group.addoption(
        "--sidestream-seed",
        type=int,
        default=0,
        metavar="N",
        help="seed of the virtual GPU's schedule; 0 is round-robin",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes the plugin's `scenario` once for each scenario."""
    if "scenario" not in metafunc.fixturenames or _has_its_own(metafunc):
        return
    from sidestream.harness.errors import UsageError
    from sidestream.scenarios import catalogue

    names = metafunc.config.getoption("--sidestream-scenario")
    try:
        chosen = [catalogue.by_name(name) for name in names] or catalogue.CATALOGUE
    except UsageError as error:
        raise pytest.UsageError(str(error)) from error
    metafunc.parametrize(
        "scenario", chosen, ids=[s.name for s in chosen], indirect=True
    )


def _has_its_own(metafunc: pytest.Metafunc) -> bool:
    """Whether the test module gives `scenario` a meaning of its own."""
    for marker in metafunc.definition.iter_markers("parametrize"):
        names = marker.args[0] if marker.args else marker.kwargs.get("argnames", "")
        listed = names.split(",") if isinstance(names, str) else names
        if "scenario" in [name.strip() for name in listed]:
            return True
    found = metafunc.definition._fixtureinfo.name2fixturedefs.get("scenario", ())
    return not found or found[-1].func.__module__ != __name__


@pytest.fixture
def scenario(request: pytest.FixtureRequest) -> Scenario:
    """A scenario of the catalogue: all, or those of `--sidestream-scenario`."""
    chosen: Scenario = request.param
    return chosen
