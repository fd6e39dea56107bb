"""The contract: every tier has every kernel, arguments are checked before anything runs, costs are true counts."""

import functools
import importlib
import inspect

import numpy as np
import pytest

from kernels.backend import FOLDERS
from kernels.contract import CONTRACT, Dropout, KernelError, Mask
from kernels.cuda.source import kernels_in, path_of
from kernels.samples import SAMPLES

F64 = np.zeros
HEADS = [F64((1, 1, 3, 4))] * 3


def arguments_of(function, spec):
    """Their names, as the ufunc, the loop or the CUDA kernel has them that an elementwise function stands for."""
    behind = getattr(function, "__wrapped__", function)
    if isinstance(behind, np.ufunc):  # NumPy gives no names
        return spec.names if behind.nin == len(spec.names) else behind.nin
    if isinstance(behind, functools.partial):
        kernel = kernels_in(path_of(spec.file))[behind.args[0]]
        return tuple(p.name for p in kernel if p.const and p.type == "real")
    names = tuple(inspect.signature(behind).parameters)
    return names if behind is function else names[1:]  # the first argument of a loop is its result


def test_every_tier_has_every_kernel_under_the_same_path():
    for name in ("numpy", "numba", "cupy"):  # gpu/ can be read without a GPU; the emulator runs the same files
        for spec in CONTRACT.values():
            function = getattr(importlib.import_module(f"{FOLDERS[name]}.{spec.file}"), spec.name)
            assert arguments_of(function, spec) == spec.names, f"{name}: {spec.name}"


def test_every_forward_kernel_has_samples():
    # no derivative; tested by themselves
    without = {"adam", "attend_word", "dequantise", "encoder_layer", "sum_of_squares"}
    forward = {name for name in CONTRACT if not name.endswith("_backward")} - without
    assert forward == set(SAMPLES)


WRONG = {
    "weight of the wrong width": (
        "linear", (F64((2, 3)), F64((4, 5)), None), "weight .F, C. has shape .4, 5., but C is 3"),
    "a vector instead of rows": ("linear", (F64(3), F64((4, 3)), None), "x must have shape .N, C., not .3,."),
    "empty rows": ("linear", (F64((0, 3)), F64((4, 3)), None), "x .N, C. is empty"),
    "two dtypes": ("linear", (F64((2, 3)), np.zeros((4, 3), "f4"), None), "weight is float32 but x is float64"),
    "half precision": ("softmax", (np.zeros((2, 3), "f2"),), "x is float16; float32 or float64"),
    "integers": ("softmax", (np.zeros((2, 3), int),), "x is int64; float32 or float64"),
    "a list": ("softmax", ([[1.0]],), "x must be an array, not list"),
    "too few arguments": ("softmax", (), "0 arguments given, 1 expected"),
    "id too large": ("embedding", (F64((5, 2)), np.array([0, 5])), r"ids\[1\] is 5, outside the allowed 0 ... 4"),
    "id negative": ("embedding", (F64((5, 2)), np.array([-1, 4])), r"ids\[0\] is -1"),
    "ids of floats": ("embedding", (F64((5, 2)), np.array([0.0])), "ids must hold integers"),
    "target too large": ("cross_entropy", (F64((2, 3)), np.array([0, 3]), None, 0.0), r"targets\[1\] is 3"),
    "ignored id not declared": ("cross_entropy", (F64((2, 3)), np.array([0, -1]), None, 0.0), r"targets\[1\] is -1"),
    "nothing left": ("cross_entropy", (F64((2, 3)), np.array([1, 1]), 1, 0.0), "every target equals ignore_index = 1"),
    "smoothing of 1": ("cross_entropy", (F64((2, 3)), np.array([1, 1]), None, 1.0), "label_smoothing must be at least"),
    "rows of targets": ("cross_entropy", (F64((2, 3)), np.array([1]), None, 0.0), "N is 2 in an earlier argument"),
    "dropout of 1": ("dropout", (F64(3), 1.0, 0), "p must be at least 0 and below 1"),
    "unknown activation": (
        "feed_forward", (F64((1, 2)), F64((3, 2)), F64(3), F64((2, 3)), F64(2), "swish"), "unknown activation 'swish'"),
    "an activation that gates nothing": (
        "gated_feed_forward",
        (F64((1, 2)), F64((3, 2)), None, F64((3, 2)), None, F64((2, 3)), None, "relu"),
        "unknown activation 'relu'; choose from silu, gelu"),
    "gate and up of different widths": (
        "gated_feed_forward", (F64((1, 2)), F64((3, 2)), None, F64((4, 2)), None, F64((2, 3)), None, "silu"), "F is 3"),
    "groups that are not whole": (
        "attention", (F64((1, 4, 3, 4)), F64((1, 3, 3, 4)), F64((1, 3, 3, 4)), Mask(), 1.0, Dropout()),
        "3 key-value heads cannot share 4 query heads evenly; G must divide H"),
    "more key-value heads than heads": (
        "attention", (F64((1, 2, 3, 4)), F64((1, 4, 3, 4)), F64((1, 4, 3, 4)), Mask(), 1.0, Dropout()),
        "4 key-value heads cannot share 2 query heads"),
    "keys and values of different groups": (
        "attention", (F64((1, 4, 3, 4)), F64((1, 2, 3, 4)), F64((1, 1, 3, 4)), Mask(), 1.0, Dropout()), "G is 2"),
    "an odd number of columns": (
        "rotary", (F64((1, 1, 2, 3)), np.array([[0, 1]]), 10.0, True), "D must be even, not 3"),
    "positions of another batch": (
        "rotary", (F64((3, 1, 2, 4)), np.zeros((2, 2), int), 10.0, True), "P must be 1 or B = 3"),
    "positions of another length": (
        "rotary", (F64((3, 1, 2, 4)), np.zeros((1, 3), int), 10.0, True), "T is 2 in an earlier argument"),
    "positions between the words": (
        "rotary", (F64((1, 1, 2, 4)), np.array([[0.0, 0.5]]), 10.0, True), "positions must hold integers"),
    "a base of nothing": (
        "rotary", (F64((1, 1, 2, 4)), np.array([[0, 1]]), 0.0, True), "base must be positive, not 0.0"),
    "keys longer than the array": (
        "attention", (*HEADS, Mask(np.array([4])), 1.0, Dropout()), r"mask.key_lengths\[0\] is 4, .*0 ... 3 .S = 3."),
    "negative offset": (
        "attention", (*HEADS, Mask(None, True, -1), 1.0, Dropout()), "mask.query_offset must not be negative"),
    "all weights dropped": (
        "attention", (*HEADS, Mask(), 1.0, Dropout(1.0)), "dropout.p must be at least 0 and below 1"),
    "lengths as a list": (
        "attention", (*HEADS, Mask([3]), 1.0, Dropout()), "mask.key_lengths must be an array, not list"),
    "a mask without its name": (
        "attention", (*HEADS, (None, True, 0), 1.0, Dropout()),
        r"mask must be a Mask.key_lengths, is_causal, query_offset., not a tuple"),
    "mask and dropout exchanged": (
        "attention", (*HEADS, Dropout(), 1.0, Mask()), "mask must be a Mask.*, not a Dropout"),
    "loose options": (
        "attention", (*HEADS, None, True, 0, 1.0, 0.0, 0),
        "9 arguments given, 6 expected: q, k, v, mask, scale, dropout"),
    "ids under a mask": (
        "embedding_backward", (F64((2, 3)), np.ma.masked_array([0, 9], [False, True]), 5),
        "ids is a MaskedArray; kernels take plain arrays only"),
    "lengths under a mask": (
        "attention", (*HEADS, Mask(np.ma.masked_array([9], [True])), 1.0, Dropout()),
        "mask.key_lengths is a MaskedArray"),
    "a matrix": ("softmax", (F64((2, 3)).view(np.matrix),), "x is a matrix; kernels take plain arrays only"),
    "quantised weights as numbers": (
        "quantised_linear", (F64((2, 32)), F64((4, 32)), "Q8_0"), "weight holds float64; quantised weights are bytes"),
    "half a block": (
        "quantised_linear", (F64((2, 32)), np.zeros((4, 33), "u1"), "Q8_0"), "33 bytes are not whole blocks of Q8_0"),
    "blocks of the other kind": (
        "quantised_linear", (F64((2, 320)), np.zeros((4, 340), "u1"), "Q4_1"), "hold 544 weights, but C is 320"),
    "too few columns to pass back": (
        "quantised_linear_backward", (F64((2, 3)), np.zeros((4, 34), "u1"), "Q8_0"), "F is 3 in an earlier argument"),
    "w_down of another width": (
        "quantised_gated_feed_forward",
        (F64((2, 32)), *[np.zeros((64, 34), "u1")] * 2, np.zeros((5, 34), "u1"), "Q8_0", "silu"),
        "hold 32 weights, but F is 64"),
    "an unknown kind of quantised weights": (
        "dequantise", (np.zeros((4, 34), "u1"), "Q4_K"), "unknown kind 'Q4_K'; choose from Q8_0, Q4_1"),
    "shapes that do not broadcast": ("add", (F64((2, 3)), F64((2,))), "cannot be broadcast"),
    "matrices that do not fit": ("matmul", (F64((2, 3)), F64((2, 3))), r"not \(2, 3\) @ \(2, 3\)"),
    "an axis too many": ("sum", (F64((2, 3)), (2,)), "axes .2,. do not fit"),
    "largest of nothing": ("max", (F64((0, 3)), (0,)), "has no largest element"),
    "a state of another shape": (
        "adam", (F64(3), F64(3), F64(4), F64(3), 0.1, 0.9, 0.99, 1e-8, 0.0, False, 1, 1.0),
        "m has shape .4,., expected .3,."),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case)
def test_wrong_arguments_raise_before_anything_runs(backend, case):
    name, arguments, message = WRONG[case]
    with pytest.raises(KernelError, match=message) as caught:
        getattr(backend, name)(*arguments)
    assert "\n" not in str(caught.value)


def test_a_subclass_is_refused_after_a_plain_array_of_its_shape(backend):
    """Shapes that have passed once are not looked at again; their class is."""
    ids = np.array([0, 1])
    backend.embedding(F64((5, 2)), ids)
    with pytest.raises(KernelError, match="ids is a MaskedArray"):
        backend.embedding(F64((5, 2)), np.ma.masked_array(ids, [True, False]))


@pytest.mark.parametrize("name, changed", [(k.name, changed) for k in CONTRACT.values() for changed in k.changed])
def test_what_a_kernel_changes_must_not_be_read_only(backend, name, changed):
    options = {"real": 0.5, "flag": True, "count": 1}
    sizes = {"A": 6, "G": 2}  # as many heads of queries as of keys and of values; every other letter is 2 as well
    given = {}
    for argument in CONTRACT[name].arguments:
        shape = tuple(sizes.get(letter, 2) for letter in argument.dims or "N")
        dtype = "int64" if argument.kind == "int" else "float64"
        given[argument.name] = np.ones(shape, dtype) if argument.is_array else options[argument.kind]
    getattr(backend, name)(*given.values())
    given[changed].flags.writeable = False
    with pytest.raises(KernelError, match=f"{changed} is read-only"):
        getattr(backend, name)(*given.values())


def test_cost_of_a_linear_layer_counted_by_hand():
    x, weight, bias = np.zeros((3, 4), "f4"), np.zeros((5, 4), "f4"), np.zeros(5, "f4")
    flops, read, written = CONTRACT["linear"].cost(x, weight, bias)
    multiply_adds = sum(1 for _row in x for _feature in weight for _c in range(4))
    assert flops == 2 * multiply_adds + 3 * 5  # and one addition of the bias for each result
    assert (read, written) == (4 * (x.size + weight.size + bias.size), 4 * 3 * 5)


@pytest.mark.parametrize("is_causal, offset, pairs", [(False, 0, 12), (True, 0, 1 + 2 + 3), (True, 1, 2 + 3 + 4)])
def test_cost_of_attention_counts_visible_pairs(is_causal, offset, pairs):
    q, k = np.zeros((1, 1, 3, 5)), np.zeros((1, 1, 4, 5))
    flops = CONTRACT["attention"].cost(q, k, k, Mask(None, is_causal, offset), 1.0, Dropout()).flops
    assert flops == pairs * (4 * 5 + 4) + 3 * (5 + 2)


def test_cost_of_grouped_attention_reads_each_key_once():
    """Six heads on two: the arithmetic of six heads, the keys and values of two."""
    q, k, lse = np.zeros((2, 6, 3, 5)), np.zeros((2, 2, 4, 5)), np.zeros((2, 6, 3))
    options = Mask(), 1.0, Dropout()
    grouped = CONTRACT["attention"].cost(q, k, k, *options)
    assert grouped.flops == CONTRACT["attention"].cost(q, *[np.zeros((2, 6, 4, 5))] * 2, *options).flops
    assert grouped.bytes_read == 8 * (q.size + 2 * k.size) and grouped.bytes_written == 8 * (q.size + lse.size)
    back = CONTRACT["attention_backward"].cost(q, q, k, k, q, lse, *options)
    assert back.bytes_read == 8 * (3 * q.size + 2 * k.size + lse.size)
    assert back.bytes_written == 8 * (q.size + 2 * k.size)


@pytest.mark.parametrize("biases", [0, 1])
def test_cost_of_a_gated_layer_counted_by_hand(biases):
    N, C, width, E = 3, 4, 5, 2
    x, w, down, hidden, dy = (np.zeros(s) for s in ((N, C), (width, C), (E, width), (N, width), (N, E)))
    b, b_down = (np.zeros(width), np.zeros(E)) if biases else (None, None)
    cost = CONTRACT["gated_feed_forward"].cost(x, w, b, w, b, down, b_down, "silu")
    products = 2 * N * C * width + N * width * E  # multiply-adds
    assert cost.flops == 2 * products + 2 * N * width + biases * (2 * N * width + N * E)
    assert cost.bytes_read == 8 * (x.size + 2 * w.size + down.size + biases * (2 * width + E))
    assert cost.bytes_written == 8 * (dy.size + 2 * hidden.size)
    flags = [bool(biases)] * 3
    back = CONTRACT["gated_feed_forward_backward"].cost(dy, x, w, w, down, hidden, hidden, "silu", *flags)
    assert back.flops == 4 * products + 6 * N * width + N * C + biases * (2 * N * width + N * E)
    assert back.bytes_written == 8 * (x.size + 2 * w.size + down.size + biases * (2 * width + E))


def test_cost_of_quantised_weights_counts_their_bytes():
    """A row of 64 weights is 68 bytes of Q8_0; to unpack a weight takes two operations at most."""
    x, dy, weight = np.zeros((3, 64), "f4"), np.zeros((3, 5), "f4"), np.zeros((5, 68), "u1")
    assert CONTRACT["dequantise"].cost(weight, "Q8_0") == (2 * 5 * 64, 5 * 68, 4 * 5 * 64)  # float32 is written
    forward = CONTRACT["quantised_linear"].cost(x, weight, "Q8_0")
    assert forward == (2 * 3 * 64 * 5 + 2 * 5 * 64, 4 * x.size + 5 * 68, 4 * 3 * 5)
    backward = CONTRACT["quantised_linear_backward"].cost(dy, weight, "Q8_0")
    assert backward == (forward.flops, 4 * dy.size + 5 * 68, 4 * x.size)
    down = np.zeros((2, 6 * 20), "u1")
    weights = [np.zeros((192, 40), "u1")] * 2
    gated = CONTRACT["quantised_gated_feed_forward"].cost(x, *weights, down, "Q4_1", "silu")
    products = 2 * 3 * 64 * 192 + 3 * 192 * 2
    assert gated.flops == 2 * products + 2 * 3 * 192 + 2 * (2 * 192 * 64 + 2 * 192)
    assert gated.bytes_read == 4 * x.size + 2 * 192 * 40 + 2 * 120 and gated.bytes_written == 4 * 3 * 2


def test_cost_of_a_batched_product():
    cost = CONTRACT["matmul"].cost(np.zeros((2, 1, 3, 4)), np.zeros((5, 4, 6)))
    assert cost.flops == 2 * (2 * 5) * 3 * 4 * 6
    assert cost.bytes_written == 8 * 2 * 5 * 3 * 6


def test_cost_of_a_reduction_and_a_broadcast():
    assert CONTRACT["sum"].cost(np.zeros((3, 4, 5)), (0, 2)).bytes_written == 8 * 4
    assert CONTRACT["add"].cost(np.zeros((3, 1)), np.zeros(4)).flops == 12
