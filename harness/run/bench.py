"""What the cases of one process share."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from sidestream.harness.checks import cache
from sidestream.harness.drivers.protocol import Driver, plans_ahead
from sidestream.harness.drivers.registry import driver as load_driver
from sidestream.harness.dsl.activation import Activation, activate
from sidestream.harness.dsl.key_record import Earlier, KeyRecord
from sidestream.harness.exec.build import cache_dir
from sidestream.harness.run.problem import code_label, problem_of
from sidestream.harness.run.settings import Settings
from sidestream.scenarios.scenario import Scenario


def kept_keys() -> KeyRecord:
    """Return the record of compile keys that all processes of this user share."""
    return KeyRecord(cache_dir() / "keys")


@dataclass(kw_only=True)
class Bench:
    """What the cases of one process share: device, driver, compilations so far.

    Attributes:
        settings: How to run.
        origin: `time.time()` at the start of the run.
        track: Name of the process on the time line.
        driver: The implementation, by its registry name unless given.
        keys: What compile keys stood for in earlier processes, or None.
        compiled: By key of a compilation, what this process made of it first.
        progress: Called with the name of the running step and warp instructions.
        watched: By what host code sees of a case, the first one in which all that it
            does was shown to be right.
    """

    settings: Settings
    origin: float = field(default_factory=time.time)
    track: str = "main"
    driver: Driver | None = None
    progress: Callable[[str, int], None] | None = None
    seen: cache.Seen = field(default_factory=cache.Seen)
    codes: dict[Hashable, str] = field(default_factory=dict)
    watched: dict[Hashable, str] = field(default_factory=dict)
    keys: KeyRecord | None = None
    compiled: dict[str, Earlier] = field(default_factory=dict)
    _key: tuple[Scenario, Hashable] | None = None

    def device(self) -> Activation:
        """Return the virtual device, activated for this process."""
        return activate(arch=self.settings.arch, sms=self.settings.sms)

    def implementation(self) -> Driver:
        """Return the driver under test."""
        if self.driver is None:
            self.driver = load_driver(self.settings.impl)
        return self.driver

    def compile_key(self, scenario: Scenario) -> Hashable | None:
        """Return what the code for a scenario depends on; None if it is not told."""
        driver = self.implementation()
        if not plans_ahead(driver):
            return None
        if self._key is None or self._key[0] is not scenario:
            key = driver.compile_key(problem_of(scenario), self.settings.arch)
            self._key = scenario, key
        return self._key[1]

    def code(self, scenario: Scenario) -> str:
        """Name the code that serves a scenario: that of the first case it served."""
        label, key = code_label(scenario), self.compile_key(scenario)
        if key is None:
            return label
        if key not in self.codes:
            # An implementation may tell apart what the label does not spell.
            names = [name.partition(" (")[0] for name in self.codes.values()]
            same = names.count(label)
            self.codes[key] = f"{label} ({same + 1})" if same else label
        return self.codes[key]

    def declines(self, scenario: Scenario) -> str | None:
        """Return why the implementation does not serve a scenario, or None."""
        if self.settings.device == "vgpu":
            self.device()
        return self.implementation().supports(problem_of(scenario), self.settings.arch)
