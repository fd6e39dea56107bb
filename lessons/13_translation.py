# %% [markdown]
# # 13. Translation, and how it goes wrong
#
# An encoder reads an English sentence, a decoder writes it in French: this *encoder-decoder* is the machine for which
# transformers were invented. Students of a course built it from the paper, and several of their reports end in the same
# place. The loss falls for a while, then grows. One start gives another result than the next. And *I am a student*
# becomes *suis suis suis suis*. The reports suspect that dropout or normalisation is missing, or that the program has
# an error somewhere. Which of the two? We can find out, since we can break a sound engine on purpose, one part at a
# time, and watch what each fault does.
#
# **At the end you can say**
# - how a translator is trained, and how it writes: two different things;
# - what five common mistakes do to the loss, and what they do to the translations;
# - why a low loss proves nothing about a decoder, and which four counts do;
# - what layer norm buys, and when forbidding repeated words helps.
#
# **Time:** 30 minutes to read, five to run. **Before you start:** lesson 3 (masks and the decoder) and lesson 11
# (training, and writing word by word).
#
# Run it: `python lessons/13_translation.py`; `--break mask-off` runs it on a *control*, an engine that was broken on
# purpose: there a check has to fail. With `--full --data DIR`, where DIR holds `tatoeba-eng-fra`, it translates
# sentences that people wrote.

# %% tags=["plumbing"]
import itertools

import numpy as np

from lessons import faults
from lessons.evidence import translation as evidence
from lessons.evidence.translation import CAREFUL, CARELESS, LATE, LEAKED, LOST, SOUND
from lessons.faults import REPORTED
from lessons.figures import translation as figures
from lessons.harness.trial import Lesson
from minitransformer.app.tables import table

lesson = Lesson(__file__)
SEEDS = range(4) if lesson.full else range(2)
corpus, best_loss = evidence.small_corpus()
n = len(corpus.test)


@lesson.remember
def trained(fault, recipe, seed):
    return evidence.train(corpus, fault, recipe, seed)


@lesson.remember
def scored(run):
    return evidence.score(run)


def runs(fault, recipe=CAREFUL):
    return [trained(fault, recipe, seed) for seed in SEEDS]


def scores(fault):
    return [scored(run) for run in runs(fault)]


# %% [markdown]
# ## A corner of French
#
# Many trainings have to fit into a minute, so the language is small: some seventy English words, several thousand
# sentences. It still asks for what makes translation more than a dictionary. Look for it in these pairs: gender (*un
# livre vert*, *une voiture verte*), verbs that follow the person, adjectives that change place, and negation that wraps
# the verb (*ne ... pas*) and is cut short before a vowel (*n'*).

# %%
print("\n".join(f"{english:46}{french}" for english, french in corpus.test[:6]))
print(f"\n{len(corpus.training[0]):,} pairs to train on, {n} others to test with; the best possible loss: {best_loss}")

# %% [markdown]
# Each English sentence has exactly one translation. So a perfect translator exists, and its loss is zero. Sentences of
# the test are never trained on.
#
# ## Reading, and writing
#
# The encoder reads the English sentence; it may look at all of it. The decoder is trained with the right translation
# before its eyes, **shifted by one**: at each place it sees the words so far and is asked for the next one (*teacher
# forcing*). The causal mask keeps it from peeping.

# %%
french = "je suis étudiant ."
shifted = zip(["<sos>", *french.split()], [*french.split(), "<eos>"], strict=True)
print(table(("the decoder reads", "and is asked for"), shifted))

# %% [markdown]
# When it *writes*, there is no right translation. It starts from `<sos>`, takes its own likeliest word, and feeds that
# back as input, until it says `<eos>`. **Keep this difference in mind**: whatever goes wrong below goes wrong in the
# gap between being told the words so far and having to live with one's own.
#
# Now train one, by the loop of lesson 11: a layer on each side, 48 numbers a word, **no dropout anywhere**. The
# *careful* recipe warms the learning rate up, lets it fall again, and limits the size of each step. How many of 200
# unknown sentences will it get right, word for word, after 140 batches?

# %%
example = "my cow does not buy a red car .", "ma vache n' achète pas une voiture rouge ."
first = runs(SOUND)[0]
print(f"{scored(first).right} of {n} right; loss at the end {scored(first).loss:.3f}")
for line in (example[0], "i am a student .", "the fridge is full of food ."):
    print(f"  {line:34}{evidence.in_french(first, line)}")
weights = {SOUND: evidence.look(first, *example)}
lesson.show(figures.alignment(weights, *example), "alignment", "Where the decoder looks while it writes.")

# %% [markdown]
# It translates. In the picture, each row is a word about to be written and shows where the decoder looks in the English
# sentence. It has found out by itself that *voiture* comes from *car* and *rouge* from *red*, although they change
# places. Look at *ma* and *une*: they glance at *cow* and *car* as well, because the noun decides their gender.
#
# ## Now break it
#
# Five mistakes that people have reported or shown in their programs, each a few lines in `lessons/faults`:
#
# | fault | what is broken |
# |---|---|
# | no norm | layer norm hands its input on |
# | mask after softmax | later words are hidden too late: they have entered the sum already |
# | leaked target | the decoder is fed the word it is asked for |
# | unregistered weights | the optimizer never hears of the attention matrices |
# | no padding mask | attention reads padding like words |
#
# Before we train, four counts on *untrained* models. How many predictions change if we change nothing but the word that
# is asked for; nothing but a later word of the input; nothing but the padding? And how many weights does one step of
# the optimizer leave as they were? In a sound engine: none. **Which fault do you expect in which column?**

# %%
heads = ("untrained", "moved by the answer", "by a later word", "by padding", "weights that stay")
print(table(heads, evidence.symptom_table(), right=(1, 2, 3, 4)))

# %% [markdown]
# Each fault shows, in a fraction of a second, without any training. Now train all of them carefully, from two starts
# each. **Predict:** which fault would you notice in the loss alone? Which has the *lowest* loss?

# %%
rows = [[fault, *evidence.ranges(scores(fault))] for fault in REPORTED]
print(table((f"careful, {len(SEEDS)} starts", "loss", "right", "BLEU", "stutter"), rows, right=(1, 2, 3, 4)))
for fault in REPORTED:
    print(f"  i am a student .  {fault:22}{evidence.in_french(runs(fault)[0], 'i am a student .')[:60]}")
moved = [evidence.changed_by_padding(run) for run in runs("no padding mask")]
print(f"no padding mask: five more columns of padding change {moved} of {n} translations")
curves = {fault: evidence.smooth(runs(fault)[0].losses) for fault in REPORTED}
shares = np.array([np.mean([(one.right / n, one.stutter) for one in scores(fault)], axis=0) for fault in REPORTED])
lesson.show(figures.faults(curves, *shares.T), "faults", "A healthy curve proves little: compare it with the words.")

# %% [markdown]
# (*right*: sentences that are right word for word. *BLEU* gives credit for parts. *Stutter* is the share of words that
# equal the word before them; in right French, ours, it is zero.)
#
# In the loss you would notice the unregistered weights, whose curve stays high (and *je suis malade* means *I am ill*).
# The late mask has a curve like any other, and gets one sentence in seven right. And the lowest loss of all belongs to
# the worst translator. Fed the answer, it learnt to copy it; when it has to write by itself, it copies its own last
# word for ever. That is the stutter of the students' reports.
#
# And the strange curve, down and then up? Train carelessly: a high rate from the first step to the last, no limit.

# %%
losses = {"with layer norm": runs(SOUND, CARELESS), "without": runs("no norm", CARELESS)}
losses = {label: [run.losses for run in group] for label, group in losses.items()}
lesson.show(figures.careless(losses), "careless", "Down, then up: this takes a missing norm and a high rate.")
alive = [run for run in runs("no norm", CARELESS) if evidence.still_finite(run)]
shares = [f"{evidence.stutter(evidence.translate(run)):.0%}" for run in alive]
print(f"without norm and carelessly trained, so many words repeat the one before: {', '.join(shares)}")

# %% [markdown]
# ## Claim: missing dropout or normalisation makes training unstable, random and repetitive
#
# **What would refute it.** A model without dropout that trains steadily from every start and repeats nothing; one
# without normalisation that does so too; and another fault that explains the symptoms.
#
# **Experiment.** What you have just seen, with checks: the counts, the careful trainings, the careless ones. Two more
# for the most polite of the faults, unregistered weights: which weights never moved, and what is left when the model is
# saved and loaded. Three broken engines must make the trial fail: one in which the "sound" model has no mask either,
# one without positions, and one whose layer norm only looks like one. (The next cell is this experiment as code; you
# may skip it.)


# %%
@lesson.trial(
    "degenerate",
    "Without dropout or normalisation, training grows unstable, differs by initialisation, and words repeat.",
    controls=[faults.mask_off, faults.encoding_off, faults.norm_off],
)
def degenerate(trial):
    for check in evidence.symptoms_show():
        trial.check(*check)
    trial.check(*evidence.right_french_never_stutters(corpus))
    trial.check(*evidence.steady_without_dropout(scores(SOUND), n))
    trial.check(*evidence.calm_with_norm(runs(SOUND, CARELESS)))
    trial.check(*evidence.wild_without_norm(runs("no norm", CARELESS)))
    trial.check(*evidence.careful_without_norm(scores("no norm"), n))
    trial.check(*evidence.best_loss_worst_words(scores(LEAKED), scores(SOUND), n))
    trial.check(*evidence.healthy_curve_broken_words(scores(LATE), scores(SOUND), n))
    trial.check(*evidence.weights_that_never_moved(runs(LOST)[0]))
    sound, lost = ((runs(fault)[0], scores(fault)[0].right) for fault in (SOUND, LOST))
    trial.check(*evidence.lost_by_saving(*sound, *lost, n))
    weights = {fault: evidence.look(runs(fault)[0], *example) for fault in (SOUND, LOST, LEAKED)}
    trial.show(figures.alignment(weights, *example), "alignments", "A sound decoder, and two broken ones, at work.")
    worst, gentle = (min(one.right for one in scores(fault)) for fault in (SOUND, "no norm"))
    grown = min(map(evidence.growth, runs("no norm", CARELESS)))
    return "sharpened", (
        f"dropout plays no part ({worst} of {n} right without any); a missing norm does harm at a high constant rate "
        f"(the loss ends at {grown:,.0f} times its lowest value or more), little in careful training ({gentle} right); "
        f"the full stutter ({min(one.stutter for one in scores(LEAKED)):.0%} of the words) comes from a leaked target"
    )


# %% [markdown]
# Of the two suspects, dropout is innocent: no model here has any. A missing norm does produce the strange curve, down
# and then up, different from each start, and it even stutters. But it takes a careless rate as well: what the norm buys
# is tolerance, and careful training nearly does without. (At that rate the model with norm stays calm, but it does not
# learn to translate either.)
#
# The full stutter has another cause, the leaked target. The late mask is a milder form of the same illness: some of the
# future shines through the sum of the softmax, the loss looks healthy, and without that light the sentences fall apart.
# Unregistered weights are the most polite fault: random attention is usable, the rest of the network arranges itself
# with it, and everything is gone once the model is saved and loaded. Reading the padding did next to no harm here,
# where batches of all lengths taught the model to ignore it.
#
# **So a low loss proves nothing about a decoder.** The four counts do: no training, a fraction of a second, and every
# one of the five faults shows.
#
# ## Claim: forbidding repeated words brings sensible words out of a failed model
#
# First aid, as one report has it: let the failed model write on, past the end of the sentence, with every word allowed
# only once. In that report the result looked sensible: *. un je suis étudiant étudiante*. (Ours are below.) **Does it
# mean anything?** How could one tell sense from luck?
#
# **What would refute it.** Words that have nothing to do with the sentence that went in. So count the words of the
# right translation among those written and, as a yardstick, the words of *another* sentence's translation. Only what
# exceeds the yardstick was understood.
#
# **Experiment.** The models that lost their voice, by the late mask and by the leaked target, write twelve words, first
# freely, then without repeating any. Then the sound model, which needs no help, is given the same rule. The two broken
# engines of this trial forbid nothing although they were told to, or hide the source from the decoder. They concern the
# writing only, so the models are those from above, trained on the sound engine.

# %%
voices = {fault: runs(fault) for fault in (LATE, LEAKED, SOUND)}
for fault, once in itertools.product((LATE, LEAKED), (False, True)):
    rule = {"no_repeat": 1} if once else {}
    said = evidence.in_french(voices[fault][0], "i am a student .", eos=None, max_new_tokens=12, **rule)
    print(f"{fault:20}{'each word once' if once else 'freely':16}{said}")


# %%
@lesson.trial(
    "no-repeat",
    "Forbidding repeated words brings sensible words out of a failed model.",
    controls=[faults.forbids_nothing, faults.blank_source],
)
def no_repeat(trial):
    freely, once = ({fault: evidence.write(voices[fault], rule) for fault in voices} for rule in (False, True))
    free, bound = (sum(written.doubled for written in one.values()) for one in (freely, once))
    trial.check(bound == 0 < free, f"{free:,} words stand in their row already; {bound:,} under the rule (0 expected)")
    trial.check(*evidence.more_than_by_chance(freely[LATE], once[LATE]))
    trial.check(*evidence.nothing_but_chance(once[LEAKED], once[LATE]))
    crutch, worst, helped = evidence.a_crutch(voices[SOUND], voices[LATE], n)
    trial.check(*crutch)
    trial.check(*evidence.right_words_forbidden(voices[SOUND]))
    ways = {"writes freely": freely, "each word once": once}
    shown = {(fault, how): ways[how][fault] for fault in (LATE, LEAKED) for how in ways}
    shown[SOUND, "writes freely"] = freely[SOUND]
    trial.show(figures.words(shown), "words", "Only a model that reads its source has something to say.")
    surplus = [evidence.percent(one[LATE].own - one[LATE].other) for one in (freely, once)]
    own, leaked, chance = map(evidence.percent, (once[LATE].own, once[LEAKED].own, once[LEAKED].other))
    return "sharpened", (
        f"true of a model that reads its source: with the late mask {evidence.percent(freely[LATE].own)} of the right "
        f"words become {own} (over chance: {surplus[0]} and {surplus[1]}), with a leaked target {leaked} (chance "
        f"{chance}); and a crutch: {helped} of {n} sentences right, against {worst} for the sound model alone"
    )


# %% [markdown]
# The rule works where the report tried it, and now we know why: it helps a model that understands the source but has
# lost track of its own words. The yardstick cools the joy, though: whoever writes twelve different words hits many by
# luck, and most of the gain is of that kind. From a model that never looked at the source the rule brings out nothing
# else.
#
# And it is a crutch: it yields words, not sentences; the sound model does far better without it; and imposed on the
# sound model it forbids correct French, since *le chat voit le livre* needs its *le* twice. Is a wider search a cure?

# %%
for fault in (LATE, SOUND):
    run = voices[fault][0]
    print(f"{fault:20}{scored(run).right} of {n} right by greedy search, {evidence.by_beam(run, 4)} by a beam of 4")
tatoeba = None if lesson.data is None else lesson.data / "tatoeba-eng-fra"
if lesson.full and lesson.broken is None and tatoeba is not None and tatoeba.is_dir():
    for line in evidence.on_real_sentences(tatoeba):
        print(line)

# %% [markdown]
# No: a beam finds likelier sentences, and the broken model holds wrong ones to be likely. When a decoder stutters, do
# not tune the decoding. Look for the leak.
#
# ## Questions to think about
# 1. Why can the leaked target have a lower loss than the sound model, although both were trained equally long?
# 2. Which of the five faults would a *test* loss reveal, if it is computed like the training loss? Which would not?
# 3. The padding did no harm here. Make up a data set for which it would.
# 4. Attention with random weights, never trained, still gets three sentences in four right. What does the work then?
# 5. How would you check a decoder in a library whose source you cannot read? (Four counts.)
#
# ## Further reading
# - A. Vaswani and others, *Attention is all you need* (2017). The translator, its masks, and its warm-up.
# - D. Bahdanau, K. Cho and Y. Bengio, *Neural machine translation by jointly learning to align and translate* (2015).
#   Where the pictures of alignment come from.
# - S. Bengio, O. Vinyals, N. Jaitly and N. Shazeer, *Scheduled sampling for sequence prediction* (2015). On the gap
#   between being told the words and having to live with one's own.
# - R. Xiong and others, *On layer normalization in the transformer architecture* (2020). What the norm buys.
# - A. Holtzman and others, *The curious case of neural text degeneration* (2020). Why even sound models repeat
#   themselves.
#
# **Exercises** (`minitransformer exercise NAME`): `label-smoothing`, `adam-step`, `clip-gradients`, `beam-search`,
# `no-repeat`, `key-value-cache`, and `bug-mask`, `bug-optimizer`, in which you look for the leak.

# %%
lesson.finish()
