"""A call whose operands reach past 2^31 elements, in reserved memory.

    seen = run_far(case, driver=driver, device=device)
    assert seen.kinds == frozenset()

Memory is reserved, not taken: only the pages of live rows exist. There is no check of
races or of untouched bytes here: both keep a copy of all memory. What a wrapped offset
does is told by the rows that it misses and by the accesses that leave an allocation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sidestream.harness.cuda.memory import Allocation, AllocationTable
from sidestream.harness.cuda.virtual_cuda import VirtualCuda
from sidestream.harness.device.outcome import judge, no_time
from sidestream.harness.device.programs import CACHE
from sidestream.harness.drivers.ours import Sidestream
from sidestream.harness.drivers.protocol import CallTensors
from sidestream.harness.dsl.activation import Activation
from sidestream.harness.dsl.capture import Capture
from sidestream.harness.errors import SidestreamError
from sidestream.harness.exec.machine import Options, execute
from sidestream.harness.launch import Launch
from sidestream.harness.run.problem import problem_of
from sidestream.harness.run.virtual_call import DESCALES, OUTPUTS
from sidestream.reference import narrow, parity, tolerance
from sidestream.scenarios.case import CaseInputs, build
from sidestream.scenarios.far import Far, places, work_list

BUDGET = 20_000_000
"""Warp instructions of a launch, after which it is given up."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a case showed.

    Attributes:
        kinds: Kinds of findings; `parity` stands for rows outside their bound.
        reasons: Why it was not judged.
    """

    kinds: frozenset[str]
    reasons: tuple[str, ...]


class _Operands:
    """The operands of one case in reserved memory."""

    def __init__(self, case: Far, inputs: CaseInputs, table: AllocationTable) -> None:
        self._case, self._table = case, table
        self._places = places(case)
        self._homes: dict[str, Allocation] = {}
        self._kinds: dict[str, np.dtype[Any]] = {}
        for name, place in self._places.items():
            written = name in OUTPUTS
            kind = inputs.slabs[name].dtype
            self._kinds[name] = kind
            size = place.span * kind.itemsize
            self._homes[name] = table.reserve(size, name, writable=written)
            if not written:
                self.rows(name)[:] = inputs.array(getattr(inputs, name))

    def rows(self, name: str) -> NDArray[Any]:
        """Return the live rows of an operand, as bits or as float32."""
        view = self._places[name].view
        kind = self._kinds[name]
        flat = self._homes[name].data.view(kind)[view.offset :]
        steps = tuple(s * kind.itemsize for s in view.strides)
        return np.lib.stride_tricks.as_strided(flat, view.shape, steps)

    def tensor(self, name: str) -> torch.Tensor:
        """Return an operand with all of its capacity, as a caller holds it."""
        place = self._places[name]
        shape, strides = (place.capacity, *place.view.shape[1:]), place.view.strides
        scenario = self._case.scenario
        kind = scenario.output_dtype if name == "out" else scenario.dtype
        dtype = getattr(torch, kind)
        if name == "lse":
            dtype = torch.float32
            if scenario.lse == "head_major":
                shape, strides = shape[::-1], strides[::-1]
        return self._homes[name].tensor(dtype, shape, strides)

    def call(self, inputs: CaseInputs) -> CallTensors:
        """Return all tensors of the call."""
        descales = None
        if inputs.descales is not None:
            q, k, v = (
                self._small(name, value)
                for name, value in zip(DESCALES, inputs.descales, strict=True)
            )
            descales = (q, k, v)

        def small(name: str, value: NDArray[Any] | None) -> torch.Tensor | None:
            return self._small(name, value) if value is not None else None

        if self._case.at_end and "amax" in inputs.slabs:
            # The launch that resets it is left out.
            inputs.slabs["amax"][:] = 0.0
        return CallTensors(
            q=self.tensor("q"),
            k=self.tensor("k"),
            v=self.tensor("v"),
            out=self.tensor("out"),
            lse=self.tensor("lse") if inputs.lse is not None else None,
            lengths_q=self._small("lengths_q", inputs.lengths_q),
            lengths_kv=self._small("lengths_kv", inputs.lengths_kv),
            sinks=small("sinks", inputs.sinks),
            descales=descales,
            scale_out=small("scale_out", inputs.scale_out),
            amax=small("amax", inputs.slabs.get("amax")),
        )

    def amax(self) -> float | None:
        """Return the largest output, if there is one."""
        home = self._homes.get("amax")
        return float(home.data.view(np.float32)[0]) if home is not None else None

    def _small(self, name: str, value: NDArray[Any]) -> torch.Tensor:
        """Return an array in an allocation of its own."""
        home = self._table.allocate(value.nbytes, name, writable=name in OUTPUTS)
        self._homes[name] = home
        home.data[:] = value.view(np.uint8)
        return home.tensor(getattr(torch, value.dtype.name), value.shape)


def run_far(case: Far, *, driver: Sidestream, device: Activation) -> Seen:
    """Make the call of a case and compare its rows with the reference.

    Raises:
        SidestreamError: the kernels do not serve it, or launch nothing.
    """
    inputs = build(case.scenario)
    problem = problem_of(case.scenario)
    model = driver.arithmetic(problem, device.arch)
    limits = tolerance.bound(inputs.problem(), dtype=model)
    with VirtualCuda(device, AllocationTable()) as world:
        prepared = driver.prepare(problem, world)
        held = _Operands(case, inputs, world.table)
        tensors = held.call(inputs)
        size = prepared.workspace_bytes
        workspace = world.table.allocate(size, "workspace", track_init=True)
        world.publish()
        launches: list[Launch] = []
        with Capture(launches.append):
            prepared.execute(tensors, workspace.tensor(torch.uint8, (size,)))
        if case.at_end:
            words = work_list(case, prepared.compiled.config).view(np.uint8)
            workspace.data[: len(words)] = words
            workspace.init = None
            launches = launches[1:]
        if not launches:
            raise SidestreamError(f"{case.scenario.name}: nothing was launched")
        kinds, reasons = _executed(launches, world.table, device)
        out = narrow.from_bits(
            np.array(held.rows("out")), narrow.by_name(case.scenario.output_dtype)
        )
        if inputs.scale_out is not None:
            out = out / float(inputs.scale_out[0])
        lse = np.array(held.rows("lse")) if inputs.lse is not None else None
        amax = held.amax()
    distance = parity.compare(limits, out=out, lse=lse, amax=amax)
    if distance.worst > 1.0:
        kinds.add("parity")
    return Seen(kinds=frozenset(kinds), reasons=tuple(reasons))


def _executed(
    launches: list[Launch], table: AllocationTable, device: Activation
) -> tuple[set[str], list[str]]:
    """Execute launches; kinds of findings, and why something was not judged."""
    chip = device.chip
    options = Options(sms=chip.sms, max_smem=chip.smem_per_block, budget=BUDGET)
    kinds: set[str] = set()
    reasons: list[str] = []
    for launch in launches:
        # `run_launch` takes a snapshot first, which reserved memory does not allow.
        program = CACHE.get(launch, table, None).program
        result = execute(program, launch, table.entries(), options)
        outcome = judge(launch, program, table, result, no_time())
        kinds |= {finding.kind for finding in outcome.findings}
        reasons += [entry.reason for entry in outcome.incomplete]
    return kinds, reasons
