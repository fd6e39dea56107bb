"""A tape that holds more than it should, and layers that are not computed again as they were."""

from typing import Any

from autograd import Function, Tensor
from autograd.recomputation import Recomputed
from lessons.harness.engine import Engine
from minitransformer import layers


def tape_never_freed(engine: Engine) -> None:
    """a Function that was visited keeps what it saved"""
    engine.replace(Function, "release", lambda _: lambda function: None)


def results_kept(engine: Engine) -> None:
    """every result is kept in a list that nobody reads"""
    kept: list[Any] = []

    def change(hold):
        def holding(tensor, array, *rest):
            kept.append(array)
            hold(tensor, array, *rest)

        return holding

    engine.replace(Tensor, "_hold", change)


def masks_drawn_anew(engine: Engine) -> None:
    """a layer that is computed again draws new dropout masks, and the engine's own check is off"""

    def careless(_):
        return lambda layer, options: lambda *inputs: layer(*inputs, **options)

    engine.replace(layers, "_repeatable", careless)
    engine.replace(Recomputed, "_is_the_same", lambda _: lambda node, y, former: True)


def nothing_recomputed(engine: Engine) -> None:
    """layers that should be computed again keep everything after all"""
    engine.replace(layers, "recompute", lambda _: lambda function, *inputs, parameters=(): function(*inputs))
