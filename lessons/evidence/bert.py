"""What lesson 12 measures: how sure one can be of a hidden word from one side and from both; what BERT's batches look
like; whether its input is the sum of three tables; and how often it guesses right."""

import math
from collections import Counter
from collections.abc import Callable

import numpy as np

from autograd import Tensor, no_grad
from minitransformer import Bert, LanguageModel
from minitransformer.app.data import BERT_SPECIALS, BertBatches, WordTokenizer
from minitransformer.app.language import reviews, right_context, split_sentences
from minitransformer.optim import Adam, clip_grad_norm, warmup_cosine

# the language of tools

language = right_context(tools=8, exceptions=20)
TOOL = language.position  # where the word in question stands
listed = list(language.sentences())  # each sentence (a tuple of words) with its probability
tokenizer = WordTokenizer(language.vocabulary(), split="spaces", extra_specials=BERT_SPECIALS)
CLS, SEP, MASK = (tokenizer.special(name) for name in BERT_SPECIALS)
every_sentence = np.array([tokenizer.encode_pieces(words) for words, _ in listed])  # (1536, 10)
probability = np.array([p for _, p in listed])
SIZES = {"d_model": 32, "n_heads": 4, "n_layers": 2, "d_ff": 64, "max_len": 12, "norm_first": True}


def entropies() -> tuple[float, float]:
    """E[-ln P(tool | words before)] and E[-ln P(tool | all other words)], as sums over all sentences."""
    before, with_tool, around = Counter(), Counter(), Counter()
    for words, p in listed:
        before[words[:TOOL]] += p
        with_tool[words[: TOOL + 1]] += p
        around[words[:TOOL], words[TOOL + 1 :]] += p
    one_sided = math.fsum(p * math.log(before[words[:TOOL]] / with_tool[words[: TOOL + 1]]) for words, p in listed)
    two_sided = math.fsum(p * math.log(around[words[:TOOL], words[TOOL + 1 :]] / p) for words, p in listed)
    return one_sided, two_sided


def entropies_agree(one_sided: float, two_sided: float) -> tuple[bool, str]:
    """With ln 8, and with what the language's automaton says. They are sums of 1,536 terms below 1 in size, each with a
    few roundings."""
    off = max(abs(one_sided - math.log(8)), abs(two_sided - language.masked_entropy()))
    text = f"entropy of the tool: ln 8 = {one_sided:.4f} from the left, {two_sided:.4f} from both sides"
    return off < len(listed) * 4 * np.finfo(float).eps, f"{text}, {off:.0e} off the automaton's figures"


# rows with the same beginning may differ in the last bits of float32, 1e-6 or so after a few layers
SINGLE = 1e-5


def left_to_right(sentences: np.ndarray) -> np.ndarray:
    """<sos> and all words but the last: what the language model reads.   (B, 10) → (B, 10)"""
    return np.hstack([np.full((len(sentences), 1), tokenizer.sos), sentences[:, :-1]])


def with_hidden(sentences: np.ndarray, places) -> np.ndarray:
    """[CLS] sentence [SEP] with one word of each row hidden.   (B, 10) → (B, 12)"""
    rows, hidden = np.arange(len(sentences)), sentences.copy()
    hidden[rows, places] = MASK
    return np.pad(hidden, ((0, 0), (1, 1)), constant_values=((0, 0), (CLS, SEP)))


def causal_logits(model: LanguageModel, sentences: np.ndarray) -> np.ndarray:
    """What it says at the tool.   (B, 10) → (B, V)"""
    with no_grad():
        return model(left_to_right(sentences)).numpy()[:, TOOL]


def masked_logits(model: Bert, sentences: np.ndarray) -> np.ndarray:
    """What it says at the hidden tool.   (B, 10) → (B, V)"""
    ids = with_hidden(sentences, TOOL)
    with no_grad():
        return model(ids, np.zeros_like(ids))[0].numpy()[:, TOOL + 1]


def expected_loss(logits: np.ndarray) -> float:
    """E[-ln q(tool)] over the whole language, in double precision.   logits (1536, V)"""
    scores = logits.astype("float64")
    log_q = scores - scores.max(axis=1, keepdims=True)
    log_q -= np.log(np.exp(log_q).sum(axis=1, keepdims=True))
    return float(-probability @ log_q[np.arange(len(log_q)), every_sentence[:, TOOL]])


def fit(kind: type, loss_of: Callable, logits: Callable, steps: int, rows: int = 64, lr: float = 1e-2) -> tuple:
    """Trains a model of this kind on fresh sentences. Returns it, and ten times on the way its exact loss."""
    drawn = [tokenizer.encode_pieces(words) for words in language.sample(steps * rows, seed=1)]
    model = kind(tokenizer.vocab_size, **SIZES)
    optimizer, factor = Adam(model.parameters(), lr=lr), warmup_cosine(steps // 10, steps, floor=0.02)
    seen = [(0, expected_loss(logits(model, every_sentence)))]
    for step, batch in enumerate(np.array(drawn).reshape(steps, rows, -1), start=1):
        optimizer.lr = lr * factor(step)
        loss_of(model, batch, np.random.default_rng(step)).backward()
        clip_grad_norm(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % (steps // 10) == 0:
            seen.append((step, expected_loss(logits(model, every_sentence))))
    return model, seen


def first_guesses(model, logits: Callable, sentence: np.ndarray) -> str:
    """The three likeliest words at the tool.   sentence (1, 10)"""
    q = np.exp(logits(model, sentence)[0].astype(float))
    return ", ".join(f"{tokenizer.piece(int(i))} {q[i] / q.sum():.0%}" for i in np.argsort(-q)[:3])


def moved_by_endings(model, logits: Callable) -> tuple[int, int]:
    """How many answers at the tool change in any bit when the endings of the sentences are exchanged; of how many."""
    other = every_sentence.copy()
    other[:, TOOL + 1 :] = every_sentence[::-1, TOOL + 1 :]  # the same beginnings, foreign endings
    moved = (logits(model, every_sentence) != logits(model, other)).any(axis=1)
    return int(moved.sum()), int((every_sentence != other).any(axis=1).sum())


# reviews of books

review_words = WordTokenizer(reviews().vocabulary(), split="spaces", extra_specials=BERT_SPECIALS)
NAMES = ("[CLS]", "[SEP]", "[MASK]")


def review_batches(n: int, seed: int, rows: int, **options) -> BertBatches:
    documents = [split_sentences(words) for words in reviews().sample(n, seed)]
    ids = [[review_words.encode_pieces(sentence) for sentence in document] for document in documents]
    return BertBatches(ids, review_words, max_len=64, rows=rows, seed=seed, **options)


def train_bert(steps: int, rows: int = 32, lr: float = 5e-3) -> Bert:
    model = Bert(review_words.vocab_size, d_model=48, n_heads=4, n_layers=2, d_ff=96, max_len=64, norm_first=True)
    optimizer, factor = Adam(model.parameters(), lr=lr), warmup_cosine(steps // 10, steps)
    batches = review_batches(steps * rows, 1, rows)  # more than one pair a review: the text never repeats
    for step, batch in zip(range(1, steps + 1), batches.epoch(), strict=False):
        optimizer.lr = lr * factor(step)
        answers = batch.masked_targets, batch.next_labels
        model.loss(batch.ids, batch.segments, *answers, batch.lengths, batch.ignore).backward()
        clip_grad_norm(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return model


def put_back(batch) -> np.ndarray:
    """The rows as they were before words were hidden."""
    return np.where(batch.masked_targets == batch.ignore, batch.ids, batch.masked_targets)


def rows_of_the_right_form(batch) -> tuple[bool, str]:
    """[CLS] a [SEP] b [SEP], segments 0 and 1; the hidden words are put back first."""
    cls, sep, _ = map(review_words.special, NAMES)
    right, whole = 0, put_back(batch)
    for row, segments, length in zip(whole, batch.segments, batch.lengths, strict=True):
        row, seps = row[:length], np.flatnonzero(row[:length] == sep)
        expected = (np.arange(length) > seps[0]).astype(int)
        right += row[0] == cls and len(seps) == 2 and seps[1] == length - 1 and (segments[:length] == expected).all()
    return right == len(whole), f"{right} of {len(whole)} rows read [CLS] a [SEP] b [SEP] with segments 0 and 1"


def chosen_words(batch) -> tuple[bool, str]:
    """15 % of the ordinary words of each row, rounded, at least one."""
    ordinary = (batch.lengths - 3).astype(int)  # all but the three specials
    chosen = batch.masked_targets != batch.ignore
    wrong = int((chosen.sum(axis=1) != np.maximum(1, (0.15 * ordinary + 0.5).astype(int))).sum())
    text = (
        f"{chosen.sum() / ordinary.sum():.1%} of {ordinary.sum():,} words are chosen; {wrong} of {len(chosen):,} rows"
    )
    return wrong == 0, f"{text} differ from 15 %, rounded, at least one (0 expected)"


def fates(batch) -> list[tuple[bool, str]]:
    """Of the chosen words 80 % become [MASK], 10 % stay, 10 % become another word.

    What is drawn at random gets an interval from the binomial distribution, 4.5 standard deviations wide on either
    side: a sound engine leaves it once in 150,000 runs. With a vocabulary of P words a "random" word is the old one
    again with probability 1/P, so that 0.1 + 0.1/P look unchanged."""
    chosen = batch.masked_targets != batch.ignore
    now, then, total = batch.ids[chosen], batch.masked_targets[chosen], int(chosen.sum())
    again = 0.1 / len(review_words.pieces)
    counts = {
        "become [MASK]": (int((now == review_words.special("[MASK]")).sum()), 0.8),
        "stay": (int((now == then).sum()), 0.1 + again),
    }
    counts["become another word"] = (total - sum(count for count, _ in counts.values()), 0.1 - again)
    found = []
    for what, (count, p) in counts.items():
        spread = 4.5 * math.sqrt(p * (1 - p) / total)
        text = f"{count / total:.2%} of {total:,} chosen words {what} ({p:.2%} ± {spread:.2%} expected)"
        found.append((abs(count / total - p) < spread, text))
    return found


def typical(batch) -> tuple[np.ndarray, np.ndarray]:
    """ids and segments of one row, without padding. Rows are sorted by length: the middle one.   (1, length) each"""
    row = len(batch.ids) // 2
    length = int(batch.lengths[row])
    return batch.ids[row : row + 1, :length], batch.segments[row : row + 1, :length]


def summed_by_hand(bert: Bert, ids: np.ndarray, segments: np.ndarray) -> tuple[bool, str]:
    """The encoder's input is the normed sum of three tables' rows."""
    tables = bert.embedding.weight, bert.embedding.positions.weight, bert.segments.weight
    words, places, parts = (table.numpy() for table in tables)
    with no_grad():
        by_hand = bert.encoder(bert.norm(Tensor(words[ids] + places[: ids.shape[1]] + parts[segments]))).numpy()
        differ = int((by_hand != bert.hidden(ids, segments).numpy()).sum())
    text = f"{differ} of {by_hand.size:,} hidden numbers differ in any bit from those of word + position + segment"
    return differ == 0, f"{text}, summed by hand (0 expected)"


def seen_from_cls(bert: Bert, ids: np.ndarray, segments: np.ndarray) -> tuple[bool, str]:
    """Each word after [CLS] is exchanged for one that stands nowhere in the batch: does the answer change?"""
    seen, length = 0, ids.shape[1]
    with no_grad():
        answer = bert(ids, segments)[1].numpy()
        for place in range(1, length):
            changed = ids.copy()
            changed[0, place] = review_words.oov
            seen += bool((bert(changed, segments)[1].numpy() != answer).any())
    return seen == length - 1, f"the answer at [CLS] changes with {seen} of the {length - 1} words after it"


def accuracies(bert: Bert) -> tuple[tuple[int, int], tuple[int, int]]:
    """(right, asked) for the hidden words and for the next sentence, on reviews that were not trained on."""
    words = following = np.zeros(2, dtype=int)
    with no_grad():
        for batch in review_batches(400, 2, 64, shuffle=False).epoch():
            scores, answer = bert(batch.ids, batch.segments, batch.lengths)
            hidden = batch.masked_targets != batch.ignore
            right = (scores.numpy().argmax(axis=-1) == batch.masked_targets)[hidden]
            words = words + (right.sum(), right.size)
            right = answer.numpy().argmax(axis=1) == batch.next_labels
            following = following + (right.sum(), right.size)
    return tuple(map(int, words)), tuple(map(int, following))


def commonest(batch) -> float:
    """The share of hidden words that whoever always names the commonest one gets right."""
    common = Counter(batch.masked_targets[batch.masked_targets != batch.ignore].tolist())
    return common.most_common(1)[0][1] / common.total()


def one_row(bert: Bert, batch) -> list[tuple]:
    """What BERT reads in one short row whose sentences follow each other, word by word: the word, its segment, and
    where it was chosen, what it was and what BERT guesses."""
    row = int(np.argmin(abs(batch.lengths - 17) + 9 * (batch.next_labels == 1)))
    length = int(batch.lengths[row])
    ids, segments = batch.ids[row : row + 1, :length], batch.segments[row : row + 1, :length]
    with no_grad():
        guesses = bert(ids, segments)[0].numpy()[0].argmax(axis=-1)
    name, targets = (lambda token: review_words.piece(int(token))), batch.masked_targets[row, :length]
    asked = [None if t == batch.ignore else (name(t), name(g)) for t, g in zip(targets, guesses, strict=True)]
    return list(zip(map(name, ids[0]), map(int, segments[0]), asked, strict=True))
