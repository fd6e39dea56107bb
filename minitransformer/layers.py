"""The layers of a transformer, with PyTorch's names and weight layout (out × in), so that weights carry over.

Shapes: B batch, T query positions, S key positions, C model width, H heads, G heads of keys and values, D = C/H,
F feed-forward width, V vocabulary. All layers work on (B, T, C). `init` makes the weights; a layer on its own starts
from seed 0.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import autograd.functional as F
from autograd import Tensor, recompute
from minitransformer import fused_layer
from minitransformer.attention_weights import attention_weights
from minitransformer.config import GATED, Config
from minitransformer.module import Init, Module
from minitransformer.quantised import QuantisedWeight


def product(x: Tensor, weight: Any, bias: Tensor | None = None) -> Tensor:
    """x weightᵀ + bias, whether the weights are floats or quantised.   x (..., C); weight (F, C) → (..., F)"""
    if not isinstance(weight, QuantisedWeight):
        return F.linear(x, weight, bias)
    y = weight.product(x)
    return y if bias is None else y + bias


class Dropout(Module):
    """Sets a part p of the numbers to zero while training, and scales up the rest."""

    def __init__(self, p: float, *, init: Init | None = None):
        if not 0 <= p < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, not {p}")
        self.p, self.seeds = p, (init or Init()).dropout_seeds

    @property
    def active(self) -> bool:
        return self.training and self.p > 0

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.p, seed=self.seeds.next()) if self.active else x


class Linear(Module):
    """x weightᵀ + bias.   (..., C) → (..., F)"""

    def __init__(self, in_features: int, out_features: int, bias: bool = True, *, init: Init | None = None):
        init, bound = init or Init(), in_features**-0.5
        self.weight = init.uniform(bound, out_features, in_features)
        self.bias = init.uniform(bound, out_features) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return product(x, self.weight, self.bias)


class Head(Linear):
    """The linear layer that ends a model: scores for each word or class. Starts near zero, without preferences.

    `tied` is an embedding table (V, C) to use as the weight instead of one of its own."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, *, tied: Any = None, init: Init | None = None
    ):
        init = init or Init()
        self.weight = init.uniform(0.1, out_features, in_features) if tied is None else tied
        self.bias = init.constant(0, out_features) if bias else None

    def loss(self, x: Tensor, targets: Any, ignore_index: int | None = None, label_smoothing: float = 0.0) -> Tensor:
        """Mean cross-entropy of the scores, which are never stored whole.   x (..., C); targets (...)"""
        if isinstance(self.weight, QuantisedWeight):  # which has no such kernel: they are stored
            return F.cross_entropy(self(x), targets, ignore_index, label_smoothing)
        return F.linear_cross_entropy(x, self.weight, self.bias, targets, ignore_index, label_smoothing)


class Embedding(Module):
    """A learned vector for each id.   ids (...) → (..., C)"""

    def __init__(self, num_embeddings: int, embedding_dim: int, *, init: Init | None = None):
        self.weight = (init or Init()).uniform(0.1, num_embeddings, embedding_dim)

    def forward(self, ids: Any) -> Tensor:
        return self.weight.rows_at(ids) if isinstance(self.weight, QuantisedWeight) else F.embedding(self.weight, ids)


class LayerNorm(Module):
    """Each position's vector brought to mean 0 and variance 1, then scaled and shifted."""

    def __init__(self, normalized_shape: int, eps: float = 1e-5, bias: bool = True, *, init: Init | None = None):
        init = init or Init()
        self.weight, shift, self.eps = init.constant(1, normalized_shape), init.constant(0, normalized_shape), eps
        self.bias = shift if bias else shift.detach()  # zeros that are no weight

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """Each position's vector brought to mean square 1, then scaled: its mean stays what it is."""

    def __init__(self, normalized_shape: int, eps: float = 1e-5, *, init: Init | None = None):
        self.weight, self.eps = (init or Init()).constant(1, normalized_shape), eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight, self.eps)


def norm(config: Config, *, init: Init) -> LayerNorm | RMSNorm:
    """The norm that this model has."""
    if config.norm == "rms":
        return RMSNorm(config.d_model, config.norm_eps, init=init)
    return LayerNorm(config.d_model, config.norm_eps, config.bias, init=init)


class LayerCache(Protocol):
    """What attention needs of a key-value cache; `decoding.cache` has it."""

    memory: tuple[Tensor, Tensor] | None

    @property
    def starts(self) -> Any: ...  # (B) positions that are there already

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, dict[str, Any]]: ...


class MultiheadAttention(Module):
    """H attentions side by side, each on its own D = C/H columns of the projections. With num_kv_heads = G < H, each
    head of keys and values serves H/G heads of queries.

    The three input projections lie in one matrix in_proj_weight (C + 2GD, C), rows in the order query, key, value: one
    product makes all three when a sequence attends to itself.

    rotary_base  queries and keys are turned by their positions before they meet; None: they are not"""

    watched: list[Any] | None = None  # where somebody wants to see the weights: see Model.attention

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        num_kv_heads: int | None = None,
        rotary_base: float | None = None,
        *,
        init: Init | None = None,
    ):
        if num_heads < 1 or embed_dim % num_heads:
            raise ValueError(f"a width of {embed_dim} cannot be divided among {num_heads} heads")
        init, groups = init or Init(), num_kv_heads or num_heads
        self.embed_dim, self.num_heads, self.rotary_base = embed_dim, num_heads, rotary_base
        self.ends = 0, num_heads, num_heads + groups, num_heads + 2 * groups  # heads of query, key, value
        rows = self.ends[-1] * (embed_dim // num_heads)
        self.in_proj_weight = init.xavier(rows, embed_dim)
        self.in_proj_bias = init.constant(0, rows) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias, init=init)
        if bias:
            self.out_proj.bias = init.constant(0, embed_dim)
        self.dropout = Dropout(dropout, init=init)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        is_causal: bool = False,
        key_lengths: Any = None,
        cache: LayerCache | None = None,
        starts: Any = None,
    ) -> Tensor:
        """Positions of x look at each other, or at those of a memory.   x (B, T, C); memory (B, S, C) → (B, T, C)

        is_causal    position t sees the positions up to t only
        key_lengths  (B) integers: keys from there on are padding, and are not seen
        cache        keys and values of the positions before x (or of the memory), where they are kept
        starts       (B) positions of the first words of x among those of the memory, for rotary positions"""
        options: dict[str, Any] = {"is_causal": is_causal, "key_lengths": key_lengths}
        if memory is None:
            q, k, v = self._project(x, 0, 3)
            starts = None if cache is None else cache.starts
            q, k = self._turned(q, starts), self._turned(k, starts)
            if cache is not None:
                k, v, options = cache.extend(k, v)
        else:
            (q,) = self._project(x, 0, 1)
            known = cache.memory if cache is not None else None
            k, v = known or self._project(memory, 1, 3)
            q, k = self._turned(q, starts), self._turned(k)
            if cache is not None:
                cache.memory = k, v
        if self.dropout.active:
            options.update(dropout_p=self.dropout.p, seed=self.dropout.seeds.next())
        if self.watched is not None:
            self.watched.append(attention_weights(q, k, **options))
        heads = F.attention(q, k, v, **options)
        return self.out_proj(F.joined_heads(heads))

    def _project(self, x: Tensor, first: int, last: int) -> Sequence[Tensor]:
        """Those of query, key, value (0, 1, 2) with first ≤ number < last.   x (B, T, C) → (B, H or G, T, D) each"""
        D, ends = self.embed_dim // self.num_heads, self.ends
        weight, bias = self.in_proj_weight, self.in_proj_bias
        if last - first < 3:
            rows = slice(ends[first] * D, ends[last] * D)
            weight, bias = weight[rows], None if bias is None else bias[rows]
        y, start = product(x, weight, bias), ends[first]
        return [F.heads(y, ends[i] - start, ends[i + 1] - start, D) for i in range(first, last)]

    def _turned(self, x: Tensor, starts: Any = None) -> Tensor:
        """Heads turned by their positions, which count from starts[b], or from 0.   x (B, H, T, D)"""
        if self.rotary_base is None:
            return x
        xp = x.backend.xp
        positions = xp.arange(x.shape[2])
        if starts is not None:
            positions = x.backend.asarray(starts)[:, None] + positions
        return F.rotary(x, positions, self.rotary_base)


class _Layer(Module):
    """What encoder and decoder layers share: sublayers in residual branches, and the feed-forward one."""

    dropout: Dropout

    def __init__(self, config: Config):
        self.norm_first, self.activation = config.norm_first, config.activation

    def _attention(self, config: Config, init: Init, rotary: bool = False) -> MultiheadAttention:
        base = config.rotary_base if rotary else None
        sizes = config.d_model, config.n_heads, config.dropout, config.bias, config.n_kv_heads, base
        return MultiheadAttention(*sizes, init=init)

    def _make_feed_forward(self, config: Config, init: Init) -> None:
        self.linear1 = Linear(config.d_model, config.d_ff, config.bias, init=init)
        self.linear2 = Linear(config.d_ff, config.d_model, config.bias, init=init)
        gated = config.activation in GATED
        self.gate = Linear(config.d_model, config.d_ff, config.bias, init=init) if gated else None

    def _residual(self, x: Tensor, norm: LayerNorm | RMSNorm, sublayer: Any, only: Any = None) -> Tensor:
        """norm(x + sublayer(x)), the original; or x + sublayer(norm(x)), which leaves the way through untouched.
        With `only`, the sublayer has computed those positions alone."""
        here = x if only is None else rows_at(x, only)
        if self.norm_first:
            return here + self.dropout(sublayer(norm(x)))
        return norm(here + self.dropout(sublayer(x)))

    def quantised_as(self) -> str | None:
        """The kind of quantised weights that the feed-forward layer's three matrices share, where there is no bias."""
        parts = [part for part in (self.gate, self.linear1, self.linear2) if part is not None and part.bias is None]
        kinds = {part.weight.kind if isinstance(part.weight, QuantisedWeight) else None for part in parts}
        return kinds.pop() if len(parts) == 3 and len(kinds) == 1 else None

    def _feed_forward(self, x: Tensor) -> Tensor:
        """linear2(dropout(activation(linear1(x)))), or with a gate linear2(dropout(activation(gate(x)) · linear1(x)));
        one fused step when nothing is dropped in between."""
        first, second, gate = self.linear1, self.linear2, self.gate
        quantised = any(isinstance(part.weight, QuantisedWeight) for part in (first, second, gate) if part is not None)
        if gate is not None:
            name = GATED[self.activation]
            kind = self.quantised_as()
            if kind is not None and not self.dropout.active:
                return F.quantised_gated_feed_forward(x, gate.weight, first.weight, second.weight, kind, name)
            if self.dropout.active or quantised:
                return second(self.dropout(activated(gate(x), name) * first(x)))
            biases = {"b_gate": gate.bias, "b_up": first.bias, "b_down": second.bias}
            return F.gated_feed_forward(x, gate.weight, first.weight, second.weight, name, **biases)
        if self.dropout.active or first.bias is None or quantised:
            return second(self.dropout(activated(first(x), self.activation)))
        return F.feed_forward(x, first.weight, first.bias, second.weight, second.bias, self.activation)


def activated(x: Tensor, name: str) -> Tensor:
    """The bend of a feed-forward layer by its name: relu, gelu, gelu_tanh, silu, tanh."""
    return F.gelu(x, approximate="tanh") if name == "gelu_tanh" else getattr(F, name)(x)


class EncoderLayer(_Layer):
    """Self-attention, then feed-forward. The names are those of torch.nn.TransformerEncoderLayer."""

    fused = False  # one kernel computes all of it where no gradient will follow: see Model.fuse

    def __init__(self, config: Config, *, init: Init | None = None):
        init = init or Init()
        super().__init__(config)
        self.self_attn = self._attention(config, init, rotary=config.positions == "rotary")
        self._make_feed_forward(config, init)
        self.norm1, self.norm2 = (norm(config, init=init) for _ in range(2))
        self.dropout = Dropout(config.dropout, init=init)

    def forward(
        self,
        x: Tensor,
        is_causal: bool = False,
        key_lengths: Any = None,
        cache: LayerCache | None = None,
        only: Any = None,
    ) -> Tensor:
        """x (B, T, C) → (B, T, C)

        only (B)  one position of each row, which alone is wanted → (B, 1, C). It still looks at all the others, but
                  what they would have become is not computed."""
        if self.fused and only is None and cache is None and fused_layer.fits(self):
            return fused_layer.compute(self, x, is_causal, key_lengths)
        if only is None:
            options: dict[str, Any] = {"is_causal": is_causal, "key_lengths": key_lengths, "cache": cache}
            x = self._residual(x, self.norm1, lambda x: self.self_attn(x, **options))
        else:
            lengths = _keys_seen(x, only, is_causal, key_lengths)
            attend = self.self_attn
            seen: dict[str, Any] = {"key_lengths": lengths, "starts": only}
            x = self._residual(x, self.norm1, lambda x: attend(rows_at(x, only), x, **seen), only)
        return self._residual(x, self.norm2, self._feed_forward)


class DecoderLayer(_Layer):
    """Causal self-attention, attention to the encoder's output, feed-forward. The names are those of
    torch.nn.TransformerDecoderLayer."""

    def __init__(self, config: Config, *, init: Init | None = None):
        init = init or Init()
        super().__init__(config)
        self.self_attn = self._attention(config, init, rotary=config.positions == "rotary")
        self.multihead_attn = self._attention(config, init)  # the source has positions of its own: nothing is turned
        self._make_feed_forward(config, init)
        self.norm1, self.norm2, self.norm3 = (norm(config, init=init) for _ in range(3))
        self.dropout = Dropout(config.dropout, init=init)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        is_causal: bool = True,
        key_lengths: Any = None,
        memory_lengths: Any = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """x (B, T, C); memory (B, S, C) → (B, T, C)"""
        own: dict[str, Any] = {"is_causal": is_causal, "key_lengths": key_lengths, "cache": cache}
        across: dict[str, Any] = {"key_lengths": memory_lengths, "cache": cache}
        x = self._residual(x, self.norm1, lambda x: self.self_attn(x, **own))
        x = self._residual(x, self.norm2, lambda x: self.multihead_attn(x, memory, **across))
        return self._residual(x, self.norm3, self._feed_forward)


def rows_at(x: Tensor, positions: Any) -> Tensor:
    """x[b, positions[b]].   x (B, T, C); positions (B) → (B, 1, C)"""
    B, T, C = x.shape
    picked = F.embedding(x.reshape(B * T, C), x.backend.xp.arange(B) * T + x.backend.asarray(positions))
    return picked.reshape(B, 1, C)


def _keys_seen(x: Tensor, positions: Any, is_causal: bool, key_lengths: Any) -> Any:
    """How many keys each of those positions may look at, (B) or None for all."""
    if not is_causal:
        return key_lengths
    seen = x.backend.asarray(positions) + 1
    return seen if key_lengths is None else x.backend.xp.minimum(seen, x.backend.asarray(key_lengths))


class Stack(Module):
    """Layers one after the other; `norm` closes a stack of pre-norm layers, whose output nothing else would norm.

    only (B): the one position of each row that will be read; the last layer then computes no other."""

    recompute = False  # keep the layers' inputs only, and compute each layer again in backward: see Model.recompute

    def __init__(self, layers: Sequence[_Layer], config: Config, *, init: Init):
        self.layers = list(layers)
        self.norm = norm(config, init=init) if config.norm_first and layers else None

    def forward(
        self, x: Tensor, *arguments: Any, caches: Sequence[LayerCache] | None = None, only: Any = None, **options: Any
    ) -> Tensor:
        for number, layer in enumerate(self.layers):
            if only is not None and layer is self.layers[-1]:
                options["only"] = only
            if self.recompute and caches is None:
                x = recompute(_repeatable(layer, dict(options)), x, *arguments, parameters=layer.parameters())
            else:
                x = layer(x, *arguments, cache=None if caches is None else caches[number], **options)
        return x if self.norm is None else self.norm(x)


def _repeatable(layer: _Layer, options: dict[str, Any]) -> Callable[..., Tensor]:
    """The layer as a function that drops the same numbers each time: masks follow from a seed and a count."""
    seeds = layer.dropout.seeds
    start = seeds.seed, seeds.counter

    def run(*inputs: Tensor) -> Tensor:
        here = seeds.seed, seeds.counter
        seeds.seed, seeds.counter = start
        try:
            return layer(*inputs, **options)
        finally:
            if here != start:  # not the first time: the others have counted on meanwhile
                seeds.seed, seeds.counter = here

    return run


def encoder(n_layers: int, config: Config, *, init: Init) -> Stack:
    """The stack of encoder layers that serves every model."""
    return Stack([EncoderLayer(config, init=init) for _ in range(n_layers)], config, init=init)


def decoder(n_layers: int, config: Config, *, init: Init) -> Stack:
    """The stack of decoder layers of a translator."""
    return Stack([DecoderLayer(config, init=init) for _ in range(n_layers)], config, init=init)
