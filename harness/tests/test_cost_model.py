"""The cost model against kernels whose counts and chains are known by hand.

`run_kernel` wraps a body into two moves and one `mad` before it and one `exit` behind
it: AROUND units of a warp. Each buffer adds a load of its parameter.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import tcgen05_case
from kernel_case import Ran, run_kernel

from sidestream.harness.exec import abi
from sidestream.harness.exec.cost import CostTable, Unit, main_rows
from sidestream.harness.exec.machine import Options

AROUND = 2
TABLE = CostTable(
    units={
        "tcgen05": Unit(rate=4096, latency=10),
        "mma.sync": Unit(rate=1024),
        "tmem": Unit(rate=64, latency=5),
        "tma load": Unit(rate=32, latency=100),
        "tma store": Unit(rate=16, latency=1000),
        "cp.async": Unit(rate=8, latency=50),
        "remote": Unit(rate=4, latency=7),
    }
)
COSTED = Options(cost=TABLE)
BARRIER = ".shared .align 8 .b64 bar[2];\n.reg .b32 %w, %a;\n.reg .pred %p, %q, %one;\n"
SPLIT = "shr.u32 %w, %thread, 5;\nsetp.ne.u32 %p, %w, 0;\n"
ADD = "add.u32 %a, %a, 1;\n"


def costed(body: str, *, warps: int = 1, options: Options = COSTED, **more) -> Ran:
    ran = run_kernel(
        body, threads=32 * warps, block=32 * warps, options=options, **more
    )
    assert not ran.program.unsupported, ran.program.unsupported
    assert ran.result.status == "done", ran.result
    assert not ran.result.faults, ran.result.faults
    return ran


def chain_of(ran: Ran):
    return ran.result.costs.chain


def parts_of(ran: Ran) -> dict[str, int]:
    """Parts of the chain that are not zero."""
    path = chain_of(ran)
    parts = {f"warp {k}": int(n) for k, n in enumerate(path.warps) if n}
    parts |= {name: n for name, n in path.units.items() if n}
    assert sum(parts.values()) == path.length
    return parts


def issues(ran: Ran, spelling: str) -> list[int]:
    """By warp, issues of the instructions whose spelling starts so."""
    costs = ran.result.costs
    total = np.zeros(len(costs.rows), np.int64)
    for row in np.flatnonzero(main_rows(ran.program)):
        if ran.program.instruction(row).spelling.startswith(spelling):
            total += costs.rows[:, row].astype(np.int64)
    return total.tolist()


def test_a_warp_costs_what_it_issues_and_moves_are_free():
    ran = costed(".reg .b32 %a, %b;\n" + ADD * 5 + "mov.u32 %b, %a;\n" * 3)
    assert parts_of(ran) == {"warp 0": 5 + AROUND}
    assert issues(ran, "add") == [5]
    assert issues(ran, "mov") == [5]


def test_rows_that_convert_operands_are_not_counted():
    # a special register and a 64-bit source each take a row of their own
    body = ".reg .b32 %a;\n.reg .b64 %l;\nadd.u32 %a, %laneid, 1;\n"
    body += "cvt.u64.u32 %l, %a;\nadd.u64 %l, %l, %clock64;\n"
    ran = costed(body)
    assert len(ran.program.code) > main_rows(ran.program).sum() + 1
    assert parts_of(ran) == {"warp 0": 3 + AROUND}


def test_the_guarded_row_stands_for_an_instruction():
    code = np.zeros(5, abi.INSN_DTYPE)
    code["guard"] = (abi.NOREF, 8, abi.NOREF, abi.NOREF, abi.NOREF)
    program = SimpleNamespace(code=code, origin=np.array([0, 0, 0, 1, -1]))
    assert main_rows(program).tolist() == [False, True, False, True, False]


def test_an_instruction_whose_guard_fails_is_issued():
    body = ".reg .b32 %a;\n.reg .pred %p;\nsetp.gt.u32 %p, %thread, 99;\n@%p " + ADD
    ran = costed(body)
    assert parts_of(ran) == {"warp 0": 2 + AROUND}
    assert issues(ran, "add") == [1]
    row = next(
        r
        for r in np.flatnonzero(main_rows(ran.program))
        if ran.program.instruction(r).spelling.startswith("add")
    )
    assert ran.result.costs.lanes[row] == 0


def test_lanes_of_a_guarded_instruction_are_counted():
    body = ".reg .b32 %a;\n.reg .pred %p;\nsetp.lt.u32 %p, %thread, 5;\n@%p " + ADD
    ran = costed(body)
    lanes = {
        ran.program.instruction(r).spelling: int(ran.result.costs.lanes[r])
        for r in np.flatnonzero(main_rows(ran.program))
    }
    assert lanes["add.u32"] == 5
    assert lanes["setp.lt.u32"] == 32


def test_counts_are_kept_by_warp():
    body = BARRIER + SPLIT + "@%p bra ON;\n" + ADD * 7 + "ON:\n" + ADD
    ran = costed(body, warps=3)
    assert issues(ran, "add") == [8, 1, 1]


def test_divergent_paths_of_a_warp_follow_each_other():
    body = ".reg .b32 %a;\n.reg .pred %p;\nsetp.lt.u32 %p, %thread, 16;\n"
    body += "@%p bra LOW;\n" + ADD * 4 + "bra OVER;\nLOW:\n" + ADD * 6 + "OVER:\n"
    ran = costed(body)
    assert parts_of(ran) == {"warp 0": 1 + 1 + 4 + 1 + 6 + AROUND}


def handed_over(work: int, own: int) -> Ran:
    """Warp 1 waits, after `own` units, for warp 0, which works before it arrives."""
    body = BARRIER + SPLIT
    body += "setp.eq.u32 %one, %thread, 0;\n@%one mbarrier.init.shared.b64 [bar], 1;\n"
    body += "bar.sync 0;\n@%p bra TAKE;\n" + ADD * work
    body += "@%one mbarrier.arrive.shared.b64 _, [bar];\nbra OVER;\nTAKE:\n"
    body += ADD * own + "WAIT:\nmbarrier.try_wait.parity.shared.b64 %q, [bar], 0;\n"
    body += "@!%q bra WAIT;\n" + ADD * 3 + "OVER:\n"
    return costed(body, warps=2)


def test_who_waits_goes_on_when_the_last_arrival_has_come():
    ran = handed_over(work=20, own=4)
    # mad, shr, setp, setp, init, bar | bra not taken, 20, arrive | bra, 3, exit
    assert parts_of(ran) == {"warp 0": 6 + 1 + 20 + 1, "warp 1": 1 + 3 + 1}
    waits = ran.result.costs.waits[1]
    assert (waits.passed["mbarrier"], waits.late["mbarrier"]) == (1, 1)
    # bra, 4 adds and the wait itself came after the barrier
    assert waits.units["mbarrier"] == 22 - 6
    assert waits.causes == {"warp 0": 16}


def test_who_comes_after_the_arrival_does_not_wait():
    ran = handed_over(work=2, own=30)
    assert parts_of(ran) == {"warp 1": 6 + 1 + 30 + 1 + 1 + 3 + 1}
    waits = ran.result.costs.waits[1]
    assert (waits.passed["mbarrier"], waits.late["mbarrier"]) == (1, 0)
    assert waits.units["mbarrier"] == 0
    assert waits.causes == {}


def test_a_phase_ends_with_its_latest_arrival_whatever_the_order():
    body = BARRIER + SPLIT
    body += "setp.eq.u32 %one, %thread, 0;\n@%one mbarrier.init.shared.b64 [bar], 2;\n"
    body += ".reg .pred %e;\n.reg .b32 %l;\nand.b32 %l, %thread, 31;\n"
    body += "setp.eq.u32 %e, %l, 0;\nbar.sync 0;\nsetp.eq.u32 %q, %w, 1;\n"
    body += "@!%p bra TAKE;\n@%q bra SHORT;\n" + ADD * 40 + "SHORT:\n" + ADD * 5
    body += "@%e mbarrier.arrive.shared.b64 _, [bar];\nbra OVER;\nTAKE:\nWAIT:\n"
    body += "mbarrier.try_wait.parity.shared.b64 %q, [bar], 0;\n@!%q bra WAIT;\n"
    body += ADD + "OVER:\n"
    lengths = set()
    for seed in range(6):
        ran = costed(body, warps=3, options=replace(COSTED, seed=seed))
        assert parts_of(ran) == {"warp 2": 8 + 1 + 2 + 45 + 1, "warp 0": 1 + 1 + 1}
        # setp, bra and the wait against setp, two bra, 45 and the arrival
        assert ran.result.costs.waits[0].causes == {"warp 2": 49 - 3}
        lengths.add(chain_of(ran).length)
    assert len(lengths) == 1


def test_a_named_barrier_releases_all_at_its_latest_arrival():
    body = BARRIER + SPLIT + "@%p bra FAST;\n" + ADD * 11 + "FAST:\nbar.sync 1, 64;\n"
    body += "@%p bra LAST;\n" + ADD * 2 + "LAST:\n"
    ran = costed(body, warps=2)
    # mad, shr, setp, bra, 11, bar | bra, 2, exit
    assert parts_of(ran) == {"warp 0": 4 + 11 + 1 + 1 + 2 + 1}
    first, second = ran.result.costs.waits
    assert (first.passed["barrier"], first.late["barrier"]) == (1, 0)
    assert (second.late["barrier"], second.units["barrier"]) == (1, 11)
    assert second.causes == {"warp 0": 11}


def test_who_only_arrives_does_not_wait():
    body = BARRIER + SPLIT + "@%p bra SLOW;\nbar.arrive 1, 64;\nbra OVER;\nSLOW:\n"
    body += ADD * 9 + "bar.sync 1, 64;\nOVER:\n"
    ran = costed(body, warps=2)
    assert ran.result.costs.waits[0].passed["barrier"] == 0
    assert ran.result.costs.waits[1].late["barrier"] == 0
    assert parts_of(ran) == {"warp 1": 4 + 9 + 1 + 1}


def test_a_cluster_waits_for_the_slowest_of_its_ctas():
    body = BARRIER + ".reg .b32 %r;\nmov.u32 %r, %cluster_ctarank;\n"
    body += "setp.eq.u32 %p, %r, 0;\n@%p bra FAST;\n" + ADD * 13 + "FAST:\n"
    body += "barrier.cluster.arrive;\n" + ADD + "barrier.cluster.wait;\n"
    ran = run_kernel(body, threads=64, block=32, cluster=(2, 1, 1), options=COSTED)
    costs = ran.result.costs
    assert costs.ctas == 2
    # mad, setp, bra, 13, arrive: the fast CTA goes on then; wait is issued before
    slow, fast = 3 + 13 + 1 + 1 + 1 + 1, 3 + 13 + 1 + 1
    assert costs.chain.length == slow + fast
    assert costs.longest.length == slow
    assert costs.waits[0].late["cluster"] == 1


LOAD = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes "


def loads(number: int, size: int, after: int) -> Ran:
    """One thread copies in; its warp works meanwhile and waits."""
    body = BARRIER + f".shared .align 128 .b8 tile[{number * size}];\n"
    body += "setp.eq.u32 %one, %thread, 0;\n@%one mbarrier.init.shared.b64 [bar], 1;\n"
    body += f"@%one mbarrier.arrive.expect_tx.shared.b64 _, [bar], {number * size};\n"
    for k in range(number):
        body += f"@%one {LOAD}[tile+{k * size}], [%data+{k * size}], {size}, [bar];\n"
    body += ADD * after + "WAIT:\nmbarrier.try_wait.parity.shared.b64 %q, [bar], 0;\n"
    body += "@!%q bra WAIT;\n"
    data = np.zeros(number * size, np.uint8)
    return costed(body, buffers={"data": data})


def test_a_copy_takes_its_latency_and_its_bytes():
    ran = loads(1, 320, after=5)
    # ld.param, mad, setp, init, expect, copy | 320 / 32 + 100 | bra, exit
    assert parts_of(ran) == {"warp 0": 6 + 2, "tma load": 10 + 100}
    assert ran.result.costs.waits[0].causes == {"tma load": 110 - 6}


def test_copies_of_a_warp_share_the_rate_but_not_the_latency():
    ran = loads(3, 3200, after=5)
    assert parts_of(ran) == {"warp 0": 6 + 2, "tma load": 300 + 100}


def test_a_copy_that_ends_in_time_is_not_in_the_chain():
    ran = loads(1, 320, after=200)
    assert parts_of(ran) == {"warp 0": 6 + 200 + 1 + 2}
    assert ran.result.costs.waits[0].late["mbarrier"] == 0


def test_a_partial_unit_is_a_whole_one():
    assert parts_of(loads(1, 16, after=0))["tma load"] == 1 + 100


def stored(wait: str) -> Ran:
    body = BARRIER + ".shared .align 128 .b8 tile[160];\n"
    body += "setp.eq.u32 %one, %thread, 0;\n"
    body += "@%one cp.async.bulk.global.shared::cta.bulk_group [%data], [tile], 160;\n"
    body += f"@%one cp.async.bulk.commit_group;\n@%one {wait}\n"
    return costed(body, buffers={"data": np.zeros(160, np.uint8)})


def test_a_wait_for_reading_does_not_wait_for_writing():
    ran = stored("cp.async.bulk.wait_group.read 0;")
    waits = ran.result.costs.waits[0]
    # commit and the wait itself come after the issue
    assert waits.units["group"] == 10 - 2
    # what is left in flight ends the CTA: ld.param, mad, setp, store
    assert parts_of(ran) == {"warp 0": 4, "tma store": 10 + 1000}


def test_a_wait_for_writing_takes_the_latency_too():
    ran = stored("cp.async.bulk.wait_group 0;")
    assert ran.result.costs.waits[0].units["group"] == 1010 - 2
    assert parts_of(ran) == {"warp 0": 4 + 1, "tma store": 1010}


def test_a_newer_group_may_stay_behind():
    body = ".shared .align 128 .b8 tile[1024];\n.reg .b32 %a;\n"
    body += "cp.async.ca.shared.global [tile], [%data], 8;\ncp.async.commit_group;\n"
    body += "cp.async.ca.shared.global [tile+8], [%data], 8;\ncp.async.commit_group;\n"
    body += "cp.async.wait_group {0};\n"
    waited = []
    for pending in (1, 0):
        text = body.replace("{0}", str(pending))
        ran = costed(text, buffers={"data": np.zeros(8, np.uint8)})
        waited.append(ran.result.costs.waits[0].units["group"])
    # 32 lanes of 8 bytes at 8 a unit, and 50; the second follows the first
    assert waited == [32 + 50 - 4, 64 + 50 - 4]


def test_an_arrival_for_copies_comes_after_them():
    body = BARRIER + ".shared .align 128 .b8 tile[1024];\n"
    body += "setp.eq.u32 %one, %thread, 0;\n@%one mbarrier.init.shared.b64 [bar], 32;\n"
    body += "bar.warp.sync -1;\ncp.async.ca.shared.global [tile], [%data], 4;\n"
    body += "cp.async.mbarrier.arrive.noinc.shared.b64 [bar];\nWAIT:\n"
    body += "mbarrier.try_wait.parity.shared.b64 %q, [bar], 0;\n@!%q bra WAIT;\n"
    ran = costed(body, buffers={"data": np.zeros(8, np.uint8)})
    assert parts_of(ran) == {"warp 0": 6 + 2, "cp.async": 16 + 50}


def test_a_warps_own_multiplication_takes_its_flops():
    body = ".reg .f32 %f<4>;\n.reg .b32 %a<6>;\n" + (
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0, %f1, %f2, %f3}, "
        "{%a0, %a1, %a2, %a3}, {%a4, %a5}, {%f0, %f1, %f2, %f3};\n" * 3
    )
    ran = costed(body)
    assert parts_of(ran) == {"warp 0": 3 + AROUND, "mma.sync": 3 * 4}


# f16, M = 128, N = 64, K = 16: 2 * 128 * 64 * 16 flops
IDESC = 1 << 4 | 8 << 17 | 8 << 24
MMA_UNITS = 2 * 128 * 64 * 16 // 4096
DESC = 1 << 46 | 64 << 32 | 1 << 16 | tcgen05_case.AT >> 4


def multiplication(times: int, seed: int = 0) -> tcgen05_case.CoreRun:
    body = ".reg .b64 %d;\n.reg .pred %no;\nsetp.ne.u32 %no, %rank, %rank;\n"
    body += f"mov.b64 %d, {DESC};\n"
    body += f"tcgen05.mma.cta_group::1.kind::f16 [0], %d, %d, {IDESC}, %no;\n" * times
    body += tcgen05_case.commit(1)
    options = replace(COSTED, seed=seed)
    return tcgen05_case.clean(tcgen05_case.run(body, options=options))


def multiplied(times: int, seed: int = 0):
    return multiplication(times, seed).result.costs


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_multiplications_follow_each_other_and_a_commit_follows_them(seed: int):
    one, four = multiplied(1, seed), multiplied(4, seed)
    assert one.chain.units["tcgen05"] == MMA_UNITS + 10
    assert four.chain.units["tcgen05"] == 4 * MMA_UNITS + 10
    assert int(four.work.max()) == 2 * 128 * 64 * 16
    assert sum(w.causes.get("tcgen05", 0) for w in four.waits[1:2]) > 0


def test_tensor_memory_takes_a_unit_for_each_half_row():
    # the case itself loads and stores columns of 128 bytes a warp, at 64 a unit
    case = multiplication(1)
    rows = case.result.costs.rows[0]
    columns = 0
    for row in np.flatnonzero(main_rows(case.program)):
        ins = case.program.instruction(row)
        if ins.op in ("tcgen05.ld", "tcgen05.st"):
            columns += int(rows[row]) * int(ins.mods["num"][1:])
    assert columns >= 512
    assert case.result.costs.chain.units["tmem"] == 2 * columns


def test_a_pair_has_two_tensor_cores():
    # M = 256 of the pair: twice the flops in the time of M = 128
    shape = 1 << 4 | 8 << 17 | 16 << 24
    body = ".reg .b64 %d;\n.reg .pred %no;\nsetp.ne.u32 %no, %rank, %rank;\n"
    body += f"mov.b64 %d, {DESC};\n"
    body += f"tcgen05.mma.cta_group::2.kind::f16 [0], %d, %d, {shape}, %no;\n"
    body += tcgen05_case.commit(2)
    case = tcgen05_case.run(body, options=COSTED, group=2)
    costs = tcgen05_case.clean(case).result.costs
    assert int(costs.work.max()) == 2 * 256 * 64 * 16
    assert costs.longest.units["tcgen05"] == MMA_UNITS + 10


def ring(seed: int, *, cost: CostTable | None = TABLE) -> Ran:
    """A producer hands eight tiles to two consumers over a ring of two."""
    body = """
    .shared .align 8 .b64 full[2]; .shared .align 8 .b64 empty[2];
    .shared .align 128 .b8 tiles[512];
    .reg .b32 %w, %l, %n, %slot, %par, %at, %f, %e, %v, %sum, %bit;
    .reg .b64 %src, %dst; .reg .pred %p, %q, %one, %lead;
    shr.u32 %w, %thread, 5; and.b32 %l, %thread, 31; mov.u32 %sum, 0;
    setp.eq.u32 %one, %thread, 0; setp.eq.u32 %lead, %l, 0;
    @%one mbarrier.init.shared.b64 [full], 1;
    @%one mbarrier.init.shared.b64 [full+8], 1;
    @%one mbarrier.init.shared.b64 [empty], 2;
    @%one mbarrier.init.shared.b64 [empty+8], 2;
    bar.sync 0;
    mov.u32 %n, 0;
    setp.ne.u32 %p, %w, 0;
    NEXT:
    and.b32 %slot, %n, 1; shr.u32 %par, %n, 1; and.b32 %par, %par, 1;
    mov.u32 %f, full; mov.u32 %e, empty;
    shl.b32 %at, %slot, 3; add.u32 %f, %f, %at; add.u32 %e, %e, %at;
    mov.u32 %at, tiles; mad.lo.u32 %at, %slot, 256, %at;
    @%p bra CONSUME;
    xor.b32 %bit, %par, 1;
    WAITE: mbarrier.try_wait.parity.shared.b64 %q, [%e], %bit;
    @!%q bra WAITE;
    @%lead mbarrier.arrive.expect_tx.shared.b64 _, [%f], 256;
    mul.wide.u32 %src, %n, 256; add.u64 %src, %src, %data;
    @%lead cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes
        [%at], [%src], 256, [%f];
    bra ON;
    CONSUME:
    WAITF: mbarrier.try_wait.parity.shared.b64 %q, [%f], %par;
    @!%q bra WAITF;
    mad.lo.u32 %at, %l, 8, %at;
    ld.shared.b32 %v, [%at];
    add.u32 %sum, %sum, %v;
    bar.warp.sync -1;
    @%lead mbarrier.arrive.shared.b64 _, [%e];
    ON:
    add.u32 %n, %n, 1; setp.lt.u32 %q, %n, 8; @%q bra NEXT;
    mul.wide.u32 %dst, %thread, 4; add.u64 %dst, %dst, %out;
    st.global.b32 [%dst], %sum;
    """
    data = np.random.default_rng(1).integers(0, 256, 2048).astype(np.uint8)
    return costed(
        body,
        warps=3,
        options=Options(seed=seed, cost=cost, quantum=9 if seed else 256),
        buffers={"data": data, "out": np.zeros(96, np.uint32)},
    )


def test_clocks_do_not_depend_on_the_schedule():
    base = ring(0)
    for seed in range(1, 12):
        other = ring(seed)
        assert parts_of(other) == parts_of(base)
        assert other.result.costs.waits == base.result.costs.waits
        assert (other.result.costs.rows == base.result.costs.rows).all()


@pytest.mark.parametrize("seed", [0, 3, 7])
def test_counting_changes_nothing(seed: int):
    counted, plain = ring(seed), ring(seed, cost=None)
    assert plain.result.costs is None
    assert (counted.buffers["out"] == plain.buffers["out"]).all()
    assert (counted.result.counts == plain.result.counts).all()
    assert counted.result.warp_instructions == plain.result.warp_instructions
    expected = np.zeros(96, np.uint32)
    words = counted.buffers["data"].view(np.uint32).reshape(8, 64)
    expected[32:] = np.tile(words[:, ::2].sum(0, dtype=np.uint32), 2)
    assert (counted.buffers["out"] == expected).all()


def test_tensor_memory_costs_the_same_whether_it_lands_late_or_not():
    lengths = {chain_of(multiplication(2, seed)).length for seed in range(4)}
    assert len(lengths) == 1


def test_no_phase_ends_before_the_one_before_it():
    # warp 0 learns through memory, which the clocks do not see, that warp 1 has ended
    # phase 0, and ends phase 1, for which warp 2 waits after learning it likewise
    body = BARRIER + SPLIT + ".shared .b32 flag;\n.reg .b32 %l;\n.reg .pred %e;\n"
    body += "and.b32 %l, %thread, 31;\nsetp.eq.u32 %e, %l, 0;\n"
    body += "setp.eq.u32 %one, %thread, 0;\n@%one st.shared.b32 [flag], 0;\n"
    body += "@%one mbarrier.init.shared.b64 [bar], 1;\nbar.sync 0;\n"
    body += "setp.eq.u32 %q, %w, 1;\n@%q bra LATE;\nsetp.eq.u32 %q, %w, 2;\n"
    body += (
        "@%q bra TAKE;\nEARLY: nanosleep.u32 1;\nld.volatile.shared.b32 %a, [flag];\n"
    )
    body += "setp.eq.u32 %q, %a, 0;\n@%q bra EARLY;\n"
    body += "@%e mbarrier.arrive.shared.b64 _, [bar];\nbra OVER;\nLATE:\n" + ADD * 2000
    body += "@%e mbarrier.arrive.shared.b64 _, [bar];\n@%e st.shared.b32 [flag], 1;\n"
    body += "bra OVER;\nTAKE:\n"
    body += (
        "FIRST: nanosleep.u32 1;\nld.volatile.shared.b32 %a, [flag];\n"
        "setp.eq.u32 %q, %a, 0;\n@%q bra FIRST;\n"
    )
    body += "WAIT: mbarrier.try_wait.parity.shared.b64 %q, [bar], 1;\n@!%q bra WAIT;\n"
    body += ADD * 99 + "OVER:\n"
    ran = costed(body, warps=3)
    assert issues(ran, "nanosleep")[0] < 100
    second = ran.result.costs.waits[2]
    assert (second.passed["mbarrier"], second.late["mbarrier"]) == (1, 1)
    assert parts_of(ran)["warp 1"] > 2000


def test_every_cta_has_a_chain_of_its_own():
    body = ".reg .b32 %a, %c;\n.reg .pred %p;\nmov.u32 %c, %ctaid.x;\n"
    body += "setp.gt.u32 %p, %c, 1;\n@%p bra ON;\n" + ADD * 10 + "ON:\nbar.sync 0;\n"
    ran = run_kernel(body, threads=160, block=32, options=replace(COSTED, sms=2))
    costs = ran.result.costs
    short, long = AROUND + 3, AROUND + 13
    assert costs.ctas == 5
    # the long ones come first, in the slots that short ones have afterwards
    assert costs.chain.length == 2 * long + 3 * short
    assert costs.longest.length == long


def test_a_table_needs_every_unit_and_sane_values():
    with pytest.raises(ValueError, match="units"):
        CostTable(units={"tcgen05": Unit(rate=1)})
    with pytest.raises(ValueError, match="rates"):
        CostTable(units=dict(TABLE.units) | {"tmem": Unit(rate=0)})
