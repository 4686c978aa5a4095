"""Global memory: release and acquire patterns, scopes, read-modify-writes."""

from __future__ import annotations

from sidestream.scenarios.litmus.statements import lead, until
from sidestream.scenarios.litmus.twin import Twin, gmem, race

_PATTERN = "Memory Consistency Model: Release and Acquire Patterns"
_SCOPE = "Memory Consistency Model: Scope"
_STRONG = "Memory Consistency Model: Morally strong operations"
_SYNC = "Memory Consistency Model: Causality Order"
_FLAG = "[%g+1024]"
_WRITE, _READ = "st.global.b32 [%g], 1;\n", "ld.global.b32 %r2, [%g];\n"
_PAIR = gmem("st.global.b32", "ld.global.b32")
_ACQUIRE = until(f"ld.acquire.gpu.global.b32 %r1, {_FLAG};")
_RELEASE = f"st.release.gpu.global.b32 {_FLAG}, 1;\n"
_RELAXED = f"st.relaxed.gpu.global.b32 {_FLAG}, 1;\n"
_SEE = until(f"ld.relaxed.gpu.global.b32 %r1, {_FLAG};")
_FENCE = "fence.acq_rel.gpu;\n"


def _handoff(
    name: str, title: str, first: str, second: str, op: str, broken: str
) -> Twin:
    """CTA 0 writes and raises a flag, CTA 1 sees the flag and reads."""
    return Twin(
        name=name,
        rule="race.order",
        title=title,
        warps=(lead(first),),
        peers=(lead(second),),
        ctas=2,
        op=op,
        broken=broken,
        found=_PAIR,
    )


TWINS = (
    _handoff(
        "release_store",
        _PATTERN,
        _WRITE + f"st.<op>.gpu.global.b32 {_FLAG}, 1;\n",
        _ACQUIRE + _READ,
        "release",
        "relaxed",
    ),
    _handoff(
        "acquire_load",
        _PATTERN,
        _WRITE + _RELEASE,
        until(f"ld.<op>.gpu.global.b32 %r1, {_FLAG};") + _READ,
        "acquire",
        "relaxed",
    ),
    _handoff(
        "fence_then_relaxed_store",
        _PATTERN,
        _WRITE + "<op>" + _RELAXED,
        _ACQUIRE + _READ,
        _FENCE,
        "",
    ),
    _handoff(
        "fence_before_the_write_releases_nothing_of_it",
        _PATTERN,
        "<op>" + _RELAXED,
        _ACQUIRE + _READ,
        _WRITE + _FENCE,
        _FENCE + _WRITE,
    ),
    _handoff(
        "relaxed_load_then_fence",
        _PATTERN,
        _WRITE + _RELEASE,
        _SEE + "<op>" + _READ,
        _FENCE,
        "",
    ),
    _handoff(
        "fence_before_the_flag_is_seen",
        _PATTERN,
        _WRITE + _RELEASE,
        "<op>" + _READ,
        _SEE + _FENCE,
        _FENCE + _SEE,
    ),
    _handoff(
        "fence_that_only_acquires_releases_nothing",
        _PATTERN,
        _WRITE + "fence.<op>.gpu;\n" + _RELAXED,
        _ACQUIRE + _READ,
        "release",
        "acquire",
    ),
    _handoff(
        "fence_that_only_releases_acquires_nothing",
        _PATTERN,
        _WRITE + _RELEASE,
        _SEE + "fence.<op>.gpu;\n" + _READ,
        "acquire",
        "release",
    ),
    _handoff(
        "membar",
        _PATTERN,
        _WRITE + "<op>" + _RELAXED,
        _ACQUIRE + _READ,
        "membar.gl;\n",
        "",
    ),
    _handoff(
        "sequentially_consistent_fence",
        _PATTERN,
        _WRITE + "<op>" + _RELAXED,
        _ACQUIRE + _READ,
        "fence.sc.gpu;\n",
        "",
    ),
    _handoff(
        "releasing_atomic",
        _PATTERN,
        _WRITE + f"atom.<op>.gpu.global.add.u32 %r3, {_FLAG}, 1;\n",
        _ACQUIRE + _READ,
        "release",
        "relaxed",
    ),
    _handoff(
        "reduction_without_a_qualifier_is_relaxed",
        _PATTERN,
        _WRITE + f"red<op>.gpu.global.add.u32 {_FLAG}, 1;\n",
        _ACQUIRE + _READ,
        ".release",
        "",
    ),
    _handoff(
        "acquiring_exchange",
        _PATTERN,
        _WRITE + _RELEASE,
        until(f"atom.<op>.gpu.global.cas.b32 %r1, {_FLAG}, 7, 8;") + _READ,
        "acquire",
        "relaxed",
    ),
    _handoff(
        "volatile_is_relaxed",
        _PATTERN,
        _WRITE + "<op>" + f"st.volatile.global.b32 {_FLAG}, 1;\n",
        until(f"ld.volatile.global.b32 %r1, {_FLAG};") + "fence.acq_rel.gpu;\n" + _READ,
        _FENCE,
        "",
    ),
    _handoff(
        "another_flag",
        _SYNC,
        _WRITE
        + "st.release.gpu.global.b32 [%g+<op>], 1;\nst.relaxed.gpu.global.b32 "
        + "[%g+1028], 1;\n",
        until("ld.acquire.gpu.global.b32 %r1, [%g+1028];") + _READ,
        "1028",
        "1032",
    ),
    Twin(
        name="scope_of_a_release",
        rule="race.scope",
        title=_SCOPE,
        warps=(lead(_WRITE + f"st.release.<op>.global.b32 {_FLAG}, 1;\n"),),
        peers=(lead(_ACQUIRE + _READ),),
        ctas=2,
        op="gpu",
        broken="cta",
        found=(
            race(
                "gmem-race",
                "st.release.cta.global.b32",
                "ld.acquire.gpu.global.b32",
                "race.scope",
            ),
            *_PAIR,
        ),
    ),
    Twin(
        name="scope_of_an_acquire",
        rule="race.scope",
        title=_SCOPE,
        warps=(lead(_WRITE + _RELEASE),),
        peers=(lead(until(f"ld.acquire.<op>.global.b32 %r1, {_FLAG};") + _READ),),
        ctas=2,
        op="sys",
        broken="cta",
        found=(
            race(
                "gmem-race",
                "st.release.gpu.global.b32",
                "ld.acquire.cta.global.b32",
                "race.scope",
            ),
            *_PAIR,
        ),
    ),
    Twin(
        name="scope_of_a_fence",
        rule="race.scope",
        title=_SCOPE,
        warps=(lead(_WRITE + "fence.acq_rel.<op>;\n" + _RELAXED),),
        peers=(lead(_ACQUIRE + _READ),),
        ctas=2,
        op="gpu",
        broken="cta",
        found=_PAIR,
    ),
    Twin(
        name="cta_scope_within_a_cta",
        rule="race.scope",
        title=_SCOPE,
        warps=(
            lead(_WRITE + f"st.<op>.cta.global.b32 {_FLAG}, 1;\n"),
            lead(until(f"ld.acquire.cta.global.b32 %r1, {_FLAG};") + _READ),
        ),
        op="release",
        broken="relaxed",
        found=_PAIR,
    ),
    Twin(
        name="counters_of_a_cta",
        rule="race.scope",
        title=_STRONG,
        warps=(lead(f"red.<op>.global.add.u32 {_FLAG}, 1;\n"),),
        ctas=2,
        op="gpu",
        broken="cta",
        found=gmem("red.cta.global.add.u32", "red.cta.global.add.u32", "race.scope"),
    ),
    Twin(
        name="weak_flag",
        rule="race.order",
        title=_STRONG,
        warps=(lead(f"st<op>.global.b32 {_FLAG}, 1;\n"),),
        peers=(lead(f"ld.relaxed.gpu.global.b32 %r1, {_FLAG};\n"),),
        ctas=2,
        op=".relaxed.gpu",
        broken="",
        found=gmem("st.global.b32", "ld.relaxed.gpu.global.b32"),
    ),
    Twin(
        name="weak_add_beside_an_atomic",
        rule="race.order",
        title=_STRONG,
        warps=(lead(f"atom.relaxed.gpu.global.add.u32 %r1, {_FLAG}, 1;\n"),),
        peers=(lead(f"<op> {_FLAG}, 1;\n"),),
        ctas=2,
        op="red.relaxed.gpu.global.add.u32",
        broken="st.global.b32",
        found=gmem("atom.relaxed.gpu.global.add.u32", "st.global.b32"),
    ),
    Twin(
        name="half_of_a_strong_word",
        rule="race.order",
        title=_STRONG,
        warps=(lead("st.relaxed.gpu.global.b32 [%g], 1;\n"),),
        peers=(lead("st.relaxed.gpu.global.<op> [%g], 1;\n"),),
        ctas=2,
        op="b32",
        broken="b64",
        found=gmem("st.relaxed.gpu.global.b32", "st.relaxed.gpu.global.b64"),
    ),
    Twin(
        name="last_cta_adds_up",
        rule="race.order",
        title=_SYNC,
        warps=(
            lead(
                "mad.wide.u32 %rd1, %rank, 4, %g;\nst.global.b32 [%rd1], 1;\n"
                f"atom.<op>.gpu.global.add.u32 %r1, {_FLAG}, 1;\n"
                "setp.ne.u32 %p1, %r1, 2;\n@%p1 bra $END;\n"
                "ld.global.b32 %r2, [%g];\nld.global.b32 %r3, [%g+4];\n$END:\n"
            ),
        ),
        ctas=3,
        op="acq_rel",
        broken="relaxed",
        found=_PAIR,
    ),
    Twin(
        name="barrier_of_the_cta_orders_no_other_cta",
        rule="B1",
        title="Parallel Synchronization and Communication Instructions: bar, barrier",
        warps=(
            "mad.wide.u32 %rd1, %rank, <op>, %g;\n"
            "@%one st.global.b32 [%rd1], 1;\nbar.sync 0;\n",
        ),
        ctas=2,
        op="4",
        broken="0",
        found=gmem("st.global.b32", "st.global.b32"),
    ),
    Twin(
        name="discarded_line",
        rule="race.order",
        title="Data Movement and Conversion Instructions: discard",
        warps=("@%one discard.global.L2 [%g], 128;\n<op>", "<op>" + lead(_READ)),
        op="bar.sync 1, 64;\n",
        found=gmem("discard.global.L2", "ld.global.b32"),
    ),
    Twin(
        name="order_goes_through_a_second_flag",
        rule="race.order",
        title=_PATTERN,
        warps=(
            lead("st.global.b32 [%g], 1;\nred.release.gpu.global.add.u32 [%g+64], 1;"),
            lead(
                until("ld.<op>.gpu.global.b32 %r1, [%g+64];")
                + "st.release.gpu.global.b32 [%g+128], 1;"
            ),
            lead(
                until("ld.acquire.gpu.global.b32 %r1, [%g+128];")
                + "ld.global.b32 %r1, [%g];"
            ),
        ),
        op="acquire",
        broken="relaxed",
        found=gmem("st.global.b32", "ld.global.b32"),
    ),
)
