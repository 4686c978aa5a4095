"""Run a case on the virtual GPU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hw_case import TARGET, Case, MapSpec
from numpy.typing import NDArray

from sidestream.harness.exec import abi
from sidestream.harness.exec.machine import Options, Result, execute
from sidestream.harness.exec.program import lower
from sidestream.harness.launch import Launch
from sidestream.harness.ptx.decode import decode
from sidestream.harness.ptx.parser import parse

# tensormap.replace's element types, with TF32 as a flag on the f32 ones.
_TYPES = {
    name: number
    for number, name in enumerate(
        (
            *("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32.ftz"),
            *("f64", "bf16"),
        )
    )
}
_BASE = 0x7000_0000_0000
_SPACING = 1 << 28


def map_bytes(spec: MapSpec, base: int, *, version: int = 0) -> bytes:
    """The 128 bytes of a tensor map, from the fields' places."""
    tf32 = spec.dtype.startswith("tf32")
    kind = _TYPES[spec.dtype.replace("tf32", "f32") if tf32 else spec.dtype]
    words = np.zeros(32, np.uint64)
    address = base + spec.offset
    words[0], words[1] = address & 0xFFFF_FFFF, address >> 32
    words[2] = (
        version
        | (len(spec.dims) - 1) << 4
        | kind << 7
        | spec.swizzle << 13
        | spec.fill << 15
        | int(tf32) << 16
    )
    for d, stride in enumerate(spec.strides):
        words[3 + d] = stride >> 4 & 0xFFFF_FFFF
        words[7] |= np.uint64((stride >> 36) << (4 * d))
    for d, extent in enumerate(spec.dims):
        words[8 + d] = extent - 1
    steps = spec.steps or (1,) * len(spec.dims)
    for d, step in enumerate(steps):
        words[13] |= np.uint64((step - 1) << (3 * d))
    words[13] |= np.uint64((spec.box[0] - 1) << 24)
    for d, box in enumerate(spec.box[1:]):
        words[14] |= np.uint64((box - 1) << (8 * d))
    return words.astype(np.uint32).tobytes()


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What executing a case gave: its result buffers and the machine's result."""

    outputs: list[NDArray[np.uint8]]
    result: Result


def execute_case(case: Case, *, seed: int = 0) -> Ran:
    """Execute the case, whatever comes of it.

    Raises:
        AssertionError: if an instruction has no semantics.
    """
    buffers = [b.copy() for b in case.buffers]
    table = np.zeros(len(buffers), abi.ALLOC_DTYPE)
    flags = abi.ALLOC_READ | abi.ALLOC_WRITE
    at = [_BASE + k * _SPACING for k in range(len(buffers))]
    for k, buffer in enumerate(buffers):
        table[k] = (at[k], buffer.nbytes, buffer.ctypes.data, 0, k, flags)
    program = lower(decode(parse(case.text)), dynamic_smem=case.smem)
    assert not program.unsupported, program.unsupported[:3]
    assert program.function.target == TARGET
    params = [a.to_bytes(8, "little") for a in at]
    params += [map_bytes(m, at[m.buffer]) for m in case.maps]
    launch = Launch(
        kernel="k",
        ptx=case.text,
        grid=(case.grid, 1, 1),
        block=(case.block, 1, 1),
        dynamic_smem=case.smem,
        params=tuple(params),
    )
    result = execute(program, launch, table, Options(seed=seed))
    return Ran(outputs=[buffers[n] for n in case.outputs], result=result)


def run(case: Case, *, seed: int = 0) -> list[NDArray[np.uint8]]:
    """Result buffers of the case.

    Raises:
        AssertionError: if an instruction has no semantics, the kernel did not finish,
            or a fault was recorded.
    """
    ran = execute_case(case, seed=seed)
    assert ran.result.status == "done", (ran.result.status, ran.result.waiting[:2])
    assert not ran.result.faults, ran.result.faults[:3]
    return ran.outputs
