"""The far end of huge arrays, without the memory. A launch is given a grid as large as the array needs, and runs its
last blocks only; each pointer lies so far before a small array that the far elements fall into it. An index that is
kept in 32 bits somewhere on the way points somewhere else (a crash, so this runs in a process of its own)."""

import ctypes
import subprocess
import sys
from pathlib import Path

import numpy as np

from kernels.cuda import source
from kernels.cuda.launcher import TYPES, Launch
from kernels.cuda.source import kernels_in, path_of
from kernels.emulator import device
from kernels.gpu import dropout as dropout_launcher
from kernels.gpu.attention import VARIANTS as ATTENTION
from kernels.gpu.linear import VARIANTS as LINEAR
from kernels.gpu.reduce import VARIANTS as REDUCE
from kernels.reference.dropout import keep_factor
from kernels.reference.philox import philox, threshold
from kernels.reference.quantised_linear import dequantise
from kernels.samples import quantised
from kernels.signature import QUANTISED

FAR = 2**31 + 2**20  # elements: a signed 32-bit index has overflowed
FARTHER = 2**32 + 2**20  # an unsigned one too
FARTHEST = 2**33 + 2**20  # the number of a thread in a grid with a warp a row, too
THREADS = 128
rng = np.random.default_rng(0)


def before(array: np.ndarray, elements: int):
    """A pointer from which `array` lies that many elements away."""
    return np.uint64((array.ctypes.data - elements * array.itemsize) % 2**64)


def run(file, kernel, args, blocks, last, block=THREADS, defines=None, dtype="float64"):
    """Runs the last blocks of a grid. Pointers and scalars are given as the kernel takes them."""
    path = path_of(file)
    parameters = kernels_in(path)[kernel]
    kinds = {"long long": np.int64, "int": np.int32, "unsigned long long": np.uint64, "real": np.dtype(dtype).type}
    values = [arg if p.pointer else kinds[p.type](arg) for p, arg in zip(parameters, args, strict=True)]
    values = [
        np.uint64(v.ctypes.data) if isinstance(v, np.ndarray) else np.uint64(0) if v is None else v for v in values
    ]
    options = ("REAL", TYPES[dtype]), *sorted((name, str(value)) for name, value in (defines or {}).items())
    size = blocks if isinstance(blocks, tuple) else (blocks,)
    total = int(np.prod([int(n) for n in size], dtype=object))
    runtime = device.runtime("fast")
    runtime.emulator_only(ctypes.c_ulonglong(total - last), ctypes.c_ulonglong(total))
    try:
        device.start(Launch(path, kernel, (*size, 1, 1)[:3], (block, 1, 1), values, options), values, "fast", 0)
    finally:
        runtime.emulator_only(ctypes.c_ulonglong(0), ctypes.c_ulonglong(2**64 - 1))


def same(what, ours, right):
    # numbers of size 1 in double precision; another element would be off in the first digits
    np.testing.assert_allclose(ours, right, rtol=1e-12, atol=1e-12, err_msg=what)


def elementwise(n):
    count, x, y, z = 2 * THREADS, rng.random(2 * THREADS), np.zeros(2 * THREADS), rng.random(2 * THREADS)
    n = n // THREADS * THREADS
    first, blocks = n - count, n // THREADS
    unary = {"exp": np.exp, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh, "relu": lambda t: t}
    for name, function in unary.items():
        run("elementwise", f"{name}_forward", (before(y, first), before(x, first), n), blocks, 2)
        same(name, y, function(x))
    for name in ("gelu", "sigmoid"):
        run("elementwise", f"{name}_forward", (before(y, first), before(x, first), n), blocks, 2)
        assert (y > 0).all(), name
    for name in ("exp", "log", "sqrt", "tanh", "sigmoid", "relu", "gelu"):
        y[:] = -7
        run("elementwise", f"{name}_backward", (before(y, first), before(z, first), before(x, first), n), blocks, 2)
        assert (y != -7).all(), name
    table = np.array([[n // THREADS, THREADS, 0], [THREADS, 1, 1]])  # a (rows, 128) and a row b
    for name, function in {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
                           "power": np.power}.items():  # fmt: skip
        run(
            "elementwise",
            f"{name}_forward",
            (before(y, first), before(x, first), before(z, first), None, 0, n),
            blocks,
            2,
        )
        same(name, y, function(x, z))
        args = (before(y, first), before(x, first), z[:THREADS].copy(), table, 2, n)
        run("elementwise", f"{name}_forward", args, blocks, 2)
        same(f"{name}, broadcast", y, function(x, np.tile(z[:THREADS], 2)))


def adam(n):
    n = n // THREADS * THREADS
    first, arrays = n - THREADS, [rng.random(THREADS) for _ in range(4)]
    m = arrays[2].copy()
    numbers = (0.9, 0.1, 0.99, 0.01, 0.1, 1.0, 1e-8, 1.0, 0.0, 1.0)
    run("adam", "adam", (*(before(a, first) for a in arrays), n, *numbers), n // THREADS, 1)
    same("adam", arrays[2], 0.9 * m + 0.1 * arrays[1])


def dropout(n):
    """Element i takes word i mod 4 of counter i div 4, whose upper half is not zero from 2^34 on."""
    strip = dropout_launcher.STRIP
    n = n // (4 * strip) * (4 * strip)
    count = 4 * strip
    x, y, p, seed = np.ones(count), np.zeros(count), 0.5, 9
    args = (before(y, n - count), before(x, n - count), n, threshold(p), keep_factor(p, x.dtype), seed)
    run("dropout", "dropout", args, n // count, 1, defines=dropout_launcher.VARIANTS[0])
    counters = np.arange((n - count) // 4, n // 4, dtype=np.uint64)
    words = np.stack(philox(counters & np.uint64(2**32 - 1), counters >> np.uint64(32), 0, 0, seed), axis=1).reshape(-1)
    same("dropout", y, np.where(words >= threshold(p), 2.0, 0.0))


def rows(n):
    """Kernels with a row a warp or a block: as many rows as make n elements."""
    C, warps = 33, THREADS // 32
    N = n // C // warps * warps
    count, blocks = warps, N // warps
    x, dy, weight, bias = rng.random((count, C)), rng.random((count, C)), rng.random(C), rng.random(C)
    y, far = np.zeros((count, C)), lambda array: before(array, (N - warps) * (array.size // count))
    share = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    run("softmax", "softmax_forward", (far(y), far(x), N, C), blocks, 1)
    same("softmax", y, share)
    run("softmax", "log_softmax_forward", (far(y), far(x), N, C), blocks, 1)
    same("log_softmax", y, np.log(share))
    logs = np.log(share)  # by name: nobody else holds an array of which only the address is given
    run("softmax", "softmax_backward", (far(y), far(dy), far(share), N, C), blocks, 1)
    same("softmax_backward", y, share * (dy - (dy * share).sum(1, keepdims=True)))
    run("softmax", "log_softmax_backward", (far(y), far(dy), far(logs), N, C), blocks, 1)
    same("log_softmax_backward", y, dy - share * dy.sum(1, keepdims=True))
    mean, rstd = np.zeros(count), np.zeros(count)
    args = (far(y), far(mean), far(rstd), far(x), weight, bias, N, C, 0.0)
    run("layer_norm", "layer_norm_forward", args, blocks, 1, defines=LINEAR[0])
    normed = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
    same("layer_norm", y, normed * weight + bias)
    args = (far(y), far(dy), far(x), np.ones(C), far(mean), far(rstd), N, C)
    run("layer_norm", "layer_norm_backward", args, blocks, 1, defines=LINEAR[0])
    centred = dy - dy.mean(1, keepdims=True) - normed * (dy * normed).mean(1, keepdims=True)
    same("layer_norm_backward", y, centred / x.std(1, keepdims=True))
    y[:] = x
    run("linear", "add_bias", (far(y), bias, N, C), blocks, 1, defines=LINEAR[0])
    same("add_bias", y, x + bias)
    run("feed_forward", "bias_activation", (far(y), far(x), np.zeros(C), N, C, 0), blocks, 1)
    same("bias_activation", y, x)
    flat = n // THREADS * THREADS
    one, two, three = rng.random(THREADS), np.zeros(THREADS), rng.random(THREADS)
    end = lambda array: before(array, flat - THREADS)  # noqa: E731
    run("linear", "accumulate", (end(two), end(one), flat), flat // THREADS, 1, defines=LINEAR[0])
    same("accumulate", two, one)
    expected = three.copy()
    run("feed_forward", "activation_backward", (end(two), end(three), end(one), flat, 0), flat // THREADS, 1)
    same("activation_backward", three, expected)
    # embedding: the far row of the table, and the far row of the result
    ids = np.full(count, N - 1)
    run("embedding", "embedding_forward", (far(y), far(x), far(ids), N, C), blocks, 1)
    same("embedding", y, np.tile(x[-1], (count, 1)))
    row, order, starts = np.zeros(C), np.arange(N - count, N), np.array([N - count, N])
    args = (before(row, (N - 1) * C), far(dy), far(ids), far(order), starts, 1, C)
    run("embedding", "embedding_backward", args, 1, 1)
    same("embedding_backward", row, dy.sum(0))
    # a row a block
    lse, losses, targets = np.log(np.exp(x).sum(1)), np.zeros(count), np.full(count, C - 1)
    got, factor = np.zeros(count), np.ones(1)
    args = (far(losses), far(got), far(x), far(targets), N, C, 0, 0, 0.0)
    run("cross_entropy", "cross_entropy_rows", args, N, count, block=64)
    same("cross_entropy", losses, lse - x[:, -1])
    args = (far(y), far(x), far(lse), far(targets), factor, N, C, 0, 0, 0.0)
    run("cross_entropy", "cross_entropy_backward", args, N, count, block=64)
    same("cross_entropy_backward", y, share - np.eye(C)[-1])
    y[:] = x
    args = (far(y), far(losses), np.zeros(C), far(targets), N, C, 0.0, 1.0, 1)
    run("linear_cross_entropy", "loss_and_gradient", args, N, count, block=64)
    same("loss_and_gradient", y, share - np.eye(C)[-1])
    # blocks of rows, columns
    ROWS = LINEAR[0]["ROWS"]
    N = n // C // ROWS * ROWS
    x, dy, partial, other = rng.random((ROWS, C)), rng.random((ROWS, C)), np.zeros(C), np.zeros(C)
    far = lambda array: before(array, (N - ROWS) * (array.size // ROWS))  # noqa: E731
    at = lambda array: before(array, (N // ROWS - 1) * C)  # noqa: E731
    run("linear", "column_sums", (at(partial), far(x), N, C), (N // ROWS, 1), 1, defines=LINEAR[0])
    same("column_sums", partial, x.sum(0))
    mean, rstd = rng.random(ROWS), rng.random(ROWS)
    args = (at(partial), at(other), far(dy), far(x), far(mean), far(rstd), N, C)
    run("layer_norm", "layer_norm_backward_weights", args, (N // ROWS, 1), 1, defines=LINEAR[0])
    same("layer_norm_backward_weights", partial, (dy * (x - mean[:, None]) * rstd[:, None]).sum(0))
    # parts of a long row
    B = REDUCE[0]["BLOCK"]
    M = n // (4 * B) * (4 * B)
    x, partial = rng.random((warps, B)), np.zeros(warps)
    start = lambda array: before(array, M // B - warps) if array is partial else before(array, M - warps * B)  # noqa: E731
    for kernel, function in (("sum_rows", np.sum), ("max_rows", np.max)):
        args = (start(partial), start(x), 1, M, M // B)
        run("reduce", kernel, args, M // B // warps, 1, defines=REDUCE[0])
        same(kernel, partial, function(x, axis=1))
    run("reduce", "sum_of_squares", (start(partial), start(x), M), M // B // warps, 1, defines=REDUCE[0])
    same("sum_of_squares", partial, (x * x).sum(1))


def attention(n):
    """The last head of many, and with it the last sequence."""
    defines, (T, S, D) = ATTENTION[0], (8, 7, 30)
    heads = n // (T * D)
    q, k, v = rng.random((T, D)), rng.random((S, D)), rng.random((S, D))
    out, lse, lengths = np.zeros((T, D)), np.zeros(T), np.array([S])
    far = lambda array: before(array, (heads - 1) * array.size)  # noqa: E731
    options = (far(lengths), 1, 1, T, S, D, 0, 0, 0.3, 0, 1.0, 0)  # one head, which shares its keys with none
    block = defines["THREADS"]
    run(
        "attention",
        "attention_forward",
        (far(out), far(lse), far(q), far(k), far(v), *options),
        heads,
        1,
        block,
        defines,
    )
    scores = q @ k.T * 0.3
    p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    same("attention", out, p @ v)
    dout, delta = rng.random((T, D)), np.zeros(T)
    warps, many = block // 32, heads * T
    args = (far(delta), far(dout), far(out), many, D)
    run("attention", "attention_delta", args, many // warps, T // warps, block, defines)
    same("delta", delta, (dout * out).sum(1))
    dq, dk, dv = np.zeros((T, D)), np.zeros((S, D)), np.zeros((S, D))
    rest = (far(dout), far(q), far(k), far(v), far(lse), far(delta), *options)
    run("attention", "attention_backward_queries", (far(dq), *rest), heads, 1, block, defines)
    run("attention", "attention_backward_keys", (far(dk), far(dv), *rest), heads, 1, block, defines)
    ds = p * (dout @ v.T - delta[:, None])
    same("dq", dq, 0.3 * ds @ k)
    same("dk", dk, 0.3 * ds.T @ q)
    same("dv", dv, p.T @ dout)


def quantised_linear(n):
    """The last blocks of weights, the last rows of x, the last rows of weights."""
    warps = THREADS // 32
    for code, (kind, size) in enumerate(QUANTISED.items()):
        weight, x = quantised(rng, kind, warps, 32), rng.random((warps, 32))
        numbers, w, y = dequantise(weight, kind).astype(float), np.zeros((warps, 32)), np.zeros(warps)
        many = n // 32 // warps * warps
        far = lambda array, many: before(array, (many - warps) * (array.size // warps))  # noqa: E731
        run("quantised_linear", "unpack", (far(w, many), far(weight, many), many, code), many // warps, 1)
        same(f"unpack {kind}", w, numbers)
        args = (far(y, many), far(x, many), weight, many, 1, 1, code)
        run("quantised_linear", "dot_rows", args, many // warps, 1)
        same(f"rows of x, {kind}", y, x @ numbers[0])
        many = n // size // warps * warps  # n bytes
        args = (far(y, many), x, far(weight, many), 1, many, 1, code)
        run("quantised_linear", "dot_rows", args, many // warps, 1)
        same(f"rows of weights, {kind}", y, numbers @ x[0])


PARTS = {
    "elementwise": elementwise, "adam": adam, "dropout": dropout, "attention": attention, "rows": rows,
    "quantised_linear": quantised_linear,
}  # fmt: skip


def far_faults(folder: Path = source.FOLDER) -> str | None:
    """Everything in a process of its own, since a wrong index may be a wrong address. `folder`: of the CUDA files."""
    command = [sys.executable, __file__, str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    return None if result.returncode == 0 else (result.stderr.strip().splitlines() or [f"{result.returncode}"])[-1]


if __name__ == "__main__":
    source.FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else source.FOLDER
    for size in (FAR, FARTHER, FARTHEST):
        for part in PARTS.values():
            part(size)
    dropout(2**34 + 2**20)
    dropout(2**36 + 2**20)
