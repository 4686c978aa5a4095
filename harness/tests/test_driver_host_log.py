"""The host log around real execute calls: only FA4 does more than launch."""

import pytest
import torch
from test_driver import Call, installed, problem

from sidestream.harness.cuda.host_sync import HostLog
from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.cuda.virtual_cuda import VirtualCuda
from sidestream.harness.drivers.registry import driver
from sidestream.harness.dsl.activation import activate
from sidestream.harness.dsl.capture import Capture


def events_of(name, sabotage=lambda tensors: None):
    """Return the host events of a second execute, with the launches it made."""
    installed(name)
    device = activate(arch="sm_120a")
    launches = []
    with VirtualCuda(device, AllocationTable(), stream=7) as world:
        p = problem()
        prepared = driver(name).prepare(p, world)
        call = Call(world, p)
        scratch = call.workspace(world, prepared.workspace_bytes)
        with Capture(lambda launch: None):
            prepared.execute(call.tensors, scratch)
        log = HostLog(table=world.table)

        def on_launch(launch):
            with log.paused():  # what a harness does here is not the call's doing
                launches.append((launch, call.tensors.q.cpu()))

        with Capture(on_launch, log.block), log:
            sabotage(call.tensors)
            prepared.execute(call.tensors, scratch)
    return log.events, launches


@pytest.mark.parametrize("name", ["sidestream", "cudnn"])
def test_an_asynchronous_execute_leaves_no_event(name):
    events, launches = events_of(name)
    assert [f"{e.operation}: {e.stack[0]}" for e in events] == []
    assert launches


def test_flash_attention_allocates_its_outputs():
    events, launches = events_of("fa4")
    assert launches
    assert {event.kind for event in events} == {"host-alloc"}
    assert all("flash_attn" in event.site.source for event in events)


SABOTAGE = {
    "host-sync": lambda t: t.lengths_q.tolist(),
    "hidden-launch": lambda t: t.out.zero_(),
    "host-alloc": lambda t: torch.empty(16, device=t.q.device),
}


@pytest.mark.parametrize("kind", SABOTAGE)
def test_a_sabotaged_execute_is_seen(kind):
    events, _ = events_of("sidestream", SABOTAGE[kind])
    assert [event.kind for event in events] == [kind], events
    assert "test_driver_host_log.py" in events[0].site.source
