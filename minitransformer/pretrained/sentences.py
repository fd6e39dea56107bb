"""Texts as vectors, so that texts of like meaning lie close together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autograd import no_grad
from minitransformer.pretrained.tokenizer import Tokenizer

LONGEST = 256  # pieces; MiniLM was trained on texts up to this length
ROWS = 32


def vectors(
    model: Any,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    shown: Callable[[int], None] = lambda done: None,
    longest: int = LONGEST,
) -> np.ndarray:
    """A row of length 1 for each text.   → (n, C)

    shown    is told how many are done
    longest  only so many pieces of a text are read"""
    longest = min(longest, model.config.max_len)
    rows = [tokenizer.encode(text, parse_special=False, max_len=longest) for text in texts]
    made = np.empty((len(rows), model.config.d_model), np.float32)
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))  # alike in length: little padding
    with no_grad():
        for start in range(0, len(order), ROWS):
            chosen = order[start : start + ROWS]
            lengths = np.array([len(rows[i]) for i in chosen])
            ids = np.zeros((len(chosen), lengths.max()), np.int64)
            for row, i in enumerate(chosen):
                ids[row, : lengths[row]] = rows[i]
            made[chosen] = model.sentences(ids, lengths).numpy()
            shown(start + len(chosen))
    return made
