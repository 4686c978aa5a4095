"""Plan-time facts that the kernels of every architecture share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

DTypeName = Literal["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
Anchor = Literal["top_left", "bottom_right"]
LseLayout = Literal["none", "token_major", "head_major"]

ROW_BYTES = 128
"""Bytes of a row of a shared-memory column block: what the 128-byte swizzle spans."""

CHUNK = ROW_BYTES // 2
"""Columns of a column block of two-byte elements."""


BLOCK = 32
"""Elements of the contracted dimension that share a scale, where there are scales."""

ATOM_ROWS = 128
"""Rows whose scales lie together: those of Q and K, the columns of V."""

ATOM_BYTES = ATOM_ROWS * 4
"""Bytes of an atom of scales: four for each row, one byte a scale."""


def element_bytes(dtype: str) -> int:
    """Bytes of an element of the named type."""
    return 1 if dtype.startswith("float8") else 2


class Each(NamedTuple):
    """What there is one of for Q, for K and for V: buffers, tiles, copies."""

    q: Any
    k: Any
    v: Any


class Boxes(NamedTuple):
    """How a CTA loads one of Q, K and V.

    Attributes:
        rows: Rows of a box, which is one column block wide.
        extents: How many boxes shared memory holds, by what they are counted by.
        multicast: Whether a box goes to every CTA of a cluster.
    """

    rows: int
    extents: tuple[int, ...]
    multicast: bool = False


class Sized(Protocol):
    """A way to cut the work that holds some head dimensions."""

    @property
    def largest(self) -> tuple[int, int]:
        """Largest head dimension of queries and keys, and of values."""


SizedT = TypeVar("SizedT", bound=Sized)


@dataclass(frozen=True, kw_only=True)
class ForwardContract:
    """What the generated code depends on, whatever the chip.

    Batch, head counts, lengths, strides, window widths and the scale's magnitude are
    runtime arguments and must never appear here.
    """

    dtype: DTypeName
    out_dtype: DTypeName
    head_dim: int
    head_dim_v: int
    anchor: Anchor
    has_left: bool
    has_right: bool
    has_sinks: bool
    lse: LseLayout
    prefix_q: bool
    prefix_kv: bool
    negative_scale: bool
    block_scaled: bool = False
    """Whether every 32 elements of Q, K and V have a scale, and no tensor a factor."""

    def first_of(self, shapes: tuple[SizedT, ...]) -> SizedT:
        """The first shape that holds both head dimensions.

        Raises:
            ValueError: none does.
        """
        dims = self.head_dim, self.head_dim_v
        for shape in shapes:
            if dims[0] <= shape.largest[0] and dims[1] <= shape.largest[1]:
                return shape
        raise ValueError(f"no shape holds the head dimensions {dims}")

    @property
    def narrow(self) -> bool:
        """Whether Q, K and V are of one byte, and come with factors or scales."""
        return self.element_bytes == 1

    @property
    def descaled(self) -> bool:
        """Whether Q, K and V come with a factor each."""
        return self.narrow and not self.block_scaled

    @property
    def narrow_output(self) -> bool:
        """Whether the output is of one byte, and scaled by a factor of its own."""
        return element_bytes(self.out_dtype) == 1

    @property
    def element_bytes(self) -> int:
        """Bytes of an element of Q, K and V."""
        return element_bytes(self.dtype)

    @property
    def chunk(self) -> int:
        """Columns of a column block of Q, K or V."""
        return ROW_BYTES // self.element_bytes

    @property
    def chunks(self) -> int:
        """Column blocks that cover the head dimension of queries and keys."""
        return -(-self.head_dim // self.chunk)

    @property
    def k_width(self) -> int:
        """Columns or keys that one matrix instruction contracts: 32 bytes of them."""
        return 32 // self.element_bytes

    @property
    def chunks_v(self) -> int:
        """Column blocks that cover the head dimension of values."""
        return -(-self.head_dim_v // self.chunk)

    @property
    def out_bytes(self) -> int:
        """Bytes of an element of O."""
        return element_bytes(self.out_dtype)

    @property
    def out_chunk(self) -> int:
        """Columns of a column block of O."""
        return ROW_BYTES // self.out_bytes

    @property
    def out_blocks(self) -> int:
        """Column blocks that cover the head dimension of O."""
        return -(-self.head_dim_v // self.out_chunk)

    @property
    def k_steps(self) -> int:
        """`k_width`-wide steps over the head dimension in Q K^T."""
        return -(-self.head_dim // self.k_width)
