"""Questions about the CUDA runtime that a card and the virtual runtime both answer.

Each rule is a function of an `Api`, `hw_runtime_card` or `hw_runtime_virtual`, and
returns something JSON can hold: names of errors, whether a stream is held up by
another, whether a call blocks.
"""

from __future__ import annotations

from typing import Any

from hw_runtime_captures import CAPTURE_RULES
from hw_runtime_streams import STREAM_RULES

RULES: dict[str, Any] = STREAM_RULES | CAPTURE_RULES
"""By name."""
