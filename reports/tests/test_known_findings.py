"""Known findings: what an entry names and does to a report, what a bad list says."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from sidestream.harness.finding import Finding, Rule, Site, Verdict
from sidestream.reports import html, junit, sarif
from sidestream.reports import json as json_report
from sidestream.reports.known import Known, KnownFormatError, accept, read
from sidestream.reports.model import FAILED, PASSED, Case, Check, Report, folded

SHIPPED = sorted((Path(__file__).parents[2] / "scenarios" / "known").glob("*.toml"))


def finding(scenario: str = "tail", kind: str = "nan", kernel: str = "fwd") -> Finding:
    return Finding(
        kind=kind,
        rule=Rule(id="parity.nan", title="A row"),
        message=f"O is nan in {kernel}",
        kernel=kernel,
        scenario=scenario,
        sites=(Site(agent="host", operation="st.global"),),
    )


def report(*findings: Finding, impl: str = "fa4") -> Report:
    names = {f.scenario for f in findings} | {"plain"}
    cases = tuple(
        Case(
            impl=impl,
            kernel="sm100",
            scenario=name,
            verdict=Verdict.FINDINGS if found else Verdict.CLEAN,
            checks={"parity": Check(status=FAILED, reason="nan")}
            if found
            else {"parity": Check(status=PASSED)},
            findings=found,
        )
        for name in sorted(names)
        for found in [tuple(f.id for f in findings if f.scenario == name)]
    )
    return Report(
        command="",
        version="0",
        device="vgpu",
        arch="sm_100a",
        cases=cases,
        findings=folded(findings),
    )


def known(**facts: object) -> Known:
    usual: dict[str, object] = {
        "scenarios": ("tail",),
        "kind": "nan",
        "reason": "lived with",
        "reference": "an issue",
    }
    return Known(**{**usual, **facts})  # type: ignore[arg-type]


def test_a_known_finding_asks_for_review_and_stays():
    made, gone = accept(report(finding()), [known()])
    assert made.verdict is Verdict.REVIEW
    assert [case.verdict.label for case in made.cases] == ["clean", "review"]
    (kept,) = made.findings
    assert kept.known is not None
    assert kept.known.reason == "lived with"
    assert kept.id == finding().id
    assert gone == ()


@pytest.mark.parametrize(
    "other",
    [
        {"kind": "parity"},
        {"impl": "cudnn"},
        {"kernel": "bwd*"},
        {"scenarios": ("head",)},
        {"contains": "ld.shared"},
    ],
)
def test_an_entry_about_something_else_changes_nothing(other):
    before = report(finding())
    made, _ = accept(before, [known(**other)])
    assert made == before
    assert made.verdict is Verdict.FINDINGS


@pytest.mark.parametrize(
    "same",
    [
        {"impl": "fa*"},
        {"kernel": "f?d"},
        {"scenarios": ("head", "t*l")},
        {"contains": "st.global"},
        {"contains": "parity.nan"},
        {"contains": "is nan"},
    ],
)
def test_globs_and_texts_narrow_an_entry(same):
    assert accept(report(finding()), [known(**same)])[0].verdict is Verdict.REVIEW


def test_one_unknown_finding_still_fails_the_run_and_its_case():
    made, _ = accept(report(finding(), finding(kind="parity")), [known()])
    assert made.verdict is Verdict.FINDINGS
    assert [case.verdict.label for case in made.cases] == ["clean", "findings"]


def test_a_finding_in_more_scenarios_than_named_is_not_known():
    made, _ = accept(report(finding(), finding("other")), [known()])
    assert made.verdict is Verdict.FINDINGS
    assert not made.findings[0].known


def test_an_entry_that_matched_nothing_is_told_if_its_scenarios_ran():
    run = report()
    here, elsewhere = known(scenarios=("pl*",)), known(scenarios=("tail",))
    assert accept(run, [here, elsewhere])[1] == (here,)
    assert (
        accept(report(impl="cudnn"), [known(scenarios=("plain",), impl="fa4")])[1] == ()
    )


def test_every_report_tells_that_it_is_known(tmp_path):
    made, _ = accept(report(finding()), [known()])
    text = json_report.render(made)
    assert json.loads(text)["findings"][0]["known"] == {
        "reason": "lived with",
        "reference": "an issue",
    }
    path = tmp_path / "report.json"
    path.write_text(text)
    assert json_report.read(path) == made
    (result,) = json.loads(sarif.render(made))["runs"][0]["results"]
    assert result["suppressions"][0]["status"] == "accepted"
    assert "lived with" in result["suppressions"][0]["justification"]
    suites = Xml.fromstring(junit.render(made))
    assert suites.get("failures") == "0"
    assert suites.get("skipped") == "1"
    assert "lived with" in html.render(made)


BAD = {
    "nothing = ": "Invalid value",
    "": "[[known]]",
    "[known]\nkind = 'nan'": "[[known]]",
    "[[known]]\nkind = 'nan'\nreason = 'r'": "entry 1: scenarios is missing",
    "[[known]]\nscenarios = 'a'\nkind = 'nan'\nreason = 'r'": "entry 1: scenarios is a",
    "[[known]]\nscenarios = ['a']\nkind = 'nam'\nreason = 'r'": "no kind 'nam'",
    "[[known]]\nscenarios = ['a']\nkind = 'nan'": "entry 1: reason is missing",
    "[[known]]\nscenarios = ['a']\nkind = 'nan'\nreason = 'r'\nwhy = 'x'": "'why'",
    "[[known]]\nscenarios = ['a']\nkind = 'nan'\nreason = 3": "reason is a text",
}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_list_says_what_is_wrong_and_where(text, tmp_path):
    path = tmp_path / "known.toml"
    path.write_text(text)
    with pytest.raises(KnownFormatError) as error:
        read(path)
    assert BAD[text] in str(error.value)


def test_a_list_that_is_not_there_says_so(tmp_path):
    with pytest.raises(KnownFormatError, match=r"^No such file or directory$"):
        read(tmp_path / "none.toml")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_lists_that_come_with_the_package_can_be_read(path):
    assert read(path)
    assert {entry.impl for entry in read(path)} == {path.stem.partition("-")[0]}
