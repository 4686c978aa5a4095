"""How cases are run: implementation, device, schedule and budgets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from sidestream.harness.dsl.chip import CHIPS, DEFAULT_SMS
from sidestream.harness.errors import UsageError
from sidestream.harness.exec.schedule import Schedule

KERNELS: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "sidestream": {"sm120": ("sm_120a", "sm_90a"), "sm100": ("sm_100a",)},
        "fa4": {"sm120": ("sm_120a",), "sm100": ("sm_100a",)},
        "cudnn": {"sm120": ("sm_120a",), "sm100": ("sm_100a",)},
    }
)
"""By implementation, its kernels that are driven and the targets they compile for."""

DEVICES = ("vgpu", "cuda")
PROFILES = ("isa", "practice")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything about a run but its scenarios.

    Attributes:
        impl: Implementation under test.
        kernel: Which of its kernels.
        device: `vgpu` or `cuda`.
        arch: PTX target.
        seed: Added to the seed of every scenario's data; unless 0 it also seeds the
            schedule.
        schedule: As `exec/schedule.py` has them; empty follows `seed`.
        schedules: Drawn schedules under which the first call is repeated. Races are
            looked for in each of them if there are more than one.
        profile: What counts as ordered: `isa`, what the PTX ISA promises, or
            `practice`, with the relaxations that shipping kernels rely on.
        sms: Multiprocessors of the virtual GPU.
        budget: Warp instructions of one launch after which it is given up.
        deadline: Seconds of wall time a case may take.
        races: Whether to look for races inside kernels, by `profile`, in the first
            call of a case.
        launches: Folder to record every launch in, or None.
        stats: Whether the first call of a case runs with the cost model.

    Raises:
        UsageError: a value that there is not, with those there are.
    """

    impl: str = "sidestream"
    kernel: str = "sm120"
    device: str = "vgpu"
    arch: str = "sm_120a"
    seed: int = 0
    schedule: str = ""
    schedules: int = 1
    profile: str = "practice"
    sms: int = DEFAULT_SMS
    budget: int = 2_000_000_000
    deadline: float = 300.0
    launches: Path | None = None
    stats: bool = False
    races: bool = True

    def __post_init__(self) -> None:
        _choose("implementation", self.impl, tuple(KERNELS))
        _choose("device", self.device, DEVICES)
        _choose("arch", self.arch, tuple(CHIPS))
        _choose("profile", self.profile, PROFILES)
        kernels = KERNELS[self.impl]
        _choose(f"kernel of {self.impl}", self.kernel, tuple(kernels))
        if self.arch not in kernels[self.kernel]:
            raise UsageError(
                f"kernel {self.kernel} of {self.impl} does not compile for "
                f"{self.arch}; it does for {', '.join(kernels[self.kernel])}"
            )
        if self.schedule:
            Schedule.parse(self.schedule)
        for name in ("sms", "budget", "deadline", "schedules"):
            if getattr(self, name) <= 0:
                raise UsageError(f"{name} must be positive, not {getattr(self, name)}")
        if self.stats and self.device != "vgpu":
            raise UsageError(
                "--stats counts what the virtual GPU executes: --device vgpu"
            )
        if self.seed < 0:
            raise UsageError(f"seed must not be negative, not {self.seed}")

    @property
    def scheduled(self) -> Schedule:
        """The schedule that was asked for, or that of the seed."""
        if self.schedule:
            return Schedule.parse(self.schedule)
        return Schedule(policy="random", seed=self.seed) if self.seed else Schedule()


def _choose(what: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"unknown {what} {value!r}; there are {', '.join(choices)}")
