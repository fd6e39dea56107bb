"""Recurrence that forgets or repeats its work, and convolution that ignores where a sequence ends."""

import numpy as np

import autograd.functional as F
from autograd import Tensor
from lessons import sequence_layers
from lessons.harness.engine import Engine


def state_lost(engine: Engine) -> None:
    """every step starts from the first state instead of the last one"""

    def change(unroll):
        return lambda cell, steps, *rest: [unroll(cell, [x], *rest)[0] for x in steps]

    engine.replace(sequence_layers, "unroll", change)


def read_again_from_the_start(engine: Engine) -> None:
    """every state is computed by reading the sequence again from its start"""

    def change(unroll):
        return lambda cell, steps, *rest: [unroll(cell, steps[: t + 1], *rest)[-1] for t in range(len(steps))]

    engine.replace(sequence_layers, "unroll", change)


def kernel_padded_with_zeros(engine: Engine) -> None:
    """the kernel is widened with zeros: the same numbers come out, for more work"""

    def wide(weight):
        zeros = Tensor(np.zeros((*weight.shape[:2], 1)))
        return F.concatenate([zeros, weight, zeros], axis=2)

    def change(conv1d):
        return lambda x, weight, *rest, **options: conv1d(x, wide(weight), *rest, **options)

    engine.replace(sequence_layers, "conv1d", change)


def sequence_closed_to_a_ring(engine: Engine) -> None:
    """in place of the zeros beyond one end stands the other end"""

    def change(conv1d):
        def closed(x, weight, bias=None, padding=0, dilation=1):
            reach = dilation * (weight.shape[-1] - 1)
            left = reach // 2 if padding == "same" else padding
            around = np.arange(-left, x.shape[1] - left + reach) % x.shape[1]
            return conv1d(x[:, around], weight, bias, 0, dilation)

        return closed

    engine.replace(sequence_layers, "conv1d", change)


def dilation_ignored(engine: Engine) -> None:
    """the convolution ignores its dilation"""

    def change(conv1d):
        def plain(x, weight, bias=None, padding=0, dilation=1):
            return conv1d(x, weight, bias, padding if padding == "same" else padding // dilation)

        return plain

    engine.replace(sequence_layers, "conv1d", change)
