"""The end of a row's softmax: normalising factor and log-sum-exp, and where it goes."""

import cutlass
from cutlass import Boolean, Float32, Int32, Int64, cute

from sidestream.kernels.common.config import ForwardContract
from sidestream.kernels.common.operands import Problem
from sidestream.kernels.common.softmax import finite_or_zero

LN2 = 0.6931471805599453
LOG2E = 1.4426950408889634


@cute.jit
def sink_of(
    config: cutlass.Constexpr[ForwardContract], problem: Problem, head: Int32
) -> Float32:
    """Score of a head's sink, which every row attends to; -inf without sinks."""
    sink = -Float32.inf
    if cutlass.const_expr(config.has_sinks):
        heads = cute.make_layout(problem.heads_q)
        sink = cute.make_tensor(problem.sinks, heads)[head]
    return sink


@cute.jit
def finish_row(
    config: cutlass.Constexpr[ForwardContract],
    top: Float32,
    total: Float32,
    sink: Float32,
) -> tuple[Float32, Float32]:
    """Factor that normalises a row of the output, and the row's log-sum-exp.

    `top` and `total` are the reference of `softmax.py` and the sum of the whole row's
    weights. A row without keys (top is -inf) gets factor 0 and log-sum-exp -inf, or
    the sink itself. With a sink the sum is rebased to the larger of the two, so that
    neither a huge nor a very negative sink overflows.
    """
    if cutlass.const_expr(config.bias > 0.0):
        top = top - config.bias
    lse = -Float32.inf
    factor = Float32(0.0)
    if cutlass.const_expr(config.has_sinks):
        sink_log2 = sink * LOG2E
        base = finite_or_zero(cute.arch.fmax(top, sink_log2))
        keys = cute.math.exp2(top - base, fastmath=True)
        whole = cute.math.fma(
            total, keys, cute.math.exp2(sink_log2 - base, fastmath=True)
        )
        lse = sink
        if top != -Float32.inf:
            factor = keys * cute.arch.rcp_approx(whole)
            lse = (base + cute.math.log2(whole, fastmath=True)) * LN2
    else:
        if top != -Float32.inf:
            factor = cute.arch.rcp_approx(total)
            lse = (top + cute.math.log2(total, fastmath=True)) * LN2
    return factor, lse


@cute.jit
def store_lse(
    config: cutlass.Constexpr[ForwardContract],
    problem: Problem,
    token: Int64,
    head: Int32,
    value: Float32,
    mine: Boolean,
) -> None:
    """Write a row's log-sum-exp: (T, H) token-major or (H, stride) head-major.

    Only a thread that finds the row `mine` writes, and none where no log-sum-exp is
    declared.
    """
    if cutlass.const_expr(config.lse != "none"):
        offset = Int64(head)
        if cutlass.const_expr(config.lse == "token_major"):
            offset = token * problem.heads_q + head
        else:
            offset = head * problem.lse_head_stride + token
        if mine:
            cell = cute.make_tensor(problem.lse + offset, cute.make_layout(1))
            cell[0] = value
