"""Replay recorded programs of allocations on the virtual allocators.

Memory asked of the driver is put where the card had it, so that equal rules give equal
addresses, byte for byte.
"""

from __future__ import annotations

from typing import Any

from hw_runtime_record import captured_script, pinned_script, script

from sidestream.harness.runtime import Block, HostBlock, Landing, Runtime, Span

Wrong = list[tuple[int, int, int]]
"""Number of a step, an address or a size here, and the card's."""


class Recorded:
    """Segments where the card had them."""

    def __init__(self) -> None:
        self.next: list[list[int]] = []
        self.held: dict[int, int] = {}

    def reserve(self, size: int, device: int) -> int:
        address, real = self.next.pop(0)
        if size != real:
            raise AssertionError(f"a segment of {size} bytes, the card's has {real}")
        self.held[address] = size
        return address

    def release(self, address: int) -> None:
        del self.held[address]


def replay(seed: int, rows: list[dict[str, Any]], *, captured: bool) -> Wrong:
    """Run a program on the caching allocator and return where it differs."""
    backing = Recorded()
    rt = Runtime(landing=Landing.parse("eager"), backing=backing)
    streams = [rt.stream(0), rt.pool_stream(), rt.pool_stream()]
    blocks: dict[int, Block] = {}
    wrong: Wrong = []
    state: list[Block] = []
    steps = captured_script(seed) if captured else script(seed)
    for number, (step, row) in enumerate(zip(steps, rows, strict=True)):
        backing.next += row["segments"]
        match step["do"]:
            case "begin":
                # torch keeps seed and offset of its generator where a graph finds them.
                state = [rt.malloc(8, stream=streams[1]) for _ in range(2)]
                rt.begin_capture(streams[1])
                rt.wait_stream(streams[2], streams[1])
            case "end":
                rt.wait_stream(streams[1], streams[2])
                rt.end_capture(streams[1])
            case "malloc":
                made = rt.malloc(step["size"], stream=streams[step["stream"]])
                blocks[number] = made
                if made.address != row["address"]:
                    wrong.append((number, made.address, row["address"]))
            case "record":
                rt.record_stream(blocks[step["of"]], streams[step["stream"]])
            case "free":
                rt.free(blocks.pop(step["of"]))
            case "empty":
                rt.empty_cache()
        reserved = sum(backing.held.values())
        if reserved != row["reserved"]:
            wrong.append((number, reserved, row["reserved"]))
    assert len(state) == (2 if captured else 0)
    return wrong


class Pinned:
    """Pinned memory where the card had it: whatever address comes next."""

    def __init__(self) -> None:
        self.address = 0
        self.asked = False

    def reserve(self, size: int, device: int) -> int:
        self.asked = True
        return self.address

    def release(self, address: int) -> None:
        raise AssertionError("pinned memory is never given back")


def replay_pinned(seed: int, addresses: list[int]) -> Wrong:
    """Run a program on the caching host allocator and return where it differs."""
    backing = Pinned()
    rt = Runtime(landing=Landing.parse("eager"), backing=backing)
    side = rt.pool_stream()
    seen: set[int] = set()
    wrong: Wrong = []
    blocks: dict[int, HostBlock] = {}
    # The recorder's variable keeps the last copied tensor until the next copy.
    copied, dropped = -1, False
    for number, (step, address) in enumerate(
        zip(pinned_script(seed), addresses, strict=True)
    ):
        match step["do"]:
            case "malloc":
                backing.address, backing.asked = address, False
                blocks[number] = made = rt.malloc_host(step["size"])
                if made.address != address or backing.asked != (address not in seen):
                    wrong.append((number, made.address, address))
                seen.add(address)
            case "copy":
                source = blocks[step["of"]]
                if dropped and copied != step["of"]:
                    rt.free_host(blocks.pop(copied))
                copied, dropped = step["of"], False
                rt.copy(
                    direction="h2d",
                    reads=[Span(source.address, source.requested)],
                    writes=[Span(1 << 50, source.requested)],
                    stream=side,
                    take=lambda: lambda: None,
                )
            case "free":
                if step["of"] == copied:
                    dropped = True
                else:
                    rt.free_host(blocks.pop(step["of"]))
    return wrong
