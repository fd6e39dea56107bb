"""The text of the book reviews: what there is to say, and how praise and blame are worded.

A review has a label (1 praises, 0 blames), a kind of book, and an author who is a woman or a man. All three
are drawn first, equally likely, and hold for the whole review. What decides is the opinion, never a word
alone:

- negation turns a word round: "not boring" praises, "i do not admire" blames; - in a contrast the main clause
holds the opinion: the part after "but" or "still", and the part that does not follow
  "although" or "even if"; the other clause says the opposite;
- what other people think ("my dentist finds it superb") says nothing about the label.

Each sentence after the first looks at the next pair of the book's aspects, so nothing is discussed twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from minitransformer.app.language.grammar import Expression, choice, maybe, one_of, seq

Sides = Mapping[bool, Expression]  # the same thing said in praise (True) and in blame (False)


class Kind(NamedTuple):
    """A kind of book: its aspects in three pairs (plural ones marked with +), and adjectives made for it."""

    name: str
    aspects: tuple[tuple[str, ...], ...]
    good: tuple[str, ...]
    bad: tuple[str, ...]


def _kinds(table: str) -> tuple[Kind, ...]:
    """Lines of name: pair of aspects / pair / pair; good adjectives; bad adjectives."""
    found = []
    for line in table.strip().splitlines():
        name, rest = line.split(": ")
        aspects, good, bad = rest.split("; ")
        pairs = tuple(tuple(pair.split()) for pair in aspects.split(" / "))
        found.append(Kind(name, pairs, tuple(good.split()), tuple(bad.split())))
    return tuple(found)


KINDS = _kinds("""
novel: opening heroine / plot dialogues+ / style ending; moving subtle; sentimental pretentious
thriller: murder detective / clues+ chases+ / suspense solution; gripping ingenious; predictable implausible
cookbook: starters+ soups+ / sauces+ photographs+ / cakes+ menu; delicious generous; bland greasy
biography: preface childhood / letters+ anecdotes+ / research portrait; candid intimate; evasive gossipy
anthology: sonnets+ odes+ / rhymes+ images+ / rhythm finale; musical luminous; wooden obscure
guidebook: maps+ walks+ / hotels+ restaurants+ / advice index; reliable practical; misleading outdated
chronicle: sieges+ battles+ / kings+ footnotes+ / chronology epilogue; vivid thorough; dusty biased
fable: rabbit fox / drawings+ jokes+ / moral wedding; funny tender; preachy gloomy
textbook: definitions+ examples+ / proofs+ exercises+ / diagrams+ answers+; clear rigorous; muddled careless
""")

# word: weight; some words are everyone's favourites, as in any real language
GOOD = {
    "superb": 6, "charming": 5, "brilliant": 4, "delightful": 4, "clever": 3, "splendid": 3,
    "excellent": 3, "wonderful": 2, "memorable": 2, "remarkable": 1, "elegant": 1, "refreshing": 1,
}  # fmt: skip
BAD = {
    "boring": 6, "dull": 5, "tedious": 4, "clumsy": 4, "dreadful": 3, "tiresome": 3,
    "forgettable": 3, "lifeless": 2, "sloppy": 2, "awful": 1, "pompous": 1, "shallow": 1,
}  # fmt: skip

LOVE = one_of("love", "admire", "adore", "enjoy", "praise", "treasure")
HATE = one_of("hate", "dislike", "resent", "detest", "deplore", "despise")
KEEP = ("recommend @", "read @ again", "keep @ by my bed", "lend @ to friends", "miss @", "quote @")
DROP = ("forget @", "regret @", "return @", "sell @", "throw @ away", "complain about @")
TAKE = ("buy @", "read @", "borrow @", "trust @")
LEAVE = ("avoid @", "skip @", "fear @", "ignore @")

PLAIN, NEGATED = 5, 1  # how often an opinion is said directly, and how often by denying its opposite


@cache
def _adjective(good: bool, kind: Kind | None) -> Expression:
    shared = GOOD if good else BAD
    own = () if kind is None else kind.good if good else kind.bad
    return choice(*((weight, word) for word, weight in shared.items()), *((4, word) for word in own))


@cache
def _judged(good: bool, kind: Kind | None = None) -> Expression:
    """ "truly superb" or "not at all boring", and the other way round."""
    emphasis = choice((6, ""), (2, "really"), (2, "truly"), (1, "quite"), (1, "simply"), (1, "utterly"))
    denial = choice((5, "not"), (2, "hardly"), (2, "never"), (2, "anything but"), (2, "far from"), (2, "not at all"))
    return choice((PLAIN, seq(emphasis, _adjective(good, kind))), (NEGATED, seq(denial, _adjective(not good, kind))))


def _denied_or_not(
    good: bool, direct: str, denial: Expression | str, praise: Expression, blame: Expression
) -> Expression:
    same, opposite = (praise, blame) if good else (blame, praise)
    return choice((PLAIN, seq(direct, same)), (NEGATED, seq(denial, opposite)))


@cache
def _clause(good: bool, kind: Kind, aspect: str, owner: str) -> Expression:
    """An opinion on one aspect: "her sauces are not bland", "i do not admire the plot"."""
    noun = aspect.rstrip("+")
    be = "are" if aspect.endswith("+") else "is"
    thing = choice((2, "the"), (1, owner))
    return choice(
        (5, seq(thing, noun, be, _judged(good, kind))),
        (2, seq(_denied_or_not(good, "i", "i do not", LOVE, HATE), thing, noun)),
        (1, seq(_denied_or_not(good, "anyone could", "nobody could", LOVE, HATE), thing, noun)),
    )


def _or_stop(stop: int, go: int, rest: Expression) -> Expression:
    return choice((stop, "."), (go, rest)) if stop else rest


def _opinion(good: bool, one: Sides, other: Sides, alone: tuple[int, int]) -> Expression:
    """A sentence about one thing or two, told good from bad by its main clause, wherever that stands.

    `alone` weighs the sentences about just one of them; of two things said together, two in five differ.
    """
    return choice(
        (alone[0] + 36, seq(one[good], _or_stop(alone[0], 36, seq(", and", other[good], ".")))),
        (10, seq(one[not good], ", but", other[good], ".")),
        (6, seq("although", one[not good], ",", other[good], ".")),
        (2, seq("granted ,", one[not good], "; still ,", other[good], ".")),
        (alone[1] + 6, seq(other[good], _or_stop(alone[1], 6, seq(", even if", one[not good], ".")))),
    )


def _opening(good: bool, kind: Kind, only: bool) -> Expression:
    """The first sentence, which names the kind of book."""
    book = {side: seq("this", kind.name, "is", _judged(side, kind)) for side in (True, False)}
    author = {side: seq("the author is", _judged(side)) for side in (True, False)}
    verb = one_of("bought", "found", "opened", "read", "began", "discovered")
    where = one_of(
        "at the station", "on holiday", "by mistake", "on a rainy evening", "in a tiny shop",
        "on the night train", "during a storm", "in my new garden", "between two meetings",
    )  # fmt: skip
    fact = seq("i", verb, "this", kind.name, where, ".")
    if only:
        return choice((9, _opinion(good, author, book, alone=(0, 0))), (1, fact))
    return choice((1, _opinion(good, author, book, alone=(0, 45))), (1, fact))


@cache
def _aside(kind: Kind, pronoun: str) -> Expression:
    """Sentences without an opinion of the reviewer."""
    who = one_of("my dentist", "my uncle", "my neighbour", "my barber", "my cat", "the postman", "my sister")
    view = one_of(*(seq(maybe(1, 2, "far from"), _adjective(side, kind)) for side in (True, False)))
    where = one_of("in a lighthouse", "on trains", "at night", "in one week", "in prison", "for a bet", "by hand")
    return seq(
        choice(
            (3, seq(who, one_of("finds", "calls"), choice((2, "it"), (1, seq("this", kind.name))), view)),
            (2, seq("the cover promises something", view)),
            (3, seq(pronoun, maybe(1, 1, "apparently"), "wrote it", where)),
        ),
        ".",
    )


def _aspects(good: bool, kind: Kind, place: int, owner: str) -> Expression:
    """A sentence on the aspects of one pair."""
    one, other = ({side: _clause(side, kind, name, owner) for side in (True, False)} for name in kind.aspects[place])
    return _opinion(good, one, other, alone=(27, 27))


@cache
def _verdict(good: bool, kind: Kind) -> Expression:
    book = one_of("it", seq("this", kind.name))

    def deeds(phrases: tuple[str, ...]) -> Expression:
        halves = (phrase.split("@") for phrase in phrases)
        return one_of(*(seq(before, book, after) for before, after in halves))

    never = seq("i will", one_of("not", "never"))
    return seq(
        choice(
            (2, _denied_or_not(good, "i will", never, deeds(KEEP), deeds(DROP))),
            (1, _denied_or_not(good, "you should", "you should not", deeds(TAKE), deeds(LEAVE))),
        ),
        ".",
    )


def _rest(good: bool, kind: Kind, woman: bool, place: int) -> Expression:
    """The sentences after the first: opinions on the aspects from `place` on, asides, a verdict to end it.

    Few reviewers end on an aside, so few never commit themselves.
    """
    pronoun, owner = ("she", "her") if woman else ("he", "his")
    opinion, aside = _aspects(good, kind, place, owner), _aside(kind, pronoun)
    verdict = _verdict(good, kind)
    if place == 2:
        return choice((10, opinion), (9, verdict), (1, aside))
    more = _rest(good, kind, woman, place + 1)
    return choice((10, seq(opinion, maybe(2, 1, more))), (3, verdict), (4, seq(aside, maybe(12, 1, more))))


def review(label: int, kind: Kind, woman: bool) -> Expression:
    """All reviews with this label, kind and author: one to four sentences."""
    good = label == 1
    return choice(
        (1, _opening(good, kind, only=True)),
        (9, seq(_opening(good, kind, only=False), _rest(good, kind, woman, 0))),
    )
