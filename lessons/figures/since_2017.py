"""The figures of lesson 14: scores by place, what a cache holds, gates, gradients by depth."""

import matplotlib.pyplot as plt
import numpy as np

from lessons.harness import style


def score_tables(turned, added):
    """turned, added (places, places): the score of one query and one key, wherever they stand"""
    figure, both = plt.subplots(1, 2, figsize=(8.6, 4.1), sharey=True)
    for axes, table, title in zip(
        both, (turned, added), ("query and key turned", "code of the place added"), strict=True
    ):
        top = np.abs(table).max()
        image = axes.imshow(table, cmap=style.DIVERGING, vmin=-top, vmax=top)
        axes.set(title=title, xlabel="place of the key s")
        figure.colorbar(image, ax=axes, shrink=0.75, label="score")
    both[0].set_ylabel("place of the query t")
    figure.suptitle("The score of one query and one key, wherever they stand")
    return figure


def gates(x, relu, silu):
    """The two activations along a line of numbers."""
    figure, axes = plt.subplots(figsize=(6.4, 3.4))
    axes.plot(x, relu, color=style.GREY, ls="--", label="ReLU: max(x, 0)")
    axes.plot(x, silu, color=style.BLUE, label="SiLU: x · σ(x)")
    axes.axhline(0, color="black", lw=0.6)
    axes.set(xlabel="x", ylabel="activation", title="The gate of a gated layer opens softly")
    axes.legend()
    return figure


def cache(heads, groups, kept, read):
    """kept, read: bytes of the cache, and that one attention reads, for each number of key-value heads"""
    figure, axes = plt.subplots(figsize=(6.8, 3.8))
    names, places = [f"{g}" for g in groups], np.arange(len(groups))
    axes.bar(places - 0.2, np.array(kept) / 1024, 0.4, color=style.BLUE, label="the cache holds")
    axes.bar(
        places + 0.2, np.array(read) / 1024, 0.4, color=style.ORANGE, hatch="//", ec="white", label="attention reads"
    )
    axes.set(xticks=places, xlabel=f"heads of keys and values, for {heads} heads of queries", ylabel="kilobytes")
    axes.set_xticklabels(names)
    axes.set_title("Fewer keys to keep and to read; the arithmetic is the same in all four")
    axes.legend()
    return figure


def gradients(depths, after, before):
    """after, before (depths, 2): gradient in the first and the last layer"""
    figure, axes = plt.subplots(figsize=(7.2, 4.2))
    for sizes, colour, name in ((after, style.RED, "norm after"), (before, style.BLUE, "norm before")):
        axes.loglog(depths, sizes[:, 0], color=colour, ls="-", marker="o", label=f"{name}, first layer")
        axes.loglog(depths, sizes[:, 1], color=colour, ls="--", marker="s", mfc="white", label=f"{name}, last layer")
    axes.set(xlabel="layers of the model", ylabel="size of the gradient", xticks=depths, yticks=(0.05, 0.1, 0.2, 0.4))
    axes.set_title("Gradients before the first step of training")
    axes.set_xticklabels([str(depth) for depth in depths])
    axes.set_yticklabels(["0.05", "0.1", "0.2", "0.4"])
    axes.set_ylim(0.04, 0.5)
    axes.minorticks_off()
    axes.legend(fontsize=8.5, loc="lower left")
    return figure
