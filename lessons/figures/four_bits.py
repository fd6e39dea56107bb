"""The figures of lesson 15: a ladder of sixteen rungs, errors under their bound, an outlier, the loss by bits."""

import matplotlib.pyplot as plt
import numpy as np

from lessons.harness import style


def ladder(w, unpacked, scale, least):
    """One block of 32 weights, where they were and where they went."""
    figure, axes = plt.subplots(figsize=(7.4, 3.6))
    for rung in range(16):
        axes.axhline(least + scale * rung, color=style.GREY, lw=0.6, zorder=0)
    places = np.arange(w.size)
    axes.vlines(places, w, unpacked, color=style.RED, lw=1.2)
    axes.plot(places, w, "o", color=style.BLUE, ms=4, label="the weight")
    axes.plot(places, unpacked, "s", mfc="white", color=style.ORANGE, ms=4, label="after packing and unpacking")
    axes.set(xlabel="place in the block", ylabel="weight", title="Weights go to the nearest of sixteen rungs")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8.5)
    return figure


def errors(weights, products):
    """Errors in units of their bounds, of single weights and of products."""
    figure, axes = plt.subplots(figsize=(7.0, 3.6))
    edges = np.linspace(0, 1.05, 64)
    for values, colour, name in ((weights, style.BLUE, "single weights"), (products, style.ORANGE, "products")):
        axes.hist(values.ravel(), edges, density=True, histtype="step", color=colour, lw=1.6, label=name)
    axes.axvline(1, color="black", lw=1)
    axes.set(xlabel="error in units of its bound", ylabel="density", yscale="log")
    axes.text(1.01, 0.6, "bound", rotation=90, transform=axes.get_xaxis_transform())
    axes.set_title("No error beyond its bound; in sums most errors cancel")
    axes.legend()
    return figure


def outlier(plain, spoiled, row):
    """Errors along the first row: without the outlier, with it, and with one scale for the whole row."""
    figure, axes = plt.subplots(figsize=(7.4, 3.6))
    axes.axvspan(32, 63, color=style.GREY, alpha=0.25, label="the block of the outlier")
    for values, colour, marker, name in (
        (row, style.RED, "x", "one scale for the row, with the outlier"),
        (spoiled, style.ORANGE, "s", "blocks of 32, with the outlier"),
        (plain, style.BLUE, "o", "blocks of 32, without"),
    ):
        axes.semilogy(np.maximum(values, 1e-6), marker, color=colour, ms=3, label=name)
    axes.set(xlabel="column", ylabel="error of the weight", title="A large weight spoils its own block, and no other")
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def loss_by_bits(bits, losses, plain):
    figure, axes = plt.subplots(figsize=(6.8, 3.8))
    axes.plot(bits, losses, marker="o", color=style.BLUE, label="rounded")
    axes.axhline(plain, color=style.GREY, ls="--", label="float32")
    axes.set(xlabel="bits a weight", ylabel="loss on unread text (nats)")
    axes.set_title("How many bits does a trained model need?")
    axes.legend()
    return figure
