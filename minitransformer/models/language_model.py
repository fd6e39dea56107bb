"""Predicts words: the next one from those before, hidden ones from both sides, or missing ones from the whole text."""

from typing import Any

import numpy as np

import autograd.functional as F
from autograd import Tensor
from minitransformer.layers import Dropout, Head
from minitransformer.models.base import Model, TokenEmbedding, encoder
from minitransformer.models.inputs import integers, row_lengths, same_shape, token_ids, within
from minitransformer.module import Init, Module
from minitransformer.word_sample import WordSample


class Base(Module):
    """Words, positions and encoder layers: everything but the head.   ids (B, T) → (B, T, C)

    causal  each position sees those up to itself; else all real words of its row"""

    def __init__(
        self, vocab_size: int, d_model: int, n_heads: int, n_layers: int, d_ff: int, dropout: float, max_len: int,
        norm_first: bool, activation: str, scale_embedding: bool, positions: str, causal: bool = True, *, init: Init,
    ):  # fmt: skip
        self.causal = causal
        self.embedding = TokenEmbedding(vocab_size, d_model, max_len, scale_embedding, positions, init=init)
        self.dropout = Dropout(dropout, init=init)
        self.encoder = encoder(n_layers, d_model, n_heads, d_ff, dropout, activation, norm_first, init)

    def forward(self, ids: Any, cache: Any = None, only: Any = None, lengths: Any = None) -> Tensor:
        """cache    ids are the words that follow those already read
        only     (B) the one position of each row that is wanted → (B, 1, C)
        lengths  (B) real words in each row, padded on the right; where a causal mask hides what comes later, they
                 change nothing"""
        ids = token_ids("ids", ids, self.embedding.vocabulary, self.embedding.max_len)
        lengths = row_lengths("lengths", lengths, *ids.shape)
        if cache is not None and not self.causal:
            raise ValueError("a model that reads both sides has no cache: each new word changes what it read before")
        starts, caches = (None, None) if cache is None else (cache.lengths, cache.layers)
        x = self.dropout(self.embedding(ids, starts))
        seen = None if self.causal else lengths
        return self.encoder(x, is_causal=self.causal, key_lengths=seen, caches=caches, only=only)

    def mean(self, ids: Any, lengths: Any = None) -> Tensor:
        """Σ over t < lengths[b] of base(ids)[b, t] / lengths[b]: the text as a whole.   ids (B, T) → (B, C)"""
        x = self(ids, lengths=lengths)
        B, T, C = x.shape
        lengths = row_lengths("lengths", lengths, B, T)
        xp = x.backend.xp
        ends = x.backend.asarray(np.full(B, T) if lengths is None else lengths)[:, None, None]
        weights = xp.where(xp.arange(T) < ends, 1 / ends, 0.0).astype(x.dtype)  # (B, 1, T)
        return (Tensor(weights, backend=x.backend) @ x).reshape(B, C)


class LanguageModel(Model):
    """Transformer with a linear head over the vocabulary; the defaults are the first lab's model.

    vocab_size       V, words or pieces            d_ff         F, width inside the feed-forward layers
    d_model          C, width of the network       dropout      part of the activations dropped while training
    n_heads          H, must divide C              max_len      longest sequence
    n_layers         encoder layers                seed         of weights and dropout; None: no values, to count
    norm_first       norm before each sublayer instead of after it, and once at the end
    activation       relu, gelu or tanh
    tie_weights      the head uses the embedding table as its weight
    scale_embedding  words times √C
    positions        sinusoidal or learned
    causal           each word is predicted from those before it; False: hidden words from both sides
    whole            words that were taken out of the text, wherever they stood, from the mean of what pre-norm layers
                     have summed up over the others; no norm closes them, so that some words can be louder"""

    def __init__(
        self,
        vocab_size: int,
        d_model: int = 200,
        n_heads: int = 2,
        n_layers: int = 4,
        d_ff: int = 200,
        dropout: float = 0.0,
        max_len: int = 512,
        seed: int | None = 0,
        *,
        norm_first: bool = False,
        activation: str = "relu",
        tie_weights: bool = False,
        scale_embedding: bool = True,
        positions: str = "sinusoidal",
        causal: bool = True,
        whole: bool = False,
        dtype: str = "float32",
    ):
        super().__init__(locals())
        if whole and not norm_first:
            raise ValueError("whole=True reads what pre-norm layers have summed up: give norm_first=True")
        self.base = Base(
            vocab_size, d_model, n_heads, n_layers, d_ff, dropout, max_len,
            norm_first, activation, scale_embedding, positions, causal, init=self.init,
        )  # fmt: skip
        self.whole = whole
        if whole:
            self.base.encoder.norm = None
        tied = self.base.embedding.weight if tie_weights else None
        self.head = Head(d_model, vocab_size, tied=tied, init=self.init)

    def base_config(self) -> dict[str, Any]:
        """The arguments that make its base, without those of the head: what a classifier on this base is built with."""
        return {name: value for name, value in self.config().items() if name not in ("tie_weights", "whole")}

    def forward(self, ids: Any, lengths: Any = None) -> Tensor:
        """Scores of each word as the next one, or as the one hidden there.   ids (B, T) → logits (B, T, V)

        With `whole`, scores of each word as one that was taken out of the text.   → (B, V)"""
        return self.head(self.base.mean(ids, lengths) if self.whole else self.base(ids, lengths=lengths))

    def loss(
        self,
        ids: Any,
        targets: Any,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        lengths: Any = None,
        sample: WordSample | None = None,
    ) -> Tensor:
        """Mean cross-entropy over the targets that are not ignore_index.   ids, targets (B, T) → a single number

        lengths (B): without a causal mask, padding from there on is not seen
        sample: an estimate, for which a sample of the words is scored instead of all
        With `whole` the targets (B, K) are the words that were taken out of each text, in any order."""
        if self.whole:
            if sample is not None:
                raise ValueError("a bag of words is predicted once for a whole text: it needs no sample of the words")
            return self._loss_of_bags(ids, targets, ignore_index, label_smoothing, lengths)
        hidden = self.base(ids, lengths=lengths)
        targets = same_shape("targets", targets, "ids", hidden.shape[:2])
        if sample is not None:
            if label_smoothing:
                raise ValueError("label_smoothing spreads over all words, and a sample has few of them: give one only")
            return self.head.sampled_loss(hidden, targets, sample, self.init.dropout_seeds.next(), ignore_index)
        return self.head.loss(hidden, targets, ignore_index, label_smoothing)

    def _loss_of_bags(
        self, ids: Any, targets: Any, ignore_index: int | None, label_smoothing: float, lengths: Any
    ) -> Tensor:
        """All words of a bag share the one prediction for their text, so a bag is a row of weights over the words."""
        if label_smoothing:
            raise ValueError("label_smoothing is for one target in each place: a bag of words has none")
        logits = self(ids, lengths)
        B, V = logits.shape
        targets = np.asarray(integers("targets", targets))
        if targets.ndim != 2 or len(targets) != B:
            raise ValueError(f"targets must have shape ({B}, K), a row for each text, not {targets.shape}")
        rows, places = np.nonzero(targets != ignore_index)
        if not len(rows):
            raise ValueError("targets: every one is ignore_index; give a word to predict")
        words = targets[rows, places]
        within("targets", words, 0, V - 1, "words")
        bags = np.zeros((B, V), dtype=logits.dtype)
        np.add.at(bags, (rows, words), 1 / len(rows))
        return -(F.log_softmax(logits) * Tensor(bags, backend=logits.backend)).sum()
