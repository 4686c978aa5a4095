import numpy as np
import pytest
from check_case import BOUNDS, LSE, OUT, ROWS

from sidestream.harness.checks import parity
from sidestream.harness.checks.parity import Result

PEAK = float(np.abs(BOUNDS.reference.out[ROWS.live]).max())


def judge(out=OUT, lse=LSE, unwritten=None, rows=None, amax=None):
    nothing = np.zeros(out.shape, bool)
    return parity.check(
        BOUNDS,
        Result(
            out=out,
            lse=lse,
            unwritten=nothing if unwritten is None else unwritten,
            amax=amax,
        ),
        rows=ROWS,
        judge=ROWS.live if rows is None else rows,
        kernel="fwd",
    )


def test_rounded_reference_passes_within_its_bound():
    outcome, distance = judge()
    assert outcome.status == "passed"
    assert 0.0 < distance.worst <= 1.0


def test_rows_outside_every_sequence_are_not_judged():
    out, lse = OUT.copy(), LSE.copy()
    out[5:], lse[5:] = np.nan, np.nan
    assert judge(out, lse)[0].status == "passed"


def test_rows_left_out_are_not_judged():
    out = OUT.copy()
    out[0] = np.nan
    rows = ROWS.live.copy()
    rows[0] = False
    assert judge(out, rows=rows)[0].status == "passed"


def test_the_worst_element_is_told_with_expectation_and_bound():
    out = OUT.copy()
    out[3, 1, 5] += 40 * BOUNDS.out[3, 1, 5]
    outcome, distance = judge(out)
    assert outcome.status == "failed"
    (found,) = outcome.findings
    assert found.kind == "parity"
    assert "O at row 0 of sequence 2 (token 3), head 1, column 5" in found.message
    assert found.extra["at"] == [3, 1, 5]
    assert found.extra["elements"] == 1
    assert found.extra["expected"] == pytest.approx(BOUNDS.reference.out[3, 1, 5])
    assert found.extra["bound"] == pytest.approx(BOUNDS.out[3, 1, 5])
    assert found.extra["sequences"] == [2]
    assert distance.out == pytest.approx(40, rel=0.1)


def test_a_nan_is_a_kind_of_its_own():
    out = OUT.copy()
    out[1, 0, 3] = np.nan
    (found,) = judge(out)[0].findings
    assert (found.kind, found.rule.id) == ("nan", "parity.nan")
    assert "row 1 of sequence 0 (token 1), head 0, column 3" in found.message


def test_an_element_that_was_never_written_is_said_to_be():
    out = OUT.copy()
    unwritten = np.zeros(out.shape, bool)
    out[4, 0], unwritten[4, 0] = np.nan, True
    (found,) = judge(out, unwritten=unwritten)[0].findings
    assert found.kind == "parity"
    assert "was never written" in found.message


def test_swapped_heads_of_lse_are_found():
    outcome, distance = judge(lse=LSE[:, ::-1].copy())
    (found,) = outcome.findings
    assert found.kind == "parity"
    assert found.message.startswith("LSE at ")
    assert found.sites[0].operation == "result LSE"
    assert distance.out <= 1.0


def test_the_mask_of_another_anchor_is_found():
    import dataclasses

    from check_case import problem

    from sidestream.reference.attention import attention

    other = attention(dataclasses.replace(problem(), causal="top_left"))
    outcome, _ = judge(other.out, other.lse)
    assert [f.kind for f in outcome.findings] == ["parity", "parity"]


def test_the_largest_output_of_the_live_rows_passes():
    outcome, distance = judge(amax=PEAK)
    assert outcome.status == "passed"
    assert distance.amax == 0.0


@pytest.mark.parametrize("amax", [1e30, np.nan, 0.0])
def test_another_largest_output_is_told_with_its_range(amax):
    outcome, distance = judge(amax=amax)
    (found,) = outcome.findings
    assert (found.kind, found.rule.id) == ("parity", "parity.amax")
    assert f"amax is {amax:.6g}, expected {PEAK:.6g}, from " in found.message
    assert distance.amax > 1.0
    low, high = found.extra["range"]
    assert low < PEAK < high
