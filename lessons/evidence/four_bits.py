"""What lesson 15 measures: errors of four-bit weights against their bound, memory, outliers, the loss of a model.

The bound of one weight. A block has the least value m and steps of s = (largest - m) / 15, and a weight goes to the
nearest step: it moves by s/2 at most. But s and m are kept as float16, with 11 bits: each is off by 2^-11 of itself at
most (numbers below 6e-5 have fewer bits, and are off by 2^-25 at most), and s is multiplied by up to 15. So

    |w - unpacked| ≤ s/2 + 15 · max(2^-11 s, 2^-25) + max(2^-11 |m|, 2^-25)

and some float32 rounding, 2^-22 of the largest weight. A product Σ x w then moves by Σ |x| times that, at most."""

from pathlib import Path

import numpy as np

import autograd.functional as F
from autograd import Tensor, no_grad
from kernels.reference.quantised_linear import LAYOUTS
from minitransformer import LanguageModel, quantised
from minitransformer.optim import Adam

SIZES = {
    "vocab_size": 128, "d_model": 64, "n_heads": 4, "n_kv_heads": 2, "n_layers": 2, "d_ff": 128, "max_len": 64,
    "norm": "rms", "norm_first": True, "activation": "swiglu", "positions": "rotary", "bias": False,
    "head_bias": False, "scale_embedding": False, "tie_weights": True, "dropout": 0.0,
}  # fmt: skip


def packed(w, kind="Q4_1"):
    return quantised.QuantisedWeight(quantised.quantise(w, kind), kind)


def fields(w):
    """The parts of the first block: its scale, its least value, and its bytes."""
    block = quantised.quantise(w, "Q4_1").view(LAYOUTS["Q4_1"])[0, 0]
    return float(block["scale"]), float(block["least"]), block["halves"]


def unpacked_by_products(w, kind="Q4_1"):
    """The matrix as the product sees it: each unit vector picks a column."""
    unit = np.eye(w.shape[1], dtype=np.float32)
    with no_grad():
        return F.quantised_linear(Tensor(unit), packed(w, kind), kind).numpy().T


def weight_bound(w, block=32, steps=15):
    """How far each weight may move.   w (F, C) → (F, C)"""
    parts = w.astype(float).reshape(len(w), -1, block)
    least = parts.min(axis=-1, keepdims=True)
    step = (parts.max(axis=-1, keepdims=True) - least) / steps
    rounding = steps * np.maximum(2.0**-11 * step, 2.0**-25) + np.maximum(2.0**-11 * np.abs(least), 2.0**-25)
    bound = step / 2 + rounding + 2.0**-22 * np.abs(parts).max(axis=-1, keepdims=True)
    return np.broadcast_to(bound, parts.shape).reshape(w.shape)


def product_errors(w, rng, rows=200):
    """Products of random rows with the packed matrix, against float64: the errors in units of their bound."""
    x = rng.standard_normal((rows, w.shape[1])).astype(np.float32)
    with no_grad():
        ours = F.quantised_linear(Tensor(x), packed(w), "Q4_1").numpy()
    exact, size = x.astype(float) @ w.astype(float).T, np.abs(x).astype(float)
    adding = w.shape[1] * 2.0**-24 * (size @ np.abs(w).astype(float).T + 1)  # the product's own rounding
    return np.abs(ours - exact) / (size @ weight_bound(w).T + adding)


def memory(sizes):
    """→ parameters and bytes of a model before, bytes after, bytes by hand"""
    model = LanguageModel(**sizes)
    numbers, before = model.num_parameters(), model.num_bytes()
    quantised.quantise_model(model)
    C, V = sizes["d_model"], sizes["vocab_size"]
    others = (2 * sizes["n_layers"] + 1) * C  # the norms
    by_hand = V * C // 32 * 34 + (numbers - V * C - others) // 32 * 20 + 4 * others
    return model, numbers, before, model.num_bytes(), by_hand


def with_outlier(w, size):
    """The matrix with one weight of its first row so much larger than all others, at column 40."""
    other = w.copy()
    other[0, 40] = size * np.abs(w).max()
    return other


def error(w):
    return np.abs(unpacked_by_products(w) - w)


def text():
    """The text of lessons 1 and 2, as numbers of characters."""
    folder = Path(__file__).parents[1]
    both = "".join((folder / name).read_text(encoding="utf-8") for name in ("01_autograd.py", "02_attention.py"))
    return np.frombuffer(both.encode("ascii", "ignore"), np.uint8).astype(np.int64)


def trained(steps=300):
    """A small model of letters, a few seconds of training."""
    data, model = text(), LanguageModel(**SIZES, seed=0)
    rng, optimizer = np.random.default_rng(0), Adam(model.parameters(), lr=3e-3)
    reading = data[: len(data) * 9 // 10]
    for _ in range(steps):
        starts = rng.integers(len(reading) - 65, size=16)
        rows = np.stack([reading[start : start + 65] for start in starts])
        loss = model.loss(rows[:, :-1], rows[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.state_dict()


def loss_of(model):
    """Mean loss on the tenth of the text that was not read in training."""
    rest = text()[-len(text()) // 10 :]
    rows = rest[: len(rest) // 65 * 65].reshape(-1, 65)
    with no_grad():
        return model.loss(rows[:, :-1], rows[:, 1:]).item()


def filled(state):
    model = LanguageModel(**SIZES, seed=None)
    model.load_state_dict(state)
    return model


def quantised_loss(state, kind):
    """The loss with all matrices packed, by the products that read bytes."""
    model = filled(state)
    quantised.quantise_model(model, kind, words=kind)
    return loss_of(model)


def rounded(w, bits, block=32):
    """Every block to 2^bits equal steps between its least and its largest weight, in plain NumPy, float64."""
    parts = w.astype(float).reshape(len(w), -1, block)
    least = parts.min(axis=-1, keepdims=True)
    step = (parts.max(axis=-1, keepdims=True) - least) / (2**bits - 1)
    return (least + step * np.rint((parts - least) / np.where(step == 0, 1, step))).reshape(w.shape)


def rounded_loss(state, bits):
    """The loss of an ordinary model whose matrices were rounded by hand."""
    return loss_of(filled({name: rounded(w, bits) if w.ndim == 2 else w for name, w in state.items()}))
