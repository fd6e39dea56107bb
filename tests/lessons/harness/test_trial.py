"""How claims are tried: broken engines that go unnoticed, crashes, and leftovers must not pass for proof."""

import json

import pytest

from tests.lessons.conftest import NO_FIGURES

GOOD = "trial.check(world.colour == 'blue', f'the sky is {world.colour} (blue expected)')\nreturn 'proved', 'it is'"


def record(folder, name="01_tiny"):
    return json.loads((folder / "build" / "lessons" / f"{name}.json").read_text(encoding="utf-8"))


def run(python, script, tmp_path, *options):
    figures = {} if "plt." in script.read_text(encoding="utf-8") else {"PYTHONPATH": NO_FIGURES}
    return python(script, "--backend", "numpy", *options, cwd=tmp_path, **figures)


def test_a_sound_lesson_passes_and_leaves_its_record(python, write_lesson, tmp_path):
    result = run(python, write_lesson(GOOD, more="print('afterwards', world.colour)"), tmp_path)
    assert result.returncode == 0, result.stderr
    assert "afterwards blue" in result.stdout, "the engine is whole again"
    kept = record(tmp_path)
    (claim,) = kept["claims"]
    assert kept["finished"] and kept["title"] == "A tiny lesson" and kept["backend"] == "numpy"
    assert claim["verdict"] == "proved" and claim["checks"] == ["the sky is blue (blue expected)"]
    assert claim["controls"] == [
        {
            "control": "repainted",
            "what": "somebody painted the sky",
            "caught": True,
            "by": "the sky is red (blue expected)",
        }
    ]
    summary = json.loads((tmp_path / "build" / "claims.json").read_text())
    assert summary["controls"] == {"caught": 1, "of": 1} and [c["claim"] for c in summary["claims"]] == ["sky-01"]


def test_output_is_kept_with_the_line_that_printed_it(python, write_lesson, tmp_path):
    script = write_lesson(GOOD, more="print('after it')")
    run(python, script, tmp_path)
    lines = script.read_text().splitlines()
    places = {text.strip(): lines[line - 1] for line, text in record(tmp_path)["output"]}
    assert places["before any trial"] == 'print("before any trial")'
    assert any(text.startswith("after it") for text in places)
    (trial,) = [line for line, text in record(tmp_path)["output"] if "sky-01:" in text]
    assert lines[trial - 1].startswith("@lesson.trial")


@pytest.mark.parametrize(
    "control, said",
    [
        ("pass", "every check still passes"),
        ("engine.replace(world, 'colour', lambda old: 1 / 0)", "crashed before a check could fail: ZeroDivisionError"),
        ("engine.replace(world, 'weather', lambda old: old)", "crashed before a check could fail: AttributeError"),
    ],
    ids=["harmless", "crashing", "misspelt"],
)
def test_a_control_that_is_not_caught_fails_the_lesson(python, write_lesson, tmp_path, control, said):
    """A crash is no verdict either: a misspelt patch would otherwise count as proof for ever."""
    script = write_lesson(GOOD, control)
    result = run(python, script, tmp_path)
    assert result.returncode == 1 and "controls not caught: repainted" in result.stderr
    (control_record,) = record(tmp_path)["claims"][0]["controls"]
    assert not control_record["caught"] and said in control_record["by"]
    assert run(python, script, tmp_path, "--break", "repainted").returncode == 0, "0: nobody noticed"


def test_a_failed_check_fails_the_lesson_and_its_controls_prove_nothing(python, write_lesson, tmp_path):
    result = run(python, write_lesson(GOOD.replace("== 'blue'", "== 'green'")), tmp_path)
    assert result.returncode == 1 and "failed: sky-01" in result.stderr
    (claim,) = record(tmp_path)["claims"]
    assert claim["verdict"] == "FAILED" and claim["evidence"] == "the sky is blue (blue expected)"
    assert [control["caught"] for control in claim["controls"]] == [False]


@pytest.mark.parametrize("where, verdicts", [("before", []), ("inside", ["FAILED"]), ("after", ["proved"])])
def test_a_crash_is_not_a_verdict_and_wipes_the_older_one(python, write_lesson, tmp_path, where, verdicts):
    crash = "raise RuntimeError('the floor gave way')"
    assert run(python, write_lesson(GOOD), tmp_path).returncode == 0
    assert record(tmp_path)["finished"]
    script = write_lesson(crash if where == "inside" else GOOD, more=crash if where == "after" else "")
    if where == "before":
        script.write_text(script.read_text().replace('print("before any trial")', crash))
    result = run(python, script, tmp_path)
    assert result.returncode != 0 and "the floor gave way" in result.stderr
    kept = record(tmp_path)
    assert not kept["finished"] and [claim["verdict"] for claim in kept["claims"]] == verdicts
    assert not json.loads((tmp_path / "build" / "claims.json").read_text())["lessons"][0]["passed"]


@pytest.mark.parametrize("control", [None, "engine.replace(world, 'colour', lambda old: stop())"])
def test_an_interrupted_claim_is_not_finished_and_not_failed(python, write_lesson, tmp_path, control):
    """On the sound engine or on a broken one: whoever presses Ctrl-C has refuted nothing."""
    script = write_lesson(GOOD if control else "stop()", **({"control": control} if control else {}))
    stop = "def stop():\n    raise KeyboardInterrupt"
    script.write_text(script.read_text().replace('print("before any trial")', stop))
    result = run(python, script, tmp_path)
    assert result.returncode != 0 and result.stderr == "\nstopped: 01_tiny is not finished\n"
    assert record(tmp_path)["claims"] == [] and not record(tmp_path)["finished"]
    (lesson,) = json.loads((tmp_path / "build" / "claims.json").read_text())["lessons"]
    assert lesson["state"] == "not finished"


def test_an_unknown_verdict_is_refused(python, write_lesson, tmp_path):
    result = run(python, write_lesson("return 'plausible', 'so I heard'"), tmp_path)
    assert result.returncode != 0 and "proved, refuted, sharpened, not 'plausible'" in result.stderr


def test_break_runs_one_broken_engine_and_ends_with_1(python, write_lesson, tmp_path):
    script = write_lesson(GOOD)
    result = run(python, script, tmp_path, "--break", "repainted")
    assert result.returncode == 1
    assert "FAILED  the sky is red" in result.stdout and "Traceback" not in result.stderr
    assert not (tmp_path / "build" / "claims.json").exists(), "a broken engine leaves no record"


@pytest.mark.parametrize(
    "options, message",
    [
        (("--break", "unheard-of"), "01_tiny has no control 'unheard-of'; there are: repainted"),
        (("--backend", "tpu"), "unknown backend 'tpu'"),
    ],
)
def test_mistakes_end_in_one_line_and_2(python, write_lesson, tmp_path, options, message):
    result = run(python, write_lesson(GOOD), tmp_path, *options)
    assert result.returncode == 2
    assert message in result.stderr and result.stderr.count("\n") == 1


def test_a_claim_needs_a_control(python, write_lesson, tmp_path):
    script = write_lesson(GOOD)
    script.write_text(script.read_text().replace("controls=[repainted]", "controls=[]"))
    result = run(python, script, tmp_path)
    assert result.returncode != 0 and "needs a negative control" in result.stderr


def test_a_trial_that_cannot_be_run_here_is_left_out_and_says_why(python, write_lesson, tmp_path):
    script = write_lesson(GOOD)
    script.write_text(script.read_text().replace("controls=[repainted]", "controls=[repainted], without='it is night'"))
    result = run(python, script, tmp_path)
    assert result.returncode == 0 and "sky-01: left out, because it is night" in result.stdout, result.stdout
    assert record(tmp_path)["claims"] == []


def test_a_claim_is_tried_once(python, write_lesson, tmp_path):
    again = "lesson.trial('sky-01', 'Again.', controls=[repainted])(sky)"
    result = run(python, write_lesson(GOOD, more=again), tmp_path)
    assert result.returncode != 0 and "sky-01 is tried twice" in result.stderr


def test_a_broken_engine_draws_no_figure(python, write_lesson, tmp_path):
    body = (
        "figure, axes = plt.subplots()\nlesson.drawn = getattr(lesson, 'drawn', 0) + 1\n"
        "axes.set_title(str(lesson.drawn))\ntrial.show(figure, 'sky', f'drawing {lesson.drawn}')\n" + GOOD
    )
    assert run(python, write_lesson(body), tmp_path).returncode == 0
    (claim,) = record(tmp_path)["claims"]
    assert claim["figures"] == [{"file": "01_sky.png", "caption": "drawing 1"}]
    before = (tmp_path / "build" / "lessons" / "01_sky.png").read_bytes()
    run(python, write_lesson(body), tmp_path, "--break", "repainted")
    assert (tmp_path / "build" / "lessons" / "01_sky.png").read_bytes() == before


SHOW = "figure, axes = plt.subplots()\nlesson.show(figure, 'sky', 'A sky.')\nprint('below it')"


def test_a_figure_outside_of_a_trial_is_kept_with_its_line(python, write_lesson, tmp_path):
    script = write_lesson(GOOD, more=SHOW)
    result = run(python, script, tmp_path)
    assert result.returncode == 0, result.stderr
    assert "-> build/lessons/01_sky.png: A sky." in result.stdout.replace("\\", "/")
    ((line, figure),) = [part for part in record(tmp_path)["output"] if isinstance(part[1], dict)]
    assert figure == {"figure": "01_sky.png", "caption": "A sky."}
    assert script.read_text().splitlines()[line - 1].startswith("lesson.show(")
    texts = [text for _, text in record(tmp_path)["output"] if isinstance(text, str)]
    assert any(text.startswith("below it") for text in texts) and not any("->" in text for text in texts)
    assert (tmp_path / "build" / "lessons" / "01_sky.png").stat().st_size > 0
    drawing = (tmp_path / "build" / "lessons" / "01_sky.svg").read_bytes()
    run(python, script, tmp_path)
    assert b"<svg" in drawing and (tmp_path / "build" / "lessons" / "01_sky.svg").read_bytes() == drawing


def test_a_figure_outside_of_a_trial_is_silent_on_a_broken_engine(python, write_lesson, tmp_path):
    said = run(python, write_lesson(GOOD, more=SHOW), tmp_path, "--break", "repainted").stdout
    assert "->" not in said and not (tmp_path / "build" / "lessons" / "01_sky.png").exists()
    inside = run(python, write_lesson("lesson.show(plt.figure(), 'sky', 'A sky.')\n" + GOOD), tmp_path)
    assert inside.returncode == 0 and inside.stdout.count("->") == 1, "not again when the trial runs on a broken one"


def test_what_is_remembered_does_not_outlive_its_engine(python, write_lesson, tmp_path):
    """A sound training run is made once; one on a broken engine is neither taken from it nor left behind."""
    setup = "look = lesson.remember(lambda: (looks.append(lesson.control), world.colour)[1])"
    body = "assert look() == look() == world.colour\n" + GOOD
    script = write_lesson(body, more="print(looks, look(), looks)")
    script.write_text(script.read_text().replace('print("before any trial")', f"looks = []\n{setup}"))
    result = run(python, script, tmp_path)
    assert result.returncode == 0, result.stderr
    assert "[None, 'repainted'] blue [None, 'repainted']" in result.stdout
