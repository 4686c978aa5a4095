"""Special registers (PTX ISA, Special Registers)."""

from __future__ import annotations

from sidestream.harness.exec.lower.builder import Builder, Ref, Unsupported

# The order is that of the enum in core/special.c.
_NAMES = (
    *("%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ntid.y", "%ntid.z"),
    *("%ctaid.x", "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z"),
    *("%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid"),
    *("%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge", "%lanemask_gt"),
    *("%clock", "%dynamic_smem_size", "%total_smem_size"),
    *("%clusterid.x", "%clusterid.y", "%clusterid.z"),
    *("%nclusterid.x", "%nclusterid.y", "%nclusterid.z"),
    *("%cluster_ctaid.x", "%cluster_ctaid.y", "%cluster_ctaid.z"),
    *("%cluster_nctaid.x", "%cluster_nctaid.y", "%cluster_nctaid.z"),
    *("%cluster_ctarank", "%cluster_nctarank", "%is_explicit_cluster"),
)
NUMBERS = {name: k for k, name in enumerate(_NAMES)}
# Clocks count executed instructions: monotonic, and the same in every run.
NUMBERS |= dict.fromkeys(
    ("%clock64", "%globaltimer", "%globaltimer_lo"), NUMBERS["%clock"]
)


def emit_special(low: Builder, d: Ref, name: str) -> None:
    """Read special register `name` into row `d` (32 or 64 bits, or a predicate)."""
    if name == "WARP_SZ":
        low.emit(f"mov.b{d.width}", d=d, a=low.const(32, d.width), guarded=False)
        return
    if name not in NUMBERS:
        raise Unsupported(f"special register {name}")
    if d.width == 1:
        value = low.temp(32)
        emit_special(low, value, name)
        low.emit("setp.ne.u32", d=d, a=value, b=low.const(0, 32), guarded=False)
        return
    imm = low.dynamic_smem if name == "%dynamic_smem_size" else 0
    low.emit(f"special.{d.width}", d=d, x=(NUMBERS[name],), imm=imm, guarded=False)
