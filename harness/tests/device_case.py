"""Launch small PTX kernels on the virtual GPU, for the tests of what it reports."""

from __future__ import annotations

from sidestream.harness.cuda.memory import Allocation, AllocationTable
from sidestream.harness.device.outcome import Outcome
from sidestream.harness.device.vgpu import run_launch
from sidestream.harness.exec.machine import Options
from sidestream.harness.launch import Launch

_HEAD = """.version 9.0
.target {target}
.address_size 64
{module}
.visible .entry k(.param .u64 buf)
{{
.reg .pred %p<8>;
.reg .b32 %r<16>;
.reg .b64 %rd<16>;
{declare}
ld.param.u64 %rd0, [buf];
mov.u32 %r0, %tid.x;
"""


def text_of(body: str, *, declare: str = "", module: str = "", target: str = "sm_120a"):
    """PTX of an entry `k` whose buffer is in `%rd0` and thread in `%r0`."""
    head = _HEAD.format(target=target, module=module, declare=declare)
    return f"{head}{body}\nret;\n}}\n"


def line_of(text: str, needle: str) -> int:
    """1-based line of the first occurrence."""
    return text[: text.index(needle)].count("\n") + 1


def launch_of(text: str, address: int, *, threads: int = 32, grid: int = 1) -> Launch:
    """One launch of the entry `k` of `text`."""
    return Launch(
        kernel="k",
        ptx=text,
        grid=(grid, 1, 1),
        block=(threads, 1, 1),
        params=(address.to_bytes(8, "little"),),
    )


def run(
    text: str, table: AllocationTable, buffer: Allocation, *, offset: int = 0, **how
) -> Outcome:
    """Execute `text` on a buffer; `how` is options, `threads` or `grid`."""
    shape = {name: how.pop(name) for name in ("threads", "grid") if name in how}
    launch = launch_of(text, buffer.va + offset, **shape)
    return run_launch(launch, table, Options(**how))
