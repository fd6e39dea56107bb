"""Every claim is tried by one lesson, every lesson passes, and every broken engine is caught.

The lessons run as a user runs them, in the project's folder: one that has passed on the present sources is not run
again, neither here nor by `make book`, which prints what these runs recorded."""

import ast
import json
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import kernels

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "lessons").glob("[0-9][0-9]_*.py"))

CLAIMS = [
    "mask-causal", "mask-diagonal", "decoder-mask",
    "pe-needed", "pe-added", "pe-linear", "pe-distinct",
    "attention-shape", "cost-self-attention", "cost-recurrent", "cost-convolution",
    "heads-free", "heads-more",
    "params-lab", "params-formula", "params-loose", "params-head", "params-base",
    "head-swap", "generate-loop",
    "transfer-start", "transfer-end", "labels-scarce",
    "bidirectional", "bert-input",
    "degenerate", "no-repeat",
    "reverse-mode", "gradcheck-strict", "backward-cost",  # the engine's own, lessons 1 and 8
    "same-kernel", "intensity", "online-softmax", "attention-memory", "fused-head", "race",
]  # fmt: skip
BROKEN_FOR_REAL = SCRIPTS[:5]  # those that are quick: one control each is run by hand, for its exit code


@cache
def trials(script: Path) -> dict[str, list[str]]:
    """The claims that a script tries, with the names of their controls, read from its text."""
    found: dict[str, list[str]] = {}
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "trial":
            (controls,) = [word.value.elts for word in node.keywords if word.arg == "controls"]
            faults = [control.func if isinstance(control, ast.Call) else control for control in controls]
            found[node.args[0].value] = [fault.attr.replace("_", "-") for fault in faults]  # faults.NAME
    return found


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_is_tried_by_exactly_one_lesson(claim):
    assert len([script.name for script in SCRIPTS if claim in trials(script)]) == 1


def test_no_claim_is_tried_twice():
    tried = Counter(claim for script in SCRIPTS for claim in trials(script))
    assert [claim for claim, times in tried.items() if times > 1] == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_lesson_leaves_drawing_and_breaking_to_the_files_beside_it(script):
    """lessons/figures/NAME.py draws for NN_NAME.py alone, and takes nothing from it but data."""
    text = script.read_text(encoding="utf-8")
    figures = script.parent / "figures" / f"{script.stem[3:]}.py"
    assert f"from lessons.figures import {figures.stem} as figures\n" in text and figures.exists()
    assert "matplotlib" not in text and "engine.replace" not in text


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_lesson_passes_and_catches_every_broken_engine(script, python):
    result = python("-m", "minitransformer", "lessons", script.stem, "--changed", cwd=ROOT)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    record = json.loads((ROOT / "build" / "lessons" / f"{script.stem}.json").read_text(encoding="utf-8"))
    assert record["finished"] and record["full"] is False
    tried = {claim["claim"]: claim for claim in record["claims"]}
    left_out = set() if "emulated" in kernels.available() else {"race"}  # needs a C++ compiler, and the lesson says so
    assert sorted(tried) == sorted(set(trials(script)) - left_out) != []
    for name, claim in tried.items():
        assert claim["verdict"] in ("proved", "refuted", "sharpened"), name
        assert claim["checks"] and claim["evidence"] and any(letter.isdigit() for letter in claim["evidence"]), name
        assert sorted(c["control"] for c in claim["controls"]) == sorted(trials(script)[name]) != [], name
        assert [c["control"] for c in claim["controls"] if not c["caught"]] == [], name
        for figure in claim["figures"]:
            assert (ROOT / "build" / "lessons" / figure["file"]).stat().st_size > 0 and figure["caption"], figure
    print(f"{script.stem}: {len(tried)} claims, {sum(len(c['controls']) for c in tried.values())} controls caught")


@pytest.mark.parametrize("script", BROKEN_FOR_REAL, ids=lambda script: script.stem)
def test_on_a_broken_engine_a_lesson_ends_with_1(script, python, tmp_path):
    control = next(iter(trials(script).values()))[0]
    result = python(script, "--break", control, cwd=tmp_path)
    assert result.returncode == 1, result.stdout[-2000:] + result.stderr[-2000:]
    assert "FAILED" in result.stdout and "the broken engine was caught" in result.stdout
    assert "Traceback" not in result.stderr
