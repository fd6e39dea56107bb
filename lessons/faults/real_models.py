"""Real weights in an engine that uses them otherwise than they were trained."""

import numpy as np

import autograd.functional as F
from lessons.harness.engine import Engine
from minitransformer import layers
from minitransformer.models.base import TokenEmbedding
from minitransformer.positions import Positions


def words_off_by_one(engine: Engine) -> None:
    """the table of words is read one row too low: every word gets its neighbour's vector"""

    def change(forward):
        return lambda self, ids, *rest: forward(self, np.minimum(np.asarray(ids) + 1, self.vocab_size - 1), *rest)

    engine.replace(TokenEmbedding, "forward", change)


def words_alone(engine: Engine) -> None:
    """attention hands each word its own value: nobody looks at anybody"""
    engine.replace(F, "attention", lambda _: lambda q, k, v, **options: v)


def layers_idle(engine: Engine) -> None:
    """the layers hand on what they are given"""
    engine.replace(layers.EncoderLayer, "forward", lambda _: lambda self, x, *arguments, **options: x)


def places_off(engine: Engine) -> None:
    """the vectors of the places are zero: no word knows where it stands"""
    engine.replace(Positions, "forward", lambda forward: lambda self, *rest: forward(self, *rest) * 0.0)


def heads_dealt_out(engine: Engine) -> None:
    """a head gets every twelfth column of queries, keys and values instead of a block of neighbours"""

    def change(project):
        def dealt(self, x, first, last):
            found = []
            for part in project(self, x, first, last):  # (B, H, T, D)
                B, H, T, D = part.shape
                whole = part.transpose(0, 2, 1, 3).reshape(B, T, D, H)
                found.append(whole.transpose(0, 3, 1, 2))
            return found

        return dealt

    engine.replace(layers.MultiheadAttention, "_project", change)


def keys_of_another_head(engine: Engine) -> None:
    """each head is shown the keys of the next one"""

    def change(project):
        def turned(self, x, first, last):
            parts = list(project(self, x, first, last))
            if (first, last) == (0, 3):
                parts[1] = parts[1][:, np.roll(np.arange(self.num_heads), -1)]
            return parts

        return turned

    engine.replace(layers.MultiheadAttention, "_project", change)


def questions_as_keys(engine: Engine) -> None:
    """queries and keys change places: who is asked asks"""
    engine.replace(F, "attention", lambda attend: lambda q, k, v, **options: attend(k, q, v, **options))


def eps_of_pytorch(engine: Engine) -> None:
    """layer norm takes 1e-5, PyTorch's usual eps, whatever the file says"""
    engine.replace(F, "layer_norm", lambda norm: lambda x, weight, bias, eps=1e-5: norm(x, weight, bias, 1e-5))


def eps_forgotten(engine: Engine) -> None:
    """layer norm takes 1e-12, whatever it is told"""
    engine.replace(F, "layer_norm", lambda norm: lambda x, weight, bias, eps=1e-5: norm(x, weight, bias, 1e-12))


def eps_outside_the_root(engine: Engine) -> None:
    """eps is added to the standard deviation, not to the variance below the root"""

    def norm(x, weight, bias, eps=1e-5):
        off = x - x.mean(axis=-1, keepdims=True)
        return off / ((off * off).mean(axis=-1, keepdims=True).sqrt() + eps) * weight + bias

    engine.replace(F, "layer_norm", lambda _: norm)
