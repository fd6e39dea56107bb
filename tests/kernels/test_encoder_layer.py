"""A layer of an encoder as one kernel: what its parts compute one after the other, on every backend."""

import numba
import numpy as np
import pytest

import kernels
from kernels.contract import CONTRACT, Dropout, KernelError, Mask
from kernels.cpu.panels import WIDE

# around one panel and several, widths that fill no vector, one head and many, more columns than a block
SIZES = [
    (1, 1, 2, 1, 3),
    (1, 13, 6, 3, 5),
    (2, WIDE // 2 + 1, 20, 2, 33),
    (3, 37, 24, 4, 70),
    (1, 2 * WIDE + 1, 160, 5, 300),
    (5, 130, 8, 2, 2**13),  # many tasks of one panel: the hidden numbers of a panel fill the cache
]


def layer(rng, B, T, C, H, F, dtype="float32", mask=Mask(), activation="relu"):  # noqa: B008 - it never changes
    def some(*shape):
        return (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(dtype)

    x = rng.standard_normal((B, T, C)).astype(dtype)
    weights = some(3 * C, C), some(3 * C), some(C, C), some(C), 1 + some(C), some(C)
    weights += some(F, C), some(F), some(C, F), some(C), 1 + some(C), some(C)
    return x, *weights, mask, H, 1e-5, activation


def part_by_part(backend, x, *given):
    w_in, b_in, w_out, b_out, weight1, bias1, w1, b1, w2, b2, weight2, bias2, mask, H, eps, act = given
    (B, T, C), rows = x.shape, x.reshape(-1, x.shape[2])
    projected = backend.linear(rows, w_in, b_in).reshape(B, T, 3, H, C // H)
    q, k, v = (projected[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
    seen = backend.attention(q, k, v, mask, (C // H) ** -0.5, Dropout())[0].transpose(0, 2, 1, 3).reshape(B * T, C)
    h = backend.layer_norm(rows + backend.linear(seen, w_out, b_out), weight1, bias1, eps)[0]
    y = h + backend.feed_forward(h, w1, b1, w2, b2, act)[0]
    return backend.layer_norm(y, weight2, bias2, eps)[0].reshape(B, T, C)


@pytest.mark.parametrize("activation", ["relu", "gelu", "tanh", "gelu_tanh"])
@pytest.mark.parametrize("causal", [False, True])
def test_every_backend_computes_the_layer(backend, rng, activation, causal):
    for B, T, C, H, F in SIZES[:4] if backend.name == "numba" else SIZES[:3]:
        for lengths in (None, rng.integers(0, T + 1, B)):
            given = layer(rng, B, T, C, H, F, "float64", Mask(lengths, causal, 0), activation)
            expected = part_by_part(kernels.backend("numpy"), *given)
            # sums of up to 70 products of numbers near 1, through two norms: rounding of some hundred steps
            np.testing.assert_allclose(backend.encoder_layer(*given), expected, rtol=0, atol=1e-12)


def test_the_same_bits_as_its_parts_and_for_any_number_of_threads(rng):
    """From 13 rows on, below which linear layers multiply in another way."""
    fast = kernels.backend("numba")
    for B, T, C, H, F in SIZES[1:]:
        given = layer(rng, B, T, C, H, F, mask=Mask(rng.integers(1, T + 1, B), True, 0), activation="gelu")
        whole = fast.encoder_layer(*given)
        np.testing.assert_array_equal(whole, part_by_part(fast, *given), err_msg=f"{B, T, C, H, F}")
        numba.set_num_threads(1)
        try:
            np.testing.assert_array_equal(fast.encoder_layer(*given), whole)
        finally:
            numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)


def test_views_and_arrays_that_nobody_may_write_to(backend, rng):
    x, w_in, *rest = layer(rng, 2, 9, 6, 2, 5)
    expected = backend.encoder_layer(x, w_in, *rest)
    apart = np.repeat(x, 2, axis=2)[:, :, ::2]
    turned = np.asfortranarray(w_in)
    apart.flags.writeable = turned.flags.writeable = False
    np.testing.assert_array_equal(backend.encoder_layer(apart, turned, *rest), expected)
    assert np.array_equal(x, apart), "x is only read"


@pytest.mark.parametrize(("changed", "message"), [
    ({1: np.zeros((17, 6), "f4")}, "w_in has 17 rows; queries, keys and values of width 6 are 18"),
    ({14: 4}, "a width of 6 cannot be divided among 4 heads"),
    ({14: 0}, "a width of 6 cannot be divided among 0 heads"),
    ({13: Mask(np.array([10, 3]))}, r"mask.key_lengths\[0\] is 10, .*0 ... 9 .T = 9."),
])  # fmt: skip
def test_arguments_that_do_not_fit(rng, changed, message):
    given = list(layer(rng, 2, 9, 6, 2, 5))
    for place, value in changed.items():
        given[place] = value
        if place == 1:
            given[2] = np.zeros(len(value), "f4")
    with pytest.raises(KernelError, match=message):
        kernels.backend("numpy").encoder_layer(*given)


def test_it_costs_what_its_parts_cost(rng):
    B, T, C, H, F = 2, 9, 6, 2, 5
    for causal in (False, True):
        given = layer(rng, B, T, C, H, F, mask=Mask(None, causal))
        x, w_in, b_in, w_out, b_out, _, _, w1, b1, w2, b2 = given[:11]
        rows, q = x.reshape(-1, C), np.zeros((B, H, T, C // H), "f4")
        calls = {
            "linear": [(rows, w_in, b_in), (rows, w_out, b_out)],
            "attention": [(q, q, q, Mask(None, causal), 1.0, Dropout())],
            "add": [(rows, rows)] * 2,
            "layer_norm": [(rows, b_out, b_out, 1e-5)] * 2,
            "feed_forward": [(rows, w1, b1, w2, b2, "relu")],
        }
        parts = sum(CONTRACT[name].cost(*call).flops for name, several in calls.items() for call in several)
        cost = CONTRACT["encoder_layer"].cost(*given)
        assert cost.flops == parts
        assert cost.bytes_read == sum(a.nbytes for a in given if isinstance(a, np.ndarray))
        assert cost.bytes_written == x.nbytes
