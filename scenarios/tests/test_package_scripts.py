"""What kernels of packages and our own do on the host, through scripts of their users.

What cuDNN frontend 1.27.0 shows is fixed in later releases: the stream of the metadata
(NVIDIA/cudnn-frontend#543), the reads of lengths on the host (#606), a compilation for
every packed total (#552).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import old_releases
import pytest

SCRIPTS = Path(__file__).parents[1] / "host_scripts"
PACKAGE = "nvidia-cudnn-frontend"


def run(
    script: str,
    out: Path,
    *arguments: str,
    paths: tuple[Path, ...] = (),
    options: tuple[str, ...] = (),
) -> tuple[int, dict[str, Any]]:
    """Run a script, with folders ahead of the installed packages."""
    path = [*map(str, paths), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [
            *(sys.executable, "-W", "ignore", "-m", "sidestream.harness.cli", "run"),
            *("--no-races", "--out", str(out), *options),
            str(SCRIPTS / f"{script}.py"),
            *arguments,
        ],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path))},
        capture_output=True,
        text=True,
        timeout=600,
    )
    report = out / "report.json"
    assert report.exists(), done.stdout + done.stderr
    return done.returncode, json.loads(report.read_text())


def installed(module: str) -> None:
    """Skip the test without a package; scripts may import it, this process may not."""
    if find_spec(module) is None:
        pytest.skip(f"no {module} is installed")


def of_kind(report: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [f for f in report["findings"] if f["kind"] == kind]


def places(findings: list[dict[str, Any]]) -> set[str]:
    """Where the findings are, as `file:line`."""
    sources = [s["source"] for f in findings for s in f["sites"] if s["source"]]
    return {source.rpartition("/")[2] for source in sources}


def test_1_27_reads_lengths_on_the_host_and_leaves_the_callers_stream(tmp_path):
    folder = old_releases.folder(PACKAGE, "1.27.0")
    status, report = run("cudnn_packed", tmp_path, paths=(folder,))
    assert status == 1
    assert report["incomplete"] == []
    races = of_kind(report, "stream-race")
    told = [s["operation"] for f in races for s in f["sites"]]
    assert any("build_o_descs" in name for name in told)
    assert any("zero_" in name for name in told)
    assert {"api_dsl.py:870", "api_dsl.py:871"} <= places(of_kind(report, "host-sync"))
    (miss,) = of_kind(report, "cache-miss")
    assert miss["count"] == 3
    assert "cudnn_packed.py" in miss["sites"][0]["source"]
    # The fill of the tensor maps: the kernel that builds them reads back a word of
    # its own, and the rest of the 384 bytes nobody touches.
    fills = of_kind(report, "hidden-launch")
    assert "api_dsl.py:896" in places(fills)
    (descriptors,) = {
        f["message"].partition(" before ")[0] for f in fills if "384" in f["message"]
    }
    assert descriptors.endswith("fills 384 bytes that nobody reads")


def test_1_27_on_sm120_compiles_for_every_total(tmp_path):
    """Its reads of lengths come behind the metadata, and so hide the missing edge."""
    folder = old_releases.folder(PACKAGE, "1.27.0")
    options = ("--arch", "sm_120a")
    status, report = run("cudnn_packed", tmp_path, paths=(folder,), options=options)
    assert status == 1
    assert report["incomplete"] == []
    assert {f["kind"] for f in report["findings"]} == {"host-sync", "cache-miss"}
    assert {"api_dsl.py:1690", "api_dsl.py:1691"} == places(
        of_kind(report, "host-sync")
    )
    (miss,) = of_kind(report, "cache-miss")
    assert miss["count"] == 3


@pytest.mark.parametrize(
    ("release", "arch"),
    [(r, arch) for r in ("1.28.0", None) for arch in ("sm_100a", "sm_120a")],
)
def test_later_releases_are_clean(release, arch, tmp_path):
    folders = (old_releases.folder(PACKAGE, release),) if release else ()
    if not release:
        installed("cudnn")
    options = ("--arch", arch)
    status, report = run("cudnn_packed", tmp_path, paths=folders, options=options)
    told = [f"{f['kind']}: {f['message']}" for f in report["findings"]]
    assert (status, told, report["incomplete"]) == (0, [], [])
    assert report["cases"][0]["launches"] >= 3


@pytest.mark.parametrize("arch", ["sm_100a", "sm_120a"])
def test_1_27_rewrites_metadata_under_the_launch_of_the_step_before(arch, tmp_path):
    """With no wait between steps its reads of lengths hide nothing, on either chip."""
    folder = old_releases.folder(PACKAGE, "1.27.0")
    options = ("--arch", arch)
    status, report = run("cudnn_steps", tmp_path, paths=(folder,), options=options)
    assert (status, report["incomplete"]) == (1, [])
    races = of_kind(report, "stream-race")
    metadata = [f for f in races if "aten.cumsum.out" in f["message"]]
    assert len(metadata) == 2
    assert all("api_dsl.py" in s["source"] for f in metadata for s in f["sites"][1:])
    assert of_kind(report, "cache-miss") == []  # one total: one compilation


@pytest.mark.parametrize("arch", ["sm_100a", "sm_120a"])
def test_steps_of_the_installed_release_are_clean(arch, tmp_path):
    served("cudnn_steps", tmp_path, "--arch", arch, launches=4)


def test_fa4_is_clean_on_a_side_stream(tmp_path):
    installed("flash_attn")
    status, report = run("fa4_packed", tmp_path)
    told = [f"{f['kind']}: {f['message']}" for f in report["findings"]]
    assert (status, told, report["incomplete"]) == (0, [], [])
    assert report["cases"][0]["launches"] == 3


def test_our_first_execute_is_captured_and_replays_serve_other_lengths(tmp_path):
    status, report = run("captured_attention", tmp_path)
    told = [f"{f['kind']}: {f['message']}" for f in report["findings"]]
    assert (status, told, report["incomplete"]) == (0, [], [])
    assert report["cases"][0]["launches"] == 6


def test_lengths_that_a_graph_keeps_show_in_the_values(tmp_path):
    status, report = run("captured_attention", tmp_path, "baked")
    assert status == 3
    (reason,) = [entry["reason"] for entry in report["incomplete"]]
    assert "AssertionError: Tensor-likes are not close" in reason


SECOND_DEVICE = {
    "": (0, set(), ""),
    "forget": (1, {"stream-race"}, "stream 0x0 (default) of device 1 reads"),
    # The launch is refused, as a card does; the script ends there.
    "bare": (1, {"contract"}, "of device 1 while device 0 is the current one"),
    "ambient": (1, {"contract", "out-of-bounds"}, "is memory of device 1"),
}


@pytest.mark.parametrize("word", SECOND_DEVICE)
def test_our_kernel_on_the_second_device(word, tmp_path):
    wanted, kinds, words = SECOND_DEVICE[word]
    arguments = [word] if word else []
    status, report = run(
        "second_device", tmp_path, *arguments, options=("--devices", "2")
    )
    assert status == wanted
    # What an unserved launch leaves behind may show as other defects besides.
    assert kinds <= {f["kind"] for f in report["findings"]}
    assert any(words in f["message"] for f in report["findings"]) == bool(words)
    if not word:
        assert (report["findings"], report["incomplete"]) == ([], [])


FEATURES = {
    "fa4_window": 1,
    "fa4_softcap": 2,
    "fa4_paged": 2,
    "fa4_split": 3,
    "fa4_captured": 4,
    "fa4_sinks": 2,
    "fa4_float8": 1,
    "cudnn_graph": 1,
    "cudnn_lse": 6,
    "cudnn_window": 2,
    "cudnn_sinks": 4,
    "cudnn_float8": 2,
    "cudnn_captured": 6,
}
"""Scripts of features of the packages, with the launches that each makes."""


def served(script: str, out: Path, *options: str, launches: int) -> None:
    """Run a script that compares its own values and must show nothing."""
    installed({"cud": "cudnn", "fa4": "flash_attn"}.get(script[:3], "cutlass"))
    status, report = run(script, out, options=options)
    told = [f"{f['kind']}: {f['message']}" for f in report["findings"]]
    assert (status, told, report["incomplete"]) == (0, [], [])
    assert report["cases"][0]["launches"] == launches


@pytest.mark.parametrize("script", FEATURES)
def test_a_feature_has_the_right_values_and_is_clean(script, tmp_path):
    served(script, tmp_path, launches=FEATURES[script])


@pytest.mark.parametrize(
    ("script", "launches"),
    [
        *(("fa4_window", 1), ("fa4_softcap", 2), ("fa4_backward", 4)),
        *(("fa4_captured", 4), ("cudnn_window", 2), ("cudnn_captured", 6)),
        *(("cudnn_sinks", 4), ("cudnn_float8", 2)),
    ],
)
def test_a_feature_is_clean_on_sm120(script, launches, tmp_path):
    served(script, tmp_path, "--arch", "sm_120a", launches=launches)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("fa4_paged", "Paged KV not supported on SM 12.0"),
        ("fa4_split", "SM120 forward only supports num_splits=1"),
        ("fa4_sinks", "Learnable sink is not supported in this kernel"),
        ("fa4_float8", "FP8 is only supported on SM100"),
    ],
)
def test_what_a_package_does_not_serve_is_told_in_its_words(script, words, tmp_path):
    installed("flash_attn")
    status, report = run(script, tmp_path, options=("--arch", "sm_120a"))
    assert status == 3
    (entry,) = report["incomplete"]
    assert words in entry["reason"]


def test_fa4_backward_is_right_and_makes_mbarriers_with_every_lane(tmp_path):
    """Three objects of the CTA pair are initialised without `elect_one`."""
    installed("flash_attn")
    status, report = run("fa4_backward", tmp_path)
    assert (status, report["incomplete"]) == (1, [])
    assert {f["kind"] for f in report["findings"]} == {"mbarrier"}
    assert places(report["findings"]) == {
        f"flash_bwd_sm100.py:{line}" for line in (1388, 1389, 1390)
    }
    assert report["cases"][0]["launches"] == 4


def test_what_needs_the_library_of_cudnn_says_so(tmp_path):
    installed("cudnn")
    status, report = run("cudnn_graph", tmp_path, "library")
    assert status == 3
    (entry,) = report["incomplete"]
    assert "Unable to find symbol cudnn" in entry["reason"]


def test_a_function_over_cute_kernels_is_clean(tmp_path):
    served("cute_function", tmp_path, launches=3)


def test_its_missing_wait_is_found(tmp_path):
    installed("cutlass")
    status, report = run("cute_function", tmp_path, "planted")
    assert (status, report["incomplete"]) == (1, [])
    assert {f["kind"] for f in report["findings"]} == {"stream-race"}
