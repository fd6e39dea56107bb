"""Reads a sentence, then writes one: encoder, and decoder that looks at it."""

from typing import Any

from autograd import Tensor
from minitransformer.layers import Dropout, Head, decoder, encoder
from minitransformer.models.base import Model, TokenEmbedding
from minitransformer.models.inputs import row_lengths, same_shape, token_ids


class Translator(Model):
    """Encoder-decoder transformer."""

    kind = "Translator"

    def __init__(self, *sizes: Any, **settings: Any):
        super().__init__(*sizes, **settings)
        config, init = self.config, self.init
        self.source_embedding = TokenEmbedding(config.source_vocab, config, init=init)
        self.target_embedding = (
            self.source_embedding if config.share_embedding else TokenEmbedding(config.target_vocab, config, init=init)
        )
        self.dropout = Dropout(config.dropout, init=init)
        self.encoder = encoder(config.n_encoder, config, init=init)
        self.decoder = decoder(config.n_decoder, config, init=init)
        tied = self.target_embedding.weight if config.tie_weights else None
        self.head = Head(config.d_model, config.target_vocab, config.head_bias, tied=tied, init=init)

    def encode(self, source: Any, source_lengths: Any = None) -> Tensor:
        """What the decoder looks at.   source (B, S), padded on the right; source_lengths (B) → (B, S, C)"""
        table = self.source_embedding
        source = token_ids("source", source, table.vocab_size, table.max_len)
        source_lengths = row_lengths("source_lengths", source_lengths, *source.shape)
        return self.encoder(self.dropout(table(source)), key_lengths=source_lengths)

    def decode(self, target: Any, memory: Tensor, source_lengths: Any = None, cache: Any = None) -> Tensor:
        """The last hidden states.   target (B, T); memory (B, S, C) → (B, T, C)

        With a cache, target holds the words that follow those already read."""
        table = self.target_embedding
        target = token_ids("target", target, table.vocab_size, table.max_len)
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
