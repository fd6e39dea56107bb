"""What only the Numba tier promises: bits that do not depend on threads, little memory, no stray access, a notice."""

import itertools
import os
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numba
import numpy as np
import pytest

import kernels
from kernels import Dropout, Mask
from kernels.cpu.jit import ids64
from kernels.samples import SAMPLES, quantised, samples

ROOT = Path(__file__).parents[2]


def run(code: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True
    )


def bits(result) -> list[bytes]:
    parts = result if isinstance(result, tuple) else (result,)
    return [np.asarray(part).tobytes() for part in parts if part is not None]


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs two threads to compare with one")
def test_the_number_of_threads_changes_no_bit():
    fast = kernels.backend("numba")
    rng = np.random.default_rng(0)
    x, dy = rng.standard_normal((301, 33)), rng.standard_normal((301, 33))
    w, w301 = rng.standard_normal(33), rng.standard_normal(301)
    mean, rstd = x.mean(1), 1 / x.std(1)
    q = rng.standard_normal((2, 3, 130, 20))
    options = Mask(is_causal=True), 0.2, Dropout(0.1, 1)
    out, lse = fast.attention(q, q, q, *options)
    k = rng.standard_normal((2, 1, 130, 20))  # one head of keys for three of queries
    calls = [
        ("layer_norm_backward", (dy, x, w, mean, rstd)),
        ("rms_norm_backward", (dy, x, w, rstd)),
        ("rotary", (q, np.arange(130)[None], 10000.0, True)),
        ("sum", (rng.standard_normal(30_001), (0,))),
        ("embedding_backward", (dy, rng.integers(0, 7, 301), 7)),
        ("gated_feed_forward", (x, x, w301, x, None, x.T, None, "silu")),
        ("gated_feed_forward_backward", (dy, x, x, dy, x.T, *[x @ x.T] * 2, "silu", True, False, True)),
        ("attention", (q, q, q, *options)),
        ("attention_backward", (q, q, q, q, out, lse, *options)),
        ("attention", (q, k, k, *options)),
        ("attention_backward", (q, q, k, k, *fast.attention(q, k, k, *options), *options)),
        ("cross_entropy", (x, rng.integers(0, 33, 301), None, 0.1)),
        *[
            ("quantised_linear", (rng.standard_normal((n, 64)), quantised(rng, "Q4_1", 1000, 64), "Q4_1"))
            for n in (1, 9)
        ],
        (
            "attend_word",
            (rng.standard_normal((1, 9, 64)), *rng.standard_normal((2, 1, 3, 300, 64)), np.array([200]), 10.0, 0.1),
        ),
        ("sum_of_squares", (x,)),
    ]
    all_threads = [bits(getattr(fast, name)(*arguments)) for name, arguments in calls]
    numba.set_num_threads(1)
    try:
        one_thread = [bits(getattr(fast, name)(*arguments)) for name, arguments in calls]
    finally:
        numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    assert one_thread == all_threads


def test_the_same_bits_every_time():
    fast = kernels.backend("numba")
    for name in SAMPLES:
        for label, arguments in samples(name, "float32"):
            arguments = (*arguments, True) if name == "linear_cross_entropy" else arguments
            first, second = (bits(getattr(fast, name)(*arguments)) for _ in range(2))
            assert first == second, f"{name}, {label}"


def test_ids_that_cannot_be_written_to_are_copied():
    """Numba would compile every kernel a second time for them. All others are taken as they are."""
    ids = np.arange(3)
    assert ids64(ids) is ids
    ids.flags.writeable = False
    assert ids64(ids).flags.writeable and (ids64(ids) == ids).all()


MEMORY = """
import resource, numpy as np, kernels
fast = kernels.backend("numba")
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
{prepare}
before = peak()
{work}
print(peak() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak memory as Linux reports it")
def test_attention_needs_memory_for_tiles_only():
    """At T = S = 8192 the scores would be 256 MiB in float32. Warm up small, then look at how far memory rises."""
    step = "options = kernels.Mask(is_causal=True), 0.2, kernels.Dropout()\n"
    step += "out, lse = fast.attention(q, q, q, *options)\n"
    step += "fast.attention_backward(q, q, q, q, out, lse, *options)"
    make = "q = np.ones((1, 1, {}, 16), np.float32)\n"
    result = run(MEMORY.format(prepare=make.format(100) + step, work=make.format(8192) + step))
    assert result.returncode == 0, result.stderr
    # q, out, dq, dk, dv are 0.5 MiB each; 32 MiB leaves room for the allocator and none for a T × S array
    assert float(result.stdout) < 32


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak memory as Linux reports it")
def test_head_and_loss_need_one_buffer():
    """2,048 rows of 20,000 logits would be 156 MiB, and as much for their gradient."""
    step = "fast.linear_cross_entropy(x, w, None, t, None, 0.0, True)"
    make = "x = np.ones(({}, 8), np.float32); w = np.ones((20000, 8), np.float32); t = np.zeros(len(x), int)\n"
    result = run(MEMORY.format(prepare=make.format(10) + step, work=make.format(2048) + step))
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) < 110  # the buffer of 64 MiB, gradients of 0.7 MiB, BLAS's own workspace


BOUNDS = """
import numpy as np, kernels, numba, warnings
warnings.simplefilter("ignore")
from autograd import Function, Tensor, functional
from kernels.samples import SAMPLES, samples
assert numba.config.BOUNDSCHECK == 1
kernels.use("numba")
count = 0
for name in SAMPLES:
    for label, arguments in samples(name, "float64"):
        tensors = [Tensor(a, requires_grad=True) if getattr(a, "dtype", None) == "float64" else a for a in arguments]
        result = Function.rules[name].apply(*tensors)
        result.backward(np.ones(result.shape))
        count += 1
print(count)
"""


@pytest.mark.bounds
@pytest.mark.slow
def test_no_access_out_of_bounds(tmp_path):
    """Every sample, forward and backward, compiled with a check at every array access."""
    environment = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path), "MINITRANSFORMER_QUIET": "1"}
    result = run(BOUNDS, **environment)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) == sum(1 for name in SAMPLES for _ in samples(name, "float64"))


def test_the_bounds_check_works_inside_threads(tmp_path):
    """A stray write in a threaded loop must be reported, or the test above would prove nothing."""
    code = """
import numpy as np
from kernels.cpu.linear import _column_sums
_column_sums(np.zeros((2, 3)), np.zeros((4, 5)))
"""
    result = run(code, NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path), MINITRANSFORMER_QUIET="1")
    assert result.returncode != 0 and "IndexError" in result.stderr


def test_the_first_compile_is_announced_and_the_second_process_is_silent(tmp_path):
    code = "import numpy as np, kernels; kernels.backend('numba').softmax(np.ones((2, 2)))"
    quiet = {key: value for key, value in os.environ.items() if key != "MINITRANSFORMER_QUIET"}
    first, second = (
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True,
            env={**quiet, "NUMBA_CACHE_DIR": str(tmp_path)},
        )
        for _ in range(2)
    )  # fmt: skip
    assert "compiling Numba kernels" in first.stderr and "softmax" in first.stderr
    assert (second.returncode, second.stderr) == (0, "")


def test_the_cache_follows_what_a_kernel_imports(tmp_path):
    """A helper inlined from another file: a change there must not leave old machine code in use."""
    shutil.copytree(ROOT / "kernels", tmp_path / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    code = "import numpy as np, kernels; print(kernels.backend('numba').silu(np.ones(1)).item())"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "MINITRANSFORMER_QUIET": "1"}
    results = []
    helper = tmp_path / "kernels/cpu/silu.py"  # the kernel itself is in elementwise.py
    right, wrong = "return x * sigmoid_value(x)\n", "return 1000 + x * sigmoid_value(x)\n"
    assert right in helper.read_text()
    for source in (right, wrong):
        helper.write_text(helper.read_text().replace(right, source))
        run = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        results.append(float(run.stdout))
    assert results == pytest.approx([1 / (1 + np.exp(-1)), 1000 + 1 / (1 + np.exp(-1))], rel=1e-15)  # the same sums


@pytest.mark.parametrize("H", [1, 3, 9])
@pytest.mark.parametrize(("T", "S"), [(127, 129), (129, 257), (300, 130)])
def test_attention_across_tiles(rng, T, S, H):
    """Several tiles both ways. The keys of one head only: their tiles are shared out among tasks, and so are the heads
    that read them; with nine of them a task has one or two."""
    q, dout = rng.standard_normal((1, H, T, 6)), rng.standard_normal((1, H, T, 6))
    k, v = rng.standard_normal((1, 1, S, 6)), rng.standard_normal((1, 1, S, 6))
    options = Mask(np.array([S - 1]), True, max(0, S - T)), 0.4, Dropout(0.1, 7)
    results = []
    for backend in (kernels.backend("numba"), kernels.backend("numpy")):
        out, lse = backend.attention(q, k, v, *options)
        results.append((out, lse, *backend.attention_backward(dout, q, k, v, out, lse, *options)))
    for ours, reference in zip(*results, strict=True):
        # sums of a few hundred terms of size 1 in double precision, ordered differently
        np.testing.assert_allclose(ours, reference, rtol=0, atol=1e-12)


KEYS_READ = """
import numpy as np, kernels
import kernels.cpu.attention as tiled
from kernels import Dropout, Mask

tiled.BLOCK, tiled.CUT, multiply = 8, 4, tiled.multiply

def keys_read(G, T):
    k, counts = np.zeros((1, G, 64, 2)), []
    def counting(c, a, *others):
        counts.append(len(a) if np.may_share_memory(a, k) else 0)
        multiply(c, a, *others)
    tiled.multiply = counting
    kernels.backend("numba").attention(
        np.zeros((1, 8, T, 2)), k, np.zeros_like(k), Mask(None, True, 64 - T), 1.0, Dropout())
    return sum(counts)

print(*(keys_read(G, T) for T in (1, 64) for G in (2, 8)))
"""


def test_grouped_heads_read_fewer_keys():
    """The contract counts each key once for its group. The tiled forward pass reads it once for every tile of queries,
    of which the heads of a group share one: a word on its own needs exactly G/H of the keys that repeated heads need.
    Among many words a tile has fewer queries of each head instead, in 32 tiles of 2 queries for each of 2 groups, where
    repeated heads have 8 of 8 for each of 8 heads: only what the causal mask hides earlier is saved."""
    result = run(KEYS_READ, NUMBA_DISABLE_JIT="1")
    alone, alone_repeated, many, many_repeated = map(int, result.stdout.split())
    assert (alone, alone_repeated) == (2 * 64, 8 * 64)
    assert (many, many_repeated) == (2 * sum(range(2, 65, 2)), 8 * sum(range(8, 65, 8)))


@pytest.mark.parametrize("interleaved", [True, False])
def test_rotary_leaves_heads_where_the_projection_put_them(rng, interleaved):
    """Queries and keys are parts of one product (B, T, heads, D): turned, they lie in memory in the same order, without
    the gaps, so that attention and the product after it need no copy."""
    packed = rng.standard_normal((2, 7, 6 + 2 + 2, 4))
    q = packed[:, :, :6].transpose(0, 2, 1, 3)
    turned = kernels.backend("numba").rotary(q, np.arange(7)[None], 100.0, interleaved)
    assert turned.transpose(0, 2, 1, 3).flags.c_contiguous
    expected = kernels.backend("numpy").rotary(q, np.arange(7)[None], 100.0, interleaved)
    np.testing.assert_allclose(turned, expected, rtol=0, atol=1e-14)  # two products and a sum of numbers below 5


@pytest.mark.parametrize("positions", [np.arange(70)[None], np.arange(140).reshape(2, 70)])
def test_rotary_with_and_without_gaps_between_rows(rng, positions):
    """Rows that follow one another without a gap are turned as one long row; more rows than a task takes. The last bits
    may differ: what is left at the end of a loop is rounded otherwise than whole vectors."""
    packed = rng.standard_normal((2, 3, 70, 9 + 6))
    apart, fast = packed[..., :6], kernels.backend("numba")
    expected = kernels.backend("numpy").rotary(apart, positions, 100.0, True)
    for x in (apart, np.ascontiguousarray(apart)):
        # two products and a sum of numbers below 5
        np.testing.assert_allclose(fast.rotary(x, positions, 100.0, True), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("V", [1, 127, 129, 1000, 3001, 40_000])
def test_every_layout_of_the_vocabulary(rng, V):
    """One block, few blocks, many blocks a task: all words are covered once."""
    x, weight, bias = rng.standard_normal((5, 3)), rng.standard_normal((V, 3)), rng.standard_normal(V)
    targets = np.array([0, V - 1, V // 2, V // 3, 0])
    results = [kernels.backend(name).linear_cross_entropy(x, weight, bias, targets, None, 0.1, True)
               for name in ("numba", "numpy")]  # fmt: skip
    for ours, reference in zip(*results, strict=True):
        np.testing.assert_allclose(
            ours, reference, rtol=1e-9, atol=1e-12
        )  # probabilities down to 1e-6, sums of V terms


def test_large_arrays_are_used_again_only_when_nobody_holds_them():
    from kernels.cpu.workspace import LARGE, recycled

    shape = (LARGE // 4 + 1,)
    first, second = recycled(shape, np.float32), recycled(shape, np.float32)
    assert not np.shares_memory(first, second)
    address, part = first.ctypes.data, first[5:9]
    del first
    third = recycled(shape, np.float32)
    assert third.ctypes.data != address, "a part of the first array is still held"
    del part, third, second
    assert address in {recycled(shape, np.float32).ctypes.data, recycled(shape, np.float32).ctypes.data}
    small = recycled((3,), np.float32)
    assert small.shape == (3,) and small.base is None


def test_a_long_sequence_needs_no_square_of_memory():
    """16,384 positions, whose scores alone would be 1 GB: both ways take less than 100 MB, results included."""
    q = np.random.default_rng(0).standard_normal((1, 1, 16384, 64), dtype=np.float32)
    numba_kernels = kernels.backend("numba")
    options = (Mask(is_causal=True), 0.125, Dropout())
    numba_kernels.attention_backward(q, q, q, q, *numba_kernels.attention(q, q, q, *options), *options)  # compiles
    tracemalloc.start()
    out, lse = numba_kernels.attention(q, q, q, *options)
    gradients = numba_kernels.attention_backward(q, q, q, q, out, lse, *options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(gradients) == 3 and peak < 100e6, f"{peak / 1e6:.0f} MB"


def cut(array, H, D, *ends):
    """Heads of an array (B, T, columns), in parts that end there."""
    heads = array.reshape(*array.shape[:2], H, D).transpose(0, 2, 1, 3)
    return [heads[:, first:last] for first, last in itertools.pairwise((0, *ends))]


@pytest.mark.parametrize("is_causal", [False, True])
def test_gradients_of_heads_that_were_cut_out_of_one_array(is_causal, rng):
    """They have the bits of gradients of copies, wherever the heads lie. Where the heads are a whole array, one after
    another, so are their gradients, and nobody else's."""
    backend, D, T = kernels.backend("numba"), 3, 131
    packed, pair, alone = (rng.normal(size=(2, T, heads * D)) for heads in (8, 4, 4))
    q, k, v = cut(packed, 8, D, 4, 6, 8)
    cases = {  # with the number of arrays that the three gradients lie in
        "one array": ((q, k, v), 1),
        "keys and values in one array": ((*cut(alone, 4, D, 4), *cut(pair, 4, D, 2, 4)), 2),
        "values before keys": ((*cut(alone, 4, D, 4), *reversed(cut(pair, 4, D, 2, 4))), 3),
        "the same heads twice": ((q, k, k), 3),
        "not all of it": (cut(packed, 8, D, 2, 4, 6), 3),
    }
    for name, (arrays, count) in cases.items():
        options = (Mask(None, is_causal, 0), 0.5, Dropout())
        out, lse = backend.attention(*arrays, *options)
        dout = rng.normal(size=out.shape)
        ours = backend.attention_backward(dout, *arrays, out, lse, *options)
        theirs = backend.attention_backward(dout, *(np.array(x, order="C") for x in arrays), out, lse, *options)
        assert bits(ours) == bits(theirs), name
        assert len({id(dx if dx.base is None else dx.base) for dx in ours}) == count, name
        assert not any(np.shares_memory(a, b) for a, b in itertools.combinations(ours, 2)), name
