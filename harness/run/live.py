"""The virtual GPU as a test holds it: torch sees it, launches run, defects are kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sidestream.harness.checks import races
from sidestream.harness.cuda.host_sync import HostLog
from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.cuda.virtual_cuda import VirtualCuda
from sidestream.harness.device.outcome import Outcome
from sidestream.harness.device.vgpu import run_launch
from sidestream.harness.dsl.activation import Activation, activate
from sidestream.harness.dsl.capture import Capture
from sidestream.harness.exec.machine import Options
from sidestream.harness.finding import Finding
from sidestream.harness.launch import Launch
from sidestream.scenarios.fill import scratch_bytes

if TYPE_CHECKING:
    import torch


@dataclass(kw_only=True)
class LiveDevice:
    """A virtual GPU in use.

    Attributes:
        activation: The chip and the compilations of this process.
        world: Its memory, and what torch is told.
        options: How launches are executed.
        profile: Under which to look for races, or None not to.
        outcomes: What each launch showed, in order.
    """

    activation: Activation
    world: VirtualCuda
    options: Options
    profile: str | None = None
    outcomes: list[Outcome] = field(default_factory=list)
    _log: HostLog | None = None

    def launch(self, launch: Launch) -> None:
        """Execute a launch: what the capture calls."""
        with self._log.paused() if self._log else nullcontext():
            self.outcomes.append(
                run_launch(launch, self.world.table, self.options, profile=self.profile)
            )

    def block(self, call: str, stream: int) -> None:
        """Note that compiled host code waits: what the capture calls."""
        if self._log:
            self._log.block(call, stream)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Defects of all launches so far."""
        return tuple(f for outcome in self.outcomes for f in outcome.findings)

    def complaints(self) -> list[str]:
        """Return a line for each defect, and for whatever could not be judged."""
        lines = [_line(finding) for finding in self.findings]
        for outcome in self.outcomes:
            for entry in outcome.incomplete:
                lines.append(f"not judged: {entry.kernel}: {entry.reason}")
        return lines

    def scratch(self, size: int, pattern: str = "canary") -> torch.Tensor:
        """Return `size` bytes that hold a pattern and count as unwritten.

        A kernel that reads a byte before it was written shows a finding.

        Raises:
            ValueError: an unknown pattern, with those there are.
        """
        import torch

        made = self.world.table.allocate(size, f"scratch {pattern}")
        made.data[:] = scratch_bytes(pattern, size)
        made.forget_writes()
        self.world.publish()
        return made.tensor(torch.uint8, (size,))

    @contextmanager
    def quiet(self) -> Iterator[HostLog]:
        """Require that the host reads, waits, makes and fills nothing inside.

        Raises:
            AssertionError: at the end, with the operations and where they were.
        """
        log = HostLog(table=self.world.table)
        self._log = log
        try:
            with log:
                yield log
        finally:
            self._log = None
        lines = [
            f"{event.kind}: {event.operation} ({event.detail}) at {event.stack[:1]}"
            for event in log.events
        ]
        assert not lines, "\n".join(lines)

    @contextmanager
    def raced(self, profile: str = "practice") -> Iterator[None]:
        """Require that launches inside have no race, whatever else is watched.

        Args:
            profile: What counts as ordered: `practice` or `isa`.

        Raises:
            AssertionError: at the end: races, what could not be judged, or that
                nothing was launched.
        """
        before, usual = len(self.outcomes), self.profile
        self.profile = profile
        try:
            yield
        finally:
            self.profile = usual
        seen = self.outcomes[before:]
        assert seen, "nothing was launched inside"
        lines = [
            _line(finding)
            for outcome in seen
            for finding in outcome.findings
            if races.is_race(finding)
        ]
        lines += [f"not judged: {i.reason}" for o in seen for i in o.incomplete]
        assert not lines, "\n".join(lines)

    def compiled(self) -> AbstractContextManager[None]:
        """Require that nothing is compiled inside; `AssertionError` names what was."""
        return self.activation.compiles.unused()


def _line(finding: Finding) -> str:
    place = next((s for s in finding.sites if s.source or s.ptx_line), None)
    where = place.source or f"PTX line {place.ptx_line}" if place else ""
    return f"{finding.kind}: {finding.message} {where}".rstrip()


@contextmanager
def live(
    *,
    arch: str,
    seed: int = 0,
    deadline: float = 60.0,
    profile: str | None = "practice",
) -> Iterator[LiveDevice]:
    """Make a virtual GPU of `arch` the device that torch sees, for as long as entered.

    Args:
        arch: PTX target.
        seed: Of the schedule; 0 is round-robin.
        deadline: Seconds that a launch may take.
        profile: Under which to look for races, or None not to.

    Raises:
        UsageError: an unknown target, or a process that is bound to another one.
    """
    activation = activate(arch=arch)
    with VirtualCuda(activation, AllocationTable()) as world:
        options = Options(
            seed=seed,
            deadline=deadline,
            sms=activation.chip.sms,
            max_smem=activation.chip.smem_per_block,
        )
        device = LiveDevice(
            activation=activation, world=world, options=options, profile=profile
        )
        with Capture(device.launch, device.block):
            yield device
