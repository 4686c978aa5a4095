"""Which GPU a process of many takes: one each, in turn.

The choice is made by `CUDA_VISIBLE_DEVICES` before CUDA is initialised, so that every
library of the process sees one device, number 0.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Mapping, MutableMapping

VISIBLE = "CUDA_VISIBLE_DEVICES"


def worker_number(name: str) -> int:
    """Return the number in the name of a pytest-xdist worker: 3 of `gw3`."""
    found = re.search(r"(\d+)$", name)
    return int(found[1]) if found else 0


def installed() -> int:
    """Return how many GPUs the driver manages; 0 without a driver.

    NVML is asked, which initialises no CUDA.
    """
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return 0
    count = ctypes.c_uint(0)
    if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)):
        return 0
    return count.value


def devices(environment: Mapping[str, str], count: int) -> tuple[str, ...]:
    """Return the devices that this process may use, as `CUDA_VISIBLE_DEVICES` has them.

    Args:
        environment: Where the user may have restricted them.
        count: Devices that are installed.
    """
    given = environment.get(VISIBLE)
    if given is None:
        return tuple(str(number) for number in range(count))
    allowed: list[str] = []
    for name in given.split(","):
        # CUDA takes the list up to the first device that there is not.
        if not name.strip() or name.strip() == "-1":
            break
        allowed.append(name.strip())
    return tuple(allowed)


def take(
    worker: int,
    environment: MutableMapping[str, str] | None = None,
    count: int | None = None,
) -> str | None:
    """Let this process see one GPU, the workers' in turn; return it, None without any.

    Args:
        worker: Number of the process among its kind, from 0.
        environment: `os.environ`, unless given.
        count: Devices that are installed; NVML is asked if absent.
    """
    environment = os.environ if environment is None else environment
    number = installed() if count is None and VISIBLE not in environment else count or 0
    found = devices(environment, number)
    if not found:
        return None
    chosen = found[worker % len(found)]
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        # Too late to hide the others: the process keeps them and uses one.
        torch.cuda.set_device(worker % len(found))
        return chosen
    environment[VISIBLE] = chosen
    return chosen
