"""Settings of torch's caching allocator: which of them would change what is reused.

torch notes, "CUDA semantics", "Optimizing memory usage with PYTORCH_CUDA_ALLOC_CONF".
The allocator here has the rules of the defaults. A program with others runs all the
same; that its reuse of memory was judged by the defaults leaves the run incomplete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from sidestream.harness.vtorch.attributes import Change
from sidestream.harness.vtorch.world import World

_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
_DEFAULTS = {"expandable_segments": "false", "backend": "native"}
"""Settings that say what holds anyway."""
_HARMLESS = {
    *("release_lock_on_cudamalloc", "release_lock_on_hipmalloc"),
    *("pinned_use_cuda_host_register", "pinned_num_register_threads"),
    "pinned_use_background_threads",
}
"""Settings that change how long a call takes, and not which memory it gives."""


def of_environment(variables: Mapping[str, str]) -> list[str]:
    """Return why a run with such environment variables is not judged wholly."""
    return [
        reason
        for name in _VARIABLES
        for reason in unmodelled(name, variables.get(name, ""))
    ]


def unmodelled(origin: str, text: str) -> list[str]:
    """Return what has no model in a text of settings, `NAME:VALUE,NAME:VALUE`.

    A value may be a list in brackets.
    """
    depth, settings = 0, [""]
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and not depth:
            settings.append("")
        else:
            settings[-1] += letter
    found = []
    for setting in settings:
        name, _, value = (part.strip() for part in setting.partition(":"))
        default = _DEFAULTS.get(name)
        if name and name not in _HARMLESS and value.lower() != default:
            found.append(
                f"{origin}: {setting.strip()} has no model on the virtual GPU, where "
                "the caching allocator has its default settings; without it the run "
                "is judged wholly"
            )
    return found


def changes(world: World) -> Iterator[Change]:
    """Yield the call that gives the allocator settings."""
    core: Any = torch._C
    give = core._accelerator_setAllocatorSettings

    def given(settings: str) -> Any:
        result = give(settings)  # which knows what it does not take
        for reason in unmodelled("allocator settings", settings):
            world.runtime.leave_open(reason)
        return result

    yield core, "_accelerator_setAllocatorSettings", given
