"""What a case says of compilations: misses, late ones, stale keys."""

import dataclasses

import pytest
from oracle_case import SCENARIO, outcome_of
from oracle_driver import Oracle, PreparedOracle

from sidestream.harness.dsl.activation import active
from sidestream.harness.dsl.key_record import KeyRecord
from sidestream.harness.run.bench import Bench
from sidestream.harness.run.case import run_case
from sidestream.harness.run.settings import Settings
from sidestream.kernels.protocol import CacheInfo


class Planned(Oracle):
    """An oracle with a compile cache; what its key holds is given."""

    def __init__(self, key, make=PreparedOracle):
        super().__init__(make)
        self.key = key
        self.known = set()
        self.hits = 0

    def compile_key(self, problem, arch):
        return self.key(problem)

    def cache_info(self):
        return CacheInfo(hits=self.hits, misses=len(self.known))

    def prepare(self, problem, world):
        key = self.key(problem)
        if key in self.known:
            self.hits += 1
        else:
            self.known.add(key)
            compiled("fwd")
        return super().prepare(problem, world)


def compiled(name):
    active().compiles.add(
        function=name, source_name=name, arch="sm_120a", seconds=0.0, ptx="", image=b""
    )


def declared(problem):
    return dataclasses.replace(
        problem, lengths_q=(), lengths_kv=(), capacity_q=0, capacity_kv=0
    )


def test_a_key_of_declared_facts_compiles_once():
    bench = Bench(settings=Settings(), driver=Planned(declared))
    first = run_case(bench, SCENARIO)
    longer = dataclasses.replace(
        SCENARIO, name="again", tail_q=9, max_len_q=9, max_len_kv=7
    )
    second = run_case(bench, longer)
    assert [f.message for f in (*first.findings, *second.findings)] == []
    assert (first.case.compiles, second.case.compiles) == (1, 0)
    assert "contract bits told apart" in first.case.checks["cache"].reason


@pytest.mark.parametrize("fact", ["capacity_q", "lengths_kv"])
def test_a_key_with_packed_totals_is_a_miss(fact):
    def key(problem):
        return declared(problem), getattr(problem, fact)

    outcome = outcome_of(driver=Planned(key))
    assert [f.kind for f in outcome.findings] == ["cache-miss"]
    assert "for other totals" in outcome.findings[0].message


def test_a_cache_that_forgets_is_a_miss():
    class Forgets(Planned):
        def prepare(self, problem, world):
            self.known.clear()
            return super().prepare(problem, world)

    outcome = outcome_of(driver=Forgets(declared))
    assert {f.kind for f in outcome.findings} == {"cache-miss"}
    assert "second plan" in outcome.findings[0].message


def test_compiling_during_execute_is_a_miss():
    class Late(PreparedOracle):
        def execute(self, tensors, workspace):
            compiled("late")
            return super().execute(tensors, workspace)

    outcome = outcome_of(driver=Planned(declared, Late))
    assert any("during execute" in f.message for f in outcome.findings)


def test_a_key_that_forgets_a_contract_bit_is_stale():
    def key(problem):
        return dataclasses.replace(declared(problem), scale=1.0)

    outcome = outcome_of(driver=Planned(key))
    # The oracle's launches carry no scale, so nothing tells the two calls apart.
    stale = [f for f in outcome.findings if f.kind == "stale-key"]
    assert stale
    assert all("scale" in f.message for f in stale)


def compiling(ptx):
    """Make a driver that compiles once, to some PTX, for one and the same key."""

    class Compiles(PreparedOracle):
        made = False

        def execute(self, tensors, workspace):
            if not Compiles.made:
                Compiles.made = True
                active().compiles.add(
                    function="f",
                    source_name="forward",
                    arch="sm_120a",
                    seconds=0.0,
                    ptx=ptx,
                    image=b"",
                    key="of-equal-arguments",
                )
            return super().execute(tensors, workspace)

    return Oracle(Compiles)


FIRST = ".version 9.0\n.visible .entry one()\n{\nret;\n}\n"
OTHER = ".version 9.0\n.visible .entry one()\n{\nexit;\n}\n"


def test_equal_keys_mean_equal_code_in_a_process_and_across(tmp_path):
    def told(bench, ptx):
        bench.driver = compiling(ptx)
        outcome = run_case(bench, SCENARIO)
        assert outcome.incomplete == ()
        return [f.message for f in outcome.findings if f.kind == "stale-key"]

    bench = Bench(settings=Settings(), keys=KeyRecord(tmp_path))
    assert told(bench, FIRST) == []
    assert told(bench, FIRST) == []
    assert ["in this process" in m for m in told(bench, OTHER)] == [True]
    later = Bench(settings=Settings(), keys=KeyRecord(tmp_path))
    assert ["in an earlier process" in m for m in told(later, OTHER)] == [True]
    again = Bench(settings=Settings(), keys=KeyRecord(tmp_path))
    assert told(again, FIRST) == []
