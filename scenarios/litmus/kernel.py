"""The kernel around the statements of a litmus test.

Registers that the statements find: `%x`, `%y`, `%z` shared addresses 4096, 2048 and
2048 bytes long, `%xl` the lane's own word of `%x`; `%bar` 8 mbarriers, `%slot` 16
bytes that no one uses; `%g` 4096 bytes of global memory, `%gl` the lane's own word of
it, `%map` a tensor map of 256 words from `%g` with a box of 64 (256 bytes);
`%one` the predicate of lane 0, `%lane`, `%warp`, `%tid`, `%rank` (of the CTA in the
grid, in its cluster if there is one) and `%peer`, the other CTA of the pair; `%px`,
`%py`, `%pbar` what `%x`, `%y`, `%bar` are in the peer CTA; `%tm` tensor memory, `%tq`
its lanes that the warp may load; `%ad`, `%bd`, `%idesc` for `mma()`;
scratch is `%p0-5`, `%h0-3`, `%r0-15`, `%rd0-7`.
"""

from __future__ import annotations

from sidestream.scenarios.litmus.twin import Twin

TARGET = "sm_100a"
GLOBAL_BYTES = 4096
MAP_BYTES = 128
BOX_BYTES = 256
"""What a load through `%map` brings."""

_REGISTERS = """.reg .pred %p<6>, %one, %turn;
.reg .b16 %h<4>;
.reg .b32 %r<16>, %x, %y, %z, %xl, %bar, %slot, %lane, %warp, %tid, %rank, %peer;
.reg .b32 %px, %py, %pbar, %tm, %tq, %idesc, %who;
.reg .b64 %rd<8>, %g, %gl, %map, %ad, %bd;
.shared .align 1024 .b8 tile[8192];
.shared .align 16 .b8 head[96];
ld.param.u64 %g, [g];
mov.b64 %map, m;
cvta.param.u64 %map, %map;
mov.u32 %tid, %tid.x;
mov.u32 %lane, %laneid;
shr.u32 %warp, %tid, 5;
setp.eq.u32 %one, %lane, 0;
mov.u32 %x, tile;
add.u32 %y, %x, 4096;
add.u32 %z, %x, 6144;
mov.u32 %bar, head;
add.u32 %slot, %bar, 64;
mad.lo.u32 %xl, %lane, 4, %x;
mad.wide.u32 %gl, %lane, 4, %g;
"""
_IN_CLUSTER = """mov.u32 %rank, %cluster_ctarank;
xor.b32 %peer, %rank, 1;
mapa.shared::cluster.u32 %px, %x, %peer;
mapa.shared::cluster.u32 %py, %y, %peer;
mapa.shared::cluster.u32 %pbar, %bar, %peer;
"""
_IN_GRID = "mov.u32 %rank, %ctaid.x;\n"

# The product of 128 x 16 and 16 x 16 halves: 4096 bytes of %x and 512 of %y, K-major
# without swizzle; 16 columns of all lanes.
_DESCRIPTORS = """mov.b32 %idesc, 0x08040010;
shr.u32 %r0, %x, 4;
cvt.u64.u32 %ad, %r0;
or.b64 %ad, %ad, 0x0000401000080000;
shr.u32 %r0, %y, 4;
cvt.u64.u32 %bd, %r0;
or.b64 %bd, %bd, 0x0000401000080000;
"""
# The first 32 columns, as far as there are warps for their lanes.
_FILL = f"""setp.gt.u32 %turn, %warp, 3;
@%turn bra FILLED;
mov.u32 %r2, 0;
tcgen05.st.sync.aligned.32x32b.x32.b32 [%tq], {{{", ".join(["%r2"] * 32)}}};
tcgen05.wait::st.sync.aligned;
tcgen05.fence::before_thread_sync;
FILLED:
"""
_JOIN = "barrier.cluster.arrive;\nbarrier.cluster.wait;\n"


def text_of(twin: Twin, *, sound: bool) -> str:
    """PTX of one of the two kernels of a twin."""
    op = twin.op if sound else twin.broken
    lines = [
        f".version 9.0\n.target {TARGET}\n.address_size 64",
        f".visible .entry litmus(.param .u64 g, .param .align 64 .b8 m[{MAP_BYTES}])",
        "{\n" + _REGISTERS + (_IN_CLUSTER if twin.cluster > 1 else _IN_GRID),
        _prologue(twin).replace("<op>", op),
    ]
    for cta, warps in enumerate(
        (twin.warps, twin.peers) if twin.peers else (twin.warps,)
    ):
        for warp, statements in enumerate(warps):
            lines += _turn(
                cta if twin.peers else None, warp, statements.replace("<op>", op)
            )
    lines.append("DONE:")
    if twin.tensor:
        lines.append(_free(twin))
    elif twin.cluster > 1:
        lines.append(_JOIN)  # nobody leaves while the others may still use it
    return "\n".join([*lines, "ret;\n}\n"])


def threads_of(twin: Twin) -> int:
    """Threads of a CTA."""
    return 32 * max(len(twin.warps), len(twin.peers))


def map_of(address: int) -> bytes:
    """The 128-byte tensor map of 256 words at `address`, boxes of 64."""
    words = [0] * 32
    words[0], words[1] = address % 2**32, address >> 32
    words[2] = 2 | 2 << 7  # version; 32-bit unsigned; one dimension
    words[8], words[13] = 256 - 1, 64 - 1 << 24
    return b"".join(w.to_bytes(4, "little") for w in words)


def _prologue(twin: Twin) -> str:
    text = ""
    if twin.tensor:
        # Every CTA of a pair takes part in the allocation of both.
        group = 2 if twin.pair else 1
        text += _DESCRIPTORS
        text += (
            "setp.ne.u32 %turn, %warp, 0;\n@%turn bra ALLOCATED;\n"
            f"tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [%slot], "
            f"{twin.tensor};\nALLOCATED:\n"
        )
    if twin.bars:
        text += "setp.ne.u32 %turn, %tid, 0;\n@%turn bra MADE;\n"
        for k, count in enumerate(twin.bars):
            text += f"mbarrier.init.shared.b64 [%bar+{8 * k}], {count};\n"
        text += "fence.mbarrier_init.release.cluster;\nMADE:\n"
    if twin.bars or twin.tensor:
        text += _JOIN if twin.cluster > 1 else "bar.sync 0;\n"
    if twin.tensor:
        text += "ld.shared.b32 %tm, [%slot];\nand.b32 %tq, %warp, 3;\n"
        text += "shl.b32 %tq, %tq, 21;\nadd.u32 %tq, %tq, %tm;\n" + _FILL
        text += _JOIN if twin.cluster > 1 else "bar.sync 0;\n"
        text += "tcgen05.fence::after_thread_sync;\n"
    return text + twin.setup


def _free(twin: Twin) -> str:
    """Give tensor memory back, once everyone is done."""
    group = 2 if twin.pair else 1
    join = _JOIN if twin.cluster > 1 else "bar.sync 0;\n"
    return (
        f"{join}setp.ne.u32 %turn, %warp, 0;\n@%turn bra FREED;\n"
        f"tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;\n"
        f"tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %tm, {twin.tensor};\n"
        f"FREED:"
    )


def _turn(cta: int | None, warp: int, statements: str) -> list[str]:
    """Statements of one warp; `$` makes a label its own."""
    here = f"C{cta or 0}W{warp}_"
    lines = [f"setp.ne.u32 %turn, %warp, {warp};"]
    if cta is not None:
        lines.append(f"setp.ne.or.u32 %turn, %rank, {cta}, %turn;")
    lines.append(f"@%turn bra {here}NOT;")
    return [*lines, statements.replace("$", here), "bra DONE;", f"{here}NOT:"]
