"""The situations. With `kit.planted` each leaves out one thing that the caller owes.

An implementation has to come through all of them clean and with the right values; what
is planted has to be found, whatever the implementation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch

from sidestream.reference import lengths as seq
from sidestream.scenarios.adversary.kit import (
    LENGTHS,
    OTHER_LENGTHS,
    STALE,
    Call,
    Kit,
    external,
    new_stream,
)

Situation = Callable[[Kit], None]


def current_is_launch(kit: Kit) -> None:
    """Current stream and launch stream are one, first the default and then another."""
    for stream in (torch.cuda.current_stream(), new_stream()):
        with torch.cuda.stream(stream):
            call, workspace = kit.call(), kit.workspace()
            kit.execute(call, workspace, stream)
        if not kit.planted:
            torch.cuda.current_stream().wait_stream(stream)
        kit.check(call)


def current_differs(kit: Kit) -> None:
    """Everything is made on the current stream, the launch goes to another.

    Metadata on the current stream would be unordered with the launch
    (NVIDIA/cudnn-frontend#543).
    """
    launch = new_stream()
    call, workspace = kit.call(), kit.workspace()
    if not kit.planted:
        launch.wait_stream(torch.cuda.current_stream())
    kit.execute(call, workspace, launch)
    torch.cuda.current_stream().wait_stream(launch)
    kit.check(call)


def current_unordered(kit: Kit) -> None:
    """The current stream is stalled and nothing ever joins it with the launch stream.

    Whatever the implementation puts there comes too late, or never
    (NVIDIA/cudnn-frontend#614, #429).
    """
    launch, ambient = new_stream(), new_stream()
    with torch.cuda.stream(launch):
        call, workspace = kit.call(), kit.workspace()
    with torch.cuda.stream(ambient):
        stall = torch.ones(256, 256, device="cuda")
        for _ in range(20):
            stall = stall @ stall * 1e-3
        if kit.planted:
            call.lengths_q.add_(0)
        kit.execute(call, workspace, launch)
    with torch.cuda.stream(launch):
        kit.check(call)
    ambient.synchronize()


def raw_handles(kit: Kit) -> None:
    """Handles 0 and 1, the legacy default stream, and 2, that of the thread.

    A stream of the pool, where the planted twin has the inputs made, is ordered with
    none of them (NVIDIA/cudnn-frontend#483).
    """
    for handle in (0, 1, 2):
        made = new_stream() if kit.planted else torch.cuda.default_stream()
        with torch.cuda.stream(made):
            call, workspace = kit.call(), kit.workspace()
        kit.execute(call, workspace, handle)
        torch.cuda.synchronize()
        kit.check(call, what=f"handle {handle}")


def external_stream(kit: Kit) -> None:
    """The launch stream was made by other code and is wrapped for torch."""
    from cuda.bindings import runtime

    status, handle = runtime.cudaStreamCreateWithFlags(runtime.cudaStreamNonBlocking)
    if int(status):
        raise RuntimeError(f"cudaStreamCreateWithFlags gave {status}")
    launch = external(int(handle))
    call, workspace = kit.call(), kit.workspace()
    if not kit.planted:
        launch.wait_stream(torch.cuda.current_stream())
    kit.execute(call, workspace, int(handle))
    launch.synchronize()
    kit.check(call)


def two_streams(kit: Kit) -> None:
    """Two calls are under way at once; the planted twin gives both one workspace."""
    streams = [new_stream() for _ in range(2)]
    calls = [kit.call(seed=seed) for seed in (1, 2)]
    scratch = [kit.workspace() for _ in range(2)]
    if kit.planted:
        scratch[1] = scratch[0]
    for call, workspace, stream in zip(calls, scratch, streams, strict=True):
        stream.wait_stream(torch.cuda.current_stream())
        kit.execute(call, workspace, stream)
    for call, stream in zip(calls, streams, strict=True):
        torch.cuda.current_stream().wait_stream(stream)
        kit.check(call, what=f"seed {call.seed}")


def two_threads(kit: Kit) -> None:
    """Two threads call one compiled function, each on a stream of its own."""
    scratch = [kit.workspace() for _ in range(2)]
    torch.cuda.synchronize()
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with torch.cuda.stream(new_stream()):
                call = kit.call(seed=number + 1)
                workspace = scratch[0 if kit.planted else number]
                for _ in range(2):
                    kit.execute(call, workspace, torch.cuda.current_stream())
                kit.check(call, what=f"thread {number}")
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def scratch_freed_in_use(kit: Kit) -> None:
    """The caller lets go of the workspace while the launch may still use it."""
    launch = new_stream()
    call, workspace = kit.call(), kit.workspace()
    launch.wait_stream(torch.cuda.current_stream())
    kit.execute(call, workspace, launch)
    if not kit.planted:
        workspace.record_stream(launch)
    size = workspace.numel()
    del workspace
    again = torch.full((size,), 255, dtype=torch.uint8, device="cuda")
    torch.cuda.current_stream().wait_stream(launch)
    kit.check(call)
    del again


def cold_first_call(kit: Kit) -> None:
    """The first call of the process compiles, on a side stream, then a warm one.

    What a cold call makes for itself is the next call's as well
    (NVIDIA/cudnn-frontend#614).
    """
    launch, other = new_stream(), new_stream()
    with torch.cuda.stream(launch):
        cold, workspace = kit.call(seed=1), kit.workspace()
    kit.execute(cold, workspace, launch)
    with torch.cuda.stream(other):
        warm, second = kit.call(seed=2), kit.workspace()
    if kit.planted:
        second = workspace
    kit.execute(warm, second, other)
    for call, stream in ((cold, launch), (warm, other)):
        with torch.cuda.stream(stream):
            kit.check(call)


def captured(kit: Kit) -> None:
    """The first execute is captured; replays have other lengths and cleared outputs.

    The planted twin rewrites the lengths while a replay may still read them.
    """
    side = new_stream()
    call, workspace = kit.call(), kit.workspace()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        kit.execute(call, workspace, torch.cuda.current_stream())
    for number, lengths in enumerate((LENGTHS, OTHER_LENGTHS, LENGTHS)):
        if number:
            _set(call, lengths)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            graph.replay()
        if not kit.planted:
            torch.cuda.current_stream().wait_stream(side)
        kit.check(call, lengths, what=f"replay with {lengths}")


def _set(call: Call, lengths: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """Give a call other lengths and factors, and clear its outputs.

    Everything goes to the current stream.
    """
    for there, counts in zip((call.lengths_q, call.lengths_kv), lengths, strict=True):
        there.copy_(torch.from_numpy(seq.to_prefix(counts)))
    call.out.fill_(torch.nan)
    call.lse.fill_(torch.nan)
    for name, there in call.scalars.items():
        if name == "amax":
            there.fill_(STALE)
        else:
            there.mul_(1.5)


SITUATIONS: dict[str, Situation] = {
    function.__name__.replace("_", "-"): function
    for function in (
        current_is_launch,
        current_differs,
        current_unordered,
        raw_handles,
        external_stream,
        two_streams,
        two_threads,
        scratch_freed_in_use,
        cold_first_call,
        captured,
    )
}
"""By the name on the command line."""
