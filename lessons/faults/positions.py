"""Words are told the wrong position, in a wrong way, or not at all."""

import math

import numpy as np

import autograd.functional as F
from autograd import Tensor
from lessons.harness.engine import Engine
from minitransformer import positions
from minitransformer.models.base import TokenEmbedding
from minitransformer.positions import Positions


def encoding_off(engine: Engine) -> None:
    """the waves never reach the words"""
    engine.replace(Positions, "forward", lambda f: lambda self, *where: f(self, *where) * 0.0)


def encoding_stays(engine: Engine) -> None:
    """the waves are added even where they were turned off"""

    def forward(self, length, starts=None):
        return Tensor(positions.positional_encoding(length, self.weight.shape[1]).astype(self.weight.dtype))

    engine.replace(Positions, "forward", lambda _: forward)


def encoding_appended(engine: Engine) -> None:
    """waves stand beside the word vectors instead of being added"""

    def change(original):
        def forward(self, ids, starts=None):
            words, table = original(self, ids, starts), self.positions(ids.shape[1], starts)
            return F.concatenate([words, words * 0.0 + table], axis=-1)

        return forward

    engine.replace(TokenEmbedding, "forward", change)


def encoding_multiplied(engine: Engine) -> None:
    """waves are multiplied with the word vectors"""

    def forward(self, ids, starts=None):
        return F.embedding(self.weight, ids) * self.scale * self.positions(ids.shape[1], starts)

    engine.replace(TokenEmbedding, "forward", lambda _: forward)


def positions_learned(engine: Engine) -> None:
    """positions are a table of weights instead of fixed waves"""

    def change(init):
        return lambda self, length, width, kind, **options: init(self, length, width, "learned", **options)

    engine.replace(Positions, "__init__", change)


def positions_off(engine: Engine) -> None:
    """every position gets the first one's vector"""
    engine.replace(Positions, "forward", lambda f: lambda self, length, starts=None: f(self, 1, starts))


def positions_restart(engine: Engine) -> None:
    """with a cache, every new word is told that it stands at the beginning"""
    engine.replace(TokenEmbedding, "forward", lambda f: lambda self, ids, starts=None: f(self, ids))


# Tables (n, C) of another making than the waves.


def sine_table(n, C):
    """Sines of C frequencies, and no cosine."""
    return np.sin(_angles_by_column(n, C))


def random_numbers(n, C):
    """Normally distributed, with the mean square of waves, 1/2."""
    return np.random.default_rng(8).standard_normal((n, C)) / math.sqrt(2)


def unpaired_table(n, C):
    """Sines and cosines in turn, the two of a pair with different frequencies: the exponent counts columns."""
    angle = _angles_by_column(n, C)
    return np.where(np.arange(C) % 2 == 0, np.sin(angle), np.cos(angle))


def _angles_by_column(n, C):
    return np.arange(n)[:, None] / 10000.0 ** (np.arange(C) / C)


def sine_only(engine: Engine) -> None:
    """the table has sines only"""
    engine.replace(positions, "positional_encoding", lambda _: sine_table)


def random_table(engine: Engine) -> None:
    """the table is random"""
    engine.replace(positions, "positional_encoding", lambda _: random_numbers)


def waves_unpaired(engine: Engine) -> None:
    """the sine and the cosine of a pair have different frequencies"""
    engine.replace(positions, "positional_encoding", lambda _: unpaired_table)


def positions_repeat(engine: Engine) -> None:
    """positions repeat after 100"""
    engine.replace(positions, "positional_encoding", lambda f: lambda n, C: f(min(n, 100), C)[np.arange(n) % 100])
