"""Ranks that do not agree: wrong weights, seeds, norms and orders; arrays that are added up wrongly on their way."""

import math

from autograd import tape
from lessons.evidence import many_hands
from lessons.harness.engine import Engine
from minitransformer.app.training.ranks import sending, shares, slices, tree


def mean_of_means(engine: Engine) -> None:
    """every slice counts alike, however many targets it has"""

    def change(gradient):
        def alike(self, to, step, number, part, totals, is_last):
            if not any(part.counts()):
                return gradient(self, to, step, number, part, totals, is_last)
            return gradient(self, to, step, number, part, tuple(n * self.slices for n in part.counts()), is_last)

        return alike

    engine.replace(slices.SlicedSteps, "_slice_gradient", change)


def slice_forgotten(engine: Engine) -> None:
    """the gradient of the first slice gets lost"""

    def change(begin):
        def forgetful(self, nodes):
            if nodes[0].first == 0:
                nodes[0].sum[:] = 0
            begin(self, nodes)

        return forgetful

    engine.replace(sending.Sending, "begin", change)


def reduced_too_early(engine: Engine) -> None:
    """a rank sends the gradient of its last slice before it has added the others"""

    def change(begin):
        def early(self, nodes):
            for node in nodes[:-1]:
                node.sum[:] = 0
            begin(self, nodes)

        return early

    engine.replace(sending.Sending, "begin", change)


def order_of_arrival(engine: Engine) -> None:
    """sums are added one after the other instead of along the tree"""

    def add_node(nodes, node):
        if nodes:
            nodes[0].sum += node.sum
        else:
            nodes.append(node)

    engine.replace(tree, "add_node", lambda _: add_node)


def one_dropout_seed(engine: Engine) -> None:
    """every rank begins with the same dropout masks"""

    def change(seed):
        return lambda self, step, n: seed(self, step, n - self.slices_of(self.ranks.rank)[0] if n else 0)

    engine.replace(slices.SlicedSteps, "_seed", change)


def local_norm(engine: Engine) -> None:
    """each rank clips by the norm of its own part"""

    def norm(self, gradient):
        return math.sqrt(shares._block_sums(gradient).sum())

    engine.replace(slices.SlicedSteps, "_norm", lambda _: norm)


def weights_not_shared(engine: Engine) -> None:
    """nobody tells the others the new weights"""
    engine.replace(shares.OwnPart, "share_weights", lambda _: lambda self: None)


def weights_shared_twice(engine: Engine) -> None:
    """the new weights are sent twice"""
    engine.replace(shares.OwnPart, "share_weights", lambda share: lambda self: (share(self), share(self)))


def ring_of_whole_arrays(engine: Engine) -> None:
    """around the ring go whole arrays, and everybody adds them up"""

    def ring(wire, arrays):
        ranks, sums, passing = len(arrays), [array.copy() for array in arrays], arrays
        for _ in range(ranks - 1):
            found = wire.step({(rank, (rank + 1) % ranks): passing[rank] for rank in range(ranks)})
            passing = [found[(rank - 1) % ranks, rank] for rank in range(ranks)]
            sums = [own + array for own, array in zip(sums, passing, strict=True)]
        return sums

    engine.replace(many_hands, "ring", lambda _: ring)


def ring_one_lap_short(engine: Engine) -> None:
    """the last lap around the ring is left out"""
    engine.replace(many_hands, "laps", lambda laps: lambda ranks: laps(ranks) - 1)


def tree_without_the_way_down(engine: Engine) -> None:
    """the sum stays at rank 0"""

    def change(add_up):
        def only_up(wire, arrays):
            right = add_up(wire, arrays)
            return [right[0], *(array for array in arrays[1:])]

        return only_up

    engine.replace(many_hands, "binary_tree", change)


def backward_for_free(engine: Engine) -> None:
    """the backward pass is not counted"""
    engine.replace(tape, "cost", lambda cost: lambda result, backward=False: cost(result))


def gradients_in_one_byte(engine: Engine) -> None:
    """the count of what is sent takes a number for a byte"""

    def change(balance):
        return lambda model, rate, bandwidth: balance(model, rate, bandwidth) / 4

    engine.replace(many_hands, "tokens_that_balance", change)
