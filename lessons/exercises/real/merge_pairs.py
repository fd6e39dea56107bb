"""# Merging pairs

Byte-pair encoding reads its pieces off a text. All words start as letters. Count how often two pieces stand side by
side, in every word as often as the word occurs; make the most frequent pair one piece, wherever it stands; and count
again.

    words, times     different words, and how often each of them occurs
    result           the pairs that were merged, in their order, at most n_merges of them

Of pairs that are equally frequent, the one that comes first in the alphabet is merged (compare the left pieces, then
the right ones). In one word a pair is merged from the left: "aaa" becomes "aa a". When no word has two pieces any more,
there is nothing left to merge.

Example: words sing, ring and sung, which occur 5, 6 and 4 times. The pair n g stands in all of them: 15 times. Then i
ng meets 11 times, and ng has no other neighbour so often; then r ing (6 times). So three merges give [("n", "g"), ("i",
"ng"), ("r", "ing")].
"""

import numpy as np

from lessons.exercises.exercise import Case
from minitransformer.pretrained import byte_pair_training

TRACK, LESSON, LEVEL, MINUTES = "real", "17", 2, 25
RESULTS = ("merges",)

SOLUTION = '''
from collections import Counter


def merge(pieces, pair):
    """The word with each occurrence of the pair, from the left, as one piece."""
    made, i = [], 0
    while i < len(pieces):
        found = tuple(pieces[i : i + 2]) == pair
        made.append(pieces[i] + pieces[i + 1] if found else pieces[i])
        i += 2 if found else 1
    return made


def train(words, times, n_merges):
    """words: list of N words; times (N) integers  →  list of pairs (left, right), at most n_merges"""
    cut = [list(word) for word in words]
    merges = []
    while len(merges) < n_merges:
        counts = Counter()
        for pieces, often in zip(cut, times):
            for pair in zip(pieces, pieces[1:]):
                counts[pair] += often  # a word counts as often as it occurs
        if not counts:
            break
        best = min(counts, key=lambda pair: (-counts[pair], pair))  # the most frequent, then by the alphabet
        merges.append(best)
        cut = [merge(pieces, best) for pieces in cut]
    return merges
'''

STUB = '''
def train(words, times, n_merges):
    """words: list of N words; times (N) integers  →  list of pairs (left, right), at most n_merges"""
    raise NotImplementedError("your turn")
'''

ANOTHER = r"""
import re
from collections import Counter


def train(words, times, n_merges):
    texts = [" ".join(word) for word in words]  # pieces with spaces between them
    merges = []
    for _ in range(n_merges):
        counts = Counter()
        for text, often in zip(texts, times):
            for pair in re.finditer(r"(?<!\S)(\S+)(?= (\S+))", text):
                counts[pair[1], pair[2]] += int(often)
        if not counts:
            break
        most = max(counts.values())
        left, right = sorted(pair for pair, count in counts.items() if count == most)[0]
        whole = re.compile(rf"(?<!\S){left} {right}(?!\S)")  # whole pieces only
        texts = [whole.sub(left + right, text) for text in texts]
        merges.append((left, right))
    return merges
"""


def expected(words, times, n_merges):
    """By the engine's training on bytes, from texts of one word each."""
    texts = [word for word, often in zip(words, times, strict=True) for _ in range(int(often))]
    tokenizer = byte_pair_training.train(texts, 256 + n_merges)
    names = {number: token.decode() for token, number in tokenizer.tokens.items() if token.isascii()}
    order = sorted(tokenizer.pairs, key=lambda pair: tokenizer.pairs[pair][0])
    return [(names[left], names[right]) for left, right in order]


def cases():
    yield Case("the example", (["sing", "ring", "sung"], np.array([5, 6, 4]), 3))
    yield Case("one word of two letters", (["at"], np.array([1]), 1))
    yield Case("more merges asked for than there are", (["cab", "c"], np.array([2, 7]), 9))
    yield Case("a rare word and a frequent one", (["banana", "sea"], np.array([1, 3]), 1))
    yield Case("a pair that stands twice in a word", (["banana", "sea"], np.array([2, 3]), 2))
    yield Case("one letter again and again", (["aaaaa", "ba"], np.array([3, 2]), 3))
    yield Case("equally frequent", (["tu", "ab", "ta"], np.array([2, 2, 2]), 3))
    rings = {"sing": 5, "song": 3, "singer": 2, "sung": 4, "ring": 6, "rings": 3}
    yield Case("the lesson's words", (list(rings), np.array(list(rings.values())), 4))
    lows = {"low": 7, "lower": 7, "newest": 1, "widest": 5, "lowest": 9, "slow": 8}
    yield Case("low and lower", (list(lows), np.array(list(lows.values())), 10))
