"""Compile keys of a script: equal ones mean equal code, and other data other code."""

from __future__ import annotations

from collections.abc import Sequence

from sidestream.harness.dsl.compile_keys import ptx_hash
from sidestream.harness.dsl.compile_log import CompileRecord
from sidestream.harness.dsl.key_record import Earlier, KeyRecord
from sidestream.harness.finding import Finding, Rule, Site
from sidestream.harness.run.launch_contracts import Shared
from sidestream.harness.runtime import CallSite

EQUAL_RULE = Rule(
    id="host.key.equal",
    title="Equal arguments and equal sources compile to equal PTX, in every process",
)
"""Dao-AILab/flash-attention#2566."""
CONTRACT_RULE = Rule(
    id="host.key.contract",
    title="Calls that differ in their contract share no compiled kernel",
)
"""flashinfer-ai/flashinfer#4214."""


def unequal(
    compiled: Sequence[tuple[CompileRecord, CallSite]],
    kept: KeyRecord | None,
    first: dict[str, Earlier] | None = None,
) -> tuple[Finding, ...]:
    """Judge compilations that were asked for alike and made different PTX.

    Args:
        compiled: Compilations of this process, and where they were asked for.
        kept: Those of earlier processes, or None.
        first: By key, what this process has compiled before; what is new is added.
    """
    first = {} if first is None else first
    found = []
    for record, site in compiled:
        if not record.key:
            continue
        place = str(site)
        mine = Earlier(ptx=ptx_hash(record.ptx), place=place)
        other: Earlier | None = first.setdefault(record.key, mine)
        where = "in this process"
        if other is mine and kept is not None:
            other, where = kept.note(record, place), "in an earlier process"
        if other is not None and other.ptx != mine.ptx:
            found.append(_unequal(record, site, other, where))
    return tuple(found)


def shared(seen: Sequence[Shared]) -> tuple[Finding, ...]:
    """Return launches of one kernel for data of several formats as findings."""
    return tuple(
        Finding(
            kind="stale-key",
            rule=CONTRACT_RULE,
            message=(
                f"{one.kernel} was compiled for {one.first} and is launched for "
                f"{one.second} as parameter {one.parameter}"
            ),
            kernel=one.kernel,
            sites=(
                _site("launch", one.first_site),
                _site("launch", one.second_site),
            ),
            need="the type of every operand in the compile key",
        )
        for one in seen
    )


def _unequal(
    record: CompileRecord, site: CallSite, other: Earlier, where: str
) -> Finding:
    name = record.source_name
    return Finding(
        kind="stale-key",
        rule=EQUAL_RULE,
        message=(
            f"{name} with equal arguments and sources was compiled to other PTX "
            f"{where}, at {other.place}"
        ),
        kernel=record.kernels[0] if record.kernels else name,
        sites=(_site("compile", site),),
        need="what decides the code besides, in the arguments and the key",
    )


def _site(operation: str, site: CallSite) -> Site:
    return Site(
        agent="host",
        operation=operation,
        source=site.frames[0].split(" in ")[0] if site.frames else None,
        detail="\n".join(site.frames),
    )
