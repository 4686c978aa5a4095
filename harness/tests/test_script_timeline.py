"""The time line of a script: valid trace events, a track a stream, arrows of events."""

import json
import subprocess
import sys
from collections import defaultdict
from itertools import pairwise

import pytest

SCRIPT = """
import torch
x = torch.randn(1000, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    y = x * 2
x.record_stream(side)
torch.cuda.current_stream().wait_stream(side)
z = y + 1
torch.cuda.synchronize()
"""
COMMON = {"name": str, "pid": int, "tid": int}
EVENTS = {
    "M": {**COMMON, "args": dict},
    "X": {**COMMON, "ts": float, "dur": float, "cat": str, "args": dict},
    "s": {**COMMON, "ts": float, "id": int, "cat": str},
    "f": {**COMMON, "ts": float, "id": int, "cat": str, "bp": str},
}
"""Fields of the Trace Event Format: metadata, complete events and flows."""


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("timeline")
    (folder / "two.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "sidestream.harness.cli", "run", "--out"]
    command += [str(folder / "out"), str(folder / "two.py")]
    subprocess.run(command, check=True, capture_output=True)
    return json.loads((folder / "out" / "trace.perfetto.json").read_text())


def test_it_is_what_the_format_asks_for(trace):
    assert trace.keys() == {"traceEvents", "displayTimeUnit"}
    assert {event["ph"] for event in trace["traceEvents"]} == EVENTS.keys()
    for event in trace["traceEvents"]:
        fields = {"ph": str, **EVENTS[event["ph"]]}
        assert {name: type(value) for name, value in event.items()} == fields
        assert event.get("ts", 0) >= 0
        assert event.get("dur", 0) >= 0
        assert event.get("bp", "e") == "e"


def test_every_stream_has_a_track_and_slices_of_one_do_not_cross(trace):
    events = trace["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert len(names) == 3
    assert {"host", "stream 0x0 (default)"} < set(names.values())
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] == "X" and event["cat"] != "case":
            tracks[names[event["tid"]]].append(event)
    for slices in tracks.values():
        for before, after in pairwise(slices):
            assert before["ts"] + before["dur"] <= after["ts"] + 0.01
    assert [e["name"] for e in tracks["host"]] == ["torch.cuda.synchronize"]
    default = [e["name"] for e in tracks["stream 0x0 (default)"]]
    assert "aten.randn.default" in default
    assert "aten.add.Tensor" in default


def test_arrows_lead_from_what_was_recorded_to_what_waits(trace):
    events = trace["traceEvents"]
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert len(starts) == 2
    assert starts.keys() == ends.keys()
    for number, start in starts.items():
        assert start["tid"] != ends[number]["tid"]
        assert start["ts"] <= ends[number]["ts"]
