"""The pytest plugin: options that mirror the command line, and fixtures.

    def test_my_kernel(device, poisoned, no_host_sync):
        q = torch.randn(70, 4, 64, device="cuda", dtype=torch.bfloat16)
        ...
        with no_host_sync():
            compiled.execute(..., poisoned(plan.workspace_bytes()), stream)

A test that uses `device` fails if a launch of it shows a defect. Nothing heavy is
imported until a fixture is asked for, so that test runs which use none pay nothing
for the plugin being installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import torch

    from sidestream.harness.cuda.host_sync import HostLog
    from sidestream.harness.run.live import LiveDevice
    from sidestream.harness.run.live_card import LiveCard
    from sidestream.scenarios.scenario import Scenario

SIDE_STREAM = 0x51DE


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, named as those of `sidestream check`."""
    group = parser.getgroup("sidestream", "varlen attention checks")
    group.addoption(
        "--sidestream-device",
        default="vgpu",
        choices=("vgpu", "cuda"),
        help="what the `device` fixture is: the virtual GPU, or the real one",
    )
    group.addoption(
        "--sidestream-hang-limit",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="time that a test on a real GPU may take before its process is ended",
    )
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
    group.addoption(
        "--sidestream-deadline",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="time that a launch on the virtual GPU may take",
    )
    group.addoption(
        "--sidestream-profile",
        default="practice",
        choices=("practice", "isa"),
        help="what counts as ordered between accesses inside a kernel",
    )
    group.addoption(
        "--sidestream-races",
        action="store_true",
        default=True,
        help="look for races inside kernels, which is the default",
    )
    group.addoption(
        "--sidestream-no-races",
        dest="sidestream_races",
        action="store_false",
        help="do not look for races inside kernels",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Take a GPU, if this is one of several processes, and guard against hangs."""
    from sidestream.harness import hang_guard

    hang_guard.install(config)


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


@pytest.fixture
def device(request: pytest.FixtureRequest) -> Iterator[LiveDevice | LiveCard]:
    """The virtual GPU as torch's `cuda:0`; the test fails if a launch is at fault.

    With `--sidestream-device cuda` it is the real GPU of this process, and the test is
    skipped where there is none.
    """
    from sidestream.harness.errors import UsageError

    entered = (
        _card(request.config)
        if request.config.getoption("--sidestream-device") == "cuda"
        else _virtual(request.config)
    )
    try:
        with entered as made:
            yield made
    except UsageError as error:
        raise pytest.UsageError(str(error)) from error
    complaints = made.complaints()
    if complaints:
        pytest.fail("\n".join(complaints), pytrace=False)


def _virtual(config: pytest.Config) -> AbstractContextManager[LiveDevice]:
    from sidestream.harness.run.live import live

    option = config.getoption
    races = option("--sidestream-races")
    return live(
        arch=option("--sidestream-arch"),
        seed=option("--sidestream-seed"),
        deadline=option("--sidestream-deadline"),
        profile=option("--sidestream-profile") if races else None,
    )


@contextmanager
def _card(config: pytest.Config) -> Iterator[LiveCard]:
    from sidestream.harness import hang_guard
    from sidestream.harness.run.card_world import card_arch, current_world
    from sidestream.harness.run.live_card import live_card

    if card_arch() is None:
        pytest.skip("--sidestream-device cuda: torch sees no CUDA device")
    with live_card(current_world(side=False)) as card:
        card.told = hang_guard.of(config).launched
        yield card


@pytest.fixture
def side_stream(device: LiveDevice | LiveCard) -> Iterator[Any]:
    """A current stream that is not the default one; launches elsewhere fail."""
    from sidestream.harness.run.live_card import LiveCard

    if isinstance(device, LiveCard):
        with device.side_stream() as made:
            yield made
        return
    yield device.world.choose(SIDE_STREAM)
    stray = [o.kernel for o in device.outcomes if o.stream != SIDE_STREAM]
    if stray:
        pytest.fail(
            f"launched on another stream than the current one: {', '.join(stray)}",
            pytrace=False,
        )


@pytest.fixture
def poisoned(device: LiveDevice | LiveCard) -> Callable[..., torch.Tensor]:
    """Makes scratch: `poisoned(size, pattern="canary")`; its bytes are unwritten."""
    return device.scratch


@pytest.fixture
def no_host_sync(
    device: LiveDevice | LiveCard,
) -> Callable[[], AbstractContextManager[HostLog]]:
    """Requires in a `with` that the host reads, waits, makes and fills nothing."""
    return device.quiet


@pytest.fixture
def race_check(
    device: LiveDevice | LiveCard,
) -> Callable[..., AbstractContextManager[None]]:
    """Requires in a `with` that launches have no race: `race_check("isa")`.

    It looks for races with `--sidestream-no-races` too. A card does not tell who
    accesses what: there, the test is skipped.
    """
    from sidestream.harness.run.live_card import LiveCard

    if isinstance(device, LiveCard):
        pytest.skip("a card does not tell who accesses what: --sidestream-device vgpu")
    return device.raced


@pytest.fixture
def no_recompile(
    device: LiveDevice | LiveCard,
) -> Callable[[], AbstractContextManager[None]]:
    """Requires in a `with` that nothing is compiled."""
    return device.compiled
