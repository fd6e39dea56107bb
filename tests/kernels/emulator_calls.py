"""Every call that puts the CUDA kernels to work: all samples of all forward kernels, and the backward kernel of each.

To the samples come some that are large enough for several blocks, and heads too wide for one tile of attention. The
arguments of a backward kernel are found by name: those of the forward kernel, its results, and gradients.
"""

import re
from collections.abc import Iterator

import numpy as np

from kernels.contract import CONTRACT, Dropout, Mask
from kernels.samples import SAMPLES, SEVERAL_BLOCKS, samples

BORROWED = {"adam": "exp", "dequantise": "quantised_linear", "sum_of_squares": "exp"}  # kernel: whose samples it takes
FORWARD = (*SAMPLES, *BORROWED)


def calls(backend, name: str, dtype: str) -> Iterator[tuple[str, str, tuple]]:
    """(kernel, label, its results) for each sample of a kernel, forward and backward."""
    rng = np.random.default_rng(1)
    for label, arguments in (*samples(BORROWED.get(name, name), dtype), *_larger(rng, name, np.dtype(dtype))):
        if name == "adam":
            yield name, label, _adam(backend, rng, np.asarray(arguments[0]))
            continue
        if name == "dequantise":
            arguments = arguments[1:]
        if name == "linear_cross_entropy":
            yield name, label, _tuple(backend.linear_cross_entropy(*arguments, False))
            arguments = (*arguments, True)
        results = _tuple(getattr(backend, name)(*arguments))
        yield name, label, results
        if f"{name}_backward" in CONTRACT:
            more = backward_arguments(rng, name, arguments, results)
            yield f"{name}_backward", label, _tuple(getattr(backend, f"{name}_backward")(*more))


def _larger(rng: np.random.Generator, name: str, dtype: np.dtype) -> Iterator[tuple[str, tuple]]:
    """Work for several blocks, whichever way a kernel cuts it."""

    def array(*shape):
        return (rng.random(shape) + 0.5).astype(dtype)

    options = {
        "linear": lambda: (array(70, 5), array(130, 5), array(130)),
        "attention": lambda: (
            *(array(1, heads, n, 70) for heads, n in ((4, 33), (2, 65), (2, 65))),
            Mask(np.array([60]), True, 20), 0.1, Dropout(0.2, 5)
        ),
        "layer_norm": lambda: (array(70, 130), array(130), array(130), 1e-5),
        "rms_norm": lambda: (array(70, 130), array(130), 1e-5),
        "rotary": lambda: (array(2, 3, 33, 34), rng.integers(0, 99, (2, 33)), 100.0, True),
        "feed_forward": lambda: (array(70, 3), array(130, 3), array(130), array(5, 130), array(5), "gelu"),
        "gated_feed_forward": lambda: (
            array(70, 3), array(130, 3), array(130), array(130, 3), array(130), array(5, 130), array(5), "silu"
        ),
        "cross_entropy": lambda: (array(3, 1100), rng.integers(0, 1100, 3), None, 0.1),  # several warps a row
        "linear_cross_entropy": lambda: (
            array(20, 30), array(1100, 30), array(1100), rng.integers(0, 1100, 20), None, 0.1
        ),
        "embedding": lambda: (array(40, 40), rng.integers(0, 40, 50)),
        "softmax": lambda: (array(21, 70),),
        "log_softmax": lambda: (array(21, 70),),
        "dropout": lambda: (array(1100), 0.4, 5),
        "sum": lambda: (array(70, 130), (0,)),
        "max": lambda: (array(70, 130), (0,)),
    }  # fmt: skip
    if name in options:
        yield SEVERAL_BLOCKS, options[name]()
        if name == "cross_entropy":  # more rows than one warp adds up
            yield "many rows", (array(1100, 3), rng.integers(0, 3, 1100), 1, 0.1)
        if name == "max":  # the largest element at the very end
            yield "ascending", (np.arange(70, dtype=dtype), (0,))
            yield "ascending, longer than a block", (np.arange(2100, dtype=dtype).reshape(1, -1), (1,))
            yield "with NaN", (np.array([[1, np.nan, 3], [1, 2, 3]], dtype), (1,))
        if name == "log_softmax":  # a lane adds more than LongSum keeps in one part
            yield "a long row", (array(1, 40_000),)
    elif CONTRACT[name].names == ("x",) and CONTRACT[name].file != "softmax" or name == "adam":
        yield SEVERAL_BLOCKS, (array(20_000 if name == "sum_of_squares" else 1100),)
        if name in ("relu", "sigmoid", "tanh", "gelu", "exp"):
            yield "zero and far from it", (np.array([0, -0.0, 30, -30, 700, -700, 1e-8], dtype),)
    elif CONTRACT[name].names == ("a", "b") and name != "matmul":
        yield SEVERAL_BLOCKS, (array(11, 100), array(11, 100))


def _tuple(result) -> tuple:
    return result if isinstance(result, tuple) else (result,)


def _adam(backend, rng: np.random.Generator, like: np.ndarray) -> tuple:
    results = []
    for decoupled in (False, True):
        param, grad, m, v = (np.asarray(rng.random(like.shape), like.dtype) for _ in range(4))
        backend.adam(param, grad, m, v, 1e-3, 0.9, 0.99, 1e-8, 0.1, decoupled, 3, 0.5)
        results += [param, m, v]
    return tuple(results)


def backward_arguments(rng: np.random.Generator, name: str, arguments: tuple, results: tuple) -> tuple:
    spec = CONTRACT[name]
    given = dict(zip(spec.names, arguments, strict=True))
    names = re.findall(r"(\w+) \(", spec.returns) or re.findall(r"^\w+", spec.returns)
    for result_name, result in zip(names, results, strict=True):
        given[result_name] = result
        result = np.asarray(result)
        given[f"d{result_name}"] = np.asarray(rng.standard_normal(result.shape), result.dtype)
    biases = ("bias", "b_gate", "b_up", "b_down")
    given |= {f"with_{bias}": given.get(bias) is not None for bias in biases}
    given["V"] = len(given["weight"]) if name == "embedding" else None
    return tuple(given[argument] for argument in CONTRACT[f"{name}_backward"].names)
