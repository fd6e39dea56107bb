# %% [markdown]
# # 20. What a training step holds
#
# A model of 100 MB can need a gigabyte to be trained. Where does the rest go? Not into weights: you can count those
# (lesson 7). It goes into what the forward pass has computed and the backward pass has not read yet. In this lesson you
# will see that memory rise and fall, predict it to within a few per cent *before* the step runs, and then get rid of
# most of it with a bargain: compute twice, keep once.
#
# **At the end you can say**
# - what lies in memory at each moment of a training step, and when it is at its worst;
# - why depth costs memory while training, but not while a model is used;
# - how layers can be computed a second time with the very same dropout masks, and what that saves and costs.
#
# **Time:** 20 minutes to read, half a minute to run (at the very first run up to two minutes). **Before you start:**
# lesson 1 (the tape); lesson 9 is helpful. Run it with `python lessons/20_training_memory.py`;
# `--break tape-never-freed` runs it on a *control*, an engine that was broken on purpose: there a check has to fail.

# %% tags=["plumbing"]
from lessons import faults
from lessons.evidence import training_memory as evidence
from lessons.figures import training_memory as figures
from lessons.harness.trial import Lesson
from minitransformer.app.tables import table

lesson = Lesson(__file__)
B, T, C, LAYERS = evidence.B, evidence.T, evidence.C, evidence.LAYERS

# %% [markdown]
# ## One layer on the tape
#
# In lesson 1 every number of the forward pass stayed on the tape until the walk back had used it. Here is what that
# means for one layer of a transformer. Its input is an array of $B \cdot T \cdot C$ numbers: 8 texts of 128 words of 64
# numbers each. **Guess first:** how many arrays of that size does *one* layer leave on the tape?

# %%
print(evidence.held_by_a_layer())

# %% [markdown]
# (The first row is the input itself.) Three for query, key and value, which come from one product; one each for
# attention's result, the projection, the sum and the norm; five for the feed-forward layer, whose hidden part is four
# times as wide; and once more a sum and a norm: fourteen. Derivative rules will read twelve of
# them. Two are waste: the result of the projection, and that of the feed-forward part, go only into a sum, and the
# slope of a sum needs no values. They stay because each Function on our tape holds its inputs. In PyTorch a rule keeps
# only what it reads, and both are freed.
#
# So a stack of $L$ layers holds about $14\,L$ such arrays at the end of its forward pass. A model that is *used* holds
# one or two: without a tape, a result is gone as soon as the next layer has read it.
#
# ## A ledger
#
# The tape knows all this before anything else happens. It holds the arrays, so their sizes can be added up. It also
# knows what the walk back will do: visit one Function after the other, make gradients as large as that Function's
# inputs, then let go of what the Function held. A program can go through these motions with sizes instead of arrays.
# That is a *ledger*: `minitransformer/app/bench/ledger.py`, some two hundred lines.
#
# **Predict** the shape of the curve for 8 layers, from the first Function to the last: when is it at its highest, and
# what is left at the end?

# %%
usual = evidence.step()
caption = f"{LAYERS} layers: memory rises as long as layers are computed, and falls as their gradients are."
lesson.show(figures.steps(usual), "step", caption)

# %% [markdown]
# A mountain. Its foot is not zero: weights and the two numbers that Adam keeps for each of them are there all the time,
# and so are buffers of the kernels. Each layer is a stair upwards. The top is the moment when the loss is known.
# Backward goes down the same stairs. At the end it is a little higher than at the beginning, because now every weight
# has a gradient. The thick line was measured while the step ran; Python counts the bytes of every array. The thin line
# was drawn *before*.
#
# ## First trial: the ledger is right
# **Claim.** The memory of a training step can be predicted from its tape, at every moment.
#
# **What would refute it.** A moment at which prediction and measurement are further apart than a twentieth of the peak;
# that is less than what one layer holds, so no layer can hide in it.
#
# **Experiment.** Stacks of 2, 4 and 8 layers, each Function on the way there and back. Two broken engines: in one,
# Functions that were visited keep what they saved; in the other, somebody keeps all results in a list. (The next
# cell is this experiment as code; you may skip it.)


# %%
@lesson.trial(
    "step-memory",
    "The memory of a training step can be predicted from its tape, at every moment of both passes.",
    controls=[faults.tape_never_freed, faults.results_kept],
)
def step_memory(trial):
    for layers in (2, 4, LAYERS):
        one = evidence.step(layers)
        far = evidence.furthest(one)
        text = f"{layers} layers, {len(one.measured)} moments: at most {far:.1%} of the peak apart"
        trial.check(far <= evidence.SLACK, f"{text} ({evidence.SLACK:.0%} allowed)")
        share = one.predicted_peak / one.peak
        trial.check(
            abs(share - 1) <= evidence.SLACK, f"{layers} layers: the predicted peak is {share:.1%} of the measured"
        )
    return (
        "proved",
        f"{one.predicted_peak / 1e6:.1f} MB predicted, {one.peak / 1e6:.1f} MB measured for {layers} layers",
    )


# %% [markdown]
# ## Compute twice, keep once
#
# The mountain is high because layers keep their inner results for so long. The first layer's are needed *last*. What if
# a layer kept only its input, one array instead of fourteen, and were simply computed again when the walk back arrives?
# Then there are $L$ inputs, and the inner results of *one* layer at a time.
#
# There is one catch. Dropout throws numbers away at random. If the second time throws away *others*, the gradient
# belongs to a network that never was. In this engine a mask is not cut from a stream of random numbers: it is computed
# from a seed and a count. So it is enough to set the count back:

# %%
rows = []
for dropout in (0.0, 0.3):
    differ, of, masks = evidence.bits_that_differ(dropout)
    rows.append((dropout, masks, f"{differ} of {of:,}"))
print(table(("dropout", "masks drawn", "numbers that differ"), rows, right=(0, 1, 2)))

# %% [markdown]
# Not one number of loss and gradients differs, in any bit, with dropout or without. **What do you expect** for the
# memory, and for the work? (A training step is one forward pass, and a backward pass of twice its size.)

# %%
again = evidence.step(again=True)
caption = "The same model and the same gradients. Right: each bump is one layer that is computed a second time."
lesson.show(figures.steps(usual, again), "again", caption)

# %% [markdown]
# The mountain is gone. What is left is a gentle slope, the layers' inputs, and a small bump for each layer that is
# computed again. The price: every layer is computed twice, so a step does 4 units of work instead of 3, about a third
# more.
#
# ## Second trial: less memory, the same bits
# **Claim.** Layers that are computed again give the same gradients to the last bit, dropout included, and the peak
# grows by about one array a layer instead of fourteen.
#
# **What would refute it.** A bit that differs; a peak that grows by more than two arrays for each layer (its input, and
# room for the gradients of its weights); or a layer that is computed only once: then nothing was saved.
#
# **Experiment.** Loss and gradients of two steps in a row, compared bit by bit, with dropout 0, 0.1 and 0.5. The peaks
# of 4 and 8 layers. The number of times the feed-forward kernel is called. Two broken engines: one draws new masks the
# second time, one keeps everything after all.


# %%
@lesson.trial(
    "recompute-same",
    "Layers computed again in backward give the same gradients, bit for bit, dropout included, for less memory.",
    controls=[faults.masks_drawn_anew, faults.nothing_recomputed],
)
def recompute_same(trial):
    for dropout in (0.0, 0.1, 0.5):
        differ, of, masks = evidence.bits_that_differ(dropout)
        text = f"dropout {dropout}, {masks} masks: {differ} of {of:,} numbers differ"
        trial.check(differ == 0, f"{text} (0 expected)")
    times = evidence.forward_passes(again=False), evidence.forward_passes(again=True)
    trial.check(
        times == (1, 2), f"a layer's feed-forward part runs {times[0]:g} and {times[1]:g} times (1 and 2 expected)"
    )
    kept, stored = evidence.arrays_a_layer(again=True), evidence.arrays_a_layer(again=False)
    trial.check(kept <= 2, f"the peak grows by {kept:.1f} arrays a layer (2 at most)")
    trial.check(stored >= 8, f"without it, by {stored:.1f} (8 at least, or there was nothing to save)")
    return "proved", f"no bit differs; {kept:.1f} arrays a layer instead of {stored:.1f}, for a second forward pass"


# %% [markdown]
# The engine looks for itself, too. When a layer is computed again, its result is compared with the first one; other
# numbers end in an error, not in a wrong gradient. (That check had to be switched off for the first broken engine.)
#
# In training it is one word: `minitransformer pretrain --recompute`, or `model.recompute()` in Python. A run may be
# stopped without it and resumed with it; the weights are the same bytes.
#
# When is the bargain good? When memory is what limits you: longer texts, larger batches, deeper models. If everything
# fits, it only costs time.
#
# ## Questions to think about
# 1. Why does recomputing *every* layer not make the peak independent of the depth? How could one get below one array a
#    layer?
# 2. The embedding and the head are not recomputed. Look at the ledger of lesson 9's model with 50,001 words: what is
#    left to save there?
# 3. Attention already computes its weights twice (lesson 9). In which sense is that the same idea?
# 4. A library draws dropout masks from one long random stream. What would it have to remember to compute a layer again?
#
# ## Further reading
# - A. Griewank and A. Walther, *Algorithm 799: revolve* (2000). How to place checkpoints best, with a proof.
# - T. Chen, B. Xu, C. Zhang and C. Guestrin, *Training deep nets with sublinear memory cost* (2016).
# - V. Korthikanti and others, *Reducing activation recomputation in large transformer models* (2022). What a layer
#   holds, counted by what the rules read: without the two arrays above, with dropout's masks and attention's weights.
#
# **Exercises** (`minitransformer exercise NAME`): `step-memory` is a ledger of your own, with layers computed again and
# without. `layer-norm-gradient` saves two numbers a row instead of the result; `online-softmax` keeps three numbers
# instead of a row.

# %%
lesson.finish()
