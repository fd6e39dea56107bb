"""# Frames of sound

A model that hears does not read the pressure of the air, but which frequencies are loud, moment by moment. Every `hop`
samples a frame of `span` samples is cut out, faded in and out by a Hann window, and its power at each frequency is
taken:

    frame[f, i]  = sound[f · hop + i] · (1 - cos(2π i / span)) / 2             i from 0 to span - 1
    power[f, k]  = |Σ_i frame[f, i] · exp(-2π j k i / span)|²                  k from 0 to span / 2, and j² = -1

Frames begin at 0, hop, 2 hop, ...; the last one is the last that fits as a whole. Sound that is shorter than one span
has no frames: the result then has 0 rows. `span` is even.

Example: sound [1, 1, 1, 1] with span 4 and hop 4 is one frame. The window is [0, 0.5, 1, 0.5]; the frequencies 0, 1, 2
have the power [4, 1, 0].

(Whisper does this with span 400 and hop 160 at 16,000 samples a second: 100 frames a second. It pads the ends, adds the
201 powers up into 80 bands, and takes logarithms.)
"""

import numpy as np

from lessons.exercises.exercise import Case

TRACK, LESSON, LEVEL, MINUTES = "real", "18", 2, 20
RESULTS = ("power",)

SOLUTION = '''
import numpy as np


def frames(sound, span, hop):
    """sound (n)  →  power (F, span / 2 + 1)"""
    window = (1 - np.cos(2 * np.pi * np.arange(span) / span)) / 2
    starts = np.arange(0, len(sound) - span + 1, hop)  # whole frames only; none, if the sound is too short
    cut = sound[starts[:, None] + np.arange(span)] * window  # (F, span)
    return np.abs(np.fft.rfft(cut, axis=-1)) ** 2
'''

ANOTHER = """
import numpy as np


def frames(sound, span, hop):
    i, k = np.arange(span), np.arange(span // 2 + 1)
    angle = 2 * np.pi * np.outer(i, k) / span
    rows = []
    first = 0
    while first + span <= len(sound):
        faded = sound[first : first + span] * np.sin(np.pi * i / span) ** 2  # the same window, by the half angle
        rows.append((faded @ np.cos(angle)) ** 2 + (faded @ np.sin(angle)) ** 2)
        first += hop
    return np.array(rows).reshape(-1, span // 2 + 1)
"""


def expected(sound, span, hop):
    """Power without any spectrum of the sound: that of its products with itself, moved by every distance."""
    window = np.hanning(span + 1)[:-1]
    count = max(0, (len(sound) - span) // hop + 1) if len(sound) >= span else 0
    power = np.zeros((count, span // 2 + 1))
    lags = np.arange(span)
    waves = np.cos(2 * np.pi * np.outer(lags, np.arange(span // 2 + 1)) / span)
    for f in range(count):
        frame = sound[f * hop : f * hop + span] * window
        power[f] = np.array([frame @ np.roll(frame, lag) for lag in lags]) @ waves
    return power


def cases():
    yield Case("the example", (np.ones(4), 4, 4))
    rng = np.random.default_rng(0)
    # frames that touch, overlap, leave a rest, or leave gaps; then sound that is too short for one
    for n, span, hop in ((8, 8, 8), (8, 4, 4), (11, 6, 2), (13, 4, 4), (20, 4, 6), (3, 4, 1), (1, 8, 2)):
        yield Case(f"{n} samples", (rng.normal(size=n), span, hop))
    tone = np.cos(2 * np.pi * 440 * np.arange(1600) / 16000)
    yield Case("a tenth of a second of a tone of 440 Hz", (tone, 400, 160))
