"""Schedules: strings, replays, shrinking, and looking for one that fails."""

import pytest
from device_case import launch_of
from hypothesis import given
from hypothesis import strategies as st

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.device.explore import explore, schedules
from sidestream.harness.device.vgpu import run_launch
from sidestream.harness.errors import UsageError
from sidestream.harness.exec.machine import Options
from sidestream.harness.exec.result import choices_of
from sidestream.harness.exec.schedule import Schedule, shrink

CHOICES = st.lists(
    st.tuples(st.integers(0, 2**20), st.integers(0, 2**32 - 1)),
    unique_by=lambda choice: choice[0],
).map(lambda found: tuple(sorted(found)))

# Warp 1 looks once whether warp 0 has come by: what it sees depends on the order. Warp
# 0 first does some work, so that in turn the look always comes first.
LOOK = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
{
  .reg .pred %q, %r;
  .reg .b32 %warp, %seen, %k;
  .reg .b64 %at;
  ld.param.u64 %at, [p];
  mov.u32 %warp, %tid.x;
  setp.ge.u32 %q, %warp, 32;
  @%q bra LATE;
  mov.u32 %k, 0;
WORK:
  add.u32 %k, %k, 1;
  setp.lt.u32 %r, %k, 15;
  @%r bra WORK;
  st.relaxed.gpu.global.u32 [%at], 1;
  exit;
LATE:
  ld.relaxed.gpu.global.u32 %seen, [%at];
  st.global.u32 [%at+4], %seen;
  exit;
}
"""


def look(text=LOOK):
    table = AllocationTable()
    buffer = table.allocate(8, "flags", fill=b"\0")
    return launch_of(text, buffer.va, threads=64), table


@given(CHOICES)
def test_a_given_schedule_is_read_back_as_it_was(choices):
    schedule = Schedule(policy="given", choices=choices)
    assert Schedule.parse(schedule.spell()) == schedule


@pytest.mark.parametrize("text", ["round-robin", "random:7", "pct:3:2"])
def test_other_schedules_are_read_back_too(text):
    assert Schedule.parse(text).spell() == text


@pytest.mark.parametrize(
    "text", ["random:0", "pct:1", "pct:1:17", "given:%", "given:eJw", "fair", ""]
)
def test_what_is_no_schedule_is_refused_with_the_forms(text):
    with pytest.raises(UsageError, match="schedule"):
        Schedule.parse(text)


@pytest.mark.parametrize("text", ["random:5", "random:6", "pct:5:3", "pct:6:8"])
def test_the_decisions_of_an_execution_give_it_again(text):
    launch, table = look()
    before = table.snapshot()
    first = run_launch(launch, table, Options().scheduled(Schedule.parse(text)))
    left = [a.data.tobytes() for a in table]
    table.restore(before)
    again = Schedule(policy="given", choices=choices_of(first.made))
    second = run_launch(launch, table, Options().scheduled(again))
    assert second.made == first.made
    assert second.warp_instructions == first.warp_instructions
    assert [a.data.tobytes() for a in table] == left


@given(st.sets(st.integers(0, 40), min_size=1, max_size=4))
def test_shrinking_leaves_what_the_failure_needs(needed):
    choices = tuple((at, 1) for at in range(41))

    def fails(left):
        return needed <= {at for at, _ in left}

    assert {at for at, _ in shrink(choices, fails)} == needed


def test_shrinking_stops_after_as_many_runs_as_it_may():
    runs = []

    def fails(left):
        runs.append(left)
        return False

    shrink(tuple((at, 1) for at in range(1000)), fails, most_runs=17)
    assert len(runs) == 17


@pytest.mark.parametrize("how", ["random:40", "pct:40:2", "exhaustive:40"])
def test_a_result_that_depends_on_the_order_is_found_and_made_short(how):
    launch, table = look()
    options = Options(quantum=32)
    failure = explore(launch, table, options, schedules(how))
    assert failure is not None
    assert failure.differs
    assert failure.schedule.policy == "given"
    assert len(failure.schedule.choices) <= 40
    again = Schedule.parse(failure.schedule.spell())
    run_launch(launch, table, options.scheduled(again))
    assert next(iter(table)).data[4] == 1, "the look came after the store"


def test_nothing_is_found_where_the_order_does_not_matter():
    text = LOOK.replace("[%at+4], %seen", "[%at+4], 1")
    launch, table = look(text)
    assert explore(launch, table, Options(), schedules("random:20")) is None


@pytest.mark.parametrize(
    "how", ["random", "random:x", "fair:3", "pct:1:2:3", "pct:0", "pct:5:0"]
)
def test_what_is_no_way_to_explore_is_refused(how):
    with pytest.raises(UsageError, match=r"none of|explores nothing"):
        list(schedules(how))
