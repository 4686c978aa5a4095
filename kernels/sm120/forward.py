"""The SM120-class varlen attention forward kernel.

A persistent grid of CTAs, each with one loader warp and one consumer warp per 16 or 32
query rows. Units (query tile, head, sequence) come from the work list in the workspace.
Needs `mma.sync`, `ldmatrix`, TMA and mbarriers, all of which sm_90a has too.
"""

import cutlass
from cutlass import Float32, Int32, Int64, cute

from sidestream.kernels.common import phases, unit
from sidestream.kernels.common.element import element_type
from sidestream.kernels.sm120 import barriers as bar
from sidestream.kernels.sm120.config import LOADER_REGISTERS, KernelConfig
from sidestream.kernels.sm120.consumer import run_consumer
from sidestream.kernels.sm120.loader import run_loader
from sidestream.kernels.sm120.operands import cell_type


@cute.jit
def unswizzled(
    tensor: cute.Tensor, config: cutlass.Constexpr[KernelConfig]
) -> cute.Pointer:
    """The tile's cells without a swizzle type; addresses are swizzled explicitly."""
    return cute.recast_ptr(
        tensor.iterator, cute.make_swizzle(0, 4, 3), dtype=cell_type(config)
    )


@cute.kernel
def forward(
    config: cutlass.Constexpr[KernelConfig],
    layout_q: cute.ComposedLayout,
    layout_k: cute.ComposedLayout,
    layout_v: cute.ComposedLayout,
    atom_q: cute.CopyAtom,
    tokens_q: cute.Tensor,
    atom_k: cute.CopyAtom,
    tokens_k: cute.Tensor,
    atom_v: cute.CopyAtom,
    tokens_v: cute.Tensor,
    out: cute.Pointer,
    lse: cute.Pointer,
    sinks: cute.Pointer,
    workspace: cute.Pointer,
    batch: Int32,
    heads_q: Int32,
    group: Int32,
    left: Int32,
    right: Int32,
    scale_log2: Float32,
    out_token_stride: Int64,
    out_head_stride: Int64,
    lse_head_stride: Int64,
    descale_q: cute.Pointer | None,
    descale_k: cute.Pointer | None,
    descale_v: cute.Pointer | None,
    scale_out: cute.Pointer | None,
    amax: cute.Pointer | None,
) -> None:
    """Softmax(scale Q K^T + mask) V for every unit of the work list."""
    thread, _, _ = cute.arch.thread_idx()
    dtype = element_type(config)
    smem = cutlass.memory.SmemAllocator()
    smem_q = smem.allocate_tensor(
        dtype, layout_q.outer, byte_alignment=1024, swizzle=layout_q.inner
    )
    smem_k = smem.allocate_tensor(
        dtype, layout_k.outer, byte_alignment=1024, swizzle=layout_k.inner
    )
    smem_v = smem.allocate_tensor(
        dtype, layout_v.outer, byte_alignment=1024, swizzle=layout_v.inner
    )
    barriers = smem.allocate_array(Int64, len(bar.arrivals(config)), byte_alignment=8)
    record = smem.allocate_tensor(
        Int32, cute.make_layout(unit.WORDS), byte_alignment=16
    )
    if thread == 0:
        phases.init_barriers(bar.arrivals(config), barriers)
    # The barrier orders the initialisation for threads. The fence makes it known to
    # the async proxy, whose copies complete on these mbarriers (PTX ISA,
    # "fence.mbarrier_init").
    cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()

    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    if warp >= config.warps:
        if cutlass.const_expr(config.moves_registers):
            cute.arch.setmaxregister_decrease(LOADER_REGISTERS)
        if warp == config.warps:
            run_loader(
                config,
                barriers,
                record,
                smem_q,
                smem_k,
                smem_v,
                atom_q,
                tokens_q,
                atom_k,
                tokens_k,
                atom_v,
                tokens_v,
                workspace,
                batch,
                heads_q,
                group,
                left,
                right,
            )
    else:
        if cutlass.const_expr(config.moves_registers):
            cute.arch.setmaxregister_increase(config.shape.registers)
        run_consumer(
            config,
            barriers,
            record,
            unswizzled(smem_q, config),
            unswizzled(smem_k, config),
            unswizzled(smem_v, config),
            out,
            lse,
            sinks,
            heads_q,
            left,
            right,
            scale_log2,
            out_token_stride,
            out_head_stride,
            lse_head_stride,
            descale_q,
            descale_k,
            descale_v,
            scale_out,
            amax,
        )


forward.set_name_prefix(
    "sidestream_sm120_forward", remove_cutlass_symbol=True, keep_mangled_name=False
)
