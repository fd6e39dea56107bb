"""Reads a text from both sides: hidden words are guessed, and whether the second sentence follows the first."""

from typing import Any

import autograd.functional as F
from autograd import Tensor
from minitransformer.config import GATED
from minitransformer.layers import Dropout, Embedding, Head, Linear, activated, encoder, norm
from minitransformer.models.base import Model, TokenEmbedding
from minitransformer.models.inputs import row_lengths, same_shape, token_ids, within


class Bert(Model):
    """Encoder without a causal mask; input is the sum of word, position and segment embeddings, normed. Unless told
    otherwise, position vectors are learned and words are not scaled.

    With `deep_heads`, as BERT was published, words are guessed from norm(activation(dense(x))), and what follows from
    tanh(pooler(x)) of the first place."""

    kind = "Bert"

    def __init__(self, *sizes: Any, **settings: Any):
        super().__init__(*sizes, **settings)
        config, init = self.config, self.init
        self.embedding = TokenEmbedding(config.vocab_size, config, init=init)
        self.segments = Embedding(2, config.d_model, init=init)
        self.norm = norm(config, init=init)
        self.dropout = Dropout(config.dropout, init=init)
        self.encoder = encoder(config.n_layers, config, init=init)
        tied = self.embedding.weight if config.tie_weights else None
        self.word_head = Head(config.d_model, config.vocab_size, config.head_bias, tied=tied, init=init)
        self.next_head = Head(config.d_model, 2, init=init)
        self.dense = self.dense_norm = self.pooler = None
        if config.deep_heads:
            self.dense, self.pooler = (Linear(config.d_model, config.d_model, init=init) for _ in range(2))
            self.dense_norm = norm(config, init=init)

    def hidden(self, ids: Any, segments: Any, lengths: Any = None) -> Tensor:
        """ids, segments (B, T), padded on the right; lengths (B) → (B, T, C)"""
        ids = token_ids("ids", ids, self.embedding.vocab_size, self.embedding.max_len)
        segments = same_shape("segments", segments, "ids", ids.shape)
        within("segments", segments, 0, 1, "segments")
        lengths = row_lengths("lengths", lengths, *ids.shape)
        x = self.dropout(self.norm(self.embedding(ids) + self.segments(segments)))
        return self.encoder(x, key_lengths=lengths)

    def forward(self, ids: Any, segments: Any, lengths: Any = None) -> tuple[Tensor, Tensor]:
        """Scores for the word at each place (B, T, V), and for "follows" and "does not follow" (B, 2) from the first
        place, where [CLS] stands."""
        for_words, for_next = self._for_heads(self.hidden(ids, segments, lengths))
        return self.word_head(for_words), self.next_head(for_next)

    def _for_heads(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """What the two heads read: all places, and the first.   hidden (B, T, C) → (B, T, C), (B, C)"""
        if self.dense is None or self.dense_norm is None or self.pooler is None:
            return hidden, hidden[:, 0]
        words = self.dense_norm(
            activated(self.dense(hidden), GATED.get(self.config.activation, self.config.activation))
        )
        return words, F.tanh(self.pooler(hidden[:, 0]))

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
        for_words, for_next = self._for_heads(hidden)
        words = self.word_head.loss(for_words, targets, ignore_index)
        return words, F.cross_entropy(self.next_head(for_next), labels)

    def loss(
        self,
        ids: Any,
        segments: Any,
        masked_targets: Any,
        next_labels: Any,
        lengths: Any = None,
        ignore_index: int | None = None,
    ) -> Tensor:
        """The sum of both losses, which BERT is trained on."""
        words, following = self.losses(ids, segments, masked_targets, next_labels, lengths, ignore_index)
        return words + following
