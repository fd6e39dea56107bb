"""Reads a text from both sides: hidden words are guessed, and whether the second sentence follows the first."""

from typing import Any

import numpy as np

import autograd.functional as F
from autograd import Tensor
from minitransformer.config import GATED
from minitransformer.layers import Dropout, Embedding, Head, Linear, activated, encoder, norm
from minitransformer.models.base import Model, TokenEmbedding, mean_of_rows
from minitransformer.models.inputs import row_lengths, same_shape, token_ids, within


class Bert(Model):
    """Encoder without a causal mask; input is the sum of word, position and segment embeddings, normed. Unless told
    otherwise, position vectors are learned and words are not scaled.

    With heads="deep", as BERT was published, words are guessed from norm(activation(dense(x))), and what follows from
    tanh(dense(x)) of the first place; with heads="none" it is an encoder alone."""

    kind = "Bert"

    def __init__(self, *sizes: Any, **settings: Any):
        super().__init__(*sizes, **settings)
        config, init = self.config, self.init
        self.embedding = TokenEmbedding(config.vocab_size, config, init=init)
        self.segments = Embedding(2, config.d_model, init=init)
        self.norm = norm(config, init=init)
        self.dropout = Dropout(config.dropout, init=init)
        self.encoder = encoder(config.n_layers, config, init=init)
        if config.heads != "none":
            tied = self.embedding.weight if config.tie_weights else None
            self.word_head = Head(config.d_model, config.vocab_size, config.head_bias, tied=tied, init=init)
            self.next_head = Head(config.d_model, 2, init=init)
        if config.heads == "deep":
            self.word_dense, self.next_dense = (Linear(config.d_model, config.d_model, init=init) for _ in range(2))
            self.word_norm = norm(config, init=init)

    def hidden(self, ids: Any, segments: Any, lengths: Any = None) -> Tensor:
        """ids, segments (B, T), padded on the right; lengths (B) → (B, T, C)"""
        ids = token_ids("ids", ids, self.embedding.vocab_size, self.embedding.max_len)
        segments = same_shape("segments", segments, "ids", ids.shape)
        within("segments", segments, 0, 1, "segments")
        lengths = row_lengths("lengths", lengths, *ids.shape)
        x = self.dropout(self.norm(self.embedding(ids) + self.segments(segments)))
        return self.encoder(x, key_lengths=lengths)

    def _for_heads(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """What the heads read: every place (B, T, C), and the first one (B, C), where [CLS] stands."""
        if self.config.heads == "none":
            raise ValueError("this BERT has no heads; ask for hidden(ids, segments) or sentences(ids)")
        if self.config.heads == "plain":
            return hidden, hidden[:, 0]
        words = activated(self.word_dense(hidden), GATED.get(self.config.activation, self.config.activation))
        return self.word_norm(words), self.next_dense(hidden[:, 0]).tanh()

    def forward(self, ids: Any, segments: Any, lengths: Any = None) -> tuple[Tensor, Tensor]:
        """Scores for the word at each place (B, T, V), and for "follows" and "does not follow" (B, 2)."""
        words, first = self._for_heads(self.hidden(ids, segments, lengths))
        return self.word_head(words), self.next_head(first)

    def sentences(self, ids: Any, lengths: Any = None) -> Tensor:
        """Texts as vectors of length 1: the mean over the places of each, scaled.   ids (B, T) → (B, C)"""
        ids = token_ids("ids", ids, self.embedding.vocab_size, self.embedding.max_len)
        mean = mean_of_rows(self.hidden(ids, np.zeros_like(ids), lengths), lengths)
        return mean / (mean * mean).sum(axis=-1, keepdims=True).sqrt()

    def losses(
        self,
        ids: Any,
        segments: Any,
        masked_targets: Any,
        next_labels: Any,
        lengths: Any = None,
        ignore_index: int | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Mean cross-entropy of the hidden words and of the next-sentence labels.

        masked_targets (B, T) holds ignore_index where nothing was hidden; next_labels (B)"""
        hidden = self.hidden(ids, segments, lengths)
        targets = same_shape("masked_targets", masked_targets, "ids", hidden.shape[:2])
        labels = same_shape("next_labels", next_labels, "the batch", hidden.shape[:1])
        within("next_labels", labels, 0, 1, "follows, or does not")
        words, first = self._for_heads(hidden)
        return self.word_head.loss(words, targets, ignore_index), F.cross_entropy(self.next_head(first), labels)

    def loss(self, ids, segments, masked_targets, next_labels, lengths=None, ignore_index=None) -> Tensor:
        """The sum of both losses, which BERT is trained on."""
        words, following = self.losses(ids, segments, masked_targets, next_labels, lengths, ignore_index)
        return words + following
