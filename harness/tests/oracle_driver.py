"""An implementation that knows the answer: the reference, stored by a small kernel.

It takes the path of a real one through plan, capture and virtual GPU without needing
more than loads and stores, and its mutants break one promise each.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from sidestream.harness.cuda.virtual_cuda import VirtualCuda
from sidestream.harness.drivers.protocol import CallTensors, Problem, Results
from sidestream.harness.dsl.capture import Capture
from sidestream.harness.launch import Launch
from sidestream.harness.run.card_world import CardWorld
from sidestream.harness.runtime import Effects, Span, here
from sidestream.harness.runtime.spans import strided
from sidestream.reference import attention as reference
from sidestream.reference import lengths as seq
from sidestream.reference import narrow

SCATTER = """.version 9.0
.target sm_120a
.address_size 64
.visible .entry scatter{size}(.param .u64 src, .param .u64 where, .param .u64 dst,
                        .param .u32 n)
{{
.reg .pred %p;
.reg .b16 %h;
.reg .b32 %r<8>;
.reg .b64 %rd<8>;
ld.param.u64 %rd0, [src];
ld.param.u64 %rd1, [where];
ld.param.u64 %rd2, [dst];
ld.param.u32 %r0, [n];
mov.u32 %r1, %tid.x;
mov.u32 %r2, %ctaid.x;
mad.lo.u32 %r3, %r2, 128, %r1;
setp.ge.u32 %p, %r3, %r0;
@%p bra DONE;
mul.wide.u32 %rd3, %r3, 4;
add.s64 %rd4, %rd1, %rd3;
ld.global.u32 %r4, [%rd4];
mul.wide.u32 %rd5, %r3, {size};
add.s64 %rd5, %rd0, %rd5;
cvt.u64.u32 %rd6, %r4;
add.s64 %rd6, %rd2, %rd6;
ld.global.{type} {register}, [%rd5];
st.global.{type} [%rd6], {register};
DONE:
ret;
}}
"""
"""Stores element i of `src` at byte `where[i]` of `dst`."""

BITS = SCATTER.format(size=2, type="u16", register="%h")
WORDS = SCATTER.format(size=4, type="u32", register="%r5")


def numbers(tensor: torch.Tensor, dtype: str) -> np.ndarray:
    """Values of a 16-bit device tensor, read below torch's sight."""
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        bits = tensor.view(torch.int16).numpy().view(np.uint16)
    return narrow.from_bits(np.ascontiguousarray(bits), narrow.by_name(dtype))


def ints(tensor: torch.Tensor) -> np.ndarray:
    """Values of an int32 device tensor."""
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        return tensor.numpy().copy()


@dataclass
class Oracle:
    """A driver; `prepared` makes its calls, so that mutants subclass that."""

    make: type[PreparedOracle]
    name: str = "sidestream"
    declines: str | None = None
    streamed: type[StreamedOracle] | None = None
    made: list[PreparedOracle] = field(default_factory=list)

    def supports(self, problem: Problem, arch: str) -> str | None:
        return self.declines

    def prepare(self, problem: Problem, world: VirtualCuda) -> PreparedOracle:
        if isinstance(world, CardWorld):
            return (self.streamed or StreamedOracle)(problem=problem, world=world)
        made = self.make(problem=problem, world=world)
        self.made.append(made)
        return made


@dataclass(kw_only=True)
class PreparedOracle:
    """Computes the reference from the call's tensors and has a kernel store it."""

    problem: Problem
    world: VirtualCuda
    workspace_bytes: int = 256

    def answer(self, tensors: CallTensors) -> reference.Attention:
        p = self.problem
        sinks = None
        if tensors.sinks is not None:
            with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
                sinks = tensors.sinks.numpy().copy()
        return reference.attention(
            reference.Problem(
                q=numbers(tensors.q, p.dtype),
                k=numbers(tensors.k, p.dtype),
                v=numbers(tensors.v, p.dtype),
                seq_q=self.segments(tensors.lengths_q, p.lengths_q_form),
                seq_kv=self.segments(tensors.lengths_kv, p.lengths_kv_form),
                causal=p.causal,
                window_left=p.window_left,
                window_right=p.window_right,
                anchor=p.diagonal,
                sinks=sinks,
                scale=p.scale,
            )
        )

    def segments(self, lengths: torch.Tensor, form: str) -> seq.Segments:
        return seq.declared(ints(lengths), form=form)

    def rows(self, tensors: CallTensors) -> np.ndarray:
        """Tokens whose results are stored."""
        live = self.segments(tensors.lengths_q, self.problem.lengths_q_form).total
        return np.arange(live)

    def execute(self, tensors: CallTensors, workspace: torch.Tensor) -> Results:
        """Make a call; what the oracle does on the host is part of its kernel."""
        if not torch.cuda.is_current_stream_capturing():
            return self.call(tensors)
        made: list[Results] = []
        self.world.runtime.enqueue(
            kind="launch",
            label="oracle",
            stream=self.world.runtime.adopt_stream(self.world.stream.cuda_stream),
            run=lambda: made.append(self.call(tensors)),
        )
        return self.results(tensors)

    def results(self, tensors: CallTensors) -> Results:
        lse = tensors.lse
        if lse is not None and self.problem.lse == "head_major":
            lse = lse[:, : tensors.q.shape[0]].t()
        return Results(out=tensors.out, lse=lse, returned=False)

    def call(self, tensors: CallTensors) -> Results:
        answer, rows = self.answer(tensors), self.rows(tensors)
        bits = narrow.to_bits(answer.out, narrow.by_name(self.problem.dtype))
        self.store(BITS, bits, tensors.out, rows, tensors.out.stride())
        made = self.results(tensors)
        if made.lse is not None:
            values = answer.lse.astype(np.float32)
            self.store(WORDS, values, made.lse, rows, made.lse.stride())
        return made

    def store(self, ptx, values, target, rows, strides) -> None:
        """Launch the kernel that stores `values[rows]` into `target`."""
        size = values.dtype.itemsize
        where = np.zeros(values.shape, np.int64)
        for axis, stride in enumerate(strides):
            shape = [1] * values.ndim
            shape[axis] = -1
            where += (np.arange(values.shape[axis]) * stride).reshape(shape)
        picked, places = values[rows].reshape(-1), where[rows].reshape(-1) * size
        if not picked.size:
            return
        table = self.world.table
        src = table.allocate(picked.nbytes, "answer")
        src.data[:] = picked.view(np.uint8)
        at = table.allocate(4 * places.size, "places")
        at.data[:] = places.astype(np.uint32).view(np.uint8)
        self.launch(ptx, src.va, at.va, target.data_ptr(), picked.size)
        table.free(src)
        table.free(at)

    def launch(self, ptx: str, src: int, where: int, dst: int, count: int) -> None:
        Capture._stack[-1]._on_launch(
            Launch(
                kernel="scatter2" if ptx is BITS else "scatter4",
                ptx=ptx,
                grid=(-(-count // 128), 1, 1),
                block=(128, 1, 1),
                stream=self.world.stream.cuda_stream,
                params=tuple(
                    v.to_bytes(n, "little")
                    for v, n in ((src, 8), (where, 8), (dst, 8), (count, 4))
                ),
            )
        )


class StreamedOracle(PreparedOracle):
    """Has an operation of the call's stream compute and store the answer.

    The operation reads what it finds when it lands, in a replay too.
    """

    def execute(self, tensors: CallTensors, workspace: torch.Tensor) -> Results:
        lse = tensors.lse
        if lse is not None and self.problem.lse == "head_major":
            lse = lse[:, : tensors.q.shape[0]].t()

        def run() -> Effects:
            return self.land(tensors, lse)

        self.enqueue(run)
        return Results(out=tensors.out, lse=lse, returned=False)

    def enqueue(self, run, handle: int | None = None) -> None:
        runtime = Capture._stack[-1]._on_launch.runtime
        if handle is None:
            handle = self.world.stream.cuda_stream
        runtime.enqueue(
            kind="launch",
            label="oracle",
            stream=runtime.stream(handle, device=0),
            run=run,
            site=here(),
            device=0,
        )

    def land(self, tensors: CallTensors, lse: torch.Tensor | None) -> Effects:
        answer, rows = self.answer(tensors), self.rows(tensors)
        bits = narrow.to_bits(answer.out, narrow.by_name(self.problem.dtype))
        pairs = [(tensors.out.view(torch.int16), bits.view(np.int16))]
        if lse is not None:
            pairs.append((lse, answer.lse.astype(np.float32)))
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            for target, values in pairs:
                target.numpy()[rows] = values[rows]
            wrote = [span for target, _ in pairs for span in spans(target[: len(rows)])]
            read = [s for t in self.inputs(tensors) for s in spans(t)]
        return Effects(reads=tuple(read), writes=tuple(wrote))

    def inputs(self, tensors: CallTensors) -> list[torch.Tensor]:
        given = (tensors.q, tensors.k, tensors.v, tensors.sinks)
        lengths = (tensors.lengths_q, tensors.lengths_kv)
        return [tensor for tensor in (*given, *lengths) if tensor is not None]


def spans(tensor: torch.Tensor) -> tuple[Span, ...]:
    """Bytes of a device tensor."""
    return strided(
        tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.element_size()
    )
