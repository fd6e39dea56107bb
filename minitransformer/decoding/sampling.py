"""Writing word by word: the most likely one each time, or one drawn from the distribution."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from minitransformer.decoding.constraints import draw, forbid, probabilities
from minitransformer.decoding.session import Session
from minitransformer.models import LanguageModel, Translator

ENDED = -1  # stands for "no word" in a stream


def stream(
    model: LanguageModel | Translator,
    ids: Any,
    lengths: Any = None,
    *,
    max_new_tokens: int | None = None,
    eos: int | None = None,
    sos: int | Sequence[int] = 0,
    sample: bool = False,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    no_repeat: int = 0,
    suppress: Collection[int] = (),
    seed: int = 0,
    use_cache: bool = True,
) -> Iterator[np.ndarray]:
    """Yields the next word of each row (B) as soon as it is known; -1 for rows that have ended.

    ids, lengths    prompts to continue (LanguageModel) or sentences to translate (Translator), padded on the right
    max_new_tokens  at most so many words a row; up to the model's max_len if not given
    eos             the word that ends a row; it is not yielded
    sos             the word, or words, that a translation starts from
    sample          draw each word instead of taking the most likely; set by temperature, top_k or top_p too
    temperature     below 1 sharpens, above 1 flattens the distribution
    top_k, top_p    draw from the k most likely words, or from the fewest that reach probability p together
    no_repeat       n: no n words in a row come twice; 1: no word comes twice (a prompt counts)
    suppress        words that never come
    seed            same seed, same words; each row has a sequence of its own"""
    sample = sample or temperature != 1.0 or top_k is not None or top_p is not None
    _check_options(temperature, top_k, top_p, no_repeat)
    session = Session(model, ids, lengths, max_new_tokens=max_new_tokens, sos=sos, use_cache=use_cache)
    return _words(session, eos, no_repeat, suppress, (temperature, top_k, top_p) if sample else None, seed)


def _words(
    session: Session, eos: int | None, no_repeat: int, suppress: Collection[int], how: tuple | None, seed: int
) -> Iterator[np.ndarray]:
    rows = len(session)
    active = np.arange(rows)  # which row each of the session's is; ended rows leave the session
    random = [np.random.Generator(np.random.PCG64([seed, row])) for row in range(rows)]
    for _ in range(session.room):
        scores = session.next_scores() if how is None else session.next_logits()
        words, unfinished = np.full(rows, ENDED), []
        for i, row in enumerate(active):
            if no_repeat or suppress:
                forbid(scores[i], session.history(i), no_repeat, eos, suppress)
            word = int(scores[i].argmax())
            if scores[i, word] == -np.inf:
                continue  # every word is forbidden: the row ends here
            if how is not None:
                word = draw(probabilities(scores[i], *how), random[row].random())
            if word != eos:
                words[row] = word
                unfinished.append(i)
        if not unfinished:
            return
        yield words
        if len(unfinished) < len(active):
            session.select(unfinished)
            active = active[unfinished]
        session.append(words[active])


def generate(
    model: LanguageModel | Translator,
    ids: Any,
    lengths: Any = None,
    *,
    on_token: Callable[[np.ndarray], None] | None = None,
    **options: Any,
) -> list[list[int]]:
    """The new words of each row, without the prompt and without eos. Options as for `stream`.

    on_token is called with each step's words (B) as they come."""
    rows: list[list[int]] | None = None
    for words in stream(model, ids, lengths, **options):
        if on_token is not None:
            on_token(words)
        rows = [[] for _ in words] if rows is None else rows
        for row, word in zip(rows, words.tolist(), strict=True):
            if word != ENDED:
                row.append(word)
    return [[] for _ in range(len(ids))] if rows is None else rows


def _check_options(temperature: float, top_k: int | None, top_p: float | None, no_repeat: int) -> None:
    if not 0 < temperature < float("inf"):
        raise ValueError(f"temperature must be above 0, not {temperature}; for the most likely words leave it out")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1, not {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p must be above 0 and at most 1, not {top_p}")
    if no_repeat < 0:
        raise ValueError(f"no_repeat must not be negative, not {no_repeat}")
