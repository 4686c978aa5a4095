"""The host function: tensor maps, the work-list launch and the forward launch."""

from typing import Any

import cuda.bindings.driver as cuda
import cutlass
from cutlass import Float32, Int32, Int64, cute

from sidestream.kernels.common.tokens import (
    pointers,
    tile_layout,
    tma_load,
    token_tensor,
)
from sidestream.kernels.common.worklist import PREP_THREADS, build_worklist
from sidestream.kernels.sm120.config import KernelConfig
from sidestream.kernels.sm120.forward import forward


@cute.jit
def sidestream_sm120(
    config: cutlass.Constexpr[KernelConfig],
    q: cute.Pointer,
    k: cute.Pointer,
    v: cute.Pointer,
    out: cute.Pointer,
    lse: cute.Pointer,
    sinks: cute.Pointer,
    lengths_q: cute.Pointer,
    lengths_kv: cute.Pointer,
    workspace: cute.Pointer,
    descale_q: cute.Pointer | None,
    descale_k: cute.Pointer | None,
    descale_v: cute.Pointer | None,
    scale_out: cute.Pointer | None,
    amax: cute.Pointer | None,
    batch: Int32,
    heads_q: Int32,
    heads_kv: Int32,
    tokens_q: Int32,
    tokens_kv: Int32,
    left: Int32,
    right: Int32,
    scale_log2: Float32,
    q_token_stride: Int64,
    q_head_stride: Int64,
    k_token_stride: Int64,
    k_head_stride: Int64,
    v_token_stride: Int64,
    v_head_stride: Int64,
    out_token_stride: Int64,
    out_head_stride: Int64,
    lse_head_stride: Int64,
    ctas: Int32,
    stream: cuda.CUstream,
) -> None:
    """Both launches of one attention call; strides count elements, tokens capacity.

    A tensor map cannot have an empty dimension, so an empty side is declared one token
    long; the work list is clamped to the true capacity and never reaches it.
    """
    build_worklist(
        config,
        lengths_q,
        lengths_kv,
        workspace,
        batch,
        Int32(config.tile_m),
        heads_q,
        tokens_q,
        tokens_kv,
        amax,
    ).launch(grid=(1, 1, 1), block=(PREP_THREADS, 1, 1), stream=stream)

    layout_q = tile_layout(config, config.tile_m, (config.row_chunks,))
    layout_k = tile_layout(config, config.tile_n, (config.chunks, config.stages))
    layout_v = tile_layout(config, config.tile_n, (config.chunks_v, config.stages))
    map_q = cutlass.max(tokens_q, Int32(1))
    map_kv = cutlass.max(tokens_kv, Int32(1))
    global_q = token_tensor(
        q, map_q, config.head_dim, heads_q, q_token_stride, q_head_stride
    )
    global_k = token_tensor(
        k, map_kv, config.head_dim, heads_kv, k_token_stride, k_head_stride
    )
    global_v = token_tensor(
        v, map_kv, config.head_dim_v, heads_kv, v_token_stride, v_head_stride
    )
    atom_q, tma_q = tma_load(global_q, layout_q, config.tile_m)
    atom_k, tma_k = tma_load(global_k, layout_k, config.tile_n)
    atom_v, tma_v = tma_load(global_v, layout_v, config.tile_n)
    forward(
        config,
        layout_q,
        layout_k,
        layout_v,
        atom_q,
        tma_q,
        atom_k,
        tma_k,
        atom_v,
        tma_v,
        out,
        lse,
        sinks,
        workspace,
        batch,
        heads_q,
        heads_q // heads_kv,
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
    ).launch(
        grid=(ctas, 1, 1),
        block=(config.threads, 1, 1),
        stream=stream,
        min_blocks_per_mp=config.ctas_per_sm,
        # Given so that nobody asks a device for it: this compiles without one.
        preferred_smem_carveout=100,
    )


def compile_forward(config: KernelConfig, arch: str, *options: Any) -> Any:
    """Compile the host function and both kernels for `arch` (such as "sm_120a").

    The placeholder values fix nothing: pointers carry type and alignment, all scalars
    are runtime arguments. `options` are further options of `cute.compile`.
    """
    fake = pointers(config, (128,) * 14)
    scalars = [Int32(1)] * 7 + [Float32(1.0)] + [Int64(8)] * 9 + [Int32(1)]
    compiler = cute.compile[(cute.GPUArch(arch), *options)]
    return compiler(sidestream_sm120, config, *fake, *scalars, cuda.CUstream(0))
