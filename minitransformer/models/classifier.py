"""Says to which class a text belongs, on the base of a language model."""

from typing import Any, Self

import numpy as np

import autograd.functional as F
from autograd import Tensor
from minitransformer.layers import Head
from minitransformer.models.base import Model
from minitransformer.models.inputs import row_lengths, same_shape, token_ids, within
from minitransformer.models.language_model import Base, LanguageModel

POOLINGS = ("last", "mean", "last_column", "stream")


class Classifier(Model):
    """The language model's base with a head over classes. Its arguments are the language model's, and

    n_classes  how many classes
    pooling    what the head reads: "last", the last real word, in a causal base the only one that has seen them all;
               "mean" of the real words, natural where each has; "last_column", whatever stands last, which in a
               padded batch is padding for all but the longest row (the labs' flaw, kept to be measured);
               "stream", the mean of what the pre-norm layers have summed up, without the norm that would close
               them: a norm makes every word equally loud, and here a telling word can outweigh the others
    quiet_start  words and sublayers start small, so that a network from scratch starts as hardly more than the mean
               of its words, and words learn ten times as fast as the layers that add to them"""

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
        n_classes: int = 2,
        pooling: str = "last",
        quiet_start: bool = False,
        norm_first: bool = False,
        activation: str = "relu",
        scale_embedding: bool = True,
        positions: str = "sinusoidal",
        causal: bool = True,
        dtype: str = "float32",
    ):
        super().__init__(locals())
        if pooling not in POOLINGS:
            raise ValueError(f"pooling must be one of {', '.join(POOLINGS)}, not {pooling!r}")
        if pooling == "stream" and not norm_first:
            raise ValueError("pooling='stream' reads what pre-norm layers have summed up: give norm_first=True")
        self.base = Base(
            vocab_size, d_model, n_heads, n_layers, d_ff, dropout, max_len,
            norm_first, activation, scale_embedding, positions, causal, init=self.init,
        )  # fmt: skip
        if pooling == "stream":
            self.base.encoder.norm = None
        self.pooling, self.n_classes = pooling, n_classes
        self.head = Head(d_model, n_classes, init=self.init)
        if quiet_start:
            self._quieten(values=seed is not None)

    def _quieten(self, values: bool) -> None:
        """Words at a tenth of their usual size, and what each sublayer adds to them at a twentieth.

        Adam moves every weight by about the learning rate. A word's weights are stored at a hundredth and multiplied
        by ten times the usual factor, so that the word moves ten times as far.   values: False for a model to count"""
        self.base.embedding.scale *= 10
        if not values:
            return
        weights = self.base.state_dict()
        for name in weights:
            if name == "embedding.weight":
                weights[name] *= 0.01
            elif name.endswith(("out_proj.weight", "linear2.weight")):
                weights[name] *= 0.05
        self.base.load_state_dict(weights)

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
        if share and pooling == "stream" and not lm.whole:
            raise ValueError("pooling='stream' does without a norm that the language model needs; give share=False")
        if lm.whole and pooling != "stream":
            raise ValueError(f"pooling={pooling!r}: this base was trained to be read by pooling='stream'")
        config = lm.base_config()
        if dropout is not None:
            config["dropout"] = dropout
        classifier = cls(**config | {"n_classes": n_classes, "pooling": pooling, "seed": seed}).to(lm.backend.name)
        if share:
            classifier.base = lm.base
            classifier.init.dropout_seeds = lm.init.dropout_seeds
        else:
            wanted = classifier.base.state_dict()
            classifier.base.load_state_dict({n: array for n, array in lm.base.state_dict().items() if n in wanted})
        return classifier

    def forward(self, ids: Any, lengths: Any = None) -> Tensor:
        """ids (B, T), padded on the right; lengths (B) real words in each row → logits (B, n_classes)"""
        embedding = self.base.embedding
        ids = token_ids("ids", ids, embedding.vocabulary, embedding.max_len)
        B, T = ids.shape
        lengths = row_lengths("lengths", lengths, B, T)
        ends = np.full(B, T) if lengths is None or self.pooling == "last_column" else lengths
        if self.pooling in ("mean", "stream"):
            return self.head(self.base.mean(ids, lengths))
        # the last layer's other positions would be computed for nobody
        read = self.base(ids, only=ends - 1, lengths=lengths)
        return self.head(read.reshape(B, -1))

    def loss(self, ids: Any, labels: Any, lengths: Any = None) -> Tensor:
        """Mean cross-entropy.   labels (B) → a single number"""
        logits = self(ids, lengths)
        labels = same_shape("labels", labels, "the batch", logits.shape[:1])
        within("labels", labels, 0, self.n_classes - 1, "classes")
        return F.cross_entropy(logits, labels)
