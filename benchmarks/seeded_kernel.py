"""Launch one rebuilt kernel bug on the card, for other tools to look at.

python -m benchmarks.seeded_kernel NAME [--fixed]

Only the driver is used, so that a sanitizer sees this kernel and no other.
"""

from __future__ import annotations

import argparse
import re
from typing import Any

import numpy as np

from sidestream.scenarios.bugs.kernels import KERNEL_BUGS
from sidestream.scenarios.bugs.kernels.kernel_bug import Kernel, KernelBug
from sidestream.scenarios.litmus.kernel import GLOBAL_BYTES, TARGET

ARCH = "sm_90a"
_BEYOND = ("tcgen05.", "clusterlaunchcontrol.")
"""Instructions that SM90 lacks."""


def expressible(bug: KernelBug) -> bool:
    """Whether SM90 has every instruction of a bug's kernels."""
    texts = [bug.kernel(fixed=fixed).text() for fixed in (False, True)]
    return not any(word in text for word in _BEYOND for text in texts)


def card_text(kernel: Kernel) -> str:
    """Return the PTX of a kernel as ptxas takes it, for SM90.

    `%tid` as a register's name hides the special register, which ptxas refuses.
    """
    text = kernel.text().replace(f".target {TARGET}", f".target {ARCH}")
    return re.sub(r"%tid\b(?!\.)", "%thread", text)


def call(driver: Any, name: str, *args: Any) -> Any:
    """Call the driver and return what it gives behind its status.

    Raises:
        RuntimeError: with the name of the call and of its error.
    """
    status, *values = getattr(driver, name)(*args)
    if int(status):
        raise RuntimeError(f"{name}: {status.name}")
    return values[0] if len(values) == 1 else values


def launch(bug: KernelBug, *, fixed: bool) -> None:
    """Compile, launch and wait.

    Raises:
        RuntimeError: what the driver says.
    """
    from cuda.bindings import driver as d

    kernel = bug.kernel(fixed=fixed)
    call(d, "cuInit", 0)
    context = call(d, "cuDevicePrimaryCtxRetain", call(d, "cuDeviceGet", 0))
    call(d, "cuCtxSetCurrent", context)
    text = card_text(kernel)
    module = call(d, "cuModuleLoadData", text.encode() + b"\0")
    function = call(d, "cuModuleGetFunction", module, b"litmus")
    memory = np.zeros(GLOBAL_BYTES // 4, np.uint32)
    memory[: len(kernel.memory)] = kernel.memory
    there = call(d, "cuMemAlloc", GLOBAL_BYTES)
    call(d, "cuMemcpyHtoD", there, memory.ctypes.data, memory.nbytes)
    encoded = call(
        d,
        "cuTensorMapEncodeTiled",
        d.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_UINT32,
        1,
        int(there),
        [d.cuuint64_t(256)],
        [d.cuuint64_t(0)],
        [d.cuuint32_t(64)],
        [d.cuuint32_t(1)],
        d.CUtensorMapInterleave(0),
        d.CUtensorMapSwizzle(0),
        d.CUtensorMapL2promotion(0),
        d.CUtensorMapFloatOOBfill(0),
    )
    arguments = [
        np.array([int(there)], np.uint64),
        np.array([int(word) for word in encoded.opaque], np.uint64),
    ]
    addresses = np.array([a.ctypes.data for a in arguments], np.uint64)
    config = d.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = kernel.ctas, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = kernel.threads(), 1, 1
    attribute = d.CUlaunchAttribute()
    attribute.id = d.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    cluster = attribute.value.clusterDim
    cluster.x, cluster.y, cluster.z = kernel.cluster, 1, 1
    config.attrs, config.numAttrs = [attribute], 1
    call(d, "cuLaunchKernelEx", config, function, addresses.ctypes.data, 0)
    call(d, "cuCtxSynchronize")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=[bug.name for bug in KERNEL_BUGS])
    parser.add_argument("--fixed", action="store_true")
    given = parser.parse_args()
    launch(
        next(bug for bug in KERNEL_BUGS if bug.name == given.name), fixed=given.fixed
    )
