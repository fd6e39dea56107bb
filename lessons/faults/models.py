"""A part of a model is missing, shared, of another size, or never trained."""

from dataclasses import replace

import autograd.functional as F
from lessons.harness.engine import Engine, without
from minitransformer import LanguageModel, Translator, layers
from minitransformer.models import classifier
from minitransformer.models.base import TokenEmbedding
from minitransformer.module import Module
from minitransformer.optim import Adam


def norm_left_out(engine: Engine) -> None:
    """layer norm hands its input on as it is"""
    engine.replace(F, "layer_norm", lambda norm: lambda x, weight, bias, eps=1e-5: x)


def norm_off(engine: Engine) -> None:
    """layer norm scales and shifts, but does not normalise"""
    engine.replace(F, "layer_norm", lambda norm: lambda x, weight, bias, eps=1e-5: x * weight + bias)


def linear_without_bias(engine: Engine) -> None:
    """linear layers have no bias"""

    def change(init):
        return lambda self, inputs, outputs, bias=True, **options: init(self, inputs, outputs, False, **options)

    engine.replace(layers.Linear, "__init__", change)


def one_layer_used_four_times(engine: Engine) -> None:
    """the four layers are one and the same"""

    def change(init):
        return lambda self, stack, *rest, **options: init(self, [stack[0]] * len(stack), *rest, **options)

    engine.replace(layers.Stack, "__init__", change)


def feed_forward_width_ignored(engine: Engine) -> None:
    """the feed-forward layers are as wide as the model, whatever was asked for"""

    def change(make):
        return lambda self, config, init: make(self, replace(config, d_ff=config.d_model), init)

    engine.replace(layers.EncoderLayer, "_make_feed_forward", change)


def head_tied_to_embedding(engine: Engine) -> None:
    """the head uses the embedding table as its weight"""

    def change(init):
        return lambda self, *rest, **options: init(self, *rest, **options | {"tie_weights": True})

    engine.replace(LanguageModel, "__init__", change)


def head_reads_two_numbers(engine: Engine) -> None:
    """the head reads two numbers instead of the whole width"""
    engine.replace(classifier, "Head", lambda head: lambda _width, outputs, **options: head(2, outputs, **options))


def head_without_bias(engine: Engine) -> None:
    """the head has no bias"""

    def change(init):
        def bare(self, *arguments, **options):
            init(self, *arguments, **options)
            self.bias = None

        return bare

    engine.replace(layers.Head, "__init__", change)


def tables_not_shared(engine: Engine) -> None:
    """source, target and head have a table each"""

    def change(init):
        apart = {"share_embedding": False, "tie_weights": False}
        return lambda self, *rest, **options: init(self, *rest, **options | apart)

    engine.replace(Translator, "__init__", change)


def decoder_blind_to_the_source(engine: Engine) -> None:
    """the decoder has no attention to the encoder"""

    engine.replace(layers.DecoderLayer, "__init__", without("multihead_attn"))


def unscaled_words(engine: Engine) -> None:
    """words are not multiplied by √C: positions, ten times as large, drown them"""

    def change(start):
        return lambda self, words, config, *, init: start(
            self, words, replace(config, scale_embedding=False), init=init
        )

    engine.replace(TokenEmbedding, "__init__", change)


def unregistered_weights(engine: Engine) -> None:
    """the matrices of attention are not among the parameters: the optimizer never hears of them"""

    def change(named_parameters):
        return lambda self: [(name, weight) for name, weight in named_parameters(self) if "attn" not in name]

    engine.replace(Module, "named_parameters", change)


def updates_lost(engine: Engine) -> None:
    """the optimizer takes no step"""
    engine.replace(Adam, "step", lambda _: lambda *_: None)
