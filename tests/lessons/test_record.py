"""`minitransformer lessons` and `minitransformer claims`: the record, the table, the report, and what may go wrong."""

import json
import os
import re

import pytest

import kernels
from lessons.harness import claims, report
from lessons.harness import runner as command
from lessons.harness.verdicts import claims_table, summary
from minitransformer.app.cli.main import main

GOOD = "trial.check(world.colour == 'blue', f'the sky is {world.colour}')\nreturn 'proved', 'it is, in 3 of 3 looks'"


@pytest.fixture
def school(tmp_path, monkeypatch):
    """An empty working folder, and lessons of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "SCRIPTS", tmp_path / "lessons")
    monkeypatch.setenv("MINITRANSFORMER_BACKEND", "numpy")
    monkeypatch.setenv("COLUMNS", "100")
    with kernels.use("numpy"):  # what a command sets ends with the test
        yield tmp_path


def a_claim(name="sky", verdict="proved", caught=(True, True), lesson="01_tiny"):
    controls = [{"control": f"c{i}", "what": "broken", "caught": c, "by": "a check"} for i, c in enumerate(caught)]
    return {
        "claim": name, "lesson": lesson, "line": 3, "statement": "The sky is <blue> & wide. " * 9, "verdict": verdict,
        "evidence": "3 of 3 looks", "seconds": 1.0, "checks": ["3 of 3"], "figures": [], "controls": controls,
        "events": [{"check": "3 of 3"}, {"note": "a < b"}, {"figure": "01_sky.png", "caption": "the sky"}],
    }  # fmt: skip


def test_lessons_run_and_leave_table_record_and_report(school, write_lesson, capfd):
    write_lesson(GOOD)
    write_lesson(GOOD, name="02_other")
    assert main(["lessons", "--backend", "numpy"]) == 0
    said = capfd.readouterr().out
    assert "[1/2] 01_tiny: passed" in said and "    sky-01: proved" in said and "lessons passed: 2 of 2" in said
    assert "claims tried: 2 (2 proved)" in said and "controls caught: 2 of 2 (100 %)" in said
    assert [c["claim"] for c in json.loads((school / "build" / "claims.json").read_text())["claims"]] == [
        "sky-01",
        "sky-02",
    ]
    assert "sky-02" in (school / "build" / "lessons.html").read_text()
    assert "the sky is blue" in (school / "build" / "lessons" / "01_tiny.log").read_text()
    assert main(["claims"]) == 0
    assert "controls caught: 2 of 2 (100 %)" in capfd.readouterr().out
    # one lesson alone: only its own part changes
    write_lesson(GOOD.replace("'proved'", "'refuted'"))
    assert main(["lessons", "01"]) == 0
    assert "sky-02" not in capfd.readouterr().out
    verdicts = {c["claim"]: c["verdict"] for c in json.loads((school / "build" / "claims.json").read_text())["claims"]}
    assert verdicts == {"sky-01": "refuted", "sky-02": "proved"}


@pytest.mark.parametrize(
    "body, control, shown",
    [
        (GOOD.replace("== 'blue'", "== 'green'"), None, "FAILED"),
        (GOOD, "pass", "control repainted not caught"),
        ("raise RuntimeError('the floor gave way')", None, "the floor gave way"),
        ("this is no Python", None, "SyntaxError"),
    ],
    ids=["failed", "missed", "crashed", "unreadable"],
)
def test_a_lesson_that_fails_is_shown_and_ends_with_1(school, write_lesson, capfd, body, control, shown):
    write_lesson(GOOD)
    assert main(["lessons"]) == 0
    write_lesson(body, **({"control": control} if control else {}))
    assert main(["lessons", "--changed"]) == 1
    said = capfd.readouterr()
    assert shown in said.out + said.err and "failed: 01_tiny" in said.err and "lessons passed: 0 of 1" in said.out
    assert main(["claims"]) == 1, "the older verdict does not stand"
    assert "not sound: 01_tiny" in capfd.readouterr().err


def test_changed_skips_what_has_passed_on_these_sources_only(school, write_lesson, capfd):
    script = write_lesson(GOOD)
    assert main(["lessons", "--changed"]) == 0
    assert "passed already" not in capfd.readouterr().out
    assert main(["lessons", "--changed"]) == 0
    assert "01_tiny: passed already" in capfd.readouterr().out
    script.write_text(script.read_text() + "# a word more\n")
    assert main(["lessons", "--changed"]) == 0
    assert "passed already" not in capfd.readouterr().out
    assert main(["lessons", "--changed", "--full"]) == 0
    assert "passed already" not in capfd.readouterr().out, "another option is another run"


def test_list_names_and_describes(school, write_lesson, capsys):
    write_lesson(GOOD)
    assert main(["lessons", "--list"]) == 0
    assert re.search(r"01_tiny +A tiny lesson", capsys.readouterr().out)
    assert not (school / "build").exists()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["lessons", "99"], "no lesson is called '99'; there are: 01_tiny"),
        (["lessons", "--data", "nowhere"], "--data nowhere: there is no such folder"),
        (["lessons", "--backend", "tpu"], "unknown backend 'tpu'"),
        (["claims"], "there is no build/claims.json here; run minitransformer lessons first"),
    ],
)
def test_mistakes_end_in_one_line(school, write_lesson, capsys, arguments, message):
    write_lesson(GOOD)
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "3", '{"claims": []}', '{"lessons": [], "claims": [{"claim": "sky"}], "controls": {}}',
     '{"lessons": [], "claims": [7], "controls": {}}', '{"lessons": [{}], "claims": [], "controls": {}}'],
)  # fmt: skip
def test_a_broken_record_is_named_with_a_remedy(school, capsys, text):
    (school / "build").mkdir()
    (school / "build" / "claims.json").write_text(text)
    assert main(["claims"]) == 2
    said = capsys.readouterr().err
    assert "build/claims.json is" in said and "run minitransformer lessons again" in said and said.count("\n") == 1


def test_claims_as_json_are_the_record(school, write_lesson, capsys):
    record = {"lessons": [], "claims": [a_claim()], "controls": {"caught": 2, "of": 2}}
    claims.write_json(claims.CLAIMS, record)
    assert main(["claims", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == record


def test_a_poor_terminal_shows_what_it_can(school, python):
    claim = a_claim() | {"evidence": "4 n d² operations"}
    claims.write_json(claims.CLAIMS, {"lessons": [], "claims": [claim], "controls": {}})
    result = python("-m", "minitransformer", "claims", cwd=school, PYTHONIOENCODING="ascii")
    assert result.returncode == 0 and "4 n d? operations" in result.stdout


@pytest.mark.parametrize("width", [40, 70, 90, 140])
def test_the_table_fits_the_terminal(width):
    text = claims_table([a_claim(), a_claim("a-rather-long-name", "FAILED", (True, False))], width)
    assert max(map(len, text.splitlines())) <= width
    words = " ".join(text.split())
    assert words.count("3 of 3 looks") == 2 and "2/2" in words and "1/2" in words


def test_the_score_says_100_percent_of_all_only():
    assert summary([a_claim()]).endswith("controls caught: 2 of 2 (100 %)")
    assert summary([a_claim(caught=[True] * 999 + [False])]).endswith("controls caught: 999 of 1000 (99 %)")
    assert "1 proved, 1 FAILED" in summary([a_claim(), a_claim(verdict="FAILED")])


def test_the_report_stands_alone_and_escapes_what_it_quotes():
    lesson = {"lesson": "01_tiny", "title": "Sky & sea", "finished": True, "claims": [a_claim()]}
    html = report.page([lesson])
    assert "The sky is &lt;blue&gt; &amp; wide." in html and "a &lt; b" in html and "1. Sky &amp; sea" in html
    assert '<img src="lessons/01_sky.png" alt="the sky"' in html and "2 of 2 broken engines were caught" in html
    assert "http" not in html and "<script" not in html and "Not sound" not in html
    assert "Not sound: 01_tiny" in report.page([lesson | {"finished": False}])
    assert "Not sound: 01_tiny" in report.page([lesson | {"claims": [a_claim(caught=[False])]}])


def test_the_record_of_a_lesson_that_is_gone_is_left_out(school, write_lesson):
    script = write_lesson(GOOD)
    assert main(["lessons"]) == 0
    os.remove(script)
    assert claims.gather()["claims"] == []
