"""The work of each case in PyTorch, as somebody who knows it well would write it: fused attention, fused Adam, no
copies that could be avoided. The models are the labs' (post-norm) and Llama's, written out in the fewest modules."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from minitransformer.app.bench import bench_inputs
from minitransformer.app.bench.cases import MINILM
from minitransformer.config import LAB, Config
from minitransformer.positions import positional_encoding

Work = Callable[[], Any]


class Attention(nn.Module):
    def __init__(self, d_model: int, n_heads: int):
        super().__init__()
        self.heads = n_heads
        self.query, self.key_value = nn.Linear(d_model, d_model), nn.Linear(d_model, 2 * d_model)
        self.out = nn.Linear(d_model, d_model)

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: Tensor, memory: Tensor, causal: bool, dropout: float) -> Tensor:
        key, value = self.key_value(memory).chunk(2, -1)
        q, k, v = (self.split(part) for part in (self.query(x), key, value))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=causal, dropout_p=dropout if self.training else 0.0)
        return self.out(mixed.transpose(1, 2).flatten(2))


class SelfAttention(Attention):
    """One product for queries, keys and values."""

    def __init__(self, d_model: int, n_heads: int):
        nn.Module.__init__(self)
        self.heads = n_heads
        self.packed, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, causal: bool, dropout: float) -> Tensor:  # type: ignore[override]
        q, k, v = (self.split(part) for part in self.packed(x).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=causal, dropout_p=dropout if self.training else 0.0)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Encoder block, or decoder block with `cross`; post-norm."""

    def __init__(
        self, d_model: int, n_heads: int, d_ff: int, dropout: float, cross: bool = False, eps: float = 1e-5,
        activation: Callable[[Tensor], Tensor] = F.relu,
    ):  # fmt: skip
        super().__init__()
        self.activation = activation
        self.attention = SelfAttention(d_model, n_heads)
        self.cross = Attention(d_model, n_heads) if cross else None
        self.one, self.two = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model, eps) for _ in range(3 if cross else 2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, causal: bool, memory: Tensor | None = None) -> Tensor:
        p = self.dropout.p
        x = self.norms[0](x + self.dropout(self.attention(x, causal, p)))
        if self.cross is not None and memory is not None:
            x = self.norms[1](x + self.dropout(self.cross(x, memory, False, p)))
        hidden = self.dropout(self.activation(self.one(x)))
        return self.norms[-1](x + self.dropout(self.two(hidden)))


class LanguageModel(nn.Module):
    """recompute: keeps the inputs of blocks only, and computes each again in backward."""

    def __init__(self, config: Config = LAB, outputs: int | None = None, recompute: bool = False):
        super().__init__()
        d, self.recompute = config.d_model, recompute
        self.embedding = nn.Embedding(config.vocab_size, d)
        self.blocks = nn.ModuleList(Block(d, config.n_heads, config.d_ff, 0.0) for _ in range(config.n_layers))
        self.head = nn.Linear(d, outputs or config.vocab_size)
        table = torch.from_numpy(positional_encoding(config.max_len, d).astype(np.float32))
        self.register_buffer("positions", table)

    def base(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim) + self.positions[: ids.shape[1]]
        for block in self.blocks:
            x = checkpoint(block, x, True, use_reentrant=False) if self.recompute else block(x, True)
        return x

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.base(ids))


def turns(length: int, width: int, base: float = 10000.0) -> Tensor:
    """What pairs of columns, seen as complex numbers, are multiplied with at each position.   → (length, width/2)"""
    angles = torch.arange(length)[:, None] * base ** (-torch.arange(0, width, 2) / width)
    return torch.polar(torch.ones_like(angles), angles)


def turned(x: Tensor, by: Tensor) -> Tensor:
    """One product forward and one backward; exchanging halves, as is often seen, takes five passes.   x (..., T, D)"""
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * by).flatten(-2)


class LlamaBlock(nn.Module):
    """RMS norm first; one product for queries, keys and values, and one for gate and up."""

    def __init__(self, c: Config):
        super().__init__()
        self.width = c.d_model // c.n_heads
        kept = self.width * (c.n_kv_heads or c.n_heads)
        self.sizes = c.d_model, kept, kept
        self.packed = nn.Linear(c.d_model, sum(self.sizes), bias=False)
        self.out = nn.Linear(c.d_model, c.d_model, bias=False)
        self.gate_up = nn.Linear(c.d_model, 2 * c.d_ff, bias=False)
        self.down = nn.Linear(c.d_ff, c.d_model, bias=False)
        self.norms = nn.ModuleList(nn.RMSNorm(c.d_model, c.norm_eps) for _ in range(2))

    def forward(self, x: Tensor, by: Tensor) -> Tensor:
        parts = self.packed(self.norms[0](x)).split(self.sizes, -1)
        q, k, v = (part.unflatten(-1, (-1, self.width)).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(turned(q, by), turned(k, by), v, is_causal=True, enable_gqa=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        gate, up = self.gate_up(self.norms[1](x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.blocks = nn.ModuleList(LlamaBlock(config) for _ in range(config.n_layers))
        self.norm = nn.RMSNorm(config.d_model, config.norm_eps)
        self.head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        if config.tie_weights:
            self.head.weight = self.embedding.weight
        self.turns = turns(config.max_len, config.d_model // config.n_heads, config.rotary_base)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, self.turns[: ids.shape[1]])
        return self.head(self.norm(x))


class Bert(nn.Module):
    """Its encoder alone."""

    def __init__(self, config: Config):
        super().__init__()
        d, sizes = config.d_model, (config.d_model, config.n_heads, config.d_ff)
        self.words, self.segments = nn.Embedding(config.vocab_size, d), nn.Embedding(2, d)
        self.places = nn.Parameter(torch.randn(config.max_len, d))
        self.norm = nn.LayerNorm(d, config.norm_eps)
        blocks = (Block(*sizes, 0.0, eps=config.norm_eps, activation=F.gelu) for _ in range(config.n_layers))
        self.blocks = nn.ModuleList(blocks)

    def forward(self, ids: Tensor, segments: Tensor) -> Tensor:
        x = self.norm(self.words(ids) + self.segments(segments) + self.places[: ids.shape[1]])
        for block in self.blocks:
            x = block(x, False)
        return x


class Translator(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        d, h, f, p = config.d_model, config.n_heads, config.d_ff, config.dropout
        self.source = nn.Embedding(config.source_vocab, d)
        self.target = self.source if config.share_embedding else nn.Embedding(config.target_vocab, d)
        self.encoder = nn.ModuleList(Block(d, h, f, p) for _ in range(config.n_encoder))
        self.decoder = nn.ModuleList(Block(d, h, f, p, cross=True) for _ in range(config.n_decoder))
        self.head = nn.Linear(d, config.target_vocab, bias=not config.tie_weights)
        if config.tie_weights:
            self.head.weight = self.target.weight
        self.scale = math.sqrt(d) if config.scale_embedding else 1.0
        self.dropout = nn.Dropout(p)
        table = torch.from_numpy(positional_encoding(config.max_len, d).astype(np.float32))
        self.register_buffer("positions", table)

    def embed(self, table: nn.Embedding, ids: Tensor) -> Tensor:
        return self.dropout(table(ids) * self.scale + self.positions[: ids.shape[1]])

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory = self.embed(self.source, source)
        for block in self.encoder:
            memory = block(memory, False)
        x = self.embed(self.target, target)
        for block in self.decoder:
            x = block(x, True, memory)
        return self.head(x)


def _training(model: nn.Module, forward: Callable, targets: Tensor, compiled: bool, clip=None, ignore=-100) -> Work:
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4, fused=True)

    def loss() -> Tensor:
        logits = forward()
        return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=ignore)

    if compiled:
        loss = torch.compile(loss)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        value = loss()
        value.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        return value.item()

    return step


def _next_words(model: nn.Module, sizes: dict, compiled: bool) -> Work:
    ids = torch.from_numpy(bench_inputs.words(sizes["B"], sizes["T"] + 1, sizes["model"].vocab_size))
    x, y = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    return _training(model, lambda: model(x), y, compiled, sizes.get("clip"))


def language_model(sizes: dict, _data: str | None, compiled: bool = False) -> Work:
    model = LanguageModel(sizes["model"], recompute=sizes.get("recompute", False))
    return _next_words(model, sizes, compiled)


def llama(sizes: dict, _data: str | None, compiled: bool = False) -> Work:
    return _next_words(Llama(sizes["model"]), sizes, compiled)


def padded_language_model(sizes: dict, data: str | None, compiled: bool = False) -> Work:
    model = LanguageModel()
    ids, targets = (torch.from_numpy(a) for a in bench_inputs.reviews(sizes["B"], data))
    return _training(model, lambda: model(ids), targets, compiled, ignore=bench_inputs.PAD)


def classifier(sizes: dict, _data: str | None, compiled: bool = False) -> Work:
    model = LanguageModel(outputs=2)
    ids = torch.from_numpy(bench_inputs.words(sizes["B"], sizes["T"], 50001))
    labels = torch.arange(sizes["B"]) % 2
    return _training(model, lambda: model.head(model.base(ids)[:, -1]), labels, compiled, clip=0.5)


def translator(sizes: dict, _data: str | None, compiled: bool = False) -> Work:
    config = sizes["model"]
    model = Translator(config)
    source = torch.from_numpy(bench_inputs.words(sizes["B"], sizes["T"], config.source_vocab))
    target = torch.from_numpy(bench_inputs.words(sizes["B"], sizes["T"] + 1, config.target_vocab))
    x, y = target[:, :-1].contiguous(), target[:, 1:].contiguous()
    return _training(model, lambda: model(source, x), y, compiled)


def attention(sizes: dict, _data: str | None, compiled: bool = False) -> Work:
    q, k, v, dout = (torch.from_numpy(a).requires_grad_() for a in bench_inputs.attention(sizes))

    shared = q.shape[1] != k.shape[1]

    def both() -> None:
        q.grad = k.grad = v.grad = None
        F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=shared).backward(dout)

    return both


def layer_norm(sizes: dict, _data: str | None, compiled: bool = False) -> Work:
    x, weight, bias, dy = (torch.from_numpy(a).requires_grad_() for a in bench_inputs.layer_norm(sizes))

    def both() -> None:
        x.grad = weight.grad = bias.grad = None
        F.layer_norm(x, weight.shape, weight, bias).backward(dy)

    return both


def rms_norm(sizes: dict, _data: str | None, compiled: bool = False) -> Work:
    x, weight, dy = (torch.from_numpy(a).requires_grad_() for a in bench_inputs.rms_norm(sizes))

    def both() -> None:
        x.grad = weight.grad = None
        F.rms_norm(x, weight.shape, weight, 1e-5).backward(dy)

    return both


def rotary(sizes: dict, _data: str | None, compiled: bool = False) -> Work:
    x, dy = (torch.from_numpy(a) for a in bench_inputs.rotary(sizes))
    x.requires_grad_()
    by = turns(sizes["T"], sizes["D"])

    def both() -> None:
        x.grad = None
        turned(x, by).backward(dy)

    return both


def adam(sizes: dict, _data: str | None, compiled: bool = False) -> Work:
    weight = nn.Parameter(torch.from_numpy(bench_inputs.normal(sizes["N"])))
    weight.grad = torch.from_numpy(bench_inputs.normal(sizes["N"]))
    return torch.optim.Adam([weight], lr=3e-4, fused=True).step


def generate(sizes: dict, _data: str | None, compiled: bool = False) -> Work:
    """Keys and values are written into arrays that were made once; each word costs one row of every product."""
    model = LanguageModel().eval()
    d, heads, layers = LAB.d_model, LAB.n_heads, LAB.n_layers
    keys, values = (torch.empty(layers, sizes["B"], heads, sizes["words"], d // heads) for _ in range(2))

    @torch.inference_mode()
    def write() -> list[list[int]]:
        word, words = torch.zeros((sizes["B"], 1), dtype=torch.int64), []
        for t in range(sizes["words"]):
            x = model.embedding(word) * math.sqrt(d) + model.positions[t]
            for layer, block in enumerate(model.blocks):
                attention = block.attention
                q, k, v = (attention.split(part) for part in attention.packed(x).chunk(3, -1))
                keys[layer, :, :, t], values[layer, :, :, t] = k[:, :, 0], v[:, :, 0]
                mixed = F.scaled_dot_product_attention(q, keys[layer, :, :, : t + 1], values[layer, :, :, : t + 1])
                x = block.norms[0](x + attention.out(mixed.transpose(1, 2).flatten(2)))
                x = block.norms[1](x + block.two(F.relu(block.one(x))))
            word = model.head(x[:, -1]).argmax(-1, keepdim=True)
            words.append(word[:, 0].tolist())
        return words

    return write


def encoder(sizes: dict, _data: str | None, compiled: bool = False) -> Work:
    model = Bert(MINILM).eval()
    ids = torch.from_numpy(bench_inputs.words(sizes["B"], sizes["T"], MINILM.vocab_size or 0))
    forward = torch.compile(model) if compiled else model

    @torch.inference_mode()
    def hidden() -> np.ndarray:
        return forward(ids, torch.zeros_like(ids)).numpy()

    return hidden
