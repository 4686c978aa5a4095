"""Run a Python script on the virtual device, as it is."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any
from unittest import mock

from sidestream.harness.bindings.calls import Calls
from sidestream.harness.bindings.interfaces import answers
from sidestream.harness.bindings.refusals import refusals
from sidestream.harness.cuda.driver_calls import driver_answers
from sidestream.harness.device.outcome import Outcome
from sidestream.harness.drivers.cudnn_handles import CudnnWithoutLibrary
from sidestream.harness.drivers.package_caches import SWITCHED_OFF
from sidestream.harness.drivers.triton_stand_in import TritonForAutotuner
from sidestream.harness.dsl.activation import Activation, activate
from sidestream.harness.dsl.capture import Capture
from sidestream.harness.dsl.compile_log import CompileRecord
from sidestream.harness.dsl.key_record import KeyRecord
from sidestream.harness.exec.machine import Options
from sidestream.harness.finding import Finding, Incomplete
from sidestream.harness.run import (
    script_allocations,
    script_checks,
    script_keys,
    script_refusals,
)
from sidestream.harness.run.holders import held_by_packages
from sidestream.harness.run.steady import Steady
from sidestream.harness.run.stream_launches import StreamLaunches
from sidestream.harness.runtime import (
    CallSite,
    HostWait,
    Landing,
    Runtime,
    ThreadEdges,
    here,
)
from sidestream.harness.runtime.program_calls import ProgramCalls
from sidestream.harness.runtime.timeline import Moment
from sidestream.harness.vtorch import VirtualTorch, allocator_settings

Compiled = tuple[str, CallSite]
"""A host function that was compiled, and where."""


@dataclass(frozen=True, kw_only=True)
class ScriptRun:
    """What a script did and what it showed.

    Attributes:
        findings: Races of the host program, defects of launches, and what packages
            that the script uses do on the host at every call.
        incomplete: What could not be judged, and how the script failed.
        outcomes: Of the launches, in the order they landed.
        waits: Waits of the host, in order.
        compiled: Compilations.
        schedule: The landing policy that makes every landing again.
        moments: What takes place when, by estimate.
        operations: How many operations it called.
    """

    findings: tuple[Finding, ...]
    incomplete: tuple[Incomplete, ...]
    outcomes: tuple[Outcome, ...]
    waits: tuple[HostWait, ...]
    compiled: tuple[Compiled, ...]
    schedule: str
    moments: tuple[Moment, ...]
    operations: int


def run_script(
    script: Path,
    arguments: Sequence[str],
    *,
    arch: str,
    landing: Landing,
    options: Options,
    profile: str | None,
    keys: Path | None = None,
    torch_version: tuple[int, int] | None = None,
    devices: int = 1,
) -> ScriptRun:
    """Run a script under the virtual device and judge what it did.

    Everything that is pending at its end lands.

    Args:
        script: A Python file.
        arguments: Its command line.
        arch: What the device is.
        landing: When operations land.
        options: How launches are executed.
        profile: Under which to look for races inside launches, or None not to.
        torch_version: The torch whose `ExternalStream(0)` it is; the installed one if
            absent.
        devices: How many devices there are.
        keys: Folder where processes keep what compile keys stand for, or None.

    Raises:
        UsageError: the process is bound to another device.
    """
    home = script.resolve().parent

    def of_package(file: str) -> bool:
        return script_checks.of_package(file, home)

    activation = activate(arch=arch)
    device = VirtualTorch(
        activation.chip,
        landing=landing,
        activation=activation,
        torch_version=torch_version,
        devices=devices,
    )
    runtime = device.runtime
    contexts = device.contexts
    launches = StreamLaunches(
        runtime=runtime,
        options=lambda: options,
        device=contexts.device,
        profile=profile,
    )
    compiled: list[Compiled] = []
    records: list[tuple[CompileRecord, CallSite]] = []
    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, SWITCHED_OFF))
        stack.enter_context(ThreadEdges(runtime.order))
        stack.enter_context(device)
        # What the device is, then, in the place of some of it, what it does.
        for owner, name, value in (
            *refusals(runtime.not_modelled),
            *driver_answers(lambda: activation.chip, runtime.not_modelled),
            *answers(Calls(runtime=runtime, device=contexts.device, contexts=contexts)),
        ):
            stack.enter_context(mock.patch.object(owner, name, value))
        stack.enter_context(_compilations(activation, compiled, records))
        stack.enter_context(Capture(launches))
        stack.enter_context(_command_line(script, arguments))
        stack.enter_context(_importing(TritonForAutotuner()))
        chip = activation.chip
        finder = CudnnWithoutLibrary(chip.capability, chip.sms)
        stack.enter_context(_importing(finder))
        stack.enter_context(ProgramCalls(of_package))
        held = _Held()
        failure = _execute(script, runtime, held)
        failure = "; ".join(filter(None, (failure, _refused(activation))))
        steady = Steady(runtime.worked, [site for _, site in compiled], home)
        kept = script_allocations.kept(
            runtime.tenancies.live(),
            lambda starts: held_by_packages(starts, held.values, of_package),
            steady,
            home,
        )
        held.values.clear()
        launches.close()
        for reason in allocator_settings.of_environment(os.environ):
            runtime.leave_open(reason)
    return ScriptRun(
        findings=(
            *runtime.findings(),
            *(finding for outcome in launches.outcomes for finding in outcome.findings),
            *script_checks.waits(runtime.host_waits, home),
            *script_checks.fills(runtime.fills.dead(), home),
            *script_checks.compilations(compiled, home),
            *script_allocations.reserved(runtime.reservations, steady, home),
            *script_allocations.missed(runtime.reservations, steady, home),
            *kept,
            *script_keys.unequal(records, KeyRecord(keys) if keys else None),
            *script_keys.shared(launches.contracts.shared),
            *script_refusals.refused(runtime.refusals),
            *script_refusals.foreign(launches.contracts.foreign),
            *script_refusals.left_changed(contexts.changes, runtime.worked, home),
            *script_refusals.empty(runtime.empty_graphs),
            *script_refusals.unfilled(runtime.captured.unfilled),
        ),
        incomplete=_incomplete(runtime, launches.outcomes, failure),
        outcomes=tuple(launches.outcomes),
        waits=tuple(runtime.host_waits),
        compiled=tuple(compiled),
        schedule=runtime.schedule().spell(),
        operations=runtime.operations,
        moments=tuple(runtime.moments),
    )


@dataclass(kw_only=True)
class _Held:
    """What the script still holds at its end: its global variables."""

    values: dict[str, Any] = field(default_factory=dict)


def _execute(script: Path, runtime: Runtime, held: _Held) -> str:
    """Run the script to its end and return how it failed, or ""."""
    try:
        held.values = runpy.run_path(str(script), run_name="__main__")
        runtime.drain()
    except SystemExit as end:
        runtime.drain()
        return "" if end.code in (None, 0) else f"the script exits with {end.code}"
    except KeyboardInterrupt:
        return "interrupted"
    except Exception as raised:
        traceback.print_exc()
        return _landed_after(runtime, raised)
    return ""


def _landed_after(runtime: Runtime, raised: Exception) -> str:
    """Land what the script left behind: it may show why it raised."""
    told = f"the script raised {type(raised).__name__}: {raised}"
    try:
        runtime.drain()
    except Exception as late:
        return f"{told}; then an operation raised {type(late).__name__}: {late}"
    return told


def _refused(activation: Activation) -> str:
    """Return why the virtual device refused a launch last, or "".

    A package may have made an error of its own out of it.
    """
    try:
        activation.surface()
    except BaseException as kept:
        return f"{type(kept).__name__}: {kept}"
    return ""


@contextmanager
def _command_line(script: Path, arguments: Sequence[str]) -> Iterator[None]:
    """Let the script see its own command line and import its neighbours."""
    before, path = sys.argv, list(sys.path)
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before, path


@contextmanager
def _importing(finder: MetaPathFinder) -> Iterator[None]:
    """Let a finder be asked first."""
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def _compilations(
    activation: Activation,
    into: list[Compiled],
    records: list[tuple[CompileRecord, CallSite]],
) -> Iterator[None]:
    """Note where each compilation is asked for."""
    add = activation.compiles.add

    def noted(**facts: Any) -> Any:
        site = here()
        into.append((facts["source_name"], site))
        record = add(**facts)
        records.append((record, site))
        return record

    with mock.patch.object(activation.compiles, "add", noted):
        yield


def _incomplete(
    runtime: Runtime, outcomes: Sequence[Outcome], failure: str
) -> tuple[Incomplete, ...]:
    told = [entry for outcome in outcomes for entry in outcome.incomplete]
    reasons = {entry.reason for entry in told}
    told += [i for i in runtime.incomplete() if i.reason not in reasons]
    if failure:
        told.append(Incomplete(reason=failure))
    return tuple(told)
