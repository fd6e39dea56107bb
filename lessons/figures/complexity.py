"""The figures of lesson 5: which part of a layer works most, how far a signal goes, and what layers cost."""

import matplotlib.pyplot as plt
import numpy as np

from lessons.harness import style


def crossings(widths, layer, block):
    """layer, block: for each width the length at which pairs of positions overtake the matrices"""
    figure, axes = plt.subplots()
    d = np.array([3, 3000])
    axes.fill_between(d, 1, 2 * d, color=style.BLUE, alpha=0.12, lw=0)
    axes.fill_between(d, 6 * d, 2e4, color=style.ORANGE, alpha=0.18, lw=0)
    axes.loglog(d, 2 * d, color=style.BLUE, ls="-", label="attention layer: n = 2d")
    axes.loglog(d, 6 * d, color=style.RED, ls="--", label="whole block, feed-forward width 4d: n = 6d")
    axes.loglog(widths, layer, "o", color=style.BLUE, label="found by counting")
    axes.loglog(widths, block, "s", color=style.RED, label="found by counting")
    for n, width, name in ((512, 200, "lab 1   "), (512, 768, "   BERT base"), (1024, 768, "   GPT-2 small")):
        axes.plot(width, n, "*", color=style.GREY, ms=10)
        axes.text(width, n, name, ha="right" if name[0] != " " else "left", va="center", fontsize=9)
    axes.text(20, 7, "matrices do most\nof the work: n d²", ha="left")
    axes.text(5, 2500, "pairs of positions do most of the work: n² d", ha="left")
    axes.set(xlabel="width d", ylabel="length n", xlim=(3, 3000), ylim=(4, 9000))
    axes.legend(loc="lower right", fontsize=8.5, title="both do the same amount")
    return figure


def paths(lengths, stacks):
    """stacks: three kinds of convolution → layers until the ends of each length are connected"""
    figure, axes = plt.subplots()
    axes.loglog(lengths, lengths, color=style.GREY, ls=":", label="recurrence: n steps in one layer")
    looks = (style.RED, "o"), (style.ORANGE, "s"), (style.GREEN, "^")
    for (label, layers), (colour, mark) in zip(stacks.items(), looks, strict=True):
        axes.loglog(lengths, layers, color=colour, marker=mark, ls="-", label=label)
    axes.loglog(lengths, [1] * len(lengths), color=style.BLUE, ls="--", label="self-attention: 1 layer")
    axes.set(xlabel="length n", ylabel="layers (recurrence: steps)", title="How far apart are the two ends?")
    axes.set(xticks=[2, 8, 32, 128], xticklabels=[2, 8, 32, 128], yticks=[1, 4, 16, 64], yticklabels=[1, 4, 16, 64])
    axes.legend()
    return figure


def counts_and_times(lengths, d, counted, measured):
    """counted, measured: name of a layer → operations, and seconds, at each length"""
    figure, (counts, times) = plt.subplots(1, 2, figsize=(9.2, 4), sharex=True)
    for name, mark in zip(counted, "os^", strict=True):
        counts.loglog(lengths, counted[name], marker=mark, label=name)
        times.loglog(lengths, measured[name], marker=mark, label=name)
    counts.axvline(2 * d, color=style.GREY, lw=1, ls=":")
    counts.text(2 * d, counts.get_ylim()[0] * 1.3, " n = 2d", fontsize=9, color=style.GREY)
    counts.set(ylabel="operations", title=f"Counted (d = {d})")
    times.set(ylabel="seconds", title="Measured here")
    for axes in (counts, times):
        axes.set(xlabel="length n", xticks=lengths, xticklabels=lengths)
        axes.minorticks_off()
    counts.legend()
    return figure
