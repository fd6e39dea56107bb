"""The figures of lesson 18: sound as a picture, the ear's bands, and where Whisper looks while it writes."""

import matplotlib.pyplot as plt
import numpy as np

from lessons.harness import style


def picture(samples, rate, spectrogram):
    """samples (n); spectrogram (columns, bands) of the same sound"""
    seconds = len(samples) / rate
    figure, (wave, mels) = plt.subplots(2, 1, figsize=(8.6, 4.6), sharex=True, height_ratios=(1, 2.2))
    wave.plot(np.arange(len(samples)) / rate, samples, color=style.GREY, lw=0.5)
    wave.set(ylabel="pressure", title="2.8 seconds: 44,580 numbers, and the same as a picture of 279 × 80")
    mels.imshow(spectrogram.T, origin="lower", aspect="auto", extent=(0, seconds, 0, spectrogram.shape[1]))
    mels.set(xlabel="seconds", ylabel="band, low to high")
    return figure


def bands(edges):
    """edges (bands + 2) in Hz: where a band begins, peaks and ends"""
    figure, axes = plt.subplots(figsize=(8.2, 3.3))
    for number in range(0, len(edges) - 2, 6):
        axes.plot(edges[number : number + 3], (0, 1, 0), color=style.COLOURS[number // 6 % 6], ls="-", lw=1.4)
    axes.set(xlabel="Hz", ylabel="how much the band hears", xlim=(0, 8000), ylim=(0, 1.1))
    axes.set_title("Every sixth of the 80 bands: even steps up to 1,000 Hz, then wider and wider")
    return figure


def gazes(rows, seconds):
    """rows: title → (words, weights (words, places), when each is looked at most); seconds: how much to show"""
    figure, all_axes = plt.subplots(len(rows), 1, figsize=(8.6, 2.4 * len(rows)), sharex=True)
    for axes, (title, (words, weights, peaks)) in zip(all_axes, rows.items(), strict=True):
        shown = weights[:, : round(seconds / 0.02)]
        axes.imshow(shown, cmap="Greys", aspect="auto", extent=(0, seconds, len(words) - 0.5, -0.5))
        inside = peaks < seconds
        axes.plot(peaks[inside], np.flatnonzero(inside), "o", color=style.RED, ms=6, mfc="none", mew=1.6)
        axes.set_yticks(range(len(words)), [word.strip() for word in words])
        axes.set_title(title, loc="left", fontsize=11)
    all_axes[-1].set_xlabel("seconds")
    return figure
