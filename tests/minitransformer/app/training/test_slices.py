"""Slices of a batch, and ranks that share them, in one process: threads stand for ranks."""

import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import kernels
from autograd import Tensor
from minitransformer import LanguageModel
from minitransformer.app.cli.main import parser_for
from minitransformer.app.data import ClassifierBatches, LanguageModelBatches
from minitransformer.app.progress import Silent
from minitransformer.app.ranks import Alone, is_first, shared, under_mpi
from minitransformer.app.tasks.measures import word_loss
from minitransformer.app.training import Options, train
from minitransformer.app.training.loop import _fingerprint
from minitransformer.app.training.ranks.agreement import demand_agreement
from minitransformer.app.training.ranks.shares import BLOCK, OwnPart, Shares
from minitransformer.app.training.ranks.slices import SlicedSteps
from minitransformer.app.training.ranks.tree import Node, add_node, cuts
from minitransformer.app.watcher import RANK
from minitransformer.errors import TrainingError
from minitransformer.optim import SGD

LIMIT = 60  # seconds; a thread that waits in vain fails its test


def test_the_tree_is_the_same_for_every_division():
    """Floats of very different sizes: any other order of additions shows."""
    generator = np.random.default_rng(0)
    values = generator.normal(size=(8, 50)).astype(np.float32) * 10.0 ** generator.integers(-6, 6, (8, 50))
    values = values.astype(np.float32)
    s = [*values]
    expected = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))
    for ranks in range(1, 9):
        bounds, whole = cuts(8, ranks), []
        for rank in range(ranks):
            nodes = []
            for number in range(bounds[rank], bounds[rank + 1]):
                add_node(nodes, Node(number, 1, values[number].copy()))
            for node in nodes:
                add_node(whole, node)
        assert len(whole) == 1
        np.testing.assert_array_equal(whole[0].sum, expected)


@pytest.mark.parametrize("rows", (3, 8, 11))
def test_slices_take_the_steps_of_the_whole_batch(rows):
    """Up to rounding: no mean of means, no slice forgotten, the norm that of the whole."""
    generator = np.random.default_rng(1)
    texts = [generator.integers(4, 20, generator.integers(1, 9)) for _ in range(22)]
    weights, norms = [], []
    for slices in (None, 1, 4, 16):
        with kernels.use("numpy"):
            model = LanguageModel(
                vocab_size=20, d_model=8, n_heads=2, n_layers=1, d_ff=8, max_len=10, dropout=0.0, dtype="float64"
            )
            batches = LanguageModelBatches(texts, max_len=10, rows=rows)
            options = Options(max_steps=3, clip=0.5, slices=slices)
            result = train(model, SGD(model.parameters(), lr=0.5), batches, word_loss, options, progress=Silent())
        weights.append(np.concatenate([array.ravel() for array in model.state_dict().values()]))
        norms.append(result.metrics["train"]["grad_norm"])
    for other, norm in zip(weights[1:], norms[1:], strict=True):
        np.testing.assert_allclose(other, weights[0], rtol=0, atol=1e-12)  # float64: some 1e-16 an operation
        assert norm == pytest.approx(norms[0], rel=1e-12)
    assert norms[0] > 0.5  # the clip was at work


def test_a_batch_that_memory_does_not_hold_is_trained_slice_by_slice():
    """Gradients accumulate: only the arrays of one slice are there at a time."""
    texts, most = [np.arange(30) % 16 + 4 for _ in range(256)], []
    for slices in (None, 16):
        with kernels.use("numpy"):
            model = LanguageModel(vocab_size=20, d_model=8, n_heads=2, n_layers=2, d_ff=16, max_len=32)
            batches, options = LanguageModelBatches(texts, max_len=32, rows=256), Options(max_steps=1, slices=slices)
            tracemalloc.start()
            train(model, SGD(model.parameters(), lr=0.5), batches, word_loss, options, progress=Silent())
            most.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    # a sixteenth of the rows; what does not depend on them (weights, gradients, the texts) is less than an eighth
    assert most[1] < most[0] * (1 / 16 + 1 / 8), most


def test_accumulate_is_another_name_of_slices():
    found = parser_for("pretrain").parse_args(["--batch", "64", "--accumulate", "16"])
    assert (found.batch, found.slices) == (64, 16)


class Threads(Alone):
    """Ranks that are threads of this process: every method waits until all have come."""

    can_use_threads = True

    def __init__(self, rank, size, desk, barrier):
        self.rank, self.size, self.desk, self.barrier = rank, size, desk, barrier

    def _all(self, given):
        self.desk[self.rank] = given
        self.barrier.wait(LIMIT)
        found = [*self.desk]
        self.barrier.wait(LIMIT)
        return found

    def gathered(self, array):
        assert type(array) is np.ndarray
        return self._all(array)

    def exchanged(self, arrays, lengths):
        return [given[self.rank] for given in self._all(arrays)]


@pytest.mark.parametrize("count", (2, 3, 5))
def test_shares_are_even_and_the_norm_is_the_same_for_every_number_of_ranks(count):
    sizes, generator = ((7, 50), (1,), (300,), (64, 33), (513,)), np.random.default_rng(0)
    parameters = [Tensor(generator.normal(size=size).astype(np.float32), requires_grad=True) for size in sizes]
    numbers = np.concatenate([parameter.numpy().ravel() for parameter in reversed(parameters)])
    alone, many = Shares(parameters, 1), Shares(parameters, count)
    many.message = 256
    many.__init__(parameters, count)
    own = [np.concatenate([numbers[bucket[rank]] for bucket in many.buckets]) for rank in range(count)]
    assert sum(map(len, own)) == len(numbers)
    assert max(map(len, own)) - min(map(len, own)) <= BLOCK
    with ThreadPoolExecutor(count) as pool:
        desk, barrier = [None] * count, threading.Barrier(count)
        found = pool.map(lambda rank: many.sum_of_squares(own[rank], Threads(rank, count, desk, barrier)), range(count))
        assert {*found} == {alone.sum_of_squares(numbers, Alone())}
    assert alone.sum_of_squares(numbers, Alone()) == pytest.approx((numbers.astype(np.float64) ** 2).sum(), rel=1e-13)
    pieces = [piece for of_rank in many.pieces for piece in of_rank]
    taken = [np.zeros(parameter.size, int) for parameter in many.parameters]
    for piece in pieces:
        taken[piece.array][piece.first : piece.last] += 1
    assert all((one == 1).all() for one in taken)


@pytest.mark.parametrize("differs", ("the data", "numpy", "seed", None))
def test_what_two_ranks_have_to_agree_on(differs):
    desk, barrier = [None] * 2, threading.Barrier(2)
    told = {"the data": "5f1c", "versions": {"numpy": "2.0"}, "options": {"seed": 0}}
    other = {"the data": "5f1d"} if differs == "the data" else {"versions": {"numpy": "2.1"}}
    other = {"options": {"seed": 1}} if differs == "seed" else {} if differs is None else other

    def work(rank):
        demand_agreement(Threads(rank, 2, desk, barrier), told | other if rank else told)

    with ThreadPoolExecutor(2) as pool:
        for ended in [pool.submit(work, rank) for rank in range(2)]:
            error = ended.exception(LIMIT)
            assert (error is None) == (differs is None)
            assert error is None or f"rank 1 differs from rank 0 in {differs}: " in str(error)


def test_data_that_differ_after_the_first_batch_are_noticed():
    texts = [np.arange(4, 8) + i for i in range(9)]
    found = set()
    for last_text, last_label in ((texts[8], 0), (texts[8], 1), (texts[0], 0)):
        labels = [*[0, 1] * 4, last_label]
        found.add(_fingerprint(ClassifierBatches([*texts[:8], last_text], labels, max_len=8, rows=2, shuffle=False)))
    assert len(found) == 3


def test_more_ranks_than_slices_are_refused():
    model = LanguageModel(vocab_size=20, d_model=8, n_heads=2, n_layers=1, d_ff=8, max_len=10)
    with pytest.raises(TrainingError, match="3 ranks cannot share 2 slices of a batch: .* give --slices 4"):
        SlicedSteps(model, SGD(model.parameters()), word_loss, 2, 0, None, Threads(0, 3, [], None))


def test_an_optimizer_that_needs_whole_arrays_is_refused():
    class OfWholeArrays(SGD):
        by_number = False

    model = LanguageModel(vocab_size=20, d_model=8, n_heads=2, n_layers=1, d_ff=8, max_len=10)
    shares = Shares(model.parameters(), 2)
    with pytest.raises(TrainingError, match="OfWholeArrays needs whole arrays, and 2 ranks divide them"):
        OwnPart(OfWholeArrays(model.parameters()), shares, Threads(0, 2, [], None))


def test_weights_that_lie_transposed_are_updated_too():
    """A view of part of them would be a copy, and the update lost."""
    with kernels.use("numpy"):
        weight = Tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
        weight.data = np.asfortranarray(weight.numpy())
        part = OwnPart(SGD([weight], lr=1.0), Shares([weight], 1), Alone())
        part.take_state()
        part.step(np.ones(6), np.array([True]), 1.0, 1.0)
    np.testing.assert_array_equal(weight.numpy(), np.arange(6.0).reshape(2, 3) - 1)


class OnCard:
    """An array that lies elsewhere: NumPy cannot read it, as with CuPy's."""

    __array__ = None

    def __init__(self, values):
        self.values = values

    def __getattr__(self, name):
        return getattr(self.values, name)

    def reshape(self, *shape):
        return OnCard(self.values.reshape(*shape))

    def copy(self):
        return OnCard(self.values.copy())

    def __getitem__(self, key):
        return OnCard(self.values[key])

    def __setitem__(self, key, given):
        assert isinstance(given, OnCard)
        self.values[key] = given.values


class Card:
    """The backend of such arrays."""

    @staticmethod
    def to_numpy(array):
        assert isinstance(array, OnCard)
        return array.values.copy()

    @staticmethod
    def asarray(array):
        return OnCard(np.array(array))


def test_arrays_of_a_card_go_through_the_memory_of_the_host():
    """What other ranks are sent is NumPy's, and what comes from them is brought back to the card."""
    message, Shares.message = Shares.message, BLOCK
    desk, barrier = [None] * 2, threading.Barrier(2)

    def work(rank):
        ranks = Threads(rank, 2, desk, barrier)
        weights = [Tensor.holding(OnCard(np.full(shape, rank, np.float32)), Card()) for shape in ((30, 40), (7,))]
        part = OwnPart(SGD(weights, momentum=0.9), Shares(weights, 2), ranks)
        part.take_state()
        part.share_weights()
        return np.concatenate([weight.array.values.ravel() for weight in reversed(weights)])

    try:
        with ThreadPoolExecutor(2) as pool:
            first, second = pool.map(work, range(2))
    finally:
        Shares.message = message
    np.testing.assert_array_equal(first, second)
    assert {*first} == {0.0, 1.0}  # each rank has brought its own


def test_shared_is_a_map_on_one_rank():
    assert shared(lambda number: (number, number**2), range(4)) == [[0, 0], [1, 1], [2, 4], [3, 9]]
    assert shared(lambda number: (number,), []) == []


@pytest.mark.parametrize(
    ("variable", "rank", "expected"),
    [("PMI_RANK", "0", (True, True)), ("OMPI_COMM_WORLD_RANK", "1", (True, False)), ("PMIX_RANK", "1", (True, False)),
     ("SLURM_PROCID", "1", (False, True))],
)  # fmt: skip
def test_who_has_started_this_process(variable, rank, expected, monkeypatch):
    """MPICH and Intel MPI, Open MPI, and srun, whose number says nothing about MPI: it is there without any, too."""
    monkeypatch.setattr("minitransformer.app.ranks._world", None)  # an earlier test may have asked for it
    for name in RANK:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, rank)
    assert (under_mpi(), is_first()) == expected
