"""Shows what a language model makes of gaps in a text it was not trained on, or of what else such a text may say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import autograd.functional as F
from autograd import no_grad
from minitransformer.app.data import BASE_SPECIALS
from minitransformer.app.data.batches.bert import CHOSEN, ordinary_words
from minitransformer.app.data.batches.padded import with_start
from minitransformer.app.tasks.wording import Wording

_SHOWN = 20  # words of a text: what fits a line
_EXPECTED, _OTHERS = 6, 64  # words named for a text, and texts that tell what is expected of any


def filled(model: Any, wording: Wording, documents: Sequence[Any], n: int) -> list[str]:
    """The beginnings of the first n texts that have a word to hide: "the [MASK] sleeps → cat (it was: dog)"."""
    tokenizer = wording.tokenizer
    starts = [with_start(document, min(_SHOWN + 1, model.config.max_len)) for document in documents[: 20 * n]]
    usable = [ids for ids in starts if len(ordinary_words(ids, tokenizer))]
    return [_filled(model, wording, ids) for ids in usable[:n]]


def _filled(model: Any, wording: Wording, ids: np.ndarray) -> str:
    tokenizer, words = wording.tokenizer, ordinary_words(ids, wording.tokenizer)
    count = max(1, round(CHOSEN * len(words)))
    chosen = np.sort(np.random.default_rng(0).permutation(words)[:count])
    gaps = ids.copy()
    gaps[chosen] = tokenizer.special("[MASK]")
    model.eval()
    with no_grad():
        scores = model(gaps[None]).numpy()[0, chosen]
    first, last = len(BASE_SPECIALS), tokenizer.first_extra  # a special is no guess
    guesses = first + scores[:, first:last].argmax(axis=1)
    guessed, hidden = (", ".join(_shown(tokenizer, token) for token in row) for row in (guesses, ids[chosen]))
    return f"{wording.decode(gaps[1:], keep_specials=True)} → {guessed} (it was: {hidden})"


def expected(model: Any, wording: Wording, documents: Sequence[Any], n: int) -> list[str]:
    """The beginnings of the first n texts, each with words that are likelier in it than in others and not seen there:
    "a dull film about … → boring, waste, worst"."""
    tokenizer, max_len = wording.tokenizer, model.config.max_len
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
        beginning = wording.decode(ids[1 : _SHOWN + 1])
        lines.append(f"{beginning} … → {', '.join(_shown(tokenizer, int(token)) for token in best)}")
    return lines


def _shown(tokenizer: Any, token: int) -> str:
    """A piece as text; one that is a space alone by its own name."""
    return tokenizer.decode([token]) or tokenizer.piece(token)
