"""# Cutting a new word

What byte-pair training leaves is a list of merges in their order. A word that was never seen starts as letters; then
the merges are done one after the other, in the order of the list, each wherever its two pieces stand side by side (from
the left, so that "aaa" becomes "aa a").

    result    the pieces of the word, from left to right; joined, they are the word again

Example: the merges n g, i ng, r ing in this order cut "springs" into s, p, ring, s. The letter p was in no merge: it
stays what it is.
"""

from lessons.exercises.exercise import Case
from minitransformer.pretrained.byte_pair import BytePair, pairs_of_merges

TRACK, LESSON, LEVEL, MINUTES = "real", "17", 1, 15
RESULTS = ("pieces",)

SOLUTION = '''
def cut(word, merges):
    """word: text; merges: list of pairs (left, right) in their order  →  list of pieces"""
    pieces = list(word)
    for left, right in merges:
        i = 0
        while i < len(pieces) - 1:
            if pieces[i] == left and pieces[i + 1] == right:
                pieces[i : i + 2] = [left + right]  # two pieces become one
            i += 1  # in both cases the next piece is at i + 1
    return pieces
'''

ANOTHER = """
def cut(word, merges):
    rank = {tuple(pair): n for n, pair in enumerate(merges)}
    ends = list(range(1, len(word) + 1))  # where the pieces end
    while True:
        starts = [0, *ends[:-1]]
        pieces = [word[a:b] for a, b in zip(starts, ends)]
        known = [(rank[pair], i) for i, pair in enumerate(zip(pieces, pieces[1:])) if pair in rank]
        if not known:
            return pieces
        del ends[min(known)[1]]  # the earliest merge, at its leftmost place: an end less
"""


def expected(word, merges):
    """By the engine's tokenizer with these merges."""
    tokens = {bytes([byte]): byte for byte in range(256)}
    for left, right in merges:
        tokens[(left + right).encode()] = len(tokens)
    pairs = pairs_of_merges(tokens, [(left.encode(), right.encode()) for left, right in merges])
    tokenizer = BytePair(tokens, pairs)
    return [tokenizer.decode([number]) for number in tokenizer.encode(word)]


def cases():
    rings = [("n", "g"), ("i", "ng"), ("r", "ing")]
    yield Case("the example", ("springs", rings))
    yield Case("a word that stays letters", ("table", rings))
    yield Case("one letter", ("s", rings))
    yield Case("one merge, twice in a word", ("singing", rings))
    yield Case("the order decides", ("abcd", [("b", "c"), ("a", "b"), ("c", "d")]))
    yield Case("an early merge behind a late one", ("abcb", [("b", "c"), ("a", "b"), ("a", "bc")]))
    yield Case("one letter again and again", ("aaaaa", [("a", "a"), ("aa", "a"), ("b", "a")]))
    yield Case("a piece that ends like another", ("babab", [("b", "a"), ("a", "b"), ("ba", "ba")]))
    longer = [("e", "r"), ("l", "o"), ("lo", "w"), ("n", "e"), ("ne", "w"), ("low", "er"), ("e", "s"), ("es", "t")]
    yield Case("longer", ("slowernewerlowest", longer))
