"""Record what a card answers to the rules, and how torch's allocator lays out memory.

    python hw_runtime_record.py OUT

writes `OUT/runtime_rules.json`. Needs torch with CUDA and nothing of Sidestream.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

STEPS, SEEDS = 250, 6
_MIB = 1 << 20


def script(seed: int) -> list[dict[str, Any]]:
    """Return a random program of allocations on three streams."""
    rng = random.Random(seed)
    steps: list[dict[str, Any]] = []
    live: list[int] = []
    for number in range(STEPS):
        roll = rng.random()
        if roll < 0.52 or not live:
            scale = rng.choice([600, 5000, 300_000, 1_100_000, 4 * _MIB, 24 * _MIB])
            size = rng.randint(1, scale)
            steps.append({"do": "malloc", "size": size, "stream": rng.randrange(3)})
            live.append(number)
        elif roll < 0.62:
            steps.append(
                {"do": "record", "of": rng.choice(live), "stream": rng.randrange(3)}
            )
        elif roll < 0.98:
            steps.append({"do": "free", "of": live.pop(rng.randrange(len(live)))})
        else:
            steps.append({"do": "empty"})
    return steps


def allocations(seed: int) -> list[dict[str, Any]]:
    """Run a script with torch; return the address and the new segments of each."""
    import torch

    streams = [torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = {s["address"] for s in torch.cuda.memory_snapshot()}
    tensors: dict[int, torch.Tensor] = {}
    seen: list[dict[str, Any]] = []
    for number, step in enumerate(script(seed)):
        torch.cuda.synchronize()
        row: dict[str, Any] = {}
        if step["do"] == "malloc":
            with torch.cuda.stream(streams[step["stream"]]):
                tensors[number] = torch.empty(
                    step["size"], dtype=torch.uint8, device="cuda"
                )
            row["address"] = tensors[number].data_ptr()
        elif step["do"] == "record":
            tensors[step["of"]].record_stream(streams[step["stream"]])
        elif step["do"] == "free":
            del tensors[step["of"]]
        else:
            torch.cuda.empty_cache()
        now = {s["address"]: s["total_size"] for s in torch.cuda.memory_snapshot()}
        new = sorted(set(now) - before)
        row["segments"] = [[address, now[address]] for address in new]
        row["reserved"] = sum(now.values())
        before = set(now)
        seen.append(row)
    tensors.clear()
    return seen


def captured_script(seed: int) -> list[dict[str, Any]]:
    """Return a random program of a capture: streams 1 and 2 take part, 0 does not."""
    rng = random.Random(seed)
    steps: list[dict[str, Any]] = []
    live: list[int] = []
    for number in range(120):
        if number in (30, 90):
            steps.append({"do": "begin" if number == 30 else "end"})
            continue
        inside = 30 < number < 90
        roll = rng.random()
        if roll < 0.5 or not live:
            size = rng.randint(1, rng.choice([600, 300_000, 4 * _MIB]))
            stream = rng.choice([1, 2]) if inside else rng.randrange(3)
            steps.append({"do": "malloc", "size": size, "stream": stream})
            live.append(number)
        elif roll < 0.65:
            steps.append(
                {"do": "record", "of": rng.choice(live), "stream": rng.randrange(3)}
            )
        else:
            steps.append({"do": "free", "of": live.pop(rng.randrange(len(live)))})
    return steps


def captured_allocations(seed: int) -> list[dict[str, Any]]:
    """Run a script with a capture in its middle, as `allocations` does."""
    import torch

    streams = [torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = {s["address"] for s in torch.cuda.memory_snapshot()}
    tensors: dict[int, torch.Tensor] = {}
    graph = torch.cuda.CUDAGraph()
    seen: list[dict[str, Any]] = []
    inside = False
    for number, step in enumerate(captured_script(seed)):
        if not inside:
            torch.cuda.synchronize()
        row: dict[str, Any] = {}
        if step["do"] == "begin":
            with torch.cuda.stream(streams[1]):
                graph.capture_begin()
            streams[2].wait_stream(streams[1])
            inside = True
        elif step["do"] == "end":
            streams[1].wait_stream(streams[2])
            with torch.cuda.stream(streams[1]):
                graph.capture_end()
            inside = False
        elif step["do"] == "malloc":
            with torch.cuda.stream(streams[step["stream"]]):
                tensors[number] = torch.empty(
                    step["size"], dtype=torch.uint8, device="cuda"
                )
            row["address"] = tensors[number].data_ptr()
        elif step["do"] == "record":
            tensors[step["of"]].record_stream(streams[step["stream"]])
        else:
            del tensors[step["of"]]
        now = {s["address"]: s["total_size"] for s in torch.cuda.memory_snapshot()}
        new = sorted(set(now) - before)
        row["segments"] = [[address, now[address]] for address in new]
        row["reserved"] = sum(now.values())
        before = set(now)
        seen.append(row)
    tensors.clear()
    graph.reset()
    return seen


def pinned_script(seed: int) -> list[dict[str, Any]]:
    """Return a random program of pinned allocations and copies from them."""
    rng = random.Random(seed)
    steps: list[dict[str, Any]] = []
    live: list[int] = []
    for number in range(150):
        roll = rng.random()
        if roll < 0.5 or not live:
            steps.append({"do": "malloc", "size": rng.choice([64, 100, 4000, 5000])})
            live.append(number)
        elif roll < 0.7:
            steps.append({"do": "copy", "of": rng.choice(live)})
        else:
            steps.append({"do": "free", "of": live.pop(rng.randrange(len(live)))})
    return steps


def pinned(seed: int) -> list[int]:
    """Run a script of pinned memory with torch; return the address of each step."""
    import torch

    side = torch.cuda.Stream()
    target = torch.empty(5000, dtype=torch.uint8, device="cuda")
    tensors: dict[int, torch.Tensor] = {}
    seen = []
    for number, step in enumerate(pinned_script(seed)):
        torch.cuda.synchronize()
        address = 0
        if step["do"] == "malloc":
            tensors[number] = torch.empty(
                step["size"], dtype=torch.uint8, pin_memory=True
            )
            address = tensors[number].data_ptr()
        elif step["do"] == "copy":
            source = tensors[step["of"]]
            with torch.cuda.stream(side):
                target[: source.numel()].copy_(source, non_blocking=True)
        else:
            del tensors[step["of"]]
        seen.append(address)
    tensors.clear()
    return seen


def external_zero() -> bool:
    """Whether `ExternalStream(0)` is the default stream in this torch."""
    import torch

    return torch.cuda.ExternalStream(0).cuda_stream == 0


def pool_period() -> int:
    """After how many streams torch's pool begins again."""
    import torch

    first = torch.cuda.Stream().cuda_stream
    count = 1
    while torch.cuda.Stream().cuda_stream != first:
        count += 1
    return count


def main() -> None:
    import torch
    from hw_runtime_card import CardApi
    from hw_runtime_rules import RULES

    path = Path(sys.argv[1]) / "runtime_rules.json"
    seeds = range(1, SEEDS + 1)
    answers: dict[str, Any] = {}
    found = {
        "card": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "external_zero_is_default": external_zero(),
        "pool_period": pool_period(),
        "allocations": [allocations(seed) for seed in seeds],
        "captured": [captured_allocations(seed) for seed in seeds],
        "pinned": pinned(1),
        "rules": answers,
    }
    api = CardApi()
    for name, rule in RULES.items():
        api.renew()
        answers[name] = rule(api)
        api.finish()
        # After each: a rule that never returns shows by its absence.
        path.write_text(json.dumps(found, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
