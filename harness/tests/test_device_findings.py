import pytest
from device_case import launch_of, line_of, run, text_of

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.device.outcome import tagged
from sidestream.harness.device.vgpu import run_launch
from sidestream.harness.errors import UsageError
from sidestream.harness.exec.machine import Options

STORE = "mov.u32 %r1, 7;\nst.global.u32 [%rd0], %r1;"
LOAD = "ld.global.u32 %r1, [%rd0];"


@pytest.fixture
def table():
    return AllocationTable()


def one(outcome):
    assert len(outcome.findings) == 1, outcome.findings
    return outcome.findings[0]


def test_a_clean_launch_says_nothing_and_counts_its_work(table):
    v = table.allocate(1024, "v")
    outcome = run(text_of(STORE), table, v)
    assert outcome.finished
    assert (outcome.findings, outcome.incomplete) == ((), ())
    assert outcome.warp_instructions == 5
    assert set(outcome.seconds) == {"parse", "lower", "execute"}
    assert bytes(v.data[:4]) == b"\7\0\0\0"


def test_an_access_past_the_end_names_tensor_bytes_line_and_thread(table):
    v = table.allocate(1024, "v")
    text = text_of(LOAD)
    found = one(run(text, table, v, offset=1024))
    assert found.kind == "out-of-bounds"
    assert found.rule.id == "gmem.bounds"
    assert "4 bytes, 0 bytes past the end of v (1024 bytes)" in found.message
    site = found.sites[0]
    assert site.operation == "ld.global.u32"
    assert site.ptx_line == line_of(text, LOAD)
    assert site.agent == "cta 0 warp 0 lane 0"
    assert found.sites[1].operation == "allocation v"
    assert found.count == 32
    assert found.need


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        (-8, "from 8 bytes before v"),
        (-2, "from 2 bytes before v"),
        (1022, "the last 2 of 4 bytes lie past the end of v"),
        (1030, "6 bytes past the end of v"),
    ],
)
def test_how_an_access_lies_to_its_tensor_is_told(table, offset, words):
    v = table.allocate(1024, "v")
    outcome = run(text_of(LOAD), table, v, offset=offset)
    kinds = {f.kind for f in outcome.findings}
    assert "out-of-bounds" in kinds or "misaligned" in kinds
    if offset % 4 == 0:
        assert words in one(outcome).message


def test_the_thread_is_the_one_that_strayed(table):
    v = table.allocate(4 * 40, "v")
    body = (
        "mul.wide.u32 %rd1, %r0, 4;\nadd.s64 %rd2, %rd0, %rd1;\n"
        "st.global.u32 [%rd2], %r0;"
    )
    found = one(run(text_of(body), table, v, threads=64))
    assert found.sites[0].agent == "cta 0 warp 1 lane 8"
    assert found.count == 24
    assert "writes" in found.message


@pytest.mark.parametrize(
    ("how", "body", "kind", "words"),
    [
        ({"writable": False}, STORE, "stray-write", "bytes 0 to 3 of v"),
        ({"track_init": True}, LOAD, "uninit-read", "bytes 0 to 3 of v"),
    ],
)
def test_rights_of_an_allocation_are_kept(table, how, body, kind, words):
    v = table.allocate(1024, "v", **how)
    before = bytes(v.data)
    found = one(run(text_of(body), table, v))
    assert found.kind == kind
    assert words in found.message
    assert bytes(v.data) == before


def test_freed_and_misaligned_and_trap(table):
    v = table.allocate(1024, "v")
    assert one(run(text_of(LOAD), table, v, offset=2)).kind == "misaligned"
    table.free(v)
    found = one(run(text_of(LOAD), table, v))
    assert found.kind == "use-after-free"
    assert "freed" in found.sites[1].detail
    outcome = run(text_of("trap;"), table, table.allocate(8, "w"))
    assert not outcome.finished
    assert one(outcome).rule.id == "trap"


def test_written_bytes_may_be_read(table):
    v = table.allocate(1024, "v", track_init=True)
    outcome = run(text_of(STORE + "\n" + LOAD), table, v)
    assert outcome.findings == ()
    assert v.init[:4].all()
    assert not v.init[4:].any()


def test_what_cannot_be_executed_is_incomplete_with_its_line(table):
    text = text_of("dp4a.rn.bogus %r1, %r1;")
    outcome = run(text, table, table.allocate(8, "v"))
    assert not outcome.finished
    assert outcome.findings == ()
    (entry,) = outcome.incomplete
    assert entry.ptx_line == line_of(text, "dp4a.rn.bogus")
    assert "dp4a.rn.bogus" in entry.reason


def test_an_instruction_that_is_not_reached_does_not_matter(table):
    outcome = run(
        text_of("ret;\ndp4a.rn.bogus %r1, %r1;"), table, table.allocate(8, "v")
    )
    assert outcome.finished
    assert outcome.incomplete == ()


@pytest.mark.parametrize(
    ("how", "words"), [({"budget": 5000}, "budget"), ({"deadline": 0.0}, "deadline")]
)
def test_endless_kernels_end_as_incomplete(table, how, words):
    outcome = run(text_of("L:\nbra L;"), table, table.allocate(8, "v"), **how)
    assert not outcome.finished
    assert words in outcome.incomplete[0].reason


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("not ptx at all {", "PTX cannot be read"),
        (text_of("ret;", target="nv_9"), "unknown target"),
    ],
)
def test_text_that_cannot_be_used_is_incomplete(table, text, words):
    outcome = run(text, table, table.allocate(8, "v"))
    assert not outcome.finished
    assert words in outcome.incomplete[0].reason


def test_a_launch_that_does_not_fit_its_kernel_is_a_usage_error(table):
    v = table.allocate(8, "v")
    launch = launch_of(text_of("ret;"), v.va, threads=2048)
    with pytest.raises(UsageError, match=r"block\.x"):
        run_launch(launch, table, Options())


def test_variables_of_the_module_live_on_between_launches(table):
    text = text_of(
        "mov.u64 %rd1, counter;\nld.global.u32 %r1, [%rd1];\nadd.u32 %r1, %r1, 1;\n"
        "st.global.u32 [%rd1], %r1;\nst.global.u32 [%rd0], %r1;",
        module=".visible .global .align 4 .u32 counter = 40;",
    )
    v = table.allocate(4, "v")
    for expected in (41, 42):
        assert run(text, table, v, threads=1).findings == ()
        assert v.data[0] == expected
    other = AllocationTable()
    w = other.allocate(4, "w")
    run(text, other, w, threads=1)
    assert w.data[0] == 41


def test_a_scenario_and_a_replay_are_added_to_what_was_found(table):
    v = table.allocate(4, "v")
    outcome = tagged(
        run(text_of(LOAD), table, v, offset=4), scenario="tile-edge", replay="do it"
    )
    assert (outcome.findings[0].scenario, outcome.findings[0].replay) == (
        "tile-edge",
        "do it",
    )
