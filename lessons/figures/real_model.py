"""The figures of lesson 16: sentences after each layer, the habits of heads, a word in two contexts, eps."""

import matplotlib.pyplot as plt
import numpy as np

from lessons.harness import style


def similar(tables, layers):
    """tables (layers + 1, n, n): similarity of any two sentences after each layer; layers: those to show"""
    figure, all_axes = plt.subplots(1, len(layers), figsize=(9.4, 3.5), sharey=True)
    for axes, layer in zip(all_axes, layers, strict=True):
        image = axes.imshow(tables[layer], cmap=style.SEQUENTIAL, vmin=0, vmax=1)
        axes.set_title("words alone" if layer == 0 else f"after layer {layer}")
        axes.set(xticks=[], yticks=[], xlabel="sentence")
    all_axes[0].set_ylabel("sentence")
    figure.colorbar(image, ax=all_axes, shrink=0.8, label="cosine")
    return figure


def habits(before, after, first):
    """Each (layers, H): the weight that a head puts on the word before, the word after, and [CLS]"""
    figure, all_axes = plt.subplots(1, 3, figsize=(9.4, 3.0), sharey=True)
    titles = "on the word before", "on the word after", "on [CLS], the first place"
    for axes, table, title in zip(all_axes, (before, after, first), titles, strict=True):
        image = axes.imshow(table, cmap=style.SEQUENTIAL, vmin=0, vmax=1)
        axes.set(title=title, xlabel="head", xticks=range(0, 12, 2), xticklabels=range(1, 13, 2))
        axes.set(yticks=range(6), yticklabels=range(1, 7))
    all_axes[0].set_ylabel("layer")
    figure.colorbar(image, ax=all_axes, shrink=0.8, label="weight")
    return figure


def gaze(weights, pieces, title):
    """weights (T, T): where each piece looks"""
    figure, axes = plt.subplots(figsize=(4.6, 4.2))
    image = axes.imshow(weights, cmap="Greys", vmin=0, vmax=1)
    axes.set_xticks(range(len(pieces)), pieces, rotation=60, ha="right")
    axes.set_yticks(range(len(pieces)), pieces)
    axes.set(xlabel="is looked at", ylabel="looks", title=title)
    figure.colorbar(image, ax=axes, shrink=0.75, label="weight")
    return figure


def bank(same, other):
    """same, other: similarity of the word within a meaning and between two, before the first layer and after each"""
    figure, axes = plt.subplots(figsize=(6.6, 3.7))
    layers = np.arange(len(same))
    axes.plot(layers, same, marker="o", color=style.BLUE, label="two banks of the same kind")
    axes.plot(layers, other, marker="s", color=style.RED, ls="--", label="a river's and one with money")
    axes.set(xlabel="layers passed", ylabel="cosine", xticks=layers)
    axes.set_title("One word, two meanings: the vectors part in the first layer")
    axes.legend(loc="lower left")
    return figure


def eps(values, changes):
    """changes: how far the sentence's vector moves, for each eps"""
    figure, axes = plt.subplots(figsize=(6.6, 3.7))
    axes.loglog(values, changes, marker="o", color=style.BLUE)
    axes.axvline(1e-5, color=style.GREY, ls=":", lw=1)
    axes.text(1.2e-5, min(changes), "PyTorch's usual eps", va="bottom", color=style.GREY)
    axes.set(xlabel="eps, where the file says 1e-12", ylabel="largest change of a number")
    axes.set_title("The vector of a sentence, with another eps in the norms")
    return figure
