"""Every claim is tried by one lesson, every lesson passes, and every broken engine is caught.

The lessons run as a user runs them, in the project's folder: one that has passed on the present sources is not run
again, neither here nor by `make book`, which prints what these runs recorded."""

import ast
import importlib.util
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import kernels
from lessons.harness import claims
from minitransformer.download.wheels import NotFetched
from minitransformer.pretrained.fetch import fetch

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
    "reverse-mode", "gradcheck-strict", "backward-cost",  # the engine's own, lessons 1 and 8 to 10
    "same-kernel", "intensity", "online-softmax", "attention-memory", "fused-head", "race",
    "rotary-relative", "rotary-layout", "rms-enough", "gate-count", "kv-heads", "norm-place",
    "meaning-near", "word-in-context", "head-looks-back", "eps-detail",
    "bpe-training", "bpe-fewest", "bytes-enough", "wordpiece-unknown",
    "tone-in-band", "sound-as-source", "gaze-follows-time",
    "slices-weighted", "one-order", "ring-or-tree", "tokens-a-rank",
    "half-a-step", "bits-counted", "blocks-contain", "bits-enough", "step-memory", "recompute-same",
]  # fmt: skip
# One control each is run by hand, for its exit code, which the harness decides (test_trial.py): that of the quickest
# lesson, and in the slow tests those of the first two, whose engines are broken in other ways.
BROKEN_FOR_REAL = [SCRIPTS[2], *(pytest.param(script, marks=pytest.mark.slow) for script in SCRIPTS[:2])]


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
def test_a_lesson_leaves_drawing_measuring_and_breaking_to_the_files_beside_it(script):
    """lessons/figures/NAME.py draws for NN_NAME.py alone, and takes nothing from it but data; lessons/evidence/NAME.py,
    which a lesson may have, holds what its trials measure."""
    text, name = script.read_text(encoding="utf-8"), script.stem[3:]
    figures, evidence = (script.parent / folder / f"{name}.py" for folder in ("figures", "evidence"))
    assert f"from lessons.figures import {name} as figures\n" in text and figures.exists()
    assert evidence.exists() == (f"from lessons.evidence import {name} as evidence\n" in text)
    assert "matplotlib" not in text and "engine.replace" not in text
    if evidence.exists():
        measuring = evidence.read_text(encoding="utf-8")
        assert ast.get_docstring(ast.parse(measuring)), f"{evidence} does not say what it measures"
        assert not re.search(r"matplotlib|engine\.replace|lessons\.(figures|harness\.trial)", measuring)


def test_every_file_of_figures_and_evidence_belongs_to_a_lesson():
    names = {script.stem[3:] for script in SCRIPTS}
    files = [file for folder in ("figures", "evidence") for file in (ROOT / "lessons" / folder).glob("[a-z]*.py")]
    assert [str(file) for file in files if file.stem not in names] == []


def cells_of(source: str) -> list:
    """The cells as the book cuts them."""
    spec = importlib.util.spec_from_file_location("cells", ROOT / "docs" / "cells.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.split(source)


SECTIONS = ("At the end you can say", "Questions to think about", "Further reading", "Exercises")


def missing_form(source: str) -> list[str]:
    """What a script lacks of a lesson's form."""
    cells, lines = cells_of(source), source.splitlines()
    prose, code = (
        sum(bool(line.strip()) for cell in cells if cell.markdown == markdown for line in cell.text.splitlines())
        for markdown in (True, False)
    )
    text = "\n".join(cell.text for cell in cells if cell.markdown)
    missing = [name for name in SECTIONS if not re.search(rf"^(## |\*\*){name}", text, re.MULTILINE)]
    if prose < 0.45 * (prose + code):
        missing.append(f"prose: {prose} of {prose + code} lines")
    if len(lines) > 350:
        missing.append(f"brevity: {len(lines)} lines")
    first = min(first_results(source), default=len(lines))
    if first > len(lines) / 3:
        missing.append(f"an early result: the first is in line {first} of {len(lines)}")
    return missing


def first_results(source: str) -> list[int]:
    """The lines at which the script itself, outside of functions and classes, prints or shows something."""
    outside = [n for n in ast.parse(source).body if not isinstance(n, (ast.FunctionDef, ast.ClassDef))]
    calls = [call for node in outside for call in ast.walk(node) if isinstance(call, ast.Call)]
    return [call.lineno for call in calls if ast.unparse(call.func) in ("print", "lesson.show")]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_lesson_has_its_form(script):
    """Read first and run second: about half of it is prose, and something is seen soon."""
    assert missing_form(script.read_text(encoding="utf-8")) == []


IN_GOOD_FORM = """# %% [markdown]
# **At the end you can say** what 1 + 1 is.

# %%
print(1 + 1)

# %% [markdown]
# ## Questions to think about
# How much is 2 + 2?
# ## Further reading
# Peano, *Arithmetices principia*, 1889.
# ## Exercises
#
#
#
#
"""
LATE = "an early result: the first is in line"


@pytest.mark.parametrize(
    "change, lacking",
    [
        (lambda source: source, []),
        (lambda source: source.replace("# ## Exercises", "# Exercises are left to the reader"), ["Exercises"]),
        (lambda source: source + "# %%\n" + "x = 1\n" * 7, ["prose: 6 of 14 lines"]),
        (lambda source: source + "#\n" * 335, ["brevity: 351 lines"]),
        (lambda source: source.replace("print", "str"), [f"{LATE} 16 of 16"]),
        (lambda source: source.replace("print(1 + 1)", "def f(): print(1 + 1)"), [f"{LATE} 16 of 16"]),
        (lambda source: "# %% [markdown]\n" + "# word\n" * 9 + source, [f"{LATE} 15 of 26"]),
    ],
    ids=["good", "section", "code", "length", "silent", "never called", "late"],
)
def test_what_a_form_lacks_is_named(change, lacking):
    assert missing_form(change(IN_GOOD_FORM)) == lacking


def whole(script: Path):
    """A lesson as a slow test; one that needs models of others is for `make test-models`, which fetches them."""
    marks = [pytest.mark.models] if claims.needs(script) else [pytest.mark.slow]
    return pytest.param(script, marks=marks, id=script.stem)


@pytest.mark.parametrize("script", [whole(script) for script in SCRIPTS])
def test_a_lesson_passes_and_catches_every_broken_engine(script, python):
    for model in claims.needs(script):
        try:
            fetch(model)
        except NotFetched as error:
            pytest.skip(f"{script.stem} needs {model}, and {error}")
    # One core each, since another process tests on the next one; but the book shows how fast lesson 8's kernels are.
    one_core = {"NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} if script.stem != "08_kernels" else {}
    result = python("-m", "minitransformer", "lessons", script.stem, "--changed", cwd=ROOT, **one_core)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    record = json.loads((ROOT / "build" / "lessons" / f"{script.stem}.json").read_text(encoding="utf-8"))
    assert record["finished"] and record["full"] is False
    tried = {claim["claim"]: claim for claim in record["claims"]}
    left_out = set() if "emulated" in kernels.available() else {"race"}  # needs a C++ compiler, and the lesson says so
    assert trials(script) and sorted(tried) == sorted(set(trials(script)) - left_out)
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
