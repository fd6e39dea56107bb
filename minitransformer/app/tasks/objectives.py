"""What a language model can learn to predict: the next word of a text, or words that were hidden in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitransformer.app.data import LanguageModelBatches, MaskedBatches, Tokenizer
from minitransformer.app.data.batches.bert import CHOSEN
from minitransformer.app.tasks.filling import filled
from minitransformer.app.tasks.text_codec import TextCodec
from minitransformer.app.tasks.trained import setting
from minitransformer.app.training.checkpoints import Checkpoint
from minitransformer.decoding import generate
from minitransformer.errors import make_or_refuse
from minitransformer.models import LanguageModel

Documents = Sequence[np.ndarray]


@dataclass(frozen=True)
class Objective:
    """What is predicted, by which model, from which batches; and the words in which people are told."""

    name: str
    model: type[LanguageModel]
    causal: bool
    batch_kind: Callable[..., Any]
    pooling: str  # what a classifier on the model's base reads, unless told otherwise
    help: str  # for the command line
    title: str  # of the model
    word: str  # what the loss is counted by
    try_next: str  # the command that makes use of such a model, and its flag for a run
    examples: Callable[[Any, TextCodec, Documents], list[tuple[str, str]]]  # model, codec, texts → what to show
    rate: float | None = None  # part of the words that are hidden, unless told otherwise; None: none are
    found: str = ""  # how hidden words are found
    specials: tuple[str, ...] = ()  # that the vocabulary must have

    def batches(self, documents: Documents, tokenizer: Tokenizer, rate: float | None = None, **how: Any) -> Any:
        """rate: part of the words that are hidden, if it is not the usual one"""
        if self.rate is None:
            return make_or_refuse(self.batch_kind, documents, **how)
        return make_or_refuse(self.batch_kind, documents, tokenizer, rate=rate or self.rate, **how)


def _written(model: LanguageModel, codec: TextCodec, _documents: Documents) -> list[tuple[str, str]]:
    """Two texts of its own."""
    texts = generate(
        model, [[Tokenizer.sos]] * 2, max_new_tokens=min(40, model.config.max_len - 1), eos=Tokenizer.eos,
        temperature=0.8, suppress=(Tokenizer.sos, Tokenizer.pad), seed=1,
    )  # fmt: skip
    return [("it says", codec.decode(ids)) for ids in texts]


def _filled(model: LanguageModel, codec: TextCodec, documents: Documents) -> list[tuple[str, str]]:
    return [("fills in", text) for text in filled(model, codec, documents, 2)]


NEXT = Objective(
    "next", LanguageModel, causal=True, batch_kind=LanguageModelBatches, pooling="last",  # which has read all others
    help="predict the next word", title="language model", word="word", try_next="generate --model", examples=_written,
)  # fmt: skip
MASKED = Objective(
    "masked", LanguageModel, causal=False, batch_kind=MaskedBatches, pooling="mean",  # each has read all others
    help="hidden words, from both sides", title="masked language model", word="hidden word",
    try_next="finetune --from", examples=_filled, rate=CHOSEN, found="from both sides", specials=("[MASK]",),
)  # fmt: skip
OBJECTIVES: Mapping[str, Objective] = {objective.name: objective for objective in (NEXT, MASKED)}


def objective_name(checkpoint: Checkpoint) -> str:
    """What the language model in a checkpoint was trained to predict: what its run noted, else what its model shows."""
    causal = checkpoint.model["config"].get("causal", True)
    return str(setting(checkpoint, "objective") or ("next" if causal else "masked"))
