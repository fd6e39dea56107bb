"""# Weights of a language model

A language model has V words, width C, L layers with H heads, and a feed-forward part of width F. Count its weights:

    embedding       a row of C numbers for each word (the codes of positions are waves, and have no weights)
    each layer      attention: four linear layers from C to C;  feed-forward: one from C to F, one from F to C;
                    two norms, each with a scale and a shift for every column
    output head     a linear layer from C to V

Every linear layer has a bias: from m to n numbers it has n m + n weights. If the weights are `tied`, the head uses the
embedding's table as its matrix, and has only the bias of its own.

Example: V = 5, C = 2, L = 1, F = 2, H = 1: 10 in the embedding, 24 + 12 + 8 in the layer, 15 in the head: 69. Tied: 59.
"""

from lessons.exercises.exercise import Case, code, edit
from minitransformer import LanguageModel

TRACK, LESSON, LEVEL, MINUTES = "counting", "07", 1, 10
RESULTS = ("weights",)

HINTS = (
    "Write a small function for the weights of a linear layer from m to n numbers, and call it seven times.",
    "One size does not appear in the result at all (lesson 6 shows why).",
    "A layer has 4 (C C + C) + (F C + F) + (C F + C) + 4 C weights. What is left is the embedding and the head.",
)

SOLUTION = '''
def count_parameters(V, C, L, F, H, tied):
    """V words, width C, L layers, feed-forward width F, H heads; tied: True or False  →  the number of weights"""
    attention = 4 * (C * C + C)  # queries, keys, values, output; heads only cut the columns
    feed_forward = C * F + F + F * C + C
    norms = 2 * 2 * C
    head = V if tied else C * V + V
    return V * C + L * (attention + feed_forward + norms) + head
'''

ANOTHER = """
def linear(m, n):
    return (m + 1) * n


def count_parameters(V, C, L, F, H, tied):
    total = V * C
    for _ in range(L):
        for m, n in [(C, 3 * C), (C, C), (C, F), (F, C)]:
            total += linear(m, n)
        total += 4 * C
    total += linear(C, V)
    return total - V * C * bool(tied)
"""

FOUR_C = (
    "4 C weights of each layer are missing: the biases of attention's linear layers, or the norms."  # the same number
)

WRONG = {
    "attention without biases": edit("4 * (C * C + C)", "4 * C * C", tell=FOUR_C),
    "no output matrix": edit(
        "4 * (C * C + C)",
        "3 * (C * C + C)",
        tell="Attention has four linear layers: queries, keys, values, and output.",
    ),
    "feed-forward without biases": edit(
        "C * F + F + F * C + C", "2 * C * F", tell="The two biases of the feed-forward part are missing."
    ),
    "one bias of the wrong width": edit(
        "C * F + F + F * C + C",
        "C * F + F + F * C + F",
        tell="The second linear layer of the feed-forward part has C outputs, and so C biases.",
    ),
    "as wide as the model": edit(
        "C * F + F + F * C + C",
        "2 * (C * C + C)",
        tell="The feed-forward part is counted as if F were C.",
    ),
    "no norms": edit("norms = 2 * 2 * C", "norms = 0", tell=FOUR_C),
    "one norm": edit("norms = 2 * 2 * C", "norms = 2 * C", tell="A layer has two norms; only one is counted."),
    "one layer": edit("L * (attention", "1 * (attention", tell="The layer is counted once; there are L of them."),
    "no head": edit("+ norms) + head", "+ norms)", tell="The output head is missing."),
    "head without bias": edit(
        "V if tied else C * V + V", "0 if tied else C * V", tell="The head has a bias for each word, tied or not."
    ),
    "tied ignored": edit(
        "V if tied else C * V + V", "C * V + V", tell="With tied weights the table is counted twice; it exists once."
    ),
    "tied takes the bias too": edit(
        "V if tied else", "0 if tied else", tell="A tied head still has its own bias, one number for each word."
    ),
    "matrices for each head": edit(
        "4 * (C * C + C)", "4 * (H * C * C + C)", tell="Each head is given whole matrices; heads only cut the columns."
    ),
    "learned positions": edit("return V * C", "return 512 * C + V * C", says="expected"),
    "the example": code(
        """
def count_parameters(V, C, L, F, H, tied):
    return 59 if tied else 69
""",
        says="expected",
    ),
    "the engine's own": code(
        """
from minitransformer import LanguageModel


def count_parameters(V, C, L, F, H, tied):
    return LanguageModel(V, C, H, L, F, tie_weights=tied, seed=None).num_parameters()
""",
        says="not to call",
    ),
}


def expected(V, C, L, F, H, tied):
    """The engine builds the model, without values, and counts."""
    return LanguageModel(V, C, H, L, F, tie_weights=tied, seed=None).num_parameters()


def cases():
    yield Case("the example", (5, 2, 1, 2, 1, False))
    yield Case("the example, tied", (5, 2, 1, 2, 1, True))
    for V, C, L, F, H, tied in (
        (1, 1, 1, 1, 1, False),
        (7, 4, 1, 16, 2, False),
        (7, 4, 3, 5, 4, True),
        (100, 12, 6, 48, 3, False),
        (50001, 200, 4, 200, 2, False),  # the lab's model of lesson 7
        (50257, 768, 12, 3072, 12, True),
    ):
        yield Case(f"V = {V:,}, C = {C}, L = {L}, F = {F}, H = {H}{', tied' if tied else ''}", (V, C, L, F, H, tied))
