"""Races between operations of the host program, as findings."""

from __future__ import annotations

from dataclasses import dataclass, field

from sidestream.harness.finding import Finding, Rule, Site
from sidestream.harness.runtime.op import CallSite, Op
from sidestream.harness.runtime.shadow import Conflict
from sidestream.harness.runtime.spans import Span

STREAM_RULE = Rule(
    id="host.stream-order",
    title="CUDA Programming Guide: Streams; operations of different streams are "
    "unordered unless events, waits or the legacy default stream order them",
)
HOST_RULE = Rule(
    id="host.memory-order",
    title="CUDA Runtime API: API synchronization behavior; the host may touch memory "
    "of an asynchronous operation only after a wait for it",
)
REUSE_RULE = Rule(
    id="host.allocator-reuse",
    title="torch.Tensor.record_stream: a freed block is reused in the order of the "
    "stream it was allocated on",
)


@dataclass(frozen=True, kw_only=True)
class Tenancy:
    """One allocation of a block, from malloc to free.

    Attributes:
        id: Its number.
        start: Address.
        size: Bytes, as the allocator rounds them.
        stream: Name of the stream it was allocated on.
        born: Number of the allocating call in issue order.
        died: Number of the freeing call, or None.
        made: Where it was allocated.
        freed: Where it was freed.
    """

    id: int
    start: int
    size: int
    stream: str
    born: int
    died: int | None = None
    made: CallSite = field(default_factory=CallSite)
    freed: CallSite = field(default_factory=CallSite)


@dataclass(frozen=True, kw_only=True)
class Race:
    """Two operations on the same bytes that nothing orders.

    Attributes:
        kind: `stream-race`, or `allocator-race` when the bytes changed hands between.
        first: The one that the program called first; it may have landed second.
        second: The other.
        did: What the first did: `read` or `write`.
        does: What the second does.
        span: The bytes.
        old: The allocation that the first one used, for an allocator-race.
        new: The one that the second uses.
    """

    kind: str
    first: Op
    second: Op
    did: str
    does: str
    span: Span
    old: Tenancy | None = None
    new: Tenancy | None = None


def judge(conflict: Conflict, old: Tenancy | None, new: Tenancy | None) -> Race:
    """Tell what a conflict is, given whose the bytes were for each operation.

    Args:
        conflict: Two operations in the order the program called them.
        old: The allocation that the first one used.
        new: The one that the second uses.
    """
    moved = old is not None and new is not None and old.id != new.id
    return Race(
        kind="allocator-race" if moved else "stream-race",
        first=conflict.first,
        second=conflict.second,
        did=conflict.did,
        does=conflict.does,
        span=conflict.span,
        old=old if moved else None,
        new=new if moved else None,
    )


def finding(race: Race, count: int = 1) -> Finding:
    """Return a race as a finding with both sites and the missing edge."""
    first, second = race.first, race.second
    rule = STREAM_RULE
    if race.kind == "allocator-race":
        rule = REUSE_RULE
    elif "host" in (first.kind, second.kind):
        rule = HOST_RULE
    extra: dict[str, object] = {"start": race.span.start, "bytes": race.span.size}
    if race.old is not None and race.new is not None:
        extra["freed"] = list(race.old.freed.frames)
        extra["allocated"] = list(race.new.made.frames)
    return Finding(
        kind=race.kind,
        rule=rule,
        message=_message(race),
        kernel=next((op.label for op in (second, first) if op.kind == "launch"), ""),
        sites=(_site(first, race.did), _site(second, race.does)),
        need=need(race),
        witness=_witness(race),
        count=count,
        extra=extra,
    )


def need(race: Race) -> str:
    """Return what to write so that the two operations are ordered."""
    early, late = race.first, race.second
    if race.old is not None:
        user = early if early.where != race.old.stream else late
        return (
            f"record_stream({user.where}) on the tensor before it is freed, or "
            f"let {race.old.stream} wait for {user.where} before the free at "
            f"{race.old.freed}"
        )
    if early.kind == "host" and late.kind == "host":
        return "a lock, queue or join that orders the two host threads"
    if late.kind == "host":
        return (
            f"an event recorded after {early.label} and event.synchronize(), or "
            f"synchronize() of {early.where}, before the {race.does} at {late.site}"
        )
    if early.kind == "host":
        return (
            f"the hand-over from {early.where} to the thread that calls {late.label} "
            f"after the access at {early.site}"
        )
    return (
        f"{late.where} to wait for {early.where} before {late.label}: "
        f"wait_stream, or an event recorded after {early.label} and wait_event"
    )


def _site(op: Op, did: str) -> Site:
    frames = op.site.frames
    source = frames[0].split(" in ")[0] if frames else None
    return Site(
        agent=op.where,
        operation=op.label,
        source=source,
        detail="\n".join((did, *frames)),
    )


def _message(race: Race) -> str:
    first, second = race.first, race.second
    text = (
        f"{second.label} on {second.where} {race.does}s {race.span}, which "
        f"{first.label} on {first.where} {race.did}s: nothing orders the two"
    )
    if race.old is not None and race.new is not None:
        text += (
            f"; the bytes were freed at {race.old.freed} and allocated again at "
            f"{race.new.made} in between"
        )
    return text


def _witness(race: Race) -> tuple[str, ...]:
    first, second = race.first, race.second
    known = second.clock.get(first.agent, 0)
    return (
        f"{first.label} is operation {first.tick} of {first.where}",
        f"{second.label} on {second.where} comes after {known} operations of "
        f"{first.where}",
    )
