"""The benchmark: what it counts, what it prints, and that it ends in one line when something is missing. No time is
asserted."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import autograd.functional as F
import kernels
from kernels.contract import CONTRACT
from minitransformer.app.bench import bench_inputs, cases, charts, growth, ours, profile, race, ranks
from minitransformer.app.bench.roofline import Point
from minitransformer.app.cli import bench as bench_command
from minitransformer.config import LAB_TRANSLATOR
from minitransformer.errors import UserError
from minitransformer.models import Bert, LanguageModel, Translator, build

PRODUCTS = ("linear", "attention", "feed_forward", "gated_feed_forward")


def bench(folder, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "minitransformer", "bench", *arguments]
    return subprocess.run(command, cwd=folder, env={**os.environ}, capture_output=True, text=True)


def product_flops(loss, backward: bool = True) -> float:
    """Of the kernels with products, as the contract counts them, forward and backward."""
    from autograd import tape

    if backward:
        loss.backward(retain_graph=True)
    calls = tape.calls(loss, backward=backward)
    return sum(CONTRACT[name].cost(*args).flops for name, args in calls if name.startswith(PRODUCTS))


def test_the_arithmetic_of_an_encoder():
    """Biases, GELU and softmax, which are left out, are 1 % of it."""
    bert, ids = Bert(cases.MINILM), bench_inputs.words(2, 16, 30522)
    claimed = cases.encoder_flops({"B": 2, "T": 16})
    assert product_flops(bert.hidden(ids, np.zeros_like(ids)).sum(), backward=False) == pytest.approx(claimed, rel=0.02)


@pytest.mark.parametrize("kind", ["language model", "classifier", "translator", "llama"])
def test_the_arithmetic_is_what_the_kernels_do(kind):
    """The formulas of the cases against the tape. What they leave out (biases, softmaxes, activations) is 0.3 to 1.6 %
    here; the smallest part they could forget, the layers below the labs' head, would be 9 %."""
    sizes = {"B": 2, "T": 16}
    if kind == "translator":
        small = replace(LAB_TRANSLATOR, source_vocab=50, target_vocab=5000)
        model, claimed = Translator(small), cases.translator_flops(sizes | {"model": small})
        source, target = bench_inputs.words(2, 16, 50), bench_inputs.words(2, 17, 5000)
        loss = model.loss(source, target[:, :-1], target[:, 1:])
    elif kind == "classifier":
        model, claimed = build("lab", "classifier"), cases.classifier_flops(sizes)
        loss = F.cross_entropy(model(bench_inputs.words(2, 16, 50001)), np.array([0, 1]))
    elif kind == "llama":
        small = replace(cases.LLAMA_STEP, vocab_size=1000)  # a large head would outweigh whatever is forgotten
        model, claimed = LanguageModel(small), cases.llama_flops(sizes | {"model": small})
        ids = bench_inputs.words(2, 17, 1000)
        loss = model.loss(ids[:, :-1], ids[:, 1:])
    else:
        model, claimed = build("lab"), cases.step_flops(sizes)
        ids = bench_inputs.words(2, 17, 50001)
        loss = model.loss(ids[:, :-1], ids[:, 1:])
    assert product_flops(loss) == pytest.approx(claimed, rel=0.02)


@pytest.mark.slow
def test_one_case_without_a_peer(tmp_path):
    result = bench(tmp_path, "attention-24", "--against", "nothing", "--rounds", "1", "--json", "figures.json")
    assert result.returncode == 0, result.stderr
    report = json.loads((tmp_path / "figures.json").read_text())
    (case,) = report["cases"]
    assert report == json.loads((tmp_path / "build/bench/bench.json").read_text())
    assert case["ours"]["best"] == min(case["ours"]["seconds"]) <= case["ours"]["median"]
    assert len(case["ours"]["seconds"]) == cases.CASES["attention-24"].repeats
    assert case["ours"]["megabytes"] > 10 and case["gflops"] > 0 and case["peak"] > 0
    assert "of sgemm" in result.stdout and "ratio" not in case and not (tmp_path / "build/bench/bench.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("lmm",), "no case is called 'lmm'; there are: lm, lm-padded"),
        (("lm-padded", "--against", "nothing", "--data", "nowhere"), "--data names the folder that holds cls-books-fr"),
    ],
)
def test_what_is_missing_is_said_in_a_line(tmp_path, arguments, message):
    result = bench(tmp_path, *arguments)
    assert result.returncode == 2 and message in result.stderr and "Traceback" not in result.stderr


def test_without_pytorch_it_says_what_is_missing_and_how_to_get_it(monkeypatch, capsys):
    project = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())
    torch, *onnx = project["project"]["optional-dependencies"]["bench"]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert bench_command._peers(bench_command.Options()) == []
    line = capsys.readouterr().err
    assert "the ratios and the picture bench.png are left out" in line and f'pip install "{torch}"' in line
    for options in (bench_command.Options(against="torch"), bench_command.Options(compile=True)):
        with pytest.raises(UserError, match=re.escape(f'pip install "{torch}"')):
            bench_command._peers(options)
    with pytest.raises(UserError, match=re.escape("pip install " + " ".join(f'"{package}"' for package in onnx))):
        bench_command._peers(bench_command.Options(against="onnx"))


def test_who_takes_part(monkeypatch):
    monkeypatch.setattr(bench_command, "_installed", lambda peer: True)
    assert bench_command._peers(bench_command.Options()) == ["torch", "onnx"]
    assert bench_command._peers(bench_command.Options(compile=True)) == ["torch", "onnx", "compiled"]
    assert bench_command._peers(bench_command.Options(against="onnx")) == ["onnx"]
    assert bench_command._peers(bench_command.Options(against="nothing")) == []
    assert [name for name, case in cases.CASES.items() if "onnx" in case.peers] == [
        "encoder-1x16", "encoder-1x128", "encoder-32x128", "encoder-8x512",
    ]  # fmt: skip


def figures(best: float, slowest: float = 1.0) -> dict:
    return {"best": best, "median": best, "slowest": slowest, "megabytes": 100.0}


def test_the_table_has_the_columns_that_have_entries_and_says_what_they_mean(capsys):
    alone = {"name": "adam", "target": 1.0, "ours": figures(0.001, 1.25)}
    bench_command._print_summary({"cases": [alone]})
    text = capsys.readouterr().out
    assert "PyTorch" not in text and "ratio" not in text and "aim" not in text and "of sgemm" not in text
    assert "+25%" in text and "spread: how much longer" in text
    beside = alone | {"name": "lm", "torch": figures(0.002), "ratio": 2.0, "ratio_range": (1.75, 2.25)}
    bench_command._print_summary({"cases": [alone, beside]})
    text = capsys.readouterr().out
    assert "1.75-2.25" in text and "ratio: PyTorch's best time / ours" in text and "compiled" not in text
    bench_command._print_summary({"cases": []})
    assert capsys.readouterr().out == ""


def test_the_spread_is_that_of_rounds():
    side = race.Side("ours", [[3.0, 2.0], [5.0, 4.0]])
    assert side.seconds == [3.0, 2.0, 5.0, 4.0] and side.best_of_rounds == [2.0, 4.0] and side.best == 2.0


def test_who_takes_part_in_a_case(monkeypatch):
    """torch.compile by itself only in lm, where a compiler is found and time is not short."""
    options, everybody = bench_command.Options, ["ours", "torch", "onnx"]
    lm, adam, encoder = (cases.CASES[name] for name in ("lm", "adam", "encoder-1x16"))
    monkeypatch.setattr(bench_command.shutil, "which", lambda name: name)
    assert bench_command._sides(lm, everybody, options()) == ["ours", "torch", "compiled"]
    assert bench_command._sides(lm, everybody, options(quick=True)) == ["ours", "torch"]
    assert bench_command._sides(lm, ["ours"], options()) == ["ours"]
    assert bench_command._sides(adam, everybody, options()) == ["ours", "torch"]
    assert bench_command._sides(adam, [*everybody, "compiled"], options(compile=True)) == ["ours", "torch", "compiled"]
    assert bench_command._sides(encoder, everybody, options()) == ["ours", "torch", "onnx"]
    monkeypatch.setattr(bench_command.shutil, "which", lambda name: None)
    assert bench_command._sides(lm, everybody, options()) == ["ours", "torch"]


def test_recomputation_trains_alike():
    small = replace(cases.DEEP, vocab_size=50, d_model=16, n_heads=2, d_ff=16)
    losses = []
    for again in (False, True):
        work = ours.language_model({"B": 2, "T": 8, "model": small, "recompute": again}, None)
        losses.append([work() for _ in range(3)])
    assert losses[0] == losses[1]


def test_the_quick_selection_exists():
    assert set(cases.QUICK) <= set(cases.CASES)


def test_every_case_and_extra_is_listed(tmp_path):
    listed = bench(tmp_path, "--list").stdout
    assert all(name in listed for name in [*cases.CASES, "start-up", "profile", "roofline", "growth", "ranks"])


def test_a_profile_adds_up_and_leaves_no_trace():
    with kernels.use("numba"):
        before = {name: getattr(kernels.current(), name) for name in CONTRACT}
        total, shares = profile.measure("classifier", tries=1)
        assert {name: getattr(kernels.current(), name) for name in CONTRACT} == before
    assert sum(share.milliseconds for share in shares) == pytest.approx(total)
    calls = {share.kernel: share.calls for share in shares}
    # in_proj and out_proj of three layers; query, keys and values and out_proj of the last; the head
    assert calls["linear_backward"] == 10 and calls["attention"] == 4 and calls["adam"] == 51


def test_exponents_and_pictures(tmp_path):
    curve = growth.Curve("a square", "T", [10, 100, 1000, 10000], [5, 1e2, 1e4, 1e6], [3, 3, 3, 3])
    assert curve.exponent(curve.seconds) == pytest.approx(2) and curve.exponent(curve.megabytes) == pytest.approx(0)
    charts.growth([curve, curve], tmp_path / "growth.png")
    points = [Point("linear", 70, 140, 3), Point("adam", 0.5, 20, 8), Point("embedding", 0.001, 0, 0.1)]
    charts.roofline(points, 180, 30, "a machine", tmp_path / "roofline.png")
    charts.bars([{"title": "one", "ratio": 2.0, "target": 1.5}, {"title": "two"}], "a machine", tmp_path / "bars.png")
    assert all((tmp_path / name).stat().st_size > 5000 for name in ("growth.png", "roofline.png", "bars.png"))


def test_ranks_on_paper():
    """One rank sends nothing; the bytes of N ranks are those of an all-reduce; backward hides no more than it lasts."""
    size = ranks.Size("a model", 10**6, 6e6, 1000)
    paper = ranks.Paper(rate=1e9, layout=0.0, latency=0.0, bandwidth=1e9)
    assert paper.seconds(1, 1000, size, 8) == (6.0, 0.0, 0.0)
    computing, _, sending = paper.seconds(4, 1000, size, 8)
    everything = 2 * 3 / 4 * 4 * 10**6 / 1e9
    assert computing == 1.5
    assert everything / 2 < sending < everything  # weights are sent after the step, whatever is hidden of the gradients
    slow = ranks.Paper(rate=1e9, layout=0.0, latency=0.0, bandwidth=1e6)
    assert slow.seconds(4, 1000, size, 8)[2] == pytest.approx(1000 * everything - 1.5 / 8 * 2 / 3)


def test_sizes_of_the_models_on_paper():
    lab, base = ranks.sizes()
    assert lab.numbers == 21_018_401 and lab.operations == 6 * (21_018_401 - 50_001 * 200)
    assert base.numbers > 5e7


def test_without_mpi_the_ranks_are_left_out(monkeypatch, capsys):
    monkeypatch.setattr(ranks, "_mpiexec", lambda: None)
    assert bench_command._ranks({}) == {}
    assert "pip install 'minitransformer[mpi]'" in capsys.readouterr().out
