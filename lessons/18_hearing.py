# %% [markdown]
# # 18. Hearing
#
# A translator reads one sentence and writes another (lesson 13). Its encoder reads, its decoder writes, and between
# them stands cross-attention: each word that is written looks at the words that were read. Now exchange the source. Not
# French, not words at all, but **sound**. What must change? Less than one thinks, and this lesson puts a number on it:
# Whisper, which OpenAI trained on 680,000 hours of speech, is the `Translator` of lesson 13 with another front door.
#
# **At the end you can say**
# - how sound becomes a picture that a transformer can read, and why its bands are those of the ear;
# - which parts of a speech recogniser are new, and which you know already;
# - how one can see *when* it hears each word, although nobody told it;
# - where it keeps time, and where it does not.
#
# **Time:** 30 minutes to read, a minute or two to run. **It needs a download**, once: Whisper and a recording come by
# pip (71 and 29 MB) into your cache. **Before you start:** lessons 2 and 13. **Run it:** `python
# lessons/18_hearing.py`; add `--break sound-backwards` to see a check fail.

# %% tags=["plumbing"]
import numpy as np

from lessons import faults
from lessons.evidence import hearing as evidence
from lessons.figures import hearing as figures
from lessons.harness.trial import Lesson
from minitransformer.pretrained import speech

lesson = Lesson(__file__, needs=("whisper", "speech"))
model, pieces, filters, sound = evidence.opened()
heard = lesson.remember(lambda name: evidence.heard(model, pieces, filters, SOUNDS[name]))
SOUNDS = {"as it is": sound, "halves swapped": evidence.halves_swapped(sound)}
SOUNDS |= {f"{seconds} s later": evidence.later(sound, seconds) for seconds in (2, 5, 11)}

# %% [markdown]
# ## Sound in numbers
# A microphone writes down the pressure of the air, 16,000 times a second. Here somebody says a few words. Nobody can
# read them off the upper curve; with some practice one can off the lower picture.

# %%
print(f"{len(sound):,} numbers for {len(sound) / evidence.RATE:.2f} seconds; the first: {sound[:5].round(4)}")
shown = speech.spectrogram(evidence.window(sound), filters)[: len(sound) // 160]
caption = "Above: pressure. Below: how loud each of 80 bands of pitch is, 100 times a second; light is loud."
lesson.show(figures.picture(sound, evidence.RATE, shown), "picture", caption)

# %% [markdown]
# The picture is made in four steps.
#
# 1. Every hundredth of a second, take 25 milliseconds of sound, fading in and out (a *Hann window*).
# 2. Ask how strong each frequency is in it. That is the Fourier transform: 201 numbers, 40 Hz apart.
# 3. Add neighbours up into 80 **bands**. Low ones are narrow, high ones wide, because the ear works like that: it tells
#    200 from 240 Hz easily, 7,000 from 7,040 Hz not at all. Such a scale of pitch is called *mel*.
# 4. Take the logarithm: the ear counts loudness in factors, too.
#
# The table of bands comes with Whisper's weights, as a file. Is it magic, or a formula?

# %%
formula = evidence.bands_by_formula()
lesson.show(figures.bands(evidence.band_edges()), "bands", "Triangles whose corners are even steps of pitch.")
apart = np.abs(formula - filters).max()
print(f"the file and the formula differ by at most {apart:.0e}; the largest entry is {filters.max():.3f}")

# %% [markdown]
# A formula of three lines (`mel` in `lessons/evidence/hearing.py`).
#
# ## First trial: a tone lights its band
# **Claim.** A pure tone lights the band of its pitch, and hardly any other.
#
# **What would refute it.** A tone whose brightest band is another one; or power that is smeared over the picture.
# **Experiment.** Ten tones from 150 to 7,000 Hz. A triangle goes up where its neighbour goes down, so each frequency
# belongs to two bands. (The next cell is this experiment as code; you may skip it.)


# %%
@lesson.trial(
    "tone-in-band",
    "In the picture of sound a pure tone lights the band of its pitch, and hardly any other.",
    controls=[faults.no_window, faults.half_the_rate, faults.bands_upside_down],
)
def tone_in_band(trial):
    tones = (150, 300, 440, 700, 1000, 1500, 2200, 3300, 5000, 7000)
    found = [evidence.lit(hertz, filters) for hertz in tones]
    right = sum(band in evidence.expected_bands(hertz) for hertz, (band, _) in zip(tones, found, strict=True))
    trial.check(right == len(tones), f"{right} of {len(tones)} tones are brightest in a band that holds their pitch")
    least = min(share for _, share in found)
    trial.check(
        least > 0.95, f"that band and its neighbours have at least {least:.1%} of the power (over 95 % expected)"
    )
    return "proved", f"{right} of {len(tones)} tones in their band, with {least:.1%} of the power or more"


# %% [markdown]
# Without the fading in and out (`--break no-window`) a tenth of the power and more leaks into other bands: a sharp cut
# is itself a sound, a click.
#
# ## The front door, and the house you know
# 30 seconds make 3,000 columns. Two small convolutions (each place sees its neighbours) halve them to 1,500 places, 20
# milliseconds each; a vector for the moment is added, as positions are to words. From there on it is lesson 13:

# %%
print(model.config.n_encoder, "encoder layers,", model.config.n_decoder, "decoder layers, width", model.config.d_model)
layers, method = evidence.as_translator(model)
print("layers of the decoder:", *layers, "| the method that runs them:", method)
words, weights, _ = heard("as it is")
print("it writes:", "".join(words))

# %% [markdown]
# ## Second trial: the same cross-attention
# The method is the translator's own, so there is little to prove about the code. But two things can be asked of the
# *arithmetic*. First: is a look at sound really four products and a softmax, as in lesson 2? Second, a thought from
# lesson 4: attention treats what it looks at as a *set*. So shuffle the 1,500 moments of the encoded sound like cards,
# before the decoder sees them. What will it write? Decide before you read on.
#
# **Claim.** The decoder looks at sound exactly as a translator looks at words: as a set.
#
# **What would refute it.** A result that differs from the formula; another text after shuffling.


# %%
@lesson.trial(
    "sound-as-source",
    "Whisper's decoder looks at sound as a translator looks at words: by the same formula, and as a set.",
    controls=[faults.cross_masked, faults.late_moments_fade, faults.scale_off, faults.moments_numbered],
)
def sound_as_source(trial):
    x = np.random.default_rng(18).standard_normal((1, 6, model.config.d_model)).astype(np.float32)
    memory = model.encode(speech.spectrogram(evidence.window(sound), filters)[None])
    by_hand, ours = evidence.cross_attention_by_hand(model, memory, x)
    apart = np.abs(by_hand - ours).max()
    # results of size 1 in float32: products of 384 terms, a few units of 6e-8 each
    trial.check(apart < 2e-6, f"by hand in float64 and by the engine, a look at the sound differs by {apart:.0e}")
    words, _, scores = heard("as it is")
    again, _, others = evidence.heard(model, pieces, filters, sound, evidence.shuffled)
    trial.check(again == words, f"with the moments shuffled it writes the same: {''.join(again).strip()}")
    moved = np.abs(others - scores).max()
    trial.check(moved < 8e-3, f"its scores of all words move by {moved:.0e}, rounding allows 8e-03")
    return "proved", f"equal to the formula to {apart:.0e}; the moments shuffled, scores move by {moved:.0e}"


# %% [markdown]
# The same text, from moments in any order. So the decoder does not *walk* along the sound. How, then, does it know
# which word comes next? Time is in the vectors: the encoder has added to each moment where it stands. Take that away
# (`--break sound-places-off`), and it stammers without end.
#
# ## When does it hear a word?
# Nobody told Whisper when a word was spoken; it was trained on sound and text alone. But each word that it writes looks
# at the sound. Average the gaze over the heads of the last two layers, and draw it over time. Below it, the same
# recording cut in a pause, with the halves swapped.

# %%
rows = {}
for title, name in (("as it was spoken", "as it is"), ("the halves swapped", "halves swapped")):
    words, weights, _ = heard(name)
    rows[title] = words, weights[-2:].mean(axis=(0, 1)), evidence.peaks(weights)
caption = "How much each written word looks at each moment. Circles: where it looks most."
lesson.show(figures.gazes(rows, 3.2), "gazes", caption)
print("swapped, it writes:", "".join(rows["the halves swapped"][0]))

# %% [markdown]
# One can read the picture like a subtitle. (Full stops are not spoken; they look elsewhere.)
#
# ## Third trial: attention follows time
# **Claim.** The gaze follows time: the words of a recording are looked at in the order in which they are spoken, and
# when the sound comes later, the gaze moves with it.
#
# **What would refute it.** A word that is looked at before the one spoken earlier. Or a gaze that stays, or moves by
# another time than the sound. A model that had learnt "the first word is at half a second" would fail here.
#
# **Experiment.** The recording as it is; with 2, 5 and 11 seconds of silence before it; and with its halves swapped.
# The peak of a word is known to a place, 0.02 s; two of them are allowed.


# %%
@lesson.trial(
    "gaze-follows-time",
    "Whisper's cross-attention follows time: words in the order they are spoken, and later when the sound is later.",
    controls=[faults.sound_unheard, faults.sound_backwards, faults.sound_places_off],
)
def gaze_follows_time(trial):
    words, weights, _ = heard("as it is")
    trial.check("".join(words).strip() == "Go forward 10 meters.", f"it writes: {''.join(words).strip()}")
    at = evidence.peaks(weights)[:4]
    times = ", ".join(f"{word.strip()} {second:.2f} s" for word, second in zip(words, at, strict=False))
    trial.check((np.diff(at) > 0).all() and at[-1] < 2.8, f"looked at in this order, within the recording: {times}")
    worst = 0.0
    for seconds in (2, 5, 11):
        again, weights, _ = heard(f"{seconds} s later")
        moved = evidence.peaks(weights)[:4] - at
        worst = max(worst, np.abs(moved - seconds).max())
        trial.check(again == words, f"{seconds} seconds later it writes the same")
        trial.check(worst < 2.5 * evidence.PLACE, f"and the gaze moves by {moved.min():.2f} to {moved.max():.2f} s")
    swapped, weights, _ = heard("halves swapped")
    spoken = [i for i, word in enumerate(swapped) if word.strip(" .")]
    order = evidence.peaks(weights)[spoken]
    said = " ".join(swapped[i].strip() for i in spoken)
    trial.check(
        said == "10 meters Go forward" and (np.diff(order) > 0).all(), f"swapped: {said}, looked at in this order"
    )
    return "proved", f"{times}; with the sound later by 2, 5 and 11 s the gaze follows to {worst:.2f} s"


# %% [markdown]
# That is how programs put time stamps on words. Note what the trial does *not* say: that attention explains what the
# model does. It was read off one recording, and single heads do other things: some rest on the silence at the end.
#
# **Fine print.** No head was chosen: the mean goes over all heads of the last two of four decoder layers. Peaks are
# taken after averaging over 0.18 s. What rounding allows for shuffled moments is derived in
# `lessons/evidence/hearing.py`.
#
# ## Questions to think about
# 1. Played backwards, the recording makes Whisper write *[unintelligible]*. Where has it learnt that word?
# 2. Why 30 seconds, always, with silence filled in? What would one have to change for an hour? What does
#    `minitransformer transcribe` do?
# 3. Whisper writes *10*, where *ten* was said. Which part of the model decided that?
# 4. The encoder's attention compares 1,500 places with each other. Use lesson 5: what share of its operations is that?
#
# ## Further reading
# - Radford and others, *Robust speech recognition via large-scale weak supervision*, 2022: Whisper.
# - Stevens, Volkmann and Newman, *A scale for the measurement of the psychological magnitude pitch*, 1937: the mel.
# - Bahdanau, Cho and Bengio, *Neural machine translation by jointly learning to align and translate*, 2015: the first
#   pictures of a decoder's gaze.
# - Chorowski and others, *Attention-based models for speech recognition*, 2015: what goes wrong when a gaze gets lost.
#
# ## Exercises
# `minitransformer exercise sound-frames` makes the first two steps of the picture; `align-words` puts a time on each
# word, where single gazes may go astray. `cross-attention` is the layer in the middle of this lesson; `greedy` and
# `beam-search` are how words are chosen. And `minitransformer transcribe speech.wav` writes down your own voice
# (`--sample`: this recording).

# %%
lesson.finish()
