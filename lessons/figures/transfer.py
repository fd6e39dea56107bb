"""The figures of lesson 11: what a language model expects, what a cache saves, and what pretraining is worth."""

import matplotlib.pyplot as plt
import numpy as np

from lessons.harness import style


def expected(beginnings):
    """beginnings: text → probabilities that the next word praises, and that it blames"""
    figure, axes = plt.subplots(figsize=(7.2, 0.75 * len(beginnings) + 1.6))
    places = np.arange(len(beginnings))[::-1]
    for shift, kind, colour, hatch in ((0.2, "praises", style.BLUE, ""), (-0.2, "blames", style.ORANGE, "//")):
        chances = [100 * chance[kind == "blames"] for chance in beginnings.values()]
        bars = axes.barh(places + shift, chances, 0.38, color=colour, hatch=hatch, ec="white", label=kind)
        axes.bar_label(bars, [f" {chance:.0f} %" for chance in chances], fontsize=9)
    axes.set(yticks=places, yticklabels=[f"{text} …" for text in beginnings], xlim=(0, 100))
    axes.set(xlabel="probability that the next word praises or blames (%)")
    axes.set_title("What the language model expects next (it has never seen a label)")
    axes.title.set_ha("right")
    axes.title.set_position((1, 1))
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), title="the next word")
    return figure


def cache(whole, cached):
    """Operations for each word that is written: with the whole text again, and with keys and values kept"""
    figure, axes = plt.subplots(figsize=(7.2, 3.8))
    words = range(1, 1 + len(whole))
    axes.plot(words, np.array(whole) / 1e6, color=style.RED, ls="--", label="reading the whole text again")
    axes.plot(words, np.array(cached) / 1e6, color=style.BLUE, label="keys and values of old words kept")
    axes.set(xlabel="number of the word being written", ylabel="million operations for this word")
    axes.set_title("What the next word costs")
    axes.legend()
    return figure


def epochs(curves):
    """curves: number of labels → accuracies (seeds, epochs) of the pretrained model, and of the one from scratch"""
    figure, panels = plt.subplots(1, 2, figsize=(8.4, 4), sharey=True)
    for axes, (n, both) in zip(panels, curves.items(), strict=True):
        looks = ("pretrained", style.BLUE, "-"), ("from scratch", style.RED, "--")
        for seeds, (name, colour, dash) in zip(both, looks, strict=True):
            steps, seeds = np.arange(1, 1 + seeds.shape[1]), 100 * seeds
            axes.fill_between(steps, seeds.min(axis=0), seeds.max(axis=0), color=colour, alpha=0.15, lw=0)
            axes.plot(steps, seeds.mean(axis=0), dash, color=colour, marker="o", ms=4, label=name)
        axes.axhline(50, color=style.GREY, lw=0.8, ls=":")
        axes.set(title=f"{n:,} labelled entries", xlabel="epoch (times through the labels)", xticks=steps)
    panels[0].set_ylabel("% right on unseen entries")
    panels[1].text(1, 50.5, "guessing", color=style.GREY, fontsize=9)
    panels[0].legend(title=f"mean and range of {len(seeds)} runs", loc="lower right", bbox_to_anchor=(1, 0.1))
    figure.suptitle("Pretraining helps while labels are few", fontsize=12)
    return figure


def labels(numbers, means):
    """means: model → for each number of labels its mean accuracy, and half of the interval around it"""
    figure, axes = plt.subplots()
    looks = (style.BLUE, "-", "o", 1), (style.GREY, ":", "s", 1.04), (style.RED, "--", "^", 0.96)
    for (name, found), (colour, dash, mark, shift) in zip(means.items(), looks, strict=True):
        heights, halves = 100 * np.array(found).T
        places = np.array(list(numbers)) * shift  # side by side, so that no bar hides another
        up = np.minimum(halves, 100 - heights)  # nobody can be right in more than 100 of 100 cases
        axes.errorbar(places, heights, [halves, up], color=colour, ls=dash, marker=mark, capsize=3, label=name)
    axes.set(xscale="log", xlabel="labelled entries", ylabel="% right on unseen entries", xticks=list(numbers))
    axes.set_title("What a label is worth, with and without pretraining (means with 95 % intervals)")
    axes.title.set_fontsize(11)
    axes.set_xticks([], minor=True)
    axes.set_xticklabels([f"{n:,}" for n in numbers])
    axes.legend(loc="lower right")
    return figure
