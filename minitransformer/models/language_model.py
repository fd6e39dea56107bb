"""Predicts words: the next one from those before it, or hidden ones from both sides."""

from typing import Any

from autograd import Tensor
from minitransformer.config import Config
from minitransformer.layers import Dropout, Head, encoder
from minitransformer.models.base import Model, TokenEmbedding, mean_of_rows
from minitransformer.models.inputs import row_lengths, same_shape, token_ids
from minitransformer.module import Init, Module


class Base(Module):
    """Words, positions and encoder layers: everything but the head.   ids (B, T) → (B, T, C)

    causal  each position sees those up to itself; else all real words of its row"""

    def __init__(self, config: Config, *, init: Init):
        self.causal = config.causal
        self.embedding = TokenEmbedding(config.vocab_size, config, init=init)
        self.dropout = Dropout(config.dropout, init=init)
        self.encoder = encoder(config.n_layers, config, init=init)

    def forward(self, ids: Any, cache: Any = None, only: Any = None, lengths: Any = None) -> Tensor:
        """cache    ids are the words that follow those already read
        only     (B) the one position of each row that is wanted → (B, 1, C)
        lengths  (B) real words in each row, padded on the right; where a causal mask hides what comes later, they
                 change nothing"""
        ids = token_ids("ids", ids, self.embedding.vocab_size, self.embedding.max_len)
        lengths = row_lengths("lengths", lengths, *ids.shape)
        if cache is not None and not self.causal:
            raise ValueError("a model that reads both sides has no cache: each new word changes what it read before")
        starts, caches = (None, None) if cache is None else (cache.lengths, cache.layers)
        x = self.dropout(self.embedding(ids, starts))
        seen = None if self.causal else lengths
        return self.encoder(x, is_causal=self.causal, key_lengths=seen, caches=caches, only=only)

    def mean(self, ids: Any, lengths: Any = None) -> Tensor:
        """Σ over t < lengths[b] of base(ids)[b, t] / lengths[b]: the text as a whole.   ids (B, T) → (B, C)"""
        return mean_of_rows(self(ids, lengths=lengths), lengths)


class LanguageModel(Model):
    """Transformer with a linear head over the vocabulary; the defaults are the first lab's model.

    With causal=False it guesses hidden words from both sides instead of the next one."""

    kind = "LanguageModel"

    def __init__(self, *sizes: Any, **settings: Any):
        super().__init__(*sizes, **settings)
        self.base = Base(self.config, init=self.init)
        config, words = self.config, self.base.embedding
        tied = words.weight if config.tie_weights else None
        self.head = Head(config.d_model, words.vocab_size, config.head_bias, tied=tied, init=self.init)

    def forward(self, ids: Any, lengths: Any = None) -> Tensor:
        """Scores of each word as the next one, or as the one hidden there.   ids (B, T) → logits (B, T, V)"""
        return self.head(self.base(ids, lengths=lengths))

    def loss(
        self, ids: Any, targets: Any, ignore_index: int | None = None, label_smoothing: float = 0.0, lengths: Any = None
    ) -> Tensor:
        """Mean cross-entropy over the targets that are not ignore_index.   ids, targets (B, T) → a single number

        lengths (B): without a causal mask, padding from there on is not seen"""
        hidden = self.base(ids, lengths=lengths)
        targets = same_shape("targets", targets, "ids", hidden.shape[:2])
        return self.head.loss(hidden, targets, ignore_index, label_smoothing)
