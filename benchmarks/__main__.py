"""Print tables: `python -m benchmarks` for time, with `--cost` the cost model's."""

from __future__ import annotations

import argparse

from benchmarks import cases, cost, host, instructions, races

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument(
    "--cost",
    action="store_true",
    help="what ours, FA4's and cuDNN's kernel execute and wait for, per KV tile",
)
parser.add_argument(
    "--arch",
    action="append",
    choices=cost.KERNELS,
    help="with --cost: only this target; repeatable",
)
parser.add_argument(
    "--races", action="store_true", help="only what looking for races costs"
)
parser.add_argument(
    "--host", action="store_true", help="only what `sidestream run` costs a script"
)
chosen = parser.parse_args()
if chosen.cost:
    for arch in chosen.arch or cost.KERNELS:
        cost.show(arch, list(cost.measure(arch)))
elif chosen.host:
    host.show(host.measure())
elif chosen.races:
    races.show(races.measure())
else:
    print("## Instruction families\n")
    instructions.show(instructions.measure())
    print("\n## Cases of the SM120 kernel\n")
    cases.show(cases.measure())
    print("\n## First build of the core, and start-up with warm caches\n")
    cases.show_start(cases.start())
    print("\n## What `sidestream run` costs a torch script\n")
    host.show(host.measure())
    print("\n## Looking for races\n")
    races.show(races.measure())
