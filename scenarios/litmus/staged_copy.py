"""A box is loaded, every word raised by one, and stored: three defects, one at a time.

`compute-sanitizer --tool racecheck` (CUDA 13.0, H200) reports no hazard in any of them.
Results were wrong in 50 of 50 runs there without the first two, in none without the
third.
"""

from __future__ import annotations

from sidestream.scenarios.litmus.statements import expect, lead, wait
from sidestream.scenarios.litmus.twin import Found, Twin, proxy, smem

_IN = "cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes"
_OUT = "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group"
_MBAR = "Data Movement and Conversion Instructions: Mbarrier-based mechanism"
_NAMED = "Parallel Synchronization and Communication Instructions: bar, barrier"
_PROXY = "Memory Consistency Model: Proxies"
_WORD = "mad.lo.u32 %r4, %tid, 4, %x;\n"
_RAISE = (
    "ld.shared.b32 %r1, [%r4];\nadd.u32 %r1, %r1, 1;\nst.shared.b32 [%r4+4096], %r1;\n"
)
_FENCE, _BAR = "fence.proxy.async.shared::cta;\n", "bar.sync 1, 64;\n"


def _staged(
    name: str,
    rule: str,
    title: str,
    found: tuple[Found, ...],
    *,
    awaited: str = wait(),
    fence: str = _FENCE,
    barrier: str = _BAR,
) -> Twin:
    """Two warps with 32 words each, of which the first awaits the box, or does not."""
    own = _RAISE + fence + barrier
    return Twin(
        name=name,
        rule=rule,
        title=title,
        warps=(
            lead(expect(256) + f"{_IN} [%x], [%map, {{0}}], [%bar];\n")
            + _WORD
            + awaited
            + own
            + lead(
                f"{_OUT} [%map, {{64}}], [%y];\ncp.async.bulk.commit_group;\n"
                "cp.async.bulk.wait_group 0;\n"
            ),
            _WORD + wait() + own,
        ),
        bars=(1,),
        op={"M9": wait(), "P2": _FENCE, "B1": _BAR}[rule],
        found=found,
    )


TWINS = (
    _staged(
        "wait_after_the_load",
        "M9",
        _MBAR,
        smem(_IN, "ld.shared.b32", "P3"),
        awaited="<op>",
    ),
    _staged(
        "barrier_before_the_store",
        "B1",
        _NAMED,
        smem("st.shared.b32", _OUT),
        barrier="<op>",
    ),
    _staged(
        "fence_before_the_store",
        "P2",
        _PROXY,
        proxy("st.shared.b32", _OUT),
        fence="<op>",
    ),
)
