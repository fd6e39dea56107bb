"""The figures of lesson 13: what faults do to training, to attention and to translations."""

import matplotlib.pyplot as plt
import numpy as np

from lessons.harness import style


def alignment(weights, source, target):
    """weights: fault → how much each word to be written looks at each word of the source (T, S)"""
    width = 5.6 if len(weights) == 1 else 1.6 + 2.4 * len(weights)
    figure, (axes,) = plt.subplots(1, len(weights), figsize=(width, 4.2), sharey=True, squeeze=False)
    for axis, (fault, matrix) in zip(axes, weights.items(), strict=True):
        picture = axis.imshow(matrix, cmap="Greys", vmin=0, vmax=1, aspect="auto")
        axis.set_xticks(range(len(source.split()) + 1), [*source.split(), "<end>"], rotation=60, ha="right")
        axis.set_yticks(range(len(target.split()) + 1), [*target.split(), "<end>"])
        axis.set(title="sound model" if fault == "sound" else fault, xlabel="looks at")
    axes[0].set_ylabel("word about to be written")
    figure.colorbar(picture, ax=axes, shrink=0.8, label="weight of attention")
    figure.suptitle("Where a decoder looks while it writes", fontsize=12)
    return figure


def faults(curves, rights, stutters):
    """curves: fault → losses; rights, stutters: for each fault the share of sentences, and of words"""
    figure, (left, side) = plt.subplots(1, 2, figsize=(8.8, 4.5), width_ratios=(1.1, 1))
    for (fault, losses), colour, dash in zip(curves.items(), style.COLOURS, style.DASHES, strict=True):
        left.semilogy(losses, color=colour, linestyle=dash, label=fault)
    left.set(xlabel="training step", ylabel="training loss, nats a word", title="What the training shows")
    left.set_yticks([0.01, 0.1, 1], ["0.01", "0.1", "1"])
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower left", ncols=3)
    places = np.arange(len(curves))[::-1]
    for shift, values, label, looks in (
        (0.2, rights, "sentences right", {"color": style.BLUE}),
        (-0.2, stutters, "words said twice in a row", {"color": style.ORANGE, "hatch": "///"}),
    ):
        bars = side.barh(places + shift, 100 * values, 0.36, label=label, **looks)
        side.bar_label(bars, fmt="%.0f", padding=2, fontsize=9)
    side.set_yticks(places, curves)
    side.set(xlabel="per cent", xlim=(0, 112), title="What the translations show")
    figure.legend(*side.get_legend_handles_labels(), loc="outside lower right")
    return figure


def careless(losses):
    """losses: with and without norm → losses of each start"""
    figure, axes = plt.subplots(figsize=(7.2, 3.8))
    for (label, starts), colour, dash in zip(losses.items(), (style.BLUE, style.RED), ("-", "--"), strict=True):
        for number, curve in enumerate(starts):
            name = None if number else f"{label}, {len(starts)} starts"
            axes.semilogy(curve, dash, color=colour, lw=1.4, label=name)
    axes.set(xlabel="training step", ylabel="training loss, nats a word", ylim=(0.3, None))
    axes.set(title="Careless training: a high constant learning rate, no limit on the steps")
    axes.set_yticks([1, 10], ["1", "10"])
    axes.tick_params(axis="y", which="minor", labelleft=False)
    axes.legend()
    return figure


def words(written):
    """written: fault, and how it wrote → the shares of words found of its own sentence, and of another"""
    figure, axes = plt.subplots(figsize=(7.6, 4.2))
    places = np.arange(len(written))
    for side, colour, hatch, label in (("own", style.BLUE, "", "its own"), ("other", "0.75", "///", "another")):
        heights = [100 * getattr(one, side).mean() for one in written.values()]
        middle = places + (0.2 if side == "other" else -0.2)
        bars = axes.bar(middle, heights, 0.38, color=colour, hatch=hatch, label=f"of {label} sentence")
        axes.bar_label(bars, fmt="%.0f", padding=2, fontsize=9)
    names = [f"{fault}\n{how}".replace(" after ", "\nafter ") for fault, how in written]
    axes.set_xticks(places, names, fontsize=9)
    axes.set(ylabel="words found, per cent", ylim=(0, 125))
    axes.set(title="How many words of a right translation are among twelve words written")
    axes.legend(loc="upper left", ncols=2)
    return figure
