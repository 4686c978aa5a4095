"""Our kernels need none of the relaxations: the profile `isa` finds nothing in them."""

import json
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("arch", "scenario"),
    [
        ("sm_120a", "tile-edges"),
        ("sm_120a", "causal-d128-fp16"),
        ("sm_100a", "tile-edges-d128"),
        ("sm_100a", "mxfp8-e4m3-several-tiles"),
    ],
)
def test_our_kernel_is_clean_under_isa(arch, scenario, tmp_path):
    command = [sys.executable, "-m", "sidestream.harness.cli", "check"]
    command += ["--arch", arch, "--scenario", scenario, "--profile", "isa"]
    ran = subprocess.run(
        [*command, "--out", str(tmp_path)], check=False, capture_output=True, text=True
    )
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["findings"] == [], ran.stdout
    assert report["verdict"] == "clean", ran.stdout
    assert ran.returncode == 0
