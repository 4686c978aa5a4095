"""A litmus test as data: one small kernel, with and without one ordering operation."""

from __future__ import annotations

from dataclasses import dataclass

PROFILES = ("practice", "isa")


@dataclass(frozen=True, kw_only=True)
class Found:
    """What the broken kernel must be told of.

    Attributes:
        kind: Kind of the finding.
        rule: Id of the rule that it names.
        sites: Operations of its sites, as the PTX spells them; in no order, because a
            race has no first side.
    """

    kind: str
    rule: str
    sites: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Twin:
    """Two kernels that differ in one operation, qualifier or number.

    Statements may name what `kernel.text_of` provides. `<op>` in them stands for
    `op` in the sound kernel and for `broken` in the other one.

    Attributes:
        name: What it is about; unique in its file.
        rule: The rule of the ordering specification that it removes or keeps.
        title: Section of the PTX ISA that states the rule.
        warps: Statements of each warp of every CTA, or of CTA 0 if `peers` is given.
        peers: Statements of each warp of CTA 1.
        op: What orders, or makes right.
        broken: What stands in its place: nothing, or a weaker form.
        found: Findings on the broken kernel, and no others.
        broken_in: Profiles that find them; under the others it is clean.
        clean_in: Profiles under which the sound kernel is clean.
        bars: Arrival counts of mbarriers that are initialised and published before.
        ctas: CTAs of the grid.
        cluster: CTAs of a cluster.
        tensor: Columns of tensor memory that every CTA allocates, 0 for none.
        pair: Tensor memory belongs to CTA pairs (`.cta_group::2`).
        finishes: Whether the broken kernel runs to its end.
        contents: Whether reads of on-chip memory that nothing wrote are looked for:
            most kernels here are about order and care for no value.
        setup: Statements of every warp before its own, after the barriers are known.
        also: Other rules that the broken kernel breaks.
    """

    name: str
    rule: str
    title: str
    warps: tuple[str, ...]
    peers: tuple[str, ...] = ()
    op: str
    broken: str = ""
    found: tuple[Found, ...]
    broken_in: tuple[str, ...] = PROFILES
    clean_in: tuple[str, ...] = PROFILES
    bars: tuple[int, ...] = ()
    ctas: int = 1
    cluster: int = 1
    tensor: int = 0
    pair: bool = False
    finishes: bool = True
    contents: bool = False
    setup: str = ""
    also: tuple[str, ...] = ()


def race(kind: str, first: str, second: str, rule: str = "race.order") -> Found:
    """A race of two operations."""
    return Found(kind=kind, rule=rule, sites=(first, second))


def smem(first: str, second: str, rule: str = "race.order") -> tuple[Found, ...]:
    """A race in the CTA's own shared memory, and nothing else."""
    return (race("smem-race", first, second, rule),)


def tmem(first: str, second: str, rule: str = "race.order") -> tuple[Found, ...]:
    """A race in tensor memory, and nothing else."""
    return (race("tmem-race", first, second, rule),)


def gmem(first: str, second: str, rule: str = "race.order") -> tuple[Found, ...]:
    """A race in global memory, and nothing else."""
    return (race("gmem-race", first, second, rule),)


def dsmem(first: str, second: str, rule: str = "race.order") -> tuple[Found, ...]:
    """A race in shared memory between CTAs of a cluster, and nothing else."""
    return (race("dsmem-race", first, second, rule),)


def proxy(first: str, second: str) -> tuple[Found, ...]:
    """An order without the proxy fence it needs, and nothing else."""
    return (race("proxy", first, second, "P2"),)


def fault(kind: str, rule: str, *sites: str) -> tuple[Found, ...]:
    """A broken protocol, told at its sites, and nothing else."""
    return (Found(kind=kind, rule=rule, sites=sites),)


@dataclass(frozen=True, kw_only=True)
class GridTwin:
    """Two launches of one stream, twice: they differ in one operation of either grid.

    Attributes:
        name: What it is about; unique in its file.
        rule: The rule of the ordering specification that it removes or keeps.
        title: Section of the PTX ISA that states the rule.
        first: Statements of each warp of the first launch, as those of a `Twin`.
        second: Of the second one.
        op: What orders.
        broken: What stands in its place.
        found: Findings on the broken launches, and no others.
        dependent: Whether the second is launched as a programmatic dependent.
        bars: Arrival counts of mbarriers in either grid.
        also: Other rules that the broken launches break.
    """

    name: str
    rule: str
    title: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    op: str
    broken: str = ""
    found: tuple[Found, ...]
    dependent: bool = True
    bars: tuple[int, ...] = ()
    also: tuple[str, ...] = ()

    def grids(self) -> tuple[Twin, Twin]:
        """Either grid alone, as the kernel builder takes it."""
        one, two = (
            Twin(
                name=self.name,
                rule=self.rule,
                title=self.title,
                warps=warps,
                op=self.op,
                broken=self.broken,
                found=(),
                bars=self.bars,
            )
            for warps in (self.first, self.second)
        )
        return one, two
