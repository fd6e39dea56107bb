"""A translator is trained on the wrong words, or writes without looking."""

import numpy as np

from lessons.harness.engine import Engine
from minitransformer import Translator
from minitransformer.decoding import constraints


def sound(engine: Engine) -> None:
    """nothing is broken"""


def leaked_target(engine: Engine) -> None:
    """the decoder is fed the very words it is scored on, not those before them"""

    def change(loss):
        return lambda self, source, target_in, target_out, **options: loss(
            self, source, target_out, target_out, **options
        )

    engine.replace(Translator, "loss", change)


def trained_on_the_source(engine: Engine) -> None:
    """the words to be written are those of the source: a slip of the loader, and a lesson in copying"""

    def change(loss):
        def run(self, source, target_in, target_out, **options):
            starts = np.zeros_like(source[:, :1])  # <sos>
            return loss(self, source, np.concatenate([starts, source[:, :-1]], axis=1), source, **options)

        return run

    engine.replace(Translator, "loss", change)


def blank_source(engine: Engine) -> None:
    """the decoder looks at a blank page instead of the source"""
    engine.replace(Translator, "encode", lambda encode: lambda self, *sources: encode(self, *sources) * 0.0)


def forbids_nothing(engine: Engine) -> None:
    """the rule against repetition finds no repetition"""
    engine.replace(constraints, "repeated", lambda _: lambda history, n: set())
