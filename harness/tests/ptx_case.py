"""Execute a small kernel given as PTX statements, on numpy inputs, for the tests."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from text_launch import execute_text

from sidestream.harness.exec import abi
from sidestream.harness.exec.machine import Options, Result
from sidestream.harness.exec.observer import Observer
from sidestream.harness.exec.program import lower
from sidestream.harness.ptx.decode import decode
from sidestream.harness.ptx.parser import parse

_HEAD = """.version 9.0
.target {target}
.address_size 64
{module}
.visible .entry k(.param .u64 buf0, .param .u64 buf1, .param .u64 buf2)
{{
.reg .pred %p<16>;
.reg .b16 %h<16>;
.reg .b32 %r<64>;
.reg .f32 %f<16>;
.reg .b64 %rd<32>;
.reg .f64 %fd<8>;
.reg .b128 %q<8>;
{declare}
ld.param.u64 %rd0, [buf0];
ld.param.u64 %rd1, [buf1];
ld.param.u64 %rd2, [buf2];
mov.u32 %r0, %tid.x;
mov.u32 %r1, %laneid;
"""


@dataclass
class Case:
    """Statements and how to launch them; `%rd0..2` hold buffers, `%r0` the thread."""

    body: str
    declare: str = ""
    module: str = ""
    target: str = "sm_120a"
    threads: int = 32
    grid: int = 1
    cluster: int = 1
    dynamic_smem: int = 0
    options: Options = field(default_factory=Options)
    flags: int = abi.ALLOC_READ | abi.ALLOC_WRITE
    init: NDArray[np.uint8] | None = None
    """Init map of buffer 0, if it has one."""
    observer: Observer | None = None

    def run(self, *buffers: NDArray[np.generic]) -> Result:
        """Execute; the buffers are read and written in place."""
        program, result = execute_text(
            self._text(),
            buffers,
            grid=self.grid,
            block=self.threads,
            cluster=(self.cluster, 1, 1),
            dynamic_smem=self.dynamic_smem,
            params=3,
            flags=self.flags,
            init=self.init,
            options=self.options,
            observer=self.observer,
        )
        assert result.status != "unsupported", program.unsupported
        return result

    def unsupported(self) -> str:
        """Reasons for what cannot be executed."""
        program = lower(decode(parse(self._text())))
        return " | ".join(reason for _, reason in program.unsupported)

    def _text(self) -> str:
        head = _HEAD.format(
            target=self.target, module=self.module, declare=self.declare
        )
        return f"{head}{self.body}\nret;\n}}\n"

    def clean(self, *buffers: NDArray[np.generic]) -> Result:
        """Execute and require that nothing went wrong."""
        result = self.run(*buffers)
        assert result.status == "done", (result.status, result.waiting)
        assert not result.faults, result.faults
        return result

    def faulty(self, kind: str, *buffers: NDArray[np.generic]) -> Result:
        """Execute and require faults, all of one kind."""
        result = self.run(*buffers)
        assert result.faults, result.status
        assert {f.kind for f in result.faults} == {kind}, result.faults
        return result
