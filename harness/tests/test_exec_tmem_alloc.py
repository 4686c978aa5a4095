"""tcgen05.alloc, dealloc and relinquish_alloc_permit: who gets which columns, who
waits, and what breaks a rule (PTX ISA, tcgen05.alloc, tcgen05.dealloc)."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_case import run_kernel

from sidestream.harness.exec.machine import Options

# `enum TmemError` and `enum Tcgen05Error`.
COUNT, GROWS, RELINQUISHED, NO_BASE, OTHER_SIZE, PAIR, LEAKED = range(1, 8)
TWO_GROUPS, NO_PEER, PEER_GONE, DIVERGED, NOT_UNIFORM = range(1, 6)
SEEDS = (0, 1, 7)

HEAD = """
.reg .b32 %slot, %a, %n, %warp, %rank; .reg .pred %q; .reg .b64 %at;
.shared .align 8 .b32 slots[64];
mov.u32 %slot, slots;
shr.u32 %warp, %kc_tid, 5;
mov.u32 %rank, %cluster_ctarank;
"""


def alloc(count, slot=0, group=1):
    return (
        f"tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 "
        f"[%slot+{4 * slot}], {count};\n"
    )


def load(slot=0):
    return f"ld.shared.b32 %a, [%slot+{4 * slot}];\n"


def free(count, slot=0, group=1):
    return load(slot) + (
        f"tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %a, {count};\n"
    )


def give_up(group=1):
    return f"tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;\n"


def only(warp, text, label):
    return (
        f"setp.ne.u32 %q, %warp, {warp};\n@%q bra {label};\n{text}{label}:\n"
        "bar.warp.sync 0xffffffff;\n"
    )


def run(body, *, warps=1, cluster=1, seed=0, ctas=None, **how):
    threads = 32 * warps * (ctas or cluster)
    return run_kernel(
        HEAD + body,
        outputs={"got": np.uint32},
        threads=threads,
        block=32 * warps,
        cluster=(cluster, 1, 1),
        target="sm_100a",
        options=Options(seed=seed, budget=200_000, **how),
    )


def faults_of(ran):
    return {(f.kind, f.info) for f in ran.result.faults}


def finished(ran):
    assert not ran.program.unsupported, ran.program.unsupported
    assert ran.result.status == "done", ran.result
    assert not ran.result.faults, ran.result.faults
    return ran


@pytest.mark.parametrize("count", [32, 64, 128, 256, 512])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_address_arrives_in_shared_memory(count, seed):
    ran = run(alloc(count) + load() + "mov.u32 %got, %a;\n" + free(count), seed=seed)
    assert set(finished(ran).outputs["got"]) == {0}


def test_the_address_arrives_through_a_generic_pointer_too():
    body = """cvta.shared.u64 %at, slots;
tcgen05.alloc.cta_group::1.sync.aligned.b32 [%at+8], 64;
ld.shared.b32 %got, [%slot+8];
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %got, 64;"""
    assert set(finished(run(body)).outputs["got"]) == {0}


def test_a_generic_pointer_to_elsewhere_is_a_fault():
    body = "mov.u64 %at, 4096;\n"
    body += "tcgen05.alloc.cta_group::1.sync.aligned.b32 [%at], 64;"
    assert ("illegal", 0) in faults_of(run(body))


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from([32, 64, 128, 256]), min_size=1, max_size=8),
    st.randoms(use_true_random=False),
    st.sampled_from(SEEDS),
)
def test_live_allocations_are_apart_and_all_that_fits_is_granted(sizes, rng, seed):
    sizes = sorted(sizes, reverse=True)
    while sum(sizes) > 512:
        sizes.pop()
    order = list(range(len(sizes)))
    rng.shuffle(order)
    body = "".join(alloc(n, k) for k, n in enumerate(sizes))
    body += f"""and.b32 %a, %kc_tid, 31;
min.u32 %a, %a, {len(sizes) - 1};
shl.b32 %a, %a, 2; add.u32 %a, %a, %slot; ld.shared.b32 %got, [%a];\n"""
    body += "".join(free(sizes[k], k) for k in order) + give_up()
    bases = finished(run(body, seed=seed)).outputs["got"][: len(sizes)]
    columns = [
        c for b, n in zip(bases, sizes, strict=True) for c in range(int(b), int(b) + n)
    ]
    assert len(set(columns)) == len(columns)
    assert max(columns) < 512
    assert all(b % 32 == 0 for b in bases)


def test_columns_that_came_back_are_given_out_again():
    body = alloc(256, 0) + alloc(256, 1) + free(256, 0) + alloc(256, 2)
    body += load(2) + "mov.u32 %got, %a;\n" + free(256, 1) + free(256, 2)
    assert set(finished(run(body)).outputs["got"]) == {0}


@pytest.mark.parametrize("seed", SEEDS)
def test_alloc_waits_for_another_warps_dealloc(seed):
    # Warp 0 has everything until it saw that warp 1 is about to ask.
    first = alloc(512) + "bar.sync 1, 64;\nbar.sync 2, 64;\n" + free(512)
    second = "bar.sync 1, 64;\nbar.arrive 2, 64;\n" + alloc(256, 1) + load(1)
    second += "mov.u32 %got, %a;\nst.shared.b32 [%slot+32], 1;\n" + free(256, 1)
    body = only(0, first, "A") + only(1, second, "B")
    assert set(finished(run(body, warps=2, seed=seed)).outputs["got"][32:]) == {0}


@pytest.mark.parametrize("seed", SEEDS)
def test_alloc_that_nobody_makes_room_for_never_returns(seed):
    ran = run(alloc(512) + alloc(32, 1), seed=seed)
    assert ran.result.status == "deadlock"
    assert [w.kind for w in ran.result.waiting] == ["tmem-alloc"]
    assert ran.result.waiting[0].info == 32


def test_columns_of_an_allocation_are_in_a_row():
    # Columns 0..127 and 256..383 are free: 256 altogether, 128 in a row.
    body = "".join(alloc(128, k) for k in range(4)) + free(128, 0) + free(128, 2)
    ran = run(body + alloc(128, 5) + load(5) + "mov.u32 %got, %a;\n" + alloc(128, 6))
    assert ran.result.status == "done"
    assert set(ran.outputs["got"]) == {0}
    assert faults_of(ran) == {("tmem-alloc", LEAKED)}
    ran = run(body + alloc(256, 5))
    assert ran.result.status == "deadlock"
    assert faults_of(ran) == {("tmem-alloc", GROWS)}


@pytest.mark.parametrize("count", [0, 1, 31, 33, 48, 96, 384, 513, 1024, 0x80000000])
def test_only_powers_of_two_from_32_to_512(count):
    body = f"mov.u32 %n, {count};\n" + alloc("%n")
    assert faults_of(run(body)) == {("tmem-alloc", COUNT)}


def test_allocations_may_not_grow():
    body = alloc(64, 0) + alloc(128, 1) + free(64, 0) + free(128, 1)
    assert faults_of(run(body)) == {("tmem-alloc", GROWS)}
    body = alloc(128, 0) + alloc(64, 1) + alloc(64, 2)
    body += free(128, 0) + free(64, 1) + free(64, 2)
    finished(run(body))
    body = alloc(128, 0) + alloc(64, 1) + free(128, 0) + alloc(128, 0)
    body += free(128, 0) + free(64, 1)
    assert faults_of(run(body)) == {("tmem-alloc", GROWS)}


def test_none_after_relinquish_of_any_warp():
    body = alloc(64) + "bar.sync 0;\n"
    two = only(0, alloc(64) + free(64), "A") + "bar.sync 0;\n"
    finished(run(two + only(1, give_up(), "B") + "bar.sync 0;\n", warps=2))
    body = two + only(1, give_up(), "B") + "bar.sync 0;\n" + only(0, alloc(64), "C")
    ran = run(body, warps=2)
    assert ran.result.status == "done"
    assert faults_of(ran) == {("tmem-alloc", RELINQUISHED)}


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_left_at_the_exit_is_a_leak_of_its_alloc(seed):
    ran = run(alloc(128) + alloc(64, 1) + free(128), seed=seed)
    (fault,) = ran.result.faults
    assert (fault.kind, fault.info) == ("tmem-alloc", LEAKED)
    assert (fault.address, fault.size) == (128, 64)
    assert ran.program.instruction(fault.pc).op == "tcgen05.alloc"
    assert "64" in str(ran.program.instruction(fault.pc).args["count"])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (free(32), OTHER_SIZE),
        (free(128), OTHER_SIZE),
        (load() + "add.u32 %a, %a, 32;\n", NO_BASE),
        (load() + "add.u32 %a, %a, 1;\n", NO_BASE),
        (load() + "add.u32 %a, %a, 0x10000;\n", NO_BASE),
        (load() + "add.u32 %a, %a, 512;\n", NO_BASE),
        (load() + "add.u32 %a, %a, 256;\n", NO_BASE),
        (free(64) + load(), NO_BASE),
    ],
)
def test_dealloc_wants_the_exact_allocation(text, code):
    body = alloc(64) + text
    if code == NO_BASE:
        body += "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %a, 64;\n"
    ran = run(body)
    assert ("tmem-alloc", code) in faults_of(ran)
    # Only what was given back is free: anything else is still a leak.
    leaked = ("tmem-alloc", LEAKED) in faults_of(ran)
    assert leaked == (code == NO_BASE and not text.startswith(free(64)))


def test_another_warp_may_deallocate():
    body = only(0, alloc(64), "A") + "bar.sync 0;\n" + only(1, free(64), "B")
    finished(run(body, warps=2))


def test_lanes_may_not_ask_for_different_counts():
    body = """and.b32 %n, %kc_tid, 1;
add.u32 %n, %n, 5;
shl.b32 %n, 1, %n;\n""".replace("shl.b32 %n, 1", "mov.u32 %a, 1;\nshl.b32 %n, %a")
    assert ("tcgen05", NOT_UNIFORM) in faults_of(run(body + alloc("%n")))


@pytest.mark.parametrize("what", [alloc(64), free(64), give_up()])
def test_a_part_of_the_warp_may_not_allocate(what):
    body = "setp.lt.u32 %q, %kc_tid, 7;\n"
    body += re.sub(r"^tcgen05", "@%q tcgen05", what, flags=re.M)
    if "alloc.cta" not in what:
        body = alloc(64) + body
    assert ("tcgen05", DIVERGED) in faults_of(run(body))


def test_a_warp_that_lost_a_lane_may_not_allocate():
    body = "setp.eq.u32 %q, %kc_tid, 3;\n@%q exit;\n" + alloc(64) + free(64)
    assert faults_of(run(body)) == {("tcgen05", DIVERGED)}


# Pairs of CTAs.


def test_one_group_in_a_kernel():
    body = alloc(64, 0, 2) + free(64, 0, 1)
    assert ("tcgen05", TWO_GROUPS) in faults_of(run(body, cluster=2))


@pytest.mark.parametrize("cluster", [1, 3])
def test_a_pair_needs_a_peer(cluster):
    ran = run(alloc(64, 0, 2), cluster=cluster)
    ranks = {f.cta[0] for f in ran.result.faults if f.info == NO_PEER}
    assert ranks <= {0, 2}
    assert ranks


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("cluster", [2, 4])
def test_a_pair_gets_the_same_columns(seed, cluster):
    body = alloc(128, 0, 2) + alloc(64, 1, 2) + load(1) + "mov.u32 %got, %a;\n"
    body += free(128, 0, 2) + free(64, 1, 2) + give_up(2)
    assert set(finished(run(body, cluster=cluster, seed=seed)).outputs["got"]) == {128}


@pytest.mark.parametrize("seed", SEEDS)
def test_alloc_of_a_pair_waits_for_the_peers_warp(seed):
    # CTA 1 asks only after CTA 0 has told it to: CTA 0 tells before it asks itself.
    late = """mapa.shared::cluster.u32 %n, %slot, 1;
setp.ne.u32 %q, %rank, 0;
@%q bra WAIT;
st.shared::cluster.b32 [%n+128], 1;
WAIT:
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
"""
    body = late + alloc(256, 0, 2) + load() + "mov.u32 %got, %a;\n" + free(256, 0, 2)
    finished(run(body, cluster=2, seed=seed))
    stuck = "setp.ne.u32 %q, %rank, 0;\n@%q bra OUT;\n" + alloc(256, 0, 2) + "OUT:\n"
    stuck += "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
    ran = run(stuck, cluster=2, seed=seed)
    assert ran.result.status == "deadlock"
    assert "tmem-alloc" in {w.kind for w in ran.result.waiting}


def test_alloc_of_a_pair_wants_columns_free_in_both():
    # Only warp 1 of each CTA gives back; the second grant needs both halves back.
    first = alloc(512, 0, 2) + "bar.sync 1, 64;\n"
    second = "bar.sync 1, 64;\n" + free(512, 0, 2) + alloc(512, 1, 2) + load(1)
    second += "mov.u32 %got, %a;\n" + free(512, 1, 2)
    body = only(0, first, "A") + only(1, second, "B")
    for seed in SEEDS:
        ran = finished(run(body, warps=2, cluster=2, seed=seed))
        assert set(ran.outputs["got"].reshape(2, 64)[:, 32:].reshape(-1)) == {0}


def test_alloc_of_a_pair_waits_for_the_half_that_comes_back_last():
    # CTA 1 takes its time to give its half back, and notes when it does.
    giver = "setp.eq.u32 %q, %rank, 0;\n@%q bra GIVE;\n" + "nanosleep.u32 20;\n" * 30
    giver += "GIVE:\nst.shared.b32 [%slot+64], 1;\n" + free(512, 0, 2)
    taker = alloc(512, 1, 2) + "ld.shared.b32 %got, [%slot+64];\n" + free(512, 1, 2)
    body = "st.shared.b32 [%slot+64], 0;\nbar.sync 0;\n"
    body += only(0, alloc(512, 0, 2), "A") + "bar.sync 0;\n"
    body += only(0, giver, "B") + only(1, taker, "C")
    for seed in range(12):
        ran = finished(run(body, warps=2, cluster=2, seed=seed))
        assert set(ran.outputs["got"].reshape(2, 64)[:, 32:].reshape(-1)) == {1}


def test_a_pair_that_asks_for_different_sizes():
    body = "setp.eq.u32 %q, %rank, 0;\nselp.u32 %n, 64, 128, %q;\n" + alloc("%n", 0, 2)
    assert ("tmem-alloc", PAIR) in faults_of(run(body, cluster=2))


def test_a_pair_that_gives_back_different_columns():
    body = alloc(64, 0, 2) + alloc(64, 1, 2) + "setp.eq.u32 %q, %rank, 0;\n"
    body += load(0) + "mov.u32 %n, %a;\n" + load(1)
    body += "selp.u32 %n, %n, %a, %q;\n"
    body += "tcgen05.dealloc.cta_group::2.sync.aligned.b32 %n, 64;\n"
    assert ("tmem-alloc", PAIR) in faults_of(run(body, cluster=2))


def test_a_half_stays_until_the_other_is_given_back():
    # Warp 1 of CTA 0 still uses what warp 0 has given back, and then lets CTA 1 give
    # back its half, whose warp 1 does the same for CTA 0.
    use = """mapa.shared::cluster.u32 %n, %slot, %other;
tcgen05.st.sync.aligned.32x32b.x1.b32 [%a], {%got};
tcgen05.wait::st.sync.aligned;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%got}, [%a];
tcgen05.wait::ld.sync.aligned;
st.shared::cluster.b32 [%n+64], 1;
"""
    wait = """AGAIN:
ld.volatile.shared.b32 %n, [%slot+64];
setp.eq.u32 %q, %n, 0;
@%q bra AGAIN;
"""
    body = ".reg .b32 %other;\nxor.b32 %other, %rank, 1;\n"
    body += "st.shared.b32 [%slot+64], 0;\n"
    body += "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
    body += only(0, alloc(64, 0, 2), "A") + "bar.sync 0;\n" + load()
    body += only(1, "nanosleep.u32 20;\n" * 9 + use, "B")
    body += only(0, wait + free(64, 0, 2), "C")
    for seed in range(12):
        finished(run(body, warps=2, cluster=2, seed=seed))


def test_a_pair_gives_back_several_in_turn():
    body = alloc(128, 0, 2) + alloc(64, 1, 2) + free(128, 0, 2) + free(64, 1, 2)
    body += alloc(64, 0, 2) + load() + "mov.u32 %got, %a;\n" + free(64, 0, 2)
    for seed in range(12):
        ran = finished(run(body, cluster=2, seed=seed))
        assert set(ran.outputs["got"]) == {0}


def test_a_pair_gives_back_once():
    body = alloc(64, 0, 2) + free(64, 0, 2)
    body += "tcgen05.dealloc.cta_group::2.sync.aligned.b32 %a, 64;\n"
    for seed in SEEDS:
        faults = faults_of(run(body, cluster=2, seed=seed))
        assert faults == {("tmem-alloc", NO_BASE)}


def test_half_a_pair_that_never_gives_back_leaks():
    body = alloc(64, 0, 2) + "setp.ne.u32 %q, %rank, 0;\n@%q exit;\n" + free(64, 0, 2)
    for seed in SEEDS:
        ran = run(body, cluster=2, seed=seed)
        assert ran.result.status == "done"
        assert {(f.info, f.cta[0]) for f in ran.result.faults} == {(LEAKED, 1)}


def test_relying_on_dealloc_not_to_wait_is_a_deadlock_round_robin():
    # PTX ISA, Issue Granularity, the table of non-deterministic hangs.
    sync = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
    body = alloc(64, 0, 2) + "setp.ne.u32 %q, %rank, 0;\n@%q bra ODD;\n"
    body += (
        sync + free(64, 0, 2) + "bra OUT;\nODD:\n" + free(64, 0, 2) + sync + "OUT:\n"
    )
    assert run(body, cluster=2).result.status == "deadlock"
    statuses = {run(body, cluster=2, seed=s).result.status for s in range(1, 9)}
    assert "done" in statuses


@pytest.mark.parametrize("seed", SEEDS)
def test_warps_may_leave_right_after_dealloc(seed):
    body = alloc(64, 0, 2) + "setp.ne.u32 %q, %rank, 0;\n@%q bra ODD;\n"
    body += free(64, 0, 2) + "exit;\nODD:\n" + "nanosleep.u32 20;\n" * 5
    finished(run(body + free(64, 0, 2), cluster=2, seed=seed))


def test_allocating_with_a_peer_that_has_left():
    body = "setp.ne.u32 %q, %rank, 0;\n@%q exit;\n" + "nanosleep.u32 20;\n" * 40
    ran = run(body + alloc(64, 0, 2), cluster=2)
    assert faults_of(ran) == {("tcgen05", PEER_GONE)}


def test_a_new_cta_starts_with_all_of_it():
    # One multiprocessor: each CTA comes into the slot of the one before.
    body = alloc(512) + load() + "mov.u32 %got, %a;\n" + free(512) + give_up()
    ran = run(body, ctas=5, sms=1)
    assert set(finished(ran).outputs["got"]) == {0}
