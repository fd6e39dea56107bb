"""The figures of lesson 9: which scores exist at one time, and the memory of attention and of the head."""

import matplotlib.pyplot as plt
import numpy as np

from lessons.harness import style


def tiles(count, done):
    """A square of count × count tiles of scores, of which `done` have been met and forgotten"""
    figure, both = plt.subplots(1, 2, figsize=(7.4, 3.9))
    one, white = (0.0, 0.45, 0.7, 1.0), (1.0, 1.0, 1.0, 1.0)
    grey = (0.87, 0.87, 0.87, 1.0)
    whole = [one] * count**2
    in_turn = [grey] * done + [one] + [white] * (count**2 - done - 1)
    titles = "step by step:\nall scores exist at once", "in tiles:\none tile exists at a time"
    for axes, colours, title in zip(both, (whole, in_turn), titles, strict=True):
        axes.imshow(np.array(colours).reshape(count, count, 4), extent=(0, count, count, 0))
        axes.set(xticks=range(count + 1), yticks=range(count + 1), title=title, xlabel="keys", ylabel="queries")
        axes.tick_params(length=0, labelbottom=False, labelleft=False)
        axes.grid(color="0.6", lw=0.8)
        for side in axes.spines.values():
            side.set(visible=True, color="0.6")
    names = {"in memory": one, "used and forgotten": grey, "not computed yet": white}
    patches = [plt.Rectangle((0, 0), 1, 1, fc=colour, ec="0.6") for colour in names.values()]
    figure.legend(patches, names, loc="outside lower center", ncols=3)
    figure.suptitle("The square of scores, queries by keys", fontsize=12)
    return figure


def memory(lengths, naive, tiled, predicted):
    """Bytes at their peak, one number a length"""
    figure, axes = plt.subplots()
    axes.loglog(lengths, np.array(naive) / 1e6, color=style.RED, ls="--", marker="s", label="step by step, measured")
    square = 4 * np.array(lengths) ** 2 / 1e6
    axes.loglog(lengths, square, color=style.GREY, ls=":", label="one square of scores, 4 T² bytes")
    axes.loglog(lengths, np.array(tiled) / 1e6, color=style.BLUE, ls="none", marker="o", label="in tiles, measured")
    axes.loglog(lengths, np.array(predicted) / 1e6, color=style.GREY, ls="-", lw=1.2, label="in tiles, predicted")
    axes.set(xlabel="length of the text, T", ylabel="megabytes of arrays at their peak")
    axes.set(title="Memory of attention, forward and backward (one head of width 64)")
    axes.set(xticks=lengths, xticklabels=[f"{T:,}" for T in lengths])
    axes.set_yticks([1, 10, 100], ["1", "10", "100"])
    axes.minorticks_off()
    axes.legend()
    return figure


def head(peaks, V):
    """peaks: for each number N of positions, bytes: fused, predicted, whole, logits; V words"""
    figure, axes = plt.subplots()
    sizes = [peak.N for peak in peaks]
    for name, colour, looks, label in (
        ("whole", style.RED, {"ls": "--", "marker": "s"}, "linear, then cross-entropy"),
        ("logits", style.GREY, {"ls": ":"}, "the logits alone, 4 N V bytes"),
        ("fused", style.BLUE, {"ls": "none", "marker": "o"}, "in chunks, measured"),
        ("predicted", style.GREY, {"ls": "-", "lw": 1.2}, "in chunks, predicted"),
    ):
        axes.plot(sizes, [getattr(peak, name) / 1e6 for peak in peaks], color=colour, label=label, **looks)
    axes.set(xlabel="positions in a batch, N", ylabel="megabytes of arrays at their peak")
    axes.set(title=f"Memory of the last layer and its loss ({V:,} words, with gradients)")
    axes.set(xticks=sizes, xticklabels=[f"{N:,}" for N in sizes], ylim=(0, None))
    axes.legend()
    return figure
