"""The figures of lesson 7: where the weights of models are, and how long the base model trains."""

import matplotlib.pyplot as plt
import numpy as np

from lessons.harness import style


def base_terms(terms, listed):
    """terms: name → weights in the model; listed: name → weights that the claim has in its place, where it has any"""
    figure, axes = plt.subplots(figsize=(7.6, 5.2))
    places, names = np.arange(len(terms))[::-1], list(terms)
    looks = (0.2, style.BLUE, "", "in the model", terms), (-0.2, style.ORANGE, "//", "in the student's list", listed)
    for shift, colour, hatch, label, numbers in looks:
        sizes = np.array([numbers.get(name, 0) for name in names]) / 1e6
        whole = f"{label}: {sizes.sum():.1f} million together"
        bars = axes.barh(places + shift, sizes, 0.38, color=colour, hatch=hatch, ec="white", label=whole)
        axes.bar_label(bars, [f" {size:.2f}" if size else " missing" for size in sizes], fontsize=9)
    axes.set(yticks=places, yticklabels=names, xlabel="million weights", xlim=(0, 66))
    axes.set_title("The base model of 2017, and a list of its weights that does not add up")
    axes.title.set_ha("right")
    axes.title.set_position((1, 1))
    axes.legend(loc="lower right")
    return figure


def shares(models):
    """models: name → weights of embeddings, layers and head"""
    figure, axes = plt.subplots(figsize=(7.6, 3))
    looks = (
        ("embedding: a row for each word", ""),
        ("transformer layers", "//"),
        ("head: a score for each word or class", ".."),
    )
    for row, (name, sizes) in enumerate(models.items()):
        left = 0.0
        for (kind, hatch), size, colour in zip(looks, sizes, style.COLOURS, strict=False):
            axes.barh(
                [name], [size / 1e6], left=left, color=colour, hatch=hatch, ec="white", label=None if row else kind
            )
            left += size / 1e6
        axes.text(left, row, f"  {left:.1f}", va="center")
    axes.set(
        xlabel="million weights",
        xlim=(0, 70),
        title="Small models are mostly word tables, the base model is mostly layers",
    )
    axes.legend(loc="lower right")
    return figure


def training(seen):
    """seen: the Training of lesson 7's evidence, a few steps and what follows from them"""
    figure, axes = plt.subplots(figsize=(7.4, 4.4))
    machine, work = np.array([1e9, 1e15]), seen.paper_operations
    axes.loglog(machine, work / machine / 86400, color=style.BLUE, ls="-", label="as in the paper: 25,000 words a step")
    axes.plot(seen.rate, seen.paper, "o", color=style.RED, ms=9, label="the same at the speed of this machine")
    axes.plot(seen.rate, seen.small, "^", color=style.ORANGE, ms=9, label=f"this machine, {seen.words} words a step")
    axes.plot(work / 43200, 0.5, "s", color=style.GREEN, ms=8, label="eight P100 cards: 12 hours, as reported in 2017")
    ticks = {1 / 24: "1 hour", 1: "1 day", 30: "1 month", 365: "1 year", 3650: "10 years", 36500: "100 years"}
    axes.set(yticks=list(ticks), yticklabels=list(ticks.values()), ylim=(1e-4, 1e5))
    axes.minorticks_off()
    axes.grid(axis="y", color=style.GREY, lw=0.5, ls=":")
    axes.set(xlabel="operations that a machine does in a second", ylabel="time for 100,000 steps")
    axes.set_title("Is the base model impossible to train? It depends on machine and batch")
    axes.legend(loc="lower left", fontsize=9)
    return figure
