"""Differentiable functions of Tensors: layers as formulas. Shapes: B batch, T query and S key positions, C width,
H heads, G key-value heads, D = C/H, F feed-forward width, V vocabulary; `...` stands for any leading axes.

Arguments that are not Tensors (ids, lengths, targets) are integer arrays and have no gradient."""

import numpy as np

import kernels
from autograd.function import Rule
from autograd.operators import (
    absolute,
    add,
    divide,
    exp,
    gelu,
    log,
    matmul,
    max,
    mean,
    multiply,
    power,
    relu,
    sigmoid,
    silu,
    sqrt,
    subtract,
    sum,
    tanh,
    var,
    where,
)  # fmt: skip
from autograd.partial_gradient import RowGradient
from autograd.shapes import (
    Heads,
    RowsOfHeads,
    astype,
    concatenate,
    expand,
    index,
    one_axis,
    reshape,
    split,
    stack,
    swapaxes,
    transpose,
)  # fmt: skip
from autograd.syntax import torch_words
from autograd.tensor import Tensor

__all__ = [
    "absolute", "add", "astype", "attention", "cat", "concatenate", "cross_entropy", "divide", "dropout", "embedding",
    "exp", "expand", "feed_forward", "gated_feed_forward", "gelu", "heads", "index", "joined_heads", "layer_norm",
    "linear", "linear_cross_entropy", "log", "log_softmax", "matmul", "max", "mean", "mse_loss", "multiply", "power",
    "quantised_gated_feed_forward", "quantised_linear", "relu",
    "reshape", "rms_norm", "rotary", "scaled_dot_product_attention", "sigmoid", "silu", "softmax", "split", "sqrt",
    "stack", "subtract", "sum", "swapaxes", "tanh", "transpose", "var", "where",
]  # fmt: skip


cat = concatenate  # PyTorch's name


def rows(x):
    """(..., C) as (N, C): what the kernels work on."""
    if x.ndim == 0 or x.shape[-1] == 0:
        raise ValueError(f"at least one column is needed, not shape {x.shape}")
    return x if x.ndim == 2 else x.reshape(-1, x.shape[-1])


def no_rows(x):
    """An empty batch: kernels want at least one row, so the shape is made by operators that take none."""
    return x.size == 0 and x.ndim > 0 and x.shape[-1] > 0


def shaped(x, shape):
    """Rows in the shape they came in."""
    return x.reshape(shape)


def integers(value, backend):
    """Ids, lengths or targets as an integer array of this backend."""
    array = value.array if isinstance(value, Tensor) else backend.asarray(value)
    if array.dtype.kind not in "iu":
        raise TypeError(f"integers are needed here, not {array.dtype}; use .astype('int64')")
    return array.copy()  # backward reads them again, and callers like to reuse the buffers of their batches


def tensors(*values):
    """Arrays as Tensors beside the Tensors among them; None stays None."""
    known = next((value for value in values if isinstance(value, Tensor)), None)
    backend = kernels.current() if known is None else known.backend
    return tuple(v if v is None or isinstance(v, Tensor) else Tensor(v, backend=backend) for v in values)


def flat_targets(targets, x, backend):
    """Targets (...) for x (..., C) as (N): their shape must be that of x's leading axes, not only their number."""
    targets = integers(targets, backend)
    if targets.shape != x.shape[:-1]:
        raise ValueError(f"targets have shape {targets.shape}, expected {x.shape[:-1]} for values of shape {x.shape}")
    return targets.reshape(-1)


class Linear(Rule):
    """y = x Wᵀ + b.   dy ↦ dy W, dyᵀ x, Σ dy"""

    kernel = "linear"

    def forward(self, x, weight, bias):
        self.save(rows(x), weight)
        self.shape, self.with_bias = x.shape, bias is not None
        return self.kernels.linear(rows(x), weight, bias).reshape(*x.shape[:-1], len(weight))

    def backward(self, dy):
        dx, dweight, dbias = self.kernels.linear_backward(rows(dy), *self.saved, self.with_bias)
        return shaped(dx, self.shape), dweight, dbias


def linear(x, weight, bias=None):
    """x weightᵀ + bias.   x (..., C); weight (F, C); bias (F) → (..., F)"""
    x, weight, bias = tensors(x, weight, bias)
    if no_rows(x):
        return x @ weight.T if bias is None else x @ weight.T + bias
    return Linear.apply(x, weight, bias)


class Attention(Rule):
    """out = softmax(scale · q kᵀ) v, with P the probabilities.
    dout ↦ scale dS k, scale dSᵀ q, Pᵀ dout with dS = P (dout vᵀ - Σ dout out), the last two summed over the heads that
    share a key"""

    kernel = "attention"

    def forward(self, q, k, v, *options):
        out, lse = self.kernels.attention(q, k, v, *options)
        self.save(q, k, v, out, lse)
        self.options = options
        return out

    def backward(self, dout):
        return self.kernels.attention_backward(dout, *self.saved, *self.options)


def attention(q, k, v, is_causal=False, key_lengths=None, dropout_p=0.0, *, scale=None, query_offset=0, seed=None):
    """softmax(q kᵀ · scale) v.   q (B, H, T, D); k, v (B, G, S, D) → (B, H, T, D)

    G divides H: head h reads the keys and values of group h // (H/G). G = H is multi-head attention, G = 1 multi-query.
    is_causal     query t sees the keys s ≤ t + query_offset only
    key_lengths   (B) integers: of sequence b only the first key_lengths[b] keys exist
    dropout_p     probability with which each attention weight is dropped; `seed` fixes which ones
    scale         1/√D if not given
    query_offset  position of the first query among the keys, for decoding with a cache

    A query that sees no key gives zeros and passes no gradient."""
    q, k, v = tensors(q, k, v)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    lengths = None if key_lengths is None else integers(key_lengths, q.backend)
    seed = _fresh_seed() if seed is None and dropout_p > 0 else (seed or 0)
    mask, dropout = kernels.Mask(lengths, is_causal, query_offset), kernels.Dropout(dropout_p, seed)
    return Attention.apply(q, k, v, mask, scale, dropout)


def heads(x, first, last, D):
    """Columns first · D ... last · D of each row as heads of D columns.   x (B, T, A·D) → (B, last - first, T, D)"""
    return Heads.apply(x, first, last, D)


def joined_heads(x):
    """The heads of each position side by side again.   x (B, H, T, D) → (B, T, H·D)"""
    return RowsOfHeads.apply(x)


def scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """PyTorch's signature for attention. With a mask of one's own it is computed step by step, and stores all weights.

    attn_mask   broadcast to (B, H, T, S): booleans, True where a query sees a key, or numbers to add to the scores
    enable_gqa  whether k and v may have fewer heads than q, as `attention` allows anyway
    A query that sees no key gives zeros."""
    if attn_mask is None:
        return attention(q, k, v, is_causal, dropout_p=dropout_p, scale=scale)
    if is_causal:
        raise ValueError("give attn_mask or is_causal, not both")
    q, k, v = tensors(q, k, v)
    (B, H, T, D), (G, S) = q.shape, k.shape[1:3]
    if H != G and (not enable_gqa or H % G):
        raise ValueError(
            f"{H} heads of queries, {G} of keys: G must divide H, and enable_gqa=True says that it is meant"
        )

    def by_group(x):  # heads of one group are more queries to the same keys
        return x.reshape(B, G, H // G * T, x.shape[-1])

    scores = (by_group(q) @ k.swapaxes(-1, -2)).reshape(B, H, T, S) * (D**-0.5 if scale is None else scale)
    if not isinstance(attn_mask, Tensor):
        attn_mask = q.backend.asarray(attn_mask)
    if attn_mask.dtype.kind == "b":
        seen = attn_mask.array if isinstance(attn_mask, Tensor) else attn_mask
        scores = where(seen, scores, -np.inf)
    else:
        scores = scores + attn_mask
        seen = scores.array > -np.inf
    some = seen.any(axis=-1, keepdims=True)
    weights = where(some, softmax(where(some, scores, 0.0)), 0.0)
    return (by_group(dropout(weights, dropout_p)) @ v).reshape(q.shape)


class LayerNorm(Rule):
    """n = (x - mean) / √(variance + eps), y = n · weight + bias.
    dy ↦ rstd (dn - mean dn - n mean(dn n)) with dn = dy · weight;  Σ dy n;  Σ dy"""

    kernel = "layer_norm"

    def forward(self, x, weight, bias, eps):
        y, mean, rstd = self.kernels.layer_norm(rows(x), weight, bias, eps)
        self.save(rows(x), weight, mean, rstd)
        self.shape = x.shape
        return y.reshape(x.shape)

    def backward(self, dy):
        dx, dweight, dbias = self.kernels.layer_norm_backward(rows(dy), *self.saved)
        return shaped(dx, self.shape), dweight, dbias


def layer_norm(x, weight, bias, eps=1e-5):
    """Each row of x brought to mean 0 and variance 1, then scaled and shifted.   x (..., C); weight, bias (C)"""
    x, weight, bias = tensors(x, weight, bias)
    return x * weight + bias if no_rows(x) else LayerNorm.apply(x, weight, bias, eps)


class RMSNorm(Rule):
    """n = x / √(mean x² + eps), y = n · weight.
    dy ↦ rstd (dn - n mean(dn n)) with dn = dy · weight;  Σ dy n"""

    kernel = "rms_norm"

    def forward(self, x, weight, eps):
        y, rstd = self.kernels.rms_norm(rows(x), weight, eps)
        self.save(rows(x), weight, rstd)
        self.shape = x.shape
        return y.reshape(x.shape)

    def backward(self, dy):
        dx, dweight = self.kernels.rms_norm_backward(rows(dy), *self.saved)
        return shaped(dx, self.shape), dweight


def rms_norm(x, weight, eps=1e-5):
    """Each row of x brought to mean square 1, then scaled.   x (..., C); weight (C)"""
    x, weight = tensors(x, weight)
    return x * weight if no_rows(x) else RMSNorm.apply(x, weight, eps)


class Rotary(Rule):
    """y = x with every pair of columns turned by position · frequency.   dy ↦ dy turned back"""

    kernel = "rotary"

    def forward(self, x, positions, base, interleaved):
        self.positions, self.options = positions, (base, interleaved)
        return self.kernels.rotary(x, positions, *self.options)

    def backward(self, dy):
        return self.kernels.rotary(dy, -self.positions, *self.options)


def rotary(x, positions, base=10000.0, interleaved=True):
    """Pair i of the row at position p turned by the angle p · base^(-2i/D).   x (B, H, T, D) → (B, H, T, D)

    positions    (T) or (B, T) integers: where in its sequence each row stands
    interleaved  pair i is the columns 2i and 2i + 1; else i and i + D/2"""
    (x,) = tensors(x)
    positions = integers(positions, x.backend).astype(np.int64)  # of a kind that can be negated
    if positions.ndim not in (1, 2):
        raise ValueError(f"rotary: positions must have shape (T) or (B, T), not {positions.shape}")
    return Rotary.apply(x, positions if positions.ndim == 2 else positions[None], base, interleaved)


class FeedForward(Rule):
    """pre = x w1ᵀ + b1, y = activation(pre) w2ᵀ + b2.
    dy ↦ dpre w1, dpreᵀ x, Σ dpre, dyᵀ hidden, Σ dy with dpre = dy w2 · activation'(pre)"""

    kernel = "feed_forward"

    def forward(self, x, w1, b1, w2, b2, activation):
        y, pre = self.kernels.feed_forward(rows(x), w1, b1, w2, b2, activation)
        self.save(rows(x), w1, w2, pre)
        self.shape, self.activation = x.shape, activation
        return y.reshape(*x.shape[:-1], len(w2))

    def backward(self, dy):
        dx, *others = self.kernels.feed_forward_backward(rows(dy), *self.saved, self.activation)
        return shaped(dx, self.shape), *others


def feed_forward(x, w1, b1, w2, b2, activation="relu"):
    """activation(x w1ᵀ + b1) w2ᵀ + b2, activation relu, gelu, tanh or gelu_tanh.

    x (..., C); w1 (F, C); b1 (F); w2 (E, F); b2 (E) → (..., E)"""
    return FeedForward.apply(*tensors(x, w1, b1, w2, b2), activation)


class GatedFeedForward(Rule):
    """gate = x w_gateᵀ + b_gate, up = x w_upᵀ + b_up, y = hidden w_downᵀ + b_down with hidden = activation(gate) · up.
    dy ↦ dgate w_gate + dup w_up, dgateᵀ x, Σ dgate, dupᵀ x, Σ dup, dyᵀ hidden, Σ dy
    with dup = dy w_down · activation(gate), dgate = dy w_down · up · activation'(gate)"""

    kernel = "gated_feed_forward"

    def forward(self, x, w_gate, b_gate, w_up, b_up, w_down, b_down, activation):
        y, gate, up = self.kernels.gated_feed_forward(rows(x), w_gate, b_gate, w_up, b_up, w_down, b_down, activation)
        self.save(rows(x), w_gate, w_up, w_down, gate, up)
        self.shape, self.options = x.shape, (activation, *(bias is not None for bias in (b_gate, b_up, b_down)))
        return y.reshape(*x.shape[:-1], len(w_down))

    def backward(self, dy):
        dx, *others = self.kernels.gated_feed_forward_backward(rows(dy), *self.saved, *self.options)
        return shaped(dx, self.shape), *others


def gated_feed_forward(x, w_gate, w_up, w_down, activation="silu", *, b_gate=None, b_up=None, b_down=None):
    """(activation(x w_gateᵀ + b_gate) · (x w_upᵀ + b_up)) w_downᵀ + b_down, activation silu (SwiGLU) or gelu (GEGLU).

    x (..., C); w_gate, w_up (F, C); w_down (E, F); b_gate, b_up (F), b_down (E) or None → (..., E)"""
    return GatedFeedForward.apply(*tensors(x, w_gate, b_gate, w_up, b_up, w_down, b_down), activation)


class QuantisedLinear(Rule):
    """y = x Wᵀ, W in blocks of bytes, which have no gradient.   dy ↦ dy W"""

    kernel = "quantised_linear"

    def forward(self, x, weight, kind):
        self.save(weight)
        self.shape, self.kind = x.shape, kind
        return self.kernels.quantised_linear(rows(x), weight, kind).reshape(*x.shape[:-1], len(weight))

    def backward(self, dy):
        return shaped(self.kernels.quantised_linear_backward(rows(dy), *self.saved, self.kind), self.shape)


def quantised_linear(x, weight, kind):
    """x weightᵀ with weights of 8 bits (kind "Q8_0") or 4 (kind "Q4_1").   x (..., C) → (..., F)

    weight (F, R): uint8, each row its blocks of 32 weights one after another, as GGUF files have them. There is no
    gradient by them."""
    x, weight = tensors(x, weight)
    return QuantisedLinear.apply(x, weight, kind)


class QuantisedGatedFeedForward(Rule):
    """gate = x w_gateᵀ, up = x w_upᵀ, y = (activation(gate) · up) w_downᵀ.
    dy ↦ dgate w_gate + dup w_up with dup = dy w_down · activation(gate), dgate = dy w_down · up · activation'(gate)"""

    kernel = "quantised_gated_feed_forward"

    def forward(self, x, w_gate, w_up, w_down, kind, activation):
        self.save(rows(x), w_gate, w_up, w_down)
        self.shape, self.kind, self.activation = x.shape, kind, activation
        y = self.kernels.quantised_gated_feed_forward(rows(x), w_gate, w_up, w_down, kind, activation)
        return y.reshape(*x.shape[:-1], len(w_down))

    def backward(self, dy):
        k, kind = self.kernels, self.kind
        x, w_gate, w_up, w_down = self.saved
        gate, up = k.quantised_linear(x, w_gate, kind), k.quantised_linear(x, w_up, kind)
        dhidden = k.quantised_linear_backward(rows(dy), w_down, kind)
        dup = k.multiply(dhidden, getattr(k, self.activation)(gate))
        dgate = getattr(k, self.activation + "_backward")(k.multiply(dhidden, up), gate)
        dx = k.quantised_linear_backward(dgate, w_gate, kind)
        return shaped(k.add(dx, k.quantised_linear_backward(dup, w_up, kind)), self.shape)


def quantised_gated_feed_forward(x, w_gate, w_up, w_down, kind, activation="silu"):
    """(activation(x w_gateᵀ) · (x w_upᵀ)) w_downᵀ with quantised weights, all of one kind.   x (..., C) → (..., E)"""
    return QuantisedGatedFeedForward.apply(*tensors(x, w_gate, w_up, w_down), kind, activation)


class Embedding(Rule):
    """y[n] = weight[ids[n]].   dy ↦ dweight[v] = Σ dy[n] over ids[n] = v"""

    kernel = "embedding"

    def forward(self, weight, ids):
        self.ids, self.shape = ids.reshape(-1), weight.shape
        return self.kernels.embedding(weight, self.ids).reshape(*ids.shape, weight.shape[1])

    def backward(self, dy):
        return RowGradient(rows(dy), self.shape, self.ids, self.kernels)


def embedding(weight, ids):
    """Rows of a table.   weight (V, C); ids (...) integers → (..., C)"""
    (weight,) = tensors(weight)
    if weight.dtype.kind in "iu" and getattr(ids, "ndim", 0) == 2 and ids.dtype.kind == "f":
        raise TypeError("embedding takes the table first: F.embedding(weight, ids); PyTorch has it the other way round")
    return Embedding.apply(weight, integers(ids, weight.backend))


class _OfRows(Rule):
    """y = f(each row of x), with a derivative written in terms of y."""

    def forward(self, x):
        y = getattr(self.kernels, str(self.kernel))(rows(x))
        self.save(y)
        self.shape = x.shape
        return y.reshape(x.shape)

    def backward(self, dy):
        return shaped(getattr(self.kernels, f"{self.kernel}_backward")(rows(dy), *self.saved), self.shape)


class Softmax(_OfRows):
    """y = exp(x) / Σ exp(x).   dy ↦ y (dy - Σ dy y)"""

    kernel = "softmax"


class LogSoftmax(_OfRows):
    """y = x - log Σ exp(x).   dy ↦ dy - exp(y) Σ dy"""

    kernel = "log_softmax"


def _along(rule, x, axis):
    """Applies a rule for the last axis along any axis."""
    (x,) = tensors(x)
    axis = one_axis(axis, x.ndim)
    if no_rows(x):
        return x * 1
    return rule.apply(x) if axis == x.ndim - 1 else rule.apply(x.swapaxes(axis, -1)).swapaxes(axis, -1)


@torch_words
def softmax(x, axis=-1):
    """exp(x) / Σ exp(x) along an axis."""
    return _along(Softmax, x, axis)


@torch_words
def log_softmax(x, axis=-1):
    """log of the softmax, without forming it."""
    return _along(LogSoftmax, x, axis)


def mse_loss(x, target):
    """Mean of (x - target)².   x, target of one shape → a single number"""
    x, target = tensors(x, target)
    if x.shape != target.shape:
        raise ValueError(f"x has shape {x.shape}, target {target.shape}; they must agree")
    difference = x - target
    return (difference * difference).mean()


class CrossEntropy(Rule):
    """loss = mean of lse - logits[target].   dloss ↦ dloss / kept · (softmax(logits) - onehot(target))"""

    kernel = "cross_entropy"

    def forward(self, logits, targets, ignore_index, label_smoothing):
        loss, lse = self.kernels.cross_entropy(logits, targets, ignore_index, label_smoothing)
        self.save(logits, lse)
        self.options = targets, ignore_index, label_smoothing
        return loss

    def backward(self, dloss):
        return self.kernels.cross_entropy_backward(dloss, *self.saved, *self.options)


def cross_entropy(logits, targets, ignore_index=None, label_smoothing=0.0):
    """Mean of -log softmax(logits)[target] over the targets that are not ignore_index.

    logits (..., V); targets (...) integers → a single number"""
    (logits,) = tensors(logits)
    targets = flat_targets(targets, logits, logits.backend)
    return CrossEntropy.apply(reshape(logits, (-1, logits.shape[-1])), targets, ignore_index, label_smoothing)


class LinearCrossEntropy(Rule):
    """loss = cross_entropy(x Wᵀ + b, targets). The gradients for dloss = 1 are formed along with the loss, while the
    logits are at hand.   dloss ↦ dloss times them"""

    kernel = "linear_cross_entropy"

    def forward(self, x, weight, bias, targets, *options):
        wanted = any(self.needs)
        loss, dx, *others = self.kernels.linear_cross_entropy(rows(x), weight, bias, targets, *options, wanted)
        self.save(shaped(dx, x.shape) if wanted else None, *others)
        return loss

    def backward(self, dloss):
        if float(dloss) == 1.0:  # the usual case: no copies of what can be as large as the vocabulary
            return self.saved
        return tuple(None if gradient is None else gradient * dloss for gradient in self.saved)


def linear_cross_entropy(x, weight, bias, targets, ignore_index=None, label_smoothing=0.0):
    """cross_entropy(linear(x, weight, bias), targets), the same number, without ever storing the logits whole.

    x (..., C); weight (V, C); bias (V) or None; targets (...) integers → a single number"""
    x, weight, bias = tensors(x, weight, bias)
    targets = flat_targets(targets, x, x.backend)
    return LinearCrossEntropy.apply(x, weight, bias, targets, ignore_index, label_smoothing)


class Dropout(Rule):
    """y = x · keep / (1 - p).   dy ↦ dy · keep / (1 - p), the mask drawn again from the same seed"""

    kernel = "dropout"

    def forward(self, x, p, seed):
        self.options = p, seed
        return self.kernels.dropout(x, p, seed)

    def backward(self, dy):
        return self.kernels.dropout(dy, *self.options)


def dropout(x, p, training=True, seed=None):
    """Each element 0 with probability p, else divided by 1 - p; x itself when not training. `seed` fixes the mask."""
    if not 0 <= p < 1:
        raise ValueError(f"the dropout rate must be at least 0 and below 1, not {p}")
    if not training or p == 0:
        return x
    return Dropout.apply(x, p, _fresh_seed() if seed is None else seed)


_seeds = np.random.default_rng(0)


def manual_seed(seed):
    """Restarts the sequence of seeds that dropout and randn draw."""
    global _seeds
    _seeds = np.random.default_rng(seed)


def _fresh_seed():
    return int(_seeds.integers(2**63))


def fresh_random():
    """A generator of its own, from the same sequence."""
    return np.random.default_rng(_fresh_seed())
