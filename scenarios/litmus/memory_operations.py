"""What an instruction is to the memory model: vectors, packed types, swaps, parts."""

from __future__ import annotations

from sidestream.scenarios.litmus.statements import lead, until
from sidestream.scenarios.litmus.twin import Twin, gmem, smem

_MODEL = "Memory Consistency Model"
_VECTOR = f"{_MODEL}: Memory Operations on Vector Data Types"
_PACKED = f"{_MODEL}: Memory Operations on Packed Data Types"
_TYPES = f"{_MODEL}: Operation types"
_STRONG = f"{_MODEL}: Morally strong operations"
_WRITE, _READ = "st.global.b32 [%g], 1;\n", "ld.global.b32 %r2, [%g];\n"
_PAIR = gmem("st.global.b32", "ld.global.b32")
_SEEN = "setp.ne.u32 %p1, %r1, 1;\n@%p1 bra $SEEN;\n"
_SWAP = "atom.relaxed.gpu.global.cas.b32"
_REDUCE = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add"
_LOAD_NC = "Data Movement and Conversion Instructions: ld.global.nc"
_OVER = "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"


def _ctas(name: str, title: str, first: str, second: str, **more) -> Twin:  # type: ignore[no-untyped-def]
    """A thread of each of two CTAs."""
    return Twin(
        name=name,
        rule="race.order",
        title=title,
        warps=(lead(first),),
        peers=(lead(second),),
        ctas=2,
        **more,
    )


def _at_once(name: str, statements: str, op: str, broken: str, **more) -> Twin:  # type: ignore[no-untyped-def]
    """Lanes of one instruction, which nothing orders."""
    return Twin(
        name=name,
        rule="race.order",
        title=f"{_MODEL}: Conflict and Data-races",
        warps=(statements,),
        op=op,
        broken=broken,
        **more,
    )


_ALL_SHARED = smem("st.shared.b32", "st.shared.b32")
_MATRIX = "stmatrix.sync.aligned.m8n8.x4.shared.b16"

TWINS = (
    _at_once(
        "lanes_of_one_store_write_a_word_each",
        "mad.lo.u32 %r5, %lane, <op>, %x;\nst.shared.b32 [%r5], %lane;\n",
        op="4",
        broken="0",
        found=_ALL_SHARED,
    ),
    _at_once(
        "lanes_of_one_store_to_global_memory_write_a_word_each",
        "mul.wide.u32 %rd1, %lane, <op>;\nadd.u64 %rd1, %rd1, %g;\n"
        "st.global.b32 [%rd1], %lane;\n",
        op="4",
        broken="0",
        found=gmem("st.global.b32", "st.global.b32"),
    ),
    _at_once(
        "lanes_of_one_wide_store_write_a_double_word_each",
        "mad.lo.u32 %r5, %lane, <op>, %x;\ncvt.u64.u32 %rd1, %lane;\n"
        "st.shared.b64 [%r5], %rd1;\n",
        op="8",
        broken="0",
        found=smem("st.shared.b64", "st.shared.b64"),
    ),
    _at_once(
        "two_lanes_apart_write_unlike_values",
        "and.b32 %r5, %lane, 15;\nsetp.eq.u32 %p3, %r5, 2;\n"
        "@%p3 st.shared.b32 [<op>], %lane;\n",
        op="%xl",
        broken="%x",
        found=_ALL_SHARED,
    ),
    _at_once(
        "one_lane_of_a_warp_stores",
        "@<op> st.shared.b32 [%x], %lane;\n",
        op="%one",
        broken="!%one",
        found=_ALL_SHARED,
    ),
    _at_once(
        "lanes_of_one_store_write_one_value",
        "mov.u32 %r5, <op>;\nst.shared.b32 [%x], %r5;\n",
        op="7",
        broken="%lane",
        found=_ALL_SHARED,
        clean_in=("practice",),
    ),
    _at_once(
        "lanes_that_know_unlike_things_write_one_value",
        "@!%one bra $O;\nmbarrier.arrive.shared.b64 _, [%bar];\n"
        "$W: mbarrier.try_wait.parity.shared::cta.b64 %p0, [%bar], 0;\n@!%p0 bra $W;\n"
        "$O: mov.u32 %r5, <op>;\nst.shared.b32 [%x], %r5;\n",
        bars=(1,),
        op="7",
        broken="%lane",
        found=_ALL_SHARED,
        clean_in=("practice",),
    ),
    _at_once(
        "lanes_of_one_store_reduce_instead",
        "<op> [%x], %lane;\n",
        op="red.shared.add.u32",
        broken="st.shared.b32",
        found=_ALL_SHARED,
    ),
    _at_once(
        "rows_of_one_matrix_lie_apart",
        "mad.lo.u32 %r5, %lane, <op>, %x;\n"
        f"{_MATRIX} [%r5], {{%lane, %lane, %lane, %lane}};\n",
        op="16",
        broken="0",
        found=smem(_MATRIX, _MATRIX),
    ),
    Twin(
        name="a_load_of_what_the_kernel_wrote_is_coherent",
        rule="race.constant",
        title=_LOAD_NC,
        warps=(
            "@%one " + _WRITE + "bar.sync 1, 64;\n",
            "bar.sync 1, 64;\n@%one ld.global<op>.b32 %r1, [%g];\n",
        ),
        op="",
        broken=".nc",
        found=gmem("st.global.b32", "ld.global.nc.b32", "race.constant"),
    ),
    Twin(
        name="a_thread_loads_what_it_wrote_itself",
        rule="race.constant",
        title=_LOAD_NC,
        warps=("@%one " + _WRITE + "@%one ld.global.nc.b32 %r1, [%g<op>];\n",),
        op="+4",
        broken="",
        found=gmem("st.global.b32", "ld.global.nc.b32", "race.constant"),
    ),
    Twin(
        name="a_load_by_another_cache_of_what_a_copy_stored",
        rule="race.constant",
        title=_LOAD_NC,
        warps=(
            lead(
                "cp.async.bulk.global.shared::cta.bulk_group [%g], [%x], 16;\n"
                + _OVER
                + "ld.global<op>.b32 %r1, [%g];\n"
            ),
        ),
        op="",
        broken=".nc",
        found=gmem(
            "cp.async.bulk.global.shared::cta.bulk_group",
            "ld.global.nc.b32",
            "race.constant",
        ),
    ),
    _ctas(
        "a_vector_is_an_operation_for_each_of_its_words",
        _VECTOR,
        "st.relaxed.gpu.global.<op>;\n",
        "ld.relaxed.gpu.global.b32 %r1, [%g+1028];\n",
        op="v2.b32 [%g+1024], {%r1, %r2}",
        broken="b64 [%g+1024], %rd1",
        found=gmem("st.relaxed.gpu.global.b64", "ld.relaxed.gpu.global.b32"),
    ),
    _ctas(
        "a_packed_type_is_an_operation_for_each_half",
        _PACKED,
        "red.relaxed.gpu.global.add.<op> [%g], %r1;\n",
        "red.relaxed.gpu.global.add.noftz.f16 [%g+2], %h0;\n",
        op="noftz.f16x2",
        broken="u32",
        found=gmem(
            "red.relaxed.gpu.global.add.u32", "red.relaxed.gpu.global.add.noftz.f16"
        ),
    ),
    _ctas(
        "a_vector_acquires_by_each_of_its_words",
        _VECTOR,
        _WRITE + "st.release.gpu.global.b32 [%g+1028], 1;\n",
        "$SEEN: ld.<op>.gpu.global.v2.b32 {%r3, %r1}, [%g+1024];\n" + _SEEN + _READ,
        op="acquire",
        broken="relaxed",
        found=_PAIR,
    ),
    _ctas(
        "a_vector_releases_by_each_of_its_words",
        _VECTOR,
        _WRITE + "mov.u32 %r1, 1;\nst.<op>.gpu.global.v2.b32 [%g+1024], {%r1, %r1};\n",
        until("ld.acquire.gpu.global.b32 %r1, [%g+1028];") + _READ,
        op="release",
        broken="relaxed",
        found=_PAIR,
    ),
    _ctas(
        "a_swap_that_fails_releases_nothing",
        _TYPES,
        _WRITE
        + "atom.release.gpu.global.cas.b32 %r3, [%g+1024], <op>, 1;\n"
        + "st.relaxed.gpu.global.b32 [%g+1028], 1;\n",
        until("ld.relaxed.gpu.global.b32 %r1, [%g+1028];")
        + "ld.acquire.gpu.global.b32 %r1, [%g+1024];\n"
        + _READ,
        op="0",
        broken="5",
        found=_PAIR,
    ),
    _ctas(
        "a_swap_that_fails_is_a_read",
        _TYPES,
        f"{_SWAP} %r1, [%g+1024], <op>, 1;\n",
        "ld.global.b32 %r1, [%g+1024];\n",
        op="5",
        broken="0",
        found=gmem(_SWAP, "ld.global.b32"),
    ),
    _ctas(
        "reductions_of_elements_alike_may_meet",
        _STRONG,
        f"{_REDUCE}.u32 [%g], [%x], 16;\n{_OVER}",
        f"{_REDUCE}.<op> [%g], [%x], 16;\n{_OVER}",
        op="u32",
        broken="u64",
        found=gmem(f"{_REDUCE}.u32", f"{_REDUCE}.u64"),
    ),
    _ctas(
        "atomics_and_reductions_of_copies_are_of_two_proxies",
        _STRONG,
        f"{_REDUCE}.u32 [%g], [%x], 16;\n{_OVER}",
        ".reg .b128 %q;\nmov.b128 %q, {%rd1, %rd1};\n"
        "atom.relaxed.gpu.global.exch.b128 %q, [%g+<op>], %q;\n",
        op="16",
        broken="0",
        found=gmem(f"{_REDUCE}.u32", "atom.relaxed.gpu.global.exch.b128"),
    ),
    _ctas(
        "an_atomic_beside_a_reduction_of_a_copy",
        _STRONG,
        f"{_REDUCE}.u32 [%g], [%x], 16;\n{_OVER}",
        "red.relaxed.gpu.global.add.u32 [%g+<op>], 1;\n",
        op="16",
        broken="0",
        found=gmem(f"{_REDUCE}.u32", "red.relaxed.gpu.global.add.u32"),
    ),
)
