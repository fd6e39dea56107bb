# %% [markdown]
# # 11. One base, two heads
# Labels are expensive: somebody has to read a review before it can be called good or bad. Text is free. So nearly every
# language system today is made in two steps. First *pretrain* on plain text, by predicting the next word. Then take the
# last layer off, put a small new one on, and *fine-tune* on the few labels there are.
#
# Students who tried it in a course agree that this works, and quarrel about how far: one says that a model trained from
# scratch always stays behind, another that it catches up in the end. Behind each is a single run. Here everything is
# trained in front of you, several times, in a language so small that every probability in it is known.
#
# **At the end you can say**
# - how a language model is trained: the whole loop, in ten lines;
# - what it has learnt about praise and blame before it has seen a single label;
# - what changes when it becomes a classifier, and what does not change by a single bit;
# - why writing is a loop, and what is kept between its rounds;
# - when pretraining helps, when it does not, and which simple method to run beside it before you boast.
#
# **Time:** 30 minutes to read, half a minute to run (at the very first run a minute or two more). **Before you start:**
# lessons 2 and 3 (attention and its mask); what training on labels means.
#
# **Run it:** `python lessons/11_transfer.py`. `--break weights-shuffled` runs it on a *control*, an engine that was
# broken on purpose: there a check has to fail.

# %% tags=["plumbing"]
import numpy as np

from lessons import faults
from lessons.evidence import transfer as evidence
from lessons.evidence.transfer import CEILING, EPOCHS, diary, given, labelled
from lessons.figures import transfer as figures
from lessons.harness.trial import Lesson
from minitransformer import Classifier, LanguageModel
from minitransformer.app.tables import table
from minitransformer.optim import Adam, clip_grad_norm, warmup_cosine

lesson = Lesson(__file__)
SEEDS = range(10 if lesson.full else 5)  # of the labels drawn, of the new weights and of the order

# %% [markdown]
# ## A reading diary
# Our language consists of short entries about books, written by a small grammar. Read a few. The number in front is the
# label: 1 for an entry that praises, 0 for one that blames.

# %%
for label in (1, 0):
    for text in given[label].sample(3, seed=5):
        print(label, " ".join(text))
print(f"\n{diary.size():,} different entries; best possible accuracy {CEILING:.0%}")

# %% [markdown]
# All four opinions of an entry agree. One in six is worded by denying its opposite ("not dull"), so that counting words
# is not enough; and what the uncle or the dentist says means nothing. Whoever understands the language is always right
# about the label.
#
# ## Pretraining: no labels anywhere
# The language model reads 38,400 entries, each of them once, and learns to predict the next word. It never sees a
# label. This is the whole of training, here and everywhere, the *gradient descent* of lesson 1: take a batch; ask for
# the loss; walk back for the slopes; let the optimizer move each weight a little against its slope; begin again.
#
# - `ids` are 32 entries as numbers of words; `targets` are the same, moved by one: at each place the word that follows.
# - The loss is the mean of $-\ln q$, where $q$ is the probability that the model gave to the right word.
# - *Adam* makes steps of about the length `lr` in every weight. That *learning rate* rises for a while and then falls.
# - Clipping shortens a gradient that is longer than 1, so that no single batch can do much harm.
#
# Who knows only that there are 48 words pays $\ln 48 = 3.87$ a word. Where will the loss begin, and where end?

# %%
batches = evidence.batches_of(diary.sample(32 * (2000 if lesson.full else 1200), seed=1))
lm = LanguageModel(vocab_size=48, d_model=32, n_heads=4, n_layers=2, d_ff=64, max_len=64, norm_first=True)
optimizer, rate = Adam(lm.parameters()), warmup_cosine(batches.count() // 10, batches.count())
for step, batch in enumerate(batches.epoch(), start=1):
    optimizer.lr = 1e-2 * rate(step)
    loss = lm.loss(batch.ids, batch.targets, ignore_index=batch.ignore)  # what only fills a row up is ignored
    optimizer.zero_grad()
    loss.backward()
    clip_grad_norm(lm.parameters(), 1.0)
    optimizer.step()
    if step == 1 or step % 100 == 0:
        print(f"step {step:4}: loss {loss.item():.3f}")

# %% [markdown]
# It begins near 3.87 and falls quickly, then slowly: the rest cannot be foreseen by anybody. (The command
# `minitransformer pretrain` is this loop with progress, evaluation and checkpoints around it.)
#
# **Predict.** After "plot superb , style" the model has to say something about the style. Will it expect praise or
# blame, or both alike? And after "plot not superb , style"?

# %%
beginnings = "plot superb , style", "plot boring , style", "plot not superb , style", "plot not boring , style"
figure = figures.expected({text: evidence.good_and_bad(lm, text) for text in beginnings})
lesson.show(figure, "expected", 'The model has found out that opinions agree, and that "not" turns them.')

# %% [markdown]
# Nobody told it what praise is. But to predict words well, it had to find out which words go together, and what "not"
# does. (The bars of a pair do not add up to 100 %: the rest of the probability goes to "not" itself.) That is nearly
# all a classifier needs to know. What is missing is only a name: which of the two groups is called 1.
#
# ## Changing the head
# A model has a *base*, which turns words into vectors, and an output *head*, one linear layer on top (no relation of
# attention's heads). The language model's head gives a score for each of 48 words, a *logit*. For a classifier we keep
# the base and put on a new head with two scores.

# %%
classifier = Classifier.from_language_model(lm, n_classes=2, seed=7)
before, after = lm.state_dict(), classifier.state_dict()
names = ["base.embedding.weight", "base.encoder.layers.0.linear1.weight", "head.weight", "head.bias"]
rows = [(n, before[n].shape, after[n].shape, "yes" if np.array_equal(before[n], after[n]) else "no") for n in names]
print(table(("some of the weights", "language model", "classifier", "equal?"), rows))

# %% [markdown]
# **Claim.** Language model and classifier are one base under two heads; only the last linear layer differs.
#
# **What would refute it:** any number of the base that changes in the swap, any vector between base and head that
# differs in a bit, or a second part that differs. And if training the classifier changed the language model, they would
# share their weights, not copy them.
#
# **Experiment.** Compare all weights and all vectors bit by bit. Then train the classifier for a step, and look again.
# (The next cell is this experiment as code; you may skip it.)


# %%
@lesson.trial(
    "head-swap",
    "Language model and classifier are one base under two heads; only the last linear layer differs.",
    controls=[faults.base_forgotten, faults.base_shared],
)
def head_swap(trial):
    seen = evidence.swap(evidence.copy_of(lm))  # a copy, since a broken swap may go on to spoil it
    for check in seen.checks():
        trial.check(*check)
    return (
        "proved",
        f"{seen.weights - 2} of {seen.weights} weights keep every bit; heads of {seen.scores[0]} and {seen.scores[1]}",
    )


# %% [markdown]
# Proved: only the head is new. Whatever the classifier will know about words, it knows from the language model.
#
# ## Writing is a loop
# A classifier is run once for a text. To *write*, a language model is run once for each word: it gives probabilities,
# one word is chosen, put at the end of the text, and the model is run again on its own output. Here is the loop itself,
# always with the likeliest word (*greedy*); and below it a text in which each word was drawn by its probability.

# %%
text = "plot superb , rhythm"
for _ in range(5):
    chances = evidence.next_words(lm, text)
    word = max(chances, key=chances.get)
    print(f"{text:45} →  {word:8} {chances[word]:4.0%}")
    text += " " + word
print("drawn by chance: plot not dull ,", evidence.continued(lm, "plot not dull ,", seed=3))

# %% [markdown]
# Look at the greedy text: it says "not" all the time. Plain praise is six times as likely, but it is spread over
# fifteen words, and "not" is one. The likeliest word is not the likeliest kind of word; lesson 13 comes back to this.
#
# Each round reads the whole text again, though only one word is new. Under a causal mask an old word never looks at a
# new one (lesson 3), so its keys and values never change. They can be kept, in a *cache*, and only the new word has to
# be computed.
#
# **Predict.** For a text of 64 words, reading everything again means to compute 1 word, then 2, then 3, ..., then 64.
# With the cache it is one word each time. Which factor do you get by hand? And which one if every operation is counted?
#
# **Claim.** Generation feeds each prediction back and may keep what it has computed; classification is one shot.
#
# **What would refute it:** other words, or other scores, with the cache than without it; a price that does not fall.
#
# **Experiment.** Let the model continue eight texts both ways, and compare scores and words. Count the operations for
# every word.


# %%
@lesson.trial(
    "generate-loop",
    "Generation feeds each prediction back and may keep what it has computed; classification is one shot.",
    controls=[faults.stale_cache, faults.positions_restart],
)
def generate_loop(trial):
    model = evidence.copy_of(lm, "float64")
    worst, words, tokens = evidence.with_and_without_cache(model)
    bound = evidence.rounding_bound(model, tokens)
    text = f"scores of {8 * words} words with and without the cache differ by {worst:.1e} at most"
    trial.check(worst <= bound, f"{text} (bound {bound:.1e})")
    same = evidence.same_texts(model)
    trial.check(same == 8, f"{same} of 8 drawn texts of {words} words are the same, word for word")
    whole, cached = evidence.operations_a_word(model, tokens)
    for check in evidence.prices_as_expected(whole, cached):
        trial.check(*check)
    trial.show(figures.cache(whole, cached), "cache", "What the next word costs, counted kernel by kernel.")
    text = f"same words, scores within {worst:.0e} (bound {bound:.0e})"
    return "proved", f"{text}; 64 words cost {sum(whole) / sum(cached):.0f} times as much without the cache"


# %% [markdown]
# Proved: the cache is bookkeeping. It changes the price, not the text. By hand: $1 + 2 + \dots + 64 = 2080$ words
# against 64, about 32 times as much. Counted, it is 24 times, since the head is run once for each word either way, and
# a new word still looks at all old keys. A classification costs what the last point of the orange curve costs, once.
# (Fine print: the scores agree to some 14 digits and not to the last bit, since sums are taken in another order;
# `lessons/evidence/transfer.py` derives how far apart two right answers may be.)
#
# ## Fine-tuning
# Now to the quarrel. A classifier made by `Classifier.from_language_model(lm)` has read 38,400 entries; one made by
# `Classifier(lm.config)` has the same size and has read nothing. Both get the same labels, in the same order, with the
# same learning rate; in both, the whole network is trained. **Predict:** with 128 labels, how many of 100 unseen
# entries does each get right after one time through (an *epoch*)? And after five?

# %%
pretrained, scratch = evidence.two_classifiers(lm, SEEDS, lesson.remember)  # labels → accuracies (seeds, epochs)
if lesson.broken is None:  # with --break only the trials are of interest
    curves = {n: (pretrained(n), scratch(n)) for n in (128, 1024)}
    for name, seeds in zip(("pretrained  ", "from scratch"), curves[128], strict=True):
        print(f"{name} after each epoch: " + ", ".join(f"{accuracy:.0%}" for accuracy in seeds.mean(axis=0)))
    lesson.show(figures.epochs(curves), "epochs", f"Mean of {len(SEEDS)} seeds, and their range.")

# %% [markdown]
# With few labels the curves never meet. With many, the one from scratch is close behind after a single epoch, and in
# the end no picture shows the difference.
#
# **Claim.** The pretrained model starts far above the one from scratch and stays above at every epoch.
#
# **What would refute it:** one seed and epoch in which it does not; or a lead that is smaller than half of all there is
# to gain. The broken engine hands over the same weights in random order: every matrix keeps its size and its spread,
# and only what was learnt is gone.


# %%
@lesson.trial(
    "transfer-start",
    "The pretrained model starts far above the one from scratch and stays above at every epoch.",
    controls=[faults.weights_shuffled],
)
def transfer_start(trial):
    far = (CEILING - 0.5) / 2  # half of all there is to gain between guessing and the ceiling
    ours, theirs = pretrained(128), scratch(128)
    evidence.check_ahead(trial, "128 labels, after one epoch", ours[:, 0], theirs[:, 0], least=far)
    lead, text = evidence.check_above(trial, ours - theirs)
    many = pretrained(1024) - scratch(1024)
    trial.note(f"1,024 labels: above in {int((many > 0).sum())} of {many.size} pairs of seed and epoch")
    for line in evidence.real_reviews(lesson.data if lesson.full and trial.control is None else None):
        trial.note(line)
    text = f"while labels are scarce: with 128, ahead by {100 * lead:.0f} points after one epoch and {text}"
    text += f"; with 1,024, ahead by {100 * many[:, 0].mean():.0f}"
    return "proved" if min(lead, many[:, 0].mean()) > far else "sharpened", text


# %% [markdown]
# "Above at every epoch" holds for the average over the seeds. A single model from scratch that is lucky may pass a
# single pretrained one for an epoch: look at the count of pairs above.
#
# Sharpened: the claim needs a condition, *while labels are scarce*. The next one needs the same condition from the
# other side. **Predict:** the model from scratch has 128 labels and is allowed more and more epochs. Does it catch up?
#
# **Claim.** Given enough epochs, the model from scratch reaches the accuracy of the pretrained one.
#
# **What would refute it:** curves that have stopped rising at different heights. The exact ceiling is known here, so
# "the same" can be said without comparing two noisy numbers: both within two points of it, or not.


# %%
@lesson.trial(
    "transfer-end",
    "Given enough epochs, the model from scratch reaches the accuracy of the pretrained one.",
    controls=[faults.weights_shuffled],
)
def transfer_end(trial):
    ours, theirs = pretrained(128)[:, -1], scratch(128)[:, -1]
    evidence.check_ahead(trial, "128 labels, last epoch", ours, theirs)
    many, many_theirs = (model(1024)[:, -1].mean() for model in (pretrained, scratch))
    text = f"1,024 labels, last epoch: pretrained {many:.1%}, scratch {many_theirs:.1%}"
    trial.check(min(many, many_theirs) > CEILING - 0.02, f"{text} (within 2 points of {CEILING:.0%} expected)")
    longer = evidence.fine_tune(Classifier(lm.config, seed=0), *labelled(128, 100), 24 if lesson.full else 12, 0)
    text = f"128 labels, {len(longer)} epochs from scratch: {longer[-1]:.1%}, still below the pretrained ones after 5"
    trial.check(longer[-1] < ours.mean(), text)
    text = f"with 128 scratch ends at {theirs.mean():.0%} against {ours.mean():.0%}, and more epochs do not help"
    return "sharpened", f"with 1,024 labels both end within 2 points of the ceiling; {text}"


# %% [markdown]
# Both sides are right, each about its own amount of data. More *epochs* do not close the gap: they teach the same 128
# entries by heart (*overfitting*), and nothing about words that do not occur in them. More *labels* do.
#
# ## A competitor that cannot read
# Before one is proud of a model, one should run the simplest thing that could work. *Naive Bayes* counts, for each
# word, in how many good and in how many bad entries it occurs. If "superb" stands in 8 of 64 good entries and in 1 of
# 64 bad ones (after a "not", or said by the uncle), an entry with "superb" is 8 times as likely to be good. The odds of
# all words are multiplied; that is all. It knows no order and no "not", and it is trained in a millisecond.
#
# **Predict.** Where will it stand beside the two transformers, with 32, 128 and 1,024 labels?

# %%
bayes = {n: [evidence.bayes_on_labels(n, seed) for seed in SEEDS] for n in EPOCHS}
if lesson.broken is None:
    ends = evidence.means(pretrained, bayes, scratch)  # model → for each number of labels (mean, half of its interval)
    print(evidence.table_of_means(ends))
    lesson.show(figures.labels(EPOCHS, ends), "labels", "What each label is worth, with and without pretraining.")

# %% [markdown]
# What was read without labels pays most where labels are fewest: 32 labelled entries on a pretrained base did
# better than 128 on an empty one. And a warning that those reports do not give: Naive Bayes is ahead of the transformer
# from scratch as long as labels are few. On the real reviews that the students had it scores 83 %, above every
# transformer that they trained, pretrained or not (see the results at the end of the book).
#
# **Claim.** Language modelling needs no labels, and makes the few labels that classification has go further.
#
# **What would refute it:** a language model that has not come near the floor that the language's entropy sets, or one
# *below* it, which is impossible unless it sees the answers; or a classifier that gains nothing from text without
# labels.


# %%
@lesson.trial(
    "labels-scarce",
    "Language modelling needs no labels, and makes the few labels that classification has go further.",
    controls=[faults.mask_off, faults.weights_shuffled],
)
def labels_scarce(trial):
    loss, floor, alone = evidence.learnt(lm, entries=400)
    learnt = (alone - loss) / (alone - floor)
    text = f"loss {loss:.4f} a word on unseen entries: {learnt:.1%} of the way from counting words ({alone:.4f})"
    trial.check(0.9 < learnt < 1, f"{text} to the exact floor ({floor:.4f}); 90 to 100 % expected")
    ours, theirs = pretrained(32)[:, -1], scratch(32)[:, -1]
    evidence.check_ahead(trial, "32 labels", ours, theirs)
    text = f"no label in pretraining, {learnt:.1%} of the way to the floor; 32 labels then give {ours.mean():.0%}"
    return "proved", f"{text}, from scratch {theirs.mean():.0%}, Naive Bayes {np.mean(bayes[32]):.0%}"


# %% [markdown]
# Proved. A word on "±": the five seeds differ, so a mean over them is uncertain. The interval behind the ± is one that
# would hold the true mean in 95 of 100 repetitions (Student's t), and a check passes only if the *whole* interval lies
# on the right side.
#
# ## Questions to think about
# 1. Pretraining found out which words go together. In which language would it learn nothing that helps with the label?
# 2. Freeze the base and train only the new head. When would you expect that to work better than training everything?
# 3. A cache keeps keys and values. Why not queries? And why is it no use for BERT (lesson 12), without a causal mask?
# 4. The learning rates were chosen once and are the same for both. Who gains if each may choose its own?
#
# ## Further reading
# - Jeremy Howard and Sebastian Ruder, *Universal Language Model Fine-tuning for Text Classification*, 2018: the recipe,
#   and the same figure with real reviews.
# - Alec Radford and others, *Improving Language Understanding by Generative Pre-Training*, 2018: it with a transformer.
# - Sida Wang and Christopher Manning, *Baselines and Bigrams*, 2012: how strong Naive Bayes is on reviews.
#
# ## Exercises
# `minitransformer exercise small-gpt` (a model of your own), then `beat-the-bigram`; `head-swap`, `greedy`,
# `key-value-cache`, and a fault to find: `bug-position`.

# %% tags=["plumbing"]
lesson.finish()
