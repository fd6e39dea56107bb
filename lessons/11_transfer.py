# %% [markdown]
# # 11. One base, two heads
#
# Labels are expensive: somebody has to read a review before it can be called good or bad. Text is free. So nearly every
# language system today is made in two steps. First *pretrain* on plain text, by predicting the next word. Then take the
# last layer off, put a small new one on, and *fine-tune* on the few labels there are.
#
# The exam answers agree that this works, and quarrel about how far: one says that the model from scratch always stays
# behind, another that it catches up in the end. Behind both is one run each, and a checkpoint that somebody else had
# trained for twelve hours. Here everything is trained in front of you, several times, in a language whose every
# probability is known.
#
# Run it: `python lessons/11_transfer.py [--backend NAME] [--full [--data DIR]]`; add `--break weights-shuffled` to see
# a check fail.

# %%
import functools
import math
from collections import Counter

import numpy as np

from autograd import no_grad, tape
from lessons import faults
from lessons.figures import transfer as figures
from lessons.harness.trial import Lesson
from minitransformer import Classifier, LanguageModel
from minitransformer.app.data import ClassifierBatches, LanguageModelBatches, WordTokenizer, read_labelled
from minitransformer.app.language import Language
from minitransformer.app.language.automaton import Automaton
from minitransformer.app.language.decision import best_accuracy
from minitransformer.app.language.grammar import choice, maybe, one_of, seq
from minitransformer.app.progress import Silent
from minitransformer.app.tasks.measures import classifier_scores, language_model_loss
from minitransformer.app.training import Options, train
from minitransformer.decoding import Cache, Session, generate
from minitransformer.layers import rows_at
from minitransformer.optim import Adam, warmup_cosine

lesson = Lesson(__file__)

# %% [markdown]
# ## A reading diary
#
# > plot superb , rhythm not dull , uncle says boring , heroine witty , ending vivid .
#
# Short reviews, written by a grammar in the way of the built-in book reviews but small enough to be learnt while you
# wait. All four opinions of an entry agree. One in six is worded by denying its opposite, so that counting words is not
# enough, and what the uncle says means nothing. Whoever understands the language is always right about the label:
# $P(\text{label} \mid \text{words})$ is 0 or 1.

# %%
GOOD = (
    "superb charming clever moving vivid witty elegant gripping tender funny luminous subtle splendid brilliant candid"
)
BAD = "boring dull clumsy tedious lifeless sloppy dreadful bland wooden gloomy muddled shallow pompous awful greasy"


def about(good, *names):
    same, opposite = (one_of(*words.split()) for words in ((GOOD, BAD) if good else (BAD, GOOD)))
    return seq(one_of(*names), choice((5, same), (1, seq("not", opposite))))


def entry(good):
    aside = maybe(1, 2, seq(one_of("uncle", "dentist"), "says", one_of(*GOOD.split(), *BAD.split()), ","))
    first, second = about(good, "plot", "story"), about(good, "style", "rhythm")
    third, fourth = about(good, "hero", "heroine"), about(good, "ending", "finale")
    return seq(first, ",", second, ",", aside, third, ",", fourth, ".")


automaton = Automaton()
roots = [automaton.compile(entry(good)) for good in (False, True)]
diary = Language(automaton, automaton.mix((0.5, root) for root in roots))
given = [Language(automaton, root) for root in roots]
tokenizer = WordTokenizer(diary.vocabulary(), split="spaces")
CEILING = best_accuracy(automaton, *roots)
print(f"{diary.size():,} different entries, {diary.best_loss():.4f} nats a word, best possible accuracy {CEILING:.0%}")


def encoded(texts):
    return [np.array(tokenizer.encode_pieces(words)) for words in texts]


@functools.cache
def labelled(n, seed):
    """n entries (as ids) and their labels."""
    generator = np.random.Generator(np.random.PCG64(seed))
    labels = generator.integers(0, 2, n)
    drawn = [iter(language.draw(int((labels == y).sum()), generator)) for y, language in enumerate(given)]
    return encoded(next(drawn[y]) for y in labels.tolist()), labels


# %% [markdown]
# ## Pretraining: no labels anywhere
#
# The model sees entries and nothing else, each of them once.


# %%
def stop_if(interrupted):
    """The loop ends politely at Ctrl-C; a lesson must not go on with half a training."""
    if interrupted:
        raise KeyboardInterrupt


def pretrain(documents, vocabulary, *, d_model=32, rows=32, lr=1e-2, epochs=1, seed=0):
    sizes = {"d_model": d_model, "n_heads": 4, "n_layers": 2, "d_ff": 2 * d_model, "max_len": 64, "norm_first": True}
    model = LanguageModel(vocabulary, seed=seed, **sizes)
    batches = LanguageModelBatches(documents, max_len=64, rows=rows, windows=True)
    total = epochs * batches.count()
    result = train(
        model, Adam(model.named_parameters(), lr=lr), batches,
        lambda model, batch: model.loss(batch.ids, batch.targets, ignore_index=batch.ignore),
        Options(max_epochs=epochs), schedule=warmup_cosine(total // 10, total), progress=Silent(),
    )  # fmt: skip
    stop_if(result.interrupted)
    return model.eval()


lm = pretrain(encoded(diary.sample(32 * (1500 if lesson.full else 800), seed=1)), tokenizer.vocab_size)
prompt = np.array([[tokenizer.sos, *tokenizer.encode("plot not dull ,")]])
(continuation,) = generate(lm, prompt, eos=tokenizer.eos, sample=True, seed=3)
print("the language model goes on:  plot not dull ,", tokenizer.decode(continuation))

# %% [markdown]
# ## Claim: one base, two heads; only the last linear layer differs
#
# *What would refute it:* any number of the base that changes in the swap, any hidden state that differs in a bit, or a
# second part that differs. And if training the classifier changed the language model, they would share, not copy.


# %%
def bits(model):
    return {name: array.tobytes() for name, array in model.state_dict().items()}


def copy_of(model, dtype="float32"):
    """The same language model, in another precision if asked for."""
    copied = LanguageModel(model.config, dtype=dtype)
    copied.load_state_dict(model.state_dict())
    return copied


@lesson.trial(
    "head-swap",
    "Language model and classifier are one base under two heads; only the last linear layer differs.",
    controls=[faults.base_forgotten, faults.base_shared],
)
def head_swap(trial):
    model = copy_of(lm)  # a broken swap may go on to spoil it
    classifier = Classifier.from_language_model(model, n_classes=2, seed=7)
    before, after = bits(model), bits(classifier)
    differ = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    trial.check(
        differ == ["head.bias", "head.weight"],
        f"{len(differ)} of {len(before)} weights differ (2 expected, head.weight and head.bias)",
    )
    texts, labels = labelled(64, 5)
    batch = next(iter(ClassifierBatches(texts, labels, max_len=64, rows=64).epoch()))
    with no_grad():
        one, other = model.base(batch.ids).numpy(), classifier.base(batch.ids).numpy()
        shapes = model(batch.ids).shape[-1], classifier(batch.ids, batch.lengths).shape[-1]
    unequal = int((one != other).sum())
    trial.check(unequal == 0, f"{unequal} of {one.size:,} numbers in the hidden states differ in any bit (0 expected)")
    wanted = tokenizer.vocab_size, 2
    trial.check(shapes == wanted, f"the heads give {shapes[0]} and {shapes[1]} scores ({wanted} expected)")
    classifier.loss(batch.ids, batch.labels, batch.lengths).backward()
    Adam(classifier.parameters(), lr=1e-3).step()
    changed = sum(value != before[name] for name, value in bits(model).items())
    trial.check(changed == 0, f"a training step of the classifier changes {changed} of the language model's weights")
    return "proved", f"{len(before) - 2} of {len(before)} weights keep every bit; heads of {shapes[0]} and {shapes[1]}"


# %% [markdown]
# Only the head is new. The quarrels can begin.
#
# ## Claim: generation feeds each prediction back; classification is one shot
#
# To write $n$ words the model is run $n$ times, each time on its own output. Run naively, each time means the whole
# text again. But under a causal mask the keys and values of old words never change, so they can be kept. If that is
# right, both ways give the same words and, up to rounding, the same scores.
#
# How large may "up to rounding" be? A computed sum of $n$ products equals an exact sum whose terms are off by at most
# $n u$ each, relatively, with $u = 2^{-53}$. So rounding acts like a change of the weights by $n u$. We measure how the
# scores respond to a random relative change of all weights by $10^{-7}$, and scale: that is the bound, times two
# because both ways round.


# %%
@lesson.trial(
    "generate-loop",
    "Generation feeds each prediction back and may keep what it has computed; classification is one shot.",
    controls=[faults.stale_cache, faults.positions_restart],
)
def generate_loop(trial):
    model = copy_of(lm, "float64")
    prompts = np.array([[tokenizer.sos, *ids[:3]] for ids in encoded(diary.sample(8, seed=9))])
    fast, slow = Session(model, prompts), Session(model, prompts, use_cache=False)
    worst, words = 0.0, fast.room
    for _ in range(words):
        kept, again = fast.next_logits(), slow.next_logits()
        worst = max(worst, float(abs(kept - again).max()))
        for session in (fast, slow):
            session.append(again.argmax(axis=1))
    delta, rng = 1e-7, np.random.default_rng(0)
    noisy = LanguageModel(model.config)
    noisy.load_state_dict({n: w * (1 + delta * rng.uniform(-1, 1, w.shape)) for n, w in model.state_dict().items()})
    with no_grad():
        response = float(abs(noisy(slow.tokens).numpy() - model(slow.tokens).numpy()).max()) / delta
    longest = max(model.config.d_ff, slow.tokens.shape[1])  # of all sums: the feed-forward's, or attention's
    bound = 2 * response * longest * 2.0**-53
    trial.check(worst <= bound, f"scores of {8 * words} words with and without the cache differ by {worst:.1e} at most "
                f"(bound {bound:.1e})")  # fmt: skip
    texts = [generate(model, prompts, sample=True, seed=1, use_cache=kept) for kept in (True, False)]
    same = sum(a == b for a, b in zip(*texts, strict=True))
    trial.check(same == 8, f"{same} of 8 drawn texts of {words} words are the same, word for word")

    cache, cached, whole = Cache(2, 1, 64), [], []
    for t in range(64):
        hidden = model.base(slow.tokens[:1, t : t + 1], cache=cache)[:, 0]
        cache.lengths += 1
        cached.append(tape.cost(model.head(hidden)).flops)
        again = rows_at(model.base(slow.tokens[:1, : t + 1]), np.array([t]))[:, 0]
        whole.append(tape.cost(model.head(again)).flops)
    trial.check(
        len(set(cached)) == 1, f"with the cache each word costs the same: {sorted(set(cached))[0]:,} operations"
    )
    bent = int(np.count_nonzero(np.diff(whole, 3)))
    trial.check(bent == 0 and whole[-1] > whole[0], f"without it word t costs a square polynomial in t, up to "
                f"{whole[-1]:,} ({bent} third differences are not 0)")  # fmt: skip
    ratio = sum(whole) / sum(cached)
    trial.show(figures.cache(whole, cached), "cache", "What the next word costs, counted kernel by kernel.")
    return "proved", (f"same words, scores within {worst:.0e} (bound {bound:.0e}); 64 words cost {ratio:.0f} times as "
                      "much without the cache")  # fmt: skip


# %% [markdown]
# Generation is a loop, and the cache is only bookkeeping: it changes the price, not the text. (The count takes the
# cache as full from the start, so the blue line is an upper bound.) A classification costs what the last point of the
# red curve costs, once.
#
# ## Fine-tuning, and a competitor that cannot read
#
# Both models get the same labels, in the same order, with the same learning rate; the whole network is trained. Beside
# them stands Naive Bayes: for each word, how often it occurs in good and in bad entries; no order, no negation.

# %%
EPOCHS = {32: 8, 128: 5, 1024: 3}  # number of labels: times they are gone through
BATCHES = {32: {}, 128: {}, 1024: {"rows": 16, "lr": 3e-3}}  # else the defaults of fine_tune
SEEDS = range(10 if lesson.full else 5)  # of the labels drawn, of the new weights and of the order
STUDENT = {5: 2.776, 10: 2.262}[len(SEEDS)]  # 95 % of Student's t with one degree of freedom less
TESTED = 400
test = ClassifierBatches(*labelled(TESTED, 2), max_len=64, rows=100, shuffle=False)


def fine_tune(model, documents, labels, epochs, seed, held=test, rows=8, lr=5e-3):
    """Accuracy on unseen entries after each epoch."""
    curve = []

    def look(model):
        curve.append(classifier_scores(model, held.epoch())["accuracy"])
        return {"accuracy": curve[-1]}

    result = train(
        model, Adam(model.named_parameters(), lr=lr),
        ClassifierBatches(documents, labels, max_len=64, rows=rows, seed=seed),
        lambda model, batch: model.loss(batch.ids, batch.labels, batch.lengths),
        Options(max_epochs=epochs, monitor="accuracy", perplexity=False), evaluate=look, progress=Silent(),
    )  # fmt: skip
    stop_if(result.interrupted)
    return np.array(curve)


def fresh(seed, like=lm):
    return Classifier(like.config, seed=seed)


@lesson.remember
def pretrained(n, seed):
    model = Classifier.from_language_model(lm, seed=seed)
    return fine_tune(model, *labelled(n, 100 + seed), EPOCHS[n], seed, **BATCHES[n])


@functools.cache  # not lesson.remember: the controls below break only the swap, which has no part in this
def scratch(n, seed):
    return fine_tune(fresh(seed), *labelled(n, 100 + seed), EPOCHS[n], seed, **BATCHES[n])


def naive_bayes(documents, labels, others, truth, vocabulary):
    """Accuracy of Naive Bayes on the presence of words, with one imagined entry of each kind added."""

    def presence(texts):
        table = np.zeros((len(texts), vocabulary))
        for row, ids in zip(table, texts, strict=True):
            row[ids] = 1
        return table

    x, z, labels = presence(documents), presence(others), np.asarray(labels)
    p = np.array([(x[labels == y].sum(axis=0) + 1) / ((labels == y).sum() + 2) for y in (0, 1)])
    scores = z @ np.log(p).T + (1 - z) @ np.log1p(-p).T + np.log(np.bincount(labels, minlength=2) + 1)
    return float((scores.argmax(axis=1) == truth).mean())


def runs(of, n):
    """(seeds, epochs)"""
    return np.array([of(n, seed) for seed in SEEDS])


def spread(values):
    """Half the width of the 95 % interval of a mean over the seeds."""
    return STUDENT * float(np.std(values, ddof=1)) / math.sqrt(len(SEEDS))


def check_ahead(trial, what, ours, theirs, least=0.0):
    """Seed by seed, how far ahead? The interval of the mean difference must lie above `least`."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    ahead, half = float((ours - theirs).mean()), spread(ours - theirs)
    trial.check(ahead - half > least, f"{what}: pretrained {ours.mean():.1%}, scratch {theirs.mean():.1%}; ahead by "
                f"{100 * ahead:.1f} ± {100 * half:.1f} points (surely above {100 * least:.0f} expected)")  # fmt: skip


# %% [markdown]
# With `--full --data DIR` the same comparison is made on real French book reviews, `DIR/cls-books-fr`, in a cheap
# version: the 4,000 commonest pieces, the first 63 of each review, and a base pretrained on the text of the 1,600
# training reviews alone. Those figures are shown and decide nothing.


# %%
def real_reviews(trial):
    folder = lesson.data / "cls-books-fr" if lesson.full and lesson.data else None
    if trial.control is not None or folder is None or not folder.is_dir():
        trial.note("real reviews: not run; they need --full --data DIR, and a folder DIR/cls-books-fr")
        return
    known, held = (read_labelled(folder / f"{part}.review.spm") for part in ("train", "valid"))
    words = WordTokenizer.train(known.texts, max_size=4000, split="spaces")
    documents, others = words.encode_all(known.texts), words.encode_all(held.texts)
    base = pretrain(documents, words.vocab_size, d_model=64, rows=16, lr=3e-3, epochs=3)
    valid = ClassifierBatches(others, held.labels, max_len=64, rows=50, shuffle=False)
    order = np.random.default_rng(0).permutation(len(documents))
    for n in (200, 1600):
        texts, labels = [documents[i] for i in order[:n]], [known.labels[i] for i in order[:n]]
        bayes = naive_bayes(texts, labels, others, np.array(held.labels), words.vocab_size)
        trial.note(f"real reviews, {n:,} labels: Naive Bayes on whole reviews {bayes:.1%}")
        for seed in range(2):
            for name, model in (("pretrained", Classifier.from_language_model(base, seed=seed)),
                                ("scratch", fresh(seed, like=base))):  # fmt: skip
                curve = fine_tune(model, texts, labels, 5, seed, held=valid, lr=1e-3)
                trial.note(f"  seed {seed}, {name:10} " + " ".join(f"{accuracy:.1%}" for accuracy in curve))


# %% [markdown]
# ## Claim: the pretrained model starts far above the one from scratch, and stays above at every epoch
#
# *What would refute it:* one seed in which it does not. The broken engine hands over the same weights in random order:
# every matrix keeps its size and its spread, and only what was learnt is gone.


# %%
@lesson.trial(
    "transfer-start",
    "The pretrained model starts far above the one from scratch and stays above at every epoch.",
    controls=[faults.weights_shuffled],
)
def transfer_start(trial):
    far = (CEILING - 0.5) / 2  # half of all there is to gain between guessing and the ceiling
    lead, above = {}, {}
    for n in (128, 1024):
        ours, theirs = runs(pretrained, n), runs(scratch, n)
        if n == 128:
            check_ahead(trial, "128 labels, after one epoch", ours[:, 0], theirs[:, 0], least=far)
        lead[n] = float((ours - theirs)[:, 0].mean())
        above[n] = int((ours > theirs).sum()), ours.size
        text = f"{n:,} labels: above in {above[n][0]} of {above[n][1]} pairs of seed and epoch"
        trial.check(above[n][0] == above[n][1], text) if n == 128 else trial.note(text)
    real_reviews(trial)
    curves = {n: (runs(pretrained, n), runs(scratch, n)) for n in (128, 1024)}
    trial.show(figures.epochs(curves), "epochs", f"Mean of {len(SEEDS)} seeds, and their range.")
    return "proved" if min(lead.values()) > far else "sharpened", (
        f"while labels are scarce: with 128, ahead by {100 * lead[128]:.0f} points after one epoch and above in "
        f"{above[128][0]} of {above[128][1]} pairs of seed and epoch; with 1,024, ahead by {100 * lead[1024]:.0f}"
    )


# %% [markdown]
# With few labels the curves never meet. With many, the one from scratch is close behind after a single epoch, and in
# the end no picture shows the difference. So the claim needs a condition, and the next one needs the same condition
# from the other side.
#
# ## Claim: given enough epochs, both reach the same accuracy
#
# *What would refute it:* curves that have stopped rising at different heights. The exact ceiling is known here, so "the
# same" can be said without comparing two noisy numbers: both within two points of it, or not.


# %%
@lesson.trial(
    "transfer-end",
    "Given enough epochs, the model from scratch reaches the accuracy of the pretrained one.",
    controls=[faults.weights_shuffled],
)
def transfer_end(trial):
    ends = {}
    for n in (128, 1024):
        ends[n] = ours, theirs = runs(pretrained, n)[:, -1], runs(scratch, n)[:, -1]
        if n == 128:
            check_ahead(trial, "128 labels, last epoch", ours, theirs)
        else:
            reached = min(ours.mean(), theirs.mean())
            trial.check(reached > CEILING - 0.02, f"1,024 labels, last epoch: pretrained {ours.mean():.1%}, scratch "
                        f"{theirs.mean():.1%} (both within 2 points of {CEILING:.0%} expected)")  # fmt: skip
    more = fine_tune(fresh(0), *labelled(128, 100), 24 if lesson.full else 12, 0)
    trial.check(more[-1] < ends[128][0].mean(), f"128 labels, {len(more)} epochs from scratch: {more[-1]:.1%}, still "
                f"below the pretrained ones after {EPOCHS[128]}")  # fmt: skip
    return "sharpened", (
        f"with 1,024 labels both end within 2 points of the ceiling; with 128 scratch ends at "
        f"{ends[128][1].mean():.0%} against {ends[128][0].mean():.0%}, and more epochs do not help"
    )


# %% [markdown]
# Both exam answers are right, each about its own amount of data. More *epochs* do not close the gap: going through the
# same labels again teaches them by heart. More *labels* do.
#
# ## Claim: language modelling needs no labels, classification needs scarce ones
#
# *What would refute it:* a language model that has not come near the floor that the entropy sets, or one below it,
# which is impossible; or a classifier that gains nothing from text without labels.


# %%
@lesson.trial(
    "labels-scarce",
    "Language modelling needs no labels, and makes the few labels that classification has go further.",
    controls=[faults.mask_off, faults.weights_shuffled],
)
def labels_scarce(trial):
    texts = diary.sample(TESTED, seed=4)
    words = sum(len(text) + 1 for text in texts)
    floor = -math.fsum(diary.log_probability(text) for text in texts) / words
    counts = Counter(word for text in texts for word in (*text, "</s>"))
    alone = -math.fsum(c / words * math.log(c / words) for c in counts.values())
    held = LanguageModelBatches(encoded(texts), max_len=64, rows=100, shuffle=False)
    loss = language_model_loss(lm, held.epoch())["loss"]
    learnt = (alone - loss) / (alone - floor)
    trial.check(0.9 < learnt < 1, f"loss {loss:.4f} a word on unseen entries: {learnt:.1%} of the way from counting "
                f"words ({alone:.4f}) to the exact floor ({floor:.4f}); 90 to 100 % expected")  # fmt: skip
    truth, others = test.labels, test.documents
    bayes = {
        n: [naive_bayes(*labelled(n, 100 + seed), others, truth, tokenizer.vocab_size) for seed in SEEDS]
        for n in EPOCHS
    }
    least = min(EPOCHS)
    ours = {n: runs(pretrained, n)[:, -1] for n in (least,)}
    theirs = {n: runs(scratch, n)[:, -1] for n in EPOCHS}
    check_ahead(trial, f"{least} labels", ours[least], theirs[least])
    trial.note(f"Naive Bayes: {', '.join(f'{np.mean(b):.1%} with {n:,} labels' for n, b in bayes.items())}")
    ours |= {n: runs(pretrained, n)[:, -1] for n in EPOCHS}
    models = {"pretrained": ours, "Naive Bayes": bayes, "from scratch": theirs}
    means = {name: [(np.mean(found[n]), spread(found[n])) for n in EPOCHS] for name, found in models.items()}
    caption = "What each label is worth, with and without pretraining (95 % intervals over seeds)."
    trial.show(figures.labels(list(EPOCHS), means), "labels", caption)
    return "proved", (f"no label in pretraining, {learnt:.1%} of the way to the floor; {least} labels then give "
                      f"{ours[least].mean():.0%}, from scratch {theirs[least].mean():.0%}, Naive Bayes "
                      f"{np.mean(bayes[least]):.0%}")  # fmt: skip


# %% [markdown]
# What was read without labels pays most where labels are fewest. And a warning that no report gives: Naive Bayes, which
# takes milliseconds and cannot even see a negation, is ahead of the transformer from scratch as long as labels are
# few. On the lab's own split it scores 83 %, above every transformer in the reports, pretrained or not. Always run the
# simple thing beside the grand one.

# %%
lesson.finish()
