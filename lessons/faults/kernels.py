"""Kernels that are slightly off, store what they should not, or race; and a price list that is wrong."""

import contextlib
import functools
from collections.abc import Callable

import numpy as np

import autograd.functional as F
import kernels
from kernels import emulator
from kernels.contract import CONTRACT
from kernels.cuda import launcher
from lessons.harness.engine import Engine, Fault


def another_scale(engine: Engine) -> None:
    """one tier multiplies the scores by a factor that is off by a billionth"""

    def change(attention):
        return lambda q, k, v, mask, scale, dropout: attention(q, k, v, mask, scale * (1 + 1e-9), dropout)

    engine.replace(kernels.backend("numba"), "attention", change)


def another_seed(engine: Engine) -> None:
    """one tier draws its dropout from the next seed"""

    def change(attention):
        return lambda *rest: attention(*rest[:-1], rest[-1]._replace(seed=rest[-1].seed + 1))

    engine.replace(kernels.backend("numba"), "attention", change)


def scores_stored(engine: Engine) -> None:
    """attention is taken apart into its steps"""

    def by_steps(q, k, v, **_):
        return F.softmax(q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5) @ v

    engine.replace(F, "attention", lambda _: by_steps)


def scores_kept(engine: Engine) -> None:
    """attention stores all its scores, as the specification does"""
    engine.replace(kernels.backend("numba"), "attention", lambda _: kernels.backend("numpy").attention)


def scores_kept_in_backward(engine: Engine) -> None:
    """the backward pass of attention stores all weights and their gradients"""
    specified = kernels.backend("numpy").attention_backward
    engine.replace(kernels.backend("numba"), "attention_backward", lambda _: specified)


def logits_whole(engine: Engine) -> None:
    """the head computes all logits first, and then their loss"""

    def one_after_the_other(x, weight, bias, targets, **options):
        return F.cross_entropy(F.linear(x, weight, bias), targets, **options)

    engine.replace(F, "linear_cross_entropy", lambda _: one_after_the_other)


def gradients_off(engine: Engine) -> None:
    """the gradients of the fused head are off by a billionth"""

    def change(backward):
        return lambda self, dloss: tuple(g * (1 + 1e-9) for g in backward(self, dloss))

    engine.replace(F.LinearCrossEntropy, "backward", change)


def matrices_for_free(engine: Engine) -> None:
    """the engine's price list says that a linear layer costs nothing"""
    engine.replace(CONTRACT["linear"], "flops", lambda _: "0")


# The online softmax is built in a lesson; these two are given what stands there.


def _given(fault: Callable[..., None]) -> Callable[..., Fault]:
    """`fault(engine, parts)` as `fault(parts)`, which is a fault of the same name and meaning."""

    @functools.wraps(fault)
    def given(*parts):
        return functools.wraps(fault)(lambda engine: fault(engine, *parts))

    return given


@_given
def sum_not_rescaled(engine: Engine, online_softmax: type) -> None:
    """the sums are not rescaled when the maximum rises"""
    engine.replace(online_softmax, "rescale", lambda _: lambda self, top: None)


@_given
def engine_does_not_rescale(engine: Engine, tiled_attention: Callable, online_softmax: type) -> None:
    """the engine's attention goes by tiles, and does not rescale its sums when the maximum rises"""
    forgetful = type("Forgetful", (online_softmax,), {"rescale": lambda self, top: None})

    def attention(q, k, v, _mask, scale, _dropout):
        parts = [
            [tiled_attention(*head, scale, online=forgetful) for head in zip(*heads, strict=True)]
            for heads in zip(q, k, v, strict=True)
        ]
        return tuple(np.array([[part[n] for part in heads] for heads in parts]) for n in (0, 1))

    engine.replace(kernels.current(), "attention", lambda _: attention)


def barrier_lost(engine: Engine) -> None:
    """the compiler loses the barrier"""
    engine.replace(launcher, "launch", lambda launch: lambda *rest: launch(*rest[:6], {"BARRIER": ""}))


def strides_apart(engine: Engine) -> None:
    """threads that were neighbours in a row are neighbours in a column"""

    def change(launch):
        return lambda file, kernel, *rest: launch(file, kernel.replace("along_rows", "along_columns"), *rest)

    engine.replace(launcher, "launch", change)


def watch_asleep(engine: Engine) -> None:
    """the watch runs the kernel and looks at nothing"""

    @contextlib.contextmanager
    def plain(seed=1):
        with emulator.shuffled(seed):
            yield emulator.Report()

    engine.replace(emulator, "checked", lambda _: plain)
