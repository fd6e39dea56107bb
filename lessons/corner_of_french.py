"""A corner of French, small enough that many trainings fit into a minute: some seventy English words, several thousand
sentences, each with exactly one translation. It asks for what makes translation more than a dictionary: gender, verbs
that follow the person, adjectives that change place, negation that wraps the verb and is cut short before a vowel."""

from minitransformer.app.language import Pairs
from minitransformer.app.language import pair_lexicon as lexicon
from minitransformer.app.language.grammar import choice, one_of, seq, text

NOUNS = {
    "m": (("cat", "chat"), ("brother", "frère"), ("book", "livre"), ("garden", "jardin"), ("fridge", "frigo")),
    "f": (("car", "voiture"), ("sister", "sœur"), ("cow", "vache"), ("river", "rivière"), ("house", "maison")),
}
ARTICLES = {
    "m": (("the", "le"), ("this", "ce"), ("my", "mon"), ("a", "un")),
    "f": (("the", "la"), ("this", "cette"), ("my", "ma"), ("a", "une")),
}


def any_of(words):
    return one_of(*(text(*pair) for pair in words))


def adjectives(table, form):
    return any_of((adjective.english, adjective.french[form]) for adjective in table)


def thing(gender):
    """ "my car / ma voiture", or "my red car / ma voiture rouge" with the last two words exchanged."""
    article, noun = any_of(ARTICLES[gender]), any_of(NOUNS[gender])
    colour = adjectives(lexicon.ADJECTIVES_AFTER[:5], gender + "s")
    return one_of(seq(article, noun), seq(article, colour, noun, second=(0, 2, 1)))


def clauses(subject, person, gender, no):
    """What this subject does, likes and is, affirmed or denied (`no`); each with its weight."""
    third = person == 2

    def verb(table):
        plain = [(v.english[third], v.french[person]) for v in table]
        do = "does not" if third else "do not"
        return any_of([(f"{do} {v.english[0]}", f"ne {v.french[person]} pas") for v in table] if no else plain)

    options = [
        (4, seq(subject, verb(lexicon.TRANSITIVE[:5]), one_of(thing("m"), thing("f")))),
        (2, seq(subject, verb(lexicon.LIKING[:3]), any_of(lexicon.PLEASURES[:6]))),
    ]
    if person < 3:  # "we are students" would bring plural words that stand in one sentence only
        be, french = ("am", "are", "is")[person], lexicon.BE["present"][person]
        am = text(be + " not", f"ne {french} pas") if no else text(be, french)
        trades = (("student", "étudiant" if gender == "m" else "étudiante"), *lexicon.TRADES_NEUTRAL[:4])
        options.append((2, seq(subject, am, any_of(("a " + a, b) for a, b in trades))))
        options.append((1, seq(subject, am, adjectives(lexicon.MOODS_NEUTRAL[:4], gender + "s"))))
        if third:
            full = text("full of", "plein de" if gender == "m" else "pleine de")
            options.append((2, seq(subject, am, full, any_of(lexicon.CONTENTS[:5]))))
    return options


def sentences():
    subjects = [(text("i", "je"), 0, "m"), (text("you", "tu"), 1, "m"), (text("we", "nous"), 3, "m")]
    subjects += [(seq(any_of(ARTICLES[g][:3]), any_of(NOUNS[g])), 2, g) for g in "mf"]
    options = [option for who in subjects for no in (False, True) for option in clauses(*who, no)]
    return seq(choice(*options), text(".", "."))


def corner() -> Pairs:
    return Pairs(sentences())
