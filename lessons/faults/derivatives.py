"""Backward passes and derivative rules that are wrong, or wasteful, and checks of them that look away."""

import importlib

import numpy as np

import autograd.functional as F
import autograd.tensor
from autograd import Tensor, diagnosis, operators
from lessons.harness.engine import Engine

checker = importlib.import_module("autograd.gradcheck")  # the module: autograd.gradcheck is the function


def last_word_counts(engine: Engine) -> None:
    """a second contribution to a gradient replaces the first instead of being added"""

    def change(backward):
        def run(self, *arguments, **options):
            add, self.backend.add = self.backend.add, lambda known, new: new
            try:
                backward(self, *arguments, **options)
            finally:
                self.backend.add = add

        return run

    engine.replace(Tensor, "backward", change)


def impatient_backward(engine: Engine) -> None:
    """a value passes its gradient on before everyone who used it has reported back"""

    def by_distance(result):
        found = [result]
        for tensor in found:
            parents = [] if tensor.node is None else tensor.node.parents()
            found += [p for p in dict.fromkeys(parents) if not any(p is known for known in found)]
        return found[::-1]

    engine.replace(autograd.tensor, "inputs_before_results", lambda _: by_distance)


def half_a_product_rule(engine: Engine) -> None:
    """the rule of the product forgets its second factor"""
    engine.replace(operators.Multiply, "backward", lambda rule: lambda self, dy: (rule(self, dy)[0], 0 * self.saved[1]))


def forgetful_engine(engine: Engine) -> None:
    """the engine's own layer norm forgets a term of its derivative"""

    def change(rule):
        def backward(self, dy):
            _, weight, _, rstd = self.saved
            dx, dweight, dbias = rule(self, dy)
            # dx = rstd (dn - mean(dn) - n mean(dn n)) with dn = dy weight: the middle term is taken back
            mean = (dy * weight).mean(axis=-1, keepdims=True)
            return dx + rstd.reshape(mean.shape) * mean, dweight, dbias

        return backward

    engine.replace(F.LayerNorm, "backward", change)


def linear_rule_wasteful(engine: Engine) -> None:
    """the rule of the linear layer computes its products twice"""
    engine.replace(F.Linear, "backward", lambda rule: lambda self, dy: (rule(self, dy), rule(self, dy))[1])


def gradcheck_generous(engine: Engine) -> None:
    """gradcheck allows a relative error of 100 %"""
    engine.replace(diagnosis.Entry, "wrong", lambda wrong: lambda self, rtol: wrong(self, 1.0))


def gradcheck_one_difference(engine: Engine) -> None:
    """gradcheck takes one central difference instead of extrapolating three"""

    def numeric(self, position, direction):
        tensor, h = self.inputs[position], checker.STEP
        centre = tensor.data
        try:
            tensor.data = centre + h * direction
            above = self.value()
            tensor.data = centre - h * direction
            slope = (above - self.value()) / (2 * h)
        finally:
            tensor.data = centre
        return slope, np.zeros_like(slope), np.zeros(slope.shape, bool)

    engine.replace(checker._Probe, "numeric", lambda _: numeric)
