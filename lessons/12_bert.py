# %% [markdown]
# # 12. Reading from both sides
#
# *anna took the ____ quickly to pick the cherries.* You know the missing word, and you know it because of what stands
# *behind* the gap. A language model that reads from left to right cannot know it: whoever writes the next word has
# nothing on the right to look at. BERT gives up writing in order to read: it hides a few words, looks at all the
# others, and guesses.
#
# **At the end you can say**
# - why there are things that a left-to-right model cannot know, however large it is and however long it is trained;
# - how to compute the lowest loss that any model can reach, for a language that you know completely;
# - what BERT reads (`[CLS]`, `[SEP]`, segments, positions) and which two questions it is trained on;
# - why it sometimes hides a word behind a *wrong* word, and what BERT pays for reading both sides.
#
# **Time:** 25 minutes to read, 20 seconds to run (at the very first run up to two minutes). **Before you start:**
# lesson 3 (the causal mask) and lesson 11 (a language model, trained). You should have met cross-entropy: the loss
# $-\ln q$, if the model gave the right word the probability $q$.
#
# Run it: `python lessons/12_bert.py`; `--break causal-forced` runs it on a *control*, an engine that was broken on
# purpose: there a check has to fail.

# %% tags=["plumbing"]
import math
from collections import Counter

import numpy as np

from lessons import faults
from lessons.evidence import bert as evidence
from lessons.figures import bert as figures
from lessons.harness.trial import Lesson
from minitransformer import Bert, LanguageModel
from minitransformer.app.tables import table
from minitransformer.app.tasks.measures import wilson

lesson = Lesson(__file__)
listed, TOOL = evidence.listed, evidence.TOOL  # all sentences with their probabilities; the tool is word number 3

# %% [markdown]
# ## A sentence with a hole
#
# The engine has a small language for this lesson. Somebody takes one of eight tools; a few words later we hear what
# for. Everybody takes every tool equally often. Four times out of five the purpose is the tool's own; else it is drawn
# at random. Three of its sentences:

# %%
print(*(" ".join(words) for words in evidence.language.sample(3, seed=1)), sep="\n")
print(f"there are {len(listed):,} sentences in all")

# %% [markdown]
# Because we can list every sentence with its probability, nothing has to be estimated: whatever can be known about the
# missing word is a sum. Take the sentence of the beginning, and suppose that you see only the words before the gap.
# Then suppose that you see all the others. **What do you think the chances of "ladder" are, in each case?**


# %%
def chances(fits):
    """How likely each tool is, among all sentences that fit."""
    found = Counter()
    for words, p in listed:
        found[words[TOOL]] += p * fits(words)
    return {tool: p / found.total() for tool, p in sorted(found.items())}


text = "anna took the ladder quickly to pick the cherries ."
sentence = tuple(text.split())
before, after = sentence[:TOOL], sentence[TOOL + 1 :]
left = chances(lambda words: words[:TOOL] == before)
both = chances(lambda words: words[:TOOL] == before and words[TOOL + 1 :] == after)
print(f"ladder, from the words before: {left['ladder']:.3f}; from both sides: {both['ladder']:.3f}")
gap = text.replace("ladder", "____")
lesson.show(figures.hole(list(both), left.values(), both.values(), gap), "hole", "What stands behind the gap tells.")

# %% [markdown]
# From the left, one in eight. From both sides 82.5 %: 80 % for the purpose that is the ladder's own, and an eighth of
# the 20 % where the purpose was drawn at random.
#
# How large must the loss be? A model that knew these chances exactly would still be surprised now and then. Its average
# surprise is the *entropy* of the distribution, $-\sum p \ln p$, and no model can do better on average. (That is Gibbs'
# inequality: whoever believes in chances $q$ where $p$ is true pays $-\sum p \ln q$, which is never less.)

# %%
for name, p in (("the words before", left), ("both sides", both)):
    print(f"from {name:17} -Σ p ln p = {-sum(x * math.log(x) for x in p.values()):.4f}")

# %% [markdown]
# You can check both by hand. From the left all eight chances are $1/8$, which gives $\ln 8 = 2.0794$. From both sides,
# $-0.825 \ln 0.825 - 7 \cdot 0.025 \ln 0.025 = 0.1587 + 0.6456 = 0.8043$.
#
# These are two *floors*. A model that sees only the left cannot get below the first. Not with more layers, not with
# more data, not with a better optimizer: the missing information stands where it may not look.
#
# (What does such a number mean? $e^{2.0794} = 8$ and $e^{0.8043} = 2.2$: who sees the left side is as unsure as between
# eight equally likely words, who sees both sides as between a bit more than two.)
#
# ## Two models of the same size
#
# Let us see whether real models respect these floors. Both have two layers of width 32. The *causal* one is asked for
# the next word everywhere, and has the causal mask of lesson 3. The *masked* one gets each sentence with one word
# hidden, any of the ten, and is asked for that word. Here is what they read.

# %%
one = np.array([evidence.tokenizer.encode_pieces(sentence)])
for name, ids in (("causal", evidence.left_to_right(one)), ("masked", evidence.with_hidden(one, TOOL))):
    print(f"{name} model reads:", *(evidence.tokenizer.piece(int(token)) for token in ids[0]))

# %% [markdown]
# The causal model is asked for a word at *every* position, and at each it sees only what stands to its left: when it
# has to name the tool, it has seen `<sos> anna took the`. So it learns from all ten words of a sentence at once. The
# masked one sees everything but the hidden word, and learns from that one only. As code, the two losses:


# %%
def causal_loss(model, sentences, _):
    return model.loss(evidence.left_to_right(sentences), sentences)


def masked_loss(model, sentences, rng):
    rows, places = np.arange(len(sentences)), rng.integers(0, 10, len(sentences))  # which word is hidden
    ids = evidence.with_hidden(sentences, places)
    hidden = model.hidden(ids, np.zeros_like(ids))
    return model.word_head.loss(hidden[rows, places + 1], sentences[rows, places])  # + 1 for [CLS]


STEPS = 600 if lesson.full else 200


@lesson.remember
def causal_run():
    return evidence.fit(LanguageModel, causal_loss, evidence.causal_logits, STEPS)


@lesson.remember
def masked_run():
    return evidence.fit(Bert, masked_loss, evidence.masked_logits, STEPS)


# %% [markdown]
# Both are trained on 200 batches of 64 fresh sentences, by the loop of lesson 11 (it stands in
# `lessons/evidence/bert.py`). While they learn, we note their exact loss at the tool: the mean over all sentences of
# the language, each with its probability. Once trained, what do they make of Anna's sentence? **Guess first:** what
# will the causal model say, which does not see the cherries?

# %%
print("causal: anna took the ...", evidence.first_guesses(causal_run()[0], evidence.causal_logits, one))
print("masked: anna took the ...", evidence.first_guesses(masked_run()[0], evidence.masked_logits, one))

# %% [markdown]
# The causal model hardly prefers any tool, as it should. The masked one has found the ladder.
#
# ## Claim: a left-to-right model cannot use what stands to the right; the masked objective can
#
# **What would refute it.** A causal loss below $\ln 8$ at any moment of the training, or a masked model that stays
# above.
#
# **Experiment.** The two losses, looked at eleven times during training, beside the two floors. Then another test that
# needs no floor: exchange the *endings* of all sentences. That must not change a single bit of what the causal model
# says at the tool, and it must change every answer of the masked one. Two broken engines: one lets the causal model
# look ahead, the other puts the causal mask into BERT. (The next cell is this experiment as code; you may skip it.)


# %%
@lesson.trial(
    "bidirectional",
    "A left-to-right model cannot use what stands to the right; a model that fills in hidden words can.",
    controls=[faults.mask_off, faults.causal_forced],
)
def bidirectional(trial):
    one_sided, two_sided = evidence.entropies()
    trial.check(*evidence.entropies_agree(one_sided, two_sided))
    causal, causal_seen = causal_run()
    lowest, last = min(loss for _, loss in causal_seen), causal_seen[-1][1]
    text = f"lowest causal loss of {len(causal_seen)} looks: {lowest:.4f} (never below {one_sided:.4f})"
    trial.check(lowest >= one_sided - evidence.SINGLE, text)
    text = f"it ends {last - one_sided:.4f} above its floor (0.05 at most)"
    trial.check(last - one_sided < 0.05, f"the causal model has learnt all there is: {text}")
    masked, masked_seen = masked_run()
    final = masked_seen[-1][1]
    trial.check(final < one_sided, f"the masked model ends at {final:.4f} (below {one_sided:.4f} expected)")
    trial.check(final >= two_sided - evidence.SINGLE, f"... and not below its own floor of {two_sided:.4f}")

    moved, of = evidence.moved_by_endings(causal, evidence.causal_logits)
    trial.check(moved == 0, f"other endings change {moved} of {of:,} causal predictions (0 expected)")
    moved, of = evidence.moved_by_endings(masked, evidence.masked_logits)
    trial.check(moved == of, f"... and {moved:,} of {of:,} masked ones (all expected)")
    seen = {"reads left to right": causal_seen, "reads both sides": masked_seen}
    floors = {"floor from the left, ln 8": one_sided, "floor from both sides": two_sided}
    trial.show(figures.two_floors(seen, floors), "two_floors", "No weights get a left-to-right model below its floor.")
    text = f"causal loss never below ln 8 = {one_sided:.3f} (lowest {lowest:.3f})"
    return "proved", f"{text}; masked {final:.3f}, its own floor {two_sided:.3f}"


# %% [markdown]
# The causal model comes within a hair of $\ln 8$ and rests there: it guesses one tool in eight, and there is nothing
# more to learn. The masked model walks through that line as if it were not there. It had to pay for this: it cannot
# write, because it needs the end of a sentence in order to fill in its beginning.
#
# ## What BERT reads
#
# `[CLS] first sentence [SEP] second sentence [SEP]`. Each position gets the sum of three learned vectors: which word,
# which position, which of the two sentences. So the fourth word of a row, if it is hidden and stands in the first
# sentence, enters the first layer as
#
# $$\text{word}[\mathtt{[MASK]}] + \text{position}[3] + \text{segment}[A] .$$
#
# Without the position BERT could not tell *dog bites man* from *man bites dog* (lesson 4); without the segment it could
# not tell where one sentence ends. Then two questions are asked at once.
#
# - **Hidden words.** 15 % of the words are chosen, and all of them must be guessed. Of these 80 % become `[MASK]`, 10 %
#   become a random word, and 10 % stay as they are. Why not always `[MASK]`? Because in real use there is no `[MASK]`:
#   a model that needs to think only where it sees one would be lazy everywhere else. So it must suspect every word.
# - **Next sentence.** Did the second sentence follow the first, or was it taken from elsewhere? The answer is read off
#   `[CLS]`, a word without meaning of its own whose only job is to collect one.
#
# We train on the built-in book reviews. Nobody has labelled anything: hiding a word makes question and answer. Before
# you look: **how many of the hidden words would you expect it to guess**, if the commonest word alone makes 12 %?

# %%
bert = evidence.train_bert(1500 if lesson.full else 400)
words, following = evidence.accuracies(bert)
rows = [
    ("hidden words", f"{100 * words[0] / words[1]:.0f} %", "12 %"),
    ("next sentence", f"{100 * following[0] / following[1]:.0f} %", "50 %"),
]
print(f"a BERT of {bert.num_parameters():,} parameters, on reviews that it has not seen")
print(table(("question", "right", "without thinking"), rows, right=(1, 2)))
(batch,) = evidence.review_batches(1500, 3, 10_000, shuffle=False).epoch()
lesson.show(figures.reading(evidence.one_row(bert, batch)), "input", "One row of a batch, and BERT's answers.")

# %% [markdown]
# Four times as many hidden words as the commonest word would give. Below the dark boxes stands what was there and what
# BERT says. Look at the full stop: it was chosen too, but it is one of the 10 % that stay. BERT is asked about it all
# the same, and cannot be sure that it is what it seems to be. The light words are not asked for; they only help.
#
# The second question is harder for so small a model: it must find out what a review is about. A review of a cookbook
# goes on about its sauces, not about the detective.
#
# ## Claim: three summed embeddings, hidden words, next sentence; and it works
#
# **What would refute it.** Rows of another form; rates other than 15 % and 80/10/10; an input that is not the sum of
# the three tables; a `[CLS]` that misses some word; or accuracies that guessing would reach too.
#
# **Experiment.** Take 2,701 rows apart and count. Add up the three tables by hand, and compare every bit. Exchange each
# word in turn, and see whether the answer at `[CLS]` changes. Six broken engines, one for each part.


# %%
@lesson.trial(
    "bert-input",
    "BERT reads two sentences as three summed embeddings, and learns from hidden words and from what follows what.",
    controls=[
        faults.segments_off, faults.positions_off, faults.causal_forced,
        faults.always_mask, faults.hide_a_third, faults.cls_misread,
    ],
)  # fmt: skip
def bert_input(trial):
    (batch,) = evidence.review_batches(1500, 3, 10_000, shuffle=False).epoch()
    trial.check(*evidence.rows_of_the_right_form(batch))
    trial.check(*evidence.chosen_words(batch))
    for fate in evidence.fates(batch):
        trial.check(*fate)
    row = evidence.typical(batch)
    trial.check(*evidence.summed_by_hand(bert, *row))
    trial.check(*evidence.seen_from_cls(bert, *row))

    words, following = evidence.accuracies(bert)
    guess, (low, high) = evidence.commonest(batch), wilson(*words)
    text = f"{words[0] / words[1]:.1%} of {words[1]:,} hidden words are guessed ({low:.1%} to {high:.1%}"
    trial.check(low > 2 * guess, f"{text}; more than twice the {guess:.1%} of naming the commonest word expected)")
    low, high = wilson(*following)
    text = f"{following[0] / following[1]:.1%} of {following[1]:,} next-sentence answers are right"
    trial.check(low > 0.6, f"{text} ({low:.1%} to {high:.1%}; above 60 % expected, guessing gives 50 %)")
    text = f"hidden words {words[0] / words[1]:.0%} (commonest word {guess:.0%})"
    return "proved", f"{text}, next sentence {following[0] / following[1]:.0%} (guessing 50 %), rates as they should be"


# %% [markdown]
# Every part is what it is said to be, and both questions are learnt from text to which nobody added a single label.
# (The rates are random, so they get intervals: a sound engine leaves them once in 150,000 runs. Their derivation is in
# `lessons/evidence/bert.py`.) What textbooks tend to leave out is the price: only 15 % of the words teach anything in a
# pass, where the causal model learns from all of them.
#
# ## Questions to think about
# 1. What would the floor from the left be if the tool were *always* followed by its own purpose? And the other floor?
# 2. Which word of these sentences is easier for the causal model than the tool, and why?
# 3. Suppose BERT hid 50 % of the words. What would it gain, and what would become harder?
# 4. Next-sentence answers are right in about 70 % of all cases. Can a perfect reader reach 100 % on these reviews?
# 5. Could one make BERT write a text? Try to think of a procedure, and of what goes wrong.
#
# ## Further reading
# - J. Devlin, M. Chang, K. Lee and K. Toutanova, *BERT: pre-training of deep bidirectional transformers* (2019).
# - W. Taylor, *Cloze procedure: a new tool for measuring readability* (1953). Hidden words, for human readers.
# - Y. Liu and others, *RoBERTa* (2019). The same with more data and without the second question, which helps little.
# - K. Clark, M. Luong, Q. Le and C. Manning, *ELECTRA* (2020). How to learn from every word, not from 15 %.
#
# **Exercises** (`minitransformer exercise NAME`): `mask-words`, `cross-entropy`, `warm-up` and `bug-mask`.

# %%
lesson.finish()
