"""Says to which class a text belongs, on the base of a language model."""

from dataclasses import replace
from typing import Any, Self

import numpy as np

import autograd.functional as F
from autograd import Tensor
from minitransformer.layers import Head
from minitransformer.models.base import Model
from minitransformer.models.inputs import row_lengths, same_shape, token_ids, within
from minitransformer.models.language_model import Base, LanguageModel


class Classifier(Model):
    """The language model's base with a head over classes. `pooling` says what the head reads:

    last         the last real word, in a causal base the only one that has seen them all
    mean         the mean of the real words, natural where each has seen all
    last_column  whatever stands last, which in a padded batch is padding for all but the longest row: the labs' flaw,
                 kept to be measured"""

    kind = "Classifier"

    def __init__(self, *sizes: Any, **settings: Any):
        super().__init__(*sizes, **settings)
        self.base = Base(self.config, init=self.init)
        self.head = Head(self.config.d_model, self.config.n_classes, init=self.init)

    @classmethod
    def from_language_model(
        cls,
        lm: LanguageModel,
        n_classes: int = 2,
        *,
        pooling: str = "last",
        seed: int = 0,
        share: bool = False,
        dropout: float | None = None,
    ) -> Self:
        """The same base under a new head.

        The base is copied bit for bit, so that training the classifier leaves the language model as it is; with
        share=True both use the same weights. A dropout of its own may be given to a copy: few labels want more."""
        if share and dropout is not None:
            raise ValueError("a shared base keeps its dropout; give share=False to choose another")
        config = replace(lm.config, n_classes=n_classes, pooling=pooling, seed=seed)
        if dropout is not None:
            config = replace(config, dropout=dropout)
        classifier = cls(config).to(lm.backend.name)
        if share:
            classifier.base = lm.base
            classifier.init.dropout_seeds = lm.init.dropout_seeds
        else:
            classifier._copy_base(lm.base)
        return classifier

    def _copy_base(self, base: Base) -> None:
        self.base.load_state_dict(base.state_dict())

    def forward(self, ids: Any, lengths: Any = None) -> Tensor:
        """ids (B, T), padded on the right; lengths (B) real words in each row → logits (B, n_classes)"""
        embedding = self.base.embedding
        ids = token_ids("ids", ids, embedding.vocab_size, embedding.max_len)
        B, T = ids.shape
        lengths = row_lengths("lengths", lengths, B, T)
        if self.config.pooling == "mean":
            return self.head(self.base.mean(ids, lengths))
        ends = np.full(B, T) if lengths is None or self.config.pooling == "last_column" else lengths
        # the last layer's other positions would be computed for nobody
        read = self.base(ids, only=ends - 1, lengths=lengths)
        return self.head(read.reshape(B, -1))

    def loss(self, ids: Any, labels: Any, lengths: Any = None) -> Tensor:
        """Mean cross-entropy.   labels (B) → a single number"""
        logits = self(ids, lengths)
        labels = same_shape("labels", labels, "the batch", logits.shape[:1])
        within("labels", labels, 0, self.config.n_classes - 1, "classes")
        return F.cross_entropy(logits, labels)
