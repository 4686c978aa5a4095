"""Which keys a query row keeps, and which K/V tiles a query tile visits.

Local row i, local key j. The diagonal of row i is `i` (top-left) or
`i + len_kv - len_q` (bottom-right, per sequence). Row i keeps key j when
`j < len_kv`, `j <= diagonal + right` and `j >= diagonal - left`. The tile bounds and
the element mask are derived here from the same terms, so they can only widen together.
"""

from typing import Protocol

import cutlass
from cutlass import Float32, Int32, cute

CUT_RIGHT = 0
"""Span of the tiles that the right edge or the end of the keys cuts."""
WHOLE = 1
"""Span of the tiles that need no mask."""
CUT_LEFT = 2
"""Span of the tiles that the left edge cuts."""


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
def mask_row(
    config: cutlass.Constexpr[MaskFacts],
    scores: cute.Tensor,
    pitch: cutlass.Constexpr[int],
    key: Int32,
    row: Int32,
    len_q: Int32,
    len_kv: Int32,
    left: Int32,
    right: Int32,
) -> None:
    """Replace scores of keys that the row does not keep by -inf; `key` is the first.

    The scores that a thread holds of the row are pairs of neighbours, `pitch` keys
    apart, as `softmax.py` says.

    A select, not arithmetic: keys past the end may have produced NaN scores.
    """
    first, last = row_limits(config, row, len_q, len_kv, left, right)
    # Against differences, every element needs one comparison with a constant.
    first = first - key
    last = last - key
    # In fours: the DSL warns of static loops of 64 turns.
    for four in cutlass.range_constexpr(0, cute.size(scores), 4):
        for i in cutlass.range_constexpr(four, four + 4):
            j = i // 2 * pitch + i % 2
            keep = last >= j
            if cutlass.const_expr(config.has_left):
                keep = keep and first <= j
            scores[i] = cutlass.select_(keep, scores[i], -Float32.inf)


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


def spans(config: MaskFacts) -> tuple[int, ...]:
    """The spans of a query tile in the order of their tiles, from the right.

    Tiles that the left edge cuts end before the keys do, and are there with one only.
    """
    return (CUT_RIGHT, WHOLE, CUT_LEFT) if config.has_left else (CUT_RIGHT, WHOLE)


@cute.jit
def span_tiles(
    span: cutlass.Constexpr[int],
    tiles: tuple[Int32, Int32, Int32, Int32],
) -> tuple[Int32, Int32]:
    """First and end of the tiles of a span; `tiles` is what `tile_range` gives."""
    begin, plain_begin, plain_end, end = tiles
    lower, upper = begin, end
    if cutlass.const_expr(span == CUT_RIGHT):
        lower = plain_end
    elif cutlass.const_expr(span == WHOLE):
        lower, upper = plain_begin, plain_end
    else:
        upper = plain_begin
    return lower, upper
