"""A language whose every probability is known: what one node of the automaton says about its sentences.

Sentences are given as a string of words separated by spaces, or as a sequence of words, without the
end-of-sentence word. Losses and entropies are in nats.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import numpy as np

from minitransformer.app.language.automaton import END, Arcs, Automaton
from minitransformer.app.language.grammar import Expression, Words
from minitransformer.app.language.sampler import Sampler

Table = dict[str, float]  # word -> probability


def as_words(sentence: str | Sequence[str], what: str = "sentence") -> Words:
    """Check and split what a caller gave."""
    if isinstance(sentence, str):
        words = tuple(sentence.split())
    elif isinstance(sentence, Sequence) and all(isinstance(word, str) for word in sentence):
        words = tuple(sentence)
    else:
        kind = type(sentence).__name__
        raise TypeError(f"{what} is {kind}: give a string of words with spaces, or a sequence of words")
    return words


def as_sentence(sentence: str | Sequence[str], what: str = "sentence") -> Words:
    """Like `as_words`, and refuse the empty sentence."""
    words = as_words(sentence, what)
    if not words:
        raise ValueError(f"{what} is empty: give at least one word")
    return words


def check_draw(n: int, seed: int) -> None:
    """Refuse numbers of samples and seeds that make no sense."""
    for name, value in (("n", n), ("seed", seed)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
            raise ValueError(f"{name} is {value!r}: give an integer >= 0")


class Language:
    """A probability distribution over sentences; see the package's docstring for the formalism."""

    def __init__(self, automaton: Automaton, root: int) -> None:
        self.automaton, self.root = automaton, root
        self._arcs = automaton.arcs
        self._order = automaton.order(root)
        self._sampler: Sampler | None = None

    @classmethod
    def of(cls, expression: Expression, tape: int = 0) -> Language:
        """The language of a grammar expression."""
        automaton = Automaton()
        return cls(automaton, automaton.compile(expression, tape))

    def vocabulary(self) -> list[str]:
        """All words in alphabetical order, END not among them."""
        return sorted({word for node in self._order for word in self._arcs[node]} - {END})

    def _walk(self, words: Words) -> tuple[float, int | None]:
        """ln P(a sentence starts with these words), and the node they lead to (None when impossible)."""
        node, total = self.root, 0.0
        for word in words:
            arc = self._arcs[node].get(word)
            if arc is None or word == END:
                return -math.inf, None
            total += math.log(arc[0])
            node = arc[1]
        return total, node

    def log_probability(self, sentence: str | Sequence[str]) -> float:
        """ln P(sentence), all derivations included; -inf for a sentence the grammar cannot say."""
        total, node = self._walk(as_sentence(sentence))
        arc = None if node is None else self._arcs[node].get(END)
        return -math.inf if arc is None else total + math.log(arc[0])

    def prefix_log_probability(self, prefix: str | Sequence[str]) -> float:
        """ln P(a sentence starts with these words); 0 for the empty prefix."""
        return self._walk(as_words(prefix, "prefix"))[0]

    def next_word_distribution(self, prefix: str | Sequence[str]) -> Table:
        """Word -> P(word | prefix), END included; the empty prefix is allowed."""
        words = as_words(prefix, "prefix")
        _, node = self._walk(words)
        if node is None:
            raise ValueError(f"prefix {' '.join(words)!r} has probability 0: give the start of some sentence")
        return {word: p for word, (p, _) in self._arcs[node].items()}

    @overload
    def masked_word_distribution(self, sentence: str | Sequence[str], positions: int) -> Table: ...

    @overload
    def masked_word_distribution(self, sentence: str | Sequence[str], positions: Iterable[int]) -> list[Table]: ...

    def masked_word_distribution(
        self, sentence: str | Sequence[str], positions: int | Iterable[int]
    ) -> Table | list[Table]:
        """P(hidden word | all words that are not hidden, and the length).

        One position gives one table word -> probability; several hidden together give one table per position,
        in the order asked, each summed over the other hidden words. What stands at a hidden position is not
        looked at.

        Forward-backward: alpha(node) = P(visible words before), beta(node) = P(visible words after | node);
        the posterior of an arc is alpha p beta / total. Only hidden positions branch.
        """
        words = as_sentence(sentence)
        hidden = list(positions) if isinstance(positions, Iterable) else [positions]
        if not hidden:
            raise ValueError("positions is empty: give at least one position to hide")
        for position in hidden:
            if not isinstance(position, int | np.integer) or not 0 <= position < len(words):
                raise ValueError(f"position is {position!r}: give an integer from 0 to {len(words) - 1}")
        visible = [None if place in hidden else word for place, word in enumerate(words)]
        layers: list[dict[int, float]] = [{self.root: 1.0}]
        for shown in visible:
            following: dict[int, float] = {}
            for node, alpha in layers[-1].items():
                for p, target in self._arcs_at(node, shown).values():
                    following[target] = following.get(target, 0.0) + alpha * p
            layers.append(following)
        beta = {node: self._arcs[node][END][0] for node in layers[-1] if END in self._arcs[node]}
        if not beta:
            raise ValueError(f"the visible words of {' '.join(words)!r} have probability 0: no sentence fits")
        tables: dict[int, Table] = {}
        for place, shown in reversed(list(enumerate(visible))):
            before: dict[int, float] = {}
            table: Table = {}
            for node, alpha in layers[place].items():
                for word, (p, target) in self._arcs_at(node, shown).items():
                    if target in beta:
                        inside = p * beta[target]
                        before[node] = before.get(node, 0.0) + inside
                        table[word] = table.get(word, 0.0) + alpha * inside
            beta = before
            if place in hidden:
                tables[place] = table
        total = beta[self.root]
        answers = [{word: mass / total for word, mass in sorted(tables[place].items())} for place in hidden]
        return answers if isinstance(positions, Iterable) else answers[0]

    def _arcs_at(self, node: int, word: str | None) -> Arcs:
        """The arcs with this word, or all of them for a hidden word. END leads nowhere and does no harm."""
        arcs = self._arcs[node]
        return arcs if word is None else {word: arcs[word]} if word in arcs else {}

    def surprise_moments(self) -> tuple[float, float]:
        """Mean and variance of -ln P(sentence) over the language, exact. The mean is the entropy.

        From the end backwards, with s = -ln p of an arc: m1(node) = sum p (s + m1), m2(node) = sum p (s^2 + 2
        s m1 + m2).
        """
        m1, m2 = {0: 0.0}, {0: 0.0}
        for node in reversed(self._order):
            if node:
                terms = [(p, -math.log(p), target) for p, target in self._arcs[node].values()]
                m1[node] = math.fsum(p * (s + m1[t]) for p, s, t in terms)
                m2[node] = math.fsum(p * (s * s + 2 * s * m1[t] + m2[t]) for p, s, t in terms)
        return m1[self.root], m2[self.root] - m1[self.root] ** 2

    def entropy(self) -> float:
        """Entropy of the sentence distribution in nats, exact: no sampling."""
        return self.surprise_moments()[0]

    def expected_length(self) -> float:
        """Expected number of words to predict in a sentence, END included."""
        length = {0: 0.0}
        for node in reversed(self._order):
            if node:
                length[node] = math.fsum(p * (1 + length[t]) for p, t in self._arcs[node].values())
        return length[self.root]

    def best_loss(self) -> float:
        """The lowest loss per word a left-to-right model can reach: entropy / expected length."""
        return self.entropy() / self.expected_length()

    def size(self) -> int:
        """How many different sentences there are."""
        count = {0: 1}
        for node in reversed(self._order):
            if node:
                count[node] = sum(count[target] for _, target in self._arcs[node].values())
        return count[self.root]

    def causal_entropies(self) -> list[float]:
        """Entry t: the entropy of word t given the words before it, over the sentences that get that far.

        The best left-to-right loss at each position; END counts as a word.
        """
        entropies, layer = [], {self.root: 1.0}
        while set(layer) != {0}:
            following: dict[int, float] = {}
            loss = mass = 0.0
            for node, alpha in layer.items():
                for p, target in self._arcs[node].values():
                    mass += alpha * p
                    loss -= alpha * p * math.log(p)
                    following[target] = following.get(target, 0.0) + alpha * p
            entropies.append(loss / mass)
            layer = following
        return entropies

    def sentences(self, limit: int = 100_000) -> Iterator[tuple[Words, float]]:
        """Every sentence with its probability, for languages of at most `limit` sentences."""
        if self.size() > limit:
            raise ValueError(f"there are {self.size()} sentences: raise limit={limit}, or use sample()")

        def visit(node: int, words: Words, p: float) -> Iterator[tuple[Words, float]]:
            for word, (q, target) in self._arcs[node].items():
                if word == END:
                    yield words, p * q
                else:
                    yield from visit(target, (*words, word), p * q)

        return visit(self.root, (), 1.0)

    def sample(self, n: int, seed: int) -> list[Words]:
        """n independent sentences; the same seed gives the same sentences everywhere."""
        check_draw(n, seed)
        return self.draw(n, np.random.Generator(np.random.PCG64(seed)))

    def draw(self, n: int, generator: np.random.Generator) -> list[Words]:
        """Like `sample`, going on with a generator that is already running."""
        if self._sampler is None:
            self._sampler = Sampler(self.automaton, self._order)
        return self._sampler.draw(n, generator)
