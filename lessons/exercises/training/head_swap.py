"""# A new head on an old base

A language model that has read much is a good start for other tasks. Its base is kept, its head (which scores every
word of the vocabulary) is replaced by a small one that scores the classes: that is the transfer of lesson 11.

The weights come as a dictionary from names to arrays. Names of the head begin with `head.`; all others belong to the
base. The new head has `head.weight` (n_classes, C) and `head.bias` (n_classes). Its weight is small random numbers,
0.02 times what `rng_numbers` gives (that array has the right shape already); its bias is zero.

    new = base of the old one (copies, so that training the new model leaves the old one as it was)
        + head.weight = 0.02 · rng_numbers,  head.bias = 0

Example: {"base.w": w, "head.weight": a, "head.bias": b} becomes {"base.w": w, "head.weight": 0.02 · rng_numbers,
"head.bias": zeros}.
"""

import numpy as np

from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "training", "11", 1, 10
RESULTS = ("new",)

SOLUTION = '''
import numpy as np


def swap_head(old, rng_numbers):
    """old: name → array; rng_numbers (n_classes, C)  →  the new dictionary"""
    new = {name: array.copy() for name, array in old.items() if not name.startswith("head.")}  # the base
    new["head.weight"] = 0.02 * rng_numbers
    new["head.bias"] = np.zeros(len(rng_numbers))
    return new
'''

ANOTHER = """
import copy

import numpy as np


def swap_head(old, rng_numbers):
    new = copy.deepcopy(dict(old))
    for name in list(new):
        if name.partition(".")[0] == "head":
            del new[name]
    classes = rng_numbers.shape[0]
    return {**new, "head.bias": np.repeat(0.0, classes), "head.weight": rng_numbers / 50}
"""


def expected(old, rng_numbers):
    names = [name for name in old if name[:5] != "head."]
    head = {"head.weight": rng_numbers * 0.02, "head.bias": np.zeros(rng_numbers.shape[0])}
    return {name: old[name] for name in names} | head


def cases():
    rng = np.random.default_rng(0)

    def state(names, V, C):
        return {name: rng.normal(size=(V, C)) if name.endswith("weight") else rng.normal(size=V) for name in names}

    yield Case("the example", (state(["base.w", "head.weight", "head.bias"], 4, 3), rng.normal(size=(2, 3))))
    more = ["embedding.weight", "layers.0.weight", "head.weight", "head.bias"]
    norm = [*more, "head.norm.weight"]
    yield Case("a head of three parts", (state(norm, 5, 2), rng.normal(size=(3, 2))))
    yield Case("several parts", (state(more, 5, 2), rng.normal(size=(3, 2))))
    yield Case(
        "names that look like a head",
        (state([*more, "header.weight", "base.head.weight", "heads"], 5, 2), rng.normal(size=(2, 2))),
    )
