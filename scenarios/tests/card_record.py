"""Which card a record was made on, and why one cannot be made here."""

from __future__ import annotations

import datetime
import importlib.metadata
from typing import Any

import torch


def card_missing() -> str | None:
    """Why a live run cannot happen here, or None."""
    if not torch.cuda.is_available():
        return "no CUDA device"
    if torch.cuda.get_device_capability() != (9, 0):
        return "the card is not SM90"
    return None


def about() -> dict[str, Any]:
    """Name the card, its driver, the day and the compiler."""
    import pynvml

    pynvml.nvmlInit()
    return {
        "card": torch.cuda.get_device_name(),
        "capability": list(torch.cuda.get_device_capability()),
        "driver": pynvml.nvmlSystemGetDriverVersion(),
        "date": datetime.date.today().isoformat(),
        "cutlass_dsl": importlib.metadata.version("nvidia-cutlass-dsl"),
        "arch": "sm_90a",
    }
