"""The walk over the tape: each node once, in the right order, however deep; what it refuses."""

import gc

import numpy as np
import pytest

import autograd.functional as F
from autograd import AutogradError, Function, MissingRule, Tensor, no_grad, partial_gradient
from autograd.function import Rule
from autograd.partial_gradient import SliceGradient


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


class Kept(Rule):
    """y = x, with as little work as a node can have that saves an array."""

    def forward(self, x):
        self.save(x)
        return x

    def backward(self, dy):
        return dy


def chain_of_100_000(x):
    for _ in range(100_000):
        x = Kept.apply(x)
    return x


def test_a_chain_of_100_000_nodes():
    x = leaf([1.0])
    y = chain_of_100_000(x)
    y.backward()
    assert x.grad.item() == 1
    del y
    gc.collect()


def test_a_chain_of_100_000_nodes_that_is_dropped():
    """Each saved an array, which it sets free when it goes."""
    x = leaf([1.0])
    y = chain_of_100_000(x)
    assert not x.data.flags.writeable
    del y
    gc.collect()
    assert x.data.flags.writeable


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


SLICINGS = {
    "rows that fill the array": [0, 1, slice(2, 4)],
    "out of order, from the end": [-1, slice(1, 3), 0],
    "with a gap": [0, slice(2, 4)],
    "overlapping": [slice(0, 3), slice(1, 4)],
    "as many rows as there are, one twice": [0, 1, 1, 2],
    "steps": [slice(None, None, 2), slice(1, None, 2)],
    "backwards": [slice(None, None, -1)],
    "empty": [slice(2, 2), slice(0, 4), slice(3, 1)],
    "columns that fill the array": [(Ellipsis, slice(1, 3)), (Ellipsis, slice(0, 1))],
    "overlapping columns": [(Ellipsis, slice(0, 2)), (Ellipsis, slice(1, 3))],
    "columns with a gap": [(Ellipsis, slice(0, 1)), (Ellipsis, slice(2, 3))],
    "rows and columns": [(Ellipsis, slice(0, 3)), slice(0, 4)],
    "part of a column": [(Ellipsis, 1, slice(0, 2)), (Ellipsis, 0, slice(2, 3))],
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


def test_a_leaf_is_reported_when_its_gradient_is_complete(backend):
    """Each once, with what will be its .grad; those of the last layer first, a weight that is used in both layers last.
    The gradients of earlier layers are still on their way then."""
    ran = []

    class Same(Function):
        def forward(self, x):
            return x * 1

        def backward(self, dy):
            ran.append("the first layer")
            return dy

    tied, first, last = leaf([2.0, 3.0]), leaf([5.0, 7.0]), leaf([11.0, 13.0])
    reported = []
    hidden = Same.apply(tied * first)
    ((hidden * last) * tied).sum().backward(on_leaf=lambda one, dy: reported.append((one, dy.copy(), len(ran))))
    assert [id(one) for one, _, _ in reported] == [id(last), id(first), id(tied)]
    assert [rules for _, _, rules in reported] == [0, 1, 1]
    for one, dy, _ in reported:
        np.testing.assert_array_equal(dy, one.grad.numpy())
    np.testing.assert_array_equal(tied.grad.numpy(), 2 * tied.numpy() * first.numpy() * last.numpy())


def test_a_table_used_twice_needs_no_third_array(backend):
    """Tied weights: the rows of the embedding are added to the gradient that the head has made, in place."""
    rng = np.random.default_rng(0)
    table, ids = leaf(rng.standard_normal((300, 8))), np.array([5, 2, 5, 299])

    def loss():
        return F.linear_cross_entropy(F.embedding(table, ids), table, None, np.array([1, 2, 3, 5]))

    head, rows = table.detach(), table.detach()
    head.requires_grad = rows.requires_grad = True
    F.linear_cross_entropy(F.embedding(rows, ids), head, None, np.array([1, 2, 3, 5])).backward()
    kept, result = [], loss()
    for _ in range(3):  # what the head saved must not have changed by then
        table.grad = None
        result.backward(retain_graph=True)
        kept.append(table.grad.numpy())
        np.testing.assert_array_equal(kept[-1], head.grad.numpy() + rows.grad.numpy())
    result, table.grad = loss(), None
    made = result.node.saved[1].ctypes.data
    result.backward()
    assert table.grad.array.ctypes.data == made
    np.testing.assert_array_equal(table.grad.numpy(), kept[0])


def test_rows_are_never_added_to_what_somebody_else_reads(backend):
    """Both leaves get dy itself; only one of them also gets rows of an embedding."""
    table, other, ids = leaf(np.ones((4, 3))), leaf(np.ones((4, 3))), np.array([1, 1])
    dy = np.arange(12.0).reshape(4, 3)
    (((table + other) * Tensor(dy)).sum() + F.embedding(table, ids).sum()).backward()
    np.testing.assert_array_equal(other.grad.numpy(), dy)
    np.testing.assert_array_equal(table.grad.numpy(), dy + 2 * (np.arange(4) == 1)[:, None])


def test_slices_that_lie_side_by_side_are_joined_without_a_copy():
    x, together = np.zeros((2, 6)), np.arange(12.0).reshape(2, 6).copy()
    left, right = (Ellipsis, slice(0, 3)), (Ellipsis, slice(3, 6))

    def gradient(first, second):
        slices = [SliceGradient(dy, x.shape, key) for key, dy in ((left, first), (right, second))]
        joined = partial_gradient._joined(slices, x, np)
        return joined, np.shares_memory(joined, together)

    joined, shared = gradient(together[:, :3], together[:, 3:])
    assert shared and np.array_equal(joined, together)
    joined, shared = gradient(together[:, 3:], together[:, :3])  # of one array, but each in the other's place
    assert not shared and np.array_equal(joined, together[:, [3, 4, 5, 0, 1, 2]])
    joined, shared = gradient(together[:, :3], together[:, :3])
    assert not shared and np.array_equal(joined, together[:, [0, 1, 2, 0, 1, 2]])
    joined, shared = gradient(together[:, :3], together[:, 3:].copy())
    assert not shared and np.array_equal(joined, together)


def test_the_gradient_of_the_caller_is_not_handed_on(backend):
    """It comes back in slices that lie side by side in the caller's own array."""
    x = Tensor(np.ones((2, 4)), requires_grad=True)
    dy = np.ones((2, 4))
    F.concatenate([x[..., :2], x[..., 2:]], axis=-1).backward(dy)
    dy[:] = 7
    assert np.array_equal(x.grad.numpy(), np.ones((2, 4)))
