"""Reads a sentence, then writes one: encoder, and decoder that looks at it."""

from typing import Any

from autograd import Tensor
from minitransformer.layers import DecoderLayer, Dropout, Head, Stack
from minitransformer.models.base import Model, TokenEmbedding, encoder
from minitransformer.models.inputs import row_lengths, same_shape, token_ids


class Translator(Model):
    """Encoder-decoder transformer.

    source_vocab, target_vocab  words or pieces      n_encoder, n_decoder  layers of each
    d_model          C, width of the network         dropout      part of the activations dropped while training
    n_heads          H, must divide C                max_len      longest sentence on either side
    d_ff             F, feed-forward width           seed         of weights and dropout; None: no values, to count
    norm_first       norm before each sublayer instead of after it, and once at the end of each stack
    activation       relu, gelu or tanh
    tie_weights      the head uses the target embedding as its weight
    share_embedding  one embedding for both languages, of one vocabulary
    scale_embedding  words times √C (the second lab does without)
    positions        sinusoidal or learned"""

    def __init__(
        self,
        source_vocab: int,
        target_vocab: int,
        d_model: int = 256,
        n_heads: int = 4,
        n_encoder: int = 2,
        n_decoder: int = 2,
        d_ff: int = 512,
        dropout: float = 0.0,
        max_len: int = 64,
        seed: int | None = 0,
        *,
        norm_first: bool = False,
        activation: str = "relu",
        tie_weights: bool = False,
        share_embedding: bool = False,
        scale_embedding: bool = True,
        positions: str = "sinusoidal",
        dtype: str = "float32",
    ):
        super().__init__(locals())
        if share_embedding and source_vocab != target_vocab:
            raise ValueError(f"share_embedding needs one vocabulary, not {source_vocab} and {target_vocab} words")
        init = self.init
        table = (d_model, max_len, scale_embedding, positions)
        self.source_embedding = TokenEmbedding(source_vocab, *table, init=init)
        self.target_embedding = (
            self.source_embedding if share_embedding else TokenEmbedding(target_vocab, *table, init=init)
        )
        self.dropout = Dropout(dropout, init=init)
        options = (d_model, n_heads, d_ff, dropout, activation, norm_first)
        self.encoder = encoder(n_encoder, *options, init)
        self.decoder = Stack([DecoderLayer(*options, init=init) for _ in range(n_decoder)], d_model, init=init)
        self.head = Head(d_model, target_vocab, tied=self.target_embedding.weight if tie_weights else None, init=init)

    def encode(self, source: Any, source_lengths: Any = None) -> Tensor:
        """What the decoder looks at.   source (B, S), padded on the right; source_lengths (B) → (B, S, C)"""
        table = self.source_embedding
        source = token_ids("source", source, table.vocabulary, table.max_len)
        source_lengths = row_lengths("source_lengths", source_lengths, *source.shape)
        return self.encoder(self.dropout(table(source)), key_lengths=source_lengths)

    def decode(self, target: Any, memory: Tensor, source_lengths: Any = None, cache: Any = None) -> Tensor:
        """The last hidden states.   target (B, T); memory (B, S, C) → (B, T, C)

        With a cache, target holds the words that follow those already read."""
        table = self.target_embedding
        target = token_ids("target", target, table.vocabulary, table.max_len)
        if target.shape[0] != memory.shape[0]:
            raise ValueError(f"source has {memory.shape[0]} rows, but target has {target.shape[0]}")
        starts, caches = (None, None) if cache is None else (cache.lengths, cache.layers)
        x = self.dropout(table(target, starts))
        return self.decoder(x, memory, memory_lengths=source_lengths, caches=caches)

    def forward(self, source: Any, target: Any, source_lengths: Any = None) -> Tensor:
        """Scores of each word as the one after target[b, t].   source (B, S); target (B, T) → logits (B, T, V)"""
        return self.head(self._hidden(source, target, source_lengths))

    def loss(
        self,
        source: Any,
        target_in: Any,
        target_out: Any,
        source_lengths: Any = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
    ) -> Tensor:
        """Mean cross-entropy over the words of target_out that are not ignore_index.

        target_in (B, T) starts with <sos>; target_out (B, T) is the same one step later, and ends with <eos>"""
        hidden = self._hidden(source, target_in, source_lengths)
        target_out = same_shape("target_out", target_out, "target_in", hidden.shape[:2])
        return self.head.loss(hidden, target_out, ignore_index, label_smoothing)

    def _hidden(self, source: Any, target: Any, source_lengths: Any) -> Tensor:
        return self.decode(target, self.encode(source, source_lengths), source_lengths)
