"""The figures of lesson 7: where the weights of models are, and how long the base model trains."""

import matplotlib.pyplot as plt
import numpy as np

from lessons.harness import style


def base_terms(terms, in_the_list):
    """terms: name → weights; in_the_list: the names that the claim lists"""
    figure, axes = plt.subplots(figsize=(7.6, 4.4))
    names = list(terms)[::-1]
    numbers = [terms[name] / 1e6 for name in names]
    colours = [style.BLUE if name in in_the_list else style.ORANGE for name in names]
    bars = axes.barh(
        names, numbers, color=colours, hatch=["" if name in in_the_list else "//" for name in names], ec="white"
    )
    axes.bar_label(bars, [f" {number:.2f}" for number in numbers])
    axes.barh([0], [0], color=style.BLUE, label="in the list")
    axes.barh([0], [0], color=style.ORANGE, hatch="//", ec="white", label="not in the list")
    axes.set(xlabel="million weights", title=f"The base model: {sum(terms.values()) / 1e6:.1f} million", xlim=(0, 23))
    axes.legend(loc="lower right")
    return figure


def shares(models):
    """models: name → weights of embeddings, layers and head"""
    figure, axes = plt.subplots(figsize=(7.6, 2.6))
    looks = ("embeddings", ""), ("layers", "//"), ("head", "..")
    for row, (name, sizes) in enumerate(models.items()):
        left = 0.0
        for (kind, hatch), size, colour in zip(looks, sizes, style.COLOURS, strict=False):
            axes.barh(
                [name], [size / 1e6], left=left, color=colour, hatch=hatch, ec="white", label=None if row else kind
            )
            left += size / 1e6
        axes.text(left, row, f"  {left:.1f}", va="center")
    axes.set(xlabel="million weights", xlim=(0, 70))
    axes.legend(loc="lower right")
    return figure


def training(operations, rate, small, words):
    """Days against what a machine sustains. operations: of the paper's training; rate: operations a second, here;
    small: days here with so many words a step"""
    figure, axes = plt.subplots(figsize=(7.2, 3.8))
    machine = np.array([1e9, 1e15])
    axes.loglog(machine, operations / machine / 86400, color=style.BLUE, ls="-", label="the paper's 100,000 steps")
    axes.plot(rate, operations / rate / 86400, "o", color=style.RED, ms=9, label="this machine, measured")
    axes.plot(operations / 43200, 0.5, "s", color=style.GREEN, ms=8, label="eight P100 in 12 hours, as reported")
    axes.plot(rate, small, "^", color=style.ORANGE, ms=9, label=f"this machine, {words} words a step")
    for days, name in ((1, "a day"), (30, "a month"), (365, "a year")):
        axes.axhline(days, color=style.GREY, lw=0.8, ls=":")
        axes.text(1.8e15, days * 1.1, name, fontsize=9, color=style.GREY, ha="right")
    axes.set(xlabel="operations a second", ylabel="days", ylim=(1e-3, 1e5), title="Nearly impossible to train?")
    axes.legend(loc="lower left", fontsize=9)
    return figure
