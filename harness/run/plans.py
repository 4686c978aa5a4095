"""What planning a case again, and planning its neighbours, makes the compiler do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sidestream.harness.checks.cache import Compilations, Seen, Variation
from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.cuda.virtual_cuda import VirtualCuda
from sidestream.harness.drivers.protocol import Driver, Prepared, plans_ahead
from sidestream.harness.dsl.activation import active
from sidestream.harness.dsl.compile_log import CompileRecord
from sidestream.harness.launch import Launch
from sidestream.harness.run.phases import Phases
from sidestream.harness.run.problem import one_bit_away, other_totals, problem_of
from sidestream.harness.run.virtual_call import VirtualCall
from sidestream.scenarios.case import build
from sidestream.scenarios.scenario import Scenario


def watch_plans(
    scenario: Scenario,
    *,
    driver: Driver,
    world: VirtualCuda,
    call: VirtualCall,
    prepared: Prepared,
    planned: Sequence[CompileRecord],
    executed: Sequence[CompileRecord],
    seen: Seen,
) -> tuple[Compilations, Sequence[Variation] | None]:
    """Plan again, with other totals and one contract bit away; count compilations.

    Nothing is executed: launches are looked at and dropped.
    """
    compiles = active().compiles
    ahead = plans_ahead(driver)
    declaration = scenario.declaration()
    if not ahead:
        # Interfaces without a plan of their own compile for the strides they see.
        declaration |= {"layout": scenario.layout, "out_layout": scenario.out_layout}
        declaration["capacity"] = scenario.capacity_q + scenario.lse_slack
    before = seen.note(declaration, scenario.name)
    mark, hits = compiles.mark(), _hits(driver)
    second = driver.prepare(problem_of(scenario), world)
    # One that compiles in its first launch has nothing to share before it.
    shares = ahead or bool(call.launches(second))
    again = compiles.since(mark)
    after = _hits(driver)
    mark = compiles.mark()
    if shares:
        other = other_totals(scenario, same_capacity=not ahead)
        _launches(other, driver, world)
    totals = compiles.since(mark)
    counts = Compilations(
        planning=len(planned) if ahead else len(executed),
        before=before,
        again=len(again),
        executing=len(executed) if ahead else 0,
        other_totals=len(totals),
        functions=tuple(r.source_name for r in (*totals, *again, *executed, *planned)),
        plans_ahead=ahead,
        hits=after - hits if hits is not None and after is not None else None,
    )
    if not plans_ahead(driver):
        return counts, None
    if before:
        return counts, ()
    return counts, _variations(scenario, driver, world, call, prepared)


def _hits(driver: Driver) -> int | None:
    """Hits that the implementation's own cache has counted, if it tells."""
    return int(driver.cache_info().hits) if plans_ahead(driver) else None


def _launches(
    scenario: Scenario, driver: Driver, world: VirtualCuda
) -> tuple[list[Launch], AllocationTable]:
    """Return what a call of another scenario would launch, on tensors of its own."""
    table = AllocationTable()
    with VirtualCuda(active(), table, stream=world.stream.cuda_stream) as other:
        prepared = driver.prepare(problem_of(scenario), other)
        call = VirtualCall(
            other,
            build(scenario),
            workspace_bytes=prepared.workspace_bytes,
            phases=Phases(origin=0.0, track=""),
        )
        return call.launches(prepared), table


def _variations(
    scenario: Scenario,
    driver: Any,
    world: VirtualCuda,
    call: VirtualCall,
    prepared: Prepared,
) -> list[Variation]:
    """Compare keys, and launches where keys are equal; compiles nothing new."""
    arch, compile_key = world.chip.arch, driver.compile_key
    key = compile_key(problem_of(scenario), arch)
    own: list[object] | None = None
    found = []
    for bit, varied in one_bit_away(scenario):
        problem = problem_of(varied)
        if driver.supports(problem, arch) is not None:
            continue
        same_key = compile_key(problem, arch) == key
        same_launches = False
        if same_key:
            own = own or _anonymous(call.launches(prepared), world.table)
            # A call without tokens launches nothing, which tells nothing apart.
            other = _anonymous(*_launches(varied, driver, world))
            same_launches = bool(own) and own == other
        found.append(Variation(bit=bit, same_key=same_key, same_launches=same_launches))
    return found


def _anonymous(launches: list[Launch], table: AllocationTable) -> list[object]:
    """Replace device addresses in parameters by the allocation they point into."""

    def word(data: bytes) -> object:
        home = table.at(int.from_bytes(data, "little"))
        if home is None:
            return data
        return home.name, int.from_bytes(data, "little") - home.va

    return [
        replace(
            launch,
            params=tuple(
                tuple(word(p[i : i + 8]) for i in range(0, len(p), 8))  # type: ignore[misc]
                for p in launch.params
            ),
        )
        for launch in launches
    ]
