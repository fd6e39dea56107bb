"""What lesson 16 measures: MiniLM's vectors of sentences and words, layer by layer, and where its heads look.

How much eps shrinks a norm: y = (x - mean) / sqrt(var + eps), and sqrt(var + eps) = sqrt(var) (1 + eps / (2 var) ...).
So a row becomes shorter by the part eps / (2 var); the next term is smaller by 3 eps / (4 var), below 0.002 here."""

import numpy as np

from autograd import no_grad
from minitransformer.layers import LayerNorm, MultiheadAttention
from minitransformer.pretrained import load

SENTENCE = "The cat sat on the mat."
# what another program computes with the same weights: the first numbers of this sentence's vector
ANCHOR = np.array([0.13023719, -0.01577282, -0.03671669, 0.05798641, -0.05979175])
PAIRS = (
    ("A man is playing a guitar.", "Somebody makes music on a string instrument."),
    ("The children are swimming in the lake.", "Kids have fun in the water."),
    ("She bought a new car.", "A woman has purchased an automobile."),
    ("The film was boring.", "I nearly fell asleep in the cinema."),
    ("It is raining heavily outside.", "Take an umbrella, the weather is awful."),
    ("My phone's battery is empty.", "I need a charger for this device."),
    ("He cooked pasta for dinner.", "Spaghetti was prepared by my husband in the evening."),
    ("The doctor examined the patient.", "A physician looks after someone who is ill."),
    ("Our team won the match.", "We beat the other players."),
    ("The train was an hour late.", "There was a long delay at the railway station."),
    ("The price of bread has gone up.", "Food is getting more expensive."),
    ("The dog chased the cat.", "A puppy runs behind a kitten."),
)
TEXTS = tuple(text for pair in PAIRS for text in pair)
RIVER = (
    "The bank of the river is green.",
    "The bank of the stream is muddy.",
    "The bank with willows and ducks is wet.",
)
MONEY = ("The bank with clerks and loans is rich.", "The bank lent us some money.", "The bank opened an account.")
BANK = 2  # where the word stands in all of these: [CLS] the bank
PLAIN = (
    "The quick brown fox jumps over the lazy dog.",
    "When the rain stopped, we walked home through the park.",
    "My brother bought a new car last week, but it broke down yesterday.",
    "Scientists discovered a planet that orbits two stars.",
    "I do not like coffee, so I drink tea in the morning.",
    "She went to the bank to deposit her money.",
)


def opened():
    """The model, ready to be asked, and its tokenizer."""
    model, tokenizer = load("minilm")
    return model.eval(), tokenizer


def states(model, tokenizer, text):
    """The vectors of a text's pieces as they enter the layers, and after each.   → (layers + 1, T, C)"""
    ids = np.array([tokenizer.encode(text)])
    with no_grad():
        x = model.norm(model.embedding(ids) + model.segments(np.zeros_like(ids)))
        found = [x]
        for layer in model.encoder.layers:
            found.append(layer(found[-1]))
    return np.stack([x.numpy()[0] for x in found])


def similarities(rows):
    """The cosine between any two rows.   rows (n, C) → (n, n)"""
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit @ unit.T


def by_layer(model, tokenizer, texts=TEXTS):
    """Similarities of texts, each the mean of its pieces, after every layer.   → (layers + 1, n, n)"""
    means = np.stack([states(model, tokenizer, text).mean(axis=1) for text in texts], axis=1)
    return np.stack([similarities(layer) for layer in means])


def found_partners(table):
    """How many texts have their partner as the nearest of all others; 2 i and 2 i + 1 are partners."""
    table = table.copy()
    np.fill_diagonal(table, -np.inf)
    return int((table.argmax(axis=1) == (np.arange(len(table)) ^ 1)).sum())


def partners_by_words(tokenizer, texts=TEXTS):
    """How many partners are found by counting shared pieces; where several texts share as many, by drawing lots."""
    sets = [set(tokenizer.cut(text)) - {"."} for text in texts]
    table = np.array([[len(a & b) / len(a | b) for b in sets] for a in sets])
    np.fill_diagonal(table, -1)
    best = table == table.max(axis=1, keepdims=True)
    return sum(best[i, i ^ 1] / best[i].sum() for i in range(len(texts)))


def bank(model, tokenizer):
    """The vectors of the word bank in six sentences.   → (layers + 1, 6, C); the first three stand by a river"""
    return np.stack([states(model, tokenizer, text)[:, BANK] for text in (*RIVER, *MONEY)], axis=1)


def two_kinds(table):
    """Mean similarity within a kind, between the kinds, and how many have one of their own kind as the nearest."""
    kind = np.arange(6) // 3
    same = (kind[:, None] == kind) & ~np.eye(6, dtype=bool)
    other = kind[:, None] != kind
    nearest = np.where(np.eye(6, dtype=bool), -np.inf, table).argmax(axis=1)
    return table[same].mean(), table[other].mean(), int((kind[nearest] == kind).sum())


def attention(model, ids):
    """Where every head of every layer looks.   ids (1, T) → (layers, H, T, T)"""
    layers = [part for _, part in model.named_modules() if isinstance(part, MultiheadAttention)]
    try:
        for layer in layers:
            layer.watched = []
        with no_grad():
            model.hidden(ids, np.zeros_like(ids))
        return np.stack([layer.watched[0][0] for layer in layers])
    finally:
        for layer in layers:
            layer.watched = None


def habits(model, tokenizer, texts=PLAIN):
    """How much weight each head puts, on average over words, on the word before, the word after, and [CLS].

    → three arrays (layers, H)"""
    before, after, first = [], [], []
    for text in texts:
        weights = attention(model, np.array([tokenizer.encode(text)]))
        words = np.arange(1, weights.shape[-1] - 1)
        before.append(weights[:, :, words, words - 1])
        after.append(weights[:, :, words, words + 1])
        first.append(weights[:, :, words, 0])
    return [np.concatenate(part, axis=-1).mean(axis=-1) for part in (before, after, first)]


def salad(tokenizer, words, seed):
    """Pieces drawn at random, between [CLS] and [SEP]: no sentence, no meaning.   → (1, words + 2)"""
    drawn = np.random.default_rng(seed).integers(1000, tokenizer.vocab_size, words)
    return np.array([[*tokenizer.before, *drawn, *tokenizer.after]])


def weight_on_the_word_before(model, ids, layer, head):
    """For each word, how much of this head's gaze rests on the word before it."""
    weights = attention(model, ids)[layer, head]
    words = np.arange(1, weights.shape[-1] - 1)
    return weights[words, words - 1]


def with_eps(model, eps):
    """Gives all norms of a model another eps."""
    for _, part in model.named_modules():
        if isinstance(part, LayerNorm):
            part.eps = eps


def moved_by_eps(model, tokenizer, eps, text=SENTENCE):
    """What another eps does to the words of a text.

    → largest change of a last vector; of the sentence's vector; and by which part each row of the first norm shrinks,
    measured and predicted (T)"""
    ids = np.array([tokenizer.encode(text)])
    own = model.config.norm_eps

    def seen():
        with no_grad():
            x = model.embedding(ids) + model.segments(np.zeros_like(ids))
            plain = (model.norm(x).numpy()[0] - model.norm.bias.numpy()) / model.norm.weight.numpy()
            hidden, sentence = model.hidden(ids, np.zeros_like(ids)), model.sentences(ids)
        return x.numpy()[0].astype(np.float64), plain, hidden.numpy(), sentence.numpy()

    entering, before, hidden, sentence = seen()
    try:
        with_eps(model, eps)
        _, after, other_hidden, other_sentence = seen()
    finally:
        with_eps(model, own)
    shrunk = 1 - np.linalg.norm(after, axis=1) / np.linalg.norm(before, axis=1)
    predicted = eps / (2 * entering.var(axis=1))
    return np.abs(other_hidden - hidden).max(), np.abs(other_sentence - sentence).max(), shrunk, predicted
