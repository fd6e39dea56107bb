# %% [markdown]
# # 19. Many hands
#
# One computer takes an hour for a run. Would two take half an hour, and a thousand four seconds? Everyone who
# trains large models does it this way: each machine, called a *rank*, gets a part of the batch, computes a
# gradient, and the gradients are added. It sounds simple, and many programs get it slightly wrong: not so
# wrong that anything crashes, only so that eight ranks learn something else than one. Here we demand more than
# is usual. N ranks shall give what one gives, *to the last bit*.
#
# **At the end you can say**
# - what the gradient of a batch has to do with those of its parts, and why a mean of means is something else;
# - why the order in which numbers are added can be seen in the result, and how to make it not matter who adds;
# - what a ring and a tree send, in bytes and in steps;
# - from which number of ranks on sending takes longer than computing, and why large models do not change that.
#
# **Time:** 25 minutes to read, a quarter of a minute to run. **Before you start:** lesson 1 (gradients add
# up). Run it with `python lessons/19_many_hands.py`; add `--break mean-of-means` to see a check fail. No second
# computer is needed: the ranks here are threads that run the engine's own training step.

# %% tags=["plumbing"]
import numpy as np

from lessons import faults
from lessons.evidence import many_hands as evidence
from lessons.figures import many_hands as figures
from lessons.harness.trial import Lesson
from minitransformer.models import build

lesson = Lesson(__file__)

# %% [markdown]
# ## A mean of means
# Two ranks, two texts. The first has three words, with the losses 1, 2 and 3. The second has one word, with the
# loss 6. What is the loss of the batch? And what comes out if each rank takes the mean of what it has, and then
# the mean of both is taken?

# %%
first, second = np.array([1.0, 2.0, 3.0]), np.array([6.0])
print("all words:        ", np.concatenate([first, second]).mean())
print("mean of the means:", (first.mean() + second.mean()) / 2)
print("weighted by words:", first.mean() * 3 / 4 + second.mean() * 1 / 4)

# %% [markdown]
# In the mean of means, the lonely word counts three times as much as each of the others. As long as all texts
# have the same length nobody notices. Real texts are padded, and then they do not. The third line is right:
# each part weighs as much as it has words. And since the gradient is linear, what holds for the losses holds
# for the gradients.
#
# ## First trial: the sum of the slices
# **Claim.** The gradient of a batch is the sum of the gradients of its slices, each weighted by its targets.
#
# **What would refute it.** A number of the gradient that is off by more than rounding. And if a mean of means
# were just as good, the check would see nothing.
#
# **Experiment.** A batch of 11 padded texts, cut into 8 slices, in double precision. The engine computes the
# gradient on 1, 2, 3, 4 and 8 ranks; beside it stands the gradient of the batch in one piece. (The next cell
# is this experiment as code; you may skip it.)


# %%
@lesson.trial(
    "slices-weighted",
    "The gradient of a batch is the sum of its slices' gradients, each weighted by its number of targets.",
    controls=[faults.mean_of_means, faults.slice_forgotten, faults.reduced_too_early],
)
def slices_weighted(trial):
    whole = evidence.whole_gradient()
    top = np.abs(whole).max()
    for ranks in (1, 2, 3, 4, 8):
        apart = np.abs(evidence.gradient_on(ranks, "float64") - whole).max() / top
        # some thousand operations of relative error 1e-16 lie between the losses and a gradient
        trial.check(apart < 1e-12, f"N = {ranks}: {apart:.0e} of the largest number away from the whole batch")
    wrong = evidence.mean_of_means() - whole
    share = np.abs(wrong).max() / top
    trial.check(share > 0.01, f"a mean of means is {share:.0%} of the largest number away (over 1 % expected)")
    return "proved", f"on 1 to 8 ranks within 1e-12 of the whole batch; a mean of means is {share:.0%} off"


# %% [markdown]
# Proved, up to rounding. Now to the rounding.
#
# ## The bits that differ
# A float32 has 24 binary digits. After every addition the result is rounded to them, and what is rounded away
# depends on what was added before. So $(a + b) + c$ and $a + (b + c)$ are two different numbers. One example:

# %%
a, b, c = np.float32(1.0), np.float32(2.0**-24), np.float32(2.0**-24)
for name, value in (("(a + b) + c", (a + b) + c), ("a + (b + c)", a + (b + c))):
    print(f"{name} = {value:.9f}   bits {value.view(np.uint32):032b}")

# %% [markdown]
# One bit, the last. Does it matter? Not for the quality of a model. But training amplifies: the next step
# starts elsewhere, and after a thousand steps the two runs have nothing in common but their quality. If a bug
# shows up in one of them, you cannot make it show up again. So how often does it happen? Take the 8 gradients
# of our slices and add them in 200 random orders, as a program would that adds whatever arrives first.

# %%
parts = evidence.slice_gradients()
rng = np.random.default_rng(0)
sums = np.array([evidence.added_in_order(parts, rng.permutation(8)) for _ in range(200)])
results = np.array([len(np.unique(column)) for column in sums.T.view(np.uint32)])
caption = "Most numbers of the gradient have several sums, and it is the order that decides which one comes out."
lesson.show(figures.orders(results), "orders", caption)
most = int((np.abs(sums[0]) * (results > 2)).argmax())
print(f"number {most} of the gradient has {results[most]} different sums, for example")
for value in np.unique(sums[:, most])[:3]:
    print(f"  {value:+.9e}   bits {value.view(np.uint32):032b}")

# %% [markdown]
# What can be done? Not "one rank adds everything in order": it would have to receive everything. The trick is
# to fix the *tree* and not the place. Cut every batch into 8 slices, whatever the number of ranks is, and add
#
# $$((s_0 + s_1) + (s_2 + s_3)) + ((s_4 + s_5) + (s_6 + s_7)).$$
#
# One rank computes all of it. Two ranks compute one bracket each, and the last plus is done by whoever is
# responsible for that number. Four ranks have two slices each. The brackets are always the same.
#
# ## Second trial: to the last bit
# **Claim.** If all sums follow one tree, N ranks leave the same weights as one rank, bit for bit.
#
# **What would refute it.** One bit of one weight, on any rank. For this, more than the sums must agree: dropout
# has to be a function of (step, slice) and not of the rank, and the gradient must be clipped by the norm of
# the *whole* gradient, of which each rank has a part only. Adding in random orders must show in the bits.
#
# **Experiment.** Three steps of Adam with dropout and clipping, on 1, 2, 3, 4 and 8 ranks.


# %%
@lesson.trial(
    "one-order",
    "If all sums follow one tree, any number of ranks leaves the same weights, bit for bit.",
    controls=[faults.order_of_arrival, faults.one_dropout_seed, faults.local_norm, faults.weights_not_shared],
)
def one_order(trial):
    alone = evidence.gradient_on(1).view(np.uint32)
    weights = evidence.weights_after(1)[0]
    for ranks in (2, 3, 4, 8):
        differ = int((evidence.gradient_on(ranks).view(np.uint32) != alone).sum())
        trial.check(differ == 0, f"{ranks} ranks: {differ} of {alone.size:,} numbers of the gradient differ")
        differ = int((evidence.weights_after(ranks) != weights).sum())
        trial.check(differ == 0, f"after 3 steps {differ} of {ranks} x {weights.size:,} weights differ")
    several = (results > 1).mean()
    trial.check(several > 0.5, f"in random orders {several:.0%} of the gradient has more than one sum (over half)")
    return "proved", f"{weights.size:,} weights on 2, 3, 4 and 8 ranks: 0 bits differ; orders change {several:.0%}"


# %% [markdown]
# So `mpiexec -n 4 minitransformer pretrain` leaves the very files of `mpiexec -n 1`, and a run that was started on
# four machines can be resumed on two. (Try it, if you have MPI: `pip install mpi4py mpich`.)
#
# ## Adding up without a centre
# Each rank has a gradient of P numbers, and all need the sum. Let everybody send to rank 0, and rank 0 receives
# $(N-1)P$ numbers while the others wait. Two better ways:
#
# - **The tree.** Ranks join in pairs, the pairs in pairs, up to rank 0; then the sum goes down the same way.
# - **The ring.** Everyone cuts the array into N parts. In each step, everybody hands one part to the right
#   neighbour, who adds its own. After $N-1$ steps each rank has one finished part; $N-1$ further steps carry
#   the finished parts around.
#
# By hand, for four ranks: how many steps does each take? How many bytes does the busiest rank send?

# %%
for way in ("binary_tree", "ring"):
    _, busiest, together, steps = evidence.all_reduce(way, 4, 1000)
    print(f"{way:12} {steps} steps, the busiest rank sends {busiest:,} bytes, all together {together:,}")

# %% [markdown]
# ## Third trial: counted on the wire
# **Claim.** Ring and tree send the same number of bytes in all. The ring spreads them evenly, the tree takes
# fewer steps.
#
# **What would refute it.** A wire that carries anything else than $2\frac{N-1}{N}P$ numbers a rank in $2(N-1)$
# steps (ring), or $2(N-1)P$ numbers in all in $2\log_2 N$ steps (tree); a rank that does not have the sum.
#
# **Experiment.** Real sockets between the ranks, every byte counted, for 2, 4, 8 and 16 ranks. Then the engine,
# which uses neither: its ranks send each part directly to the rank that is responsible for it, who follows our
# tree for that part, updates its weights and sends these to all. What does *that* cost?


# %%
@lesson.trial(
    "ring-or-tree",
    "Ring and tree send equally much in all; the ring spreads it evenly, the tree takes fewer steps.",
    controls=[
        faults.ring_of_whole_arrays,
        faults.ring_one_lap_short,
        faults.tree_without_the_way_down,
        faults.weights_shared_twice,
    ],  # fmt: skip
)
def ring_or_tree(trial):
    size = 960 * 8  # bytes of the array; 960 numbers can be cut into 2, 4, 8 and 16 parts
    for ranks in (2, 4, 8, 16):
        right, busiest, together, steps = evidence.all_reduce("ring", ranks, 960)
        trial.check(right, f"ring of {ranks}: every rank has the sum")
        trial.check(busiest == 2 * (ranks - 1) * size // ranks, f"each sends {busiest:,} bytes: 2 (N-1)/N of the array")
        trial.check(steps == 2 * (ranks - 1), f"in {steps} steps")
        right, most, all_of_tree, steps = evidence.all_reduce("binary_tree", ranks, 960)
        trial.check(right, f"tree of {ranks}: every rank has the sum")
        trial.check(all_of_tree == together, f"all together {together:,} bytes, as in the ring; the busiest {most:,}")
        trial.check(steps == 2 * np.log2(ranks), f"in {steps} steps")
    for ranks in (2, 4, 8):
        numbers, sent, messages = evidence.sent_by_the_engine(ranks)
        least = 2 * (ranks - 1) / ranks * numbers * 4
        # parts of whole blocks of 256 numbers; sums of squares and losses in double precision
        more = ranks * 256 * 4 + (ranks - 1) * 8 * (numbers / 256 + 8 * 40 / ranks + 8) + 100 * ranks
        seen = f"the engine, N = {ranks}: {sent:,} bytes for {least:,.0f}, in {messages} messages"
        trial.check(sent <= least + more, seen)
    caption = "10 Gbit/s, 50 µs a message. Small arrays: the tree; large ones: the ring. No way is best for all sizes."
    trial.show(figures.ring_and_tree(64), "ring_and_tree", caption)
    return "proved", f"N = 16: {together:,} bytes both; by the busiest {busiest:,} and {most:,}, in 30 and 8 steps"


# %% [markdown]
# A ring of 1,024 ranks takes 2,046 steps, and each has to be started: with 50 µs a message a tenth of a second
# is gone before anything is said about bytes. That is why libraries look at the size first, and then choose.
#
# ## Where sending overtakes computing
# Computing is shared by all ranks; sending is not: each sends nearly $2P$ numbers, whether there are two ranks
# or a thousand. So with a fixed batch there is a number of ranks at which both take equally long. You would
# think that a larger model makes it worse, since there is more to send. Write it down, with $n$ tokens a rank:
# computing costs about $6Pn$ operations (two for each weight forward, four backward), sending $8P$ bytes.
#
# $$\frac{6 P n}{\text{operations a second}} = \frac{8 P}{\text{bytes a second}}$$
#
# What happens to $P$?
#
# ## Fourth trial: the model cancels
# **Claim.** Whether a rank computes longer than it sends is a matter of its tokens, not of the model's size.
#
# **What would refute it.** Models of different size that need clearly different numbers of tokens.
#
# **Experiment.** The operations of a training step, counted by the engine for models of 27,520 to 3,175,488
# weights; a processor of $10^{11}$ operations a second and a wire of 10 Gbit/s. Then the labs' model, whose
# vocabulary has 50,001 words.


# %%
@lesson.trial(
    "tokens-a-rank",
    "Whether a rank computes longer than it sends depends on its tokens, not on the size of the model.",
    controls=[faults.backward_for_free, faults.gradients_in_one_byte],
)
def tokens_a_rank(trial):
    rate, bandwidth = 1e11, 1.25e9
    by_hand = 8 / bandwidth * rate / 6
    found = []
    for width, layers in ((32, 2), (64, 2), (128, 4), (256, 4)):
        model = evidence.language_model(width, layers)
        found.append(evidence.tokens_that_balance(model, rate, bandwidth))
        trial.check(0.75 < found[-1] / by_hand < 1.25, f"{model.num_parameters():,} weights: {found[-1]:.0f} tokens")
    model = build("lab")
    lab, share = evidence.tokens_that_balance(model, rate, bandwidth), model.base.embedding.weight.size / 21_018_401
    trial.check(1.6 < lab / by_hand < 2.4, f"the labs' model needs {lab:.0f}: {lab / by_hand:.1f} times as many")
    trial.note(f"its embedding, {share:.0%} of all weights, is sent like the rest, but nothing is multiplied by it")
    caption = "A fixed batch of 2,048 tokens: where the lines cross, more ranks are wasted."
    trial.show(figures.scaling(evidence.operations(model), model.num_parameters()), "scaling", caption)
    seen = f"{min(found):.0f} to {max(found):.0f} tokens for sizes 115 times apart, {by_hand:.0f} by hand"
    return "sharpened", f"{seen}; a table of words that is only looked up doubles it ({lab:.0f} for the labs' model)"


# %% [markdown]
# So there are three ways out, and all are used. *More tokens a rank*: large batches, which is why large models are
# trained with millions of tokens a step. *Faster wires*. And *sending while computing*: the gradient of the last
# layer is ready when backward has hardly begun, so it can be on its way while the rest is computed. The engine
# does that; it hides sending behind computing as long as computing takes longer, and no further.
#
# **Fine print.** The ranks of this lesson are threads of one process, and what they send is counted, not timed.
# Times, with real processes, are measured by `minitransformer bench ranks`. With 3 ranks the engine sends more than
# the bound: slices 2 to 4 are no bracket of the tree, so a rank has two sums to send.
#
# ## Questions to think about
# 1. Why is the norm of the gradient, for clipping, not simply the sum of the ranks' own norms?
# 2. Every rank draws its own dropout masks. What goes wrong if all start from one seed? And if none is shared?
# 3. Adam keeps two numbers for each weight. Must every rank keep all of them? (No: look for ZeRO.)
# 4. One of 1,024 ranks is twice as slow as the others. How fast is the whole?
#
# ## Further reading
# - Patarasuk and Yuan, *Bandwidth optimal all-reduce algorithms for clusters of workstations*, 2009: the ring.
# - Rajbhandari and others, *ZeRO*, 2020: each rank keeps its part of the optimizer's state.
# - Li and others, *PyTorch Distributed*, 2020: buckets, and sending while backward goes on.
# - Demmel and Nguyen, *Fast reproducible floating-point summation*, 2013: sums that do not depend on the order at all.
#
# ## Exercises
# `minitransformer exercise sum-of-slices`: weights by words, one tree, and the judge compares all bits. In `ring-steps`
# you follow the parts around the ring. `clip-gradients` is the norm of many arrays: take two ranks, each with half
# of the arrays, and say what they must tell each other.

# %%
lesson.finish()
