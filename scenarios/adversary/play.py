"""Play situations of the stream adversary on whatever CUDA device torch sees.

sidestream run scenarios/adversary/play.py --situation captured --planted
"""

from __future__ import annotations

import argparse

import torch

from sidestream.scenarios.adversary.kit import HEAD_DIMS, TYPES, Kit, OurKernels
from sidestream.scenarios.adversary.situations import SITUATIONS


def main() -> None:
    """Play the situations asked for, or all; the exit status is that of an assert."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--situation", action="append", choices=SITUATIONS, default=[])
    parser.add_argument("--planted", action="store_true")
    parser.add_argument("--head-dims", type=int, nargs=2, default=HEAD_DIMS)
    parser.add_argument("--types", nargs=2, default=TYPES)
    parser.add_argument("--block-scaled", action="store_true")
    given = parser.parse_args()
    major, minor = torch.cuda.get_device_capability()
    wide, of_values = given.head_dims
    dtype, out_dtype = given.types
    subject = OurKernels(
        f"sm_{major}{minor}a",
        (wide, of_values),
        (dtype, out_dtype),
        block_scaled=given.block_scaled,
    )
    kit = Kit(subject, planted=given.planted)
    for name in given.situation or SITUATIONS:
        SITUATIONS[name](kit)


if __name__ == "__main__":
    main()
