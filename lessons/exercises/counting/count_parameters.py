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

from lessons.exercises.exercise import Case
from minitransformer import LanguageModel

TRACK, LESSON, LEVEL, MINUTES = "counting", "07", 1, 10
RESULTS = ("weights",)

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
