"""Rotary positions, RMS norm, gates and shared keys that are not what they should be."""

import numpy as np

import autograd.functional as F
from autograd import Tensor
from lessons.harness.engine import Engine
from minitransformer import layers, positions
from minitransformer.decoding.cache import LayerCache


def rotary_off(engine: Engine) -> None:
    """queries and keys are not turned at all"""
    engine.replace(F, "rotary", lambda _: lambda x, where, base=10000.0, interleaved=True: x)


def rotary_added(engine: Engine) -> None:
    """the waves are added to queries and keys instead of turning them"""

    def added(x, where, base=10000.0, interleaved=True):
        where = np.asarray(where)
        table = positions.positional_encoding(int(where.max()) + 1, x.shape[-1])[where]
        return x + Tensor(table.reshape(-1, 1, *table.shape[-2:]).astype(x.dtype))

    engine.replace(F, "rotary", lambda _: added)


def rotary_squared(engine: Engine) -> None:
    """the angle grows with the square of the position"""

    def change(rotary):
        return lambda x, where, *options, **more: rotary(x, np.asarray(where) ** 2, *options, **more)

    engine.replace(F, "rotary", change)


def layout_ignored(engine: Engine) -> None:
    """both layouts of rotary positions pair neighbouring columns"""

    def change(rotary):
        return lambda x, where, base=10000.0, interleaved=True: rotary(x, where, base, True)

    engine.replace(F, "rotary", change)


def rows_left_alone(engine: Engine) -> None:
    """weights are taken over from the other layout without moving their rows"""
    engine.replace(positions, "interleaved_rows", lambda _: lambda weight, n_heads: weight)


def rows_of_one_head(engine: Engine) -> None:
    """the rows of all heads are moved as if they were one head"""
    engine.replace(positions, "interleaved_rows", lambda move: lambda weight, n_heads: move(weight, 1))


def rms_takes_the_mean_off(engine: Engine) -> None:
    """RMS norm takes the mean off, as layer norm does"""

    def change(norm):
        return lambda x, weight, eps=1e-5: norm(x - x.mean(axis=-1, keepdims=True), weight, eps)

    engine.replace(F, "rms_norm", change)


def rms_without_root(engine: Engine) -> None:
    """RMS norm divides by the mean square, not by its root"""

    def norm(x, weight, eps=1e-5):
        return x / ((x * x).mean(axis=-1, keepdims=True) + eps) * weight

    engine.replace(F, "rms_norm", lambda _: norm)


def rms_of_the_sum(engine: Engine) -> None:
    """RMS norm divides by the root of the sum of squares, not of their mean"""

    def change(norm):
        return lambda x, weight, eps=1e-5: norm(x, weight, eps) * x.shape[-1] ** -0.5

    engine.replace(F, "rms_norm", change)


def _change_gate(engine: Engine, change) -> None:
    def changed(make):
        def make_feed_forward(self, config, init):
            make(self, config, init)
            if self.gate is not None:
                change(self, config, init)

        return make_feed_forward

    engine.replace(layers._Layer, "_make_feed_forward", changed)


def gate_is_up(engine: Engine) -> None:
    """the gate has no matrix of its own"""

    def change(layer, config, init):
        layer.gate = layer.linear1

    _change_gate(engine, change)


def gate_with_bias(engine: Engine) -> None:
    """the gate has a bias although the model has none"""

    def change(layer, config, init):
        layer.gate = layers.Linear(config.d_model, config.d_ff, True, init=init)

    _change_gate(engine, change)


def _change_keys(engine: Engine, change) -> None:
    def changed(attention):
        def attend(q, k, v, *options, **more):
            return attention(*change(q, k, v), *options, **more)

        return attend

    engine.replace(F, "attention", changed)


def _for_every_head(k, heads):
    B, G, S, D = k.shape
    return k.reshape(B, G, 1, S, D).expand(B, G, heads // G, S, D).reshape(B, heads, S, D)


def keys_written_out(engine: Engine) -> None:
    """keys and values are copied for every head before attention reads them"""
    _change_keys(engine, lambda q, k, v: (q, _for_every_head(k, q.shape[1]), _for_every_head(v, q.shape[1])))


def groups_dealt_out(engine: Engine) -> None:
    """heads are dealt out to the groups like cards, not in neighbouring blocks"""

    def change(q, k, v):
        order = np.arange(q.shape[1]) % k.shape[1]
        return q, k[:, order], v[:, order]

    _change_keys(engine, change)


def cache_for_every_head(engine: Engine) -> None:
    """the cache keeps every key and value once more than needed"""

    def change(extend):
        def extended(self, k, v):
            k, v, options = extend(self, k, v)
            self.own = tuple(Tensor(np.concatenate([x.array, x.array], axis=1)) for x in self.own)
            return k, v, options

        return extended

    engine.replace(LayerCache, "extend", change)


def norm_always_after(engine: Engine) -> None:
    """the norm stands after the sublayer, whatever the model says"""

    def residual(self, x, norm, sublayer, only=None):
        return norm(x + self.dropout(sublayer(x)))

    engine.replace(layers._Layer, "_residual", lambda _: residual)


def way_around_lost(engine: Engine) -> None:
    """there is no way around the sublayers"""

    def residual(self, x, norm, sublayer, only=None):
        return self.dropout(sublayer(norm(x))) if self.norm_first else norm(self.dropout(sublayer(x)))

    engine.replace(layers._Layer, "_residual", lambda _: residual)
