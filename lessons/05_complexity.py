# %% [markdown]
# # 5. What a layer costs
# A sentence is a row of vectors. Three kinds of layer can turn it into a new row: *recurrence* reads it word by word,
# *convolution* slides a window over it, *attention* lets every word look at every other. Why did attention win?
# "Attention is all you need" answers with a small table, for $n$ words, vectors of width $d$ and windows of $k$ words:
#
# | layer | operations | that must wait for one another | path from first to last word |
# |---|---|---|---|
# | self-attention | $O(n^2 d)$ | $O(1)$ | $O(1)$ |
# | recurrent | $O(n d^2)$ | $O(n)$ | $O(n)$ |
# | convolution | $O(k n d^2)$ | $O(1)$ | $O(n/k)$, or $O(\log_k n)$ with gaps |
#
# The third column counts the operations that can only be done one after the other, the last one the steps that a signal
# takes from the first word to the last. (The letters are the paper's: its $n$ is $T$ in our other lessons, its $d$ is
# $C$.)
#
# It is quoted everywhere and hardly ever measured. We shall count it, and find a term that it leaves out: the larger
# one in most models people run.
#
# **At the end you can say**
# - what the three columns of that table mean, and how each of them is counted;
# - which part of an attention layer does most of the work, and from which length on the other part does;
# - why an LSTM that does fewer operations than attention can still be much slower;
# - how many layers of convolution it takes until the first word can influence the last.
#
# **Time:** 25 minutes to read, 15 seconds to run (at the very first run up to a minute more). **Before you start:**
# lesson 2 (attention), and what $O(n)$ means.
#
# **Run it:** `python lessons/05_complexity.py`. `--break causal-forced` runs it on a *control*, an engine that was
# broken on purpose: there a check has to fail.

# %% tags=["plumbing"]
import autograd.functional as F
from autograd import tape
from lessons import faults
from lessons.evidence import complexity as evidence
from lessons.evidence.complexity import leaf
from lessons.figures import complexity as figures
from lessons.harness.trial import Lesson
from minitransformer.app.tables import table
from minitransformer.layers import MultiheadAttention
from minitransformer.module import Init

lesson = Lesson(__file__)
findings = {}  # rows of the table at the end

# %% [markdown]
# ## One matrix product, by hand
# Two sizes are all we need: $n$ vectors (the length of the sequence), each of width $d$. Begin with one product of such
# a sequence, an $n \times d$ matrix, with a $d \times d$ matrix of weights. The result has $n d$ entries. Each is a sum
# of $d$ products: $d$ multiplications and $d$ additions. Together that makes $2 n d^2$ operations.
#
# The engine can be asked the same. It keeps a tape of the kernels it ran (a *kernel* is one function on whole arrays);
# each has a price, a formula of its shapes; and `tape.cost` adds up the prices of all that led to a result.

# %%
n, d = 6, 4
product = F.linear(leaf(n, d), leaf(d, d))  # leaf: random numbers, a place where a tape begins
print(f"by hand:     2 · {n} · {d}² = {2 * n * d * d} operations")
print(f"on the tape: {tape.cost(product).flops} operations")

# %% [markdown]
# ## An attention layer, part by part
# Self-attention needs four such products: three make queries, keys and values (the engine does them in one go), one
# mixes the result at the end. Between them stands attention proper: every word compares its query with every key, which
# makes $n^2$ scores of $d$ products each, and then averages the values with $n^2$ weights.

# %%
layer = MultiheadAttention(d, 1, init=Init(0, "float64"))
jobs = "queries, keys and values", "every word looks at every word", "mixes the result"
rows = zip(jobs, *zip(*evidence.kernels_run(layer(leaf(1, n, d))), strict=True), strict=True)
print(table(("what is done", "kernel", f"operations (n = {n}, d = {d})"), rows, right=(2,)))

# %% [markdown]
# For six words the matrices (648 + 216) do a little more than half of it. Everybody has heard that attention is
# *quadratic* in the length, so this must change as the text grows.
#
# **Predict.** Let $d = 64$, and make the text twice as long. Does the work double, or become four times as much? Think
# of a number for a step from 16 to 32 words, and of another for a step from 512 to 1,024.

# %%
lengths, d = [16, 32, 64, 128, 256, 512, 1024], 64
layer = MultiheadAttention(d, 1, init=Init(0, "float64"))
parts = [evidence.pairs_and_matrices(layer(leaf(1, n, d))) for n in lengths]
totals = [sum(part) for part in parts]
for n, before, after in zip(lengths, totals, totals[1:], strict=False):
    print(f"from {n:3} to {2 * n:4} words: {after / 1e6:5.1f} million operations, {after / before:.2f} times as many")
figure = figures.two_kinds_of_work(lengths, d, parts)
lesson.show(figure, "two_kinds_of_work", "Twice the length: twice the work for the matrices, four times for pairs.")

# %% [markdown]
# Neither 2 nor 4: the factor drifts from one to the other. Two kinds of work are added, and the picture shows them
# apart. One grows like $n$, the other like $n^2$, and for short texts the one that grows more slowly is the larger one.
#
# ## The whole formula
# A count of operations should be a polynomial in $n$ and $d$. So we count at eight small sizes, solve for its
# whole-number coefficients, and then demand that the formula predicts seven *other* sizes to the last operation.
#
# But the engine's price list could be wrong, and then we would only read our own opinion back. So there is a second
# witness, the *abacus*: numbers that count the operations done to them. With such numbers attention is written down
# once more, without the engine.

# %%
coefficients, right = evidence.fit(lambda n, d: tape.cost(evidence.attention_layer(n, d)[1]).flops)
print(f"operations = {evidence.written(coefficients)}, exact at {right} of 7 sizes that it had not seen")
print(f"large terms on the abacus: {evidence.written(evidence.fit(evidence.attention_on_the_abacus)[0][:2])}")

# %% [markdown]
# Read the two large terms: $8 n d^2$ are four matrix products of $2 n d^2$ each, and $4 n^2 d$ are $n^2$ scores and
# $n^2$ weights, with $2d$ operations each. The rest is softmax and biases.
#
# ## What has to wait
# Operations are not the whole story. A machine with thousands of processors does thousands of operations at once,
# except those that need the result of another. The *depth* of a result is its longest chain of kernels in which each
# waits for the one before: with infinitely many processors, that chain is the time. And the *path* from the first word
# to the last is the number of steps a signal has to go through; a long way makes learning hard, as every step can
# weaken the signal.
#
# A recurrent layer (RNN) keeps a state $h$ and reads one word $x_t$ at a time: $h_t = \tanh(W x_t + R h_{t-1})$. Each
# state needs the one before. **Predict:** what happens to its depth when the sequence gets twice as long? And to that
# of attention?

# %%
rows = []
for n in (4, 8, 16, 32):
    words, seen = evidence.attention_layer(n, 3)
    inputs, states = evidence.recurrent_layer(n, 3, "RNN")
    ways = len(tape.shortest_path(words[0], seen[:, -1])), len(tape.shortest_path(inputs[0], states[-1]))
    rows.append((n, tape.depth(seen), tape.depth(states[-1]), *ways))
print(table(("length n", "depth: attention", "RNN", "path, first to last word: attention", "RNN"), rows, range(5)))

# %% [markdown]
# Attention: three steps, whatever the length. The RNN: three for each word (a product, a sum, a tanh).
#
# **Claim.** Self-attention takes $O(n^2 d)$ operations, a constant number of sequential steps, and connects any two
# positions by a path of constant length.
#
# **What would refute it:** a term that grows faster, or that is larger at the sizes in use; a depth that grows with
# $n$; two positions that one layer does not connect.
#
# **Experiment.** What you have just seen, for more sizes and all pairs of positions. A path on the tape shows only that
# a signal *could* travel, so we also take the derivative of every output for every input: it must not be zero. Then we
# look for the length at which pairs of words overtake the matrices, here and in a whole block. (The next cell is this
# experiment as code; you may skip it.)


# %%
@lesson.trial(
    "cost-self-attention",
    "Self-attention takes O(n² d) operations, O(1) sequential steps, and paths of length O(1).",
    controls=[faults.one_key_after_another, faults.causal_forced, faults.matrices_for_free],
)
def cost_self_attention(trial):
    layers = [evidence.attention_layer(n, d) for n, d in ((4, 3), (7, 6), (12, 4), (20, 8))]
    depths = {tape.depth(output) for _, output in layers}
    trial.check(len(depths) == 1, f"longest chain of steps: {sorted(depths)} for n from 4 to 20 (one value expected)")
    ends = [(x, output[:, t]) for inputs, output in layers for x in inputs for t in range(len(inputs))]
    ways = {len(tape.shortest_path(x, y)) for x, y in ends}
    trial.check(len(ways) == 1, f"steps on the shortest path of any two positions: {sorted(ways)} (one value expected)")
    pairs = sum(evidence.connected(*layer) for layer in layers)
    trial.check(pairs == len(ends), f"{pairs} of {len(ends)} pairs of positions have a derivative that is not zero")
    count, right = evidence.fit(lambda n, d: tape.cost(evidence.attention_layer(n, d)[1]).flops)
    formula, large = evidence.written(count), evidence.written(count[:2])
    trial.check(right == len(evidence.OTHER_SIZES), f"operations = {formula}: exact at {right} of 7 other sizes")
    by_hand = evidence.fit(evidence.attention_on_the_abacus)[0][:2]
    text = f"leading terms on the tape: {large}; on the abacus: {evidence.written(by_hand)} (equal expected)"
    trial.check(by_hand == count[:2], text)
    widths = (4, 8, 16, 32, 64) if lesson.full else (4, 8, 16, 32)
    layer, block = evidence.layer_crossings(widths), evidence.block_crossings(widths)
    text = f"pairs of words overtake the projections at n = {layer} for d = {list(widths)} (2d - 1 expected)"
    trial.check(layer == [2 * d - 1 for d in widths], text)
    trial.note(f"in a whole block with feed-forward width 4d they overtake at n = {block}: about 6d")
    trial.show(figures.crossings(widths, layer, block), "crossings", "Which part of a layer does most of the work.")
    findings["self-attention"] = (large, depths.pop(), f"1 layer ({ways.pop()} steps)")
    text = f"{formula} operations; the n d² of the projections is the larger term up to n = 2d - 2"
    return "sharpened" if count[0] else "proved", f"{text}; depth and path are constant"


# %% [markdown]
# The claim holds with an addition. The layer does $4 n^2 d$ operations on pairs of words *and* $8 n d^2$ in its four
# matrices, and the second number is the larger one until $n$ reaches about $2d$. With the usual feed-forward part
# behind it (lesson 6 builds it), that point moves to about $6d$. Find GPT-3 in the picture: at its longest input,
# "quadratic" attention is a small part of the work.
#
# ## Recurrence
# A plain RNN forgets: every step sends its whole state through a matrix and a tanh. GRU and LSTM add *gates*, numbers
# between 0 and 1 that say how much of the old state to keep; each gate needs matrices of its own. A GRU has three sets
# of them, an LSTM four, and a layer that reads in both directions is two layers.
#
# **Predict.** A step of an RNN does two products of $2 d^2$ operations, $W x$ and $R h$, so a sequence costs $4 n d^2$.
# What does an LSTM cost? And is the way through an LSTM longer than the way through an RNN, or shorter?
#
# **Claim.** A recurrent layer takes $O(n d^2)$ operations, $O(n)$ sequential steps, and has paths of length $O(n)$;
# LSTM, GRU and layers that read in both directions differ by a constant factor only.
#
# **What would refute it:** a term in $n^2$; a depth or a path that does not grow in a straight line; a factor that
# depends on the size.
#
# **Experiment.** Run the cells along sequences of 3 to 10 words, count and fit as before; ask for depth and path.


# %%
@lesson.trial(
    "cost-recurrent",
    "A recurrent layer takes O(n d²) operations, O(n) sequential steps, and paths of length O(n).",
    controls=[faults.state_lost, faults.read_again_from_the_start],
)
def cost_recurrent(trial):
    rows, products = [], {}
    for name, kind in evidence.RECURRENT.items():
        depth, path, count, right = evidence.recurrence(*kind)
        expected = "with each position (one number above 0 expected)"
        trial.check(depth, f"{name}: the longest chain grows by {depth} steps {expected}")
        trial.check(path, f"{name}: the way from first to last grows by {path} steps {expected}")
        formula = evidence.written(count)
        text = f"{name}: {formula} operations, exact at {right} of 7 other sizes (no n² expected)"
        trial.check(right == len(evidence.OTHER_SIZES) and count[1] == count[2] == 0, text)
        products[name] = count[0]
        rows.append((name, formula, depth, path))
    factors = [product / products["RNN"] for product in products.values()]
    text = "products compared with a plain RNN's: " + ", ".join(f"{f:g}" for f in factors) + " (1, 3, 4, 2 expected)"
    trial.check(factors == [1, 3, 4, 2], text)
    trial.note(table(("layer", "operations", "depth for each word", "path for each word"), rows, right=(2, 3)))
    findings["recurrent"] = (f"{products['RNN']} n d²", f"{rows[0][2]} n", f"1 layer ({rows[0][3]} n steps)")
    factors = "× 3 for GRU, × 4 for LSTM, × 2 for both ways"
    return "proved", f"{products['RNN']} n d² for the RNN; {factors}; depth and path of the RNN 3 n"


# %% [markdown]
# Proved, with constants. Look at the last column: a GRU or an LSTM offers a signal a way of two cheap steps for each
# word (times a gate, plus something) where the plain RNN has three, a matrix product among them. The way is about as
# long, but smoother; that is what gates are for.
#
# One thing the usual comparison hides: count the matrices on both sides, and self-attention *never* does fewer
# operations than a plain RNN of the same width, since $8 n d^2 + 4 n^2 d > 4 n d^2$. It does fewer than an LSTM ($16 n
# d^2$) up to $n \approx 2d$. What attention really buys stands in the other two columns.
#
# ## Convolution
# A convolution computes each word's new vector from a window of $k$ words around it. (Its weights are called a kernel,
# too; a second meaning of the word.) No word waits for another. But a word's influence gets only as far as the window
# reaches, and to go further one needs another layer on top.
#
# **Predict.** Windows of width $k = 3$ look one word to the left and one to the right. How many layers until the first
# of 9 words has reached the last? Below, a 1 is put at the first place and 0 everywhere else, and sent through one
# layer after another. The second stack looks back only, and leaves gaps between the words it looks at: 1 step in the
# first layer, 3 in the second, 9 in the third. Such a stack is called *dilated*.

# %%
for kind in ("centred", "dilated"):
    stack = list(evidence.spreading(9, 3, kind, evidence.layers_until_connected(9, 3, kind)))
    print(f"{kind}, k = 3: which of 9 words the first one has reached")
    for number, reached in enumerate(stack, 1):
        print(f"  after layer {number}   " + " ".join("#" if there else "." for there in reached[0]))

# %% [markdown]
# A centred kernel moves a signal by $\lfloor k/2 \rfloor$ places a layer. With dilation the reach is multiplied by $k$
# in each layer: a way is a number written in base $k$, one digit a layer.
#
# **Claim.** A convolution with kernels of width $k$ takes $O(k n d^2)$ operations, a constant number of sequential
# steps, and $O(n/k)$ layers to connect the first position with the last.
#
# **What would refute it:** another count; a stack that connects its ends earlier or later.
#
# **Experiment.** Count and fit for several $k$. Send signals as above from all positions at once, and compare the
# layers until all pairs are connected with $\lceil (n-1) / \lfloor k/2 \rfloor \rceil$, and $\lceil \log_k n \rceil$
# with dilation.


# %%
@lesson.trial(
    "cost-convolution",
    "A convolution takes O(k n d²) operations, O(1) sequential steps, and O(n/k) layers from end to end.",
    controls=[faults.kernel_padded_with_zeros, faults.sequence_closed_to_a_ring, faults.dilation_ignored],
)
def cost_convolution(trial):
    for k in (1, 2, 3, 5, 8):
        count, right = evidence.fit(lambda n, d, k=k: tape.cost(evidence.convolution_layer(n, d, k)).flops)
        text = f"k = {k}: {evidence.written(count)} operations (2k n d² expected), exact at {right} of 7 other sizes"
        trial.check(right == len(evidence.OTHER_SIZES) and count[:3] == [2 * k, 0, 0], text)
    depths = {tape.depth(evidence.convolution_layer(n, 3, k)) for n in (2, 9, 40) for k in (2, 5)}
    trial.check(depths == {1}, f"longest chain of steps: {sorted(depths)} for n from 2 to 40 (1 expected)")
    for kind, widths in {"centred": (3, 4, 5, 6, 7, 9), "looking back": (2, 3, 5, 8), "dilated": (2, 3, 4, 5)}.items():
        lengths = range(2, 81 if lesson.full else 41, 1 if kind == "dilated" else 3)
        stacks = [(n, k, kind) for n in lengths for k in widths]
        exact = sum(evidence.layers_until_connected(*stack) == evidence.expected_layers(*stack) for stack in stacks)
        trial.check(exact == len(stacks), f"{kind} kernels: {exact} of {len(stacks)} stacks are as deep as predicted")
    findings["convolution"] = ("2 k n d²", depths.pop(), "⌈(n-1) / ⌊k/2⌋⌉ layers, dilated ⌈log_k n⌉")
    layers = "⌈(n-1) / ⌊k/2⌋⌉ layers with centred kernels, ⌈log_k n⌉ with dilation"
    return "sharpened", f"2k n d² operations, depth 1; {layers}"


# %% [markdown]
# The count is proved. The path is sharpened twice: a centred kernel moves a signal by *half* its width, so a stack
# needs about twice $n/k$ layers; and with growing dilation the logarithm of $n$ is enough. Here are all paths together:

# %%
lengths = [2, 3, 5, 9, 17, 33, 65, 128]
figure = figures.paths(lengths, evidence.depths_of_stacks(lengths))
lesson.show(figure, "paths", "How many layers until every two positions are connected, measured.")

# %% [markdown]
# ## From counts to seconds
# What is all this worth on a real machine? Three layers of width 64, first counted, then run on a single core.
# **Predict:** the LSTM does fewer operations than attention for $n > 2d = 128$. Is it faster there?

# %%
d, lengths = 64, [16, 32, 64, 128, 256, 512]
counted, times = evidence.counts_and_times(lengths, d)
for name, seconds in times.items():
    print(f"n = 512: {counted[name][-1] / 1e6:3.0f} million operations, {seconds[-1] * 1e3:6.2f} ms  {name}")
figure = figures.counts_and_times(lengths, d, counted, times)
lesson.show(figure, "counts_and_times", "Operations, and the time they take on one core of this machine.")

# %% [markdown]
# No: on 512 words the LSTM does less than half of attention's operations and takes far longer. Its work comes in
# thousands of small steps that stand in a queue, and none of them is large enough to keep even one core busy; part of
# the time is the interpreter's, which handles every step by itself. On a machine with thousands of cores attention and
# convolution would gain further, the LSTM would not. That is what the second column of the table means in practice.
#
# ## The table, rebuilt from counts

# %%
print(table(("layer", "operations", "sequential", "longest path"), [(k, *v) for k, v in findings.items()]))

# %% [markdown]
# ## Questions to think about
# 1. Your model has width 512 and reads texts of 300 words. Somebody offers an attention that takes $O(n \log n)$
#    instead of $O(n^2)$ operations. How much faster can the whole model get at most?
# 2. While a text is *written* word by word, a word cannot be computed before the one in front of it is known. Which of
#    attention's three advantages is left then?
# 3. A dilated stack connects all positions in $\log_k n$ layers. Why might a model still learn long relations less
#    easily with it than with attention?
# 4. `--break one-key-after-another` runs attention with the same results and about the same work. Which check notices?
#
# ## Further reading
# - Ashish Vaswani and others, *Attention Is All You Need*, 2017: section 4 has the table, and the argument for it.
# - Sepp Hochreiter and Jürgen Schmidhuber, *Long Short-Term Memory*, 1997: why long paths make learning hard, and what
#   gates do about it.
# - Aäron van den Oord and others, *WaveNet: A Generative Model for Raw Audio*, 2016: a model made of dilated stacks.
# - Tri Dao and others, *FlashAttention*, 2022: on a graphics card bytes matter more than operations; see lesson 9.
#
# ## Exercises
# `minitransformer exercise count-operations` asks for the formula of this lesson, for any number of words; `bug-scale`
# hides a fault in an attention; `tiled-attention` (after lesson 9) asks for the $n^2$ part without storing $n^2$
# numbers.

# %% tags=["plumbing"]
lesson.finish()
