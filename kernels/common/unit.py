"""A unit of the work list as the roles of a CTA know it: the words of its record.

The loader finds a unit and writes its record into shared memory, where the other roles
read it. One that is not LIVE ends their loops. What else a record holds, and which
barriers carry it over, is told by each target.
"""

from typing import NamedTuple

from cutlass import Int32, cute

from sidestream.kernels.common import worklist

LIVE = 0
HEAD = 1
ROW0 = 2
Q_START = 3
LEN_Q = 4
LEN_KV = 5
WORDS = 6


class Unit(NamedTuple):
    """A unit: its head or pair of heads, and the rows from `row0` of a sequence on."""

    sequence: Int32
    head: Int32
    row0: Int32
    q_start: Int32
    len_q: Int32
    kv_start: Int32
    len_kv: Int32


@cute.jit
def find_unit(
    workspace: cute.Pointer,
    batch: Int32,
    number: Int32,
    unit_rows: Int32,
    unit_heads: Int32,
) -> Unit:
    """Unit `number` of the work list, of `unit_rows` rows and `unit_heads` a run.

    Heads run fastest, so that the heads of a group meet in L2, and rows run from the
    last to the first: with a causal mask the longest come first.
    """
    units = worklist.unit_prefix(workspace, batch)
    starts_q = worklist.query_starts(workspace, batch)
    starts_kv = worklist.key_starts(workspace, batch)
    sequence = worklist.sequence_of(units, batch, number)
    q_start = starts_q[sequence]
    len_q = starts_q[sequence + 1] - q_start
    kv_start = starts_kv[sequence]
    len_kv = starts_kv[sequence + 1] - kv_start
    local = number - units[sequence]
    runs = (len_q + (unit_rows - 1)) // unit_rows
    row0 = (runs - 1 - local // unit_heads) * unit_rows
    return Unit(sequence, local % unit_heads, row0, q_start, len_q, kv_start, len_kv)


@cute.jit
def describe(record: cute.Tensor, unit: Unit) -> None:
    """Describe a live unit: query head, first local row, token start and lengths."""
    record[LIVE] = Int32(1)
    record[HEAD] = unit.head
    record[ROW0] = unit.row0
    record[Q_START] = unit.q_start
    record[LEN_Q] = unit.len_q
    record[LEN_KV] = unit.len_kv
