"""What a call is about, as the host function and the roles of the kernels hand it on.

All of it is known at run time only. A pointer that the configuration has no use for is
None.
"""

from typing import Any, NamedTuple

from cutlass import Float32, Int32, Int64, cute


class Packed(NamedTuple):
    """A packed token buffer of (token, head, column); strides count elements."""

    pointer: cute.Pointer
    token_stride: Int64
    head_stride: Int64


class Source(NamedTuple):
    """What a TMA load copies: its tensor map, and the coordinates of its tokens."""

    atom: cute.CopyAtom
    tokens: cute.Tensor


class Scales(NamedTuple):
    """Scales of one of Q, K and V: `atoms` of 512 bytes for each head."""

    pointer: cute.Pointer
    atoms: Int32


class Factors(NamedTuple):
    """Float32 factors of one-byte operands, and where the largest output goes.

    `scales` are the `Scales` of `Each` of Q, K and V, where they have no factors.
    """

    descale_q: cute.Pointer | None
    descale_k: cute.Pointer | None
    descale_v: cute.Pointer | None
    scale_out: cute.Pointer | None
    amax: cute.Pointer | None
    scales: Any = None


class Problem(NamedTuple):
    """What the forward kernel is to do, but for Q, K and V.

    Attributes:
        out: The output.
        lse: Log-sum-exp, in the declared layout.
        lse_head_stride: Elements between heads of a head-major one.
        sinks: A score for each query head.
        workspace: The work list (`worklist.py`).
        batch: Sequences.
        unit_rows: Query rows of a unit.
        unit_heads: Units of a run of rows.
        heads_q: Query heads.
        group: Query heads of a key head.
        left: Keys that a row keeps before its diagonal, if that is limited.
        right: Likewise behind it.
        scale_log2: Magnitude of the softmax scale times log2(e).
        factors: Of one-byte operands.
    """

    out: Packed
    lse: cute.Pointer
    lse_head_stride: Int64
    sinks: cute.Pointer
    workspace: cute.Pointer
    batch: Int32
    unit_rows: Int32
    unit_heads: Int32
    heads_q: Int32
    group: Int32
    left: Int32
    right: Int32
    scale_log2: Float32
    factors: Factors
