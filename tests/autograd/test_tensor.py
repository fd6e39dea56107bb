"""The traps that users of small engines fall into, and the operators against NumPy."""

import gc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autograd.functional as F
import kernels
from autograd import AutogradError, Function, MissingRule, Tensor, no_grad


def leaf(values, dtype="float64"):
    return Tensor(np.array(values, dtype=dtype), requires_grad=True)


def test_a_node_used_twice_gets_both_gradients(backend):
    x = leaf([3.0])
    (x * x).backward()
    assert x.grad.item() == 6


def test_a_diamond_is_visited_once(backend):
    """b and c both depend on a: a's rule must run after both contributed, and only once."""
    runs = []

    class Double(Function):
        def forward(self, x):
            return 2 * x

        def backward(self, dy):
            runs.append(dy.item())
            return 2 * dy

    x = leaf([1.0])
    a = Double.apply(x)
    b, c = a * 3, a * 4
    (b * c).backward()
    assert x.grad.item() == 2 * (3 * 8 + 4 * 6) and len(runs) == 1


def test_a_ladder_of_diamonds_takes_linear_time(backend):
    x = leaf([1.0])
    y = x
    for _ in range(60):  # 2^60 paths
        y = y + y
    y.backward()
    assert x.grad.item() == 2.0**60


def test_a_chain_of_100_000_nodes(backend):
    x = leaf([1.0])
    y = x
    for _ in range(100_000):
        y = y + 1.0
    y.backward()
    assert x.grad.item() == 1
    del y
    gc.collect()


def test_gradients_add_up_until_they_are_cleared(backend):
    x = leaf([2.0])
    (x * 3).backward()
    (x * 4).backward()
    assert x.grad.item() == 7
    x.grad = None
    (x * 5).backward()
    assert x.grad.item() == 5


def test_backward_twice_needs_the_graph(backend):
    x = leaf([2.0])
    y = x * x
    y.backward()
    with pytest.raises(AutogradError, match="freed by an earlier backward .Multiply is gone.+retain_graph=True"):
        y.backward()


def test_retain_graph_keeps_it(backend):
    x = leaf([2.0])
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 8


def test_a_freed_part_of_a_larger_graph_is_noticed(backend):
    x = leaf([2.0])
    shared = x * x
    shared.sum().backward()
    with pytest.raises(AutogradError, match="freed"):
        (shared * 2).sum().backward()


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.data.__setitem__(0, 9.0),
        lambda x: x.data.sort(),
        lambda x: x.data.__iadd__(1),
        lambda x: x.data.__setitem__(slice(None), x.data[::-1].copy()),
    ],
)
def test_a_change_in_place_is_detected(backend, change):
    x = leaf([3.0, 1.0, 2.0])
    y = (x * x).sum()
    change(x)
    with pytest.raises(AutogradError, match=r"shape \(3,\) that Multiply saved .* changed in place"):
        y.backward()


def test_a_change_of_the_output_is_detected(backend):
    x = leaf([1.0, 2.0])
    y = x.exp()
    y.data[0] = 0
    with pytest.raises(AutogradError, match="Exp saved"):
        y.sum().backward()


def test_a_change_that_no_rule_needs_is_allowed(backend):
    x = leaf([1.0, 2.0])
    y = (x + 1).sum()
    x.data[0] = 5
    y.backward()
    assert x.grad.numpy().tolist() == [1, 1]


def test_a_change_after_backward_is_allowed(backend):
    x = leaf([1.0, 2.0])
    (x * x).sum().backward()
    x.data -= 0.1 * x.grad.data
    assert x.numpy() == pytest.approx([0.8, 1.6])


def test_two_gradients_never_share_memory(backend):
    """a + b hands the same dy to both; scaling one gradient in place must not scale the other."""
    a, b = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    given_gradient = np.ones(2)
    (a + b).backward(given_gradient)
    a.grad.data *= 10
    assert b.grad.numpy().tolist() == [1, 1] and given_gradient.tolist() == [1, 1]


def test_the_gradient_of_a_sum_can_be_written_to(backend):
    x = leaf([1.0, 2.0])
    x.sum().backward()
    x.grad.data[0] = 7  # a broadcast view would be read-only, or change both
    assert x.grad.numpy().tolist() == [7, 1]


def test_no_grad_records_nothing(backend):
    x = leaf([1.0])
    with no_grad():
        y = x * x
    assert y.node is None and not y.requires_grad
    assert (x * x).requires_grad


def test_no_grad_ends_after_an_error(backend):
    with pytest.raises(ZeroDivisionError), no_grad():
        raise ZeroDivisionError
    assert (leaf([1.0]) * 2).requires_grad


def test_detach_cuts_the_past(backend):
    x = leaf([2.0])
    (x * (x * x).detach()).backward()
    assert x.grad.item() == 4


def test_backward_needs_a_number_or_a_gradient(backend):
    x = leaf([1.0, 2.0])
    with pytest.raises(AutogradError, match=r"needs a single number, not shape \(2,\)"):
        (x * 2).backward()
    with pytest.raises(AutogradError, match=r"gradient has shape \(3,\), the Tensor \(2,\)"):
        (x * 2).backward(np.ones(3))
    (x * 2).backward(np.array([1.0, 10.0]))
    assert x.grad.numpy().tolist() == [2, 20]


def test_backward_without_anything_to_differentiate(backend):
    with pytest.raises(AutogradError, match="depends on nothing that requires a gradient"):
        Tensor(np.ones(1)).backward()


def test_a_missing_rule_is_named(backend):
    class Frobnicate(Function):
        def forward(self, x):
            return x

    with pytest.raises(MissingRule, match="Frobnicate has no derivative rule"):
        Frobnicate.apply(leaf([1.0])).backward()


@pytest.mark.parametrize(
    "gradient, message",
    [
        (lambda dy: dy[:1], r"Odd.backward returned shape \(1,\) float64 for input 0, which has shape \(2,\) float64"),
        (lambda dy: dy.astype("float32"), "float32 for input 0"),
        (lambda dy: (dy, dy), "returned 2 gradients for 1 inputs"),
    ],
)
def test_a_rule_that_returns_nonsense_is_named(backend, gradient, message):
    class Odd(Function):
        def forward(self, x):
            return x * 1

        def backward(self, dy):
            return gradient(dy)

    with pytest.raises(AutogradError, match=message):
        Odd.apply(leaf([1.0, 2.0])).backward(np.ones(2))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (1,), (1, 1), ()])
def test_axes_of_size_0_and_1(backend, shape):
    x = Tensor(np.ones(shape), requires_grad=True)
    y = ((x * 2 + 1) / 3).sum()
    assert y.item() == pytest.approx(x.size)
    y.backward()
    assert x.grad.shape == shape and np.allclose(x.grad, 2 / 3)


def test_mean_and_max_of_nothing_are_refused(backend):
    x = Tensor(np.ones((0, 3)))
    with pytest.raises(ValueError, match="mean of nothing"):
        x.mean(axis=0)
    with pytest.raises(ValueError, match="no largest element"):
        x.max()


def test_ties_share_the_gradient_of_max(backend):
    x = leaf([[1.0, 3.0, 3.0], [5.0, 4.0, 0.0]])
    x.max(axis=1).sum().backward()
    assert x.grad.numpy().tolist() == [[0, 0.5, 0.5], [1, 0, 0]]


def test_numbers_take_the_tensors_dtype(backend):
    x = leaf([1.0], "float32")
    for y in (x + 1, 2.5 * x, x / np.float64(3), x ** np.int64(2), 1 - x, x + np.array([1, 2]), x * True):
        assert y.dtype == np.float32


def test_float_arrays_of_another_precision_are_refused(backend):
    with pytest.raises(ValueError, match="b is float64 but a is float32; cast one"):
        leaf([1.0], "float32") + np.ones(1)


def test_arrays_on_the_left_do_not_cut_the_gradient(backend):
    x = leaf([2.0, 4.0])
    array = np.array([1.0, 3.0])
    for y, derivative in (
        (array + x, [1, 1]),
        (array - x, [-1, -1]),
        (array * x, [1, 3]),
        (array / x, [-0.25, -0.1875]),
    ):
        x.grad = None
        assert isinstance(y, Tensor)
        y.sum().backward()
        assert x.grad.numpy().tolist() == derivative


def test_numpy_functions_refuse_to_cut_the_gradient(backend):
    with pytest.raises(TypeError, match=r"numpy.exp would cut the gradient; use autograd.functional"):
        np.exp(leaf([1.0]))
    assert np.exp(Tensor(np.zeros(1))).tolist() == [1.0]
    assert np.asarray(leaf([1.0])).tolist() == [1.0]


def test_what_a_tensor_can_hold(backend):
    assert Tensor([1.0, 2.0]).dtype == np.float32 and Tensor(np.ones(2)).dtype == np.float64
    assert Tensor([1, 2]).dtype.kind == "i"
    with pytest.raises(TypeError, match="not complex128"):
        Tensor(np.ones(2, complex))
    with pytest.raises(TypeError, match="not float16"):
        Tensor(np.ones(2, "float16"))
    with pytest.raises(TypeError, match="only float32 and float64 have gradients"):
        Tensor([1, 2], requires_grad=True)
    with pytest.raises(TypeError, match="a Tensor already"):
        Tensor(Tensor([1.0]))


def test_comparisons_give_boolean_arrays(backend):
    x = leaf([1.0, 2.0, 3.0])
    assert (x > 2).tolist() == [False, False, True] and (x <= leaf([1.0, 1.0, 3.0])).tolist() == [True, False, True]
    assert (x == 2).tolist() == [False, True, False] and (x != x).any() == np.False_
    assert len({x, x}) == 1


UNARY = ["exp", "log", "sqrt", "tanh", "sigmoid", "relu", "gelu"]
REFERENCE = {"sigmoid": lambda x: 1 / (1 + np.exp(-x)), "relu": lambda x: np.maximum(x, 0)}


@pytest.mark.parametrize("name", [name for name in UNARY if name != "gelu"])
def test_functions_against_numpy(backend, rng, name):
    x = rng.uniform(0.1, 3, (3, 4))
    expected = REFERENCE.get(name, getattr(np, name, None))(x)
    np.testing.assert_allclose(getattr(F, name)(Tensor(x)).numpy(), expected, rtol=1e-14)  # last places only


def test_gelu_at_points_known_by_symmetry(backend):
    y = F.gelu(Tensor(np.array([0.0, 10.0, -10.0, 1.0]))).numpy()
    assert y[0] == 0 and y[1] == 10 and abs(y[2]) < 1e-20
    assert y[3] == pytest.approx(0.8413447460685429, rel=1e-15)  # the normal distribution function at 1


shapes = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)


@given(shapes, st.data())
def test_reductions_against_numpy(shape, data):
    axes = data.draw(st.one_of(st.none(), st.sets(st.integers(-len(shape), len(shape) - 1)).map(tuple)))
    if axes is not None and len({axis % len(shape) for axis in axes}) != len(axes):
        return
    keepdims = data.draw(st.booleans())
    x = np.random.default_rng(0).standard_normal(shape)
    for name in ("sum", "mean", "max", "var"):
        for backend in kernels.available():
            with kernels.use(backend):
                ours = getattr(Tensor(x), name)(axis=axes, keepdims=keepdims).numpy()
            theirs = getattr(np, name)(x, axis=axes, keepdims=keepdims)
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14, err_msg=f"{name} {axes}")
            assert ours.shape == theirs.shape


def test_variance_with_correction(backend, rng):
    x = rng.standard_normal((3, 5))
    np.testing.assert_allclose(Tensor(x).var(axis=1, correction=1).numpy(), x.var(axis=1, ddof=1), rtol=1e-12)
    with pytest.raises(ValueError, match="1 values cannot be corrected by 1"):
        Tensor(np.ones((2, 1))).var(axis=1, correction=1)


KEYS = [
    0, -1, slice(1, 3), slice(None, None, -1), (slice(None), 2), (Ellipsis, None, 1), (None, 0),
    [0, 2, 2], np.array([[0, 1], [1, 1]]),
    (slice(None), np.array([3, 3, 0])), (np.array([0, 1]), np.array([2, 2])), np.array([True, False, True]),
    (1, np.array([0, 0])),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_indexing_against_numpy(backend, rng, key):
    x = rng.standard_normal((3, 4))
    t = Tensor(x, requires_grad=True)
    y = t[key]
    np.testing.assert_array_equal(y.numpy(), x[key])
    weights = rng.standard_normal(y.shape)
    y.backward(weights)
    expected = np.zeros_like(x)
    np.add.at(expected, key, weights)
    np.testing.assert_allclose(t.grad.numpy(), expected, rtol=1e-15)


def test_indices_out_of_range(backend):
    with pytest.raises(IndexError, match="out of bounds"):
        Tensor(np.ones(3))[5]


def test_shapes_against_numpy(backend, rng):
    x = rng.standard_normal((2, 3, 4))
    t = Tensor(x)
    for ours, theirs in (
        (t.reshape(4, -1), x.reshape(4, -1)), (t.reshape((6, 4)), x.reshape(6, 4)), (t.T, x.T),
        (t.transpose(1, 2, 0), x.transpose(1, 2, 0)), (t.transpose((0, -1, 1)), x.transpose(0, 2, 1)),
        (t.swapaxes(0, -1), x.swapaxes(0, -1)),
        (t[:, :, None].expand(2, 3, 5, 4), np.broadcast_to(x[:, :, None], (2, 3, 5, 4))),
        (F.concatenate([t, t], axis=-1), np.concatenate([x, x], -1)), (F.stack([t, t], axis=-1), np.stack([x, x], -1)),
        (F.split(t, 2, axis=2)[1], x[:, :, 2:]), (F.split(t, [1, 2], axis=1)[1], x[:, 1:]),
        (F.where(x > 0, t, 0.0), np.where(x > 0, x, 0)), (abs(t), abs(x)), (-t, -x), (t @ x[0].T, x @ x[0].T),
        (t @ x[0, 0], x @ x[0, 0]), (x[0, 0] @ t.swapaxes(1, 2), x[0, 0] @ x.swapaxes(1, 2)),
    ):  # fmt: skip
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-14)


def test_shape_mistakes_are_explained(backend):
    x = Tensor(np.ones((2, 6)))
    for mistake, message in (
        (lambda: F.split(x, 4, axis=1), "length 6 cannot be cut into 4 equal"),
        (lambda: F.split(x, [1, 2], axis=1), "do not add up"),
        (lambda: F.stack([]), "nothing to stack"),
        (lambda: F.concatenate([]), "nothing to concatenate"),
        (lambda: x.transpose(0, 0), "not an order of the 2 axes"),
        (lambda: x.sum(axis=2), "out of bounds"),
        (lambda: x.sum(axis=(0, 0)), "named twice"),
        (lambda: x @ 3, "use \\* for a single number"),
    ):
        with pytest.raises(ValueError, match=message):
            mistake()


def test_dropout_draws_new_masks_unless_told(backend):
    x = Tensor(np.ones(1000))
    assert not np.array_equal(F.dropout(x, 0.5).numpy(), F.dropout(x, 0.5).numpy())
    assert np.array_equal(F.dropout(x, 0.5, seed=3).numpy(), F.dropout(x, 0.5, seed=3).numpy())
    assert F.dropout(x, 0.5, training=False) is x
    with pytest.raises(ValueError, match="below 1, not 1"):
        F.dropout(x, 1)


def test_linear_cross_entropy_is_the_same_number(backend, rng):
    x, weight, bias = (
        leaf(rng.standard_normal((2, 5, 4))),
        leaf(rng.standard_normal((7, 4))),
        leaf(rng.standard_normal(7)),
    )
    targets = rng.integers(0, 7, (2, 5))
    targets[1, 2:] = 6
    whole = F.cross_entropy(F.linear(x, weight, bias), targets, ignore_index=6, label_smoothing=0.1) * 3
    whole.backward()
    expected = [t.grad.numpy().copy() for t in (x, weight, bias)]
    for t in (x, weight, bias):
        t.grad = None
    fused = F.linear_cross_entropy(x, weight, bias, targets, ignore_index=6, label_smoothing=0.1) * 3
    fused.backward()
    assert fused.item() == pytest.approx(whole.item(), rel=1e-14)
    for t, gradient in zip((x, weight, bias), expected, strict=True):
        np.testing.assert_allclose(t.grad.numpy(), gradient, rtol=1e-12, atol=1e-15)


def test_handing_gradients_over_does_not_spoil_a_second_backward(backend, rng):
    x, weight = leaf(rng.standard_normal((5, 4))), leaf(rng.standard_normal((7, 4)))
    loss = F.linear_cross_entropy(x, weight, None, rng.integers(0, 7, 5))
    loss.backward(retain_graph=True)
    first = weight.grad.numpy().copy()
    weight.grad.data *= 0
    weight.grad = None
    loss.backward()
    np.testing.assert_array_equal(weight.grad.numpy(), first)


def test_ids_targets_and_masks_may_be_reused_after_the_forward_pass(backend):
    """Batches live in buffers that are filled again; the rules keep copies of what they read twice."""
    weight = leaf(np.ones((4, 2)))
    ids, targets, mask, key = np.array([0, 1]), np.array([0, 1]), np.array([True, False]), np.array([0, 0])
    results = [
        F.embedding(weight, ids).sum(), F.cross_entropy(weight[:2], targets), F.where(mask, weight[:2, 0], 0.0).sum(),
        weight[key].sum(),
    ]  # fmt: skip
    expected = []
    for result in results:
        weight.grad = None
        result.backward(retain_graph=True)
        expected.append(weight.grad.numpy().copy())
    ids[:], targets[:], mask[:], key[:] = 3, 1, True, 2
    for result, gradient in zip(results, expected, strict=True):
        weight.grad = None
        result.backward()
        np.testing.assert_array_equal(weight.grad.numpy(), gradient)


@pytest.mark.parametrize("change", [lambda x: x.__imul__(-1), lambda x: x.__imul__(2)])
def test_sign_and_scale_changes_are_detected(backend, change):
    x = leaf(np.arange(1.0, 9.0))
    y = (x * x).sum()
    change(x.data)
    with pytest.raises(AutogradError, match="changed in place"):
        y.backward()


def test_a_failed_backward_leaves_no_half_result(backend):
    a, b = leaf([1.0]), leaf([2.0])
    y = a * a + b
    a.data[0] = 5
    for _ in range(2):  # and the second attempt names the same cause
        with pytest.raises(AutogradError, match="changed in place"):
            y.backward()
    assert a.grad is None and b.grad is None


def test_a_gradient_never_aliases_data_or_saved_arrays(backend):
    class Half(Function):
        def forward(self, x):
            self.save(x)
            return x * x / 2

        def backward(self, dy):
            return self.saved[0]

    x = leaf([1.0, 2.0])
    Half.apply(x).backward(np.ones(2))
    x.grad.data *= 10
    assert x.numpy().tolist() == [1, 2]


@pytest.mark.parametrize(
    "mistake",
    [
        lambda x: F.softmax(x, axis=2), lambda x: F.concatenate([x, x], axis=7), lambda x: F.stack([x, x], axis=7),
        lambda x: F.split(x, 2, axis=5), lambda x: x.transpose(0, 3), lambda x: x.swapaxes(0, 2),
        lambda x: F.softmax(Tensor(1.0)),
    ],
)  # fmt: skip
def test_an_axis_out_of_range_does_not_wrap_round(backend, mistake):
    with pytest.raises(np.exceptions.AxisError):
        mistake(Tensor(np.ones((2, 2))))


def test_more_mistakes_are_explained(backend):
    x, single = leaf(np.ones((2, 3))), leaf(np.ones((2, 3)), "float32")
    for mistake, error, message in (
        (lambda: x + None, TypeError, "a number is needed here, not NoneType"),
        (lambda: F.where(np.array(True), x, "a"), TypeError, "not str"),
        (lambda: x.astype("int64"), TypeError, "has no derivative"),
        (lambda: F.concatenate([x, single]), ValueError, "do not mix; cast one"),
        (lambda: F.where(np.array(True), x, single), ValueError, "do not mix"),
        (lambda: F.split(x, [5, -2], axis=1), ValueError, "do not add up"),
        (lambda: F.cross_entropy(Tensor(np.ones((2, 3, 4))), np.zeros((3, 2), int)), ValueError, "targets have shape"),
        (lambda: Tensor([x, x]), TypeError, "use autograd.functional.stack"),
        (lambda: F.linear(Tensor(1.0), x), ValueError, "at least one column"),
    ):
        with pytest.raises(error, match=message):
            mistake()
    x.grad = Tensor(np.ones((2, 2)))
    with pytest.raises(AutogradError, match=r"\.grad must be None or a Tensor of shape \(2, 3\)"):
        x.sum().backward()


def test_plain_arrays_are_taken_too(backend, rng):
    q = rng.standard_normal((1, 1, 3, 2))
    weight = leaf(rng.standard_normal((4, 2)))
    assert F.attention(q, q, q).shape == q.shape
    assert F.linear(q, weight).requires_grad


def test_to_the_power_of_zero(backend):
    x = leaf([0.0, 2.0])
    (x**0).sum().backward()
    assert x.grad.numpy().tolist() == [0, 0]


def test_each_thread_records_for_itself(backend):
    from threading import Event, Thread

    inside, done = Event(), Event()

    def other():
        with no_grad():
            inside.set()
            done.wait(10)

    thread = Thread(target=other)
    thread.start()
    inside.wait(10)
    recorded = (leaf([1.0]) * 2).requires_grad
    done.set()
    thread.join()
    assert recorded


@pytest.mark.parametrize("through", ["the array itself", "a view", "numpy()", "detach()"])
def test_an_intermediate_result_changed_in_place_is_found(backend, through):
    """What was computed here is watched from the moment that somebody can reach it, by whatever way."""
    x = Tensor(np.arange(1.0, 7.0).reshape(2, 3), requires_grad=True)
    hidden = x * 2.0
    result = (hidden * hidden).sum()
    ways = {
        "the array itself": lambda: hidden.data,
        "a view": lambda: hidden.reshape(3, 2).data,
        "numpy()": lambda: hidden.numpy(),
        "detach()": lambda: hidden.detach().data,
    }
    reached = ways[through]()
    reached[...] += 1
    with pytest.raises(AutogradError, match="changed in place"):
        result.backward()


def test_only_what_somebody_can_reach_is_watched(backend, monkeypatch):
    """Fingerprints cost a pass over the array: results that never leave the engine are spared."""
    taken = []
    real = backend.fingerprint
    monkeypatch.setattr(backend, "fingerprint", lambda array: taken.append(array.shape) or real(array))
    x = Tensor(np.ones((2, 3)), requires_grad=True)
    hidden = x.sum(axis=0)
    result = (hidden * hidden).sum()
    before = len(taken)
    result.backward(retain_graph=True)
    assert (3,) not in taken[before:], "an array that nobody has seen was hashed"
    assert np.array_equal(hidden.numpy(), np.full(3, 2.0))  # now it is seen
    assert taken[-1] == (3,)
    result.backward()
    assert np.array_equal(x.grad.numpy(), np.full((2, 3), 8.0))


def test_the_callers_gradient_is_neither_kept_nor_changed(backend):
    x = Tensor(np.ones(3), requires_grad=True)
    given = np.array([1.0, 2.0, 3.0])
    (x + 0.0).backward(given)
    x.grad.data[...] = 7.0
    assert given.tolist() == [1.0, 2.0, 3.0]


# ---------------------------------------------------------------------------------------------------- who holds what


def test_a_tensor_is_made_of_a_copy(backend):
    given = np.array([1.0, 2.0])
    x = Tensor(given, requires_grad=True)
    y = (x * x).sum()
    given[:] = 9
    y.backward()
    assert x.numpy().tolist() == [1, 2] and x.grad.numpy().tolist() == [2, 4]


def test_a_lent_array_changed_too_early_is_found(backend):
    """An optimizer's step between forward and backward, for instance; before and after, it is nobody's business."""
    x = leaf([1.0, 2.0])
    early = (x * x).sum()
    x.lend()[...] += 1
    with pytest.raises(AutogradError, match="changed in place"):
        early.backward()
    (x * x).sum().backward()
    assert x.grad.numpy().tolist() == [4, 6]
    x.lend()[...] += 1
    assert not x.memory.seen and x.numpy().tolist() == [3, 4]


SLICINGS = {
    "rows that fill the array": [0, 1, slice(2, 4)],
    "out of order, from the end": [-1, slice(1, 3), 0],
    "with a gap": [0, slice(2, 4)],
    "overlapping": [slice(0, 3), slice(1, 4)],
    "as many rows as there are, one twice": [0, 1, 1, 2],
    "steps": [slice(None, None, 2), slice(1, None, 2)],
    "backwards": [slice(None, None, -1)],
    "empty": [slice(2, 2), slice(0, 4), slice(3, 1)],
    "columns": [(slice(None), 1), (Ellipsis, 2), (None, 0)],
    "arrays among slices": [np.array([3, 3, 0]), slice(0, 4), np.int64(2)],
}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("keys", SLICINGS.values(), ids=SLICINGS)
@pytest.mark.parametrize("also_whole", [False, True])
def test_gradients_of_slices_add_up(backend, keys, turned, also_whole):
    """Against zeros with every slice's gradient added where it was read."""
    rng = np.random.default_rng(0)
    x = leaf(rng.standard_normal((3, 4) if turned else (4, 3)))
    whole = x.T if turned else x
    expected, loss = np.zeros((4, 3)), (whole * 5.0).sum() if also_whole else 0.0
    expected += 5.0 if also_whole else 0.0
    for key in keys:
        part = whole[key]
        factor = rng.standard_normal(part.shape)
        loss = loss + (part * Tensor(factor)).sum()
        np.add.at(expected, key, factor)
    loss.backward()
    np.testing.assert_allclose(x.grad.numpy(), expected.T if turned else expected, rtol=1e-12)


def test_a_single_number_can_be_indexed(backend):
    x = leaf(3.0)
    (x[...] * x[()]).backward()
    assert x.grad.item() == 6
