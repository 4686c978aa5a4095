"""Host memory for a card, and an implementation made of numpy.

What a card would do to memory is done here by `Made`; the checks see only bytes.
"""

import contextlib
import copy

import numpy as np
import torch

from sidestream.harness.cuda.card_log import CardLog
from sidestream.harness.drivers.protocol import Results
from sidestream.harness.launch import Launch
from sidestream.harness.run.card_world import Card, CardWorld
from sidestream.kernels.protocol import CacheInfo
from sidestream.reference import narrow
from sidestream.reference.attention import attention
from sidestream.scenarios.case import build


class Stream:
    def __init__(self, handle, world):
        self.cuda_stream, self.world = handle, world

    def query(self):
        return self.world.stalled is not self


class Launched:
    """Tells of one launch a call, on the stream that a deed chose."""

    def __init__(self):
        self.told, self.stream = None, None

    @contextlib.contextmanager
    def watched(self, on_launch, on_block):
        self.told = on_launch
        yield
        self.told = None


DSL = Launched()


class HostWorld(CardWorld):
    """Streams whose work waits while they are stalled; `put` gives them work."""

    def setup(self):
        self.stream, self.current = Stream(7, self), Stream(0, self)
        self.stalled, self.late, self.dsl = None, [], DSL
        return self

    def put(self, stream, work):
        (self.late.append if self.stalled is stream else lambda w: w())(work)

    @contextlib.contextmanager
    def on(self, stream):
        before, self.current = self.current, stream
        yield
        self.current = before

    def another_stream(self):
        return Stream(8, self)

    def current_handle(self):
        # `Made` computes where its launch would: on the stream of the call.
        return self.stream.cuda_stream

    def blocking(self, handle):
        return False

    def memory(self):
        raise MemoryError("nothing to be executed")

    def stall(self, cycles):
        # The call's own work is done at once all the same: only `put` is late.
        self.stalled = self.current

    def capture(self, call):
        return call, call()

    def wait(self):
        self.stalled = None
        for work in self.late:
            work()
        self.late.clear()


def host_world(kind=HostWorld):
    return kind(
        device=torch.device("cpu"), stream=None, chip=Card(arch="sm_90a", sms=4)
    ).setup()


class Made:
    """Stores the reference of a scenario, then does `deed` to the tensors."""

    name = "sidestream"

    def __init__(self, scenario, deed=lambda tensors, scratch: None, keyed=False):
        self.scenario, self.deed, self.keyed = scenario, deed, keyed
        self.keys, self.hits = set(), 0
        self.launch_stream, self.waits, self.whole = None, False, False

    def supports(self, problem, arch):
        return None

    def compile_key(self, problem, arch):
        return problem.dtype

    def cache_info(self):
        return CacheInfo(hits=self.hits, misses=len(self.keys))

    def _compile(self, key):
        if key in self.keys:
            self.hits += 1
        self.keys.add(key)

    def prepare(self, problem, world):
        self._compile(problem.capacity_q if self.keyed else problem.dtype)
        made = copy.copy(self)
        made.world, made.problem = world, problem
        return made

    workspace_bytes = 128

    def execute(self, tensors, workspace):
        case, problem = self.scenario, self.problem
        if self.waits:
            self.world.stalled = None
        stream = self.launch_stream
        told = self.world.dsl.told
        if told is not None:
            told(
                Launch(
                    kernel="made",
                    ptx="",
                    grid=(1, 1, 1),
                    block=(1, 1, 1),
                    stream=self.world.stream.cuda_stream if stream is None else stream,
                )
            )
        if problem.lengths_q == case.lengths_q:
            inputs = build(case)
            for name in ("q", "k", "v"):
                bits = getattr(tensors, name).contiguous().view(torch.uint16).numpy()
                inputs.array(getattr(inputs, name))[:] = bits
            inputs.lengths_q[:] = tensors.lengths_q.numpy()
            inputs.lengths_kv[:] = tensors.lengths_kv.numpy()
            result = attention(inputs.problem())
            bits = narrow.to_bits(result.out, narrow.by_name(case.dtype))
            rows = slice(0, int(inputs.problem().seq_q.lengths.sum()))
            made = torch.from_numpy(bits.view(np.int16)).view(problem.torch_dtype)
            tensors.out[rows] = made[rows]
            if tensors.lse is not None:
                tensors.lse[rows] = torch.from_numpy(result.lse).float()[rows]
        given = (self,) if self.whole else ()
        self.deed(*given, tensors, workspace)
        return Results(out=tensors.out, lse=tensors.lse, returned=False)


class NoLog(CardLog):
    """Watches the order of a call and leaves out the host."""

    WHY = ""

    def __init__(self, **facts):
        super().__init__(**facts)
        self.unaudited = self.WHY
        self.order_of_call = contextlib.ExitStack()

    def block(self, call, stream):
        pass

    def __enter__(self):
        self._ordering, self.order = self.order, None
        if self._ordering is not None:
            self.order_of_call.enter_context(self._ordering.watching())

    def __exit__(self, *error):
        self._ordering = None
        return self.order_of_call.__exit__(*error)
