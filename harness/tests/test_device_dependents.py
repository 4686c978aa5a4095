"""Dependent launches on the virtual GPU: one outcome each, and whose fault it is."""

import numpy as np
import pytest
from device_case import launch_of, text_of

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.device.in_order import run_dependent
from sidestream.harness.errors import UsageError
from sidestream.harness.exec.machine import Options

GO = "griddepcontrol.launch_dependents;\n"
HOLD = "griddepcontrol.wait;\n"
AT = "mul.wide.u32 %rd1, %r0, 4;\nadd.u64 %rd1, %rd0, %rd1;\n"
MAKE = GO + AT + "add.u32 %r1, %r0, 5;\nst.global.u32 [%rd1], %r1;\n"
TWICE = HOLD + AT + "ld.global.u32 %r1, [%rd1];\nshl.b32 %r1, %r1, 1;\n"
TWICE += "st.global.u32 [%rd1], %r1;\n"


def run(*bodies, seed=3, **options):
    table = AllocationTable()
    buffer = table.allocate(128, "values")
    launches = [
        launch_of(body if ".entry" in body else text_of(body), buffer.va)
        for body in bodies
    ]
    outcomes = run_dependent(launches, table, Options(seed=seed, **options))
    assert len(outcomes) == len(bodies)
    return np.frombuffer(bytes(buffer.data), np.uint32), outcomes


@pytest.mark.parametrize("seed", range(6))
def test_launches_that_overlap_give_an_outcome_each(seed):
    values, outcomes = run(MAKE, TWICE, seed=seed)
    assert [(o.finished, o.findings, o.incomplete) for o in outcomes] == [
        (True, (), ())
    ] * 2
    assert (values == (np.arange(32) + 5) * 2).all()
    assert all(o.warp_instructions for o in outcomes)


def test_a_defect_is_told_of_the_launch_that_has_it():
    _, outcomes = run(MAKE, HOLD + "st.global.u32 [%rd0+4096], %r0;\n")
    assert [len(o.findings) for o in outcomes] == [0, 1]
    assert "past the end of values" in outcomes[1].findings[0].message


def test_what_depends_on_an_unfinished_launch_is_incomplete():
    stuck = ".shared .b64 bar;\n.reg .b32 %b;\nmov.u32 %b, bar;\n"
    stuck += "mbarrier.init.shared.b64 [%b], 1;\n" + GO
    stuck += "W: mbarrier.try_wait.parity.shared.b64 %p0, [%b], 0;\n@!%p0 bra W;\n"
    _, outcomes = run("setp.ne.u32 %p1, %r0, 0;\n@%p1 exit;\n" + stuck, TWICE, MAKE)
    assert [f.kind for f in outcomes[0].findings] == ["deadlock"]
    for outcome in outcomes[1:]:
        assert outcome.findings == ()
        assert ["depends on" in i.reason for i in outcome.incomplete] == [True]
        assert not outcome.finished


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (text_of("st.global.u32 [%rd0, 1;\n"), "PTX cannot be read"),
        (text_of("", target="sm_xx"), "sm_xx"),
    ],
)
def test_a_launch_that_cannot_be_executed_ends_the_chain(broken, words):
    values, outcomes = run(MAKE, broken, TWICE)
    assert outcomes[0].finished
    assert words in outcomes[1].incomplete[0].reason
    assert "depends on" in outcomes[2].incomplete[0].reason
    assert (values == np.arange(32) + 5).all()


def test_no_launches_and_launches_that_do_not_fit():
    assert run()[1] == ()
    table = AllocationTable()
    launch = launch_of(text_of(MAKE), 0, threads=2000)
    with pytest.raises(UsageError, match="is 2000, allowed are"):
        run_dependent([launch], table, Options())
