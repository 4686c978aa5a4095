"""A package's compiled kernels, for two types of data and fresh bounds.

    python keys_of_a_package.py [key_omits_type | key_holds_tensor | key_omits_setting]

Each word is a bug of its compile key: flashinfer-ai/flashinfer#4214 (one kernel for all
types), Dao-AILab/flash-attention#2507 (bounds given as tensors are part of the key) and
#2566 (processes with other settings share a key).
"""

import os
import sys

import torch

from sidestream.scenarios.host_packages.typed import Halved

package = Halved(**dict.fromkeys(sys.argv[1:], True))
stream = torch.cuda.current_stream()
bounds = []
for _ in range(3):
    for dtype in (torch.bfloat16, torch.float16):
        x = torch.full((32,), 3.0, device="cuda", dtype=dtype)
        y = torch.empty_like(x)
        bounds.append(torch.tensor(32, device="cuda"))
        package.execute(x, y, bounds[-1], stream)
        torch.cuda.synchronize()
        right = bool((y == 3 * float(os.environ.get("SCALED_FACTOR", "0.5"))).all())
        assert right or "key_omits_type" in sys.argv, y
