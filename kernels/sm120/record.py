"""The unit record: what the loader tells the consumers about the unit in flight.

It lies in shared memory, is written by one lane of the loader before that lane's
arrival on Q_FULL and read by the consumers after their wait; Q_EMPTY keeps it alive.
"""

from cutlass import Int32, cute

LIVE = 0
HEAD = 1
ROW0 = 2
Q_START = 3
LEN_Q = 4
LEN_KV = 5
WORDS = 8


@cute.jit
def write_record(
    record: cute.Tensor,
    head: Int32,
    row0: Int32,
    q_start: Int32,
    len_q: Int32,
    len_kv: Int32,
) -> None:
    """Describe a live unit: query head, first local row, token start and lengths."""
    record[LIVE] = Int32(1)
    record[HEAD] = head
    record[ROW0] = row0
    record[Q_START] = q_start
    record[LEN_Q] = len_q
    record[LEN_KV] = len_kv
