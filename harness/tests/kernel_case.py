"""Execute a few PTX instructions on numpy arrays: the tests' way into the virtual GPU.

`run_kernel` writes a kernel around a body, one thread per array element, and takes it
through parse, decode, lower and execute. `evaluate` does the same and insists that
the kernel finished without a fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike
from text_launch import Array, Dims, execute_text

from sidestream.harness.exec.machine import Options, Result
from sidestream.harness.exec.program import Program

PRED = "pred"
"""Type of an output that is a predicate; read as uint32 0 or 1."""


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What executing a case gave.

    Attributes:
        outputs: Output registers of every thread, by name.
        buffers: The buffers after the run, by name.
        result: Status, faults and counters of the execution.
        program: The lowered kernel, for its `unsupported` list and rows.
    """

    outputs: dict[str, Array]
    buffers: dict[str, Array]
    result: Result
    program: Program


def _register(name: str, dtype: np.dtype[np.generic]) -> str:
    """Declaration of the register that holds one element."""
    return f".reg .b{max(dtype.itemsize, 2) * 8} %{name};"


def _access(dtype: np.dtype[np.generic]) -> str:
    """Type of the load or store of one element."""
    return f"b{dtype.itemsize * 8}"


def _lines(
    body: str,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, np.dtype[np.generic] | str],
    buffers: Sequence[str],
    threads: int,
    shape: tuple[int, int],
) -> list[str]:
    """The statements of the kernel's body."""
    lines = [
        ".reg .pred %kc_out;",
        ".reg .b32 %thread, %kc_tid, %kc_cta, %kc_flag;",
        ".reg .b64 %kc_base, %kc_at;",
        "mov.u32 %kc_tid, %tid.x;",
        "mov.u32 %kc_cta, %ctaid.x;",
        f"mad.lo.s32 %thread, %kc_cta, {shape[1]}, %kc_tid;",
    ]
    for name in buffers:
        lines += [f".reg .b64 %{name};", f"ld.param.b64 %{name}, [kc_{name}];"]
    for name, value in outputs.items():
        if value == PRED:
            lines.append(f".reg .pred %{name};")
        elif name not in inputs:
            lines.append(_register(name, np.dtype(value)))
    lines += [_register(name, array.dtype) for name, array in inputs.items()]
    if shape[0] * shape[1] != threads:
        lines += [f"setp.ge.u32 %kc_out, %thread, {threads};", "@%kc_out exit;"]
    for name, array in inputs.items():
        size = array.dtype.itemsize
        lines += [
            f"ld.param.b64 %kc_base, [kc_in_{name}];",
            f"mad.wide.u32 %kc_at, %thread, {size}, %kc_base;",
            f"ld.global.{_access(array.dtype)} %{name}, [%kc_at];",
        ]
    lines += ["{", body, "}"]
    for name, value in outputs.items():
        dtype = np.dtype(np.uint32 if value == PRED else value)
        register = name
        if value == PRED:
            lines.append(f"selp.b32 %kc_flag, 1, 0, %{name};")
            register = "kc_flag"
        lines += [
            f"ld.param.b64 %kc_base, [kc_out_{name}];",
            f"mad.wide.u32 %kc_at, %thread, {dtype.itemsize}, %kc_base;",
            f"st.global.{_access(dtype)} [%kc_at], %{register};",
        ]
    return [*lines, "exit;"]


def kernel_text(
    body: str,
    *,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, np.dtype[np.generic] | str],
    buffers: Sequence[str] = (),
    threads: int,
    shape: tuple[int, int],
    target: str = "sm_120a",
    module: str = "",
    directives: str = "",
) -> str:
    """PTX of the module that `run_kernel` executes.

    Args:
        body: Statements; input `x` is register `%x`, output `d` register `%d`,
            buffer `buf` the 64-bit address `%buf`, and `%thread` the thread's number.
        inputs: Arrays of one element a thread.
        outputs: Dtype (or `PRED`) of each output; one that is an input too starts
            with the input's value.
        buffers: Names of the buffers.
        threads: Threads with an element; later ones exit at once.
        shape: CTAs, and threads of a CTA.
        target: The `.target`.
        module: Text before the entry, such as module variables.
        directives: Performance directives of the entry.
    """
    params = [f"kc_{name}" for name in buffers]
    params += [f"kc_in_{name}" for name in inputs]
    params += [f"kc_out_{name}" for name in outputs]
    lines = _lines(body, inputs, outputs, buffers, threads, shape)
    return "\n".join(
        [
            f".version 9.0\n.target {target}\n.address_size 64",
            module,
            ".visible .entry kernel_case(",
            ",\n".join(f"  .param .u64 {p}" for p in params),
            f")\n{directives}\n{{",
            *lines,
            "}\n",
        ]
    )


def run_kernel(
    body: str,
    *,
    inputs: Mapping[str, Array] | None = None,
    outputs: Mapping[str, DTypeLike] | None = None,
    buffers: Mapping[str, Array] | None = None,
    threads: int | None = None,
    block: int = 128,
    cluster: Dims = (1, 1, 1),
    dynamic_smem: int = 0,
    options: Options | None = None,
    target: str = "sm_120a",
    module: str = "",
    directives: str = "",
) -> Ran:
    """Execute `body` once per thread.

    See `kernel_text` for what the body may name. `block` is threads of a CTA (x
    only); the grid is as long as `threads` needs, and `threads` defaults to the
    length of the inputs. Outputs of threads that exit early stay zero.
    """
    given = {n: np.ascontiguousarray(a) for n, a in (inputs or {}).items()}
    wanted: dict[str, np.dtype[np.generic] | str] = {
        n: PRED if isinstance(t, str) and t == PRED else np.dtype(t)
        for n, t in (outputs or {}).items()
    }
    held = {n: np.array(a) for n, a in (buffers or {}).items()}
    if threads is None:
        threads = max((len(a) for a in given.values()), default=block)
    if any(len(a) != threads for a in given.values()):
        raise ValueError(f"inputs of {threads} threads differ in length")
    shape = (-(-threads // block), block)
    text = kernel_text(
        body,
        inputs=given,
        outputs=wanted,
        buffers=list(held),
        threads=threads,
        shape=shape,
        target=target,
        module=module,
        directives=directives,
    )
    results = {
        n: np.zeros(threads, np.uint32 if t == PRED else t) for n, t in wanted.items()
    }
    arrays = [*held.values(), *given.values(), *results.values()]
    program, result = execute_text(
        text,
        arrays,
        grid=shape[0],
        block=block,
        cluster=cluster,
        dynamic_smem=dynamic_smem,
        options=options,
    )
    return Ran(outputs=results, buffers=held, result=result, program=program)


def evaluate(
    body: str,
    outputs: Mapping[str, DTypeLike],
    /,
    *,
    target: str = "sm_120a",
    block: int = 128,
    options: Options | None = None,
    **inputs: Array,
) -> dict[str, Array]:
    """Outputs of every thread, after checking that nothing went wrong.

    Raises:
        AssertionError: if an instruction has no semantics, the kernel did not finish,
            or a fault was recorded.
    """
    ran = run_kernel(
        body,
        inputs=inputs,
        outputs=outputs,
        block=block,
        options=options,
        target=target,
    )
    assert not ran.program.unsupported, ran.program.unsupported
    assert ran.result.status == "done", ran.result
    assert not ran.result.faults, ran.result.faults
    return ran.outputs
