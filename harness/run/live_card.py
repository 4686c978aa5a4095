"""A real GPU as a test holds it: launches are seen, guards and the host are watched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from sidestream.harness.cuda.card_log import CardLog
from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.dsl.on_card import OnCard
from sidestream.harness.launch import Launch
from sidestream.harness.run.card_world import GUARD, GUARD_BYTE, CardWorld
from sidestream.scenarios.fill import scratch_bytes


@dataclass(kw_only=True)
class LiveCard:
    """A card in use.

    Attributes:
        world: The card and its streams.
        dsl: Compilations and launches.
        outcomes: What was launched by CuTe DSL, in order.
        told: Called with the name of each kernel before it is launched.
    """

    world: CardWorld
    dsl: OnCard
    outcomes: list[Launch] = field(default_factory=list)
    told: Callable[[str], None] = lambda kernel: None
    _log: CardLog | None = None
    _guarded: list[tuple[str, torch.Tensor]] = field(default_factory=list)

    def launch(self, launch: Launch) -> None:
        """Take note of a launch."""
        self.outcomes.append(launch)
        self.told(launch.kernel)
        if self._log:
            self._log.launched(launch)

    def block(self, call: str, stream: int) -> None:
        """Note that compiled host code waits."""
        if self._log:
            self._log.block(call, stream)

    def scratch(self, size: int, pattern: str = "canary") -> torch.Tensor:
        """Return `size` bytes that hold a pattern, between guards.

        Raises:
            ValueError: an unknown pattern, with those there are.
        """
        whole = torch.full((size + 2 * GUARD,), GUARD_BYTE, dtype=torch.uint8)
        whole[GUARD : GUARD + size] = torch.from_numpy(scratch_bytes(pattern, size))
        there = whole.to(self.world.device)
        self._guarded.append((f"scratch {pattern}", there))
        return there[GUARD : GUARD + size]

    def complaints(self) -> list[str]:
        """Wait for the card; return a line for each defect that shows afterwards."""
        try:
            self.world.wait()
        except RuntimeError as error:
            return [f"contract: {str(error).splitlines()[0]}"]
        lines = []
        for name, there in self._guarded:
            edges = torch.cat((there[:GUARD], there[-GUARD:])).cpu()
            if bool((edges != GUARD_BYTE).any()):
                lines.append(f"stray-write: bytes beside {name} were written")
        return lines

    @contextmanager
    def quiet(self) -> Iterator[CardLog]:
        """Require that the host reads, waits, makes and fills nothing inside.

        Raises:
            AssertionError: at the end, with the operations and where they were, or
                with the reason why the driver could not be heard.
        """
        log = CardLog(table=AllocationTable())
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
        if not log.audited:
            lines.append(f"not judged: {log.unaudited}")
        assert not lines, "\n".join(lines)

    def compiled(self) -> AbstractContextManager[None]:
        """Require that nothing is compiled inside; `AssertionError` names what was."""
        return self.dsl.compiles.unused()

    @contextmanager
    def side_stream(self) -> Iterator[Any]:
        """Make another stream current; launches elsewhere fail at the end.

        Raises:
            AssertionError: with the kernels that went elsewhere.
        """
        before = len(self.outcomes)
        stream = self.world.another_stream()
        with self.world.on(stream):
            yield stream
        stray = [
            one.kernel
            for one in self.outcomes[before:]
            if one.stream != stream.cuda_stream
        ]
        assert not stray, (
            f"launched on another stream than the current one: {', '.join(stray)}"
        )


@contextmanager
def live_card(world: CardWorld) -> Iterator[LiveCard]:
    """Watch a card for as long as entered.

    Raises:
        UsageError: CuTe DSL cannot be watched in this process.
    """
    assert world.dsl is not None
    card = LiveCard(world=world, dsl=world.dsl)
    with world.dsl.watched(card.launch, card.block):
        yield card
