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


def environment() -> dict[str, str]:
    """Return versions and machine, without anything that names a user or a path."""
    facts = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0)))
        if hasattr(os, "sched_getaffinity")
        else str(os.cpu_count() or 1),
    }
    facts.update({package: version(package) for package in _PACKAGES})
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
