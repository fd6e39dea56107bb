"""Bags of words as an objective of pretraining: words taken out of a text, wherever they stood, from the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import autograd.functional as F
from autograd import no_grad
from lessons.results.bag_batches import TAKEN, BagBatches
from lessons.results.models import BagModel
from minitransformer.app.data.batches.bert import ordinary_words
from minitransformer.app.data.batches.padded import with_start
from minitransformer.app.tasks.filling import SHOWN, piece_text
from minitransformer.app.tasks.objectives import Objective
from minitransformer.app.tasks.text_codec import TextCodec

_EXPECTED, _OTHERS = 6, 64  # words named for a text, and texts that tell what is expected of any


def expected(model: BagModel, codec: TextCodec, documents: Sequence[Any], n: int) -> list[str]:
    """The beginnings of the first n texts, each with words that are likelier in it than in others and not seen there:
    "a dull film about … → boring, waste, worst"."""
    tokenizer, max_len = codec.tokenizer, model.config.max_len
    texts = [with_start(document, max_len) for document in documents[:_OTHERS]]
    texts = [ids for ids in texts if len(ordinary_words(ids, tokenizer))]
    if not texts:
        return []
    model.eval()
    with no_grad():
        scores = np.concatenate([F.log_softmax(model(ids[None])).numpy() for ids in texts])
    lift = scores - scores.mean(axis=0)
    words = np.argsort(-scores.mean(axis=0))[: max(100, len(scores[0]) // 4)]  # rare ones rise by accident
    words = words[ordinary_words(words, tokenizer)]
    lines = []
    for ids, row in zip(texts[:n], lift, strict=False):
        new = words[~np.isin(words, ids)]
        best = new[np.argsort(-row[new])][:_EXPECTED]
        beginning = codec.decode(ids[1 : SHOWN + 1])
        lines.append(f"{beginning} … → {', '.join(piece_text(tokenizer, int(token)) for token in best)}")
    return lines


def _examples(model: BagModel, codec: TextCodec, documents: Sequence[Any]) -> list[tuple[str, str]]:
    return [("expects", text) for text in expected(model, codec, documents, 2)]


BAG = Objective(
    "bag", BagModel, causal=False, batch_kind=BagBatches, pooling="mean",
    help="words taken out of a text, wherever they stood, from the rest as a whole",
    title="language model of whole texts", word="missing word", try_next="finetune --from", examples=_examples,
    rate=TAKEN, found="from the others, wherever it stood",
)  # fmt: skip
