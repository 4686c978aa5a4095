"""Compile keys of packages in scripts: too fine, too coarse, and over processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sidestream.harness.exec.build import cache_dir
from sidestream.harness.exec.machine import Options
from sidestream.harness.run.script import run_script
from sidestream.harness.runtime import Landing

SCRIPT = Path(__file__).parents[1] / "host_scripts" / "keys_of_a_package.py"
FACTOR = "SCALED_FACTOR"
KINDS = {
    "key_omits_type": "stale-key",
    "key_holds_tensor": "cache-miss",
    "key_omits_setting": "stale-key",
}


def run(*words, keys=None, policy="eager"):
    return run_script(
        SCRIPT,
        words,
        arch="sm_120a",
        landing=Landing.parse(policy),
        options=Options(),
        profile=None,
        keys=keys,
    )


@pytest.mark.parametrize("policy", ["eager", "latest"])
def test_a_key_of_types_and_settings_is_clean(policy):
    done = run(policy=policy)
    assert (done.findings, done.incomplete, len(done.compiled)) == ((), (), 2)


@pytest.mark.parametrize("policy", ["eager", "latest"])
def test_one_kernel_for_two_types_is_told(policy):
    done = run("key_omits_type", policy=policy)
    (finding,) = {finding.id: finding for finding in done.findings}.values()
    assert finding.kind == KINDS["key_omits_type"]
    assert "compiled for bfloat16 and is launched for float16" in finding.message
    assert all("typed.py" in str(site.source) for site in finding.sites)


def test_a_key_that_holds_a_tensor_compiles_every_time():
    done = run("key_holds_tensor")
    assert [(f.kind, f.count) for f in done.findings] == [
        (KINDS["key_holds_tensor"], 6)
    ]


def test_a_key_that_omits_a_setting_is_told_in_the_next_process(tmp_path, monkeypatch):
    assert run("key_omits_setting", keys=tmp_path).findings == ()
    assert run("key_omits_setting", keys=tmp_path).findings == ()
    monkeypatch.setenv(FACTOR, "0.25")
    done = run("key_omits_setting", keys=tmp_path)
    assert [f.kind for f in done.findings] == [KINDS["key_omits_setting"]] * 2
    assert "in an earlier process" in done.findings[0].message
    assert all("typed.py" in str(f.sites[0].source) for f in done.findings)


def test_a_key_that_holds_it_is_clean(tmp_path, monkeypatch):
    assert run(keys=tmp_path).findings == ()
    monkeypatch.setenv(FACTOR, "0.25")
    assert run(keys=tmp_path).findings == ()
    assert len(list(tmp_path.iterdir())) == 4


def test_a_record_that_cannot_be_read_counts_as_none(tmp_path, monkeypatch):
    assert run("key_omits_setting", keys=tmp_path).findings == ()
    for path in tmp_path.iterdir():
        path.write_text("[")
    monkeypatch.setenv(FACTOR, "0.25")
    assert run("key_omits_setting", keys=tmp_path).findings == ()


def test_the_command_keeps_a_record_between_processes(tmp_path):
    kinds, cache = [], tmp_path / "cache"
    cache.mkdir()
    for built in cache_dir().iterdir():  # all but the record
        if built.name != "keys":
            (cache / built.name).symlink_to(built)
    for factor in ("0.5", "0.25"):
        out = tmp_path / factor
        subprocess.run(
            [
                *(sys.executable, "-W", "ignore", "-m", "sidestream.harness.cli"),
                *("run", "--arch", "sm_120a", "--out", str(out)),
                *(str(SCRIPT), "key_omits_setting"),
            ],
            env=os.environ | {FACTOR: factor, "SIDESTREAM_CACHE": str(cache)},
            capture_output=True,
            timeout=600,
        )
        report = json.loads((out / "report.json").read_text())
        kinds.append({f["kind"] for f in report["findings"]})
        assert report["incomplete"] == []
    assert kinds == [set(), {"stale-key"}]
