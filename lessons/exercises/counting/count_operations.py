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

from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "counting", "05", 1, 10
RESULTS = ("operations",)

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
