"""The figures of lesson 3: who influences whom, and what masks do to attention and to training."""

import math

import matplotlib.pyplot as plt
import numpy as np

from lessons.harness import style


def _heat_map(ax, slopes, title, xlabel, ylabel=""):
    """The largest slope of each pair of positions.   slopes (T, V, S, C)"""
    size = np.abs(slopes).max(axis=(1, 3))
    with np.errstate(divide="ignore"):
        image = ax.imshow(np.ma.masked_invalid(np.log10(size)), vmin=-4, vmax=0.5)
    ax.set(title=title, xlabel=xlabel, ylabel=ylabel)
    ax.set(xticks=range(0, size.shape[1], 3), yticks=range(0, size.shape[0], 3))
    return image


def jacobians(sound, broken):
    """sound, broken: title → slopes of the scores at t by the word at s (T, V, T, C); three each"""
    figure, axes = plt.subplots(2, 3, figsize=(7.6, 5.4), sharex=True, sharey=True)
    for ax, (title, slopes) in zip(axes[0], sound.items(), strict=True):
        _heat_map(ax, slopes, title, "")
    for ax, (title, slopes) in zip(axes[1], broken.items(), strict=True):
        image = _heat_map(ax, slopes, title, "depends on word s")
    for ax, name in zip(axes[:, 0], ("sound engine", "broken engines"), strict=True):
        ax.set_ylabel(f"{name}\nscores at t")
    figure.colorbar(image, ax=axes, shrink=0.7, label="largest slope, $\\log_{10}$")
    return figure


def masks(weights):
    """weights: title → attention weights (6, 6); three of them"""
    figure, axes = plt.subplots(1, 3, figsize=(7.6, 2.9))
    for ax, (title, matrix) in zip(axes, weights.items(), strict=True):
        ax.imshow(np.nan_to_num(matrix), cmap="Greys", vmin=0, vmax=1)
        ax.set(title=title, xlabel="looks at s", xticks=range(6), yticks=range(6))
        for (t, s), p in np.ndenumerate(matrix):
            text = "0/0" if np.isnan(p) else f"{p:.2f}".lstrip("0") if p else ""
            ax.text(s, t, text, ha="center", va="center", fontsize=8, color="w" if p > 0.5 else "k")
    axes[0].set_ylabel("position t")
    return figure


def noise(curves, words):
    """curves: name → losses on evenly drawn words, of which there are `words`"""
    figure, ax = plt.subplots(figsize=(6.4, 3.4))
    for name, losses in curves.items():
        ax.plot(losses, label=name)
    ax.axhline(math.log(words), color=style.GREY, lw=1, ls=":")
    ax.text(len(losses), math.log(words) - 0.03, f"ln {words}", va="top", fontsize=10, color=style.GREY)
    ax.set(xlabel="training step", ylabel="loss on pure noise (nats)", ylim=(0, None))
    figure.legend(loc="outside upper center", ncols=2)
    return figure


def translator(*jacobians):
    """Slopes of memory by source words, of scores by memory, of scores by target words, each (rows, columns, V, C)"""
    titles = "source to memory", "memory to scores", "target to scores"
    sides = ("source word", "memory at"), ("memory at", "scores at t"), ("target word", "scores at t")
    figure, axes = plt.subplots(1, 3, figsize=(8.4, 3))
    for ax, title, (x, y), slopes in zip(axes, titles, sides, jacobians, strict=True):
        image = _heat_map(ax, slopes.transpose(0, 2, 1, 3), title, x, y)
    figure.colorbar(image, ax=axes, shrink=0.8, label="largest slope, $\\log_{10}$")
    return figure
