"""English-French sentence pairs with known probabilities, in both languages and between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from minitransformer.app.language.automaton import Automaton
from minitransformer.app.language.contact import english_contact, french_contact, join
from minitransformer.app.language.grammar import Expression, Parser, Words, derivation_entropy, draw
from minitransformer.app.language.language import Language, as_sentence, check_draw
from minitransformer.app.language.pair_grammar import sentences


class Pair(NamedTuple):
    """An English sentence and its French translation, as tokens."""

    english: Words
    french: Words


class Pairs:
    """All pairs. `english` and `french` are its two sides, each with every method of `Language`."""

    def __init__(self, expression: Expression | None = None) -> None:
        self.expression = sentences() if expression is None else expression
        self._parser = Parser(self.expression)

    @cached_property
    def english(self) -> Language:
        automaton = Automaton()
        return Language(automaton, automaton.compile(self.expression, 0, english_contact))

    @cached_property
    def french(self) -> Language:
        automaton = Automaton()
        return Language(automaton, automaton.compile(self.expression, 1, french_contact))

    def sample(self, n: int, seed: int) -> list[Pair]:
        """n independent pairs; the same seed gives the same pairs everywhere."""
        check_draw(n, seed)
        uniform = np.random.Generator(np.random.PCG64(seed)).random
        stock: list[float] = []

        def supply() -> float:
            if not stock:
                stock.extend(uniform(4096).tolist())
            return stock.pop()

        drawn = (draw(self.expression, supply) for _ in range(n))
        return [Pair(join(english, english_contact), join(french, french_contact)) for english, french in drawn]

    def _joint(self, english: str | Sequence[str]) -> dict[Words, float]:
        """French sentence -> P(both)."""
        words = as_sentence(english, "English sentence")
        bare = tuple("a" if word == "an" else word for word in words)
        if join(bare, english_contact) != words:
            return {}  # "a apple", "an car"
        found: dict[Words, float] = {}
        for other, p in self._parser.second_tapes(bare).items():
            french = join(other, french_contact)
            found[french] = found.get(french, 0.0) + p
        return found

    def translations(self, english: str | Sequence[str]) -> dict[str, float]:
        """French sentence -> P(French | English), likeliest first; an error if nobody says that English."""
        joint = self._joint(english)
        if not joint:
            text = " ".join(as_sentence(english))
            raise ValueError(f"English sentence {text!r} has probability 0: give one the grammar can produce")
        total = math.fsum(joint.values())
        return {" ".join(words): p / total for words, p in sorted(joint.items(), key=lambda item: -item[1])}

    def translate(self, english: str | Sequence[str]) -> str:
        """The likeliest French translation, as a string of tokens."""
        return next(iter(self.translations(english)))

    def log_probability(self, english: str | Sequence[str], french: str | Sequence[str]) -> float:
        """ln P(English and French); -inf when they do not translate each other."""
        p = self._joint(english).get(as_sentence(french, "French sentence"), 0.0)
        return math.log(p) if p else -math.inf

    def entropy(self) -> float:
        """Entropy of a pair in nats: that of the derivation, since no two derivations give the same pair."""
        return derivation_entropy(self.expression)

    def translation_entropy(self) -> float:
        """H(French | English) = H(pair) - H(English): what even a perfect translator cannot know."""
        return max(self.entropy() - self.english.entropy(), 0.0)

    def best_translation_loss(self) -> float:
        """The lowest loss per French word (end of sentence included) that a translator can reach."""
        return self.translation_entropy() / self.french.expected_length()

    def vocabulary(self) -> tuple[list[str], list[str]]:
        """The English and the French words, each in alphabetical order."""
        return self.english.vocabulary(), self.french.vocabulary()
