"""What an instruction is to the memory model: vectors, packed types, swaps, parts."""

from __future__ import annotations

from sidestream.scenarios.litmus.statements import lead, until
from sidestream.scenarios.litmus.twin import Twin, gmem

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


TWINS = (
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
