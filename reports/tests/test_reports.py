"""Every form of a report says what the report says, and survives hostile text."""

import json
import math
import re
from dataclasses import replace
from xml.etree import ElementTree as Xml

import pytest

from sidestream.harness.finding import Finding, Incomplete, Rule, Site, Verdict
from sidestream.reports import html, junit, perfetto, sarif
from sidestream.reports import json as report_json
from sidestream.reports.files import write_atomically
from sidestream.reports.model import (
    Case,
    Check,
    Declined,
    Error,
    Report,
    Span,
    folded,
    scenarios_of,
)
from sidestream.reports.write import FORMS, write

HOSTILE = "</script><b>&\"'\x00\x1b\ud7ff{{ 7 * 7 }}"


def finding(**changes):
    facts = {
        "kind": "out-of-bounds",
        "rule": Rule(id="gmem.bounds", title="State Spaces: Global State Space"),
        "message": "4 bytes past the end of v",
        "kernel": "fwd",
        "scenario": "nan-tail",
        "sites": (
            Site(
                agent="cta (0,0,0) warp 1 lane 7",
                operation="ld.global.v4.b32",
                ptx_line=812,
                source="kernels/sm120/loader.py:88",
            ),
            Site(agent="host", operation="allocate v", detail="512 bytes"),
        ),
        "need": "a bound",
        "witness": ("first", "second"),
        "replay": "sidestream replay TOKEN",
    }
    return Finding(**(facts | changes))


def case(**changes):
    facts = {
        "impl": "sidestream",
        "kernel": "sm120",
        "scenario": "nan-tail",
        "description": "NaN behind the live rows",
        "verdict": Verdict.FINDINGS,
        "checks": {
            "parity": Check(status="passed", reason="worst 0.31 of the bound"),
            "bounds": Check(status="failed", reason="1 finding"),
            "scratch": Check(status="not-run", reason="takes no workspace"),
        },
        "errors": {
            "out": Error(ratio=0.31, absolute=0.002, at=(3, 1, 7)),
            "lse": Error(ratio=math.inf, absolute=math.nan, at=(0, 0)),
        },
        "code": "bfloat16 d64",
        "compiles": 1,
        "launches": 2,
        "warp_instructions": 123456,
        "seconds": {"execute": 0.5, "reference": 0.25},
        "findings": (finding().id,),
        "replay": "sidestream replay X",
        "spans": (
            Span(name="execute", start=1.0, seconds=0.5, track="worker 0"),
            Span(name="reference", start=1.5, seconds=0.25, track="worker 0"),
        ),
    }
    return Case(**(facts | changes))


def report(**changes):
    facts = {
        "command": "sidestream check",
        "version": "0.1.0",
        "device": "vgpu",
        "arch": "sm_120a",
        "seed": 7,
        "cases": (case(),),
        "findings": (finding(extra={"scenarios": ["nan-tail"], "ratio": math.inf}),),
        "incomplete": (
            Incomplete(reason="foo.bar has no semantics", kernel="fwd", ptx_line=9),
        ),
        "declined": (Declined(scenario="sinks", reason="no sinks"),),
        "environment": {"python": "3.11"},
        "wall_seconds": 2.5,
        "started": "2026-01-02T03:04:05Z",
    }
    return Report(**(facts | changes))


def clean():
    passed = {"parity": Check(status="passed")}
    good = case(verdict=Verdict.CLEAN, checks=passed, findings=(), errors={})
    return report(cases=(good,), findings=(), incomplete=())


def test_the_worst_wins_and_nothing_is_not_clean():
    assert clean().verdict is Verdict.CLEAN
    assert report().verdict is Verdict.FINDINGS
    assert report(findings=(), cases=clean().cases).verdict is Verdict.INCOMPLETE
    assert replace(clean(), cases=()).verdict is Verdict.INCOMPLETE
    review = replace(clean().cases[0], verdict=Verdict.REVIEW)
    assert replace(clean(), cases=(review,)).verdict is Verdict.REVIEW


def test_json_has_the_fields_of_the_schema():
    raw = json.loads(report_json.render(report()))
    assert raw["schema"] == "sidestream.report/1"
    assert set(raw) >= {
        *("tool", "verdict", "device", "arch", "profile", "seed", "cases"),
        *("findings", "incomplete", "stats", "environment"),
    }
    first = raw["cases"][0]
    assert first["checks"] == {
        "parity": "passed",
        "bounds": "failed",
        "scratch": "not-run: takes no workspace",
    }
    assert first["notes"]["bounds"] == "1 finding"
    assert first["errors"]["lse"] == {"ratio": "inf", "absolute": "nan", "at": [0, 0]}
    assert (first["compiles"], first["launches"]) == (1, 2)
    assert set(raw["findings"][0]) >= {
        *("id", "kind", "rule", "kernel", "scenario", "sites", "need"),
        *("witness", "replay"),
    }
    assert raw["stats"]["warp_instructions"] == 123456
    assert raw["stats"]["seconds"] == {"execute": 0.5, "reference": 0.25}


@pytest.mark.parametrize("make", [report, clean])
def test_json_reads_back_to_the_same_text(tmp_path, make):
    text = report_json.render(make())
    path = tmp_path / "report.json"
    path.write_text(text)
    again = report_json.read(path)
    assert report_json.render(again) == text
    assert again.cases[0].checks == make().cases[0].checks
    assert again.verdict is make().verdict


def damaged():
    good = json.loads(report_json.render(report()))
    yield "schema", good | {"schema": "sidestream.report/9"}
    yield "field 'cases'", {k: v for k, v in good.items() if k != "cases"}
    yield "verdict", good | {"verdict": "clean"}
    yield "an object", [1]
    yield "malformed", good | {"cases": {}}
    yield "malformed", good | {"incomplete": [{"why": 1}]}
    changed = json.loads(json.dumps(good))
    changed["findings"][0]["id"] = "0" * 12
    yield "does not match", changed


@pytest.mark.parametrize(("word", "raw"), list(damaged()))
def test_a_damaged_report_is_refused_with_the_place(tmp_path, word, raw):
    path = tmp_path / "report.json"
    path.write_text(json.dumps(raw))
    with pytest.raises(report_json.ReportFormatError, match=re.escape(word)) as caught:
        report_json.read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "\ud7ff"])
def test_what_is_not_json_is_refused(tmp_path, text):
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(report_json.ReportFormatError, match="cannot be read"):
        report_json.read(path)
    with pytest.raises(report_json.ReportFormatError, match="no such file"):
        report_json.read(tmp_path / "absent.json")


def test_findings_of_one_id_fold_and_keep_their_scenarios():
    one, two = finding(scenario="a", count=2), finding(scenario="b")
    other = finding(kind="misaligned")
    merged = folded([one, two, other, one])
    assert [f.id for f in merged] == [one.id, other.id]
    assert merged[0].count == 5
    assert scenarios_of(merged[0]) == ["a", "b"]
    assert folded(merged) == merged


def test_compilations_are_grouped_by_the_code_they_made():
    cases = [case(code="a"), case(code="b", compiles=2), case(code="a", compiles=0)]
    rows = report(cases=tuple(cases)).compilations
    assert [(row.code, row.cases, row.compiles) for row in rows] == [
        ("a", 2, 1),
        ("b", 1, 2),
    ]


def test_a_check_that_did_not_pass_says_why():
    with pytest.raises(ValueError, match="needs a reason"):
        Check(status="failed")
    with pytest.raises(ValueError, match="unknown"):
        Check(status="fine")


def test_junit_counts_and_carries_the_finding():
    root = Xml.fromstring(junit.render(report()))
    assert root.get("tests") == "4"
    assert (root.get("failures"), root.get("errors"), root.get("skipped")) == (
        "1",
        "1",
        "1",
    )
    failure = root.find(".//failure")
    assert "gmem.bounds" in failure.text
    assert "PTX line 812" in failure.text
    assert "sidestream replay TOKEN" in failure.text
    assert root.find(".//error").get("message").endswith("(PTX line 9)")
    green = Xml.fromstring(junit.render(clean()))
    assert (green.get("failures"), green.get("errors")) == ("0", "0")


def test_sarif_points_at_the_python_line():
    run = json.loads(sarif.render(report()))["runs"][0]
    first, last = run["results"]
    place = first["locations"][0]
    assert place["physicalLocation"]["region"]["startLine"] == 88
    assert place["physicalLocation"]["artifactLocation"]["uri"].endswith("loader.py")
    assert place["properties"]["ptxLine"] == 812
    assert "physicalLocation" not in first["relatedLocations"][0]
    assert first["partialFingerprints"]["sidestreamFindingId/v1"] == finding().id
    assert last["level"] == "warning"
    used = {result["ruleId"] for result in run["results"]}
    assert used == {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    absolute = finding(sites=(Site(agent="a", operation="b", source="/x y/k.py:3"),))
    run = json.loads(sarif.render(report(findings=(absolute,))))["runs"][0]
    uri = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert uri == {"uri": "file:///x%20y/k.py"}


def test_perfetto_nests_phases_in_their_case():
    events = json.loads(perfetto.render(report()))["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    outer = next(event for event in slices if event["cat"] == "case")
    inner = [event for event in slices if event["cat"] == "phase"]
    assert [event["name"] for event in inner] == ["execute", "reference"]
    assert outer["ts"] == 1e6
    assert outer["dur"] == 0.75e6
    for event in inner:
        assert event["tid"] == outer["tid"]
        assert outer["ts"] <= event["ts"]
        assert event["ts"] + event["dur"] <= outer["ts"] + outer["dur"]


def test_html_is_self_contained_and_says_it_all():
    page = html.render(report())
    for text in (
        *("nan-tail", "4 bytes past the end of v", "gmem.bounds", "PTX line 812"),
        *("a bound", "sidestream replay TOKEN", "foo.bar has no semantics"),
        *("no sinks", "3.11", "cta (0,0,0) warp 1 lane 7", "123 k"),
    ):
        assert text in page, text
    assert not re.search(r"(src|href)=[\"'](?!#)", page)
    assert "http" not in re.sub(r"https?://json\.schemastore", "", page)
    assert "@import" not in page
    assert 'data-verdict="findings"' in page


def hostile():
    bad = finding(
        message=HOSTILE,
        need=HOSTILE,
        kernel=HOSTILE,
        scenario=HOSTILE,
        sites=(Site(agent=HOSTILE, operation=HOSTILE, source=HOSTILE),),
        replay=HOSTILE,
    )
    broken = case(
        scenario=HOSTILE,
        description=HOSTILE,
        checks={HOSTILE: Check(status="failed", reason=HOSTILE)},
        findings=(bad.id,),
    )
    return report(
        cases=(broken,),
        findings=(bad,),
        incomplete=(Incomplete(reason=HOSTILE, scenario=HOSTILE),),
        command=HOSTILE,
        environment={HOSTILE: HOSTILE},
    )


def test_hostile_text_stays_text_in_every_form():
    page = html.render(hostile())
    assert "</script><b>" not in page
    assert page.count("<script>") == page.count("</script>") == 1
    assert "49" not in re.findall(r"\{\{.*?\}\}|>49<", page)
    Xml.fromstring(junit.render(hostile()))
    json.loads(sarif.render(hostile()))
    json.loads(perfetto.render(hostile()))
    text = report_json.render(hostile())
    assert report_json.render(report_json.parse(json.loads(text))) == text


def test_all_files_are_written_and_replaced_whole(tmp_path, monkeypatch):
    folder = tmp_path / "new" / "out"
    assert write(report(), folder) == folder / "report.html"
    assert sorted(p.name for p in folder.iterdir()) == sorted(FORMS)
    before = (folder / "report.json").read_text()
    monkeypatch.setitem(FORMS, "results.sarif", lambda report: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write(clean(), folder)
    assert (folder / "report.json").read_text() == before


def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a"
    write_atomically(path, "old")

    def interrupted(*names):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.00123, "1.23 ms"), (1.5, "1.5 s"), (123.4, "123 s")],
)
def test_durations(value, text):
    assert html.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(9999, "9999"), (12345, "12.3 k"), (2.5e6, "2.5 M")]
)
def test_counts(value, text):
    assert html.count(value) == text
