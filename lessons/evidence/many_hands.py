"""What lesson 19 measures: gradients of slices and their sums in several orders, ranks that are simulated by threads,
two ways to add up arrays over wires whose bytes are counted, and where sending takes longer than computing.

The ranks run the engine's own training step (minitransformer/app/training/ranks/slices.py), so that what breaks the
engine breaks the trials. They need no MPI: each rank is a thread, and one computes at a time."""

import math
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import kernels
from autograd import tape
from minitransformer import LanguageModel
from minitransformer.app.data import LanguageModelBatches
from minitransformer.app.ranks import Alone
from minitransformer.app.training.ranks.shares import Shares
from minitransformer.app.training.ranks.slices import SlicedSteps
from minitransformer.optim import Adam

SLICES, LIMIT = 8, 60  # LIMIT: seconds after which a rank that waits for others gives up
SMALL = {"vocab_size": 30, "d_model": 16, "n_heads": 2, "n_layers": 2, "d_ff": 24, "max_len": 16, "seed": 1}


def a_batch(rows=11):
    """Texts of 2 to 15 words, padded: some slices have many targets, others few."""
    generator = np.random.default_rng(3)
    texts = [generator.integers(4, 30, length) for length in generator.integers(2, 15, rows)]
    return next(LanguageModelBatches(texts, max_len=16, rows=rows, shuffle=False).epoch())


def loss_of(model, batch):
    return model.loss(batch.ids, batch.targets, ignore_index=batch.ignore)


def flat_gradient(model):
    """All numbers of the gradient in the order in which the ranks have them."""
    return np.concatenate([parameter.grad.numpy().ravel() for parameter in reversed(model.parameters())])


def whole_gradient(dtype="float64"):
    """Of the batch in one piece, by the engine's plain way."""
    model = LanguageModel(**SMALL, dropout=0.0, dtype=dtype)
    loss_of(model, a_batch()).backward()
    return flat_gradient(model)


def slice_gradients(dtype="float32"):
    """Each slice's gradient, weighted by its part of the targets.   → (SLICES, numbers)"""
    batch, found = a_batch(), []
    bounds = [batch.rows() * i // SLICES for i in range(SLICES + 1)]
    for first, last in zip(bounds[:-1], bounds[1:], strict=True):
        part, model = batch.part(first, last), LanguageModel(**SMALL, dropout=0.0, dtype=dtype)
        (loss_of(model, part) * (part.counts()[0] / batch.counts()[0])).backward()
        found.append(flat_gradient(model))
    return np.array(found)


def mean_of_means():
    """What ranks compute that weigh each slice alike, with one rank for each slice that has targets."""
    batch, found = a_batch(), []
    bounds = [batch.rows() * i // SLICES for i in range(SLICES + 1)]
    for first, last in zip(bounds[:-1], bounds[1:], strict=True):
        model = LanguageModel(**SMALL, dropout=0.0, dtype="float64")
        loss_of(model, batch.part(first, last)).backward()
        found.append(flat_gradient(model))
    return np.mean(found, axis=0)


def added_in_order(parts, order):
    """One after the other, as a program would that adds whatever arrives."""
    total = parts[order[0]].copy()
    for number in order[1:]:
        total += parts[number]
    return total


# ---------------------------------------------------------------------------------------------------- simulated ranks


class Meeting:
    """Where simulated ranks meet: a desk to lay things on, and a turn that one of them has."""

    def __init__(self, size):
        self.desk, self.everybody, self.turn = [None] * size, threading.Barrier(size), threading.Lock()


class Simulated(Alone):
    """A rank that is a thread. Whoever has to wait for the others lets them compute."""

    def __init__(self, rank, size, meeting):
        self.rank, self.size, self.meeting, self.sent, self.messages = rank, size, meeting, 0, 0

    def _all(self, given):
        meeting = self.meeting
        meeting.desk[self.rank] = given
        meeting.turn.release()
        meeting.everybody.wait(LIMIT)
        found = [*meeting.desk]
        meeting.everybody.wait(LIMIT)
        meeting.turn.acquire()
        return found

    def greatest(self, number):
        return max(self._all(number))

    def gathered(self, array):
        self.sent += (self.size - 1) * array.nbytes
        self.messages += self.size - 1
        return [given.copy() for given in self._all(array)]

    def exchanged(self, arrays, lengths):
        self.sent += sum(array.nbytes for array in arrays) - arrays[self.rank].nbytes
        self.messages += self.size - 1
        return [given[self.rank].copy() for given in self._all(arrays)]


def on_ranks(size, work):
    """[work(rank) for each of so many simulated ranks]"""
    meeting, backend = Meeting(size), kernels.current().name  # which every thread chooses for itself

    def run(number):
        with meeting.turn, kernels.use(backend):
            try:
                return work(Simulated(number, size, meeting))
            except BaseException:
                meeting.everybody.abort()  # nobody waits for this one any more
                raise

    with ThreadPoolExecutor(size) as threads:
        return [*threads.map(run, range(size))]


def _steps(rank, dtype, dropout, lr=1e-2):
    model = LanguageModel(**SMALL, dropout=dropout, dtype=dtype)
    steps = SlicedSteps(model, Adam(model.named_parameters(), lr=lr), loss_of, SLICES, 0, 0.1, rank)
    steps.start()
    return model, steps


def gradient_on(size, dtype="float32"):
    """The gradient of the batch as so many ranks compute it: each has the sum of its own share."""

    def work(rank):
        _, steps = _steps(rank, dtype, 0.0)
        steps._send_gradients(0, a_batch())
        return steps.sending.finish(), [bucket[rank.rank] for bucket in steps.shares.buckets]

    found = on_ranks(size, work)
    whole = np.zeros(sum(len(own) for own, _ in found), dtype)
    for own, parts in found:
        ends = np.cumsum([part.stop - part.start for part in parts])
        for part, numbers in zip(parts, np.split(own, ends[:-1]), strict=True):
            whole[part] = numbers
    return whole


def weights_after(size, steps=3):
    """Of all weights after a few steps with dropout and clipping, as bits, on each rank.   → (size, numbers)"""

    def work(rank):
        model, training = _steps(rank, "float32", 0.2)
        for number in range(steps):
            training.step(number, a_batch(), 1e-2, lambda what, value: None)
        return np.concatenate([parameter.numpy().ravel() for parameter in model.parameters()]).view(np.uint32)

    return np.array(on_ranks(size, work))


def sent_by_the_engine(size):
    """→ numbers of the model, bytes that the busiest rank sends in a step, messages"""

    def work(rank):
        model, training = _steps(rank, "float32", 0.0)
        training.step(0, a_batch(), 1e-2, lambda what, value: None)  # in which the order of the buckets is agreed on
        before, messages = rank.sent, rank.messages
        training.step(1, a_batch(), 1e-2, lambda what, value: None)
        return model.num_parameters(), rank.sent - before, rank.messages - messages

    former, Shares.message = Shares.message, 256
    try:
        numbers, sent, messages = zip(*on_ranks(size, work), strict=True)
    finally:
        Shares.message = former
    return numbers[0], max(sent), max(messages)


# ---------------------------------------------------------------------------------------------------- on the wire


class Wire:
    """Pairs of sockets between ranks. Every byte that a rank sends is counted, and every step, in which all ranks may
    send and receive at the same time."""

    def __init__(self, ranks):
        self.sent, self.steps, self._lines = [0] * ranks, 0, {}

    def step(self, messages):
        """messages: (from, to) → array → what has arrived, by the same names"""
        self.steps += 1
        for ends, array in messages.items():
            if ends not in self._lines:
                self._lines[ends] = socket.socketpair()
            self._lines[ends][0].sendall(array.tobytes())
            self.sent[ends[0]] += array.nbytes
        found = {}
        for ends, array in messages.items():
            found[ends] = np.frombuffer(self._lines[ends][1].recv(array.nbytes, socket.MSG_WAITALL), array.dtype)
        return found

    def close(self):
        for pair in self._lines.values():
            for end in pair:
                end.close()


def laps(ranks):
    """Steps of a ring: as many to add up as to hand the sums round."""
    return 2 * (ranks - 1)


def ring(wire, arrays):
    """Everybody adds what comes from the left to one part and hands it to the right, N - 1 times; then the finished
    parts go round. arrays: one of each rank → the sum, as each rank has it"""
    ranks = len(arrays)
    parts = [np.array_split(array.copy(), ranks) for array in arrays]
    for lap in range(laps(ranks)):
        number = [(rank - lap) % ranks for rank in range(ranks)]  # of the part that each rank hands on
        found = wire.step({(rank, (rank + 1) % ranks): parts[rank][number[rank]] for rank in range(ranks)})
        for (left, rank), array in found.items():
            own = parts[rank][number[left]]
            parts[rank][number[left]] = own + array if lap < ranks - 1 else array
    return [np.concatenate(of_rank) for of_rank in parts]


def binary_tree(wire, arrays):
    """In pairs, then in pairs of pairs, up to rank 0; and the sum goes down the same way."""
    ranks, sums, width = len(arrays), [array.copy() for array in arrays], 1
    while width < ranks:
        pairs = [(rank + width, rank) for rank in range(0, ranks, 2 * width)]
        for ends, array in wire.step({ends: sums[ends[0]] for ends in pairs}).items():
            sums[ends[1]] = sums[ends[1]] + array
        width *= 2
    while width > 1:
        width //= 2
        pairs = [(rank, rank + width) for rank in range(0, ranks, 2 * width)]
        for ends, array in wire.step({ends: sums[ends[0]] for ends in pairs}).items():
            sums[ends[1]] = array
    return sums


def all_reduce(way, ranks, numbers):
    """→ whether every rank has the sum, bytes that the busiest sends, bytes in all, steps; whole numbers add exactly"""
    arrays = [*np.random.default_rng(ranks).integers(-1000, 1000, (ranks, numbers)).astype(np.float64)]
    wire = Wire(ranks)
    try:
        results = globals()[way](wire, arrays)
    finally:
        wire.close()
    right = all((result == sum(arrays)).all() for result in results)
    return right, max(wire.sent), sum(wire.sent), wire.steps


def seconds(way, ranks, size, latency, bandwidth):
    """On paper: a step costs its start and its bytes. size: bytes of the array"""
    if way == "ring":
        return 2 * (ranks - 1) * (latency + size / ranks / bandwidth)
    return 2 * math.log2(ranks) * (latency + size / bandwidth)


# ------------------------------------------------------------------------------------------------ computing and sending


def operations(model, T=32):
    """Of a training step, for each token of it, as the kernels' contract counts."""
    ids = np.random.default_rng(0).integers(0, model.config.vocab_size, (1, T + 1))
    loss = model.loss(ids[:, :-1], ids[:, 1:])
    loss.backward(retain_graph=True)
    return tape.cost(loss, backward=True).flops / T


def language_model(width, layers, vocab_size=64):
    return LanguageModel(
        vocab_size=vocab_size, d_model=width, n_heads=2, n_layers=layers, d_ff=4 * width, max_len=64, tie_weights=True
    )


def tokens_that_balance(model, rate, bandwidth):
    """How many tokens a rank must have in a step, so that computing takes as long as sending 2 P numbers. rate:
    operations a second; bandwidth: bytes a second"""
    return 2 * 4 * model.num_parameters() / bandwidth * rate / operations(model)


def scaling(ranks, tokens, per_token, numbers, rate, bandwidth, latency):
    """Seconds of a step with so many tokens in all: computing and sending, without overlap.   ranks (n) → (n), (n)"""
    ranks = np.asarray(ranks, dtype=float)
    computing = tokens * per_token / rate / ranks
    sending = np.where(ranks > 1, 2 * (ranks - 1) * latency + 2 * (ranks - 1) / ranks * 4 * numbers / bandwidth, 0)
    return computing, sending
