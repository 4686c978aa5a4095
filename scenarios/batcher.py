"""A small continuous batcher: requests in, one varlen step after another out.

It does what a serving engine does with a fixed number of slots. A request waits, takes
the first free slot, has its prompt prefilled in chunks, then decodes one token a step
until it has generated them all. Every step has a budget of query tokens: decoding
requests take one each, and what remains goes to prompts in order of arrival, so a long
prompt is cut across steps and shares them with decodes. A slot without a request has
no queries and no keys; a slot whose prompt got no budget has keys and no queries.

Chunk c of a prompt attends to itself and to what was prefilled before, at the bottom
right: keys = tokens held, queries the last of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sidestream.harness.errors import ContractError


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request: arrival in seconds, prompt and generated tokens (at least 1)."""

    number: int
    """Position in the trace, from 0."""
    arrival: float
    context: int
    generated: int


@dataclass(frozen=True, kw_only=True)
class Step:
    """One call of the attention kernel, one entry a slot."""

    index: int
    time: float
    """Seconds since the first arrival."""
    lengths_q: tuple[int, ...]
    lengths_kv: tuple[int, ...]
    requests: tuple[int | None, ...]
    """Number of the request in each slot."""
    waiting: int
    """Requests that have arrived and found no slot."""


@dataclass
class _Slot:
    request: Request
    held: int = 0
    """Tokens whose keys and values exist."""
    produced: int = 0


def batch(
    requests: Iterable[Request], *, slots: int, token_budget: int, step_seconds: float
) -> Iterator[Step]:
    """Yield the steps that serve `requests`, which come in order of arrival.

    Time moves by `step_seconds` a step, and to the next arrival when all is idle.

    Raises:
        ContractError: no slot, a budget that cannot serve every slot, a step that
            takes no time, or arrivals out of order.
    """
    if slots < 1 or token_budget < slots:
        raise ContractError(
            f"token_budget {token_budget} must be at least slots {slots}, at least 1"
        )
    if step_seconds <= 0:
        raise ContractError(f"step_seconds must be positive, not {step_seconds}")
    source = iter(requests)
    coming = next(source, None)
    queue: deque[Request] = deque()
    active: list[_Slot | None] = [None] * slots
    time, index = 0.0, 0
    while True:
        if coming and not queue and not any(active):
            time = max(time, coming.arrival)
        while coming and coming.arrival <= time:
            queue.append(coming)
            previous, coming = coming, next(source, None)
            if coming and coming.arrival < previous.arrival:
                raise ContractError(
                    f"request {coming.number} arrives before request {previous.number}"
                )
        for place, slot in enumerate(active):
            if slot is None and queue:
                active[place] = _Slot(queue.popleft())
        if not any(active):
            return
        queries = _share(active, token_budget)
        yield Step(
            index=index,
            time=time,
            lengths_q=tuple(queries),
            lengths_kv=tuple(
                slot.held + count if slot else 0
                for slot, count in zip(active, queries, strict=True)
            ),
            requests=tuple(slot.request.number if slot else None for slot in active),
            waiting=len(queue),
        )
        for place, slot in enumerate(active):
            if slot and _advance(slot, queries[place]):
                active[place] = None
        time += step_seconds
        index += 1


def _share(active: list[_Slot | None], budget: int) -> list[int]:
    """Give each slot its query tokens: decodes first, then prompts by arrival.

    The budget is at least the number of slots, so no decode goes without.
    """
    queries = [0] * len(active)
    prompts = []
    for place, slot in enumerate(active):
        if slot is None:
            continue
        if slot.held < slot.request.context:
            prompts.append((slot.request.number, place, slot))
        else:
            queries[place] = 1
            budget -= 1
    for _, place, slot in sorted(prompts, key=lambda entry: entry[0]):
        queries[place] = min(budget, slot.request.context - slot.held)
        budget -= queries[place]
    return queries


def _advance(slot: _Slot, queries: int) -> bool:
    """Account for a finished step; return whether the request is done.

    The last chunk of the prompt yields the first token, each decode one more.
    """
    slot.held += queries
    if slot.held >= slot.request.context:
        slot.produced += 1
    return slot.produced >= slot.request.generated
