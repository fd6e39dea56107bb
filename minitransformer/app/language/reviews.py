"""Book reviews with a known truth: P(review), P(label | review), and which sentence may follow which."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from minitransformer.app.language.automaton import END, Automaton
from minitransformer.app.language.decision import best_accuracy
from minitransformer.app.language.grammar import Words
from minitransformer.app.language.language import Language, as_sentence, check_draw
from minitransformer.app.language.review_grammar import KINDS, review

NEGATIVE, POSITIVE = 0, 1
STOP = "."  # the word that closes a sentence of a review


class Review(NamedTuple):
    """The words of a review, and its label: 1 praises, 0 blames."""

    words: Words
    label: int


class SentencePair(NamedTuple):
    """Two sentences; `is_next` says whether the second one followed the first in one review."""

    first: Words
    second: Words
    is_next: bool


class Reviews(Language):
    """The language of all reviews. `given[label]` is the language of the reviews with that label."""

    def __init__(self) -> None:
        automaton = Automaton()
        with automaton.growing():
            roots = [
                automaton.mix(
                    (1.0, automaton.compile(review(label, kind, woman))) for kind in KINDS for woman in (True, False)
                )
                for label in (NEGATIVE, POSITIVE)
            ]
            root = automaton.mix((0.5, root) for root in roots)
        super().__init__(automaton, root)
        self.given = tuple(Language(automaton, root) for root in roots)

    def sample_labelled(self, n: int, seed: int, label: int | None = None) -> list[Review]:
        """n reviews with their labels, both labels equally likely unless one is asked for."""
        check_draw(n, seed)
        if label not in (None, NEGATIVE, POSITIVE):
            raise ValueError(f"label is {label!r}: give 0 (negative), 1 (positive) or None (either)")
        generator = np.random.Generator(np.random.PCG64(seed))
        labels = generator.integers(0, 2, n) if label is None else np.full(n, label)
        drawn = [iter(self.given[y].draw(int(np.sum(labels == y)), generator)) for y in (NEGATIVE, POSITIVE)]
        return [Review(next(drawn[y]), y) for y in labels.tolist()]

    def label_posterior(self, review: str | Sequence[str]) -> float:
        """P(label = 1 | words), exact: 0.5 for a review that never commits itself."""
        words = as_sentence(review, "review")
        negative, positive = (language.log_probability(words) for language in self.given)
        if max(negative, positive) == -math.inf:
            raise ValueError(f"review {' '.join(words)!r} has probability 0: give one the grammar can produce")
        return 1 / (1 + math.exp(negative - positive)) if positive > -math.inf else 0.0

    def best_accuracy(self) -> float:
        """The accuracy of the best possible classifier, which names the likelier label; exact."""
        return best_accuracy(self.automaton, self.given[NEGATIVE].root, self.given[POSITIVE].root)

    @cached_property
    def neighbours(self) -> Language:
        """The language of two sentences in a row, drawn uniformly among all neighbours in all reviews."""
        automaton = self.automaton
        kept: dict[tuple[int, int], tuple[float, int]] = {}

        def keep(node: int, to_go: int) -> tuple[float, int]:
            """P(`to_go` more sentences follow the node), and the language of just these."""
            if to_go == 0:
                return 1.0, automaton.stop
            if (node, to_go) not in kept:
                arcs = {}
                for word, (p, target) in automaton.arcs[node].items():
                    mass, rest = (0.0, 0) if word == END else keep(target, to_go - (word == STOP))
                    if mass:
                        arcs[word] = p * mass, rest
                total = math.fsum(p for p, _ in arcs.values())
                scaled = {word: (p / total, rest) for word, (p, rest) in arcs.items()}
                kept[node, to_go] = total, automaton.node(scaled) if total else 0
            return kept[node, to_go]

        starts = [(mass, keep(node, 2)) for node, mass in _sentence_starts(self).items()]
        return Language(automaton, automaton.mix((mass * share, node) for mass, (share, node) in starts if share))

    @cached_property
    def second_sentences(self) -> Language:
        """The language of the second of two neighbours, whatever the first one was."""
        starts = _sentence_starts(self.neighbours)
        del starts[self.neighbours.root]
        return Language(self.automaton, self.automaton.mix((mass, node) for node, mass in starts.items()))

    def sentence_pairs(self, n: int, seed: int) -> list[SentencePair]:
        """n pairs for next-sentence prediction: half of them neighbours, half with a stranger."""
        check_draw(n, seed)
        generator = np.random.Generator(np.random.PCG64(seed))
        follows = (generator.integers(0, 2, n) == 1).tolist()
        true, other = self.neighbours.draw(n, generator), self.second_sentences.draw(n, generator)
        cuts = [words.index(STOP) + 1 for words in true]
        return [
            SentencePair(words[:cut], words[cut:] if is_next else random, is_next)
            for words, cut, random, is_next in zip(true, cuts, other, follows, strict=True)
        ]

    def next_sentence_posterior(self, first: str | Sequence[str], second: str | Sequence[str]) -> float:
        """P(is_next | both sentences) for pairs drawn as in `sentence_pairs`, exact."""
        one, two = as_sentence(first, "first sentence"), as_sentence(second, "second sentence")
        before = self.neighbours.prefix_log_probability(one)
        apart = self.second_sentences.log_probability(two)
        if before == -math.inf or one.count(STOP) != 1 or apart == -math.inf:
            raise ValueError(f"{' '.join(one)!r} then {' '.join(two)!r} never occur: give sentences of sampled reviews")
        together = self.neighbours.log_probability(one + two) - before
        return 1 / (1 + math.exp(apart - together)) if together > -math.inf else 0.0

    def best_next_sentence_accuracy(self) -> float:
        """The accuracy of the best possible next-sentence classifier, exact.

        First sentences that lead to the same node allow the same second sentences: one decision problem per
        node.
        """
        starts = _sentence_starts(self.neighbours)
        del starts[self.neighbours.root]
        apart = self.second_sentences.root
        return math.fsum(mass * best_accuracy(self.automaton, node, apart) for node, mass in starts.items())


def _sentence_starts(language: Language) -> dict[int, float]:
    """Nodes at which a sentence begins, and how often a random text passes there."""
    arcs, starts = language.automaton.arcs, {language.root: 1.0}
    for node, mass in language.automaton.visits(language.root).items():
        if STOP in arcs[node]:
            p, target = arcs[node][STOP]
            if target != language.automaton.stop:
                starts[target] = starts.get(target, 0.0) + mass * p
    return starts


def split_sentences(words: str | Sequence[str]) -> list[Words]:
    """The sentences of a review, each with its final full stop."""
    sentences: list[list[str]] = [[]]
    for word in as_sentence(words, "review"):
        sentences[-1].append(word)
        if word == STOP:
            sentences.append([])
    return [tuple(sentence) for sentence in sentences if sentence]
