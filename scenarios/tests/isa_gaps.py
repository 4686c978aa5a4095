"""What the isa profile is known not to model; empty once the detector has it all."""

from __future__ import annotations

from sidestream.harness.device.vgpu import Outcome
from sidestream.harness.finding import Incomplete
from sidestream.harness.race.unjudged import UNMODELLED


def unexplained(outcome: Outcome, profile: str) -> list[Incomplete]:
    """What was not judged, but for effects that only the isa profile lacks."""
    known = [r.what for r in UNMODELLED if profile == "isa" and r.profiles == ("isa",)]
    return [i for i in outcome.incomplete if not any(w in i.reason for w in known)]
