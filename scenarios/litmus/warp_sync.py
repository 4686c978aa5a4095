"""Lanes of one warp: bar.warp.sync orders memory; votes, shuffles and elect do not."""

from __future__ import annotations

from sidestream.scenarios.litmus.twin import PROFILES, Found, Twin, gmem, smem

_SYNC = "Parallel Synchronization and Communication Instructions: bar.warp.sync"
_ELECT = "Parallel Synchronization and Communication Instructions: elect.sync"
_VOTE = "Parallel Synchronization and Communication Instructions: vote.sync"
_MATCH = "Parallel Synchronization and Communication Instructions: match.sync"
_REDUX = "Parallel Synchronization and Communication Instructions: redux.sync"
_SHUFFLE = "Data Movement and Conversion Instructions: shfl.sync"
_OP = "bar.warp.sync 0xffffffff;\n"
_STORE = "st.shared.b32 [%xl], %lane;\n"
_NEIGHBOUR = "xor.b32 %r3, %lane, 1;\nmad.lo.u32 %r3, %r3, 4, %x;\n"
_LOAD = "ld.shared.b32 %r1, [%r3];\n"
_PAIR = smem("st.shared.b32", "ld.shared.b32", "B3")


def _instead(name: str, title: str, broken: str, rule: str = "B3") -> Twin:
    """A collective operation that makes lanes meet and orders no memory."""
    return Twin(
        name=name,
        rule=rule,
        also=() if rule == "B3" else ("B3",),
        title=title,
        warps=(_NEIGHBOUR + _STORE + "<op>" + _LOAD,),
        op=_OP,
        broken=broken,
        found=_PAIR,
    )


_MEET = "elect.sync %r4|%p1, 0xffffffff;\n"
_WAIT = "$W: mbarrier.try_wait.parity.shared::cta.b64 %p0, [%bar], 0;\n@!%p0 bra $W;\n"
_TELL = "@%one mbarrier.arrive.shared.b64 _, [%bar];\n"
_READ = "ld.shared.b32 %r1, [%xl];\n"


def _told(
    name: str,
    before: str,
    after: str,
    found: tuple[Found, ...],
    *,
    broken: str = _MEET,
    broken_in: tuple[str, ...] = PROFILES,
) -> Twin:
    """Lanes of one warp access memory, lane 0 tells another warp, which follows."""
    return Twin(
        name=name,
        rule="B3",
        also=("B4",) if broken == _MEET else (),
        title=_SYNC,
        warps=(before + "<op>" + _TELL, _WAIT + after),
        bars=(1,),
        op=_OP,
        broken=broken,
        found=found,
        broken_in=broken_in,
    )


_READ_FIRST = smem("ld.shared.b32", "st.shared.b32")
_FIRST = "ld.shared.b32 %r1, [%x];\n"
_HALVES = (
    "setp.lt.u32 %p3, %lane, 16;\nsetp.eq.u32 %p4, %lane, 3;\n"
    "@%p4 st.shared.b32 [%x], 1;\n@%p3 bra $LOW;\nbar.warp.sync 0xffff0000;\n"
    "bra $BOTH;\n$LOW: bar.warp.sync 0x0000ffff;\n$BOTH:\n"
)
"""Lane 3 stores, and each half of the warp synchronises by itself."""

TWINS = (
    _told(
        "readers_meet_before_one_tells", _READ, _STORE, _READ_FIRST, broken_in=("isa",)
    ),
    _told(
        "one_tells_for_readers_that_did_not_meet", _READ, _STORE, _READ_FIRST, broken=""
    ),
    _told("readers_meet_too_early", _MEET + _READ, _STORE, _READ_FIRST, broken=""),
    _told(
        "writers_meet_before_one_tells",
        _STORE,
        _READ,
        smem("st.shared.b32", "ld.shared.b32"),
    ),
    _told(
        "readers_of_global_memory_meet_before_one_tells",
        "ld.global.b32 %r1, [%gl];\n",
        "st.global.b32 [%gl], %lane;\n",
        gmem("ld.global.b32", "st.global.b32"),
    ),
    _instead("neighbours_meet", _SYNC, ""),
    _instead(
        "shuffle_is_no_barrier",
        _SHUFFLE,
        "shfl.sync.bfly.b32 %r4, %lane, 1, 31, 0xffffffff;\n",
    ),
    _instead(
        "vote_is_no_barrier", _VOTE, "vote.sync.any.pred %p1, %one, 0xffffffff;\n"
    ),
    _instead(
        "match_is_no_barrier", _MATCH, "match.any.sync.b32 %r4, %lane, 0xffffffff;\n"
    ),
    _instead(
        "redux_is_no_barrier", _REDUX, "redux.sync.add.u32 %r4, %lane, 0xffffffff;\n"
    ),
    _instead("elect_is_no_barrier", _ELECT, _MEET, "B4"),
    _instead("fence_is_no_barrier", _SYNC, "fence.acq_rel.cta;\n"),
    Twin(
        name="load_then_store",
        rule="B3",
        title=_SYNC,
        warps=(_NEIGHBOUR + _LOAD + "<op>" + _STORE,),
        op=_OP,
        found=_PAIR,
    ),
    Twin(
        name="global_memory_too",
        rule="B3",
        title=_SYNC,
        warps=("st.global.b32 [%gl], %lane;\n<op>@%one ld.global.b32 %r1, [%g+8];\n",),
        op=_OP,
        found=gmem("st.global.b32", "ld.global.b32", "B3"),
    ),
    Twin(
        name="leader_hands_over_for_its_warp",
        rule="B3",
        title=_SYNC,
        warps=(
            _STORE + "<op>@%one mbarrier.arrive.shared.b64 _, [%bar];\n",
            "$W: mbarrier.try_wait.parity.shared::cta.b64 %p0, [%bar], 0;\n"
            "@!%p0 bra $W;\nld.shared.b32 %r1, [%xl];\n",
        ),
        bars=(1,),
        op=_OP,
        found=smem("st.shared.b32", "ld.shared.b32"),
    ),
    Twin(
        name="leader_learns_for_its_warp",
        rule="B3",
        title=_SYNC,
        warps=(
            _STORE + "mbarrier.arrive.shared.b64 _, [%bar];\n",
            "@!%one bra $OVER;\n"
            "$W: mbarrier.try_wait.parity.shared::cta.b64 %p0, [%bar], 0;\n"
            "@!%p0 bra $W;\n$OVER: <op>ld.shared.b32 %r1, [%xl];\n",
        ),
        bars=(32,),
        op=_OP,
        found=smem("st.shared.b32", "ld.shared.b32"),
    ),
    Twin(
        name="a_half_of_a_warp_synchronises_for_itself",
        rule="B3",
        title=_SYNC,
        warps=(_HALVES + "setp.eq.u32 %p4, %lane, <op>;\n@%p4 " + _FIRST,),
        op="7",
        broken="20",
        found=smem("st.shared.b32", "ld.shared.b32", "B3"),
    ),
    Twin(
        name="halves_of_a_warp_meet_through_a_lane_of_both",
        rule="B3",
        title=_SYNC,
        warps=(
            _HALVES
            + "setp.eq.u32 %p4, %lane, 7;\nsetp.eq.or.u32 %p4, %lane, 20, %p4;\n"
            + "@!%p4 bra $OUT;\n<op>"
            + "setp.eq.u32 %p4, %lane, 20;\n@%p4 "
            + _FIRST
            + "$OUT: bar.warp.sync 0xffffffff;\n",
        ),
        op="bar.warp.sync 0x00100080;\n",
        found=smem("st.shared.b32", "ld.shared.b32", "B3"),
    ),
    Twin(
        name="halves_of_a_warp_meet_at_a_barrier",
        rule="B3",
        title=_SYNC,
        warps=(_HALVES + "<op>setp.eq.u32 %p4, %lane, 20;\n@%p4 " + _FIRST,),
        op="bar.sync 1, 32;\n",
        found=smem("st.shared.b32", "ld.shared.b32", "B3"),
    ),
)
