"""Flipping the flag changes the speed, not the numbers: one training run on every backend, laid over each other."""

import numpy as np
import pytest

import kernels
from minitransformer import LanguageModel
from minitransformer.optim import Adam, clip_grad_norm

STEPS = 50
OTHERS = ["numpy", "emulated"]


def losses(backend: str, dtype: str) -> np.ndarray:
    """A small language model learns to count round and round, with dropout: 50 losses."""
    with kernels.use(backend):
        model = LanguageModel(
            vocab_size=11, d_model=16, n_heads=2, n_layers=1, d_ff=16, dropout=0.1, max_len=9, seed=3, dtype=dtype
        )
        model.train()
        optimizer = Adam(model.parameters(), lr=3e-3)
        order = np.random.default_rng(5)
        found = []
        for _ in range(STEPS):
            ids = (order.integers(0, 11, (3, 1)) + np.arange(10)) % 11
            loss = model.loss(ids[:, :-1], ids[:, 1:])
            optimizer.zero_grad()
            loss.backward()
            clip_grad_norm(model.parameters(), 0.5)
            optimizer.step()
            found.append(loss.item())
    return np.array(found)


@pytest.fixture(scope="module")
def exact():
    return losses("numba", "float64")


@pytest.mark.parametrize("other", OTHERS)
def test_loss_curves_lie_on_each_other(other, exact):
    """In double precision two backends differ by rounding: 2e-16 an operation, summed over terms, layers and steps, and
    amplified by training. In single precision an operation rounds 2^29 times as coarsely. How much training amplifies
    is seen from the compiled run itself, single against double: another backend may be off by that much again, and by
    chance by a few times more (4), but not by a dropout mask, which changes the loss in the first digits."""
    if other not in kernels.available():
        pytest.skip(f"{other}: {kernels.reasons()[other]}")
    single = losses("numba", "float32")
    amplified = np.abs(single - exact).max()
    assert 0 < amplified < 1e-3 and exact[-1] < exact[0] / 1.5, "the yardstick itself is off"
    assert np.abs(losses(other, "float64") - exact).max() <= 4 * amplified / 2**29
    assert np.abs(losses(other, "float32") - single).max() <= 4 * amplified


@pytest.mark.parametrize("other", OTHERS)
def test_there_and_back_without_changing_a_bit(other):
    if other not in kernels.available():
        pytest.skip(f"{other}: {kernels.reasons()[other]}")
    with kernels.use("numba"):
        model = LanguageModel(vocab_size=7, d_model=8, n_heads=2, n_layers=1, d_ff=8, max_len=5, seed=1)
        model.loss(np.array([[1, 2, 3]]), np.array([[2, 3, 4]])).backward()
        before = {name: (p.numpy().tobytes(), p.grad.numpy().tobytes()) for name, p in model.named_parameters()}
        model.to(other).to("numba")
        after = {name: (p.numpy().tobytes(), p.grad.numpy().tobytes()) for name, p in model.named_parameters()}
    assert before == after
