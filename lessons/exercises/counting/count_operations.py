"""# Operations of an attention layer

T words look at S words. All have vectors of width C, which are cut into H heads of width D = C / H. Count the
operations, multiplications and additions, in the matrix products of the whole layer:

    queries      T vectors by a C × C matrix          keys, values   S vectors by a C × C matrix each
    scores       T · S in each head, of D products    averages       T results of S weighted values, in each head
    output       T vectors by a C × C matrix

One entry of a product is a sum of n products: n multiplications and n additions, 2 n operations. Biases, the division
by √D and the softmax are left out.

Example: T = S = 6, C = 4, H = 1 (lesson 5's first layer): four matrices cost 4 · 192 = 768, scores and averages
2 · 288 = 576; together 1,344.
"""

from lessons.exercises.exercise import Case, code, edit

TRACK, LESSON, LEVEL, MINUTES = "counting", "05", 1, 10
RESULTS = ("operations",)

HINTS = (
    "A product of an n × k by a k × m matrix has n · m entries, each of 2 k operations: 2 n k m.",
    "Two of the four C × C matrices meet T vectors, the other two S vectors.",
    "Each head has T · S scores of 2 D operations. How many heads are there, and what is H · D?",
)

SOLUTION = '''
def count_operations(T, S, C, H):
    """T words look at S words; width C, H heads (C is a multiple of H)  →  operations in the matrix products"""
    matrices = 2 * T * C * C * 2 + 2 * S * C * C * 2  # queries and output; keys and values
    scores = 2 * T * S * C  # H heads of width C / H: the H cancels
    averages = 2 * T * S * C
    return matrices + scores + averages
'''

ANOTHER = """
def product(n, k, m):
    return sum(2 * k for _ in range(n * m))


def count_operations(T, S, C, H):
    D = C // H
    total = product(T, C, C) + product(S, C, C) + product(S, C, C) + product(T, C, C)
    for _ in range(H):
        total += product(T, D, S) + product(T, S, D)
    return total
"""

WRONG = {
    "multiplications only": edit(
        "return matrices + scores + averages",
        "return (matrices + scores + averages) // 2",
        tell="Only multiplications are counted; each comes with an addition.",
    ),
    "no output matrix": edit(
        "2 * T * C * C * 2 +",
        "2 * T * C * C +",
        tell="One matrix that meets the T vectors is missing: queries and output are two.",
    ),
    "values forgotten": edit(
        "2 * S * C * C * 2 ",
        "2 * S * C * C ",
        tell="One matrix that meets the S vectors is missing: keys and values are two.",
    ),
    "all four meet T": edit(
        "2 * S * C * C * 2",
        "2 * T * C * C * 2",
        tell="Keys and values are made from the S words that are looked at, not from the T that look.",
    ),
    "averages forgotten": edit("scores + averages", "scores", tell="The weighted averages of the values are missing."),
    "scores forgotten": edit("    averages = 2 * T * S * C\n", "    averages = 0\n", says="averages"),
    "times the heads": edit(
        "scores + averages",
        "H * (scores + averages)",
        tell="The heads are counted H times at full width; each has C / H.",
    ),
    "one head only": edit(
        "scores + averages",
        "(scores + averages) // H",
        tell="Scores and averages of one head only are counted; there are H heads.",
    ),
    "square of T": edit("scores = 2 * T * S * C", "scores = 2 * T * T * C", says="expected"),
    "the famous term only": edit(
        "return matrices + scores",
        "return scores",
        tell="The four matrices are missing: the larger part for short texts.",
    ),
    "matrices only": edit(
        "return matrices + scores + averages",
        "return matrices",
        tell="Scores and averages, T · S · C each, are missing.",
    ),
    "self-attention's formula": code(
        """
def count_operations(T, S, C, H):
    return 8 * T * C * C + 4 * T * T * C
""",
        tell="Right where S = T. Which of the products have S rows or S columns?",
    ),
    "softmax too": edit("scores + averages", "scores + averages + 5 * T * S", says="expected"),
    "the example": code(
        """
def count_operations(T, S, C, H):
    return 1344
""",
        says="does not depend",
    ),
    "the engine's own": code(
        """
from autograd import tape


def count_operations(T, S, C, H):
    return tape.cost(None)
""",
        says="not to call",
    ),
}


def expected(T, S, C, H):
    """Product by product, from the shapes of the two factors."""
    pairs = [((T, C), (C, C))] * 2 + [((S, C), (C, C))] * 2
    pairs += [((T, C // H), (C // H, S)), ((T, S), (S, C // H))] * H
    return sum(2 * rows * inner * columns for (rows, inner), (_, columns) in pairs)


def cases():
    yield Case("the example", (6, 6, 4, 1))
    yield Case("one word, width 1", (1, 1, 1, 1))
    yield Case("two heads", (6, 6, 4, 2))
    for T, S, C, H in ((3, 7, 4, 1), (7, 3, 4, 4), (1, 64, 12, 3), (64, 1, 12, 3), (20, 30, 48, 8)):
        yield Case(f"{T} words look at {S}, width {C}, heads {H}", (T, S, C, H))
