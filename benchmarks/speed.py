"""Kernel speed on a card: `python -m benchmarks.speed [--json FILE]`.

Ours, flash-attn-4's and cuDNN frontend's SM120 kernel and torch's flash attention, on
the same packed batches in one process. SM120-class code needs no instruction that
sm_90a lacks except packed f32x2 arithmetic, so on an SM90 card all of them are
compiled for it; cuDNN's multiplies pairs one by one there. Every result is compared
with torch's before it is timed. The table gives medians of rounds in which the kernels
take turns. A round is a CUDA graph of calls between two events, so that the time of the
host does not count.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.batches import Batch, Operands, batches
from benchmarks.speed_peers import PEERS

ROUNDS = 7
TARGET_MS = 25.0
"""Time of one round of one kernel; short kernels are repeated to fill it."""
AGREE = 0.02
"""Largest absolute difference from torch's output, bf16 of values about 1."""

Call = Callable[[], torch.Tensor]


def recorded(call: Call, repeats: int) -> Any:
    """A CUDA graph of `repeats` calls: replayed, it costs the host nothing."""
    cuda: Any = torch.cuda
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        for _ in range(repeats):
            call()
    return graph


def timed(run: Callable[[], object]) -> float:
    """Milliseconds between events around `run`."""
    event: Any = torch.cuda.Event
    start, stop = (event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    stop.record()
    stop.synchronize()
    return float(start.elapsed_time(stop))


def measure(batch: Batch, names: tuple[str, ...]) -> dict[str, float | str]:
    """Median milliseconds by kernel, or why there is none."""
    operands = Operands.drawn(batch)
    calls: dict[str, Call] = {}
    rows: dict[str, float | str] = {}
    truth = PEERS["torch"](batch, operands)().clone()
    for name in names:
        try:
            call = PEERS[name](batch, operands)
            error = (call().float() - truth.float()).abs().max().item()
        except Exception as failed:  # a peer's refusal is a row
            rows[name] = f"{type(failed).__name__}: {failed}"[:200]
            continue
        if not error <= AGREE:
            rows[name] = f"differs from torch by {error:.3g}"
            continue
        calls[name] = call
    repeats, graphs = {}, {}
    for name, call in calls.items():
        once = timed(recorded(call, 1).replay)
        repeats[name] = max(1, round(TARGET_MS / max(once, 1e-3)))
        graphs[name] = recorded(call, repeats[name])
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, graph in graphs.items():
            times[name].append(timed(graph.replay) / repeats[name])
    return rows | {name: statistics.median(taken) for name, taken in times.items()}


def show(table: list[tuple[Batch, dict[str, float | str]]], names: list[str]) -> None:
    """Print TFLOP/s by kernel and our time against the faster SM120 peer's."""
    print(f"| batch | d | {' | '.join(names)} | ours / faster SM120 peer |")
    print("|---" * (len(names) + 3) + "|")
    for batch, row in table:
        cells = [
            f"{batch.flops / ms / 1e9:.0f}" if isinstance(ms, float) else "-"
            for ms in (row[name] for name in names)
        ]
        ours = row.get("ours")
        peers = [
            ms for name in ("fa4", "cudnn") if isinstance(ms := row.get(name), float)
        ]
        ratio = f"{min(peers) / ours:.2f}" if peers and isinstance(ours, float) else "-"
        print(f"| {batch.name} | {batch.head_dim} | {' | '.join(cells)} | {ratio} |")
    for batch, row in table:
        for name, why in row.items():
            if isinstance(why, str):
                print(f"{batch.name} d{batch.head_dim}: {name}: {why}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write milliseconds here as well")
    parser.add_argument("--only", action="append", choices=PEERS, help="repeatable")
    parser.add_argument("--batch", help="only batches whose name contains this")
    chosen = parser.parse_args()
    names = chosen.only or list(PEERS)
    card = torch.cuda.get_device_properties(0)
    print(f"{card.name}, sm_{card.major}{card.minor}, torch {torch.__version__}\n")
    table = []
    for batch in batches():
        if chosen.batch and chosen.batch not in batch.name:
            continue
        table.append((batch, measure(batch, tuple(names))))
    show(table, names)
    if chosen.json:
        rows = [
            {"batch": batch.name, "head_dim": batch.head_dim, "ms": row}
            for batch, row in table
        ]
        chosen.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
