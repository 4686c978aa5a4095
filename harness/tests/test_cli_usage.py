"""Bad input is one clear line and status 2, and nothing is written."""

import json
import subprocess
import sys

import numpy as np
import pytest
from device_case import launch_of, text_of

from sidestream.harness import cli
from sidestream.harness.cuda.memory import AllocationTable
from sidestream.harness.dsl.record import write_launch
from sidestream.harness.run import token
from sidestream.harness.run.settings import Settings
from sidestream.kernels import support
from sidestream.scenarios import catalogue

SMOKE = catalogue.by_name("side-stream")


@pytest.fixture
def refused(capsys, monkeypatch, tmp_path):
    """Run a command line that must be refused; returns its line."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        before = sorted(tmp_path.rglob("*"))
        monkeypatch.setattr(sys, "argv", ["sidestream", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert stop.value.code == 2
        shown = capsys.readouterr()
        assert sorted(tmp_path.rglob("*")) == before
        assert "Traceback" not in shown.err
        return shown.err

    return run


def one_line(text):
    assert len(text.splitlines()) == 1, text
    return text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--scenario", "side-strem"], "did you mean side-stream"),
        (["--scenario", "side-x*"], "no scenario's name matches"),
        (["--impl", "fa5"], "there are sidestream, fa4, cudnn"),
        (["--arch", "sm_75"], "there are sm_90a, sm_100a, sm_120a"),
        (["--kernel", "sm120", "--arch", "sm_100a"], "does not compile for sm_100a"),
        (["--impl", "fa4", "--arch", "sm_90a"], "does not compile for sm_90a"),
        (["--kernel", "sm90"], "there are sm120, sm100"),
        (["--kernel", "sm100"], "does not compile for sm_120a"),
        (["--profile", "strict"], "there are isa, practice"),
        (["--schedule", "fifo"], "none of round-robin, random:SEED"),
        (["--schedule", "random:0"], "none of round-robin"),
        (["--seed", "-1"], "seed must not be negative"),
        (["--deadline", "0"], "deadline must be positive"),
        (["--budget", "0"], "budget must be positive"),
        (["--steps", "0"], "--steps must be at least 1"),
        (["--device", "tpu"], "there are vgpu, cuda"),
        (["--trace", "missing.csv"], "missing.csv"),
        (["--trace", "conv", "--steps", "1000000"], "has "),
    ],
)
def test_options_of_check(refused, arguments, words):
    assert words in one_line(refused("check", *arguments))


def test_a_cuda_device_that_is_not_there(refused, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "no CUDA device" in one_line(refused("check", "--device", "cuda"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    line = one_line(refused("check", "--device", "cuda"))
    assert "the card is sm_90a; use --arch sm_90a" in line


def test_a_trace_that_is_no_trace(refused, tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    line = one_line(refused("check", "--trace", tmp_path / "t.csv"))
    assert "no column TIMESTAMP" in line


def test_an_output_folder_that_is_a_file(refused, tmp_path):
    (tmp_path / "out").write_text("keep me")
    args = ["check", "--scenario", "side-stream", "--out", tmp_path / "out"]
    assert "--out" in one_line(refused(*args))
    assert (tmp_path / "out").read_text() == "keep me"


def test_a_recording_never_overwrites(refused, tmp_path):
    (tmp_path / "out" / "launches").mkdir(parents=True)
    (tmp_path / "out" / "launches" / "x").write_text("keep me")
    line = refused("record", "--scenario", "side-stream", "--out", tmp_path / "out")
    assert "never overwrites" in one_line(line)


@pytest.mark.parametrize(
    "arguments", [["frobnicate"], ["check", "--bogus"], ["emulate"]]
)
def test_unknown_commands_and_options(refused, arguments):
    assert refused(*arguments)


# tokens


@pytest.mark.parametrize(
    "text", ["nonsense", "ss1.x.y", "sc1.", "ss1.eJwDAAAAAAE.sc1.z"]
)
def test_damaged_tokens(refused, text):
    assert "token" in one_line(refused("replay", text))


def test_a_word_that_is_no_token_is_told_where_there_is_one(refused):
    assert "a finding's replay line" in one_line(refused("replay", "nonsense"))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"head_dim": 60}, "head_dim"),
        ({"dtype": "float8"}, "dtype"),
        ({"max_len_q": 1}, "exceeds max_len_q"),
        ({"heads_q": 3, "heads_kv": 2}, "multiple"),
    ],
)
def test_tokens_of_scenarios_that_contradict_themselves(refused, fields, words):
    import base64
    import zlib

    word = token.encode(Settings(), SMOKE)
    head, _, scenario = word.partition(".sc1.")
    raw = zlib.decompress(
        base64.urlsafe_b64decode(scenario + "=" * (-len(scenario) % 4))
    )
    text = json.dumps(json.loads(raw) | fields).encode()
    packed = base64.urlsafe_b64encode(zlib.compress(text)).decode().rstrip("=")
    assert words in one_line(refused("replay", f"{head}.sc1.{packed}"))


def test_tokens_carry_every_setting_and_the_scenario():
    settings = Settings(seed=7, schedule="random:3", arch="sm_90a", sms=2, budget=99)
    word = token.encode(settings, SMOKE)
    assert token.decode(word) == (settings, SMOKE)
    assert (
        not set(word)
        - set("._-")
        - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
    )


# reports


def test_a_folder_without_a_report(refused, tmp_path):
    assert "there is no such file" in one_line(refused("report", tmp_path))


def test_a_report_of_another_schema(refused, tmp_path):
    (tmp_path / "report.json").write_text('{"schema": "other/1"}')
    assert "sidestream.report/1" in one_line(refused("report", tmp_path))


# launches


@pytest.fixture
def launch_dir(tmp_path):
    table = AllocationTable()
    v = table.allocate(128, "v")
    launch = launch_of(text_of("st.global.u32 [%rd0], %r0;"), v.va, threads=1)
    return write_launch(tmp_path / "launch", launch, table, "sm_120a")


def test_a_launch_that_is_not_there(refused, tmp_path):
    assert "not a folder" in one_line(refused("emulate", tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "k.ptx"),
        ("garbage {", "k.ptx"),
        (text_of("ret;", target="sm_7"), "target"),
        (text_of("ret;", target="sm_80"), "target"),
        (text_of("ret;").replace("entry k(", "entry other("), "no kernel 'k'"),
    ],
)
def test_other_code_that_cannot_be_used(refused, launch_dir, tmp_path, text, words):
    (tmp_path / "k.ptx").write_text(text)
    out = tmp_path / "out"
    line = refused("emulate", launch_dir, "--ptx", tmp_path / "k.ptx", "--out", out)
    assert words in one_line(line)


@pytest.mark.parametrize("missing", ["kernel.ptx", "launch.json", "memory.npz"])
def test_a_launch_with_a_file_missing(refused, launch_dir, missing):
    (launch_dir / missing).unlink()
    assert missing in one_line(refused("emulate", launch_dir))


def test_parameters_that_do_not_fit_the_code(refused, launch_dir, tmp_path):
    text = text_of("ret;").replace(".param .u64 buf", ".param .u64 buf, .param .u32 n")
    (tmp_path / "k.ptx").write_text(text)
    line = one_line(refused("emulate", launch_dir, "--ptx", tmp_path / "k.ptx"))
    assert "parameters" in line


def test_a_geometry_that_no_device_has(refused, launch_dir):
    path = launch_dir / "launch.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"block": [1024, 2, 1]}))
    assert "1024" in one_line(refused("emulate", launch_dir))


def test_memory_of_another_size(refused, launch_dir):
    with np.load(launch_dir / "memory.npz") as archive:
        arrays = {name: archive[name][:-8] for name in archive.files}
    np.savez(launch_dir / "memory.npz", **arrays)
    assert "memory.npz" in one_line(refused("emulate", launch_dir))


# start-up


def test_help_and_usage_load_neither_torch_nor_cutlass():
    code = (
        "import sys; sys.argv = ['sidestream', 'check', '--scenario', 'nope']\n"
        "from sidestream.harness import cli\n"
        "try: cli.main()\n"
        "except SystemExit as stop: assert stop.code == 2, stop.code\n"
        "heavy = {'torch', 'cutlass', 'pytest'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_listing_names_everything(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["sidestream", "check", "--list"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert not stop.value.code
    shown = capsys.readouterr().out
    for scenario in catalogue.EVERY:
        assert scenario.name in shown
    for row in support.table():
        assert row in shown
    for word in ("fa4", "cudnn", "sm_120a", "sm_90a", "sm_100a", "conv"):
        assert word in shown
