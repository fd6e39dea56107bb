"""A language in which a word is decided by what comes after it.

    anna took the ladder quickly to pick the cherries .

Nothing before "ladder" tells it from "spoon" or "broom"; the purpose, which comes later, does. So a model
that reads from left to right cannot predict the tool better than by guessing, however long it is trained,
while one that sees both sides can know it. Both limits are computed here, from the probabilities of the
sentences.
"""

from __future__ import annotations

import math

from minitransformer.app.language.automaton import Automaton
from minitransformer.app.language.grammar import Expression, Words, choice, one_of, seq, text
from minitransformer.app.language.language import Language

TOOLS = (
    ("spoon", "stir the soup"),
    ("key", "open the door"),
    ("pen", "sign the letter"),
    ("broom", "sweep the floor"),
    ("ladder", "pick the cherries"),
    ("towel", "dry the dishes"),
    ("saw", "cut the plank"),
    ("needle", "mend the coat"),
    ("brush", "paint the fence"),
    ("hammer", "drive the nail"),
    ("candle", "light the stairs"),
    ("rope", "tie the boat"),
)
NAMES = ("anna", "bruno", "clara", "david", "emma", "felix")
MANNERS = ("quickly", "slowly", "quietly", "gladly")


class RightContext(Language):
    """Sentences of ten words, the full stop included; the tool stands at `position`."""

    position = 3

    def __init__(self, tools: int = 8, exceptions: int = 0) -> None:
        limits = (("tools", tools, 2, len(TOOLS)), ("exceptions", exceptions, 0, 100))
        for name, value, low, high in limits:
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ValueError(f"{name} is {value!r}: give an integer from {low} to {high}")
        known = TOOLS[:tools]
        any_purpose = one_of(*(text(purpose) for _, purpose in known))

        def purpose_of(own: str) -> Expression:
            options: list[tuple[int, Expression]] = [(100 - exceptions, text(own)), (exceptions, any_purpose)]
            return choice(*((weight, option) for weight, option in options if weight))

        uses = one_of(*(seq(tool, one_of(*MANNERS), "to", purpose_of(purpose)) for tool, purpose in known))
        automaton = Automaton()
        super().__init__(automaton, automaton.compile(seq(one_of(*NAMES), "took the", uses, ".")))

    def causal_entropy(self) -> float:
        """Entropy of the tool given the words before it: no left-to-right model has a lower loss there."""
        return self.causal_entropies()[self.position]

    def masked_entropy(self) -> float:
        """Entropy of the tool given all other words: the lowest loss of a model that sees both sides."""
        return masked_entropies(self)[self.position]


def masked_entropies(language: Language, limit: int = 100_000) -> list[float]:
    """Entry t: the entropy of word t given all the others, over the sentences that get that far.

    By listing every sentence, so for small languages only: sentences that differ in word t alone form one
    group, and the loss of a sentence is ln(probability of its group / its own probability).
    """
    listed = list(language.sentences(limit))
    entropies = []
    for t in range(max(len(words) for words, _ in listed)):
        reach = [(words, p, (words[:t], words[t + 1 :])) for words, p in listed if len(words) > t]
        groups: dict[tuple[Words, Words], float] = {}
        for _, p, rest in reach:
            groups[rest] = groups.get(rest, 0.0) + p
        mass = math.fsum(p for _, p, _ in reach)
        entropies.append(math.fsum(p * math.log(groups[rest] / p) for _, p, rest in reach) / mass)
    return entropies
