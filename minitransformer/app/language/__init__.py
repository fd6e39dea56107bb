"""The built-in language: text written for this project, with every probability known.

Models can be trained on it on any machine, and judged against the best result that is possible at all:

    reviews()        book reviews that praise or blame, with labels and related sentences
    pairs()          English sentences with their French translations
    right_context()  sentences in which a word is decided by a later one

Each is a probabilistic grammar (`grammar`) compiled to an automaton with one path per sentence (`automaton`),
on which probabilities, entropies, next-word and hidden-word distributions are exact sums (`language`).

    >>> r = reviews()
    >>> r.sample_labelled(1, seed=0)[0].label in (0, 1)
    True
    >>> pairs().translate("i have a red car .")
    "j' ai une voiture rouge ."
"""

from functools import cache

from minitransformer.app.language.automaton import END
from minitransformer.app.language.contact import detokenize
from minitransformer.app.language.hidden import RightContext, masked_entropies
from minitransformer.app.language.language import Language
from minitransformer.app.language.pairs import Pair, Pairs
from minitransformer.app.language.reviews import Review, Reviews, SentencePair, split_sentences

__all__ = [
    "END", "Language", "Pair", "Pairs", "Review", "Reviews", "RightContext", "SentencePair",
    "detokenize", "masked_entropies", "pairs", "reviews", "right_context", "split_sentences",
]  # fmt: skip


@cache
def reviews() -> Reviews:
    """The language of book reviews, built at the first call (a few seconds) and shared afterwards."""
    return Reviews()


@cache
def pairs() -> Pairs:
    """The English-French sentence pairs, built at the first call and shared afterwards."""
    return Pairs()


@cache
def right_context(tools: int = 8, exceptions: int = 0) -> RightContext:
    """Sentences whose tool is told by a later purpose; `exceptions` percent of the purposes are random."""
    return RightContext(tools, exceptions)
