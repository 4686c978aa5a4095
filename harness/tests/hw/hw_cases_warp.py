"""Cases of instructions in which lanes meet: shuffles, votes, reductions, matching."""

from __future__ import annotations

from hw_case import Case, Lanewise, f32_words, hashed, integers


def _warp(name: str, body: str, outputs: int, *, narrow: bool = False) -> Case:
    count = 32 * 16
    first = hashed(800, count)
    if narrow:
        first = first % 5
    return Lanewise(
        name=name,
        body=body,
        inputs=(first, hashed(810, count), integers(820, count)),
        outputs=outputs,
        block=64,
    ).case()


_MBARRIER = """mov.u32 %s0, bar;
setp.ne.u32 %p4, %lane, 0;
@%p4 bra REST;
mbarrier.init.shared.b64 [%s0], 3;
{test}
mbarrier.arrive.shared.b64 %x1, [%s0];
mbarrier.pending_count.b64 %o1, %x1;
{test}
mbarrier.arrive.noComplete.shared.b64 %x1, [%s0], 1;
{test}
mbarrier.arrive.shared.b64 %x1, [%s0];
mbarrier.pending_count.b64 %o2, %x1;
mbarrier.test_wait.shared.b64 %p1, [%s0], %x1;
selp.b32 %o3, 1, 0, %p1;
{test}
mbarrier.arrive.expect_tx.shared.b64 %x1, [%s0], 96;
mbarrier.pending_count.b64 %o4, %x1;
mbarrier.arrive_drop.shared.b64 %x2, [%s0];
mbarrier.arrive.shared.b64 %x3, [%s0];
{test}
mbarrier.complete_tx.shared::cta.relaxed.cta.b64 [%s0], 64;
{test}
mbarrier.complete_tx.shared::cta.relaxed.cta.b64 [%s0], 32;
{test}
mbarrier.test_wait.shared.b64 %p1, [%s0], %x1;
selp.b32 %o5, 1, 0, %p1;
mbarrier.arrive.shared.b64 %x1, [%s0];
mbarrier.pending_count.b64 %o6, %x1;
mbarrier.arrive.shared.b64 %x1, [%s0];
mbarrier.pending_count.b64 %o7, %x1;
{test}
mbarrier.inval.shared.b64 [%s0];
REST: bar.warp.sync -1;
"""
_PARITY = (
    "mbarrier.test_wait.parity.shared.b64 %p1, [%s0], 0; selp.b32 %t2, 1, 0, %p1; "
    "mbarrier.test_wait.parity.shared.b64 %p1, [%s0], 1; selp.b32 %t3, 2, 0, %p1; "
    "shl.b32 %o0, %o0, 2; or.b32 %o0, %o0, %t2; or.b32 %o0, %o0, %t3;"
)


def _shared(name: str, declare: str, body: str, outputs: int) -> Case:
    count = 32 * 8
    return Lanewise(
        name=name,
        body=body,
        inputs=(integers(840, count), integers(850, count), f32_words(860, count)),
        outputs=outputs,
        declare=declare + "\n.reg .b32 %s<4>;",
        block=32,
    ).case()


def _atomics() -> Case:
    """Every lane on a word of its own: what returns and what stays."""
    lines = ["mov.u32 %s0, cells; shl.b32 %s1, %lane, 2; add.u32 %s0, %s0, %s1;"]
    ops = ["add.u32", "min.s32", "min.u32", "max.s32", "max.u32", "inc.u32", "dec.u32"]
    ops += ["and.b32", "or.b32", "xor.b32", "exch.b32", "add.f32", "add.noftz.f16x2"]
    for k, op in enumerate([*ops, "cas.b32"]):
        value = "%i2" if "f" in op.split(".")[-1] else "%i1"
        first = "%i2" if op == "add.f32" else "%i0"
        more = ", %i2" if op == "cas.b32" else ""
        if op == "cas.b32":
            value = "%i0"
        lines.append(
            f"st.shared.b32 [%s0], {first}; atom.shared.{op} %o{2 * k}, [%s0], "
            f"{value}{more}; ld.shared.b32 %o{2 * k + 1}, [%s0];"
        )
    return _shared(
        "atom shared", ".shared .align 4 .b32 cells[32];", "\n".join(lines), 28
    )


def _copies() -> Case:
    """`cp.async` of every size, short sources filled with zeros."""
    lines = [
        "mov.u32 %s0, room; mul.lo.u32 %s1, %lane, 48; add.u32 %s0, %s0, %s1;",
        "and.b32 %t2, %lane, 15; and.b32 %t3, %lane, 7; ld.param.u64 %x3, [p_in];",
        "mul.wide.u32 %x4, %at, 16; and.b64 %x4, %x4, 1008; add.u64 %x3, %x3, %x4;",
        "st.shared.v4.b32 [%s0], {%i0, %i0, %i0, %i0};",
        "st.shared.v4.b32 [%s0+16], {%i0, %i0, %i0, %i0};",
        "st.shared.v4.b32 [%s0+32], {%i0, %i0, %i0, %i0};",
        "cp.async.cg.shared.global [%s0], [%x3], 16, %t2;",
        "cp.async.ca.shared.global [%s0+16], [%x3], 8, %t3;",
        "cp.async.commit_group;",
        "cp.async.ca.shared.global [%s0+32], [%x3], 4;",
        "cp.async.commit_group;",
        "cp.async.wait_group 1; cp.async.wait_all;",
        "ld.shared.v4.b32 {%o0, %o1, %o2, %o3}, [%s0];",
        "ld.shared.v4.b32 {%o4, %o5, %o6, %o7}, [%s0+16];",
        "ld.shared.v4.b32 {%o8, %o9, %o10, %o11}, [%s0+32];",
    ]
    return _shared(
        "cp.async", ".shared .align 16 .b8 room[1536];", "\n".join(lines), 12
    )


def cases(scale: int) -> list[Case]:
    """All cases; they are exhaustive enough that `scale` changes nothing."""
    del scale
    found = []
    for mode in ("up", "down", "bfly", "idx"):
        for name, clamp in (
            ("whole", 0 if mode == "up" else 31),
            ("segments of 8", 0x1800 if mode == "up" else 0x181F),
            ("odd clamp", 0x0704),
        ):
            body = (
                f"shfl.sync.{mode}.b32 %o0|%p0, %i0, %i1, {clamp}, 0xffffffff; "
                "selp.b32 %o1, 1, 0, %p0; "
                f"shfl.sync.{mode}.b32 %o2|%p1, %i0, 3, {clamp}, -1; "
                "selp.b32 %o3, 1, 0, %p1;"
            )
            found.append(_warp(f"shfl {mode} {name}", body, 4))
    found.append(
        _warp(
            "shfl members",
            "setp.lt.u32 %p1, %lane, 16; and.b32 %t2, %i1, 15;"
            "@%p1 shfl.sync.idx.b32 %o0|%p0, %i0, %t2, 31, 0x0000ffff;"
            "@!%p1 shfl.sync.bfly.b32 %o0|%p0, %i0, 5, 31, 0xffff0000;"
            "selp.b32 %o1, 1, 0, %p0;",
            2,
        )
    )
    votes = "and.b32 %t2, %i1, 1; setp.ne.u32 %p0, %t2, 0;"
    votes += "setp.lt.u32 %p2, %i0, %i0;"
    for k, (mode, source) in enumerate(
        (("all", "%p0"), ("any", "%p0"), ("uni", "%p2"), ("uni", "%p0"))
    ):
        votes += (
            f"vote.sync.{mode}.pred %p1, {source}, -1;"
            f"selp.b32 %t3, {1 << k}, 0, %p1; or.b32 %o0, %o0, %t3;"
        )
    votes += (
        "vote.sync.ballot.b32 %o1, %p0, -1; vote.sync.ballot.b32 %o2, !%p0, -1;"
        "activemask.b32 %o3;"
    )
    found.append(_warp("vote", votes, 4))
    found.append(
        _warp(
            "match",
            "match.any.sync.b32 %o0, %i0, -1; match.all.sync.b32 %o1|%p0, %i0, -1;"
            "selp.b32 %o2, 1, 0, %p0; mov.b64 %x1, {%i0, %i0};"
            "match.any.sync.b64 %o3, %x1, -1; mov.b32 %t2, 7;"
            "match.all.sync.b32 %o4|%p1, %t2, -1; selp.b32 %o5, 1, 0, %p1;",
            6,
            narrow=True,
        )
    )
    reductions = [("add", "u32"), ("add", "s32")]
    reductions += [(o, t) for o in ("min", "max") for t in ("u32", "s32")]
    reductions += [(o, "b32") for o in ("and", "or", "xor")]
    body = "".join(
        f"redux.sync.{o}.{t} %o{k}, %i2, -1; " for k, (o, t) in enumerate(reductions)
    )
    found.append(_warp("redux", body, len(reductions)))
    found.append(
        _warp(
            "redux members",
            "and.b32 %t2, %lane, 1; setp.eq.u32 %p0, %t2, 0;"
            "@%p0 redux.sync.add.u32 %o0, %i2, 0x55555555;"
            "@!%p0 redux.sync.max.s32 %o0, %i2, 0xaaaaaaaa;",
            1,
        )
    )
    found.append(
        _warp(
            "elect",
            "elect.sync %o0|%p0, -1; selp.b32 %o1, 1, 0, %p0;"
            "setp.ge.u32 %p1, %lane, 12;"
            "@%p1 elect.sync %o2|%p2, 0xfffff000; @%p1 selp.b32 %o3, 1, 0, %p2;",
            4,
        )
    )
    found.append(
        _warp(
            "divergent loop",
            "and.b32 %t2, %i1, 31; mov.b32 %t3, 0;"
            "LOOP: setp.eq.u32 %p0, %t2, 0; @%p0 bra DONE;"
            "add.u32 %t3, %t3, %t2; sub.u32 %t2, %t2, 1; bra LOOP;"
            "DONE: bar.warp.sync -1; vote.sync.ballot.b32 %o1, %p0, -1;"
            "shfl.sync.bfly.b32 %o0, %t3, 1, 31, -1;",
            2,
        )
    )
    found += [
        _shared(
            "mbarrier",
            ".shared .align 8 .b64 bar;",
            _MBARRIER.format(test=_PARITY),
            8,
        ),
        _atomics(),
        _copies(),
    ]
    return found
