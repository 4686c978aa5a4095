"""`sidestream mutate` on a kernel whose barriers are known one by one."""

import json
from dataclasses import replace

import pytest
from device_case import launch_of, text_of

from sidestream.harness.commands import mutate
from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.dsl.record import write_launch
from sidestream.harness.errors import UsageError
from sidestream.harness.exec.program import lower
from sidestream.harness.mutate.mutants import changed, mutants_of
from sidestream.harness.mutate.sites import CLASSES, sites_of
from sidestream.harness.mutate.splice import built, spliced
from sidestream.harness.ptx import ir
from sidestream.harness.ptx.decode import decode
from sidestream.harness.ptx.parser import parse
from sidestream.harness.run.settings import Settings

# Two warps exchange a word through shared memory. The first barrier is needed, the one
# right behind it adds nothing, the warp barrier orders accesses that do not conflict.
EXCHANGE = text_of(
    """
    shl.b32 %r1, %r0, 2;
    mov.u32 %r2, words;
    add.u32 %r3, %r2, %r1;
    st.shared.u32 [%r3], %r0;
    bar.sync 0;
    bar.sync 0;
    xor.b32 %r4, %r1, 128;
    add.u32 %r4, %r2, %r4;
    ld.shared.u32 %r5, [%r4];
    bar.warp.sync -1;
    cvt.u64.u32 %rd1, %r1;
    add.u64 %rd2, %rd0, %rd1;
    st.global.u32 [%rd2], %r5;
    """,
    declare=".shared .align 16 .b8 words[256];",
)

# Thread 32 waits for a phase that thread 0 ends.
HANDOVER = text_of(
    """
    mov.u32 %r2, bars;
    mov.u32 %r3, words;
    setp.ne.u32 %p0, %r0, 0;
    @!%p0 mbarrier.init.shared::cta.b64 [%r2], 1;
    bar.sync 0;
    setp.eq.u32 %p1, %r0, 32;
    @%p0 bra NEXT;
    st.shared.u32 [%r3], 7;
    mbarrier.arrive.shared::cta.b64 _, [%r2];
NEXT:
    @!%p1 bra DONE;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
    @!%p2 bra WAIT;
    ld.shared.u32 %r5, [%r3];
    st.global.u32 [%rd0], %r5;
DONE:
    """,
    declare=".shared .align 8 .b8 bars[8];\n.shared .align 16 .b8 words[16];",
)


def recorded(folder, text, *, threads=64):
    table = AllocationTable()
    buffer = table.allocate(256, "out", fill=b"\0")
    launch = launch_of(text, buffer.va, threads=threads)
    return write_launch(folder, launch, table, "sm_120a")


def judged(tmp_path, text, **how):
    launch, out = recorded(tmp_path / "launch", text), tmp_path / "out"
    mutate.run(
        [launch],
        only=how.get("only", ()),
        jobs=how.get("jobs", 1),
        settings=Settings(),
        out=out,
        command="mutate",
    )
    report = json.loads((out / "report.json").read_text())
    rows = report["mutants"]["rows"]
    return report, {(row["operation"], row["line"], row["change"]): row for row in rows}


def line_of(text, needle, number=1):
    lines = [n for n, line in enumerate(text.splitlines(), 1) if needle in line]
    return lines[number - 1]


def test_barriers_are_told_apart_by_what_they_carry(tmp_path):
    report, rows = judged(tmp_path, EXCHANGE)
    needed, idle = (line_of(EXCHANGE, "bar.sync 0", n) for n in (1, 2))
    # Two barriers in a row: either may go, as long as the other stays.
    for line in (needed, idle):
        for change in ("weaken", "delete"):
            row = rows["bar.sync", line, change]
            assert row["status"] == "equivalent", row
    warp = line_of(EXCHANGE, "bar.warp.sync")
    assert rows["bar.warp.sync", warp, "delete"]["status"] == "survived"
    assert report["mutants"]["survived"] == 2
    assert report["mutants"]["equivalent"] == 4
    assert report["verdict"] == "review"


def test_a_barrier_that_is_needed_is_caught_by_the_race(tmp_path):
    text = EXCHANGE.replace("bar.sync 0;\n    bar.sync 0;", "bar.sync 0;")
    report, rows = judged(tmp_path, text, only=("barrier",))
    line = line_of(text, "bar.sync 0")
    for change in ("weaken", "delete"):
        row = rows["bar.sync", line, change]
        assert (row["status"], "smem-race" in row["by"]) == ("caught", True)
    assert len(rows) == 2
    assert report["mutants"]["caught"]["smem-race"] == 2
    assert report["verdict"] == "clean"


def test_arrivals_waits_and_counts_are_caught(tmp_path):
    _, rows = judged(tmp_path, HANDOVER)
    by = {(name, change): row for (name, _, change), row in rows.items()}
    assert {row["status"] for row in rows.values()} == {"caught"}, by
    arrive, wait = "mbarrier.arrive.shared::cta.b64", "mbarrier.try_wait.parity"
    wait += ".shared::cta.b64"
    assert "deadlock" in by[arrive, "delete"]["by"]
    assert "smem-race" in by[arrive, "weaken"]["by"]
    assert "smem-race" in by[wait, "delete"]["by"]
    assert "deadlock" in by["mbarrier.init.shared::cta.b64", "count +1"]["by"]


def test_a_count_that_does_not_match_its_arrivals_is_left_over(tmp_path):
    arrive = "mbarrier.arrive.shared::cta.b64 _, [%r2];\n"
    text = HANDOVER.replace("[%r2], 1;", "[%r2], 3;").replace(arrive, 3 * arrive)
    _, rows = judged(tmp_path, text, only=("init",))
    line = line_of(text, "mbarrier.init")
    row = rows["mbarrier.init.shared::cta.b64", line, "count -1"]
    # The word was written before either arrival: only the count tells.
    assert (row["status"], row["by"]) == ("caught", ["leftover"])


def test_what_was_found_before_catches_no_mutant(tmp_path):
    racy = EXCHANGE.replace("bar.sync 0;", "")
    launch, out = recorded(tmp_path / "launch", racy), tmp_path / "out"
    mutate.run(
        [launch],
        only=("warp",),
        jobs=1,
        settings=Settings(),
        out=out,
        command="mutate",
        known=True,
    )
    rows = json.loads((out / "report.json").read_text())["mutants"]["rows"]
    assert {row["status"] for row in rows} == {"survived"}


def test_processes_give_the_same_rows(tmp_path):
    _, one = judged(tmp_path / "one", EXCHANGE)
    _, two = judged(tmp_path / "two", EXCHANGE, jobs=2)
    assert one == two


def test_only_known_classes_are_taken(tmp_path):
    launch = recorded(tmp_path / "launch", EXCHANGE)
    with pytest.raises(UsageError, match="there are"):
        mutate.run(
            [launch],
            only=("fences",),
            jobs=1,
            settings=Settings(),
            out=None,
            command="",
        )


def test_nothing_to_judge_is_not_clean(tmp_path, capsys):
    launch = recorded(tmp_path / "launch", EXCHANGE)
    status = mutate.run(
        [launch],
        only=("commit",),
        jobs=1,
        settings=Settings(),
        out=None,
        command="",
    )
    assert status == 3
    assert "no synchronisation of class commit" in capsys.readouterr().out


def test_a_launch_that_is_not_clean_tells_nothing(tmp_path):
    text = EXCHANGE.replace("bar.sync 0;", "")
    launch = recorded(tmp_path / "launch", text)
    with pytest.raises(UsageError, match="not clean as it is"):
        mutate.run(
            [launch],
            only=(),
            jobs=1,
            settings=Settings(),
            out=None,
            command="",
        )


def test_a_folder_without_a_launch_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no recorded launch"):
        mutate.launch_folders([tmp_path])


def test_every_site_has_a_class_and_mutants_that_can_be_lowered():
    for text in (EXCHANGE, HANDOVER):
        function = decode(parse(text), "k")
        sites = sites_of(function)
        assert {site.kind for site in sites} <= set(CLASSES)
        mutants = list(mutants_of(function))
        assert {mutant.site.index for mutant in mutants} == {s.index for s in sites}
        for mutant in mutants:
            code = changed(function, mutant)
            assert (code is None) == (mutant.change == "weaken")
            if code is not None:
                assert not lower(code).unsupported
                assert [i.index for i in code.instructions] == list(
                    range(len(code.instructions))
                )


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_splice_is_the_kernel_whose_text_says_so(count):
    """Labels before, at and behind the place, and a table of them."""
    branches = """
    mov.u32 %r2, 1;
FIRST:
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p0, %r2, 5;
AT:
    @%p0 bar.sync 0;
BEHIND:
    @%p0 bra FIRST;
    setp.lt.u32 %p1, %r2, 9;
    @%p1 bra AT;
    setp.lt.u32 %p2, %r2, 12;
    @%p2 bra BEHIND;
TABLE: .branchtargets FIRST, AT, BEHIND, DONE;
    brx.idx %r2, TABLE;
DONE:
    """
    text = text_of(branches)
    more = "bar.warp.sync -1;\n" * count
    line = "@%p0 bar.sync 0;\n"
    said = decode(parse(text.replace(line, more)), "k")
    function = decode(parse(text), "k")
    (site,) = sites_of(function)
    one = replace(
        built(site.instruction, "bar.warp.sync", [ir.Immediate("int", -1)]), guard=None
    )
    made = spliced(function, site.index, [one] * count)

    def told(code):
        return [
            (i.index, i.op, i.mods, i.args, i.guard, i.guard_negated)
            for i in code.instructions
        ]

    assert told(made) == told(said)
    assert made.branch_targets == said.branch_targets


def test_a_number_in_a_register_is_counted_in_another():
    text = HANDOVER.replace("[%r2], 1;", "[%r2], %r5;")
    function = decode(parse(text), "k")
    (more, less) = (m for m in mutants_of(function) if m.site.kind == "init")
    for mutant, step in ((more, 1), (less, -1)):
        code = changed(function, mutant)
        add, init = code.instructions[mutant.site.index :][:2]
        was = function.instructions[mutant.site.index]
        assert (add.op, add.args["b"]) == ("add", ir.Immediate("int", step))
        assert add.args["a"] == was.args["count"]
        assert init.args == {**was.args, "count": add.args["d"]}
        assert (add.guard, add.guard_negated) == (was.guard, was.guard_negated)
        assert add.args["d"] not in function.registers
        assert add.args["d"] in code.registers


def test_nothing_weaker_than_a_relaxed_operation_is_tried():
    text = HANDOVER.replace(
        "mbarrier.arrive.shared", "mbarrier.arrive.relaxed.cta.shared"
    )
    changes = [
        m.change
        for m in mutants_of(decode(parse(text), "k"))
        if m.site.kind == "arrive"
    ]
    assert changes == ["delete"]


def test_interruption_leaves_a_report_that_says_so(tmp_path, monkeypatch):
    launch, out = recorded(tmp_path / "launch", EXCHANGE), tmp_path / "out"
    rows = mutate._Worker.rows

    def once(worker, number):
        if number:
            raise KeyboardInterrupt
        return rows(worker, number)

    monkeypatch.setattr(mutate._Worker, "rows", once)
    status = mutate.run(
        [launch], only=(), jobs=1, settings=Settings(), out=out, command="mutate"
    )
    report = json.loads((out / "report.json").read_text())
    assert status == 3
    assert report["verdict"] == "incomplete"
    assert report["incomplete"][0]["reason"].startswith("interrupted: 2 mutants judged")
    assert len(report["mutants"]["rows"]) == 2
