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

from lessons.exercises.exercise import Case, code, edit

TRACK, LESSON, LEVEL, MINUTES = "training", "11", 1, 10
RESULTS = ("new",)

HINTS = (
    "Go through the old dictionary, and keep what does not begin with 'head.'.",
    "name.startswith('head.') tells; 'header.w' or 'base.head.w' are not of the head.",
    "{name: array.copy() for ... if not ...} | {'head.weight': 0.02 * rng_numbers, 'head.bias': np.zeros(len(rng_numbers))}",
)

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

WRONG = {
    "old head kept": edit(' if not name.startswith("head.")', "", says="dictionary"),
    "any name with head": edit('not name.startswith("head.")', '"head" not in name', says="dictionary"),
    "without the point": edit('startswith("head.")', 'startswith("head")', says="dictionary"),
    "old weight": edit("0.02 * rng_numbers", 'old["head.weight"]', says="shape"),
    "too large": edit("0.02 * rng_numbers", "rng_numbers.copy()", tell="The new weight lacks the factor 0.02."),
    "zero weight": edit("0.02 * rng_numbers", "0 * rng_numbers", says="zero"),
    "no bias": edit('    new["head.bias"] = np.zeros(len(rng_numbers))\n', "", says="dictionary"),
    "bias of the old size": edit("np.zeros(len(rng_numbers))", 'np.zeros(len(old["head.bias"]))', says="shape"),
    "bias of ones": edit("np.zeros(len", "np.ones(len", tell="The new bias is one; it should be zero."),
    "bias of the width": edit("np.zeros(len(rng_numbers))", "np.zeros(rng_numbers.shape[1])", says="shape"),
    "transposed": edit("0.02 * rng_numbers", "0.02 * rng_numbers.T", says="transposed"),
    "base forgotten": edit("for name, array in old.items()", "for name, array in ()", says="dictionary"),
    "the base set back": edit("array.copy() for", "np.zeros(array.shape) for", says="zero"),
    "the old one changed": code(
        """
import numpy as np


def swap_head(old, rng_numbers):
    for name in [name for name in old if name.startswith("head.")]:
        del old[name]
    old["head.weight"] = 0.02 * rng_numbers
    old["head.bias"] = np.zeros(len(rng_numbers))
    return old
""",
        says="writes to its inputs",
    ),
}


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
