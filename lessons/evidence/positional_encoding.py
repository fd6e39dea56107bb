"""What lesson 4 measures: whether order moves a model, how exactly a matrix shifts the waves, how far codes are apart.

Order. In exact arithmetic a stack with full attention and no encoding gives shuffled words shuffled results, and
nothing else changes. In floating point the sums over keys are taken in another order. Attention may then move by at
most eps (2 (d+3) S + 2 n + 16) max|v|, with S the largest sum of |q_c k_c| / sqrt(d): see evidence/attention.py. How
much a whole stack makes of such roundings, the stack tells itself: run in float32 and in float64, the difference E
shows what roundings of relative size 2^-24 amount to. Float64 rounds 2^29 times finer. Two runs are compared, and
one maximum is taken for another, so 32 · 2^-29 E is allowed.

Waves. An angle w p is off by u w p (with u = eps/2), a sine or cosine by two u more; both enter M_k PE(p), and the
sum of two products rounds again. Added up: eps (1.25 w (p + k) + 6) for each entry."""

import math

import numpy as np

import autograd.functional as F
from autograd import Tensor, no_grad
from lessons.faults.positions import random_numbers, sine_table, unpaired_table
from lessons.measuring import of_rounding
from minitransformer import Bert, Classifier, LanguageModel, positions
from minitransformer.positions import Positions

EPS = np.finfo(np.float64).eps
SHIFTS = (1, 2, 3, 5, 17, 100, 512)


def without_encoding(model):
    """The model with zeros in place of the waves."""
    for part in model.modules():
        if isinstance(part, Positions):
            part.weight = Tensor(np.zeros(part.weight.shape, dtype=part.weight.dtype))
    return model


def full_attention(depth, words, length, dtype="float64"):
    return Bert(words, 16, 2, depth, 32, length, seed=depth, positions="sinusoidal", dtype=dtype)


def causal(depth, words, length, dtype="float64"):
    return Classifier(words, 16, 2, depth, 32, max_len=length, seed=depth, dtype=dtype)


def word_scores(model, ids):
    """What a model with full attention computes for each word.   ids (B, T) → (B, T, V)"""
    with no_grad():
        return model(ids, np.zeros_like(ids))[0].numpy()


def class_scores(model, ids):
    with no_grad():
        return model(ids).numpy()


def attention_moves(rng, n=33, d=8):
    """How far shuffling keys and values moves attention, in units of the bound."""
    q, k, v = (rng.standard_normal((n, d)) for _ in range(3))
    order = rng.permutation(n)
    one, other = (
        F.attention(*(Tensor(a[None, None]) for a in x)).numpy() for x in ((q, k, v), (q, k[order], v[order]))
    )
    S = (np.abs(q) @ np.abs(k).T).max() / math.sqrt(d)
    return np.abs(one - other).max() / (EPS * (2 * (d + 3) * S + 2 * n + 16) * np.abs(v).max())


def stack_moves(scores, build, depth, rng, shuffle, encoded=False, words=9, T=12):
    """How far shuffling the words moves the shuffled results, in units of what rounding explains."""
    exact, coarse = (build(depth, words, T, dtype) for dtype in ("float64", "float32"))
    if not encoded:
        exact, coarse = without_encoding(exact), without_encoding(coarse)
    ids = rng.integers(words, size=(8, T))
    order = shuffle(T)
    before, after = scores(exact, ids), scores(exact, ids[:, order])
    before = before[:, order] if before.ndim == 3 else before
    return np.abs(after - before).max() / (32 * 2.0**-29 * np.abs(scores(coarse, ids) - scores(exact, ids)).max())


def shuffling(full):
    """Checks of how far shuffling moves the results, in units of what rounding explains"""
    rng = np.random.default_rng(4)
    every, all_but_last = (lambda T: rng.permutation(T)), (lambda T: np.append(rng.permutation(T - 1), T - 1))
    attention = max(attention_moves(rng) for _ in range(50 if full else 10))
    stacks = max(stack_moves(word_scores, full_attention, depth, rng, every) for depth in (1, 2, 3, 4))
    told = stack_moves(word_scores, full_attention, 2, rng, every, encoded=True)
    one, two = (stack_moves(class_scores, causal, depth, rng, all_but_last) for depth in (1, 2))
    moves = {
        "attention alone": (False, attention),
        "full attention, 1 to 4 layers": (False, stacks),
        "full attention with the waves": (True, told),
        "causal, 1 layer, the last word": (False, one),
        "causal, 2 layers, the last word": (True, two),
    }  # name → whether order should be seen, and how far it moves
    checks = []
    for name, (sees, moved) in moves.items():
        expected = "over 1e4 times" if sees else "at most 100 %"
        text = f"{name}: shuffling moves it by {of_rounding(moved)} ({expected} expected)"
        checks.append((moved > 1e4 if sees else moved <= 1, text))
    return checks


FILLERS, A, B, MARKER, PLACES = 4, 4, 5, 6, 7


def sentences(places, rng):
    """places (n, 2): where a and b stand → ids (n, 9), labels (n): whether a comes first"""
    ids = rng.integers(FILLERS, size=(len(places), PLACES))
    rows = np.arange(len(places))
    ids[rows, places[:, 0]], ids[rows, places[:, 1]] = A, B
    return np.pad(ids, ((0, 0), (1, 1)), constant_values=MARKER), (places[:, 0] < places[:, 1]).astype(int)


def twins(rounds=8):
    """Sentences with a and b at every two places, and the same ones with a and b exchanged."""
    pairs = np.array([(i, j) for i in range(PLACES) for j in range(PLACES) if i != j] * rounds)
    ids, labels = sentences(pairs, np.random.default_rng(1))
    return ids, np.where(ids == A, B, np.where(ids == B, A, ids)), labels


def some_twins():
    """Two test sentences and their twins, with the right answers, to read."""
    ids, exchanged, labels = twins(rounds=1)
    words = {A: "a", B: "b", MARKER: "|"} | dict(enumerate(("one", "two", "red", "sky")))
    lines = []
    for place in (9, 22):
        for row, label in ((ids[place], labels[place]), (exchanged[place], 1 - labels[place])):
            lines.append(f"{' '.join(f'{words[i]:3}' for i in row.tolist())}   {'ba'[label]} came first")
    return "\n".join(lines)


def answers(model, ids):
    """Scores for "a first" and "b first" (n, 2), a Tensor; read at a marker at either end."""
    return model(ids, np.zeros_like(ids))[1] if isinstance(model, Bert) else model(ids)


def random_sentences(n, rng):
    """Sentences with a and b at random places, and whether a comes first: ids (n, 9), labels (n)"""
    return sentences(rng.permuted(np.tile(np.arange(PLACES), (n, 1)), axis=1)[:, :2], rng)


def examine(model):
    """→ how many of the test sentences and their twins are answered rightly, and how many there are"""
    ids, exchanged, labels = twins()
    with no_grad():
        right = [
            (answers(model, i).numpy().argmax(axis=1) == y).sum() for i, y in ((ids, labels), (exchanged, 1 - labels))
        ]
    return int(sum(right)), 2 * len(ids)


def train_four(train):
    """name → whether order should be seen, right answers, answers asked for. `train` is the loop of the lesson."""
    words, T = MARKER + 1, PLACES + 2
    blind, waves, one, two = (
        full_attention(2, words, T),
        full_attention(2, words, T),
        causal(1, words, T),
        causal(2, words, T),
    )
    return {
        "full attention, no encoding, 2 layers": (False, *train(without_encoding(blind))),
        "full attention, waves, 2 layers": (True, *train(waves)),
        "causal, no encoding, 1 layer": (False, *train(without_encoding(one))),
        "causal, no encoding, 2 layers": (True, *train(without_encoding(two))),
    }


def parameters_by_formula(V, C, L, F):
    """Of a language model: words, layers, head, and no term for positions."""
    layer = 3 * C * C + 3 * C + C * C + C + (C * F + F) + (F * C + C) + 4 * C
    return V * C + L * layer + C * V + V


def sizes_of_words_and_waves(model):
    """Root mean squares of what is added, in words."""
    word, C = model.base.embedding.weight.numpy(), model.config.d_model
    wave = positions.positional_encoding(512, C)
    sizes = [np.sqrt((x**2).mean()) for x in (word, word * math.sqrt(C), wave)]
    return "size of an entry: of a new word {:.2f}, times √C {:.2f}; of a wave {:.2f}".format(*sizes)


def sum_or_beside(C):
    """A check that W(x + p) and [W W][x; p] are equal; small whole numbers: all is exact."""
    rng = np.random.default_rng(6)
    W, x, p = (rng.integers(-9, 10, shape).astype(float) for shape in ((5, C), (7, C), (7, C)))
    summed, beside = (
        F.linear(*map(Tensor, pair)).numpy() for pair in ((x + p, W), (np.hstack([x, p]), np.hstack([W, W])))
    )
    equal = int((summed == beside).sum())
    return equal == summed.size, f"W(x + p) = [W W][x; p] in {equal} of {summed.size} entries, exactly"


def frequencies(C):
    return 1 / 10000.0 ** (np.arange(0, C, 2) / C)


def rotation(k, C):
    """M_k (C, C): each pair of columns is turned by k times its frequency."""
    M, i = np.zeros((C, C)), np.arange(0, C, 2)
    angle = k / 10000.0 ** (i / C)
    M[i, i] = M[i + 1, i + 1] = np.cos(angle)
    M[i, i + 1], M[i + 1, i] = np.sin(angle), -np.sin(angle)
    return M


def rounding(steps, C):
    """The bound for waves, for each column.   steps: p + k"""
    return EPS * (1.25 * steps * np.repeat(frequencies(C), 2) + 6)


def best_matrix(table, k):
    """Of all matrices the one that maps position p to p + k best, and the root mean square of what remains."""
    M = np.linalg.lstsq(table[:-k], table[k:], rcond=None)[0].T
    return M, np.sqrt(((table[:-k] @ M.T - table[k:]) ** 2).mean())


def fitted_matrices(n=2048, C=8):
    """Checks of what the best matrices leave, and how far they are from the rotations. The bounds are the table's own
    rounding and that of lstsq, which is backward stable. Least squares needs positions enough to tell the slow waves
    apart: at width 64 with 512 positions the slowest are nearly straight lines, and many matrices do equally well."""
    table = positions.positional_encoding(n, C)
    fits = {k: best_matrix(table, k) for k in SHIFTS}
    left = max(rms for _, rms in fits.values()) / (rounding(n, C).max() + n * EPS)
    smallest = np.linalg.svd(table[: n - max(SHIFTS)], compute_uv=False)[-1]
    bound = (np.linalg.norm(rounding(n, C)) * math.sqrt(n) + n * EPS * math.sqrt(n * C)) / smallest
    off = max(np.abs(M - rotation(k, C)).max() for k, (M, _) in fits.items()) / bound
    shifts = ", ".join(map(str, SHIFTS))
    return [
        (left <= 1, f"{n:,} positions: the best matrix leaves {of_rounding(left)}"),
        (off <= 1, f"and it is the rotation, but for {of_rounding(off)}, at shifts of {shifts}"),
    ]


def other_tables(n=2048, C=8):
    return {"sines only": sine_table(n, C), "random": random_numbers(n, C), "unpaired": unpaired_table(n, C)}


def left_by_others():
    """kind of table → the least error, at any of SHIFTS, of the best matrix"""
    return {name: min(best_matrix(other, k)[1] for k in SHIFTS) for name, other in other_tables().items()}


def shifted_by_rotation(n, C):
    """Checks that the models' own tables are those of `positional_encoding`; and of how far M_k PE(p) is from
    PE(p + k), and M_-k PE(p + k) from PE(p), for all n² pairs at most, as a part of the bound."""
    table, model = positions.positional_encoding(n, C), LanguageModel(5, C, 2, 1, 8, max_len=n, dtype="float64")
    same, steps = int((model.base.embedding.positions.weight.numpy() == table).sum()), np.arange(n)[:, None]
    worst = 0.0
    for k in range(n):
        there, back = table[k:] - table[: n - k] @ rotation(k, C).T, table[: n - k] - table[k:] @ rotation(-k, C).T
        worst = max(worst, (np.abs(there) / rounding(steps[k:], C)).max())
        worst = max(worst, (np.abs(back) / rounding(steps[k:] + k, C)).max())
    return [
        (same == table.size, f"{same} of {table.size} numbers are those that the models add"),
        (worst <= 1, f"M_k PE(p) = PE(p + k) for {n * n:,} pairs, but for {of_rounding(worst)}"),
    ]


def laws_of_rotations(n, C):
    """Checks of M Mᵀ = 1 and M_a M_b = M_(a+b), up to rounding, that M_-k always is M_k transposed, and that products
    of codes depend on the distance alone."""
    step = n // 36
    M = [rotation(k, C) for k in range(0, n, step)]
    orthogonal = max(np.abs(m @ m.T - np.eye(C)).max() for m in M) / (6 * EPS)
    mirrored = all((rotation(-k, C) == rotation(k, C).T).all() for k in range(n))
    joined = max(
        (np.abs(a @ b - rotation(step * (i + j), C)) / rounding(step * (i + j), C)[:, None]).max()
        for i, a in enumerate(M) for j, b in enumerate(M)
    )  # fmt: skip
    spread, bound = spread_of_products(n, C)
    return [
        (orthogonal <= 1, f"M_k is orthogonal, but for {of_rounding(orthogonal)}"),
        (joined <= 1, f"M_a M_b = M_(a+b), but for {of_rounding(joined)}"),
        (mirrored, f"M_(-k) is the transpose of M_k {'to the last bit' if mirrored else 'NOT everywhere'}"),
        (spread <= bound, f"PE(p) PE(q) varies by {spread:.1e} at fixed p - q ({bound:.1e} allowed)"),
    ]


def spread_of_products(n, C):
    """How far PE(p) · PE(q) varies at fixed p - q, and how far it may: both entries of each product are off by their
    angles, and a sum of C terms of total size C/2 rounds."""
    table = positions.positional_encoding(n, C)
    products = table @ table.T
    spread = max(np.ptp(np.diagonal(products, k)) for k in range(n))
    return spread, 2 * EPS * (2 * n * frequencies(C).sum() + 2.5 * C + C * C / 4)


def closest_pair(n, C):
    """The smallest distance of two codes, the number of pairs, and what 0 may look like: squares and products are sums
    of C terms of total size C/2, and the root of their rounding is taken."""
    table = positions.positional_encoding(n, C)
    square = (table**2).sum(axis=1)
    distances = np.sqrt(np.maximum(square[:, None] + square - 2 * table @ table.T, 0)[np.triu_indices(n, 1)])
    return distances.min(), len(distances), math.sqrt(2 * EPS * C * C)


def steps_of(table):
    """The distance from each position to the next."""
    return np.linalg.norm(np.diff(table, axis=0), axis=1)


def neighbours(steps, sines, clock, n, C):
    """Checks of that distance: what theory says with pairs of sine and cosine (each entry of a difference is off by its
    two angles), and that sines alone do not have it. And that one pair, the clock, needs its cosine."""
    expected, bound = math.sqrt((4 * np.sin(frequencies(C) / 2) ** 2).sum()), np.linalg.norm(2 * rounding(n, C))
    text = f"neighbours: {steps.min():.6f} to {steps.max():.6f} apart, {expected:.6f} by theory, wherever they stand"
    near, far = abs(clock[22, 0] - clock[0, 0]), np.linalg.norm(clock[22] - clock[0])
    alone = f"sines only: {sines.min():.3f} to {sines.max():.3f} apart, at worst closer than {steps.min():.3f}"
    return [
        (np.abs(steps - expected).max() <= bound, text),
        (sines.min() < steps.min() and sines.max() > 1.3 * sines.min(), alone),
        (near < 0.01 and far > 1.99, f"positions 0 and 22: sines {near:.4f} apart, with cosine {far:.4f}"),
    ]


def halves(table):
    """All sines first, then all cosines."""
    return np.concatenate([table[:, 0::2], table[:, 1::2]], axis=1)


def exact_distances(table):
    """Squared distances of all pairs; `math.fsum` rounds once, at the end, so the order of columns cannot matter."""
    return np.array([math.fsum((a - b) ** 2) for i, a in enumerate(table) for b in table[:i]])


def distances_without_alternation(n=96, C=32):
    """How many distances stay the same to the last bit when the columns are renumbered, of how many."""
    table = positions.positional_encoding(n, C)
    one, other = exact_distances(table), exact_distances(halves(table))
    return int((one == other).sum()), len(one)
