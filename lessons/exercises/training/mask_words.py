"""# Words to guess, as BERT does it

BERT learns by filling gaps. Of the words of a text some 15 % are chosen. Of those, 80 % are replaced by the mark
[MASK], 10 % by a random word, and 10 % stay as they are: so that the model cannot be sure of any word it sees. Only
the chosen words have a target; for all others it is -1, "does not count".

The dice have been thrown for you: `chance` and `choice` hold a number from 0 to 1 for each word, `random_words` a
random word.

    chosen where chance < 0.15
        choice < 0.8          → mask
        0.8 ≤ choice < 0.9    → the random word
        0.9 ≤ choice          → stays
    target = the word as it was, where chosen; else -1

Example: ids = [7, 8], chance = [0.1, 0.9], choice = [0.5, 0.5], mask = 1: the inputs are [1, 8], the targets [7, -1].
"""

import numpy as np

from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "training", "12", 1, 10
RESULTS = ("inputs", "targets")

SOLUTION = '''
import numpy as np


def mask_words(ids, chance, choice, random_words, mask):
    """all (T), ids and random_words integers; mask: a word  →  inputs (T), targets (T)"""
    chosen = chance < 0.15
    changed = np.where(choice < 0.8, mask, np.where(choice < 0.9, random_words, ids))
    inputs = np.where(chosen, changed, ids)
    targets = np.where(chosen, ids, -1)  # also for chosen words that stay as they are
    return inputs, targets
'''

ANOTHER = """
def mask_words(ids, chance, choice, random_words, mask):
    inputs, targets = [], []
    for word, a, b, other in zip(ids, chance, choice, random_words):
        if a >= 0.15:
            inputs.append(word)
            targets.append(-1)
            continue
        targets.append(word)
        inputs.append(mask if b < 0.8 else other if b < 0.9 else word)
    return inputs, targets
"""


def expected(ids, chance, choice, random_words, mask):
    inputs, targets = ids.copy(), np.full(ids.shape, -1)
    chosen = np.flatnonzero(chance < 0.15)
    targets[chosen] = ids[chosen]
    for t in chosen:
        kind = int(np.searchsorted([0.8, 0.9], choice[t], side="right"))
        inputs[t] = (mask, random_words[t], ids[t])[kind]
    return inputs, targets


def cases():
    def one(label, ids, chance, choice, random_words):
        return Case(label, (np.array(ids), np.array(chance), np.array(choice), np.array(random_words), 1))

    yield one("the example", [7, 8], [0.1, 0.9], [0.5, 0.5], [3, 4])
    yield one("a random word", [7], [0.1], [0.85], [3])
    yield one("a word that stays", [7], [0.1], [0.95], [3])
    yield one("at the limits", [7, 8, 9], [0.15, 0.0, 0.0], [0.0, 0.8, 0.9], [3, 4, 5])
    rng = np.random.default_rng(0)
    T = 60
    yield one("a longer text", rng.integers(2, 30, T), rng.random(T) * 0.3, rng.random(T), rng.integers(2, 30, T))
