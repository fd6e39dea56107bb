"""The figures of lesson 5: which part of a layer works most, how far a signal goes, and what layers cost."""

import matplotlib.pyplot as plt
import numpy as np

from lessons.harness import style

IN_USE = {"BERT base": (768, 512), "GPT-2 small": (768, 1024), "GPT-3": (12288, 2048)}  # width, longest input


def two_kinds_of_work(lengths, d, parts):
    """parts: for each length the operations on pairs of words, and those of the matrices"""
    figure, axes = plt.subplots()
    pairs, matrices = np.array(parts).T / 1e6
    axes.loglog(lengths, matrices, "s--", color=style.BLUE, label="the four matrices: grows like n")
    axes.loglog(lengths, pairs, "o-", color=style.RED, label="pairs of words: grows like n²")
    axes.axvline(2 * d, color=style.GREY, lw=1, ls=":")
    axes.text(2 * d * 1.06, axes.get_ylim()[0] * 1.6, f"equal at n = 2d = {2 * d}", color=style.GREY)
    axes.set(xlabel="length of the text n (words)", ylabel="million operations")
    axes.set(xticks=lengths, xticklabels=lengths, title=f"One attention layer of width d = {d} does two kinds of work")
    axes.minorticks_off()
    axes.legend(title="operations of")
    return figure


def crossings(widths, layer, block):
    """layer, block: for each width the length at which pairs of words overtake the matrices"""
    figure, axes = plt.subplots(figsize=(7.2, 5))
    d = np.array([3, 4e4])
    axes.fill_between(d, 1, 2 * d, color=style.BLUE, alpha=0.12, lw=0)
    axes.fill_between(d, 6 * d, 1e6, color=style.ORANGE, alpha=0.18, lw=0)
    axes.loglog(d, 6 * d, color=style.RED, ls="--", label="whole block with feed-forward width 4d: n = 6d")
    axes.loglog(widths, block, "s", color=style.RED, label="the same, found by counting a block")
    axes.loglog(d, 2 * d, color=style.BLUE, ls="-", label="attention layer alone: n = 2d")
    axes.loglog(widths, layer, "o", color=style.BLUE, label="the same, found by counting a layer")
    for name, (width, longest) in IN_USE.items():
        axes.plot(width, longest, "*", color="black", ms=10)
        axes.annotate(name, (width, longest), xytext=(9, 0), textcoords="offset points", va="center", fontsize=9)
    axes.plot([], [], "*", color="black", ms=10, label="a model at its longest input")
    axes.text(25000, 8, "multiplying matrices\nis most of the work (n d²)", ha="right", color=style.BLUE)
    axes.text(4, 9000, "words looking at each other\nis most of the work (n² d)", ha="left", color="#8a5a00")
    axes.set(xlabel="width d", ylabel="length n (words)", xlim=(3, 4e4), ylim=(4, 1e5))
    axes.set_title("Which part of a layer does most of the work?")
    title = "lines and points: where both parts are equally much work"
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, fontsize=8.5, title=title)
    return figure


def paths(lengths, stacks):
    """stacks: three kinds of convolution → layers until the ends of each length are connected"""
    figure, axes = plt.subplots()
    axes.loglog(lengths, lengths, color=style.GREY, ls=":", label="recurrence: n steps inside one layer")
    looks = (style.RED, "o"), (style.ORANGE, "s"), (style.GREEN, "^")
    for (label, layers), (colour, mark) in zip(stacks.items(), looks, strict=True):
        axes.loglog(lengths, layers, color=colour, marker=mark, ls="-", label=label)
    axes.loglog(lengths, [1] * len(lengths), color=style.BLUE, ls="--", label="self-attention: 1 layer")
    axes.set(xlabel="length n (words)", ylabel="layers (recurrence: steps)")
    axes.set_title("How many layers until the first word can influence the last?")
    axes.set(xticks=[2, 8, 32, 128], xticklabels=[2, 8, 32, 128], yticks=[1, 4, 16, 64], yticklabels=[1, 4, 16, 64])
    axes.minorticks_off()
    axes.legend()
    return figure


def counts_and_times(lengths, d, counted, measured):
    """counted, measured: name of a layer → operations, and seconds, at each length"""
    figure, (counts, times) = plt.subplots(1, 2, figsize=(9.2, 4.2), sharex=True)
    for name, mark in zip(counted, "os^", strict=True):
        counts.loglog(lengths, np.array(counted[name]) / 1e6, marker=mark, label=name)
        times.loglog(lengths, 1e3 * np.array(measured[name]), marker=mark, label=name)
    counts.axvline(2 * d, color=style.GREY, lw=1, ls=":")
    counts.text(2 * d, counts.get_ylim()[0] * 1.2, " n = 2d", fontsize=9, color=style.GREY)
    counts.set(ylabel="million operations", title="Operations, counted")
    times.set(ylabel="milliseconds", title="Processor time, measured here")
    for axes in (counts, times):
        axes.set(xlabel="length n (words)", xticks=lengths, xticklabels=lengths)
        axes.set_xticks([], minor=True)
    counts.legend()
    figure.suptitle(f"Three layers of width d = {d}: fewer operations need not mean less time", fontsize=12)
    return figure
