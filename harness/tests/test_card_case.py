"""Cases on a card, with host memory for the card and an implementation made of numpy.

What a card would do to memory is done here by `Made`; the checks see only bytes.
"""

import dataclasses

import numpy as np
import pytest
import torch

from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.drivers.protocol import Results
from sidestream.harness.errors import UsageError
from sidestream.harness.finding import Verdict
from sidestream.harness.run import card_case, card_world
from sidestream.harness.run.card_call import CardCall
from sidestream.harness.run.card_world import GUARD, Card, CardWorld
from sidestream.harness.run.case import Bench, run_case
from sidestream.harness.run.phases import Phases
from sidestream.harness.run.settings import Settings
from sidestream.kernels.protocol import CacheInfo
from sidestream.reference import narrow
from sidestream.reference.attention import attention
from sidestream.scenarios import catalogue
from sidestream.scenarios.case import build

SETTINGS = Settings(device="cuda", arch="sm_90a")


class Stream:
    cuda_stream = 7


def host_world(**_):
    return CardWorld(
        device=torch.device("cpu"), stream=Stream(), chip=Card(arch="sm_90a", sms=4)
    )


class Made:
    """Stores the reference of a scenario, then does `deed` to the tensors."""

    name = "sidestream"

    def __init__(self, scenario, deed=lambda tensors, scratch: None, keyed=False):
        self.scenario, self.deed, self.keyed = scenario, deed, keyed
        self.keys, self.hits = set(), 0

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
        self.problem = problem
        return self

    workspace_bytes = 128

    def execute(self, tensors, workspace):
        case, problem = self.scenario, self.problem
        if problem.lengths_q == case.lengths_q:
            inputs = build(case)
            for name in ("q", "k", "v"):
                bits = getattr(tensors, name).contiguous().view(torch.uint16).numpy()
                inputs.array(getattr(inputs, name))[:] = bits
            result = attention(inputs.problem())
            bits = narrow.to_bits(result.out, narrow.by_name(case.dtype))
            rows = torch.from_numpy(inputs.live)
            made = torch.from_numpy(bits.view(np.int16)).view(problem.torch_dtype)
            tensors.out[rows] = made[rows]
            if tensors.lse is not None:
                tensors.lse[rows] = torch.from_numpy(result.lse).float()[rows]
        self.deed(tensors, workspace)
        return Results(out=tensors.out, lse=tensors.lse, returned=False)


@pytest.fixture
def outcome(monkeypatch):
    monkeypatch.setattr(card_case, "current_world", host_world)

    def run(deed=lambda tensors, scratch: None, *, name="nan-tail", keyed=False):
        scenario = catalogue.by_name(name)
        bench = Bench(settings=SETTINGS, driver=Made(scenario, deed, keyed))
        # `Made` is torch on host memory all through, which is no host work of a call.
        monkeypatch.setattr(card_case, "HostLog", NoLog)
        return run_case(bench, scenario)

    return run


class NoLog:
    events = ()

    def __init__(self, **facts):
        assert facts["virtual"] is False

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


def told(outcome):
    return {f.kind for f in outcome.findings}


@pytest.mark.parametrize("name", ["nan-tail", "fused-qkv"])
def test_a_faithful_implementation_is_clean(outcome, name):
    case = outcome(name=name).case
    assert case.verdict is Verdict.CLEAN, case.checks
    assert set(case.checks) == {
        *("parity", "execution", "bounds", "scratch", "determinism", "host-sync"),
        *("cache", "race"),
    }
    assert case.checks["race"].status == "not-run"
    assert "--device vgpu" in case.checks["race"].reason
    assert case.compiles == 1


def last_row(tensors, scratch):
    tensors.out[-1] = 1.0


def before_out(tensors, scratch):
    # The element before the tensor: the guard's last two bytes.
    flat = tensors.out.as_strided((1,), (1,), tensors.out.storage_offset() - 1)
    flat[0] = 1.0


def an_input(tensors, scratch):
    tensors.k[0, 0, 0] = 3.0


def from_scratch(tensors, scratch):
    tensors.out[0, 0, 0] = float(scratch[0])


def neighbour(tensors, scratch):
    # Row 0 takes the sign of another sequence's query.
    tensors.out[0] *= torch.sign(tensors.q[150, 0, 0])


CALLS = []


def each_time_another(tensors, scratch):
    CALLS.append(None)
    tensors.out[0, 0, 0] += 2.0 * len(CALLS)


def illegal(tensors, scratch):
    raise RuntimeError("CUDA error: an illegal memory access\nmore lines")


DEEDS = {
    "a row past the total": (last_row, "bounds", "stray-write"),
    "the guard": (before_out, "bounds", "stray-write"),
    "an input": (an_input, "bounds", "stray-write"),
    "scratch": (from_scratch, "scratch", "uninit-read"),
    "a neighbour": (neighbour, "bounds", "stray-write"),
    "another result each time": (each_time_another, "determinism", "nondeterminism"),
    "an error of the card": (illegal, "execution", "contract"),
}


@pytest.mark.parametrize("name", DEEDS)
def test_what_a_card_does_wrong_is_found(outcome, name):
    deed, check, kind = DEEDS[name]
    found = outcome(deed)
    assert found.case.verdict is Verdict.FINDINGS
    assert found.case.checks[check].status == "failed", found.case.checks
    assert kind in told(found)


def test_a_key_with_totals_is_found(outcome):
    found = outcome(keyed=True)
    assert told(found) == {"cache-miss"}
    assert found.case.checks["cache"].status == "failed"


def test_the_error_is_one_line(outcome):
    found = outcome(illegal)
    message = found.findings[0].message
    assert "an illegal memory access" in message
    assert "more lines" not in message


def test_guards_lie_on_both_sides_of_every_tensor():
    scenario = dataclasses.replace(catalogue.by_name("two-short"), sinks=True)
    world = host_world()
    call = CardCall(
        world,
        build(scenario),
        workspace_bytes=256,
        phases=Phases(origin=0.0, track=""),
    )
    given = [tensor for tensor in vars(call.tensors).values() if tensor is not None]
    assert len(given) == 8
    for tensor in (*given, call.scratch()):
        storage = tensor.untyped_storage().nbytes()
        start = tensor.storage_offset() * tensor.element_size()
        assert start >= GUARD
        assert tensor.data_ptr() % 16 == 0
        assert storage - start - tensor.numel() * tensor.element_size() >= GUARD
    assert isinstance(world.table, AllocationTable)


def test_a_card_of_another_target_is_a_usage_error(monkeypatch):
    from sidestream.harness.commands.check import settings_for

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (12, 0))
    assert card_world.card_arch() == "sm_120a"
    with pytest.raises(UsageError, match="the card is sm_120a"):
        settings_for([], impl="sidestream", device="cuda", arch="sm_90a")


@pytest.mark.hardware
@pytest.mark.skipif(card_world.card_arch() != "sm_90a", reason="the card is not SM90")
def test_our_kernel_is_clean_on_the_card():
    bench = Bench(settings=SETTINGS)
    for scenario in catalogue.with_tags("smoke"):
        found = run_case(bench, scenario)
        assert found.case.verdict is Verdict.CLEAN, (scenario.name, found.case.checks)
