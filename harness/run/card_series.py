"""Calls made one after another on a card, compared there and awaited together.

Every call starts from an image of the memory, which is that of the first call but for
one change. What a call changes in its image it must have changed in every other one:
the card compares that, wherever it is but in the scratch, and the host fetches those
calls alone that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from sidestream.harness.checks.observation import Execution
from sidestream.harness.drivers.protocol import Results
from sidestream.harness.errors import SidestreamError
from sidestream.harness.finding import Incomplete
from sidestream.harness.run.card_arena import SCRATCH
from sidestream.harness.run.card_call import CardCall
from sidestream.harness.run.card_fault import told
from sidestream.harness.run.card_images import Change, images

MOST_BYTES = 1 << 30
"""Memory of the card that calls which were not looked at may keep."""
_COPIES = 3
"""Of the arena that a call needs: what it finds, what it leaves, what is off."""


@dataclass(kw_only=True)
class _Made:
    """A call to be made, or made.

    Attributes:
        label: Of the execution.
        make: Makes it on the current stream.
        change: What it finds.
        twin: The call before it, which it must equal in place of the first one.
        paired: Whether the call behind it must equal it in place of the first one.
        results: What it returned.
        error: What it raised, or "".
        seen: The execution, once it is known.
    """

    label: str
    make: Callable[[], Results]
    change: Change
    twin: _Made | None = None
    paired: bool = False
    results: Results | None = None
    error: str = ""
    seen: Execution | None = None


@dataclass(frozen=True, kw_only=True)
class _Sent:
    """Calls that the card was given together.

    Attributes:
        made: In order.
        delta: (calls, words of the arena), the bits that each call changed.
        off: (calls,) whether those are not the bits that it should change.
        error: What went wrong with all of them, or "".
        lacking: Why the comparison could not be made, which is no fault of theirs.
    """

    made: list[_Made]
    delta: torch.Tensor | None = None
    off: torch.Tensor | None = None
    error: str = ""
    lacking: str = ""


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
    _sent: _Sent | None = None
    _next: int = 0
    _delta: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        arena = self.call.arena
        with self._on_stream():
            self._delta = _words(arena.there) ^ _words(arena.image)

    def add(
        self, label: str, make: Callable[[], Results], change: Change | None = None
    ) -> None:
        """Add a call that must do what the first one did.

        Args:
            label: Of its execution.
            make: Makes it on the current stream, and waits for nothing.
            change: What it finds; rows of flipped sequences may have other results.
        """
        self._made.append(_Made(label=label, make=make, change=change or Change()))

    def add_pair(
        self,
        labels: tuple[str, str],
        makes: tuple[Callable[[], Results], Callable[[], Results]],
        change: Change,
    ) -> None:
        """Add two calls that must do the same, whatever the first of all did."""
        one = _Made(label=labels[0], make=makes[0], change=change, paired=True)
        two = _Made(label=labels[1], make=makes[1], change=change, twin=one)
        self._made += [one, two]

    def send(self) -> None:
        """Give the card all calls that were added since; wait for nothing.

        Where they need too much of its memory together, it is given a part of them,
        which is waited for, and then the next.
        """
        if self._next == len(self._made):
            return
        # Calls since the first one may have held another pattern.
        scenario = self.call.inputs.scenario
        self.call.arena.put(SCRATCH, self.call.scratch_of(scenario.scratch))
        for part in self._parts():
            self._look()
            self._sent = self._given(part)
        self._next = len(self._made)

    def settle(self) -> list[Execution]:
        """Wait for all calls; return their executions in the order they were made.

        One that left the same bytes behind shares its arrays with what it equals.
        """
        self.send()
        self._look()
        return [made.seen or self._failed(made) for made in self._made]

    def _parts(self) -> Iterator[list[_Made]]:
        most = MOST_BYTES // (_COPIES * self.call.arena.there.numel())
        part: list[_Made] = []
        for made in self._made[self._next :]:
            if part and len(part) + made.paired >= most and made.twin is None:
                yield part
                part = []
            part.append(made)
        yield part

    def _given(self, part: list[_Made]) -> _Sent:
        """Give the card some calls, and the comparison of what they leave behind."""
        there, doing = self.call.arena.there, self.call.doing
        labels = [made.label for made in part]
        doing.begin(" or ".join(labels), self.first.launches)
        try:
            with self._on_stream():
                given = images(self.call, [made.change for made in part])
                left = torch.empty_like(given.found)
                for made, image, kept in zip(
                    part, given.found.unbind(), left.unbind(), strict=True
                ):
                    made.error = made.twin.error if made.twin else ""
                    if made.error:
                        continue
                    try:
                        there.copy_(image)
                        results = made.make()
                        # What an interface has allocated the next replay overwrites.
                        made.results = results.kept() if results.returned else results
                        kept.copy_(there)
                    except (SidestreamError, ValueError, RuntimeError) as raised:
                        made.error = doing.raised(raised, label=made.label)
                delta = _words(left).bitwise_xor_(_words(given.found))
                off = delta ^ self._delta
                for at, made in enumerate(part):
                    if made.twin is not None:
                        torch.bitwise_xor(delta[at], delta[at - 1], out=off[at])
                given.forgive(off.view(torch.uint8))
                return _Sent(made=part, delta=delta, off=off.any(dim=1))
        except torch.OutOfMemoryError as raised:
            return _Sent(made=part, lacking=told(raised))
        except RuntimeError as raised:
            return _Sent(made=part, error=doing.raised(raised))

    def _look(self) -> None:
        """Wait for what the card was given, and see what differs."""
        sent, self._sent = self._sent, None
        if sent is None:
            return
        error, off = sent.error, []
        try:
            self.call.card.wait()
            off = sent.off.tolist() if sent.off is not None else []
        except RuntimeError as raised:
            error = error or self.call.doing.raised(raised)
        for at, made in enumerate(sent.made):
            made.error = made.error or error
            if made.error:
                made.seen = self._failed(made)
                continue
            if sent.lacking:
                made.seen = self._unjudged(made, sent.lacking)
                continue
            results = made.results
            assert results is not None
            if made.paired:
                other = sent.made[at + 1]
                same = not (off[at + 1] or other.error) and not results.returned
                made.seen = _unfetched(made.label) if same else None
            elif off[at] or results.returned:
                same = False
            else:
                same = True
                like = made.twin.seen if made.twin is not None else self.first
                assert like is not None
                made.seen = replace(like, label=made.label, launches=())
            if not same:
                made.seen = self._fetched(made, sent, at)

    def _fetched(self, made: _Made, sent: _Sent, at: int) -> Execution:
        """Bring home what a call left behind, as if nothing had been changed before."""
        assert sent.delta is not None
        state = sent.delta[at] ^ _words(self.call.arena.image)
        return self.call.seen(made.label, made.results, state=state.view(torch.uint8))

    def _failed(self, made: _Made) -> Execution:
        return self.call.seen(made.label, None, error=made.error or "it was not made")

    def _unjudged(self, made: _Made, lacking: str) -> Execution:
        reason = f"no room on the card to compare {made.label}: {lacking}"
        return self.call.seen(made.label, None, incomplete=[Incomplete(reason=reason)])

    def _on_stream(self) -> AbstractContextManager[None]:
        return self.call.card.on(self.call.card.stream)


def _words(held: torch.Tensor) -> torch.Tensor:
    """Return bytes of the arena as the largest integers that they make."""
    return held.view(torch.int64)


def _unfetched(label: str) -> Execution:
    """Return a call whose results stayed on the card, where they equal another's."""
    return Execution(label=label, out=np.zeros((0, 0, 0), np.uint16), lse=None)
