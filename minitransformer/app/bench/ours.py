"""The work of each case on our engine. Each function prepares everything and returns the unit of work to be timed."""

from collections.abc import Callable
from typing import Any

import numpy as np

import autograd.functional as F
import kernels
from autograd import Tensor, no_grad
from minitransformer.app.bench import bench_inputs
from minitransformer.app.bench.cases import MINILM
from minitransformer.decoding import generate as write
from minitransformer.models import Bert, LanguageModel, Model, Translator, build
from minitransformer.optim import Adam, clip_grad_norm

Work = Callable[[], Any]


def _training(model: Model, loss: Callable[[], Tensor], clip: float | None = None) -> Work:
    optimizer = Adam(model.parameters(), lr=3e-4)

    def step() -> float:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        if clip is not None:
            clip_grad_norm(model.parameters(), clip)
        optimizer.step()
        return value.item()

    return step


def language_model(sizes: dict, _data: str | None) -> Work:
    config = sizes["model"]
    model = LanguageModel(config).recompute(sizes.get("recompute", False))
    ids = bench_inputs.words(sizes["B"], sizes["T"] + 1, config.vocab_size)
    return _training(model, lambda: model.loss(ids[:, :-1], ids[:, 1:]), sizes.get("clip"))


llama = language_model


def padded_language_model(sizes: dict, data: str | None) -> Work:
    model: Any = build("lab", seed=0)
    ids, targets = bench_inputs.reviews(sizes["B"], data)
    return _training(model, lambda: model.loss(ids, targets, ignore_index=bench_inputs.PAD))


def classifier(sizes: dict, _data: str | None) -> Work:
    model: Any = build("lab", "classifier", seed=0)
    ids, labels = bench_inputs.words(sizes["B"], sizes["T"], 50001), np.arange(sizes["B"]) % 2
    return _training(model, lambda: F.cross_entropy(model(ids), labels), clip=0.5)


def translator(sizes: dict, _data: str | None) -> Work:
    config = sizes["model"]
    model = Translator(config)
    source = bench_inputs.words(sizes["B"], sizes["T"], config.source_vocab)
    target = bench_inputs.words(sizes["B"], sizes["T"] + 1, config.target_vocab)
    return _training(model, lambda: model.loss(source, target[:, :-1], target[:, 1:]))


def attention(sizes: dict, _data: str | None) -> Work:
    q, k, v, dout = (Tensor(a, requires_grad=True) for a in bench_inputs.attention(sizes))

    def both() -> None:
        q.grad = k.grad = v.grad = None
        F.attention(q, k, v, is_causal=True).backward(dout.data)

    return both


def layer_norm(sizes: dict, _data: str | None) -> Work:
    x, weight, bias, dy = (Tensor(a, requires_grad=True) for a in bench_inputs.layer_norm(sizes))

    def both() -> None:
        x.grad = weight.grad = bias.grad = None
        F.layer_norm(x, weight, bias).backward(dy.data)

    return both


def rms_norm(sizes: dict, _data: str | None) -> Work:
    x, weight, dy = (Tensor(a, requires_grad=True) for a in bench_inputs.rms_norm(sizes))

    def both() -> None:
        x.grad = weight.grad = None
        F.rms_norm(x, weight).backward(dy.data)

    return both


def rotary(sizes: dict, _data: str | None) -> Work:
    x, dy = (Tensor(a, requires_grad=True) for a in bench_inputs.rotary(sizes))
    positions = np.arange(sizes["T"])

    def both() -> None:
        x.grad = None
        F.rotary(x, positions).backward(dy.data)

    return both


def adam(sizes: dict, _data: str | None) -> Work:
    weight = Tensor(bench_inputs.normal(sizes["N"]), requires_grad=True)
    weight.grad = Tensor(bench_inputs.normal(sizes["N"]))
    return Adam([weight], lr=3e-4).step


def generate(sizes: dict, _data: str | None) -> Work:
    model: Any = build("lab", seed=0)
    model.eval()
    return lambda: write(model, np.zeros((sizes["B"], 1), int), max_new_tokens=sizes["words"])


def encoder(sizes: dict, _data: str | None) -> Work:
    bert = Bert(MINILM).eval().fuse()
    ids = bench_inputs.words(sizes["B"], sizes["T"], MINILM.vocab_size or 0)

    def hidden() -> np.ndarray:
        with no_grad():
            return bert.hidden(ids, np.zeros_like(ids)).numpy()

    return hidden


def threads() -> int:
    import numba

    return numba.get_num_threads()


def backend() -> str:
    return kernels.current().name
