"""Beam search: keeps the K most likely beginnings of each row, and continues all of them at once."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitransformer.decoding.constraints import forbid, log_softmax
from minitransformer.decoding.session import Session
from minitransformer.models import LanguageModel, Translator


@dataclass(frozen=True)
class Hypothesis:
    """A text that was found.

    tokens    its words, without prompt and eos
    log_prob  log of its probability, eos included
    score     log_prob divided by the length penalty: what texts are ranked by
    ended     whether eos came, or the room was used up"""

    tokens: list[int]
    log_prob: float
    score: float
    ended: bool


def penalty(length: int, alpha: float) -> float:
    """((5 + length) / 6)^alpha, eos counted. Without it (alpha = 0) short texts win, since each word costs."""
    return ((5 + length) / 6) ** alpha


def beam_search(
    model: LanguageModel | Translator,
    ids: Any,
    lengths: Any = None,
    *,
    beams: int = 4,
    max_new_tokens: int | None = None,
    eos: int | None = None,
    sos: int = 0,
    length_penalty: float = 0.6,
    no_repeat: int = 0,
    suppress: Collection[int] = (),
    use_cache: bool = True,
) -> list[list[Hypothesis]]:
    """For each row the best texts found, at most `beams`, best first. Other arguments as for `stream`.

    The search of a row stops when no open beginning can still beat the worst of `beams` finished texts: its
    probability only falls, and the penalty is largest at full length, which bounds what it can reach."""
    if beams < 1:
        raise ValueError(f"beams must be at least 1, not {beams}")
    if length_penalty < 0:
        raise ValueError(f"length_penalty must not be negative, not {length_penalty}")
    session = Session(model, ids, lengths, max_new_tokens=max_new_tokens, sos=sos, use_cache=use_cache)
    finished: list[list[Hypothesis]] = [[] for _ in range(len(session))]
    owner = np.arange(len(session))  # the row to which each open beginning belongs; together in the session
    log_prob = np.zeros(len(session))
    for step in range(1, session.room + 1):
        scores = session.next_logits()
        for i in range(len(session)):
            forbid(scores[i], session.history(i), no_repeat, eos, suppress)
            scores[i] = log_prob[i] + log_softmax(scores[i])
        chosen: list[tuple[int, int]] = []  # (open beginning, next word)
        for row in np.unique(owner):
            members = np.flatnonzero(owner == row)
            found = finished[row]
            last = step == session.room
            unfinished: list[tuple[int, int]] = []
            for i, word in _best(scores[members], 2 * beams):
                i = int(members[i])
                if word == eos or last:
                    words = session.new_words(i) + ([] if word == eos else [word])
                    value = float(scores[i, word])
                    found.append(Hypothesis(words, value, value / penalty(step, length_penalty), word == eos))
                elif len(unfinished) < beams:
                    unfinished.append((i, word))
            if any(scores[i].max() == -np.inf for i in members):
                _end_stuck(session, members, scores, log_prob, step, length_penalty, found)
            found.sort(key=lambda h: -h.score)
            del found[beams:]
            best_open = max((float(scores[i, word]) for i, word in unfinished), default=-np.inf)
            reachable = best_open / penalty(session.room, length_penalty)
            if len(found) < beams or reachable > found[-1].score:
                chosen += unfinished
        if not chosen:
            break
        parents, following = np.array(chosen).T
        log_prob, owner = scores[parents, following], owner[parents]
        session.select(parents)
        session.append(following)
    return finished


def _best(scores: np.ndarray, count: int) -> list[tuple[int, int]]:
    """The (row, column) pairs of the largest entries, best first, equal ones in order; never -inf.   scores (K, V)"""
    flat = scores.reshape(-1)
    if count < flat.size:
        border = np.partition(flat, flat.size - count)[flat.size - count]  # sorting all K·V entries would be slow
        candidates = np.flatnonzero(flat >= border)
    else:
        candidates = np.arange(flat.size)
    order = candidates[np.argsort(-flat[candidates], kind="stable")][:count]
    return [(int(n) // scores.shape[1], int(n) % scores.shape[1]) for n in order if flat[n] != -np.inf]


def _end_stuck(session, members, scores, log_prob, step, length_penalty, found) -> None:
    """A beginning after which every word is forbidden is a text of its own."""
    for i in members:
        if scores[i].max() == -np.inf:
            value = float(log_prob[i])
            score = value / penalty(max(step - 1, 1), length_penalty)
            found.append(Hypothesis(session.new_words(int(i)), value, score, False))
