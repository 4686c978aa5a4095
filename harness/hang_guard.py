"""The part of the pytest plugin that is about processes: a GPU each, and their end.

Under pytest-xdist every worker takes one GPU, in turn. A test on a real GPU that does
not end costs its worker: another process ends it, xdist starts a new one, and the test
is reported as failed, with a finding.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NAME = "sidestream-hang-guard"
FOLDER = "sidestream_hangs"
"""Key under which workers are told where to leave findings."""


class HangGuard:
    """Hooks of one process; see the module.

    Args:
        config: Of this pytest process.
        folder: Where findings are left.
    """

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        self._config = config
        self.folder = folder
        self._watchdog: Any = None

    def launched(self, kernel: str) -> None:
        """Take note of a launch of the test that runs."""
        if self._watchdog is not None:
            self._watchdog.launched(kernel)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        """Keep the time of a test on a real GPU, fixtures and all."""
        real = self._config.getoption("--sidestream-device") == "cuda"
        if not (real or item.get_closest_marker("hardware")):
            return (yield)
        if self._watchdog is None:
            from sidestream.harness.run.watchdog import Watchdog

            self._watchdog = Watchdog(self.folder).__enter__()
        self._watchdog.arm(
            item.nodeid,
            seconds=self._config.getoption("--sidestream-hang-limit"),
            scenario=_scenario(item),
        )
        try:
            return (yield)
        finally:
            self._watchdog.disarm()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker of xdist where to leave findings."""
        node.workerinput[FOLDER] = str(self.folder)

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: Any, sched: Any) -> None:
        """Put the finding into the report of a test whose worker was ended."""
        from sidestream.harness.run.watchdog import finding_of, text_of

        finding = finding_of(self.folder, crashitem)
        if finding is not None:
            report.longrepr = text_of(finding)

    def pytest_unconfigure(self) -> None:
        """End the watching process; the controller removes the folder."""
        if self._watchdog is not None:
            self._watchdog.__exit__(None, None, None)
            self._watchdog = None
        if not hasattr(self._config, "workerinput"):
            shutil.rmtree(self.folder, ignore_errors=True)


def install(config: pytest.Config) -> None:
    """Give this process its GPU and its hooks, once."""
    if config.pluginmanager.has_plugin(NAME):
        return
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is not None:
        from sidestream.harness.run.gpus import take, worker_number

        take(worker_number(str(worker["workerid"])))
        folder = Path(worker[FOLDER])
    else:
        folder = Path(tempfile.mkdtemp(prefix="sidestream-hangs-"))
    config.pluginmanager.register(HangGuard(config, folder), NAME)


def of(config: pytest.Config) -> HangGuard:
    """Return the guard of a process."""
    guard = config.pluginmanager.get_plugin(NAME)
    assert isinstance(guard, HangGuard)
    return guard


def _scenario(item: pytest.Item) -> str:
    """Return the name of the scenario that a test is parametrized with, or ""."""
    spec = getattr(item, "callspec", None)
    found = spec.params.get("scenario") if spec is not None else None
    return str(getattr(found, "name", found)) if found is not None else ""
