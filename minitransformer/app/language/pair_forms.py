"""The shapes of bilingual words, and how their tables are read."""

from __future__ import annotations

from typing import NamedTuple


class Noun(NamedTuple):
    english: tuple[str, str]  # singular, plural
    french: tuple[str, str]
    gender: str  # "m" or "f"


class Adjective(NamedTuple):
    english: str
    french: dict[str, str]  # "ms", "fs", "mp", "fp"


class Verb(NamedTuple):
    english: tuple[str, str]  # base, third person singular
    french: tuple[str, ...]  # je, tu, il, nous, vous, ils


def nouns(table: str) -> tuple[Noun, ...]:
    """Lines of English singular and plural, French singular and plural, gender."""
    rows = (line.split() for line in table.strip().splitlines())
    return tuple(Noun((a, b), (c, d), gender) for a, b, c, d, gender in rows)


def _regular(word: str) -> tuple[str, str, str, str]:
    """The four forms of an adjective: -e stays in the feminine, -s and -x stay in the plural."""
    feminine = word if word.endswith("e") else word[:-1] + "se" if word.endswith("x") else word + "e"
    return word, feminine, word if word[-1] in "sx" else word + "s", feminine + "s"


def adjectives(table: str) -> tuple[Adjective, ...]:
    """Lines of English and the French masculine, or all four French forms where they are irregular."""
    found = []
    for line in table.strip().splitlines():
        english, *french = line.split()
        forms = _regular(french[0]) if len(french) == 1 else tuple(french)
        found.append(Adjective(english, dict(zip(("ms", "fs", "mp", "fp"), forms, strict=True))))
    return tuple(found)


def words(table: str) -> tuple[tuple[str, str, str], ...]:
    """Lines of English, French for a man or a masculine noun, French for a woman or a feminine one."""
    rows = (line.split() for line in table.strip().splitlines())
    return tuple((english, masculine, feminine) for english, masculine, feminine in rows)


def phrases(table: str) -> tuple[tuple[str, str], ...]:
    """Lines of English | French."""
    rows = (line.split("|") for line in table.strip().splitlines())
    return tuple((english.strip(), french.strip()) for english, french in rows)


def verbs(table: str) -> tuple[Verb, ...]:
    """Lines of English | third person | French infinitive in -er, or the six French persons."""
    found = []
    for line in table.strip().splitlines():
        english, third, french = (part.strip() for part in line.split("|"))
        if " " in french:
            forms = tuple(french.split())
        else:  # the first group: the stem is the infinitive without -er
            stem = french[:-2]
            soft = stem + "e" if stem.endswith("g") else stem  # nageons keeps its soft g
            forms = (stem + "e", stem + "es", stem + "e", soft + "ons", stem + "ez", stem + "ent")
        found.append(Verb((english, third), forms))
    return tuple(found)
