"""English and French sentences from one derivation: both languages of a pair are read off the same choices.

Agreement needs no rule of its own: a sentence first chooses the person, number and gender of its subject, and
everything that agrees is looked up with them. French is determined by English in all cases but one: "they" is
"ils" three times out of four and "elles" otherwise. "you" is always "tu"; "i", "you" and "we" are only given
adjectives and trades that sound the same for men and women.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from minitransformer.app.language.grammar import Expression, choice, one_of, seq, text
from minitransformer.app.language.pair_forms import Noun, Verb, words
from minitransformer.app.language.pair_lexicon import (
    ACTIVITIES,
    ADJECTIVES_AFTER,
    ADJECTIVES_BEFORE,
    ADJECTIVES_LIVING,
    ANIMALS,
    BE,
    CONTAINERS,
    CONTENTS,
    FAMILY,
    LIKING,
    MOODS_GENDERED,
    MOODS_NEUTRAL,
    PEOPLE,
    PLACES,
    PLEASURES,
    THINGS,
    TRADES,
    TRADES_NEUTRAL,
    TRANSITIVE,
)

Nouns = tuple[Noun, ...]

# singular and plural
DETERMINERS = {
    "s": words("""
the le la
this ce cette
my mon ma
your ton ta
his son sa
her son sa
our notre notre
their leur leur
"""),
    "p": words("""
the les les
these ces ces
my mes mes
your tes tes
his ses ses
her ses ses
our nos nos
their leurs leurs
"""),
}
PREPOSITIONS = (("in", "dans"), ("near", "près de"), ("behind", "derrière"), ("in front of", "devant"))
ADVERBS = (("often", "souvent"), ("always", "toujours"), ("sometimes", "parfois"), ("rarely", "rarement"))
TIMES = (
    ("today", "aujourd'hui"),
    ("tonight", "ce soir"),
    ("every day", "chaque jour"),
    ("every morning", "chaque matin"),
    ("every summer", "chaque été"),
)
TIMES_PAST = (("yesterday", "hier"), ("last year", "la année dernière"), ("that day", "ce jour-là"))


class Subject(NamedTuple):
    """A subject and all that agrees with it; gender "" means that the speaker's is unknown."""

    words: Expression
    person: int  # 0 je, 1 tu, 2 il, 3 nous, 5 ils
    gender: str
    weight: int

    @property
    def number(self) -> str:
        return "p" if self.person > 2 else "s"


def _texts(pairs: tuple[tuple[str, str], ...]) -> Expression:
    return one_of(*(text(english, french) for english, french in pairs))


def _noun_phrase(
    nouns: Nouns, gender: str, number: str, article: str = "definite", described: bool = True
) -> Expression:
    """Article, at most one adjective, noun: "my red car / ma voiture rouge", "a small house / une petite
    maison".

    `article`: "definite" (the, this, my ...), "indefinite" (a), "negated" (the same after ne ... pas), "no"
    (there is no), or "plain" (the, and no adjective). Only `described` phrases have adjectives.
    """
    fits = [noun for noun in nouns if noun.gender == gender]
    which = "sp".index(number)
    noun = one_of(*(text(n.english[which], n.french[which]) for n in fits))
    living = nouns in (FAMILY, PEOPLE, ANIMALS)
    early_ones = ADJECTIVES_LIVING if living else ADJECTIVES_BEFORE
    before = one_of(*(text(a.english, a.french[gender + number]) for a in early_ones))
    after = one_of(*(text(a.english, a.french[gender + number]) for a in ADJECTIVES_AFTER))
    a = "a" if number == "s" and article != "no" else ""
    plain: Expression
    early: Expression
    if article in ("negated", "no"):
        plain = early = text(a, "de")
    elif article == "indefinite" and number == "p":
        plain, early = text(a, "des"), text(a, "de")  # des livres, but de vieux livres
    elif article == "indefinite":
        plain = early = text(a, "un" if gender == "m" else "une")
    else:
        rows = DETERMINERS[number][: 1 if article == "plain" else None]
        # the common article is as frequent as all the others together
        weight = max(len(rows) - 1, 1)
        articles = ((en, m if gender == "m" else f) for en, m, f in rows)
        plain = early = choice(*((weight if en == "the" else 1, text(en, fr)) for en, fr in articles))
    if article == "plain" or not described:
        return seq(plain, noun)
    if living:
        return choice((3, seq(plain, noun)), (1, seq(early, before, noun)))
    return choice((3, seq(plain, noun)), (2, seq(early, before, noun)), (2, seq(plain, after, noun, second=(0, 2, 1))))


def _any(nouns: Nouns, article: str, numbers: str = "sp") -> Expression:
    """A noun phrase of any gender and number, each noun equally likely."""
    return choice(
        *(
            (sum(noun.gender == gender for noun in nouns), _noun_phrase(nouns, gender, number, article))
            for gender in "mf"
            for number in numbers
        )
    )


def _subjects(nouns: Nouns, described: bool = True) -> list[Subject]:
    """Noun phrases by gender and number."""
    return [
        Subject(
            _noun_phrase(nouns, gender, number, described=described),
            2 if number == "s" else 5,
            gender,
            weight,
        )
        for gender in "mf"
        for number, weight in (("s", 2), ("p", 1))
    ]


PRONOUNS = [
    Subject(text("i", "je"), 0, "", 4),
    Subject(text("you", "tu"), 1, "", 3),
    Subject(text("he", "il"), 2, "m", 3),
    Subject(text("she", "elle"), 2, "f", 3),
    Subject(text("we", "nous"), 3, "", 3),
    Subject(text("they", "ils"), 5, "m", 3),
    Subject(text("they", "elles"), 5, "f", 1),
]


def _verb(verbs: tuple[Verb, ...], subject: Subject, form: str) -> Expression:
    """`form`: "plain", "not" or "base" (after do, in questions)."""
    third = subject.person == 2
    options = []
    for verb in verbs:
        french = verb.french[subject.person]
        if form == "not":
            options.append(text(f"{'does' if third else 'do'} not {verb.english[0]}", f"ne {french} pas"))
        else:
            options.append(text(verb.english[third and form == "plain"], french))
    return one_of(*options)


def _be(subject: Subject, tense: str, negated: bool) -> Expression:
    person = subject.person
    if tense == "present":
        english = "am" if person == 0 else "is" if person == 2 else "are"
    else:
        english = "was" if person in (0, 2) else "were"
    french = BE[tense][person]
    return text(english + " not", f"ne {french} pas") if negated else text(english, french)


def _is(subject: Subject, quality: Expression) -> Expression:
    """to be, in the present or past, affirmed or denied, and what one is."""
    return choice(
        (6, seq(_be(subject, "present", False), quality)),
        (2, seq(_be(subject, "present", True), quality)),
        (2, seq(_be(subject, "past", False), quality, _texts((("", ""), *TIMES_PAST)))),
        (1, seq(_be(subject, "past", True), quality)),
    )


def _mood(subject: Subject) -> Expression:
    form = (subject.gender or "m") + subject.number
    moods = MOODS_NEUTRAL + (MOODS_GENDERED if subject.gender else ())
    return one_of(*(text(a.english, a.french[form]) for a in moods))


def _trade(subject: Subject) -> Expression:
    """ "a student / étudiante": French leaves the article out."""
    plural = subject.number == "p"
    trades = list(TRADES_NEUTRAL)
    if subject.gender:
        trades += [(english, m if subject.gender == "m" else f) for english, m, f in TRADES]
    pairs = [(english + "s", french + "s") if plural else ("a " + english, french) for english, french in trades]
    return _texts(tuple(pairs))


def _look(subject: Subject) -> Expression:
    """The look of a thing; the forms for use before a vowel are not needed after a verb."""
    form = subject.gender + subject.number
    looks = ADJECTIVES_BEFORE + ADJECTIVES_AFTER
    return one_of(*(text(a.english, a.french[form].rstrip("+")) for a in looks))


def _contents(subject: Subject) -> Expression:
    full = {"ms": "plein", "fs": "pleine", "mp": "pleins", "fp": "pleines"}[subject.gender + subject.number]
    return seq(text("full of", full + " de"), _texts(CONTENTS))


PLACE = seq(_texts(PREPOSITIONS), choice((3, _any(PLACES, "plain", "s")), (1, _any(PLACES, "plain", "p"))))
OBJECT = one_of(_any(THINGS + CONTAINERS, "definite"), _any(THINGS + CONTAINERS, "indefinite"))
OBJECT_NEGATED = one_of(_any(THINGS + CONTAINERS, "definite"), _any(THINGS + CONTAINERS, "negated"))
WHEN = choice((3, ""), (2, _texts(TIMES)))


def _act(verbs: tuple[Verb, ...], rests: tuple[Expression, Expression, Expression], who: Subject) -> Expression:
    """A verb and its complement: plain, with an adverb (which French puts after the verb), denied.

    `rests` are the complements of the three.
    """
    said = _verb(verbs, who, "plain")
    return choice(
        (4, seq(said, rests[0])),
        (2, seq(_texts(ADVERBS), said, rests[1], second=(1, 0, 2))),
        (3, seq(_verb(verbs, who, "not"), rests[2])),
    )


def _question(verbs: tuple[Verb, ...], rest: Expression, subject: Subject) -> Expression:
    """ "does she like tea ? / est-ce que elle aime le thé ?", the elision still to come."""
    do = text("does" if subject.person == 2 else "do", "est-ce que")
    return seq(do, subject.words, _verb(verbs, subject, "base"), rest, text("?", "?"))


def _there_is() -> Expression:
    options: list[tuple[int, Expression]] = []
    for number, be in (("s", "is"), ("p", "are")):
        for nouns in (ANIMALS, THINGS):
            one, none = (_any(nouns, article, number) for article in ("indefinite", "no"))
            options.append((3, seq(text(f"there {be}", "il y a"), one, PLACE)))
            options.append((1, seq(text(f"there {be} no", "il ne y a pas"), none, PLACE)))
    return choice(*options)


def sentences(pronouns: Sequence[Subject] = PRONOUNS) -> Expression:
    """The whole synchronous grammar: English on the first tape, French on the second."""
    family, people, animals, boxes = map(_subjects, (FAMILY, PEOPLE, ANIMALS, CONTAINERS))
    humans = [*pronouns, *family, *people]
    living = seq(PLACE, WHEN)
    pleasures = _texts(PLEASURES)
    dot = text(".", ".")
    options: list[tuple[int, Expression]] = [(30, seq(_there_is(), dot))]
    for subject in humans + animals:
        deeds = [(8, _act(ACTIVITIES, (living, PLACE, living), subject)), (6, _is(subject, _mood(subject)))]
        options.append((subject.weight, _question(ACTIVITIES, living, subject)))
        if subject in humans:
            deeds.append((12, _act(TRANSITIVE, (OBJECT, OBJECT, OBJECT_NEGATED), subject)))
            deeds.append((6, _act(LIKING, (pleasures, pleasures, pleasures), subject)))
            options.append((subject.weight, _question(TRANSITIVE, OBJECT, subject)))
            options.append((subject.weight, _question(LIKING, pleasures, subject)))
        if subject in humans and subject not in people:  # a nurse has her trade already
            deeds.append((4, _is(subject, _trade(subject))))
        options.append((6 * subject.weight, seq(subject.words, choice(*deeds), dot)))
    for subject in boxes:
        options.append((4 * subject.weight, seq(subject.words, _is(subject, _contents(subject)), dot)))
    for subject in _subjects(THINGS + CONTAINERS, described=False):  # no "the white plate is black"
        options.append((10 * subject.weight, seq(subject.words, _is(subject, _look(subject)), dot)))
    return choice(*options)
