"""Every implementation is driven to its launches over virtual device memory."""

import math
import sys

import numpy as np
import pytest
import torch

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.cuda.virtual_cuda import POISON, VirtualCuda
from sidestream.harness.drivers.fa4 import prefix_sums
from sidestream.harness.drivers.protocol import CallTensors, Problem
from sidestream.harness.drivers.registry import DRIVERS, driver
from sidestream.harness.drivers.triton_stand_in import triton_importable
from sidestream.harness.dsl.activation import activate
from sidestream.harness.dsl.capture import Capture
from sidestream.harness.errors import UnsupportedError, UsageError

STREAM = 0x5EED


def problem(**changes):
    facts = {
        "dtype": "bfloat16",
        "heads_q": 4,
        "heads_kv": 2,
        "head_dim": 64,
        "max_len_q": 130,
        "max_len_kv": 130,
        "lengths_q": (70, 0, 130),
        "lengths_kv": (70, 0, 130),
        "capacity_q": 205,
        "capacity_kv": 205,
        "causal": "bottom_right",
        "lse": "token_major",
        "lengths_q_form": "prefix",
        "lengths_kv_form": "prefix",
        "scale": 0.125,
    }
    facts |= changes
    facts.setdefault("head_dim_v", facts["head_dim"])
    return Problem(**facts)


class Call:
    """A problem's tensors in a fresh world."""

    def __init__(self, world, p):
        shape = (p.capacity_q, p.heads_q, p.head_dim)
        keys = (p.capacity_kv, p.heads_kv, p.head_dim)
        values_shape = (p.capacity_kv, p.heads_kv, p.head_dim_v)
        out_shape = (p.capacity_q, p.heads_q, p.head_dim_v)
        rng = torch.Generator().manual_seed(0)

        def values(name, size):
            made = torch.randn(size, generator=rng).to(p.torch_dtype)
            return world.upload(made, name)

        lse_shape = (p.capacity_q, p.heads_q)
        if p.lse == "head_major":
            lse_shape = lse_shape[::-1]
        lengths = {
            "prefix": prefix_sums,
            "counts": lambda n: torch.tensor(n, dtype=torch.int32),
        }
        self.tensors = CallTensors(
            q=values("q", shape),
            k=values("k", keys),
            v=values("v", values_shape),
            out=world.upload(torch.zeros(out_shape, dtype=p.torch_out_dtype), "out"),
            lse=world.upload(torch.zeros(lse_shape), "lse")
            if p.lse != "none"
            else None,
            lengths_q=world.upload(lengths[p.lengths_q_form](p.lengths_q), "lq"),
            lengths_kv=world.upload(lengths[p.lengths_kv_form](p.lengths_kv), "lkv"),
            sinks=world.upload(torch.zeros(p.heads_q), "sinks") if p.sinks else None,
            descales=tuple(
                world.upload(torch.full((1,), factor), "descale")
                for factor in p.descales
            )
            if p.descales
            else None,
        )

    @staticmethod
    def workspace(world, size):
        made = world.table.allocate(size, "workspace").tensor(torch.uint8, (size,))
        world.publish()
        return made


@pytest.fixture(scope="module")
def device():
    return activate(arch="sm_120a")


@pytest.fixture
def world(device):
    with VirtualCuda(device, AllocationTable(), stream=STREAM) as world:
        yield world


def installed(name):
    package = {"fa4": "flash_attn.cute", "cudnn": "cudnn"}.get(name)
    if package:
        pytest.importorskip(package.split(".")[0], reason=f"{name} is not installed")


def launches_of(name, world, p):
    prepared = driver(name).prepare(p, world)
    call = Call(world, p)
    scratch = call.workspace(world, prepared.workspace_bytes)
    got = []
    with Capture(got.append):
        results = prepared.execute(call.tensors, scratch)
    return got, call, results


@pytest.mark.parametrize("name", DRIVERS)
def test_the_launches_arrive_with_the_callers_addresses(world, name):
    installed(name)
    p = problem()
    assert driver(name).supports(p, "sm_120a") is None
    got, call, results = launches_of(name, world, p)
    assert got
    main = got[-1]
    assert {launch.stream for launch in got} == {STREAM}
    assert ".target sm_120a" in main.ptx
    blob = b"".join(b"".join(launch.params) for launch in got)
    for tensor in (call.tensors.q, call.tensors.k, call.tensors.v, results.out):
        assert np.uint64(tensor.data_ptr()).tobytes() in blob
    assert results.out.shape == call.tensors.q.shape
    assert results.lse.shape == (p.capacity_q, p.heads_q)
    assert world.holds(results.out)
    assert results.returned == (name == "fa4")
    if not results.returned:
        assert results.out.data_ptr() == call.tensors.out.data_ptr()
    else:
        assert (results.out.view(torch.int16) == -1).all(), "fresh memory is poisoned"


@pytest.mark.parametrize("name", DRIVERS)
def test_other_lengths_need_no_other_compilation(device, world, name):
    installed(name)
    launches_of(name, world, problem())
    mark = device.compiles.mark()
    lengths = (1, 128, 33)
    launches_of(
        name,
        world,
        problem(lengths_q=lengths, lengths_kv=lengths, capacity_q=170, capacity_kv=162),
    )
    assert device.compiles.since(mark) == ()


def test_a_problem_knows_its_batch_and_diagonal():
    p = problem()
    assert p.batch == 3
    assert p.diagonal == "bottom_right"
    assert problem(causal="none").diagonal is None
    assert problem(causal="none", window_left=3).diagonal == "top_left"
    assert prefix_sums((3, 0, 4)).tolist() == [0, 3, 3, 7]


DECLINED = [
    ("fa4", {"sinks": True}, "no sinks"),
    ("fa4", {"head_dim": 96}, "head dims"),
    ("fa4", {"scale": -1.0}, "positive scale"),
    (
        "fa4",
        {"causal": "top_left", "lengths_kv": (80, 0, 130)},
        "follow the bottom right",
    ),
    ("cudnn", {"head_dim": 8}, "head dims"),
    (
        "cudnn",
        {
            "causal": "none",
            "window_left": 3,
            "anchor": "bottom_right",
            "lengths_kv": (7, 0, 1),
        },
        "left window alone",
    ),
    ("sidestream", {"head_dim": 12}, "multiple of 8"),
]


@pytest.mark.parametrize(("name", "changes", "reason"), DECLINED)
def test_what_is_not_served_is_declined_with_the_reason(name, changes, reason):
    assert reason in driver(name).supports(problem(**changes), "sm_120a")


def test_square_sequences_have_one_diagonal():
    assert driver("fa4").supports(problem(causal="top_left"), "sm_120a") is None


def test_cudnn_is_asked_about_one_byte_inputs_on_sm120():
    installed("cudnn")
    one_byte = {"dtype": "float8_e4m3fn", "head_dim": 128}
    assert driver("cudnn").supports(problem(**one_byte), "sm_120a") is None


@pytest.mark.parametrize("name", ["fa4", "cudnn"])
def test_peers_run_on_one_target(name):
    assert "sm_90a" in driver(name).supports(problem(), "sm_90a")


@pytest.mark.parametrize(
    ("name", "module"), [("fa4", "flash_attn.cute.interface"), ("cudnn", "cudnn")]
)
def test_a_peer_that_is_missing_is_told_with_its_command(
    world, name, module, monkeypatch
):
    for loaded in list(sys.modules):
        if loaded == module or loaded.startswith(("cudnn.sdpa", "cudnn.api_base")):
            monkeypatch.setitem(sys.modules, loaded, None)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UnsupportedError, match="pip install --no-deps"):
        driver(name).prepare(problem(), world)


def test_an_unknown_implementation_is_a_usage_error():
    with pytest.raises(UsageError, match="there are sidestream, fa4, cudnn"):
        driver("xformers")


def test_the_stand_in_is_gone_after_the_import():
    had = "triton" in sys.modules
    with triton_importable():
        import triton

        assert triton.runtime.cache.FileCacheManager
    assert ("triton" in sys.modules) == had


def test_poison_is_nan_in_the_tensors_a_peer_makes(world):
    made = torch.empty(4, 4, dtype=torch.bfloat16, device="cuda")
    assert made.is_cuda
    assert made.isnan().all()
    assert POISON == b"\xff" * 4
    assert math.isnan(np.frombuffer(POISON, np.float32)[0])
