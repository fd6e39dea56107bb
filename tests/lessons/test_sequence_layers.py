"""Recurrent cells and convolution: against their formulas, by their gradients, and against PyTorch."""

import numpy as np
import pytest

from autograd import Tensor, gradcheck
from lessons.sequence_layers import conv1d, gru_cell, lstm_cell, rnn_cell, unroll


def leaf(rng, *shape):
    return Tensor(rng.standard_normal(shape), requires_grad=True)


CELLS = {"rnn": (rnn_cell, 1), "gru": (gru_cell, 3), "lstm": (lstm_cell, 4)}


@pytest.mark.slow_on("emulated")
@pytest.mark.parametrize("name", CELLS)
def test_recurrent_cells_have_right_gradients(backend, rng, name):
    cell, gates = CELLS[name]
    weights = leaf(rng, gates * 2, 3), leaf(rng, gates * 2, 2), leaf(rng, gates * 2), leaf(rng, gates * 2)

    def two_steps(x, h, c, *weights):
        return unroll(cell, [x, x * 2], (h, c) if name == "lstm" else h, *weights)[-1] + c

    gradcheck(two_steps, (leaf(rng, 2, 3), leaf(rng, 2, 2), leaf(rng, 2, 2), *weights))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_lstm_against_the_formula_element_by_element(backend, rng):
    x, h, c = rng.standard_normal(3), rng.standard_normal(2), rng.standard_normal(2)
    W, R, b_w, b_r = (rng.standard_normal(s) for s in ((8, 3), (8, 2), (8,), (8,)))
    gates = W @ x + b_w + R @ h + b_r
    i, f, g, o = (gates[2 * n : 2 * n + 2] for n in range(4))
    c_new = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    ours_h, ours_c = lstm_cell(Tensor(x[None]), (Tensor(h[None]), Tensor(c[None])), *map(Tensor, (W, R, b_w, b_r)))
    np.testing.assert_allclose(ours_c.numpy()[0], c_new, rtol=1e-13)
    np.testing.assert_allclose(ours_h.numpy()[0], sigmoid(o) * np.tanh(c_new), rtol=1e-13)


@pytest.mark.parametrize(
    "K, padding, dilation", [(1, 0, 1), (3, 1, 1), (3, 0, 2), (2, "same", 1), (4, "same", 3), (5, 2, 1)]
)
def test_convolution_against_the_definition(backend, rng, K, padding, dilation):
    x, weight, bias = rng.standard_normal((2, 11, 3)), rng.standard_normal((4, 3, K)), rng.standard_normal(4)
    y = conv1d(Tensor(x), Tensor(weight), Tensor(bias), padding, dilation).numpy()
    reach = dilation * (K - 1)
    left = reach // 2 if padding == "same" else padding
    right = reach - left if padding == "same" else padding
    assert y.shape == (2, 11 + left + right - reach, 4)
    for b, t, o in np.ndindex(y.shape):
        total = bias[o]
        for k in range(K):
            position = t + k * dilation - left
            if 0 <= position < 11:
                total += weight[o, :, k] @ x[b, position]
        assert y[b, t, o] == pytest.approx(total, rel=1e-12)


def test_convolution_gradients_and_mistakes(backend, rng):
    gradcheck(lambda x, w, b: conv1d(x, w, b, "same", 2), (leaf(rng, 2, 6, 2), leaf(rng, 3, 2, 3), leaf(rng, 3)))
    gradcheck(lambda x, w: conv1d(x, w, padding=2), (leaf(rng, 1, 3, 2), leaf(rng, 2, 2, 4)))
    with pytest.raises(ValueError, match="reaches over 5 positions does not fit into 3"):
        conv1d(leaf(rng, 1, 3, 2), leaf(rng, 2, 2, 5))
    with pytest.raises(ValueError, match="x has 3 channels"):
        conv1d(leaf(rng, 1, 3, 3), leaf(rng, 2, 2, 1))


def shapes_of_cell(gates):
    """x, h, and the weights of a cell of width 4 that reads 3 numbers."""
    return (2, 3), (2, 4), (gates * 4, 3), (gates * 4, 4), (gates * 4,), (gates * 4,)


# name: shapes of the inputs, ours, PyTorch's
ORACLES = {
    "rnn": (shapes_of_cell(1), rnn_cell, lambda torch, *given: torch._VF.rnn_tanh_cell(*given)),
    "gru": (shapes_of_cell(3), gru_cell, lambda torch, *given: torch._VF.gru_cell(*given)),
    "lstm": (((2, 4), *shapes_of_cell(4)), lambda c, x, h, *w: lstm_cell(x, (h, c), *w)[0],
        lambda torch, c, x, h, *w: torch._VF.lstm_cell(x, (h, c), *w)[0]),
    "lstm, cell state": (((2, 4), *shapes_of_cell(4)), lambda c, x, h, *w: lstm_cell(x, (h, c), *w)[1],
        lambda torch, c, x, h, *w: torch._VF.lstm_cell(x, (h, c), *w)[1]),
    "conv1d": (((2, 9, 3), (4, 3, 3), (4,)), lambda x, w, b: conv1d(x, w, b, padding=2, dilation=2),
        lambda torch, x, w, b: torch.nn.functional.conv1d(x.transpose(1, 2), w, b, padding=2, dilation=2).mT),
}  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ORACLES)
def test_values_and_gradients_are_those_of_pytorch(backend, rng, name, dtype):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-oracles installs it")
    shapes, ours, theirs = ORACLES[name]
    arrays = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    tensors = [Tensor(a.copy(), requires_grad=True) for a in arrays]
    peers = [torch.tensor(a, requires_grad=True) for a in arrays]
    result, expected = ours(*tensors), theirs(torch, *peers)
    upstream = np.cos(np.arange(result.size)).reshape(result.shape).astype(dtype)
    result.backward(upstream)
    expected.backward(torch.tensor(upstream))
    gradients = [(t.grad, p.grad) for t, p in zip(tensors, peers, strict=True) if p.grad is not None]
    for mine, other in [(result, expected.detach()), *gradients]:
        # 100 units in the last place of the largest element: sums of a few dozen terms in two different orders
        allowed = 100 * np.finfo(dtype).eps * max(1.0, np.abs(other.numpy()).max())
        assert np.abs(mine.numpy() - other.numpy()).max() <= allowed
