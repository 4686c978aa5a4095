"""A kernel places rows of a packed tensor that is larger than 2 GiB.

The offset of a sequence's first row in 32 bits: cuDNN frontend 1.27.0 and 1.28.0
(`thd_sm100.py`) computed the base of a tensor map so. `buggy` does.
"""

import sys

import torch

from sidestream.scenarios.host_packages.placed import Placed

package = Placed(narrow=sys.argv[1:] == ["buggy"])
rows = torch.empty(131073, 16384, dtype=torch.uint8, device="cuda")
for row in (0, 131071, 131072):
    package.mark(rows, row, torch.cuda.current_stream())
torch.cuda.synchronize()
