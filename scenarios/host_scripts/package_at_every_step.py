"""A package's execute at every step of a server, with lengths that change.

    python package_at_every_step.py [WORD]

Each word is a bug: `key_holds_total` NVIDIA/cudnn-frontend#552 (one compilation for
each total), `key_holds_strides` #1039 (one for each stride), `lengths_on_host` #606 and
`scales_on_host` #619 (the device's numbers are read back), `fills_output` a fill that
the kernel overwrites wholly, `allocates` and `pins` memory from the driver, `keeps`
scratch that is never used again.
"""

import sys

import torch

from sidestream.scenarios.host_packages.scaled import Scaled

package = Scaled(**dict.fromkeys(sys.argv[1:], True))
stream = torch.cuda.Stream()
for step, counts in enumerate(((33, 7), (100, 28), (5, 60), (64, 64)), 1):
    total = sum(counts)
    with torch.cuda.stream(stream):
        x = torch.ones(total * step, device="cuda")[::step]
        y = torch.empty(total, device="cuda")
        lengths = torch.tensor(counts).pin_memory().to("cuda", non_blocking=True)
    package.execute(x, y, lengths, stream)
    stream.synchronize()
    with torch.cuda.stream(stream):
        assert float(y.sum()) == 2 * total, y
