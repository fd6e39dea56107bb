"""Who may write to which array, and when: what the tape still needs is protected, all else is free.

Gradients are shared between those who read them, so that nobody may write to one."""

import copy
import gc
import pickle
import tracemalloc

import numpy as np
import pytest

import autograd.functional as F
from autograd import AutogradError, Function, Tensor
from minitransformer import LanguageModel
from minitransformer.optim import SGD, Adam

READ_ONLY = "read-only"  # a word of NumPy's messages


def leaf(values, dtype="float64"):
    return Tensor(np.array(values, dtype=dtype), requires_grad=True)


# ---------------------------------------------------------------------------------------------------- two passes


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.__setitem__(0, 9.0),
        lambda data: data.sort(),
        lambda data: data.__iadd__(1),
        lambda data: data.__imul__(-1),
        lambda data: data.__setitem__(slice(None), data[::-1].copy()),
        lambda data: data[1:].fill(3),
    ],
)
@pytest.mark.parametrize("taken", ["before the forward pass", "after it"])
def test_a_write_between_the_passes_is_refused_where_it_happens(backend, change, taken):
    x = leaf([3.0, 1.0, 2.0])
    early = x.data
    y = (x * x).sum()
    with pytest.raises(ValueError, match=READ_ONLY):
        change(early if taken == "before the forward pass" else x.data)
    y.backward()
    assert x.grad.numpy().tolist() == [6, 2, 4]


def test_a_write_to_a_result_that_its_rule_needs_is_refused(backend):
    x = leaf([1.0, 2.0])
    y = x.exp()
    with pytest.raises(ValueError, match=READ_ONLY):
        y.data[0] = 0
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.numpy())


WAYS = {
    "the array itself": lambda tensor: tensor.data,
    "a view": lambda tensor: tensor.reshape(3, 2).data,
    "a slice": lambda tensor: tensor[1].data,
    "numpy()": lambda tensor: tensor.numpy(),
    "asarray": lambda tensor: np.asarray(tensor),
    "detach()": lambda tensor: tensor.detach().data,
    "a view of a detached one": lambda tensor: tensor.detach().T.numpy(),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_views_share_the_fate_of_the_array(backend, way, when):
    """Whichever Tensor it was asked from, and whether before or after a rule saved the array."""
    hidden = leaf(np.arange(1.0, 7.0).reshape(2, 3)) * 2.0
    early = way(hidden)
    early[...] += 0.0
    result = (hidden * hidden).sum()
    view = early if when == "before" else way(hidden)
    with pytest.raises(ValueError, match=READ_ONLY):
        view[...] += 1
    result.backward()
    view[...] += 1
    assert hidden.numpy().flat[5] == 13


SLICES = {
    "a row": lambda data: data[0],
    "a slice of a slice": lambda data: data[0:2][:1, 1:],
    "transposed": lambda data: data.T,
    "from the end": lambda data: data[::-1, ..., ::-2],
}


@pytest.mark.parametrize("cut", SLICES.values(), ids=SLICES)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
@pytest.mark.parametrize("kept", [True, False], ids=["the array is held too", "only the slice is held"])
def test_a_slice_from_before_the_forward_pass_spoils_nothing(backend, cut, order, kept):
    """Such slices cannot be made read-only any more: the rule keeps a copy. The memory may lie in any order."""
    values = np.arange(1.0, 25.0).reshape(2, 3, 4).transpose(order)
    x = leaf(values)
    whole = x.data
    part = cut(whole)
    if not kept:
        x.data = x.numpy().copy()  # another array: nothing of the former one is held but what follows
        del whole
        part = cut(x.data)
    y = (x * x).sum()
    part[...] = -100.0
    assert x.numpy().min() == -100  # it is the memory of x
    y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * values)


def test_a_copy_is_made_only_where_a_slice_is_held(backend):
    x = leaf(np.ones((2, 3)))
    assert not x.storage.sliced
    whole = x.data
    again, view = x.data, x.reshape(3, 2).data
    assert whole is again and not x.storage.sliced
    part = view[0]
    assert x.storage.sliced
    del view, part
    assert not x.storage.sliced
    node = (x * x).node
    assert any(saved is x.array for saved in node.saved)


def test_a_rule_that_saved_a_view_protects_what_it_looks_at(backend):
    """Linear saves x as rows: another array, the same memory."""
    x, weight = leaf(np.ones((2, 3, 4))), leaf(np.ones((5, 4)))
    y = F.linear(x, weight)
    for tensor in (x, weight):
        with pytest.raises(ValueError, match=READ_ONLY):
            tensor.data[...] = 0
    y.sum().backward()
    x.data[...] = weight.data[...] = 0


def test_a_write_that_no_rule_minds_is_allowed(backend):
    x = leaf([1.0, 2.0])
    y = (x + 1).sum()
    x.data[0] = 5
    y.backward()
    assert x.grad.numpy().tolist() == [1, 1]


def test_after_backward_everything_can_be_written_to(backend):
    x = leaf([1.0, 2.0])
    early = x.data
    (x * x).sum().backward()
    x.data -= 0.1 * x.grad.data
    assert x.numpy() == pytest.approx([0.8, 1.6]) and x.data is early
    x.data[...] = [3.0, 4.0]
    (x * x).sum().backward()
    assert x.grad.numpy() == pytest.approx([8, 12])


def test_a_result_that_is_dropped_frees_its_arrays(backend):
    x = leaf([1.0, 2.0])
    y, z = x * x, x.exp() * x
    del y
    with pytest.raises(ValueError, match=READ_ONLY):
        x.data[0] = 5
    del z
    x.data[0] = 5
    assert x.numpy().tolist() == [5, 2]


def test_a_kept_graph_keeps_its_arrays(backend):
    x = leaf([1.0, 2.0])
    y = (x * x).sum()
    y.backward(retain_graph=True)
    with pytest.raises(ValueError, match=READ_ONLY):
        x.data[0] = 5
    y.backward()
    x.data[0] = 5
    assert x.grad.numpy().tolist() == [4, 8]


def test_a_new_array_leaves_the_tape_its_own(backend):
    """x.data = array is no write: the rules have saved the former array."""
    x = leaf([1.0, 2.0])
    y = (x * x).sum()
    given = np.array([7.0, 8.0])
    x.data = given
    given[:] = 0  # and a copy is taken
    y.backward()
    assert x.grad.numpy().tolist() == [2, 4] and x.numpy().tolist() == [7, 8]


# ---------------------------------------------------------------------------------------------------- counted writes


@pytest.mark.parametrize("make", [lambda p: Adam(p), lambda p: SGD(p), lambda p: SGD(p, momentum=0.9)])
def test_a_step_between_the_passes_makes_the_graph_stale(backend, make):
    """The step itself is fine, and so is everything computed after it."""
    x = leaf([1.0, 2.0])
    stale = (x * x).sum()
    x.grad = Tensor(np.ones(2))
    make([x]).step()
    for _ in range(2):  # and the second attempt names the same cause
        with pytest.raises(AutogradError, match=r"shape \(2,\) that Multiply saved .* changed in place"):
            stale.backward()
    x.grad = None
    (x * x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * x.numpy())


def test_a_counted_write_to_a_view_is_found(backend):
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    y = (x * x).sum()
    x[0].detach().writable()[...] = 0
    with pytest.raises(AutogradError, match="changed in place"):
        y.backward()


def test_an_array_that_is_set_again_counts_as_written(backend):
    """All that can be known of `x.data -= 1` where arrays have no flag, as on a GPU."""
    x = leaf([1.0, 2.0])
    y = (x * x).sum()
    x.data = x.data
    with pytest.raises(AutogradError, match="changed in place"):
        y.backward()


def test_a_failed_backward_leaves_no_half_result(backend):
    a, b = leaf([1.0]), leaf([2.0])
    y = a * a + b
    a.writable()[0] = 5
    with pytest.raises(AutogradError, match="changed in place"):
        y.backward()
    assert a.grad is None and b.grad is None


# ---------------------------------------------------------------------------------------------------- gradients


def test_leaves_that_share_a_gradient_cannot_spoil_it(backend):
    """a + b hands the same dy to both."""
    a, b = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    given = np.ones(2)
    (a + b).backward(given)
    with pytest.raises(ValueError, match=READ_ONLY):
        a.grad.data *= 10
    given[:] = 7  # the caller's array is neither kept nor changed
    assert a.grad.numpy().tolist() == b.grad.numpy().tolist() == [1, 1]
    a.grad = Tensor(10 * a.grad.numpy())  # the way to change one
    (a + b).backward(np.ones(2))
    assert a.grad.numpy().tolist() == [11, 11] and b.grad.numpy().tolist() == [2, 2]


VIEWS = {
    "repeated": lambda x: x.sum(),
    "repeated, and not by the caller's array": lambda x: x.sum() * 2.0,
    "turned": lambda x: (x.T * 3.0).sum(),
    "a piece of a larger array": lambda x: F.concatenate([x, x]).sum(),
}


@pytest.mark.parametrize("use", VIEWS.values(), ids=VIEWS)
def test_a_gradient_may_be_a_view_of_any_kind(backend, use):
    """Repeated means by a zero stride: nobody can write to such an array. Optimizers take them all."""
    x = leaf(np.ones((2, 3)))
    use(x).backward()
    expected = x.grad.numpy().copy()
    for optimizer in (SGD([x], lr=0.5), Adam([x], lr=0.5)):
        x.data[...] = 1
        optimizer.step()
        np.testing.assert_allclose(x.numpy(), 1 - 0.5 * (expected if isinstance(optimizer, SGD) else 1), rtol=1e-7)


class Doubled(Function):
    """A rule as users write them: it doubles dy where it lies."""

    def forward(self, x):
        return 2 * x

    def backward(self, dy):
        dy *= 2
        return dy


def test_a_rule_that_writes_to_its_gradient_changes_no_other(backend):
    a, b, given = leaf([1.0, 2.0]), leaf([3.0, 4.0]), np.ones(2)
    (Doubled.apply(a) + b).backward(given)
    assert a.grad.numpy().tolist() == [2, 2]
    assert b.grad.numpy().tolist() == [1, 1] and given.tolist() == [1, 1]
    Doubled.apply(a).backward(given)
    assert a.grad.numpy().tolist() == [4, 4] and given.tolist() == [1, 1]


def test_a_rule_that_returns_what_it_saved(backend):
    class Half(Function):
        def forward(self, x):
            self.save(x)
            return x * x / 2

        def backward(self, dy):
            return self.saved[0]

    x = leaf([1.0, 2.0])
    Half.apply(x).backward(np.ones(2))
    x.data *= 10
    assert x.grad.numpy().tolist() == [1, 2]


def test_a_rule_that_goes_on_using_what_it_returned(backend):
    buffer = np.zeros(2)

    class Buffered(Function):
        def forward(self, x):
            return x * 1.0

        def backward(self, dy):
            buffer[...] = dy
            return buffer

    a, b = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    (Buffered.apply(a) * 2.0 + Buffered.apply(b)).backward(np.ones(2))
    assert a.grad.numpy().tolist() == [2, 2] and b.grad.numpy().tolist() == [1, 1]


def test_gradients_made_with_the_loss_are_handed_over_and_kept(backend, rng):
    """linear_cross_entropy makes them in its forward pass: no copy, and a second backward finds them unchanged."""
    x, weight = leaf(rng.standard_normal((5, 4))), leaf(rng.standard_normal((7, 4)))
    loss = F.linear_cross_entropy(x, weight, None, rng.integers(0, 7, 5))
    made = loss.node.saved[1]
    loss.backward(retain_graph=True)
    assert weight.grad.array is made
    first = made.copy()
    weight.grad = None
    (loss * 3.0).backward(retain_graph=True)
    np.testing.assert_array_equal(weight.grad.numpy(), 3 * first)
    weight.grad = None
    loss.backward()
    np.testing.assert_array_equal(weight.grad.numpy(), first)


# ---------------------------------------------------------------------------------------------------- copies


def test_a_tensor_is_made_of_a_copy(backend):
    given = np.array([1.0, 2.0])
    x = Tensor(given, requires_grad=True)
    y = (x * x).sum()
    given[:] = 9
    y.backward()
    assert x.numpy().tolist() == [1, 2] and x.grad.numpy().tolist() == [2, 4]


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


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_model_can_be_copied_after_a_forward_pass(backend, copied):
    model = LanguageModel(vocab_size=5, d_model=4, n_heads=2, n_layers=1, d_ff=4, max_len=8, seed=0)
    ids = np.array([[1, 2, 3]])
    name, weight = next(pair for pair in model.named_parameters() if "in_proj_weight" in pair[0])
    assert weight.data.any()  # shown once: there is a view that a copy must forget
    loss = model.loss(ids, ids)
    twin = copied(model)
    other = dict(twin.named_parameters())[name]
    other.data[...] *= 2  # the twin is free, the model is not
    with pytest.raises(ValueError, match=READ_ONLY):
        weight.data[...] *= 2
    np.testing.assert_array_equal(other.numpy(), 2 * weight.numpy())
    loss.backward()
    assert other.requires_grad and other.grad is None
    np.testing.assert_array_equal(dict(copied(model).named_parameters())[name].grad.numpy(), weight.grad.numpy())
    with pytest.raises(AutogradError, match="copied or pickled along with its tape"):
        copied(model.loss(ids, ids))


def test_a_copied_tensor_shares_nothing(backend):
    x = leaf([1.0, 2.0])
    y = (x * x).sum()
    twin = copy.copy(x)
    twin.data[...] = 9
    y.backward()
    assert x.grad.numpy().tolist() == [2, 4] and x.numpy().tolist() == [1, 2]


def test_forward_passes_without_end_leave_nothing_behind():
    weight, x = leaf(np.ones((3, 4))), Tensor(np.ones((2, 4)))

    def forward(times):
        for _ in range(times):
            y = F.linear(x, weight).exp() * weight[0, 0]
            y.data, weight[1].numpy()

    forward(10)
    gc.collect()
    objects = len(gc.get_objects())
    tracemalloc.start()
    forward(2_500)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(gc.get_objects()) < objects + 100 and grown < 100_000  # 10 bytes an operation: none left an object
    assert weight.storage.needed == 0 and len(weight.storage.views or ()) == 0
