"""Public bugs of kernels, rebuilt small, each with its fixed twin.

for bug in KERNEL_BUGS:
    bug.kernel(fixed=False)   # the roles, rings and phases that made the bug
    bug.kernel(fixed=True)    # the same, put right
"""

from __future__ import annotations

from sidestream.scenarios.bugs.kernels.arrival_left_over import ARRIVAL_LEFT_OVER
from sidestream.scenarios.bugs.kernels.clc_response_torn import CLC_RESPONSE_TORN
from sidestream.scenarios.bugs.kernels.columns_shared_by_generations import (
    COLUMNS_SHARED_BY_GENERATIONS,
)
from sidestream.scenarios.bugs.kernels.empty_sequence_without_fence import (
    EMPTY_SEQUENCE_WITHOUT_FENCE,
)
from sidestream.scenarios.bugs.kernels.foreign_tail import FOREIGN_TAIL
from sidestream.scenarios.bugs.kernels.half_covered_barrier import (
    HALF_COVERED_BARRIER,
)
from sidestream.scenarios.bugs.kernels.kernel_bug import Kernel, KernelBug
from sidestream.scenarios.bugs.kernels.mailbox_reused_early import (
    MAILBOX_REUSED_EARLY,
)
from sidestream.scenarios.bugs.kernels.map_changed_under_peer import (
    MAP_CHANGED_UNDER_PEER,
)
from sidestream.scenarios.bugs.kernels.p_stored_over_scores import (
    P_STORED_OVER_SCORES,
)
from sidestream.scenarios.bugs.kernels.payload_loaded_behind_flag import (
    PAYLOAD_LOADED_BEHIND_FLAG,
)
from sidestream.scenarios.bugs.kernels.payload_of_one_transaction import (
    PAYLOAD_OF_ONE_TRANSACTION,
)
from sidestream.scenarios.bugs.kernels.reduction_scratch_reused import (
    REDUCTION_SCRATCH_REUSED,
)
from sidestream.scenarios.bugs.kernels.roles_disagree_on_empty import (
    ROLES_DISAGREE_ON_EMPTY,
)
from sidestream.scenarios.bugs.kernels.row_max_slot_past_end import (
    ROW_MAX_SLOT_PAST_END,
)
from sidestream.scenarios.bugs.kernels.slab_gate_lapped import SLAB_GATE_LAPPED
from sidestream.scenarios.bugs.kernels.stage_overwritten_without_fence import (
    STAGE_OVERWRITTEN_WITHOUT_FENCE,
)
from sidestream.scenarios.bugs.kernels.stage_released_early import (
    STAGE_RELEASED_EARLY,
)
from sidestream.scenarios.bugs.kernels.stage_released_in_flight import (
    STAGE_RELEASED_IN_FLIGHT,
)
from sidestream.scenarios.bugs.kernels.statistics_published_unwaited import (
    STATISTICS_PUBLISHED_UNWAITED,
)
from sidestream.scenarios.bugs.kernels.wait_on_other_slot import WAIT_ON_OTHER_SLOT
from sidestream.scenarios.bugs.kernels.weights_reloaded import WEIGHTS_RELOADED

__all__ = ["KERNEL_BUGS", "Kernel", "KernelBug"]

KERNEL_BUGS: tuple[KernelBug, ...] = (
    WEIGHTS_RELOADED,
    HALF_COVERED_BARRIER,
    REDUCTION_SCRATCH_REUSED,
    ROW_MAX_SLOT_PAST_END,
    EMPTY_SEQUENCE_WITHOUT_FENCE,
    STAGE_OVERWRITTEN_WITHOUT_FENCE,
    MAP_CHANGED_UNDER_PEER,
    PAYLOAD_LOADED_BEHIND_FLAG,
    SLAB_GATE_LAPPED,
    WAIT_ON_OTHER_SLOT,
    ARRIVAL_LEFT_OVER,
    ROLES_DISAGREE_ON_EMPTY,
    FOREIGN_TAIL,
    P_STORED_OVER_SCORES,
    STAGE_RELEASED_EARLY,
    COLUMNS_SHARED_BY_GENERATIONS,
    STATISTICS_PUBLISHED_UNWAITED,
    STAGE_RELEASED_IN_FLIGHT,
    CLC_RESPONSE_TORN,
    MAILBOX_REUSED_EARLY,
    PAYLOAD_OF_ONE_TRANSACTION,
)
"""Every rebuilt bug, class by class: shared memory, proxies, mbarriers, tensor memory,
schedulers."""
