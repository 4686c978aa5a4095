"""The host function: tensor maps, the work-list launch and the forward launch."""

from typing import Any, Protocol

import cuda.bindings.driver as cuda
import cutlass
from cutlass import Float32, Int32, Int64, cute

from sidestream.kernels.common.config import Boxes, Each
from sidestream.kernels.common.operands import (
    Factors,
    Packed,
    Problem,
    Scales,
    Source,
)
from sidestream.kernels.common.tokens import (
    pointers,
    tile_layout,
    tma_load,
    token_tensor,
)
from sidestream.kernels.common.worklist import PREP_THREADS, build_worklist


class LaunchFacts(Protocol):
    """The plan-time facts that decide how the forward kernel is launched."""

    @property
    def head_dim(self) -> int:
        """Columns of a head of queries and keys."""

    @property
    def head_dim_v(self) -> int:
        """Columns of a head of values."""

    @property
    def boxes(self) -> Each:
        """`Boxes` of Q, K and V."""

    @property
    def threads(self) -> int:
        """Threads of a CTA."""

    @property
    def cluster(self) -> int:
        """CTAs of a cluster; 1 without clusters."""

    @property
    def ctas_per_sm(self) -> int:
        """CTAs that run together on a multiprocessor."""


@cute.jit
def source_of(
    boxes: cutlass.Constexpr[Boxes],
    layout: cute.ComposedLayout,
    packed: Packed,
    tokens: Int32,
    columns: cutlass.Constexpr[int],
    heads: Int32,
) -> Source:
    """What the TMA loads of one of Q, K and V copy.

    A tensor map cannot have an empty dimension, so an empty side is declared one token
    long; the work list is clamped to the true capacity and never reaches it.
    """
    view = token_tensor(
        packed.pointer,
        cutlass.max(tokens, Int32(1)),
        columns,
        heads,
        packed.token_stride,
        packed.head_stride,
    )
    atom, coordinates = tma_load(view, layout, boxes.rows, multicast=boxes.multicast)
    return Source(atom, coordinates)


@cute.jit
def sidestream_attention(
    config: cutlass.Constexpr[LaunchFacts],
    forward: cutlass.Constexpr[Any],
    inputs: Each,
    lengths_q: cute.Pointer,
    lengths_kv: cute.Pointer,
    tokens_q: Int32,
    tokens_kv: Int32,
    heads_kv: Int32,
    problem: Problem,
    ctas: Int32,
    stream: cuda.CUstream,
) -> None:
    """Both launches of one attention call; `tokens_q` and `tokens_kv` are capacities.

    `inputs` are the `Packed` of Q, K and V, `forward` is the kernel that belongs to the
    configuration.
    """
    build_worklist(
        config,
        lengths_q,
        lengths_kv,
        problem.workspace,
        problem.batch,
        problem.unit_rows,
        problem.unit_heads,
        tokens_q,
        tokens_kv,
        problem.factors.amax,
    ).launch(grid=(1, 1, 1), block=(PREP_THREADS, 1, 1), stream=stream)

    boxes = config.boxes
    dim, dim_v = config.head_dim, config.head_dim_v
    layouts = Each(
        tile_layout(config, boxes.q.rows, boxes.q.extents),
        tile_layout(config, boxes.k.rows, boxes.k.extents),
        tile_layout(config, boxes.v.rows, boxes.v.extents),
    )
    sources = Each(
        source_of(boxes.q, layouts.q, inputs.q, tokens_q, dim, problem.heads_q),
        source_of(boxes.k, layouts.k, inputs.k, tokens_kv, dim, heads_kv),
        source_of(boxes.v, layouts.v, inputs.v, tokens_kv, dim_v, heads_kv),
    )
    forward(config, layouts, sources, problem).launch(
        grid=(ctas, 1, 1),
        block=(config.threads, 1, 1),
        cluster=(config.cluster, 1, 1) if config.cluster > 1 else None,
        stream=stream,
        # Without it the assembler cannot tell the registers at entry, and ignores
        # `setmaxnreg`.
        min_blocks_per_mp=config.ctas_per_sm,
        # Given so that nobody asks a device for it: this compiles without one.
        preferred_smem_carveout=100,
    )


def compile_launch(config: Any, forward: Any, arch: str, *options: Any) -> Any:
    """Compile the host function and both kernels for `arch` (such as "sm_100a").

    The placeholder values fix nothing: pointers carry type and alignment, all scalars
    are runtime arguments. `options` are further options of `cute.compile`.
    """
    fake = pointers(config, (128,) * 17)
    q, k, v, out = (Packed(p, Int64(8), Int64(8)) for p in fake[:4])
    lse, sinks, lengths_q, lengths_kv, workspace = fake[4:9]
    one = Int32(1)
    scales = None
    if config.block_scaled:
        scales = Each(*(Scales(pointer, one) for pointer in fake[14:]))
    problem = Problem(
        out=out,
        lse=lse,
        lse_head_stride=Int64(8),
        sinks=sinks,
        workspace=workspace,
        batch=one,
        unit_rows=one,
        unit_heads=one,
        heads_q=one,
        group=one,
        left=one,
        right=one,
        scale_log2=Float32(1.0),
        factors=Factors(*fake[9:14])._replace(scales=scales),
    )
    return cute.compile[(cute.GPUArch(arch), *options)](
        sidestream_attention,
        config,
        forward,
        Each(q, k, v),
        lengths_q,
        lengths_kv,
        *[one] * 3,
        problem,
        one,
        cuda.CUstream(0),
    )
