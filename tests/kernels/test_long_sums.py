"""Sums of any length keep their digits, on every tier and along every axis.

Added one after another, a million equal float32 numbers lose up to 6 % and in practice some parts in a thousand. Every
tier adds 1,024 numbers at most in that way (or in pairs); the sums of such blocks go on in double precision or in
further blocks of no more than that. So a sum of terms of one sign is off by LOST at most, whatever its length.
"""

import re

import numpy as np
import pytest
from emulator_calls import backward_arguments
from test_agreement import in_float64

import kernels
from kernels.contract import CONTRACT
from kernels.samples import SAMPLES, samples

UNIT = np.finfo("float32").eps / 2
LOST = (1024 + 32) * UNIT  # 1,024 additions; 32 for joining blocks, lanes and warps, and for the last rounding
# Long enough by far: added one after another, 2^16 equal terms are off by up to 60 times LOST.
ROWS = 2**16
LONG = {"emulated": 2**16}  # the emulator is slow
MATRIX_PRODUCTS = {"linear", "feed_forward", "linear_cross_entropy", "gated_feed_forward"}  # dW is a sum left to BLAS


def rows_of(name: str) -> list[str]:
    return [
        argument.name for argument in CONTRACT[name].arguments if argument.is_array and "N" in (argument.dims or ())
    ]


def repeated(name: str, arguments: tuple, N: int) -> tuple:
    """The first row of every array of rows, N times: all terms of a sum over rows are then the same number."""
    spec, changed = CONTRACT[name], list(arguments)
    for position, argument in enumerate(spec.names):
        if argument in rows_of(name) and arguments[position] is not None:
            array = np.asarray(arguments[position])
            changed[position] = np.repeat(array[:1], N, axis=0)  # a view would be read-only, and compiled for apart
    return tuple(changed)


def call(backend, name, arguments):
    result = getattr(backend, name)(*arguments)
    return result if isinstance(result, tuple) else (result,)


def cases(name: str):
    """(kernel, arguments) forward and backward, from a small sample of float32."""
    reference = kernels.backend("numpy")
    chosen = [arguments for label, arguments in samples(name, "float32") if re.search(r"N=[3-9] |V=5 ", label)]
    arguments = repeated(name, (*chosen[0], True) if name == "linear_cross_entropy" else chosen[0], 1)
    yield name, arguments
    if f"{name}_backward" in CONTRACT:
        results = call(reference, name, arguments)
        yield f"{name}_backward", backward_arguments(np.random.default_rng(3), name, arguments, results)


@pytest.mark.slow_on("emulated")
@pytest.mark.parametrize("name", [name for name in SAMPLES if rows_of(name)])
def test_many_equal_rows(backend, name):
    """Whatever a kernel sums over rows, found by the contract: the sum for N equal rows has the digits of one term."""
    N, reference = ROWS, kernels.backend("numpy")
    for kernel, single in cases(name):
        names = re.findall(r"(\w+) \(", CONTRACT[kernel].returns)
        many = repeated(kernel, single, N)
        one, one_exact = call(backend, kernel, single), call(reference, kernel, in_float64(single))
        ours, exact = call(backend, kernel, many), call(reference, kernel, in_float64(many))
        for position, (result, right) in enumerate(zip(ours, exact, strict=True)):
            what = names[position] if position < len(names) else "result"
            if right is None or CONTRACT[kernel].file in MATRIX_PRODUCTS and re.match("dw", what):
                continue
            size, single_size = np.abs(right).max(), np.abs(one_exact[position]).max()
            # the error of one term (a few roundings), times the number of terms
            term = np.abs(one[position].astype(float) - one_exact[position]).max() + 64 * UNIT * single_size
            allowed = LOST * np.abs(right) + term * max(1.0, size / max(single_size, 1e-30))
            error = np.abs(result.astype(float) - right)
            assert (error <= allowed).all(), f"{kernel}, {what}: off by {(error / np.abs(right)).max():.1e}"


@pytest.mark.parametrize("layout", ["rows", "columns"])
@pytest.mark.parametrize("shape, axes", [
    ((2, 1), (0,)), ((2, 2), (0,)), ((1, 2), (1,)), ((1, 2, 1), (1,)), ((2, 3, 2), (0, 2)), ((2, 2), (0, 1)),
])  # fmt: skip
def test_sum_over_any_axes(backend, shape, axes, layout):
    """A million tenths in the summed axes together, in both orders of memory."""
    count = LONG.get(backend.name, 2**20)
    large = max(axes, key=lambda axis: shape[axis])
    full = tuple(count if axis == large else size for axis, size in enumerate(shape))
    x = np.full(full if layout == "rows" else full[::-1], 0.1, np.float32)
    x = x if layout == "rows" else x.transpose()
    exact = float(np.float32(0.1)) * np.prod([full[axis] for axis in axes])
    np.testing.assert_allclose(backend.sum(x, axes), exact, rtol=LOST)


def long_rows(rng, C):
    """Rows in which the terms of the sum do not cancel."""
    return (rng.random((2, C)) + 0.5).astype(np.float32)


@pytest.mark.parametrize("order", ["C", "F"])
def test_long_rows(backend, order):
    """Sums along a row, which differs in every element: softmax, losses, norms. What is written here is how the result
    depends on the sum, which is off by LOST at most, besides 16 roundings of single elements."""
    rng, reference = np.random.default_rng(0), kernels.backend("numpy")
    C = LONG.get(backend.name, 2**18) + 3
    x, dy = (np.asarray(long_rows(rng, C), order=order) for _ in range(2))
    few = 16 * UNIT
    target = np.array([0, C - 1])

    def compare(name, arguments, allowed):
        for ours, right, most in zip(
            call(backend, name, arguments), call(reference, name, in_float64(arguments)), allowed, strict=True
        ):
            assert (np.abs(ours.astype(float) - right) <= most(np.abs(right))).all(), name

    share = reference.softmax(x.astype(float)).astype(np.float32)
    compare("softmax", (x,), [lambda y: (LOST + few) * y])
    compare("log_softmax", (x,), [lambda y: LOST + few * y])
    compare("softmax_backward", (dy, share), [lambda dx: share * (LOST + few) * 2])  # Σ dy share is about 1
    compare("log_softmax_backward", (dy, np.log(share)), [lambda dx: few * dx + 2 * C * share * (LOST + few)])
    compare("cross_entropy", (x, target, None, 0.1), [lambda y: LOST * 2 + few * y, lambda y: LOST + few * y])
    weight, bias = np.ones(C, np.float32), np.zeros(C, np.float32)
    # n = (x - mean) rstd: mean and variance (1/12) off by LOST; rstd is 3.5 and |n| below 2
    compare("layer_norm", (x, weight, bias, 1e-5), [lambda y: 8 * (LOST + few), lambda y: 2 * LOST, lambda y: 8 * LOST])
    mean, rstd = (a.astype(np.float32) for a in reference.layer_norm(*in_float64((x, weight, bias, 1e-5)))[1:])
    # dx = rstd (dn - mean(dn) - n mean(dn n)), the means over terms of size 2 at most
    rows = lambda most: lambda _: most  # noqa: E731
    compare("layer_norm_backward", (dy, x, weight, mean, rstd), [rows(24 * (LOST + few))] + [rows(16 * few)] * 2)
