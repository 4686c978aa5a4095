"""Seeded bugs: edits of our kernels that put a public bug back, each with its twin.

    for bug in BUGS:
        driver = driver_of(bug)             # our adapter with the bug in it
        ...                                 # `bug.check` fails on `bug.scenario`

The clean twin is the kernel as it is, on the same scenario.
"""

from __future__ import annotations

from sidestream.scenarios.bugs.bug import Bug, Edit
from sidestream.scenarios.bugs.host_reads_lengths import HOST_READS_LENGTHS
from sidestream.scenarios.bugs.key_holds_totals import KEY_HOLDS_TOTALS
from sidestream.scenarios.bugs.launched_on_default_stream import (
    LAUNCHED_ON_DEFAULT_STREAM,
)
from sidestream.scenarios.bugs.lengths_baked_at_capture import (
    LENGTHS_BAKED_AT_CAPTURE,
)
from sidestream.scenarios.bugs.lse_heads_swapped import LSE_HEADS_SWAPPED
from sidestream.scenarios.bugs.mask_anchored_globally import MASK_ANCHORED_GLOBALLY
from sidestream.scenarios.bugs.nan_tail_through_v import NAN_TAIL_THROUGH_V
from sidestream.scenarios.bugs.neighbour_row_overwritten import (
    NEIGHBOUR_ROW_OVERWRITTEN,
)
from sidestream.scenarios.bugs.output_filled_first import OUTPUT_FILLED_FIRST
from sidestream.scenarios.bugs.prepared_on_current_stream import (
    PREPARED_ON_CURRENT_STREAM,
)
from sidestream.scenarios.bugs.scratch_assumed_zero import SCRATCH_ASSUMED_ZERO
from sidestream.scenarios.bugs.worklist_read_early import WORKLIST_READ_EARLY

__all__ = ["BUGS", "Bug", "Edit"]

BUGS: tuple[Bug, ...] = (
    KEY_HOLDS_TOTALS,
    HOST_READS_LENGTHS,
    LAUNCHED_ON_DEFAULT_STREAM,
    PREPARED_ON_CURRENT_STREAM,
    OUTPUT_FILLED_FIRST,
    LENGTHS_BAKED_AT_CAPTURE,
    WORKLIST_READ_EARLY,
    SCRATCH_ASSUMED_ZERO,
    NEIGHBOUR_ROW_OVERWRITTEN,
    LSE_HEADS_SWAPPED,
    MASK_ANCHORED_GLOBALLY,
    NAN_TAIL_THROUGH_V,
)
"""Every seeded bug, host bugs first."""
