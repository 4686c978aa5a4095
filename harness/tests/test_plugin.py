"""The plugin's fixtures in test runs of their own."""

import pytest

# numpy cannot be loaded a second time, so it is here before runs in this process.
from sidestream.scenarios import catalogue

pytest_plugins = ["pytester"]

DEVICE = """
import pytest, torch
from sidestream.kernels.adapter import AttentionSpec, plan
from sidestream.harness.dsl.capture import Capture
from sidestream.harness.launch import Launch

FACTS = dict(dtype="bfloat16", batch=2, heads_q=2, heads_kv=1, head_dim=64)
FACTS |= dict(max_len_q=16, max_len_kv=16, causal="bottom_right")

def call(poisoned, stream=0, scratch="canary"):
    # The output, and the call that writes it.
    made = plan(AttentionSpec(**FACTS))
    compiled = made.compile()
    kind = {"device": "cuda", "dtype": torch.bfloat16}
    q = torch.randn(14, 2, 64, **kind)
    k, v = torch.randn(20, 1, 64, **kind), torch.randn(20, 1, 64, **kind)
    out = torch.empty(14, 2, 64, **kind)
    lq = torch.tensor([9, 5], device="cuda", dtype=torch.int32)
    lk = torch.tensor([12, 8], device="cuda", dtype=torch.int32)
    ws = poisoned(made.workspace_bytes(), scratch)
    return out, lambda: compiled.execute(q, k, v, out, None, lq, lk, ws, stream)

def test_right(device, side_stream, poisoned, no_host_sync, no_recompile):
    out, execute = call(poisoned, side_stream.cuda_stream)
    assert out.is_cuda
    with no_host_sync(), no_recompile():
        execute()
    assert torch.isfinite(out.float()).all()
    assert len(device.outcomes) == 2

def test_unwritten(device, poisoned):
    # Without the first kernel nothing has written what the second reads.
    out, execute = call(poisoned, scratch="zeros")
    launch = device.launch
    with Capture(lambda one: None if "worklist" in one.kernel else launch(one)):
        execute()
    assert len(device.outcomes) == 1

def test_stream(device, side_stream, poisoned):
    call(poisoned, 0)[1]()

def test_sync(device, no_host_sync):
    lengths = torch.ones(3, device="cuda")
    with no_host_sync():
        lengths.tolist()

def test_recompile(device, no_recompile):
    with no_recompile():
        device.activation.compiles.add(
            function="f", source_name="host_f", arch="a", seconds=0.0, ptx="", image=b""
        )

def test_pattern(poisoned):
    poisoned(16, "no such")

LAST = '''.version 9.0
.target sm_120a
.address_size 64
.visible .entry last(.param .u64 dst)
{
.reg .b32 %r<2>;
.reg .b64 %rd<2>;
ld.param.u64 %rd0, [dst];
mov.u32 %r0, %ctaid.x;
st.global.u32 [%rd0], %r0;
ret;
}
'''

def last(device, grid):
    # Every CTA stores its number to the same word.
    word = device.world.table.allocate(4, "word")
    device.launch(
        Launch(
            kernel="last", ptx=LAST, grid=(grid, 1, 1), block=(1, 1, 1),
            params=(word.va.to_bytes(8, "little"),),
        )
    )

def test_race(device):
    last(device, 2)

def test_race_check(device, race_check):
    with race_check():
        last(device, 1)
    with pytest.raises(AssertionError, match="gmem-race"):
        with race_check("isa"):
            last(device, 2)
    device.outcomes.clear()

def test_race_check_empty(device, race_check):
    with race_check():
        pass

def test_after_all(device, poisoned):
    # What went wrong before is not held against a later test.
    call(poisoned)[1]()
"""

WRONG = {
    "test_unwritten": "uninit-read: ld.global",
    "test_stream": "launched on another stream than the current one",
    "test_sync": "host-sync: Tensor.tolist",
    "test_recompile": "compiled inside: host_f",
    "test_pattern": "unknown scratch pattern",
    "test_race": "gmem-race: st.global",
    "test_race_check_empty": "nothing was launched inside",
}


def test_fixtures_pass_what_is_right_and_fail_what_is_wrong(pytester):
    pytester.makepyfile(DEVICE)
    done = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-rA")
    text = done.stdout.str() + done.stderr.str()
    told: dict[str, set[str]] = {}
    for line in text.splitlines():
        how, _, rest = line.partition(" ")
        if how in ("PASSED", "FAILED", "ERROR") and "::" in rest:
            told.setdefault(rest.split("::")[1].split()[0], set()).add(how)
    for name in ("test_right", "test_race_check", "test_after_all"):
        assert told[name] == {"PASSED"}, text
    for name, words in WRONG.items():
        assert told[name] & {"FAILED", "ERROR"}, (name, text)
        assert words in text


def test_looking_for_them_can_be_switched_off(pytester):
    pytester.makepyfile(DEVICE)
    chosen = ("-k", "test_race", "--sidestream-no-races")
    done = pytester.runpytest_subprocess("-p", "no:cacheprovider", *chosen)
    done.assert_outcomes(passed=2, failed=1, deselected=7)
    done.stdout.fnmatch_lines("*nothing was launched inside*")


@pytest.fixture
def outcomes(pytester):
    """Run a light module in this process; returns its counts and text."""

    def run(body, *arguments):
        pytester.makepyfile("import pytest\n" + body)
        done = pytester.runpytest_inprocess("-p", "no:cacheprovider", *arguments)
        return done.parseoutcomes(), done.stdout.str() + done.stderr.str()

    return run


def test_scenarios_are_chosen_by_name(outcomes):
    body = """
def test_it(scenario):
    assert scenario.name in ("side-stream", "gqa")
"""
    names = ["--sidestream-scenario", "gqa", "--sidestream-scenario", "side-stream"]
    assert outcomes(body, *names)[0] == {"passed": 2}
    every, _ = outcomes("def test_it(scenario):\n    assert scenario.name\n")
    assert every == {"passed": len(catalogue.CATALOGUE)}
    counts, text = outcomes(body, "--sidestream-scenario", "gqb")
    assert "passed" not in counts
    assert "did you mean gqa" in text


@pytest.mark.parametrize(
    "body",
    [
        """
@pytest.mark.parametrize("scenario", [1, 2])
def test_it(scenario):
    assert scenario in (1, 2)
""",
        """
@pytest.mark.parametrize(("scenario", "more"), [(1, 0), (2, 0)])
def test_it(scenario, more):
    assert scenario in (1, 2)
""",
        """
@pytest.fixture(params=[1, 2])
def scenario(request):
    return request.param

def test_it(scenario):
    assert scenario in (1, 2)
""",
    ],
)
def test_a_module_may_give_scenario_a_meaning_of_its_own(outcomes, body):
    assert outcomes(body)[0] == {"passed": 2}


def test_an_unknown_target_is_told(pytester):
    pytester.makepyfile("def test_it(device):\n    pass\n")
    arguments = ("-p", "no:cacheprovider", "--sidestream-arch", "sm_1")
    done = pytester.runpytest_subprocess(*arguments)
    assert "passed" not in done.parseoutcomes()
    assert "there are sm_90a, sm_100a, sm_120a" in done.stdout.str()
