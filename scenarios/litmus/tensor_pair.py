"""CTA pairs: products, copies and commits of `.cta_group::2`, and their waits."""

from __future__ import annotations

from sidestream.scenarios.litmus.statements import (
    AFTER,
    BEFORE,
    TMEM_LOAD,
    TMEM_STORE,
    WAIT_LOAD,
    WAIT_STORE,
    expect,
    lead,
    wait,
)
from sidestream.scenarios.litmus.twin import Found, Twin, dsmem, fault, race, tmem

_MODEL = "Memory Consistency Model for 5th generation of TensorCore operations"
_OTHERS = f"{_MODEL}: Non-pipelined instructions, different thread"
_PIPED = f"{_MODEL}: Pipelined instructions, different thread"
_SHARED = f"{_MODEL}: Shared Memory Accesses"
_COMMIT = "TensorCore 5th Generation Instructions: tcgen05.commit"
_ALLOC = (
    "TensorCore 5th Generation Instructions: "
    "tcgen05.alloc, tcgen05.dealloc, tcgen05.relinquish_alloc_permit"
)
_TENSOR = "Data Movement and Conversion Instructions: cp.async.bulk.tensor"
_GRANULARITY = "Issue Granularity"
_MMA, _CP = (
    "tcgen05.mma.cta_group::2.kind::f16",
    "tcgen05.cp.cta_group::2.128x256b",
)
_TAKE, _GIVE = (
    "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32",
    "tcgen05.dealloc.cta_group::2.sync.aligned.b32",
)
_CAST = (
    "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    ".multicast::cluster.cta_group::2"
)
_LD, _ST = (
    "tcgen05.ld.sync.aligned.32x32b.x1.b32",
    "tcgen05.st.sync.aligned.32x32b.x1.b32",
)
_TELL_BOTH = (
    "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster"
    ".multicast::cluster.b64"
)
_TRY = "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64"
_WHOLE = "mov.b32 %idesc, 0x10040010;\n"
"""256 x 16: 128 rows and half of the columns of B from either CTA."""
_PRODUCT = (
    "setp.ne.u32 %p2, %lane, %lane;\n"
    f"{_MMA} [%tm], %ad, %bd, %idesc, %p2;\n"
)  # fmt: skip
_COPY = f"{_CP} [%tm], %ad;\n"


def _commit(bar: str = "%bar", ctas: int = 3) -> str:
    """Tell both CTAs, or those of a mask, at the same offset."""
    return f"mov.b16 %h1, {ctas};\n{_TELL_BOTH} [{bar}], %h1;\n"


def _tell(bar: int = 0, sem: str = "release") -> str:
    """Each lane arrives at the peer's barrier."""
    return (
        f"mbarrier.arrive.{sem}.cluster.shared::cluster.b64 _, [%pbar+{bar}];\n"
    )  # fmt: skip


def _told(bar: int = 0, sem: str = "acquire") -> str:
    return wait(0, f"%bar+{bar}", f".{sem}.cluster")


_OVER = wait(0, "%bar+8", ".acquire.cluster")
_END = _commit("%bar+8") + _OVER
_READ = AFTER + TMEM_LOAD + WAIT_LOAD
_READ_BOX = "ld.shared.b32 %r1, [%xl];\n"
_WRITE_A = "st.shared.b32 [%xl], 1;\n"
_PROXY = "fence.proxy.async.shared::cta;\n"
_USE = "add.u32 %r3, %r2, 1;\n"
_JOIN = "barrier.cluster.arrive;\nbarrier.cluster.wait;\n"
_KNOW = "bar.warp.sync -1;\nld.shared.b32 %tm, [%slot];\n"


def _pair(
    name: str,
    rule: str,
    title: str,
    first: str,
    second: str,
    op: str,
    broken: str,
    found: tuple[Found, ...],
    *,
    broken_in: tuple[str, ...] = ("practice", "isa"),
    finishes: bool = True,
) -> Twin:
    """A warp of either CTA; barriers 0 for 32 lanes of the peer, 1 for a commit."""
    return Twin(
        name=name,
        rule=rule,
        title=title,
        setup=_WHOLE,
        warps=(first,),
        peers=(second,),
        op=op,
        broken=broken,
        found=found,
        broken_in=broken_in,
        bars=(32, 1, 1),
        ctas=2,
        cluster=2,
        tensor=32,
        pair=True,
        finishes=finishes,
    )


TWINS = (
    _pair(
        "product_of_both_is_awaited_by_the_peer",
        "T12",
        _GRANULARITY,
        lead(_PRODUCT + _commit("%bar+8")) + _OVER,
        "<op>",
        _OVER + _READ,
        _READ + _OVER,
        tmem(_MMA, _LD),
    ),
    _pair(
        "commit_tells_both",
        "T4",
        _COMMIT,
        lead(_PRODUCT + "<op>") + _OVER,
        _OVER + _READ,
        _commit("%bar+8"),
        _commit("%bar+8", 1),
        fault("deadlock", "progress", _TRY, "barrier.cluster.wait"),
        finishes=False,
    ),
    _pair(
        "commit_of_the_peer_tracks_nothing_of_mine",
        "T4",
        _COMMIT,
        lead(_PRODUCT + _commit("%bar+8")) + BEFORE + _tell() + _OVER,
        _told() + AFTER + lead(_commit("%bar+16", 2)) + wait(0, "%bar+16") + "<op>",
        _OVER + _WRITE_A,
        _WRITE_A + _OVER,
        dsmem(_MMA, "st.shared.b32", "T4"),
    ),
    _pair(
        "copy_into_both_is_awaited_by_the_peer",
        "T12",
        _GRANULARITY,
        lead(_COPY + _commit("%bar+8")) + _OVER,
        "<op>",
        _OVER + _READ,
        _READ + _OVER,
        tmem(_CP, _LD),
    ),
    _pair(
        "copy_then_product_of_both",
        "T2",
        f"{_MODEL}: Pipelined tcgen05 Instructions",
        lead("<op>" + _END),
        _OVER,
        _COPY + _PRODUCT,
        _PRODUCT + _COPY,
        tmem(_MMA, _CP, "T4"),
    ),
    _pair(
        "source_of_the_peer_crosses_the_proxy",
        "T9",
        _SHARED,
        _told() + lead(_PRODUCT + _END),
        _WRITE_A + "<op>" + _tell() + _OVER,
        _PROXY,
        "",
        (race("proxy", "st.shared.b32", _MMA, "P2"),),
    ),
    _pair(
        "source_of_the_peer_is_there",
        "T9",
        _SHARED,
        "<op>" + lead(_PRODUCT + _END),
        _WRITE_A + _PROXY + _tell() + _OVER,
        _told(),
        "",
        dsmem("st.shared.b32", _MMA),
    ),
    _pair(
        "source_of_the_peer_is_kept",
        "T9",
        _SHARED,
        lead(_PRODUCT + _END),
        "<op>",
        _OVER + _WRITE_A,
        _WRITE_A + _OVER,
        dsmem(_MMA, "st.shared.b32"),
    ),
    _pair(
        "columns_stored_by_the_peer_are_complete",
        "T7",
        _OTHERS,
        _told() + AFTER + lead(_PRODUCT + _END),
        TMEM_STORE + "<op>" + BEFORE + _tell() + _OVER + WAIT_STORE,
        WAIT_STORE,
        "",
        tmem(_ST, _MMA, "T5"),
    ),
    _pair(
        "columns_stored_by_the_peer_are_fenced",
        "T7",
        _OTHERS,
        _told(sem="relaxed") + AFTER + lead(_PRODUCT + _END),
        TMEM_STORE + WAIT_STORE + "<op>" + _tell(sem="relaxed") + _OVER,
        BEFORE,
        "",
        tmem(_ST, _MMA, "T6"),
        broken_in=("isa",),
    ),
    _pair(
        "columns_loaded_by_the_peer_are_free",
        "T7",
        _OTHERS,
        _told() + AFTER + lead(_PRODUCT + _END),
        TMEM_LOAD + "<op>" + BEFORE + _tell() + _OVER + WAIT_LOAD,
        WAIT_LOAD,
        "",
        tmem(_LD, _MMA, "T5"),
    ),
    _pair(
        "products_issued_by_either_cta",
        "T3",
        _PIPED,
        lead(_PRODUCT)
        + BEFORE
        + _tell(sem="relaxed")
        + wait(0, "%bar+16")
        + lead(_commit("%bar+8", 1))
        + _OVER,
        "<op>" + AFTER + lead(_PRODUCT + _commit("%bar+16")) + wait(0, "%bar+16"),
        _told(sem="relaxed"),
        "",
        tmem(_MMA, _MMA),
    ),
    _pair(
        "products_issued_by_either_cta_behind_fences",
        "T3",
        _PIPED,
        lead(_PRODUCT)
        + "<op>"
        + _tell(sem="relaxed")
        + wait(0, "%bar+16")
        + lead(_commit("%bar+8", 1))
        + _OVER,
        _told(sem="relaxed")
        + AFTER
        + lead(_PRODUCT + _commit("%bar+16"))
        + wait(0, "%bar+16"),
        BEFORE,
        "",
        tmem(_MMA, _MMA, "T6"),
        broken_in=("isa",),
    ),
    _pair(
        "one_group_in_a_kernel",
        "T11",
        _ALLOC,
        lead(
            "mov.b32 %idesc, 0x08040010;\nsetp.ne.u32 %p2, %lane, %lane;\n"
            + "tcgen05.mma.cta_group::<op>.kind::f16 [%tm], %ad, %bd, %idesc, %p2;\n"
            + _END
        ),
        _OVER,
        "2",
        "1",
        fault("contract", "tcgen05.operand", "tcgen05.mma.cta_group::1.kind::f16"),
    ),
    Twin(
        name="both_take_part_in_an_allocation",
        rule="T11",
        title=_ALLOC,
        warps=(f"{_TAKE} [%slot], 32;\n{_KNOW}{_GIVE} %tm, 32;\n",),
        peers=("<op>",),
        op=f"{_TAKE} [%slot], 32;\n{_KNOW}{_GIVE} %tm, 32;\n",
        found=fault("deadlock", "progress", _TAKE, "barrier.cluster.wait"),
        ctas=2,
        cluster=2,
        finishes=False,
    ),
    Twin(
        name="peer_is_there_until_the_product_is_over",
        rule="T12",
        title=_GRANULARITY,
        setup=_WHOLE,
        warps=(_told() + lead(_PRODUCT + _END),),
        peers=(_tell() + "<op>",),
        op="",
        broken="exit;\n",
        found=(
            *fault("contract", "tcgen05.operand", _MMA),
            *fault("contract", "tcgen05.operand", _TELL_BOTH),
            *fault("deadlock", "progress", _TRY, "bar.warp.sync"),
            *fault("tmem-alloc", "tmem.alloc", _TAKE),
        ),
        bars=(32, 1),
        ctas=2,
        cluster=2,
        tensor=32,
        pair=True,
        finishes=False,
    ),
    Twin(
        name="box_for_both_signals_the_leader",
        rule="P5",
        title=_TENSOR,
        warps=("@%one " + expect(512) + "<op>",),
        peers=(
            "mov.b16 %h0, 3;\nmapa.shared::cluster.u32 %r4, %bar, 0;\n"
            f"@%one {_CAST} [%x], [%map, {{0}}], [%r4], %h0;\n",
        ),
        op=wait() + _READ_BOX,
        broken=_READ_BOX + wait(),
        found=dsmem(_CAST, "ld.shared.b32"),
        bars=(1,),
        ctas=2,
        cluster=2,
    ),
    _pair(
        "relaxed_barrier_of_the_cluster",
        "T3",
        _PIPED,
        "<op>" + AFTER + lead(_PRODUCT + _END),
        TMEM_STORE + WAIT_STORE + BEFORE + "<op>" + _OVER,
        "barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;\n",
        "",
        tmem(_ST, _MMA),
    ),
    _pair(
        "commit_for_the_peer_alone",
        "T4",
        _COMMIT,
        lead(_PRODUCT + _commit("%bar+8", 2)),
        "<op>",
        _OVER + _READ,
        _READ + _OVER,
        tmem(_MMA, _LD),
    ),
)
