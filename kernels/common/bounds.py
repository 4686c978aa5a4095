"""Which keys a query row keeps, and which K/V tiles a query tile visits.

Local row i, local key j. The diagonal of row i is `i` (top-left) or
`i + len_kv - len_q` (bottom-right, per sequence). Row i keeps key j when
`j < len_kv`, `j <= diagonal + right` and `j >= diagonal - left`. The tile bounds and
the element mask are derived here from the same terms, so they can only widen together.
"""

from typing import Protocol

import cutlass
from cutlass import Int32, cute


class MaskFacts(Protocol):
    """The plan-time facts that decide which keys a tile of rows keeps."""

    @property
    def anchor(self) -> str:
        """Where the diagonal is anchored, "top_left" or "bottom_right"."""

    @property
    def has_left(self) -> bool:
        """Whether keys before the diagonal are limited."""

    @property
    def has_right(self) -> bool:
        """Whether keys after the diagonal are limited."""

    @property
    def tile_m(self) -> int:
        """Rows of a query tile."""

    @property
    def tile_n(self) -> int:
        """Keys of a K/V tile."""


@cute.jit
def diagonal_shift(
    config: cutlass.Constexpr[MaskFacts], len_q: Int32, len_kv: Int32
) -> Int32:
    """Offset of the diagonal from the row index."""
    shift = Int32(0)
    if cutlass.const_expr(config.anchor == "bottom_right"):
        shift = len_kv - len_q
    return shift


@cute.jit
def row_limits(
    config: cutlass.Constexpr[MaskFacts],
    row: Int32,
    len_q: Int32,
    len_kv: Int32,
    left: Int32,
    right: Int32,
) -> tuple[Int32, Int32]:
    """First and last key that `row` keeps (an empty range when first > last)."""
    diagonal = row + diagonal_shift(config, len_q, len_kv)
    first = Int32(0)
    last = len_kv - 1
    if cutlass.const_expr(config.has_left):
        first = cutlass.max(diagonal - left, Int32(0))
    if cutlass.const_expr(config.has_right):
        last = cutlass.min(diagonal + right, last)
    return first, last


@cute.jit
def tile_range(
    config: cutlass.Constexpr[MaskFacts],
    row0: Int32,
    len_q: Int32,
    len_kv: Int32,
    left: Int32,
    right: Int32,
) -> tuple[Int32, Int32, Int32, Int32]:
    """K/V tiles of the query tile at `row0`: `(begin, plain_begin, plain_end, end)`.

    Tiles outside [begin, end) hold no kept key. Every element of the tiles in
    [plain_begin, plain_end) is kept by every live row, so they need no mask. The
    ranges are nested and may be empty.
    """
    n = config.tile_n
    last_row = cutlass.min(row0 + config.tile_m, len_q) - 1
    lowest_first, lowest_last = row_limits(config, row0, len_q, len_kv, left, right)
    highest_first, highest_last = row_limits(
        config, last_row, len_q, len_kv, left, right
    )
    zero = Int32(0)
    end = (cutlass.max(highest_last + 1, zero) + (n - 1)) // n
    begin = cutlass.min(lowest_first // n, end)
    plain_end = cutlass.max(lowest_last + 1, zero) // n
    plain_end = cutlass.max(cutlass.min(plain_end, end), begin)
    plain_begin = (highest_first + (n - 1)) // n
    plain_begin = cutlass.max(cutlass.min(plain_begin, plain_end), begin)
    return begin, plain_begin, plain_end, end
