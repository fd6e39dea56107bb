# %% [markdown]
# # 12. Reading from both sides
#
# The language model of the last lesson reads from left to right. It must: whoever writes the next word has nothing on
# the right to look at. But somebody who *reads* a finished sentence sees both sides, and often it is the end of the
# sentence that explains its beginning. BERT gives up writing in order to read: it hides a few words, looks at all the
# others, and guesses.
#
# Two claims. The first says that this is more than a matter of taste: there are things that a left-to-right model
# cannot know, however long it is trained. The second says what BERT's input looks like, and that training on it works.
#
# Run it: `python lessons/12_bert.py [--backend NAME] [--full]`; add `--break causal-forced` to see a check fail.

# %%
import math
from collections import Counter

import numpy as np

from autograd import Tensor, no_grad
from lessons import faults
from lessons.figures import bert as figures
from lessons.harness.trial import Lesson
from minitransformer import Bert, LanguageModel
from minitransformer.app.data import BERT_SPECIALS, BertBatches, WordTokenizer
from minitransformer.app.language import reviews, right_context, split_sentences
from minitransformer.app.tasks.measures import wilson
from minitransformer.optim import Adam, clip_grad_norm, warmup_cosine

lesson = Lesson(__file__)

# %% [markdown]
# ## A language whose end explains its beginning
#
# > anna took the **ladder** quickly to pick the cherries .
#
# Before the tool stands only who took it, and everybody takes every tool equally often. The purpose comes four words
# later, and four times out of five it is the tool's own; else it is drawn at random. The language has 1,536 sentences,
# so every expectation below is a sum over all of them: nothing is estimated.

# %%
language = right_context(tools=8, exceptions=20)
TOOL = language.position
tokenizer = WordTokenizer(language.vocabulary(), split="spaces", extra_specials=BERT_SPECIALS)
CLS, SEP, MASK = (tokenizer.special(name) for name in BERT_SPECIALS)
listed = list(language.sentences())
every_sentence = np.array([tokenizer.encode_pieces(words) for words, _ in listed])  # (1536, 10)
probability = np.array([p for _, p in listed])
print(f"{len(listed):,} sentences of {every_sentence.shape[1]} words, {tokenizer.vocab_size} ids")


def column(n, token):
    return np.full((n, 1), token)


def left_to_right(sentences):
    """<sos> and all words but the last: what the language model reads.   (B, 10) → (B, 10)"""
    return np.hstack([column(len(sentences), tokenizer.sos), sentences[:, :-1]])


def with_hidden(sentences, places):
    """[CLS] sentence [SEP] with one word of each row hidden, and its position in there.   (B, 10) → (B, 12), (B)"""
    rows = np.arange(len(sentences))
    hidden = sentences.copy()
    hidden[rows, places] = MASK
    return np.hstack([column(len(rows), CLS), hidden, column(len(rows), SEP)]), places + 1


def exact_loss(logits):
    """E[-ln q(tool)] over the whole language, in double precision.   logits (1536, V)"""
    scores = logits.astype("float64")
    log_q = scores - scores.max(axis=1, keepdims=True)
    log_q -= np.log(np.exp(log_q).sum(axis=1, keepdims=True))
    return float(-probability @ log_q[np.arange(len(log_q)), every_sentence[:, TOOL]])


# %% [markdown]
# ## Two models, the same size
#
# Both have two layers of width 32. One is asked for the next word everywhere and reads with the causal mask. The other
# gets each sentence with one word hidden, any of the ten, and is asked for that word. While they learn we note the
# exact loss at the tool.


# %%
def fit(model, loss_of, look, steps, rows=64, lr=1e-2):
    """Trains on fresh sentences; returns what `look` saw, ten times on the way."""
    sentences = language.sample(steps * rows, seed=1)
    ids = np.array([tokenizer.encode_pieces(words) for words in sentences]).reshape(steps, rows, -1)
    optimizer, factor = Adam(model.parameters(), lr=lr), warmup_cosine(steps // 10, steps, floor=0.02)
    seen = [(0, look())]
    for step in range(1, steps + 1):
        optimizer.lr = lr * factor(step)
        loss_of(ids[step - 1], np.random.default_rng(step)).backward()
        clip_grad_norm(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % (steps // 10) == 0:
            seen.append((step, look()))
    return seen


SIZES = {"d_model": 32, "n_heads": 4, "n_layers": 2, "d_ff": 64, "max_len": 12, "norm_first": True}
STEPS = 600 if lesson.full else 200


def causal_logits(model, sentences):
    with no_grad():
        return model(left_to_right(sentences)).numpy()[:, TOOL]


def masked_logits(model, sentences):
    ids, place = with_hidden(sentences, np.full(len(sentences), TOOL))
    with no_grad():
        return model(ids, np.zeros_like(ids))[0].numpy()[:, place[0]]


@lesson.remember
def causal_run():
    model = LanguageModel(tokenizer.vocab_size, **SIZES)

    def loss(sentences, _):
        return model.loss(left_to_right(sentences), sentences)

    return model, fit(model, loss, lambda: exact_loss(causal_logits(model, every_sentence)), STEPS)


@lesson.remember
def masked_run():
    model = Bert(tokenizer.vocab_size, **SIZES)
    head = model.word_head

    def loss(sentences, rng):
        rows, places = np.arange(len(sentences)), rng.integers(0, sentences.shape[1], len(sentences))
        ids, at = with_hidden(sentences, places)
        hidden = model.hidden(ids, np.zeros_like(ids))
        return head.loss(hidden[rows, at], sentences[rows, places])

    return model, fit(model, loss, lambda: exact_loss(masked_logits(model, every_sentence)), STEPS)


# %% [markdown]
# ## Claim: a left-to-right model cannot use what stands to the right; the masked objective can
#
# Whatever a left-to-right model predicts for the tool, it predicts from the words before it. So its loss is a
# cross-entropy against $P(\text{tool} \mid \text{words before})$, and by Gibbs' inequality never below that
# distribution's entropy, here $\ln 8$. This holds before training, after it and at any moment in between, for every
# choice of weights. The masked model's floor is the entropy given *all* other words, which is far lower.
#
# *What would refute it:* a causal loss below $\ln 8$ at any time, or a masked model that stays above it.
#
# Two broken engines: one lets the causal model look ahead, the other puts the causal mask into BERT.


# %%
@lesson.trial(
    "bidirectional",
    "A left-to-right model cannot use what stands to the right; a model that fills in hidden words can.",
    controls=[faults.mask_off, faults.causal_forced],
)
def bidirectional(trial):
    before, around = Counter(), Counter()
    for words, p in listed:
        before[words[:TOOL]] += p
        around[words[:TOOL], words[TOOL + 1 :]] += p
    with_tool = Counter()
    for words, p in listed:
        with_tool[words[: TOOL + 1]] += p
    one_sided = math.fsum(p * math.log(before[words[:TOOL]] / with_tool[words[: TOOL + 1]]) for words, p in listed)
    two_sided = math.fsum(p * math.log(around[words[:TOOL], words[TOOL + 1 :]] / p) for words, p in listed)
    # sums of 1,536 terms below 1 in size, each with a few roundings
    off = max(abs(one_sided - math.log(8)), abs(two_sided - language.masked_entropy()))
    trial.check(off < 1536 * 4 * np.finfo(float).eps, f"entropy of the tool: ln 8 = {one_sided:.4f} from the left, "
                f"{two_sided:.4f} from both sides, {off:.0e} off the automaton's figures")  # fmt: skip

    causal, causal_seen = causal_run()
    lowest = min(loss for _, loss in causal_seen)
    # rows with the same beginning may differ in the last bits of float32, 1e-6 or so after a few layers
    trial.check(lowest >= one_sided - 1e-5, f"lowest causal loss of {len(causal_seen)} looks: {lowest:.4f} "
                f"(never below {one_sided:.4f})")  # fmt: skip
    gap = causal_seen[-1][1] - one_sided
    trial.check(
        gap < 0.05, f"the causal model has learnt all there is: it ends {gap:.4f} above its floor (0.05 at most)"
    )

    masked, masked_seen = masked_run()
    final = masked_seen[-1][1]
    trial.check(final < one_sided, f"the masked model ends at {final:.4f} (below {one_sided:.4f} expected)")
    trial.check(final >= two_sided - 1e-5, f"... and not below its own floor of {two_sided:.4f}")

    other = every_sentence.copy()
    other[:, TOOL + 1 :] = every_sentence[::-1, TOOL + 1 :]  # the same beginnings, foreign endings
    moved = [
        int((logits(model, every_sentence) != logits(model, other)).any(axis=1).sum())
        for model, logits in ((causal, causal_logits), (masked, masked_logits))
    ]
    changed = int((every_sentence != other).any(axis=1).sum())
    trial.check(moved[0] == 0, f"other endings change {moved[0]} of {changed:,} causal predictions (0 expected)")
    trial.check(moved[1] == changed, f"... and {moved[1]:,} of {changed:,} masked ones (all expected)")

    seen = {"left to right": causal_seen, "both sides": masked_seen}
    floors = {"floor from the left, ln 8": one_sided, "floor from both sides": two_sided}
    caption = "No weights get a left-to-right model below its floor; two-sided reading does."
    trial.show(figures.two_floors(seen, floors), "two_floors", caption)
    return "proved", (f"causal loss never below ln 8 = {one_sided:.3f} (lowest {lowest:.3f}); masked {final:.3f}, "
                      f"its own floor {two_sided:.3f}")  # fmt: skip


# %% [markdown]
# The causal model comes within a hair of $\ln 8$ and rests there: it guesses one tool in eight, and there is nothing
# more to learn. The masked model walks through that line as if it were not there. It had to pay for this: it cannot
# write, because it needs the end of a sentence in order to fill in its beginning.
#
# ## What BERT reads
#
# `[CLS] first sentence [SEP] second sentence [SEP]`. Each position gets the sum of three learned vectors: which word,
# which position, which of the two sentences. Then two questions are asked at once:
#
# - **hidden words:** 15 % of the words are chosen. Of these 80 % become `[MASK]`, 10 % a random word, 10 % stay. All of
#   them must be guessed. The random and the kept ones are there so that the model cannot rely on seeing `[MASK]`.
# - **next sentence:** did the second sentence follow the first, or was it taken from elsewhere? The answer is read off
#   `[CLS]`, a word without meaning of its own whose only job is to collect one.
#
# We train on the built-in book reviews. A review of a cookbook goes on about its sauces, not about the detective.

# %%
review_words = WordTokenizer(reviews().vocabulary(), split="spaces", extra_specials=BERT_SPECIALS)


def review_batches(n, seed, rows, **options):
    documents = [split_sentences(words) for words in reviews().sample(n, seed)]
    ids = [[review_words.encode_pieces(sentence) for sentence in document] for document in documents]
    return BertBatches(ids, review_words, max_len=64, rows=rows, seed=seed, **options)


def train_bert(steps, rows=32, lr=5e-3):
    model = Bert(review_words.vocab_size, d_model=48, n_heads=4, n_layers=2, d_ff=96, max_len=64, norm_first=True)
    optimizer, factor = Adam(model.parameters(), lr=lr), warmup_cosine(steps // 10, steps)
    batches = review_batches(steps * rows, 1, rows)  # more than one pair a review: the text never repeats
    for step, batch in zip(range(1, steps + 1), batches.epoch(), strict=False):
        optimizer.lr = lr * factor(step)
        model.loss(
            batch.ids, batch.segments, batch.masked_targets, batch.next_labels, batch.lengths, batch.ignore
        ).backward()
        clip_grad_norm(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return model


bert = train_bert(1500 if lesson.full else 400)
print(f"a BERT of {bert.num_parameters():,} parameters has been trained")

# %% [markdown]
# ## Claim: `[CLS]`, `[SEP]`, segments, three summed embeddings, hidden words, next sentence; and it works
#
# *What would refute it:* rows of another form; rates other than 15 % and 80/10/10; an input that is not the sum of the
# three tables; a `[CLS]` that misses some word; or accuracies that guessing would reach too.
#
# The rates are random, so they get intervals from the binomial distribution, 4.5 standard deviations wide on either
# side: a sound engine leaves such an interval once in 150,000 runs. One subtlety: with a vocabulary of $P$ words, a
# "random" word is the old one again with probability $1/P$, so we expect $0.1 + 0.1/P$ to look unchanged.
#
# The broken engines: one for each part.


# %%
def check_form(trial, batch):
    """[CLS] a [SEP] b [SEP], segments 0 and 1; the hidden words are put back first."""
    cls, sep = review_words.special("[CLS]"), review_words.special("[SEP]")
    whole = np.where(batch.masked_targets == batch.ignore, batch.ids, batch.masked_targets)
    right = 0
    for row, segments, length in zip(whole, batch.segments, batch.lengths, strict=True):
        row, seps = row[:length], np.flatnonzero(row[:length] == sep)
        expected = (np.arange(length) > seps[0]).astype(int)
        right += row[0] == cls and len(seps) == 2 and seps[1] == length - 1 and (segments[:length] == expected).all()
    trial.check(right == len(whole), f"{right} of {len(whole)} rows read [CLS] a [SEP] b [SEP] with segments 0 and 1")


def check_rates(trial, batch):
    """15 % of the ordinary words, then 80/10/10."""
    ordinary = (batch.lengths - 3).astype(int)  # all but the three specials
    chosen = batch.masked_targets != batch.ignore
    expected = np.maximum(1, (0.15 * ordinary + 0.5).astype(int))
    wrong = int((chosen.sum(axis=1) != expected).sum())
    total = int(chosen.sum())
    trial.check(wrong == 0, f"{total / ordinary.sum():.1%} of {ordinary.sum():,} words are chosen; {wrong} of "
                f"{len(chosen):,} rows differ from 15 %, rounded, at least one (0 expected)")  # fmt: skip
    now, then = batch.ids[chosen], batch.masked_targets[chosen]
    again = 0.1 / len(review_words.pieces)
    counts = {
        "become [MASK]": (int((now == review_words.special("[MASK]")).sum()), 0.8),
        "stay": (int((now == then).sum()), 0.1 + again),
    }
    counts["become another word"] = (total - sum(count for count, _ in counts.values()), 0.1 - again)
    for what, (count, p) in counts.items():
        spread = 4.5 * math.sqrt(p * (1 - p) / total)
        trial.check(abs(count / total - p) < spread, f"{count / total:.2%} of {total:,} chosen words {what} "
                    f"({p:.2%} ± {spread:.2%} expected)")  # fmt: skip


def check_sum(trial, batch):
    """The encoder's input is the normed sum of three tables' rows, and [CLS] sees every word."""
    words, places, parts = (t.numpy() for t in (bert.embedding.weight, bert.embedding.positions.weight,
                                                bert.segments.weight))  # fmt: skip
    row = len(batch.ids) // 2  # rows are sorted by length: a typical one
    length = int(batch.lengths[row])
    ids, segments = batch.ids[row : row + 1, :length], batch.segments[row : row + 1, :length]
    with no_grad():
        by_hand = bert.encoder(bert.norm(Tensor(words[ids] + places[:length] + parts[segments]))).numpy()
        differ = int((by_hand != bert.hidden(ids, segments).numpy()).sum())
        trial.check(differ == 0, f"{differ} of {by_hand.size:,} hidden numbers differ in any bit from those of "
                    "word + position + segment, summed by hand (0 expected)")  # fmt: skip
        answer = bert(ids, segments)[1].numpy()
        seen = 0
        for place in range(1, length):
            changed = ids.copy()
            changed[0, place] = review_words.oov  # which stands nowhere in the batch
            seen += bool((bert(changed, segments)[1].numpy() != answer).any())
    trial.check(seen == length - 1, f"the answer at [CLS] changes with {seen} of the {length - 1} words after it")


def accuracies(batches):
    """(right, asked) for the hidden words and for the next sentence."""
    words = following = np.zeros(2, dtype=int)
    with no_grad():
        for batch in batches.epoch():
            scores, answer = bert(batch.ids, batch.segments, batch.lengths)
            hidden = batch.masked_targets != batch.ignore
            right = (scores.numpy().argmax(axis=-1) == batch.masked_targets)[hidden]
            words = words + (right.sum(), right.size)
            right = answer.numpy().argmax(axis=1) == batch.next_labels
            following = following + (right.sum(), right.size)
    return words, following


def one_row(batch):
    """What BERT reads in one row, word by word: the word, its segment, and where it was hidden, the answer and the
    guess."""
    row = int(np.argmin(abs(batch.lengths - 17) + 9 * (batch.next_labels == 1)))
    length = int(batch.lengths[row])
    ids, segments = batch.ids[row : row + 1, :length], batch.segments[row : row + 1, :length]
    with no_grad():
        guesses = bert(ids, segments)[0].numpy()[0].argmax(axis=-1)
    name, targets = (lambda token: review_words.piece(int(token))), batch.masked_targets[row, :length]
    asked = [None if t == batch.ignore else (name(t), name(g)) for t, g in zip(targets, guesses, strict=True)]
    return list(zip(map(name, ids[0]), segments[0], asked, strict=True))


# %%
@lesson.trial(
    "bert-input",
    "BERT reads two sentences as three summed embeddings, and learns from hidden words and from what follows what.",
    controls=[
        faults.segments_off,
        faults.positions_off,
        faults.causal_forced,
        faults.always_mask,
        faults.hide_a_third,
        faults.cls_misread,
    ],
)
def bert_input(trial):
    (batch,) = review_batches(1500, 3, 10_000, shuffle=False).epoch()
    check_form(trial, batch)
    check_rates(trial, batch)
    check_sum(trial, batch)

    words, following = accuracies(review_batches(400, 2, 64, shuffle=False))
    common = Counter(batch.masked_targets[batch.masked_targets != batch.ignore].tolist())
    guess = common.most_common(1)[0][1] / common.total()
    low, high = wilson(*map(int, words))
    trial.check(low > 2 * guess, f"{words[0] / words[1]:.1%} of {words[1]:,} hidden words are guessed ({low:.1%} to "
                f"{high:.1%}; more than twice the {guess:.1%} of naming the commonest word expected)")  # fmt: skip
    start, end = wilson(*map(int, following))
    trial.check(start > 0.6, f"{following[0] / following[1]:.1%} of {following[1]:,} next-sentence answers are right "
                f"({start:.1%} to {end:.1%}; above 60 % expected, guessing gives 50 %)")  # fmt: skip
    trial.show(figures.reading(one_row(batch)), "input", "What BERT reads, and what it answers at the hidden places.")
    return "proved", (f"hidden words {words[0] / words[1]:.0%} (commonest word {guess:.0%}), next sentence "
                      f"{following[0] / following[1]:.0%} (guessing 50 %), rates within their intervals")  # fmt: skip


# %% [markdown]
# Every part is what it is said to be, and both questions are learnt from text to which nobody added a single label.
# What the exam answers left open is the price: only 15 % of the words teach anything in a pass, where the causal model
# learns from all of them.

# %%
lesson.finish()
