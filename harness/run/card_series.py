"""Calls made one after another on a card, compared there and awaited together.

Every call starts from the same memory but for one change, which is taken back when the
call is over: two calls that do the same then leave the same bytes behind, wherever they
are, but for the scratch. The card compares all of them, and the host fetches those
alone that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray

from sidestream.harness.checks.observation import Execution, rows_of
from sidestream.harness.drivers.protocol import Results
from sidestream.harness.errors import SidestreamError
from sidestream.harness.run.card_arena import SCRATCH
from sidestream.harness.run.card_call import CardCall, told
from sidestream.scenarios.case import declared_lengths
from sidestream.scenarios.layout import View
from sidestream.scenarios.scenario import Scenario

MOST_BYTES = 1 << 30
"""Memory of the card that calls which were not looked at may keep."""
_SIGNED = {1: torch.int8, 2: torch.int16, 4: torch.int32}
"""By bytes of an element, the integers that stand for its bits."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """How the memory that a call finds differs from that of the first one.

    Attributes:
        pattern: What the scratch holds; "" for what it held then.
        flipped: Sequences whose Q and V have the other sign.
        lengths: Scenario whose lengths are declared instead, in the same room.
    """

    pattern: str = ""
    flipped: frozenset[int] = frozenset()
    lengths: Scenario | None = None


@dataclass(kw_only=True)
class _Made:
    """A call that was made.

    Attributes:
        label: Of the execution.
        results: What it returned.
        error: What it raised, or "".
        left: What it left behind, as words, if that was kept.
        off: Words that are not as in `like`, bit by bit.
        like: What it should leave behind: as the first call, or as another one.
        other: Where that is another one, it.
        free: (capacity_q,) rows whose results may differ, or None.
        seen: The execution, once it is known.
    """

    label: str
    results: Results | None = None
    error: str = ""
    left: torch.Tensor | None = None
    off: torch.Tensor | None = None
    like: torch.Tensor | None = None
    other: _Made | None = None
    free: NDArray[np.bool_] | None = None
    seen: Execution | None = None


@dataclass(kw_only=True)
class Series:
    """Calls that must leave behind what a first one did, or what another one does.

    Attributes:
        call: Its tensors, on the stream of all calls.
        first: The first call: it was awaited, and its bytes are still there.
    """

    call: CardCall
    first: Execution
    _made: list[_Made] = field(default_factory=list)
    _after: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        with self._on_stream():
            self._after = self._words().clone()

    def add(
        self, label: str, make: Callable[[], Results], change: Change | None = None
    ) -> None:
        """Make a call that must do what the first one did.

        Args:
            label: Of its execution.
            make: Makes it on the current stream, and waits for nothing.
            change: What it finds; rows of flipped sequences may have other results.
        """
        change = change or Change()
        made = _Made(label=label, like=self._after)
        if change.flipped:
            scenario = self.call.inputs.scenario
            rows = rows_of(scenario.lengths_q, scenario.capacity_q)
            made.free = rows.of(change.flipped)
        self._make(made, make, change)
        self._made.append(made)

    def add_pair(
        self,
        labels: tuple[str, str],
        makes: tuple[Callable[[], Results], Callable[[], Results]],
        change: Change,
    ) -> None:
        """Make two calls that must do the same, whatever the first of all did."""
        one, two = (_Made(label=label) for label in labels)
        self._make(one, makes[0], change)
        two.other, two.like, two.error = one, one.left, one.error
        if two.like is not None:
            self._make(two, makes[1], change)
        self._made += [one, two]

    def settle(self) -> list[Execution]:
        """Wait for all calls; return their executions in the order they were made.

        One that left the same bytes behind shares its arrays with what it equals.
        """
        self._look()
        return [self._execution(made) for made in self._made]

    def _make(self, made: _Made, make: Callable[[], Results], change: Change) -> None:
        arena, scratch = self.call.arena, self.call.inputs.scenario.scratch
        if not self._made:  # calls since the first one may have held another
            arena.put(SCRATCH, self.call.scratch_of(scratch))
        try:
            with self._on_stream():
                arena.load()
                if change.pattern:
                    held = torch.from_numpy(self.call.scratch_of(change.pattern))
                    self.call.scratch().copy_(held, non_blocking=True)
                turned = list(self._turned(change))
                for bits, by in turned:
                    bits.bitwise_xor_(by)
                results = make()
                # What an interface has allocated the next replay overwrites.
                made.results = results.kept() if results.returned else results
                for bits, by in turned:
                    bits.bitwise_xor_(by)
                if made.like is None:
                    made.left = self._words().clone()
                else:
                    made.off = self._words() ^ made.like
        except (SidestreamError, ValueError, RuntimeError) as raised:
            made.error = told(raised)
        waiting = sum(m.off is not None and m.seen is None for m in self._made)
        if (waiting + 1) * arena.there.numel() > MOST_BYTES:
            self._look()

    def _turned(self, change: Change) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield what is not as in the image: integers, and the bits that turn."""
        tensors, scenario = self.call.tensors, self.call.inputs.scenario
        for tensor, lengths in (
            (tensors.q, scenario.lengths_q),
            (tensors.v, scenario.lengths_kv),
        ):
            if not change.flipped:
                break
            kind = _SIGNED[tensor.dtype.itemsize]
            turns = rows_of(lengths, tensor.shape[0]).of(change.flipped)
            sign = torch.from_numpy(turns).to(kind) * torch.iinfo(kind).min
            yield tensor.view(kind), self._there(sign)[:, None, None]
        if change.lengths is not None:
            found = (self.call.inputs.lengths_q, self.call.inputs.lengths_kv)
            places = (tensors.lengths_q, tensors.lengths_kv)
            wanted = declared_lengths(change.lengths)
            for there, old, new in zip(places, found, wanted, strict=True):
                yield there, self._there(torch.from_numpy(old ^ new))

    def _look(self) -> None:
        """Wait for what was made, and let the card tell what differs."""
        asked = [m for m in self._made if m.seen is None and m.off is not None]
        try:
            self.call.card.wait()
            with self._on_stream():
                flags = self._differ(asked) if asked else []
        except RuntimeError as raised:
            for made in self._made:
                if made.seen is None:
                    made.error = made.error or told(raised)
            return
        for made, off in zip(asked, flags, strict=True):
            results = made.results
            assert made.off is not None
            assert made.like is not None
            same = not off and results is not None and not results.returned
            if made.other is None and same:
                made.seen = replace(self.first, label=made.label, launches=())
            elif same:
                made.seen = _unfetched(made.label)
            else:
                made.seen = self._fetched(made, made.off ^ made.like)
            one = made.other
            if one is not None:
                assert one.left is not None
                one.seen = (
                    replace(made.seen, label=one.label)
                    if same
                    else self._fetched(one, one.left)
                )
                one.left = None
            made.off = made.like = None

    def _differ(self, asked: list[_Made]) -> list[bool]:
        """Tell which calls left other bytes behind, outside of scratch."""
        arena, inputs = self.call.arena, self.call.inputs
        offs = torch.stack([made.off for made in asked if made.off is not None])
        offs.view(torch.uint8)[:, arena.part(SCRATCH)] = 0
        for row, made in enumerate(asked):
            if made.free is None:
                continue
            free = self._there(torch.from_numpy(made.free))
            for view in (inputs.out, inputs.lse):
                if view is not None:
                    size = inputs.slabs[view.slab].itemsize
                    self._elements(offs, row, view, size).masked_fill_(
                        free.reshape(-1, *(1,) * (len(view.shape) - 1)), 0
                    )
        return [bool(off) for off in offs.any(dim=1).tolist()]

    def _elements(
        self, offs: torch.Tensor, row: int, view: View, size: int
    ) -> torch.Tensor:
        """Return the elements of an output in one row of words."""
        flat = offs.view(_SIGNED[size]).view(-1)
        start = row * offs.shape[1] * offs.itemsize
        start += self.call.arena.part(view.slab).start
        return flat.as_strided(view.shape, view.strides, start // size + view.offset)

    def _fetched(self, made: _Made, words: torch.Tensor) -> Execution:
        if made.error:
            return self._failed(made)
        return self.call.seen(made.label, made.results, state=words.view(torch.uint8))

    def _execution(self, made: _Made) -> Execution:
        if made.seen is None and made.left is not None and not made.error:
            return self._fetched(made, made.left)
        return made.seen or self._failed(made)

    def _failed(self, made: _Made) -> Execution:
        return self.call.seen(made.label, None, error=made.error or "it was not made")

    def _words(self) -> torch.Tensor:
        return self.call.arena.there.view(torch.int64)

    def _there(self, value: torch.Tensor) -> torch.Tensor:
        return value.to(self.call.card.device, non_blocking=True)

    def _on_stream(self) -> AbstractContextManager[None]:
        return self.call.card.on(self.call.card.stream)


def _unfetched(label: str) -> Execution:
    """Return a call whose results stayed on the card, where they equal another's."""
    return Execution(label=label, out=np.zeros((0, 0, 0), np.uint16), lse=None)
