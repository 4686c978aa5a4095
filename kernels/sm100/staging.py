"""Finished rows of O on their way out: from tensor memory to the epilogue's buffers.

A column block is staged at a time, in one of few buffers, so that the staging takes
the same room whatever the head dimension.
"""

import cutlass
from cutlass import Float32, Int32, Uint32, cute

from sidestream.kernels.common import phases
from sidestream.kernels.common.element import output_type
from sidestream.kernels.common.factors import largest_magnitude
from sidestream.kernels.common.softmax import scale_row
from sidestream.kernels.common.swizzle import UNITS, unit_pointer
from sidestream.kernels.sm100 import barriers as bar
from sidestream.kernels.sm100 import tensor_memory as tmem
from sidestream.kernels.sm100.config import BLOCK_BYTES, KernelConfig

LOAD = 32
"""Columns of one load or store of tensor memory."""


@cute.jit
def stage_row(
    config: cutlass.Constexpr[KernelConfig],
    tile: cute.Pointer,
    row: Int32,
    column: cutlass.Constexpr[int],
    values: cute.Tensor,
) -> None:
    """Round 32 columns of a row and put them into the swizzled output tile."""
    width = config.out_chunk // UNITS
    rounded = cute.make_rmem_tensor(LOAD, output_type(config))
    rounded.store(values.load().to(output_type(config)))
    packed = cute.make_tensor(
        cute.recast_ptr(rounded.iterator, dtype=Uint32),
        cute.make_layout(LOAD * config.out_bytes // 4),
    )
    for piece in cutlass.range_constexpr(LOAD // width):
        target = unit_pointer(tile, config.tile_m, row, Int32(column // width + piece))
        cute.autovec_copy(
            cute.make_tensor(packed.iterator + 4 * piece, cute.make_layout(4)),
            cute.make_tensor(
                cute.recast_ptr(target, dtype=Uint32), cute.make_layout(4)
            ),
        )


@cute.jit
def stage_output(
    config: cutlass.Constexpr[KernelConfig],
    sub: cutlass.Constexpr[int],
    barriers: cute.Pointer,
    base: cute.Pointer,
    smem_out: cute.Pointer,
    outputs: cute.Tensor,
    thread: Int32,
    factor: Float32,
    visits: Int32,
    peak: cute.Tensor,
) -> None:
    """Normalise the thread's row of O and hand it to the epilogue; zeros without tiles.

    As many blocks go together as there are buffers; `outputs` counts what each of them
    has held, and `peak` takes the largest magnitude of the row before the factor.

    A register that a load gives may be used without a wait (PTX ISA, "Register
    dependencies, same thread"). The wait is for the next unit's write of O; it comes
    once before blocks are handed over, so that no arrival leaves a load behind.
    """
    values = cute.make_rmem_tensor(LOAD, Float32)
    together = config.out_buffers
    first = sub * config.out_buffers
    for group in cutlass.range_constexpr(config.out_blocks // together):
        for place in cutlass.range_constexpr(together):
            buffer = first + place
            phases.wait_empty(barriers + (bar.DRAINED + buffer), outputs[buffer])
            column = tmem.O_COLUMN[sub] + (group * together + place) * config.out_chunk
            for part in cutlass.range_constexpr(config.out_chunk // LOAD):
                values.fill(0.0)
                at_end = part == config.out_chunk // LOAD - 1
                last = place == together - 1 and at_end
                if visits > 0:
                    start = Int32(column + part * LOAD)
                    tmem.load_row(base, start, thread, LOAD, values)
                    if cutlass.const_expr(last):
                        tmem.wait_loads()
                    if cutlass.const_expr(config.narrow):
                        peak[0] = largest_magnitude(peak[0], values)
                    scale_row(config, values, factor)
                stage_row(
                    config,
                    smem_out + buffer * (BLOCK_BYTES // config.out_bytes),
                    thread,
                    part * LOAD,
                    values,
                )
        # Every arrival comes behind all stores of the group: either would tell of both.
        for place in cutlass.range_constexpr(together):
            buffer = first + place
            cute.arch.mbarrier_arrive(barriers + (bar.STAGED + buffer))
            outputs[buffer] = outputs[buffer] + 1
