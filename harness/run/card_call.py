"""The tensors of one scenario on a real GPU, and execute calls on them.

The host keeps a copy of every tensor. A call sends the copies between guards of a known
pattern, runs, and brings everything back, so that whatever was written where it must
not be is seen; what was read where it must not be is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from sidestream.harness.checks.observation import Execution
from sidestream.harness.cuda.host_sync import HostLog
from sidestream.harness.cuda.memory import Allocation, contiguous
from sidestream.harness.cuda.virtual_cuda import VirtualCuda
from sidestream.harness.drivers.protocol import Prepared, Results
from sidestream.harness.errors import SidestreamError, UnsupportedError
from sidestream.harness.exec.machine import Options
from sidestream.harness.finding import Incomplete
from sidestream.harness.run.card_world import GUARD, GUARD_BYTE, CardWorld
from sidestream.harness.run.phases import Phases
from sidestream.harness.run.virtual_call import OUTPUTS, VirtualCall
from sidestream.scenarios.case import CaseInputs


class CardCall(VirtualCall):
    """As `VirtualCall`, on a card; launches and their defects are not seen.

    Args:
        world: The card.
        inputs: The scenario's tensors.
        workspace_bytes: Scratch that the implementation asks for.
        phases: Where time is counted.
    """

    def __init__(
        self,
        world: CardWorld,
        inputs: CaseInputs,
        *,
        workspace_bytes: int,
        phases: Phases,
    ) -> None:
        self._card = world
        self._there: dict[str, torch.Tensor] = {}
        self._broken: dict[str, int] = {}
        super().__init__(
            cast(VirtualCuda, world),  # the part of it that a call uses
            inputs,
            workspace_bytes=workspace_bytes,
            phases=phases,
        )

    def _buffer(self, name: str, size: int) -> torch.Tensor:
        """Return the device bytes of a tensor with its guards."""
        if name not in self._there:
            self._there[name] = torch.empty(
                size + 2 * GUARD, dtype=torch.uint8, device=self._card.device
            )
        return self._there[name]

    def _tensor(
        self,
        name: str,
        dtype: torch.dtype,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        *,
        offset: int = 0,
    ) -> torch.Tensor:
        size = self._own[name].size
        whole = self._buffer(name, size)[GUARD : GUARD + size].view(dtype)
        steps = strides if strides is not None else contiguous(shape)
        start = GUARD // dtype.itemsize + offset
        return whole.as_strided(tuple(shape), tuple(steps), start)

    def scratch(self) -> torch.Tensor:
        """Return the workspace as bytes."""
        size = self.workspace_bytes
        return self._buffer("workspace", size)[GUARD : GUARD + size]

    def _send(self, home: Allocation) -> None:
        guarded = np.full(home.size + 2 * GUARD, GUARD_BYTE, np.uint8)
        guarded[GUARD : GUARD + home.size] = home.data
        self._buffer(home.name, home.size).copy_(torch.from_numpy(guarded))

    def _fetch(self, home: Allocation) -> NDArray[np.uint8]:
        back = self._buffer(home.name, home.size).cpu().numpy()
        outside = np.flatnonzero(back != GUARD_BYTE) - GUARD
        outside = outside[(outside < 0) | (outside >= home.size)]
        if len(outside):
            self._broken.setdefault(home.name, int(outside[0]))
        return np.array(back[GUARD : GUARD + home.size])

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
        """Make one call and wait for it; schedule and budget are the card's own."""
        self.reset(pattern)
        homes = [*self._own.values(), self._workspace]
        for home in homes:
            self._send(home)
        self._card.wait()
        error, incomplete, results = None, [], None
        with self._phases.timed("execute", label):
            try:
                if log is None:
                    results = self._run(prepared)
                else:
                    with log:
                        results = self._run(prepared)
                self._card.wait()
            except UnsupportedError as raised:
                incomplete.append(Incomplete(reason=str(raised)))
            except (SidestreamError, ValueError) as raised:
                error = f"{type(raised).__name__}: {raised}"
            except RuntimeError as raised:
                # What the card complains about comes when it is waited for.
                first = str(raised).splitlines()[0]
                error = f"{type(raised).__name__}: {first}"
        return self._seen(label, results, error, incomplete)

    def _run(self, prepared: Prepared) -> Results:
        return prepared.execute(self.tensors, self.scratch())

    def _seen(
        self,
        label: str,
        results: Results | None,
        error: str | None,
        incomplete: list[Incomplete],
    ) -> Execution:
        scenario = self._inputs.scenario
        shape = (scenario.capacity_q, scenario.heads_q)
        out = np.zeros((*shape, scenario.width_v), np.uint16)
        lse = np.zeros(shape, np.float32) if self._inputs.lse is not None else None
        written = {}
        if results is not None and error is None:
            out = _host_bits(results.out, torch.uint16)
            if lse is not None and results.lse is not None:
                lse = _host_bits(results.lse, torch.float32)
            for name, home in self._own.items():
                if results.returned and name in OUTPUTS:
                    continue
                written[name] = self._fetch(home) != home.data
            self._fetch(self._workspace)
        return Execution(
            label=label,
            out=out,
            lse=lse,
            written=written,
            incomplete=tuple(incomplete),
            finished=results is not None and error is None,
            error=error,
        )

    def broken_guards(self) -> list[tuple[str, int]]:
        """Tensors whose guards were written, with the byte offset of the first."""
        return sorted(self._broken.items())


def _host_bits(tensor: torch.Tensor, dtype: torch.dtype) -> NDArray[Any]:
    bits: NDArray[Any] = tensor.detach().contiguous().view(dtype).cpu().numpy()
    return bits.copy()
