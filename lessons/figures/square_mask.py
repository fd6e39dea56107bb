"""The figures of lesson 3: a mask on a sentence, who influences whom, and what peeking does to training."""

import math

import matplotlib.pyplot as plt
import numpy as np

from lessons.harness import style


def _weights(ax, matrix, title, words):
    """Attention weights with their numbers; what is exactly zero stays blank."""
    ax.imshow(np.nan_to_num(matrix), cmap="Greys", vmin=0, vmax=1)
    ax.set(title=title, xlabel="the word that is looked at", xticks=range(len(words)), yticks=range(len(words)))
    ax.set_xticklabels(words, fontsize=10)
    ax.set_yticklabels(words, fontsize=10)
    for (t, s), p in np.ndenumerate(matrix):
        text = "0/0" if np.isnan(p) else f"{p:.2f}".lstrip("0") if p else ""
        ax.text(s, t, text, ha="center", va="center", fontsize=9, color="w" if p > 0.5 else "k")


def sentence(words, free, masked):
    """Weights (n, n) of a sentence without and with the mask"""
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 4), sharey=True)
    _weights(axes[0], free, "without a mask", words)
    _weights(axes[1], masked, "with the square mask", words)
    axes[0].set_ylabel("the word that looks")
    figure.suptitle("Where each word looks: attention weights of one sentence", fontsize=12)
    return figure


def masks(weights):
    """weights: title → attention weights (6, 6); three of them"""
    figure, axes = plt.subplots(1, 3, figsize=(8.4, 3.2))
    for ax, (title, matrix) in zip(axes, weights.items(), strict=True):
        _weights(ax, matrix, title, range(6))
        ax.set_xlabel("position that is looked at")
    axes[0].set_ylabel("position that looks")
    figure.suptitle("Attention weights of six positions, under three masks", fontsize=12)
    return figure


def _slopes(ax, slopes, title, lowest=-3.0, own=False):
    """The largest slope of each pair of positions; exact zeros stay white.   slopes (T, S, V, C)

    own  relative to the largest of them, which then has the top of the colour scale"""
    size = np.abs(slopes).max(axis=(2, 3))
    size = size / size.max() if own else size
    with np.errstate(divide="ignore"):
        image = ax.imshow(np.ma.masked_invalid(np.log10(size)), vmin=lowest, vmax=0 if own else 0.5)
    ax.set_title(title, fontsize=11)
    ax.spines[:].set_visible(True)
    ax.set(xticks=range(0, size.shape[1], 3), yticks=range(0, size.shape[0], 3))
    return image


def _scale(figure, image, axes):
    bar = figure.colorbar(image, ax=axes, shrink=0.75, label="largest slope (white: exactly zero)")
    bar.set_ticks([-3, -2, -1, 0], labels=["0.001", "0.01", "0.1", "1"])


def jacobians(sound, broken):
    """sound, broken: title → slopes of the scores at t by the word at s (T, V, T, C); three each"""
    figure, axes = plt.subplots(2, 3, figsize=(8.2, 5.6), sharex=True, sharey=True)
    for ax, (title, slopes) in zip(axes.flat, [*sound.items(), *broken.items()], strict=True):
        image = _slopes(ax, slopes.transpose(0, 2, 1, 3), title)
    for ax in axes[1]:
        ax.set_xlabel("word at position")
    for ax, name in zip(axes[:, 0], ("Sound engine", "Broken engines"), strict=True):
        ax.set_ylabel(f"{name}\nguess at position")
    _scale(figure, image, axes)
    figure.suptitle("How strongly each guess depends on each word", fontsize=12)
    return figure


def noise(curves, words):
    """curves: name → losses on evenly drawn words, of which there are `words`"""
    figure, ax = plt.subplots(figsize=(7.2, 4))
    for name, losses in curves.items():
        ax.plot(losses, label=name)
    ax.axhline(math.log(words), color=style.GREY, lw=1, ls=":")
    ax.text(len(losses), math.log(words) - 0.03, f"ln {words}:\nguessing", va="top", fontsize=10, color=style.GREY)
    ax.set(xlabel="training step", ylabel="loss (nats)", ylim=(0, None), title="Learning to predict pure noise")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def translator(source, target, reading, looking, own):
    """source, target: words. Slopes of the encoder's output by source words, of the scores by the encoder's output, and
    of the scores by target words, each (rows, columns, V, C)"""
    panels = [
        ("The encoder reads\nall of the source", reading, source, source, "source word", "encoder's output at"),
        (
            "The decoder reads all\nthat the encoder wrote",
            looking,
            source,
            target,
            "encoder's output at",
            "guess after",
        ),
        ("The decoder sees only\nwhat it has written", own, target, target, "target word", "guess after"),
    ]
    figure, axes = plt.subplots(1, 3, figsize=(10, 4.1), width_ratios=[len(p[2]) for p in panels])
    for ax, (title, slopes, columns, rows, below, beside) in zip(axes, panels, strict=True):
        image = _slopes(ax, slopes, title, lowest=-1.5, own=True)
        ax.set(xticks=range(len(columns)), yticks=range(len(rows)), xlabel=below, ylabel=beside)
        ax.set_xticklabels(columns, rotation=60, ha="right", rotation_mode="anchor")
        ax.set_yticklabels(rows)
        ax.tick_params(length=0)
    bar = figure.colorbar(image, ax=axes, shrink=0.75, label="slope, of the largest (white: exactly zero)")
    bar.set_ticks([-1.5, -1, -0.5, 0], labels=["3 %", "10 %", "30 %", "100 %"])
    figure.suptitle("Who influences whom in a translator", fontsize=12)
    return figure
