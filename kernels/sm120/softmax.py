"""Online softmax over the score fragment of one warp: which rows a lane has of it.

Fragment layout of `mma.m16n8k16` (PTX ISA, "Matrix Fragments for mma.m16n8k16"): lane
4g+t holds rows g and g+8, columns 2t and 2t+1 of every 8-column tile; element
`4*tile + 2*half + j` is row `g + 8*half`, column `8*tile + 2*t + j`. The four lanes of
a quad share two rows.
"""

import cutlass
from cutlass import Float32, Int32, cute

from sidestream.kernels.common.bounds import mask_row
from sidestream.kernels.common.softmax import (
    raise_reference,
    row_peak,
    scale_row,
    weigh_row,
)
from sidestream.kernels.sm120.config import KernelConfig

PITCH = 8
"""Keys between a lane's pairs of neighbours: the columns of an accumulator tile."""


@cute.jit
def quad_max(value: Float32) -> Float32:
    """Maximum over the four lanes that share a row."""
    value = cute.arch.fmax(value, cute.arch.shuffle_sync_bfly(value, offset=1))
    return cute.arch.fmax(value, cute.arch.shuffle_sync_bfly(value, offset=2))


@cute.jit
def quad_sum(value: Float32) -> Float32:
    """Sum over the four lanes that share a row, in one fixed order."""
    value = value + cute.arch.shuffle_sync_bfly(value, offset=1)
    return value + cute.arch.shuffle_sync_bfly(value, offset=2)


@cute.jit
def row_of(fragment: cute.Tensor, half: cutlass.Constexpr[int]) -> cute.Tensor:
    """The lane's part of its upper (`half` 0) or lower row of whole tiles."""
    tiles = cute.size(fragment) // 4
    return cute.make_tensor(
        fragment.iterator + 2 * half, cute.make_layout((2, tiles), stride=(1, 4))
    )


@cute.jit
def mask_scores(
    config: cutlass.Constexpr[KernelConfig],
    scores: cute.Tensor,
    key0: Int32,
    row: Int32,
    len_q: Int32,
    len_kv: Int32,
    left: Int32,
    right: Int32,
) -> None:
    """Mask a band's scores of the tile from `key0` on; `row` is the upper one."""
    key = key0 + (cute.arch.lane_idx() % 4) * 2
    for half in cutlass.range_constexpr(2):
        mask_row(
            config,
            row_of(scores, half),
            PITCH,
            key,
            row + 8 * half,
            len_q,
            len_kv,
            left,
            right,
        )


@cute.jit
def raise_top(
    config: cutlass.Constexpr[KernelConfig],
    scores: cute.Tensor,
    top: cute.Tensor,
    alpha: cute.Tensor,
    scale_log2: Float32,
) -> None:
    """Take a band's new scores into the references of its rows.

    `top` holds the two rows' references and is raised; `alpha` becomes the factor on
    what came before.
    """
    for half in cutlass.range_constexpr(2):
        peak = quad_max(row_peak(config, row_of(scores, half)))
        top[half], alpha[half] = raise_reference(config, top[half], peak, scale_log2)


@cute.jit
def rescale(
    config: cutlass.Constexpr[KernelConfig], output: cute.Tensor, alpha: cute.Tensor
) -> None:
    """Multiply what a warp has accumulated by its rows' factors, unless all are 1."""
    changed = alpha[0, 0] != 1.0
    for slot in cutlass.range_constexpr(1, 2 * config.bands):
        changed = changed or alpha[slot % 2, slot // 2] != 1.0
    if cute.arch.vote_any_sync(changed):
        for slot in cutlass.range_constexpr(2 * config.bands):
            half, band = slot % 2, slot // 2
            scale_row(config, row_of(output[None, band], half), alpha[half, band])


@cute.jit
def weigh(
    config: cutlass.Constexpr[KernelConfig],
    scores: cute.Tensor,
    top: cute.Tensor,
    fresh: cute.Tensor,
    scale_log2: Float32,
) -> None:
    """Turn the scores of some keys into weights and add them to `fresh`.

    `scores` has the elements of whole accumulator tiles of a band, `top` and `fresh`
    one for each of the two rows.
    """
    for half in cutlass.range_constexpr(2):
        part = cute.make_tensor(fresh.iterator + half, cute.make_layout(1))
        weigh_row(config, row_of(scores, half), top[half], scale_log2, part)
