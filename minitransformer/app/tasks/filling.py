"""Shows what a language model makes of gaps in a text it was not trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autograd import no_grad
from minitransformer.app.data import BASE_SPECIALS
from minitransformer.app.data.batches.bert import CHOSEN, ordinary_words
from minitransformer.app.data.batches.padded import with_start
from minitransformer.app.tasks.text_codec import TextCodec

SHOWN = 20  # words of a text: what fits a line


def filled(model: Any, codec: TextCodec, documents: Sequence[Any], n: int) -> list[str]:
    """The beginnings of the first n texts that have a word to hide: "the [MASK] sleeps → cat (it was: dog)"."""
    tokenizer = codec.tokenizer
    starts = [with_start(document, min(SHOWN + 1, model.config.max_len)) for document in documents[: 20 * n]]
    usable = [ids for ids in starts if len(ordinary_words(ids, tokenizer))]
    return [_filled(model, codec, ids) for ids in usable[:n]]


def _filled(model: Any, codec: TextCodec, ids: np.ndarray) -> str:
    tokenizer, words = codec.tokenizer, ordinary_words(ids, codec.tokenizer)
    count = max(1, round(CHOSEN * len(words)))
    chosen = np.sort(np.random.default_rng(0).permutation(words)[:count])
    gaps = ids.copy()
    gaps[chosen] = tokenizer.special("[MASK]")
    model.eval()
    with no_grad():
        scores = model(gaps[None]).numpy()[0, chosen]
    first, last = len(BASE_SPECIALS), tokenizer.first_extra  # a special is no guess
    guesses = first + scores[:, first:last].argmax(axis=1)
    guessed, hidden = (", ".join(piece_text(tokenizer, token) for token in row) for row in (guesses, ids[chosen]))
    return f"{codec.decode(gaps[1:], keep_specials=True)} → {guessed} (it was: {hidden})"


def piece_text(tokenizer: Any, token: int) -> str:
    """A piece as text; one that is a space alone by its own name."""
    return tokenizer.decode([token]) or tokenizer.piece(token)
