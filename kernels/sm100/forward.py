"""The SM100 varlen attention forward kernel.

A persistent grid of pairs of CTAs, each of warps with one role. Units come from the
work list in the workspace; a CTA works on one or two query tiles of one head, its
neighbour in the cluster on others that need the same keys, or on other columns of V.

    two sub-tiles    one
    warps 0-3, 4-7   0-3     softmax, four warps a sub-tile
    warps 8-11       4-7     correction
    warp 12          8       matrix products; owns the tensor memory
    warp 13          9       loader
    warps 14, 15     10, 11  epilogue
"""

import cutlass
from cutlass import Float32, Int32, Int64, Uint8, cute

from sidestream.kernels.common import phases
from sidestream.kernels.common.config import ATOM_BYTES, Each
from sidestream.kernels.common.element import element_type, output_type
from sidestream.kernels.common.operands import Problem
from sidestream.kernels.common.tokens import allocate_tiles, unswizzled
from sidestream.kernels.sm100 import barriers as bar
from sidestream.kernels.sm100 import config as facts
from sidestream.kernels.sm100 import record
from sidestream.kernels.sm100 import tensor_memory as tmem
from sidestream.kernels.sm100.config import KernelConfig
from sidestream.kernels.sm100.correction import run_correction
from sidestream.kernels.sm100.epilogue import run_epilogue
from sidestream.kernels.sm100.loader import run_loader
from sidestream.kernels.sm100.matmul import run_matmul
from sidestream.kernels.sm100.softmax import run_softmax


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
    queries = allocate_tiles(smem, config, layouts.q)
    # Slices of K and of V share the stages of one ring.
    ring = allocate_tiles(smem, config, layouts.k)
    tiles = Each(queries, ring, cute.make_tensor(ring.iterator, layouts.v.outer))
    out_blocks = config.sub_tiles * config.out_buffers
    smem_out = smem.allocate_array(
        output_type(config),
        out_blocks * facts.BLOCK_BYTES // config.out_bytes,
        byte_alignment=128,
    )
    messages = smem.allocate_tensor(
        Float32,
        cute.make_layout(
            (config.sub_tiles, config.tile_m, 2), stride=(2 * config.tile_m, 2, 1)
        ),
        byte_alignment=8,
    )
    atoms = tiles.q.iterator
    if cutlass.const_expr(config.block_scaled):
        atoms = smem.allocate_array(
            Uint8, config.atoms * ATOM_BYTES, byte_alignment=128
        )
    barriers = smem.allocate_array(Int64, bar.COUNT, byte_alignment=8)
    records = smem.allocate_tensor(
        Int32,
        cute.make_layout((bar.RECORDS, record.WORDS), stride=(record.WORDS, 1)),
        byte_alignment=16,
    )
    tmem_address = smem.allocate_array(Int32, 1, byte_alignment=4)
    claim = smem.allocate_array(Int32, 1, byte_alignment=4)
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    if thread == 0:
        phases.init_barriers(bar.arrivals(config), barriers)
    if warp == config.matmul_warp:
        cute.arch.alloc_tmem(tmem.COLUMNS, tmem_address)
        cute.arch.relinquish_tmem_alloc_permit()
    # The barrier of the cluster releases and acquires, and so orders all of this for
    # threads. The fence makes the mbarriers known to the async proxy of both CTAs (PTX
    # ISA, "fence.mbarrier_init"). The fences of tensor memory around it are the pattern
    # of the ISA for what follows an allocation by another warp ("tcgen05.fence");
    # nothing asynchronous has touched the memory yet, so that they order no conflict.
    cute.arch.mbarrier_init_fence()
    tmem.fence_before()
    # The other CTA arrives on barriers of this one: both must have initialised theirs.
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    tmem.fence_after()
    base = cute.arch.retrieve_tmem_ptr(Float32, 16, tmem_address)

    rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
    softmax_registers, correction_registers, other_registers = config.shape.registers
    if warp < config.correction_warp:
        cute.arch.setmaxregister_increase(softmax_registers)
        run_softmax(
            config,
            warp // 4,
            barriers,
            records,
            base,
            messages,
            problem,
        )
    elif warp < config.matmul_warp:
        cute.arch.setmaxregister_decrease(correction_registers)
        run_correction(
            config,
            barriers,
            records,
            base,
            messages,
            unswizzled(ring, element_type(config)),
            atoms,
            smem_out,
            rank,
            problem,
        )
    else:
        cute.arch.setmaxregister_decrease(other_registers)
        if warp == config.matmul_warp:
            run_matmul(
                config,
                barriers,
                records,
                base,
                queries.iterator,
                ring.iterator,
                atoms,
            )
        elif warp == config.loader_warp:
            run_loader(
                config,
                barriers,
                records,
                claim,
                tiles,
                atoms,
                sources,
                rank,
                problem,
            )
        else:
            run_epilogue(
                config,
                warp - config.epilogue_warp,
                barriers,
                records,
                smem_out,
                rank,
                problem.out,
            )

    # The correction warps have read the last output, which was the last product; the
    # loaders have heard of everything that one CTA sends the other. The fence is the
    # ISA's own pattern: every access was waited for, and the barrier orders it.
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    if warp == config.matmul_warp:
        tmem.fence_after()
        cute.arch.dealloc_tmem(base, tmem.COLUMNS)


forward.set_name_prefix(
    "sidestream_sm100_forward", remove_cutlass_symbol=True, keep_mangled_name=False
)
