"""What a report says of the machine and the versions it was made with."""

from __future__ import annotations

import os
import platform
from importlib import metadata

_PACKAGES = (
    *("torch", "nvidia-cutlass-dsl", "numpy", "flash-attn-4"),
    *("nvidia-cudnn-frontend", "quack-kernels", "cuda-python"),
)


def version(package: str = "sidestream") -> str:
    """Return the installed version of a package, or `not installed`."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def environment(device: str = "vgpu") -> dict[str, str]:
    """Return versions and machine, without anything that names a user or a path.

    Args:
        device: `cuda` adds the card and its driver.
    """
    facts = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0)))
        if hasattr(os, "sched_getaffinity")
        else str(os.cpu_count() or 1),
    }
    facts.update({package: version(package) for package in _PACKAGES})
    return facts | _card() if device == "cuda" else facts


def _card() -> dict[str, str]:
    import torch

    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    facts = {
        "card": f"{properties.name}, {properties.multi_processor_count} "
        f"multiprocessors, compute capability {properties.major}.{properties.minor}",
        "CUDA of torch": str(torch.version.cuda),
    }
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8") as file:
            facts["driver"] = file.readline().strip()
    except OSError:
        pass  # some containers hide it
    return facts


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
