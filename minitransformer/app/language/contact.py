"""What neighbouring words do to each other, and how tokens become readable text again.

Tokens are lower-case words and punctuation marks. A French clitic that lost its vowel is a token of its own
and keeps its apostrophe: "l' arbre", "j' ai", "n' est", "d' or", "qu' il". The grammar writes full forms ("le
arbre", "a apple"); the rules here say what becomes of two neighbours. `join` applies them from right to left,
because "de" must see whether the article after it has been elided: de + le + jardin = du jardin, but de + le
+ arbre = de l' arbre.
"""

from __future__ import annotations

from collections.abc import Sequence

from minitransformer.app.language.automaton import Contact
from minitransformer.app.language.grammar import Words
from minitransformer.app.language.language import as_words

VOWELS = frozenset("aeiouyàâéèêëîïôûœ")
ASPIRATED = frozenset(("hibou", "hiboux"))  # an h that counts as a consonant

# word of the grammar -> (form before a vowel, form before a consonant)
FRENCH_FORMS = {
    "le": ("l'", "le"), "la": ("l'", "la"), "je": ("j'", "je"), "ne": ("n'", "ne"), "de": ("d'", "de"),
    "que": ("qu'", "que"), "ma": ("mon", "ma"), "ta": ("ton", "ta"), "sa": ("son", "sa"), "ce": ("cet", "ce"),
    "beau+": ("bel", "beau"), "nouveau+": ("nouvel", "nouveau"), "vieux+": ("vieil", "vieux"),
}  # fmt: skip
CONTRACTIONS = {("de", "le"): "du", ("de", "les"): "des"}


def starts_with_vowel(word: str) -> bool:
    """Whether a French word begins with a vowel sound: a vowel or a mute h."""
    return word[0] in VOWELS or (word[0] == "h" and word not in ASPIRATED)


def french_contact(left: str, right: str) -> Words | None:
    """The French words that two neighbours become, or None when they leave each other alone."""
    if (left, right) in CONTRACTIONS:
        return (CONTRACTIONS[left, right],)
    if left in FRENCH_FORMS:
        before_vowel, before_consonant = FRENCH_FORMS[left]
        form = before_vowel if starts_with_vowel(right) else before_consonant
        return None if form == left else (form, right)
    return None


def english_contact(left: str, right: str) -> Words | None:
    """a + apple = an apple. No word here has a misleading spelling, as hour and university have."""
    return ("an", right) if left == "a" and right[0] in "aeiou" else None


def join(words: Sequence[str], contact: Contact) -> Words:
    """Apply the contacts of a whole sentence, from right to left."""
    done: list[str] = []  # reversed
    for word in reversed(words):
        met = contact(word, done[-1]) if done else None
        if met is None:
            done.append(word)
        else:
            done[-1:] = reversed(met)
    return tuple(reversed(done))


def detokenize(words: str | Sequence[str], language: str = "en") -> str:
    """Readable text: sentences start with a capital, clitics and punctuation are attached.

    `language` is "en" or "fr"; French keeps a space before "?", ";" and "!".
    """
    if language not in ("en", "fr"):
        raise ValueError(f"language is {language!r}: give 'en' or 'fr'")
    text, start = "", True
    tight = ".,?;!" if language == "en" else ".,"
    for word in as_words(words):
        if language == "en" and word == "i":
            word = "I"
        attached = not text or text.endswith("'") or word in tight
        text += ("" if attached else " ") + (word[0].upper() + word[1:] if start else word)
        start = word in ".?!"
    return text
