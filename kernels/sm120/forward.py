"""The SM120-class varlen attention forward kernel.

A persistent grid of CTAs, each with one loader warp and one consumer warp per 16 or 32
query rows. Units (query tile, head, sequence) come from the work list in the workspace.
Needs `mma.sync`, `ldmatrix`, TMA and mbarriers, all of which sm_90a has too.
"""

import cutlass
from cutlass import Int32, Int64, cute

from sidestream.kernels.common import phases, unit
from sidestream.kernels.common.config import Each
from sidestream.kernels.common.operands import Problem
from sidestream.kernels.common.tokens import allocate_tiles, unswizzled
from sidestream.kernels.sm120 import barriers as bar
from sidestream.kernels.sm120.config import LOADER_REGISTERS, KernelConfig
from sidestream.kernels.sm120.consumer import run_consumer
from sidestream.kernels.sm120.loader import run_loader
from sidestream.kernels.sm120.operands import cell_type


@cute.kernel
def forward(
    config: cutlass.Constexpr[KernelConfig],
    layouts: Each,
    sources: Each,
    problem: Problem,
) -> None:
    """Softmax(scale Q K^T + mask) V for every unit of the work list."""
    thread, _, _ = cute.arch.thread_idx()
    smem = cutlass.memory.SmemAllocator()
    tiles = Each(
        allocate_tiles(smem, config, layouts.q),
        allocate_tiles(smem, config, layouts.k),
        allocate_tiles(smem, config, layouts.v),
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
            run_loader(config, barriers, record, tiles, sources, problem)
    else:
        if cutlass.const_expr(config.moves_registers):
            cute.arch.setmaxregister_increase(config.shape.registers)
        cells = Each(
            unswizzled(tiles.q, cell_type(config)),
            unswizzled(tiles.k, cell_type(config)),
            unswizzled(tiles.v, cell_type(config)),
        )
        run_consumer(config, barriers, record, cells, problem)


forward.set_name_prefix(
    "sidestream_sm120_forward", remove_cutlass_symbol=True, keep_mangled_name=False
)
