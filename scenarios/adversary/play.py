"""Play situations of the stream adversary on whatever CUDA device torch sees.

sidestream run scenarios/adversary/play.py --situation captured --planted
"""

from __future__ import annotations

import argparse

import torch

from sidestream.scenarios.adversary.kit import Kit, OurKernels
from sidestream.scenarios.adversary.situations import SITUATIONS


def main() -> None:
    """Play the situations asked for, or all; the exit status is that of an assert."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--situation", action="append", choices=SITUATIONS, default=[])
    parser.add_argument("--planted", action="store_true")
    given = parser.parse_args()
    major, minor = torch.cuda.get_device_capability()
    kit = Kit(OurKernels(f"sm_{major}{minor}a"), planted=given.planted)
    for name in given.situation or SITUATIONS:
        SITUATIONS[name](kit)


if __name__ == "__main__":
    main()
