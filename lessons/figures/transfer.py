"""The figures of lesson 11: what a cache saves, and what pretraining is worth."""

import matplotlib.pyplot as plt
import numpy as np

from lessons.harness import style


def cache(whole, cached):
    """Operations for each word that is written: with the whole text again, and with keys and values kept"""
    figure, axes = plt.subplots(figsize=(7.2, 3.6))
    words = range(1, 1 + len(whole))
    axes.plot(words, np.array(whole) / 1e6, color=style.RED, ls="--", label="whole text again")
    axes.plot(words, np.array(cached) / 1e6, color=style.BLUE, label="keys and values kept")
    axes.set(xlabel="word being written", ylabel="million operations")
    axes.legend()
    return figure


def epochs(curves):
    """curves: number of labels → accuracies (seeds, epochs) of the pretrained model, and of the one from scratch"""
    figure, panels = plt.subplots(1, 2, figsize=(8.4, 3.6), sharey=True)
    for axes, (n, both) in zip(panels, curves.items(), strict=True):
        looks = ("pretrained", style.BLUE, "-"), ("from scratch", style.RED, "--")
        for seeds, (name, colour, dash) in zip(both, looks, strict=True):
            steps = np.arange(1, 1 + seeds.shape[1])
            axes.fill_between(steps, seeds.min(axis=0), seeds.max(axis=0), color=colour, alpha=0.15, lw=0)
            axes.plot(steps, seeds.mean(axis=0), dash, color=colour, marker="o", ms=4, label=name)
        axes.set(title=f"{n:,} labels", xlabel="epoch", xticks=steps)
    panels[0].set_ylabel("accuracy on unseen entries")
    panels[0].legend()
    return figure


def labels(numbers, means):
    """means: model → for each number of labels its mean accuracy, and half of the interval around it"""
    figure, axes = plt.subplots()
    looks = (style.BLUE, "-", "o", 1), (style.GREY, ":", "s", 1.04), (style.RED, "--", "^", 0.96)
    for (name, found), (colour, dash, mark, shift) in zip(means.items(), looks, strict=True):
        heights, halves = 100 * np.array(found).T
        places = np.array(numbers) * shift  # side by side, so that no bar hides another
        axes.errorbar(places, heights, halves, color=colour, ls=dash, marker=mark, capsize=3, label=name)
    axes.set(xscale="log", xlabel="labelled entries", ylabel="% right on unseen entries", xticks=numbers)
    axes.set_xticks([], minor=True)
    axes.set_xticklabels([f"{n:,}" for n in numbers])
    axes.legend(loc="lower right")
    return figure
