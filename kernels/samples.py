"""Inputs on which every backend must agree with the reference: for each forward kernel a few awkward argument lists.

Sizes are 1, primes and 2^k ± 1, around the tile edges (64) and vector widths (8) of the fast tiers. Arrays come plain,
as every-other-element views, transposed, and expanded by zero strides. `samples(name, dtype)` yields (label, arguments)
in the order of the contract; integer arrays are ids, lengths or targets, and float arrays can be differentiated.
"""

from collections.abc import Callable, Iterator

import numpy as np

from kernels.contract import Dropout, Mask
from kernels.reference.quantised_linear import LAYOUTS

SEED = 7


def samples(name: str, dtype: str) -> Iterator[tuple[str, tuple]]:
    """The argument lists for one forward kernel, the same at every call."""
    return SAMPLES[name](np.random.default_rng(SEED), np.dtype(dtype))


def normal(rng: np.random.Generator, dtype: np.dtype, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


def strided(rng: np.random.Generator, dtype: np.dtype, *shape: int) -> np.ndarray:
    """Every other element of a larger array."""
    return normal(rng, dtype, *(2 * size for size in shape))[tuple(slice(None, None, 2) for _ in shape)]


def transposed(rng: np.random.Generator, dtype: np.dtype, *shape: int) -> np.ndarray:
    """Stored with its axes in reverse order."""
    return normal(rng, dtype, *reversed(shape)).transpose()


def expanded(rng: np.random.Generator, dtype: np.dtype, *shape: int) -> np.ndarray:
    """One row repeated by a zero stride; read-only, as NumPy makes such views."""
    return np.broadcast_to(normal(rng, dtype, 1, *shape[1:]), shape)


SEVERAL_BLOCKS = "several blocks"  # larger than what one task of a compiled kernel works on


def _linear(rng, dtype):
    for N, C, F in ((1, 1, 1), (3, 5, 2), (17, 7, 9), (300, 2, 140)):
        x, weight, bias = (normal(rng, dtype, *shape) for shape in ((N, C), (F, C), (F,)))
        yield f"N={N} C={C} F={F}" if N < 300 else SEVERAL_BLOCKS, (x, weight, bias)
    yield "no bias", (normal(rng, dtype, 4, 3), normal(rng, dtype, 2, 3), None)
    yield "views", (strided(rng, dtype, 5, 3), transposed(rng, dtype, 4, 3), strided(rng, dtype, 4))
    yield "expanded", (expanded(rng, dtype, 5, 3), normal(rng, dtype, 2, 3), expanded(rng, dtype, 2))


def _matmul(rng, dtype):
    for a, b in (
        ((1, 1), (1, 1)),
        ((3, 5), (5, 2)),
        ((2, 3, 5), (5, 7)),
        ((2, 1, 3, 4), (5, 4, 1)),
        ((3, 4), (2, 4, 3)),
    ):
        yield f"{a} @ {b}", (normal(rng, dtype, *a), normal(rng, dtype, *b))
    yield "views", (transposed(rng, dtype, 3, 4), strided(rng, dtype, 4, 5))


def _attention(rng, dtype):
    def qkv(B, H, T, S, D, make=normal, groups=None):
        G = groups or H
        return make(rng, dtype, B, H, T, D), make(rng, dtype, B, G, S, D), make(rng, dtype, B, G, S, D)

    everything, causal, no_dropout = Mask(), Mask(is_causal=True), Dropout()
    for B, H, T, S, D in ((1, 1, 1, 1, 1), (2, 3, 5, 5, 3), (1, 2, 4, 7, 5), (2, 1, 7, 3, 9)):
        for mask in (everything, causal):
            label = f"B={B} H={H} T={T} S={S} D={D}{' causal' if mask.is_causal else ''}"
            yield label, (*qkv(B, H, T, S, D), mask, D**-0.5, no_dropout)
    lengths = np.array([3, 0, 5])
    yield "key lengths 3 0 5", (*qkv(3, 2, 4, 5, 3), Mask(lengths), 0.5, no_dropout)
    yield "key lengths, causal", (*qkv(3, 2, 5, 5, 3), Mask(lengths, is_causal=True), 0.5, no_dropout)
    yield "query offset 2", (*qkv(1, 2, 3, 5, 4), Mask(None, True, 2), 0.5, no_dropout)
    yield "dropout", (*qkv(2, 2, 5, 6, 3), Mask(np.array([6, 4]), True, 1), 0.6, Dropout(0.3, 11))
    yield "no scale to speak of", (*qkv(1, 1, 3, 3, 2), everything, 3.0, no_dropout)
    yield "every other element", (*qkv(2, 2, 3, 4, 5, strided), Mask(None, True, 1), 0.4, no_dropout)
    yield "axes reversed", (*qkv(2, 3, 4, 5, 2, transposed), everything, 0.7, no_dropout)
    yield "expanded", (*qkv(2, 2, 3, 4, 5, expanded), everything, 0.4, no_dropout)
    packed = normal(rng, dtype, 2, 3, 3, 2, 4)  # (B, T, q/k/v, H, D): heads cut out of one projection
    heads = tuple(packed[:, :, part].transpose(0, 2, 1, 3) for part in range(3))
    yield "heads of a packed projection", (*heads, causal, 0.5, no_dropout)
    for T, S in ((63, 65), (65, 129)):
        mask = Mask(np.array([S - 1]), True, S - T)
        yield f"tile edges T={T} S={S}", (*qkv(1, 1, T, S, 4), mask, 0.5, Dropout(0.1, 3))
    for H, G, T, S, D in ((2, 1, 1, 1, 1), (6, 2, 5, 7, 3), (4, 2, 1, 9, 5), (5, 1, 9, 3, 4)):
        for mask in (everything, Mask(None, True, max(0, S - T))):
            label = f"{H} heads on {G}: T={T} S={S} D={D}{' causal' if mask.is_causal else ''}"
            yield label, (*qkv(2, H, T, S, D, groups=G), mask, D**-0.5, no_dropout)
    mask = Mask(lengths, True, 1)
    yield "6 heads on 3, everything else", (*qkv(3, 6, 4, 5, 3, groups=3), mask, 0.6, Dropout(0.3, 13))
    yield "4 heads on 2, views", (*qkv(2, 4, 3, 4, 5, strided, groups=2), causal, 0.4, no_dropout)
    yield "4 heads on 2, axes reversed", (*qkv(2, 4, 3, 4, 5, transposed, groups=2), everything, 0.4, no_dropout)
    packed = normal(rng, dtype, 2, 3, 6 + 2 + 2, 4)  # (B, T, H + 2G, D): queries, keys and values side by side
    heads = tuple(part.transpose(0, 2, 1, 3) for part in np.split(packed, (6, 8), axis=2))
    yield "6 heads on 2 of a packed projection", (*heads, causal, 0.5, no_dropout)
    mask = Mask(np.array([66]), True, 2)
    yield "3 heads on 1, tile edges", (*qkv(1, 3, 65, 67, 4, groups=1), mask, 0.5, Dropout(0.1, 3))


def _layer_norm(rng, dtype):
    for N, C in ((1, 2), (3, 5), (17, 9), (33, 7)):
        x = 3 * normal(rng, dtype, N, C) + 2
        yield f"N={N} C={C}", (x, normal(rng, dtype, C), normal(rng, dtype, C), 1e-5)
    yield "one column", (normal(rng, dtype, 3, 1), normal(rng, dtype, 1), normal(rng, dtype, 1), 1e-5)
    yield "views", (transposed(rng, dtype, 4, 6), strided(rng, dtype, 6), strided(rng, dtype, 6), 1e-2)
    yield "expanded", (expanded(rng, dtype, 4, 6), expanded(rng, dtype, 6), normal(rng, dtype, 6), 1e-5)


def _rms_norm(rng, dtype):
    for N, C in ((1, 1), (1, 2), (3, 5), (17, 9), (33, 7)):
        yield f"N={N} C={C}", (3 * normal(rng, dtype, N, C) + 2, normal(rng, dtype, C), 1e-5)
    yield "large eps", (normal(rng, dtype, 3, 4), normal(rng, dtype, 4), 0.5)
    yield "views", (transposed(rng, dtype, 4, 6), strided(rng, dtype, 6), 1e-2)
    yield "expanded", (expanded(rng, dtype, 4, 6), expanded(rng, dtype, 6), 1e-5)


def _rotary(rng, dtype):
    for interleaved in (True, False):
        layout = "interleaved" if interleaved else "halves"
        for B, H, T, D in ((1, 1, 1, 2), (2, 3, 5, 6), (3, 1, 7, 10), (1, 2, 17, 34)):
            x, start = normal(rng, dtype, B, H, T, D), np.arange(T)[None]
            yield f"{layout} B={B} H={H} T={T} D={D}", (x, start, 10000.0, interleaved)
        x, each = normal(rng, dtype, 3, 2, 4, 6), np.array([[0], [50], [4000]]) + np.arange(4)
        yield f"{layout}, each at its own positions", (x, each, 5e5, interleaved)
        x = normal(rng, dtype, 2, 3, 1, 4)
        yield f"{layout}, one step of a cache", (x, np.array([[9], [2]], "int32"), 10000.0, interleaved)
    yield "positions in any order, also negative", (
        normal(rng, dtype, 1, 2, 5, 8), np.array([[3, -7, 0, 3, 1]]), 7.5, True,
    )  # fmt: skip
    yield "views", (strided(rng, dtype, 2, 3, 4, 6), np.arange(8)[None, ::2], 100.0, True)
    packed = normal(rng, dtype, 2, 3, 2, 8)  # (B, T, H, D): heads cut out of a projection
    yield "heads of a projection", (packed.transpose(0, 2, 1, 3), np.arange(3)[None], 100.0, False)
    yield "expanded", (expanded(rng, dtype, 2, 2, 3, 4), np.broadcast_to(np.arange(3), (2, 3)), 10.0, False)


def _feed_forward(rng, dtype):
    for activation in ("relu", "gelu", "tanh", "gelu_tanh"):
        for N, C, F, E in ((1, 1, 1, 1), (3, 5, 7, 2), (9, 4, 17, 4)):
            arrays = tuple(normal(rng, dtype, *shape) for shape in ((N, C), (F, C), (F,), (E, F), (E,)))
            yield f"{activation} N={N} C={C} F={F} E={E}", (*arrays, activation)
    arrays = tuple(normal(rng, dtype, *shape) for shape in ((140, 2), (150, 2), (150,), (135, 150), (135,)))
    yield SEVERAL_BLOCKS, (*arrays, "relu")
    arrays = tuple(strided(rng, dtype, *shape) for shape in ((3, 5), (4, 5), (4,), (2, 4), (2,)))
    yield "views", (*arrays, "gelu")


def _gated_feed_forward(rng, dtype):
    def arrays(N, C, F, E, make=normal, without=()):
        shapes = (N, C), (F, C), (F,), (F, C), (F,), (E, F), (E,)
        return tuple(None if i in without else make(rng, dtype, *shape) for i, shape in enumerate(shapes))

    for activation in ("silu", "gelu"):
        for N, C, F, E in ((1, 1, 1, 1), (3, 5, 7, 2), (9, 4, 17, 4)):
            yield f"{activation} N={N} C={C} F={F} E={E}", (*arrays(N, C, F, E), activation)
        yield f"{activation}, no bias", (*arrays(7, 5, 3, 2, without=(2, 4, 6)), activation)
    for bias, place in (("gate", 2), ("up", 4), ("down", 6)):
        yield f"bias of {bias} only", (*arrays(6, 3, 4, 5, without={2, 4, 6} - {place}), "silu")
    yield SEVERAL_BLOCKS, (*arrays(140, 2, 150, 135), "silu")
    yield "views", (*arrays(5, 5, 4, 2, strided), "gelu")
    yield "axes reversed", (*arrays(5, 5, 4, 2, transposed), "silu")
    yield "expanded", (*arrays(5, 3, 4, 2, expanded), "silu")


def quantised(rng: np.random.Generator, kind: str, rows: int, columns: int) -> np.ndarray:
    """Bytes of weights of size 1 or so; every value of q occurs in a few blocks, and so do scales of both signs."""
    blocks = np.zeros((rows, columns // 32), LAYOUTS[kind])
    blocks["scale"] = rng.standard_normal(blocks.shape) / (60 if kind == "Q8_0" else 6)
    if kind == "Q8_0":
        blocks["q"] = rng.integers(-128, 128, blocks["q"].shape)
    else:
        blocks["least"] = rng.standard_normal(blocks.shape)
        blocks["halves"] = rng.integers(0, 256, blocks["halves"].shape)
    return blocks.view(np.uint8)


def _quantised_linear(rng, dtype):
    for kind in LAYOUTS:
        for N, C, F in ((1, 32, 1), (2, 64, 5), (3, 96, 7), (9, 32, 3), (17, 160, 2)):
            yield f"{kind} N={N} C={C} F={F}", (normal(rng, dtype, N, C), quantised(rng, kind, F, C), kind)
        weight = quantised(rng, kind, 8, 64)
        yield f"{kind}, views", (strided(rng, dtype, 2, 64), weight[::2], kind)
        yield f"{kind}, axes reversed", (transposed(rng, dtype, 11, 64), np.asfortranarray(weight), kind)
        yield f"{kind}, expanded", (expanded(rng, dtype, 3, 64), np.broadcast_to(weight[:1], weight.shape), kind)
    yield SEVERAL_BLOCKS, (normal(rng, dtype, 300, 32), quantised(rng, "Q4_1", 140, 32), "Q4_1")


def _quantised_gated_feed_forward(rng, dtype):
    for kind in LAYOUTS:
        for activation in ("silu", "gelu"):
            for N, C, F, E in ((1, 32, 32, 1), (2, 64, 96, 3), (9, 32, 64, 5)):
                weights = (quantised(rng, kind, *shape) for shape in ((F, C), (F, C), (E, F)))
                x = normal(rng, dtype, N, C) / 4
                yield f"{kind} {activation} N={N} C={C} F={F} E={E}", (x, *weights, kind, activation)
    weights = (quantised(rng, "Q8_0", 64, 64)[::2], quantised(rng, "Q8_0", 32, 64), quantised(rng, "Q8_0", 6, 32)[::2])
    yield "views", (strided(rng, dtype, 2, 64) / 4, *weights, "Q8_0", "silu")


def _rows(rng, dtype):
    for N, C in ((1, 1), (3, 5), (2, 17), (9, 33)):
        yield f"N={N} C={C}", (2 * normal(rng, dtype, N, C),)
    yield "transposed", (transposed(rng, dtype, 5, 3),)
    yield "expanded", (expanded(rng, dtype, 5, 3),)
    yield "large numbers", (normal(rng, dtype, 3, 4) + 500,)


def _targets(rng, N, V, ignored=0.0, ignore_index=-1):
    targets = rng.integers(0, V, N)
    targets[rng.random(N) < ignored] = ignore_index
    targets[0] = V - 1  # the last word, and at least one target that counts
    return targets


def _cross_entropy(rng, dtype):
    for N, V in ((1, 2), (5, 3), (7, 33)):
        yield f"N={N} V={V}", (2 * normal(rng, dtype, N, V), _targets(rng, N, V), None, 0.0)
    yield "ignored targets", (normal(rng, dtype, 9, 5), _targets(rng, 9, 5, 0.5), -1, 0.0)
    yield "pad id ignored", (normal(rng, dtype, 9, 5), _targets(rng, 9, 5, 0.5, 1), 1, 0.0)
    yield "label smoothing", (normal(rng, dtype, 6, 5), _targets(rng, 6, 5, 0.3), -1, 0.1)
    yield "views", (transposed(rng, dtype, 4, 6), _targets(rng, 8, 6)[::2], None, 0.0)


def _linear_cross_entropy(rng, dtype):
    for N, C, V in ((1, 1, 2), (5, 3, 7), (9, 4, 33)):
        arrays = normal(rng, dtype, N, C), normal(rng, dtype, V, C), normal(rng, dtype, V)
        yield f"N={N} C={C} V={V}", (*arrays, _targets(rng, N, V), None, 0.0)
    arrays = normal(rng, dtype, 9, 4), normal(rng, dtype, 6, 4)
    yield "no bias, ignored targets", (*arrays, None, _targets(rng, 9, 6, 0.5), -1, 0.0)
    # not 0.2, which would equal 1 / (number of kept targets) and hide an exchange of the two
    yield "label smoothing", (*arrays, normal(rng, dtype, 6), _targets(rng, 9, 6, 0.5), -1, 0.13)
    # one row whose stride means nothing: NumPy calls it contiguous whatever the stride is
    yield "one row, transposed", (transposed(rng, dtype, 1, 4), arrays[1], None, _targets(rng, 1, 6), None, 0.0)
    yield "one row, reversed", (arrays[0][:1][::-1], arrays[1], None, _targets(rng, 1, 6), None, 0.0)
    views = strided(rng, dtype, 5, 4), transposed(rng, dtype, 6, 4), strided(rng, dtype, 6)
    yield "views", (*views, _targets(rng, 10, 6)[::2], None, 0.0)


def _embedding(rng, dtype):
    for V, C, N in ((1, 1, 1), (5, 3, 17), (33, 7, 9)):
        yield f"V={V} C={C} N={N}", (normal(rng, dtype, V, C), rng.integers(0, V, N))
    yield "one id repeated", (normal(rng, dtype, 4, 3), np.full(7, 2))
    yield "small integers, views", (transposed(rng, dtype, 6, 4), rng.integers(0, 6, 10).astype(np.int32)[::2])


def _any_shape(rng, dtype, shift=0.0):
    for shape in ((), (1,), (7,), (3, 5), (2, 1, 3), (33,)):
        yield f"shape {shape}", (normal(rng, dtype, *shape) + dtype.type(shift),)
    yield "transposed", (transposed(rng, dtype, 3, 4) + dtype.type(shift),)
    yield "every other element", (strided(rng, dtype, 5) + dtype.type(shift),)


def _positive(rng, dtype):
    for label, (x,) in _any_shape(rng, dtype):
        yield label, (np.abs(x) + dtype.type(0.5),)


def _away_from_zero(rng, dtype):
    """For functions with a corner at 0, where no derivative exists to compare with."""
    for label, (x,) in _any_shape(rng, dtype):
        yield label, (x + np.copysign(dtype.type(0.1), x),)


def _dropout(rng, dtype):
    for label, (x,) in _any_shape(rng, dtype):
        for p in (0.0, 0.4):
            yield f"{label} p={p}", (x, p, 2**40 + 5)


def _pairs(rng, dtype, positive=()):
    shapes = (((), ()), ((3,), (3,)), ((2, 3), (3,)), ((2, 3), ()), ((2, 1, 3), (4, 1)), ((1,), (5, 1)), ((33,), (33,)))
    for a, b in shapes:
        pair = [normal(rng, dtype, *a), normal(rng, dtype, *b)]
        yield f"{a} and {b}", tuple(np.abs(x) + dtype.type(0.5) if i in positive else x for i, x in enumerate(pair))


def _power(rng, dtype):
    yield from _pairs(rng, dtype, positive=(0,))
    yield "to the power of zero", (np.array([1.5, 2.0], dtype), np.array([0.0, 0.0], dtype))
    yield "zero to a power", (np.array([0.0, 2.0], dtype), np.array([2.0, 3.0], dtype))


def _max(rng, dtype):
    yield from _reduce(rng, dtype)
    # two equal elements: the central difference through such a corner is one half, which is what each shall get
    yield "a tie of two", (np.array([[1.0, 3.0, 3.0], [5.0, 4.0, 5.0]], dtype), (1,))


def _reduce(rng, dtype):
    for shape, axes in (((), ()), ((5,), (0,)), ((3, 5), (0,)), ((3, 5), (1,)), ((3, 5), (0, 1)), ((2, 3, 4), (0, 2)),
                        ((2, 3, 4), (1,)), ((2, 1, 4), (1, 2)), ((3, 4), ()), ((33, 5), (0,))):  # fmt: skip
        yield f"shape {shape} axes {axes}", (normal(rng, dtype, *shape), axes)
    yield "transposed", (transposed(rng, dtype, 3, 4), (0,))
    yield "longer than a block", (normal(rng, dtype, 4099), (0,))


SAMPLES: dict[str, Callable] = {
    "linear": _linear,
    "matmul": _matmul,
    "attention": _attention,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "rotary": _rotary,
    "feed_forward": _feed_forward,
    "gated_feed_forward": _gated_feed_forward,
    "quantised_linear": _quantised_linear,
    "quantised_gated_feed_forward": _quantised_gated_feed_forward,
    "softmax": _rows,
    "log_softmax": _rows,
    "cross_entropy": _cross_entropy,
    "linear_cross_entropy": _linear_cross_entropy,
    "embedding": _embedding,
    "dropout": _dropout,
    "exp": _any_shape,
    "log": _positive,
    "sqrt": _positive,
    "tanh": _any_shape,
    "sigmoid": _any_shape,
    "relu": _away_from_zero,
    "gelu": _any_shape,
    "gelu_tanh": _any_shape,
    "silu": _any_shape,
    "add": _pairs,
    "subtract": _pairs,
    "multiply": _pairs,
    "divide": lambda rng, dtype: _pairs(rng, dtype, positive=(1,)),
    "power": _power,
    "sum": _reduce,
    "max": _max,
}
