"""The tensors of one scenario on the virtual GPU, and execute calls on them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sidestream.harness.checks.observation import Execution, LaunchSeen, Mask
from sidestream.harness.cuda.host_sync import HostLog
from sidestream.harness.cuda.memory import Allocation
from sidestream.harness.cuda.virtual_cuda import VirtualCuda
from sidestream.harness.device.in_order import InOrder
from sidestream.harness.device.outcome import Outcome
from sidestream.harness.drivers.protocol import CallTensors, Prepared, Results
from sidestream.harness.dsl.activation import active
from sidestream.harness.dsl.capture import Capture
from sidestream.harness.dsl.record import write_launch
from sidestream.harness.errors import BuildError, SidestreamError, UnsupportedError
from sidestream.harness.exec.machine import Options
from sidestream.harness.finding import Incomplete
from sidestream.harness.launch import Launch
from sidestream.harness.run.phases import Phases
from sidestream.reference import narrow
from sidestream.scenarios.case import CaseInputs, declared_lengths
from sidestream.scenarios.fill import scratch_bytes
from sidestream.scenarios.layout import View
from sidestream.scenarios.scenario import Scenario

OUTPUTS = ("out", "lse", "amax")
DESCALES = ("descale_q", "descale_k", "descale_v")
SCALES = ("scales_q", "scales_k", "scales_v")


@dataclass(kw_only=True)
class CallRun:
    """What the launches of one call gave."""

    order: InOrder
    spent: float = 0.0

    @property
    def outcomes(self) -> list[Outcome]:
        """One for each launch."""
        return self.order.outcomes


class VirtualCall:
    """A scenario's tensors in device memory; each call starts from the same bytes.

    Args:
        world: The entered device that holds them.
        inputs: The scenario's tensors.
        workspace_bytes: Scratch that the implementation asks for.
        phases: Where time is counted.
    """

    def __init__(
        self,
        world: VirtualCuda,
        inputs: CaseInputs,
        *,
        workspace_bytes: int,
        phases: Phases,
    ) -> None:
        self.world = world
        self._inputs = inputs
        self._phases = phases
        self._own = {
            name: self._place(name, slab) for name, slab in inputs.slabs.items()
        }
        for name in ("lengths_q", "lengths_kv", "sinks"):
            value = getattr(inputs, name)
            if value is not None:
                self._own[name] = self._place(name, value)
        for name, value in zip(DESCALES, inputs.descales or (), strict=False):
            self._own[name] = self._place(name, value)
        for name, value in zip(SCALES, inputs.scales or (), strict=False):
            self._own[name] = self._place(name, value)
        if inputs.scale_out is not None:
            self._own["scale_out"] = self._place("scale_out", inputs.scale_out)
        self._workspace = world.table.allocate(
            workspace_bytes, "workspace", track_init=True
        )
        world.publish()
        self.workspace_bytes = workspace_bytes
        self.tensors = self._call_tensors()

    def _place(self, name: str, value: NDArray[Any]) -> Allocation:
        made = self.world.table.allocate(
            value.nbytes, name, writable=name in OUTPUTS, track_init=name in OUTPUTS
        )
        _copy(value, made)
        return made

    def _tensor(
        self,
        name: str,
        dtype: torch.dtype,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        *,
        offset: int = 0,
    ) -> torch.Tensor:
        """Return a tensor over one of the call's allocations; offset in elements."""
        return self._own[name].tensor(
            dtype, shape, strides, byte_offset=offset * dtype.itemsize
        )

    def _view(self, view: View) -> torch.Tensor:
        scenario = self._inputs.scenario
        kind = scenario.output_dtype if view.slab == "out" else scenario.dtype
        dtype = getattr(torch, kind)
        return self._tensor(
            view.slab, dtype, view.shape, view.strides, offset=view.offset
        )

    def _call_tensors(self) -> CallTensors:
        inputs = self._inputs
        lse = None
        if inputs.lse is not None:
            shape, strides = inputs.lse.shape, inputs.lse.strides
            if inputs.scenario.lse == "head_major":
                # As callers hold it: rows as long as they are apart.
                shape, strides = (shape[1], strides[1]), strides[::-1]
            lse = self._tensor("lse", torch.float32, shape, strides)
        lengths = {
            name: self._tensor(name, torch.int32, getattr(inputs, name).shape)
            for name in ("lengths_q", "lengths_kv")
        }
        sinks = None
        if inputs.sinks is not None:
            sinks = self._tensor("sinks", torch.float32, inputs.sinks.shape)

        def scalar(name: str) -> torch.Tensor | None:
            return (
                self._tensor(name, torch.float32, (1,)) if name in self._own else None
            )

        descales = None
        if inputs.descales is not None:
            q, k, v = (self._tensor(name, torch.float32, (1,)) for name in DESCALES)
            descales = (q, k, v)
        scales = None
        if inputs.scales is not None:
            q, k, v = (
                self._tensor(name, torch.float8_e8m0fnu, value.shape)
                for name, value in zip(SCALES, inputs.scales, strict=True)
            )
            scales = (q, k, v)
        return CallTensors(
            q=self._view(inputs.q),
            k=self._view(inputs.k),
            v=self._view(inputs.v),
            out=self._view(inputs.out),
            lse=lse,
            lengths_q=lengths["lengths_q"],
            lengths_kv=lengths["lengths_kv"],
            sinks=sinks,
            descales=descales,
            scales=scales,
            scale_out=scalar("scale_out"),
            amax=scalar("amax"),
        )

    @contextmanager
    def flipped(self, sequences: frozenset[int]) -> Iterator[None]:
        """Turn the sign of every Q and V of some sequences inside."""
        scenario = self._inputs.scenario
        sides = (
            (self._inputs.q, scenario.lengths_q),
            (self._inputs.v, scenario.lengths_kv),
        )

        kind = narrow.by_name(scenario.dtype)
        sign = kind.bits_type(1 << (kind.width - 1))

        def turn() -> None:
            for view, lengths in sides:
                bits = _elements(self._own[view.slab], view, np.dtype(kind.bits_type))
                owner = np.repeat(np.arange(len(lengths)), lengths)
                rows = np.flatnonzero(np.isin(owner, list(sequences)))
                bits[rows] ^= sign

        turn()
        try:
            yield
        finally:
            turn()

    @contextmanager
    def with_lengths(self, other: Scenario) -> Iterator[None]:
        """Let calls inside find the lengths of another scenario."""
        names = ("lengths_q", "lengths_kv")
        before = {name: self._own[name].data.copy() for name in names}
        for name, value in zip(names, declared_lengths(other), strict=True):
            _copy(value, self._own[name])
        try:
            yield
        finally:
            for name, data in before.items():
                self._own[name].data[:] = data

    def reset(self, pattern: str) -> None:
        """Put sentinels back into the outputs and a pattern into the workspace."""
        for name in OUTPUTS:
            if name in self._own:
                _copy(self._inputs.slabs[name], self._own[name])
                self._own[name].forget_writes()
        seed = self._inputs.scenario.seed
        self._workspace.data[:] = scratch_bytes(
            pattern, self.workspace_bytes, seed=seed
        )
        self._workspace.forget_writes()
        # What an interface allocates for itself starts from the same pattern.
        self.world.fill = scratch_bytes(pattern, 256, seed=seed).tobytes()

    def scratch(self) -> torch.Tensor:
        """Return the workspace as bytes."""
        return self._workspace.tensor(torch.uint8, (self.workspace_bytes,))

    def launches(self, prepared: Prepared) -> list[Launch]:
        """Return what a call would launch, without executing it."""
        self.reset("zeros")
        seen: list[Launch] = []
        with Capture(seen.append):
            prepared.execute(self.tensors, self.scratch())
        return seen

    def execute(
        self,
        prepared: Prepared,
        *,
        label: str,
        pattern: str,
        options: Callable[[], Options],
        log: HostLog | None = None,
        record: Path | None = None,
        progress: Callable[[int], None] | None = None,
        profile: str | None = None,
    ) -> Execution:
        """Make one call and execute its launches.

        Args:
            prepared: The implementation.
            label: Of the execution.
            pattern: What the workspace holds before.
            options: Called before each launch.
            log: Watches the host during the call, or None.
            record: Folder to write each launch into, or None.
            progress: Called with warp instructions while a launch runs.
            profile: Under which to look for races, or None not to.
        """
        self.reset(pattern)
        world = self.world
        run = CallRun(order=InOrder(table=world.table, profile=profile))

        def on_launch(launch: Launch) -> None:
            if run.outcomes and not run.outcomes[-1].finished:
                return  # what follows would work on unfinished data
            began = time.perf_counter()
            if record is not None:
                folder = record / f"{len(run.outcomes):02d}-{_file(launch.kernel)}"
                write_launch(folder, launch, world.table, world.chip.arch)
            for outcome in run.order.run(launch, options(), progress):
                for phase, seconds in outcome.seconds.items():
                    self._phases.add(phase, seconds)
            run.spent += time.perf_counter() - began

        def launched(launch: Launch) -> None:
            if log is None:
                on_launch(launch)
                return
            with log.paused():
                on_launch(launch)

        error, incomplete, results = None, [], None
        compiles = active().compiles
        mark = compiles.mark()
        with run.order, self._phases.timed("host", label):
            try:
                if log is None:
                    with Capture(launched):
                        results = prepared.execute(self.tensors, self.scratch())
                else:
                    with Capture(launched, log.block), log:
                        results = prepared.execute(self.tensors, self.scratch())
            except (UnsupportedError, BuildError) as raised:
                incomplete.append(Incomplete(reason=str(raised)))
            except (SidestreamError, ValueError) as raised:
                error = f"{type(raised).__name__}: {raised}"
            except Exception as raised:
                # Not something an implementation says on purpose: it may as well be
                # ours, so nothing is concluded from it.
                text = f"execute raised {type(raised).__name__}: {raised}"
                incomplete.append(Incomplete(reason=text))
            self._phases.add("compile", sum(c.seconds for c in compiles.since(mark)))
        made = self.observed(label, run, results, error, incomplete)
        return replace(made, profile=profile)

    def observed(
        self,
        label: str,
        run: CallRun,
        results: Results | None,
        error: str | None,
        incomplete: list[Incomplete],
    ) -> Execution:
        """Take down what a call or a replay has left behind."""
        incomplete += [i for o in run.outcomes for i in o.incomplete]
        finished = results is not None and all(o.finished for o in run.outcomes)
        scenario = self._inputs.scenario
        shape = (scenario.capacity_q, scenario.heads_q)
        bits = np.dtype(narrow.by_name(scenario.output_dtype).bits_type)
        out, amax = np.zeros((*shape, scenario.width_v), bits), None
        lse = np.zeros(shape, np.float32) if self._inputs.lse is not None else None
        written: dict[str, Mask] = {}
        if results is not None:
            out = self._bits(results.out, bits)
            if results.amax is not None:
                amax = self._bits(results.amax, np.dtype(np.float32))
            if lse is not None and results.lse is not None:
                lse = self._bits(results.lse, np.dtype(np.float32))
            if not results.returned:
                for name in OUTPUTS:
                    if name in self._own and self._own[name].init is not None:
                        written[name] = np.array(self._own[name].init, np.bool_)
        return Execution(
            label=label,
            out=out,
            lse=lse,
            amax=amax,
            written=written,
            findings=tuple(f for o in run.outcomes for f in o.findings),
            harmless=tuple(f for o in run.outcomes for f in o.harmless),
            incomplete=tuple(incomplete),
            finished=finished,
            launches=tuple(
                LaunchSeen(kernel=o.kernel, stream=o.stream) for o in run.outcomes
            ),
            error=error,
            warp_instructions=sum(o.warp_instructions for o in run.outcomes),
            counted=tuple(o.counted for o in run.outcomes if o.counted),
            relaxed=sum((Counter(o.relaxed) for o in run.outcomes), Counter()),
        )

    def _bits(self, tensor: torch.Tensor, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Copy a device tensor's bits out, without a torch operation."""
        home = self.world.table.at(tensor.untyped_storage().data_ptr())
        shape = tuple(int(n) for n in tensor.shape)
        if home is None or 0 in shape:
            return np.zeros(shape, dtype)
        strides = tuple(int(s) for s in tensor.stride())
        offset = (tensor.data_ptr() - home.va) // dtype.itemsize
        view = View(slab=home.name, offset=offset, shape=shape, strides=strides)
        return np.array(_elements(home, view, dtype))

    @property
    def names(self) -> frozenset[str]:
        """Names of the tensors that belong to the caller."""
        return frozenset({*self._own, "workspace"})

    def allowed(self) -> dict[str, Mask]:
        """By output, the bytes that rows of live sequences occupy."""
        masks = {}
        if "amax" in self._own:
            masks["amax"] = np.ones(self._own["amax"].size, np.bool_)
        for name, view, size in (
            ("out", self._inputs.out, self._inputs.slabs["out"].itemsize),
            ("lse", self._inputs.lse, 4),
        ):
            if view is None:
                continue
            elements = np.zeros(self._own[name].size // size, np.bool_)
            chosen = np.lib.stride_tricks.as_strided(
                elements[view.offset :], view.shape, view.strides
            )
            chosen[self._inputs.live] = True
            masks[name] = np.repeat(elements, size)
        return masks

    def spell(self, name: str, byte: int) -> str:
        """Name the place of a byte of an output."""
        view = {"out": self._inputs.out, "lse": self._inputs.lse}.get(name)
        if view is None:
            return f"byte {byte}"
        element = byte // self._inputs.slabs[name].itemsize - view.offset
        names = ("token", "head", "column")
        index, gap = {}, False
        for axis in sorted(range(len(view.shape)), key=lambda a: -view.strides[a]):
            index[names[axis]], element = divmod(element, view.strides[axis])
            gap = gap or index[names[axis]] >= view.shape[axis]
        text = ", ".join(f"{n} {index[n]}" for n in names if n in index)
        return f"{text} (a gap between rows)" if gap else text

    def broken_guards(self) -> list[tuple[str, int]]:
        """Allocations whose redzones were written by the host."""
        return [(a.name, offset) for a, offset in self.world.table.broken_redzones()]


def _copy(value: NDArray[Any], target: Allocation) -> None:
    flat = np.ascontiguousarray(value).reshape(-1)
    target.data[:] = flat.view(np.uint8)


def _elements(home: Allocation, view: View, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a writable strided view of an allocation's elements."""
    size = home.size // dtype.itemsize * dtype.itemsize
    flat = home.data[:size].view(dtype)
    return np.lib.stride_tricks.as_strided(
        flat[view.offset :], view.shape, tuple(s * dtype.itemsize for s in view.strides)
    )


def _file(kernel: str) -> str:
    """A kernel's name as part of a file name, mangled ones cut."""
    return "".join(c if c.isalnum() or c in "_-" else "_" for c in kernel)[:60]
