"""A small text about a farm, and a referee: is a language model better than a bigram on sentences that it has not seen,
and if not, what is the likely mistake? For exercises in which students train a model of their own."""

import numpy as np

SENTENCE = ("the", ".", "behind", "eats")
ANIMALS = ("cat", "cow", "dog", "bee", "hen", "mouse", "pig", "goat")
FOODS = ("fish", "grass", "bones", "nectar", "corn", "cheese", "roots", "leaves")  # in the order of the animals
WORDS = (*SENTENCE, *ANIMALS, *FOODS, "house", "barn", "tree", "hill")
TEXTS, T, V = 64, 16, len(WORDS)


def farm(n, rng):
    """A text of n words."""
    ids = []
    while len(ids) < n:
        animal = int(rng.integers(8))
        place = [2, 0, 20 + int(rng.integers(4))] if rng.random() < 0.5 else []
        ids += [0, 4 + animal, *place, 3, 12 + animal, 1]
    return np.array(ids[:n])


def texts():
    """The text to learn from, texts (64, 17) to be judged by, and the same with one word (at `places`) exchanged."""
    rng = np.random.default_rng(7)
    text, unseen = farm(20_000, rng), farm(TEXTS * (T + 1), rng).reshape(TEXTS, T + 1)
    places, other = rng.integers(T // 4, T // 2, TEXTS), unseen.copy()
    other[np.arange(TEXTS), places] = (other[np.arange(TEXTS), places] + rng.integers(1, V, TEXTS)) % V
    return text, unseen, other, places


def losses(scores, targets):
    """-log p(target), the mean of each text.   scores (N, T, V); targets (N, T)  →  (N)"""
    top = scores.max(axis=-1, keepdims=True)
    log_p = scores - top - np.log(np.exp(scores - top).sum(axis=-1, keepdims=True))
    return -np.take_along_axis(log_p, targets[..., None], -1).mean(axis=(1, 2))


def bigram(text, ids):
    """Scores by counting pairs; one that was never seen counts a hundredth, so that its loss is finite."""
    counts = np.full((V, V), 0.01)
    np.add.at(counts, (text[:-1], text[1:]), 1)
    return np.log(counts[ids])


def judged(case, scores):
    text, unseen, other, places = texts()
    shape = (2 * TEXTS, T, V)
    if not isinstance(scores, np.ndarray) or scores.shape != shape:
        return f"expected  scores of shape {shape}\ngot       {getattr(scores, 'shape', type(scores).__name__)}", ""
    if not np.isfinite(scores).all():
        return "Some scores are NaN or infinite.", "The weights have run away: the steps are too wide."
    scores, changed = scores[:TEXTS].astype(np.float64), scores[TEXTS:].astype(np.float64)
    moved = np.abs(scores - changed).max(axis=-1) / np.abs(scores).max()  # float32 would move by some 1e-6
    before = np.arange(T) < places[:, None]
    if (moved * before).max() > 1e-4:
        n, t = np.argwhere((moved > 1e-4) & before)[0]
        words = " ".join(WORDS[i] for i in unseen[n, : places[n] + 1])
        return (
            f"{words}\nThe scores at place {t} change when the last of these words, at place {places[n]}, becomes "
            f'"{WORDS[other[n, places[n]]]}".',
            "The model looks into the future: is attention causal?",
        )
    mine, theirs = losses(scores, unseen[:, 1:]), losses(bigram(text, unseen[:, :-1]), unseen[:, 1:])
    better = theirs - mine
    if better.mean() > 2 * better.std(ddof=1) / TEXTS**0.5:
        return None
    said = f"loss      {mine.mean():.3f}; the bigram's {theirs.mean():.3f}, that of guessing {np.log(V):.3f}"
    return said, likely(scores, unseen, (moved * (np.arange(T) > places[:, None])).max(), mine.mean(), theirs.mean())


def likely(scores, unseen, memory, mine, theirs):
    """The likely mistake.   memory: how far an exchanged word moves the scores behind it"""
    if np.ptp(scores, axis=(0, 1)).max() < 1e-6:
        return "The model gives the same scores everywhere: the words that it reads do not count."
    if scores.min() >= 0 and np.allclose(scores.sum(axis=-1), 1, atol=1e-4):
        return "These are probabilities: return the scores before the softmax."
    if losses(scores, unseen[:, :-1]).mean() < theirs:
        return "The model repeats the word that it reads: the targets must be moved by one."
    if losses(scores[:, 1:], unseen[:, : T - 1]).mean() < min(theirs + 0.5, mine):
        return "The model tells the word before, not the next one: the targets are moved the wrong way."
    if mine > np.log(V) + 1:
        return (
            "It is worse than guessing: steps uphill, steps too wide, or gradients that pile up (set .grad to None "
            "before each backward)."
        )
    if memory < 1e-4:
        return "Nothing but the last word counts: without attention no word knows those before it."
    if mine > np.log(V) - 0.5:
        return (
            "That is no better than guessing: do all weights move, downhill and far enough? Or do gradients pile up "
            "(set .grad to None before each backward)?"
        )
    return "It learns, but not enough: train longer, with wider steps, and see that every weight is moved."
