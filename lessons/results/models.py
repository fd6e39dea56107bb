"""Models and losses that only the results on real text use: bags of words, a sum that some words lead, a quiet start,
and the loss of a sample of the words. They train and load like any other model of minitransformer."""

from typing import Any, Self

import numpy as np

import autograd.functional as F
from autograd import Tensor
from lessons.results.word_sample import WordSample
from minitransformer.layers import Head
from minitransformer.models import Classifier, LanguageModel
from minitransformer.models.inputs import integers, same_shape, within
from minitransformer.models.language_model import Base


class BagModel(LanguageModel):
    """Predicts the words that were taken out of a text, wherever they stood, from the mean of what pre-norm layers have
    summed up over the others. No norm closes the layers, so that some words can be louder than others."""

    def __init__(self, *sizes: Any, **settings: Any):
        super().__init__(*sizes, **settings)
        _without_last_norm(self, "BagModel")

    def forward(self, ids: Any, lengths: Any = None) -> Tensor:
        """Scores of each word as one that was taken out.   ids (B, T) → (B, V)"""
        return self.head(self.base.mean(ids, lengths))

    def loss(
        self, ids: Any, targets: Any, ignore_index: int | None = None, label_smoothing: float = 0.0, lengths: Any = None
    ) -> Tensor:
        """Mean cross-entropy. targets (B, K): the words that were taken out of each text, in any order.

        All words of a bag share the one prediction for their text, so a bag is a row of weights over the words."""
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


class StreamClassifier(Classifier):
    """Reads the mean of what pre-norm layers have summed up, without the norm that would close them: a norm makes every
    word equally loud, and here a telling word can outweigh the others."""

    def __init__(self, *sizes: Any, **settings: Any):
        super().__init__(*sizes, **{"pooling": "mean"} | settings)
        _without_last_norm(self, type(self).__name__)

    @classmethod
    def from_language_model(cls, lm: LanguageModel, n_classes: int = 2, **options: Any) -> Self:
        """On the base of a BagModel, or on a copy of a LanguageModel's, without its last norm."""
        if options.get("share") and not isinstance(lm, BagModel):
            raise ValueError("the language model needs the norm that a StreamClassifier does without: share=False")
        return super().from_language_model(lm, n_classes, **options | {"pooling": "mean"})

    def _copy_base(self, base: Base) -> None:
        own = self.base.state_dict()
        self.base.load_state_dict({name: array for name, array in base.state_dict().items() if name in own})


class QuietClassifier(Classifier):
    """Words and sublayers start small, so that a network from scratch starts as hardly more than the mean of its words,
    and words learn ten times as fast as the layers that add to them.

    Adam moves every weight by about the learning rate. A word's weights are stored at a hundredth and multiplied by ten
    times the usual factor: the word starts at a tenth of its usual size, and moves ten times as far."""

    def __init__(self, *sizes: Any, **settings: Any):
        super().__init__(*sizes, **settings)
        self.base.embedding.scale *= 10
        if self.config.seed is None:
            return  # to count only: there are no values
        weights = self.base.state_dict()
        for name in weights:
            if name == "embedding.weight":
                weights[name] *= 0.01
            elif name.endswith(("out_proj.weight", "linear2.weight")):
                weights[name] *= 0.05
        self.base.load_state_dict(weights)


class QuietStreamClassifier(StreamClassifier, QuietClassifier):
    """Both."""


def _without_last_norm(model: Any, name: str) -> None:
    if not model.config.norm_first:
        raise ValueError(f"a {name} reads what pre-norm layers have summed up: give norm_first=True")
    model.base.encoder.norm = None


def sampled_loss(
    model: LanguageModel,
    ids: Any,
    targets: Any,
    sample: WordSample,
    ignore_index: int | None = None,
    lengths: Any = None,
) -> Tensor:
    """To train by: a rough estimate of `model.loss`, for which only the words of a sample are scored."""
    hidden = model.base(ids, lengths=lengths)
    targets = same_shape("targets", targets, "ids", hidden.shape[:2])
    return head_loss(model.head, hidden, targets, sample, model.init.dropout_seeds.next(), ignore_index)


def head_loss(
    head: Head, x: Tensor, targets: Any, sample: WordSample, seed: int, ignore_index: int | None = None
) -> Tensor:
    """x (..., C); targets (...) → a single number"""
    targets = np.asarray(targets)
    kept = targets != ignore_index
    drawn = sample.draw(targets[kept], seed)
    words = x.backend.asarray(drawn.words)
    bias = F.index(head.bias, words) - Tensor(drawn.log_q.astype(x.dtype), backend=x.backend)
    places = np.where(kept, drawn.places[np.where(kept, targets, 0)], -1)
    estimate = F.linear_cross_entropy(x, F.embedding(head.weight, words), bias, places, -1)
    return estimate - float(drawn.log_q[places[kept]].mean())  # a constant: it changes no gradient
