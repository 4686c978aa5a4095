"""Litmus tests of the ordering rules, one file a mechanism.

`TWINS` maps `file.name` to each twin of one launch, `GRID_TWINS` to each of two.
"""

from __future__ import annotations

from sidestream.scenarios.litmus import (
    bulk_copy,
    cluster,
    contents,
    dependent_grid,
    global_memory,
    launch_control,
    mbarrier,
    memory_operations,
    named_barrier,
    over,
    protocols,
    proxy_fence,
    staged_copy,
    tensor_allocation,
    tensor_copy,
    tensor_core,
    tensor_map,
    tensor_memory,
    tensor_order,
    tensor_pair,
    tensor_registers,
    tensor_stationary,
    thread_copy,
    warp_sync,
)
from sidestream.scenarios.litmus.twin import GridTwin, Twin

_FILES = (
    named_barrier,
    warp_sync,
    mbarrier,
    proxy_fence,
    bulk_copy,
    tensor_copy,
    tensor_map,
    thread_copy,
    tensor_memory,
    tensor_registers,
    tensor_core,
    tensor_order,
    tensor_pair,
    tensor_stationary,
    cluster,
    global_memory,
    memory_operations,
    tensor_allocation,
    launch_control,
    protocols,
    contents,
    staged_copy,
    over,
)

TWINS: dict[str, Twin] = {
    f"{module.__name__.rsplit('.', 1)[-1]}.{twin.name}": twin
    for module in _FILES
    for twin in module.TWINS
}

GRID_TWINS: dict[str, GridTwin] = {
    f"dependent_grid.{twin.name}": twin for twin in dependent_grid.TWINS
}
