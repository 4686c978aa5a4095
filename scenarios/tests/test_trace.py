import itertools

import pytest

from sidestream.harness.errors import ContractError, UsageError
from sidestream.reference.attention import attention
from sidestream.scenarios.case import build
from sidestream.scenarios.catalogue import LARGEST_FLOPS
from sidestream.scenarios.core import CORE, CORE_TAG
from sidestream.scenarios.trace import EXCERPTS, excerpt, read, scaled, steps

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
ROW = "2023-11-16 18:15:46.6805900,374,44\n"


@pytest.fixture
def trace(tmp_path):
    def write(text):
        path = tmp_path / "my trace.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_rows_become_requests_with_arrivals_from_the_first(trace):
    path = trace("\ufeff" + HEADER + ROW + "2023-11-16 18:15:50.9951690,396,109\r\n")
    one, two = read(path)
    assert (one.number, one.arrival, one.context, one.generated) == (0, 0.0, 374, 44)
    assert (two.number, two.context, two.generated) == (1, 396, 109)
    assert two.arrival == pytest.approx(4.314579)


def test_columns_are_found_by_name(trace):
    path = trace("GeneratedTokens,x,TIMESTAMP,ContextTokens\n7,a,2024-01-01,9\n")
    (only,) = read(path)
    assert (only.context, only.generated) == (9, 7)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no column TIMESTAMP, ContextTokens, GeneratedTokens"),
        ("TIMESTAMP,ContextTokens\n2024-01-01,3\n", "no column GeneratedTokens"),
        (HEADER, "no requests"),
        (HEADER + ROW + "yesterday,3,4\n", "line 3: TIMESTAMP is 'yesterday'"),
        (HEADER + ROW + ROW.replace("374", "-5"), "line 3: ContextTokens is '-5'"),
        (HEADER + ROW + ROW.replace("44", "4.5"), "line 3: GeneratedTokens is '4.5'"),
        (HEADER + ROW + "2023-11-16 18:15:50,12\n", "line 3: GeneratedTokens is ''"),
        (HEADER + ROW + "2023-11-16 18:15:40,1,1\n", "line 3: arrives before"),
        (HEADER + ROW + "2023-11-16 18:15:50+01:00,1,1\n", "with and without zone"),
        (
            HEADER + ROW + "2023-11-16 18:16:00,1,1\n2023-11-16 18:15:59,1,1\n",
            "line 4: arrives before",
        ),
        (b"\xff\xfe\x00\x01", "not a text file"),
        ((HEADER + '"' + "x" * 200_000).encode(), "not a CSV file"),
    ],
)
def test_a_bad_file_is_answered_with_its_line(trace, text, message):
    path = trace(text)
    with pytest.raises(UsageError, match=message) as caught:
        list(steps(path))
    assert "my trace.csv" in str(caught.value)


def test_a_missing_file_or_a_folder_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        list(steps(tmp_path / "none.csv"))
    with pytest.raises(UsageError, match="directory"):
        list(steps(tmp_path))
    with pytest.raises(UsageError, match="known: conv, code"):
        excerpt("mail")


def test_scaling_rounds_up_and_caps():
    path = excerpt("conv")
    shrunk = list(scaled(read(path), scale=100, max_context=5, max_generated=2))
    for before, after in zip(read(path), shrunk, strict=True):
        assert after.context == min(5, -(-before.context // 100))
        assert after.generated == min(2, -(-before.generated // 100))
        assert after.arrival == before.arrival


@pytest.mark.parametrize("name", EXCERPTS)
def test_packed_totals_change_at_every_one_of_a_hundred_steps(name):
    served = list(steps(excerpt(name), limit=100))
    assert len(served) == 100
    assert all(a.totals != b.totals for a, b in itertools.pairwise(served))
    assert len({s.totals for s in served}) > 80
    assert any(0 in s.lengths_q for s in served)
    assert max(max(s.lengths_q) for s in served) > 64


@pytest.mark.parametrize("name", EXCERPTS)
def test_steps_are_scenarios_of_the_core_declaration(name):
    for step in steps(excerpt(name), limit=30):
        scenario = step.scenario()
        assert scenario.tags == (CORE_TAG, "trace")
        assert scenario.name == f"trace-azure-llm-2023-{name}-{step.index:04d}"
        assert (scenario.lengths_q, scenario.lengths_kv) == (
            step.lengths_q,
            step.lengths_kv,
        )
        assert all(getattr(scenario, k) == v for k, v in CORE.items())
        assert scenario.flops <= LARGEST_FLOPS
    inputs = build(step.scenario(stream="side", heads_q=4))
    assert attention(inputs.problem()).out.shape == (step.totals[0], 4, 64)


def test_replay_is_deterministic_and_lazy():
    path = excerpt("code")
    assert list(steps(path, limit=40)) == list(steps(path, limit=40))
    assert list(steps(path, limit=0)) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scale": 0}, "at least 1"),
        ({"max_context": 500}, "declared maximum 512"),
        ({"slots": 200}, "token_budget"),
        ({"limit": -1}, "limit"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, message):
    with pytest.raises(ContractError, match=message):
        list(steps(excerpt("conv"), **settings))
