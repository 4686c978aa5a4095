"""What a finding on a broken twin says is needed, and where it says it happened."""

from test_litmus import outcome_of

from sidestream.scenarios.litmus import TWINS


def test_an_unpublished_initialisation_names_its_fence_and_its_barrier():
    twin = TWINS["cluster.initialisation_before_a_relaxed_arrival"]
    outcome = outcome_of(twin, sound=False, seed=0, profile="practice")
    findings = [f for f in outcome.findings if f.rule.id == "M8"]
    assert findings
    for finding in findings:
        if finding.kind == "dsmem-race":
            assert "fence.mbarrier_init" in finding.need
            assert "barrier.cluster" in finding.need
        assert "byte 0 of head" in finding.message
        assert finding.count >= 1
    assert "dsmem-race" in {f.kind for f in findings}
