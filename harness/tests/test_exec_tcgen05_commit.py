"""tcgen05.commit, and which tensor core operations may land before which.

Every order that the ISA leaves open must be met under some seed, and none that it
promises may be broken under any.
"""

from dataclasses import replace

import numpy as np
import pytest
from kernel_case import run_kernel
from tcgen05_case import AT, COLUMNS, LANES, SMEM, clean, commit, run
from tcgen05_layout import NONE, Place, raw
from tcgen05_product import A_COLUMN, B_AT, Product

from sidestream.harness.exec.machine import Options

RNG = np.random.default_rng
SEEDS = range(1, 25)
X = Place(start=AT + 32768, mode=NONE, sbo=128, lbo=2048)
Y = Place(start=AT + 40960, mode=NONE, sbo=128, lbo=2048)
"""Two matrices of 128 rows of 32 bytes."""
COPY_X = "tcgen05.cp.cta_group::1.128x256b [%t+256], %x;\n"
COPY_Y = "tcgen05.cp.cta_group::1.128x256b [%t+256], %y;\n"
SHIFT = "tcgen05.shift.cta_group::1.down [%t+256];\n"
BEFORE = "tcgen05.fence::before_thread_sync;\n"
DONE = commit(1)
OTHER = DONE.replace("[%bar]", "[%bar+8]")
"""A commit that nobody waits for, to a barrier of two arrivals."""
INIT_OTHER = "mbarrier.init.shared.b64 [%bar+8], 2;\n"


def tensor(seed):
    return raw(RNG(seed).integers(-3, 4, (128, 16)), "f16")


A, B, LEFT, RIGHT = tensor(1), tensor(2)[:16], tensor(3), tensor(4)


def product(a=A, **how):
    return Product(kind="f16", a=a, b=B, a_cells=True, **how)


def mma(a=A_COLUMN):
    """A multiplication of what lies in tensor memory at column `a`."""
    return f"tcgen05.mma.cta_group::1.kind::f16 [%t], [%t+{a}], %b, %i, 0;\n"


def execute(statements, *, seed, **how):
    """Run statements of the issuing thread, with `LEFT` at %x and `RIGHT` at %y."""
    case = product()
    smem, cells = case.images()
    for where, matrix in ((X, LEFT), (Y, RIGHT)):
        rows = np.ascontiguousarray(matrix).view(np.uint8).reshape(128, 32)
        smem[0][where.addresses(128, 32, 8) - AT] = rows
    declare = (
        ".reg .b64 %x, %y, %b; .reg .b32 %t, %i;\n"
        f"mov.b64 %x, {X.descriptor()};\nmov.b64 %y, {Y.descriptor()};\n"
        f"mov.b64 %b, {case.place(1, B_AT).descriptor()};\n"
        f"mov.b32 %i, {case.descriptor()};\nmov.b32 %t, 0;\n{INIT_OTHER}"
    )
    ran = run(
        declare + statements,
        smem=smem,
        cells=cells,
        options=how.pop("options", Options(seed=seed)),
        **how,
    )
    return clean(ran).cells[0]


def held(cells, column=A_COLUMN):
    """The 128 rows of 16 halves in eight columns."""
    words = np.ascontiguousarray(cells[column : column + 8].T)
    return words.view(np.float16)


def result(cells, column=0):
    return np.ascontiguousarray(cells[column : column + 16].T).view(np.float32)


def times(a):
    return (a.astype(np.float64) @ B.astype(np.float64).T).astype(np.float32)


def shifted(matrix):
    """What a shift makes of the first 32 rows."""
    out = matrix.copy()
    out[:31] = matrix[1:32]
    return out


def outcomes(statements, read, *expected):
    """Which of the expected results the seeds give; nothing else is allowed."""
    seen = set()
    for seed in SEEDS:
        got = read(execute(statements + DONE, seed=seed))
        match = [k for k, e in enumerate(expected) if np.array_equal(got, e)]
        assert len(match) == 1, (seed, match)
        seen.add(match[0])
    return seen


def test_copies_precede_later_products():
    assert outcomes(COPY_X + mma(), result, times(LEFT), times(A)) == {0}


def test_products_do_not_precede_later_copies():
    seen = outcomes(mma() + COPY_X, result, times(A), times(LEFT))
    assert seen == {0, 1}


@pytest.mark.parametrize("between", [OTHER, BEFORE])
def test_a_commit_or_fence_between_orders_what_the_thread_issued(between):
    assert outcomes(mma() + between + COPY_X, result, times(A), times(LEFT)) == {0}
    assert outcomes(COPY_X + between + COPY_Y, held, RIGHT, LEFT) == {0}


def test_copies_do_not_precede_each_other():
    assert outcomes(COPY_X + COPY_Y, held, RIGHT, LEFT) == {0, 1}


def test_shifts_and_products_keep_their_order():
    moved = shifted(A)
    assert outcomes(SHIFT + mma(), result, times(moved), times(A)) == {0}
    assert outcomes(mma() + SHIFT, result, times(A), times(moved)) == {0}


def test_the_small_copy_follows_a_shift_and_others_need_not():
    small = "tcgen05.cp.cta_group::1.4x256b [%t+2031872], %x;\n"  # lane 31
    four = shifted(A)
    four[31::32] = LEFT[:4]
    before = A.copy()
    before[31::32] = LEFT[:4]
    assert outcomes(SHIFT + small, held, four, shifted(before)) == {0}
    seen = outcomes(SHIFT + COPY_X, held, LEFT, shifted(LEFT))
    assert seen == {0, 1}


def test_products_of_one_thread_are_in_order():
    # Both overwrite the same accumulator with different columns of A.
    text = mma() + mma(300)
    assert outcomes(text, result, np.zeros((128, 16), np.float32), times(A)) == {0}


def test_only_equal_shapes_are_in_order_by_the_isa():
    other = mma(300).replace("%i,", "%j,")
    wide = replace(product(), b=np.zeros((32, 16), np.float16)).descriptor()
    text = f".reg .b32 %j;\nmov.b32 %j, {wide};\n" + mma() + other
    zero = np.zeros((128, 16), np.float32)
    seen = set()
    for seed in SEEDS:
        options = Options(seed=seed, isa_order=True)
        got = result(execute(text + DONE, seed=seed, options=options))
        seen.add(bool(np.array_equal(got, zero)))
        same = mma() + mma(300)
        assert not result(execute(same + DONE, seed=seed, options=options)).any()
    assert seen == {True, False}
    assert outcomes(text, result, zero, times(A)) == {0}


# Other threads.


def two_threads(first, second, seed, *, arrivals=1, other=32):
    """Thread 0 executes `first`, thread `other` executes `second` behind a barrier."""
    case = product()
    smem, cells = case.images()
    rows = np.ascontiguousarray(LEFT).view(np.uint8).reshape(128, 32)
    smem[0][X.addresses(128, 32, 8) - AT] = rows
    declare = (
        ".reg .b64 %x, %b; .reg .b32 %t, %i; .reg .pred %two;\n"
        f"mov.b64 %x, {X.descriptor()};\n"
        f"mov.b64 %b, {case.place(1, B_AT).descriptor()};\n"
        f"mov.b32 %i, {case.descriptor()};\nmov.b32 %t, 0;\n"
        f"setp.eq.u32 %two, %kc_tid, {other};\n"
    )
    text = f"@!%one bra TC_FIRST;\n{first}\nTC_FIRST:\nbar.sync 1;\n"
    text += f"@!%two bra TC_SECOND;\n{second}\nTC_SECOND:\n"
    ran = run(
        declare + text,
        smem=smem,
        cells=cells,
        options=Options(seed=seed),
        arrivals=arrivals,
        everyone=True,
    )
    return clean(ran).cells[0]


AFTER = "tcgen05.fence::after_thread_sync;\n"


def test_fences_order_pipelined_operations_of_two_threads():
    for seed in SEEDS:
        cells = two_threads(COPY_X + BEFORE, AFTER + mma() + DONE, seed)
        np.testing.assert_array_equal(result(cells), times(LEFT))


def test_without_the_second_fence_they_are_not_ordered():
    seen = {
        np.array_equal(
            result(two_threads(COPY_X + BEFORE + DONE, mma() + DONE, seed, arrivals=2)),
            times(LEFT),
        )
        for seed in SEEDS
    }
    assert seen == {True, False}


def test_a_commit_tracks_only_what_its_thread_issued():
    # Thread 32 has issued nothing: its arrival does not wait for thread 0's product.
    stale = 0
    for seed in SEEDS:
        cells = two_threads(mma(), DONE, seed)
        stale += not np.array_equal(result(cells), times(A))
        cells = two_threads(mma() + DONE, "", seed)
        np.testing.assert_array_equal(result(cells), times(A))
    assert stale


def test_lanes_of_a_warp_are_threads_of_their_own():
    stale = 0
    for seed in SEEDS:
        cells = two_threads(mma(), DONE, seed, other=1)
        stale += not np.array_equal(result(cells), times(A))
    assert stale


@pytest.mark.parametrize("seed", [0, *range(1, 6)])
def test_a_commit_of_nothing_arrives(seed):
    execute(DONE, seed=seed)


# Where the arrival goes.

CLUSTER = """
.reg .b32 %bar, %rank, %to; .reg .pred %q, %p; .reg .b16 %set; .reg .b64 %wide;
.shared .align 8 .b64 tc_bar[2];
mov.u32 %bar, tc_bar;
mov.u32 %rank, %cluster_ctarank;
mbarrier.init.shared.b64 [%bar], 1;
fence.mbarrier_init.release.cluster;
barrier.cluster.arrive;
barrier.cluster.wait;
setp.ne.u32 %q, %rank, {issuer};
@%q bra TC_OTHER;
{statements}
TC_OTHER:
mov.u32 %d, 0;
TC_AGAIN:
barrier.cluster.arrive;
barrier.cluster.wait;
add.u32 %d, %d, 1;
setp.lt.u32 %q, %d, 64;
@%q bra TC_AGAIN;
mbarrier.test_wait.parity.shared.b64 %p, [%bar], 0;
selp.b32 %d, 1, 0, %p;
"""
START = "tcgen05.commit.cta_group::1.mbarrier::arrive::one"


def signalled(statements, *, size=4, issuer=1, seed=0):
    """Which ranks of a cluster got the arrival."""
    ran = run_kernel(
        CLUSTER.format(statements=statements, issuer=issuer),
        outputs={"d": np.uint32},
        threads=size,
        block=1,
        cluster=(size, 1, 1),
        target="sm_100a",
        options=Options(seed=seed, sms=size),
    )
    assert not ran.program.unsupported
    assert ran.result.status == "done"
    return [k for k in range(size) if ran.outputs["d"][k]], {
        (f.kind, f.info) for f in ran.result.faults
    }


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("mask", [0b0001, 0b0010, 0b1101, 0b1111])
def test_multicast_signals_the_ctas_of_the_mask(mask, seed):
    text = f"mov.b16 %set, {mask};\n{START}.shared::cluster.multicast::cluster.b64 "
    wanted = [k for k in range(4) if mask >> k & 1]
    assert signalled(text + "[%bar], %set;", seed=seed) == (wanted, set())


@pytest.mark.parametrize("seed", [0, 1])
def test_other_addresses(seed):
    remote = "mapa.shared::cluster.u32 %to, %bar, 3;\n"
    text = remote + f"{START}.shared::cluster.b64 [%to];"
    assert signalled(text, seed=seed) == ([3], set())
    generic = f"cvta.shared.u64 %wide, tc_bar;\n{START}.b64 [%wide];"
    assert signalled(generic, seed=seed) == ([1], set())


def test_a_mask_beyond_the_cluster_is_a_fault():
    text = f"mov.b16 %set, 18;\n{START}.shared::cluster.multicast::cluster.b64 "
    assert signalled(text + "[%bar], %set;") == ([1], {("tcgen05", 20)})


def test_a_barrier_must_be_one():
    text = f"{START}.shared::cluster.b64 [%bar+8];"
    assert signalled(text) == ([], {("mbarrier", 1)})
    text = f"{START}.shared::cluster.b64 [%bar+4];"
    assert {k for k, _ in signalled(text)[1]} == {"smem-misaligned"}


# Pairs.

TWO_GROUPS, NO_PEER, PEER_GONE = 1, 2, 3


def faults_of(body, *, cluster, block=32, seed=0):
    ran = run_kernel(
        body,
        threads=block * cluster,
        block=block,
        cluster=(cluster, 1, 1),
        target="sm_100a",
        options=Options(seed=seed),
    )
    assert not ran.program.unsupported
    assert ran.result.status == "done"
    return {(f.kind, f.info) for f in ran.result.faults}


BARRIER = """
.reg .b32 %bar, %t, %i; .reg .b64 %s; .reg .pred %one, %q;
.shared .align 8 .b64 tc_bar;
mov.u32 %bar, tc_bar;
mov.u32 %t, 0;
mov.u64 %s, 0;
mov.u32 %i, 0;
setp.eq.u32 %one, %kc_tid, 0;
@%one mbarrier.init.shared.b64 [%bar], 8;
"""
PAIR = (
    "tcgen05.mma.cta_group::2.kind::f16 [%t], %s, %s, %i, 1;",
    "tcgen05.cp.cta_group::2.128x256b [%t], %s;",
    "tcgen05.shift.cta_group::2.down [%t];",
    "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [%bar];",
)


@pytest.mark.parametrize("statement", PAIR)
def test_a_cta_without_a_peer(statement):
    body = BARRIER + f"@%one {statement}"
    assert ("tcgen05", NO_PEER) in faults_of(body, cluster=1)


@pytest.mark.parametrize("statement", PAIR)
def test_two_groups_in_a_kernel(statement):
    one = PAIR[3].replace("group::2", "group::1")
    body = BARRIER + f"@%one {one}\n@%one {statement}"
    assert ("tcgen05", TWO_GROUPS) in faults_of(body, cluster=2)


@pytest.mark.parametrize("statement", PAIR)
def test_a_peer_that_has_exited(statement):
    wait = """
.reg .b32 %rank, %n; .reg .b64 %out;
mov.u32 %rank, %cluster_ctarank;
setp.eq.u32 %q, %rank, 1;
@%q exit;
mov.u32 %n, 0;
TC_LONG:
add.u32 %n, %n, 1;
setp.lt.u32 %q, %n, 2000;
@%q bra TC_LONG;
"""
    body = BARRIER + wait + f"@%one {statement}"
    assert faults_of(body, cluster=2) == {("tcgen05", PEER_GONE)}


def test_a_peer_that_exits_before_a_product_has_landed():
    body = f"""{BARRIER}
.reg .b32 %rank;
mov.u32 %rank, %cluster_ctarank;
setp.eq.and.u32 %q, %rank, 0, %one;
@%q {PAIR[0]}
barrier.cluster.arrive;
barrier.cluster.wait;
setp.eq.u32 %q, %rank, 1;
@%q exit;
mov.u32 %t, 0;
TC_LONG:
add.u32 %t, %t, 1;
setp.lt.u32 %q, %t, 400;
@%q bra TC_LONG;
"""
    seen = [faults_of(body, cluster=2, seed=seed) for seed in SEEDS]
    gone = {("tcgen05", PEER_GONE)}
    # The descriptors are zeros, which is found out when it lands in time.
    assert gone in seen
    assert any(found != gone for found in seen)


def test_images_fit():
    assert X.addresses(128, 32, 8).max() < Y.start
    assert Y.addresses(128, 32, 8).max() < AT + SMEM
    assert A_COLUMN + 8 <= COLUMNS
    assert LANES == 128
