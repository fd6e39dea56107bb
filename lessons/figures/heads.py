"""The figures of lesson 6: what heads cost, and what they buy."""

import matplotlib.pyplot as plt
import numpy as np

from lessons.harness import style


def work(n, d, heads, parts, milliseconds):
    """parts: for each number of heads, kernel → operations; milliseconds: of the fused layer, for each"""
    products = np.array([part["linear"] + part["matmul"] for part in parts]) / 1e6
    others = np.array([part["softmax"] + part["multiply"] for part in parts]) / 1e6
    figure, (counts, times) = plt.subplots(1, 2, figsize=(9.2, 3.8))
    names = [str(h) for h in heads]
    counts.bar(names, products, color=style.BLUE, label="matrix products")
    counts.bar(names, others, bottom=products, color=style.ORANGE, hatch="//", ec="white", label="softmax and scaling")
    counts.set(xlabel="heads h", ylabel="million operations", title=f"Counted (n = {n}, d = {d})")
    counts.set_ylim(0, 1.25 * (products + others).max())
    counts.legend(loc="upper left")
    times.bar(names, milliseconds, color=style.GREY)
    times.set(xlabel="heads h", ylabel="milliseconds", title="Measured here, fused kernel")
    return figure


def loss(curves, width, bound):
    """curves: number of heads → losses of several seeds, step by step"""
    figure, axes = plt.subplots()
    for (heads, seeds), colour, dashes in zip(curves.items(), (style.RED, style.BLUE), ("--", "-"), strict=True):
        for number, losses in enumerate(seeds):
            label = f"{heads} head{'s' * (heads > 1)} of width {width // heads}, {len(seeds)} seeds"
            axes.plot(losses, color=colour, ls=dashes, lw=1.3, label=None if number else label)
    axes.axhline(bound, color=style.GREY, lw=1.2, ls=":")
    axes.text(len(losses), bound, f"(log 2)/4 = {bound:.3f}: no single head gets below ", ha="right", va="bottom")
    axes.set(
        xlabel="training step", ylabel="loss of an answer", title="Two things to fetch, one layer", ylim=(-0.02, 0.8)
    )
    axes.legend()
    return figure


def weights(maps, first, second):
    """maps: weights (questions, boxes) of the only head, and of the two; first, second: the boxes asked for"""
    titles = "the only head", "head 1 of 2", "head 2 of 2"
    figure, all_axes = plt.subplots(1, 3, figsize=(7.6, 5.6), sharey=True)
    for axes, title, matrix in zip(all_axes, titles, maps, strict=True):
        image = axes.imshow(matrix, cmap="Greys", vmin=0, vmax=1, aspect="auto")
        axes.plot(first, range(len(first)), "o", color=style.BLUE, ms=4, label="asked first")
        axes.plot(second, range(len(second)), "^", color=style.ORANGE, ms=4, label="asked second")
        axes.set(title=title, xlabel="box", xticks=range(matrix.shape[1]))
    all_axes[0].set_ylabel("question")
    figure.colorbar(image, ax=all_axes, label="attention weight", shrink=0.6)
    handles, labels = all_axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2)
    return figure


def segment(coins, place, scores):
    """coins (4, 2): the contents asked for; place (4); scores (4, 2): of "1" against "0", for either answer"""
    figure, axes = plt.subplots(figsize=(7.2, 3.8))
    for answer, colour, mark, name in ((0, style.BLUE, "o", "first"), (1, style.ORANGE, "^", "second")):
        score, one, order = scores[:, answer], coins[:, answer] == 1, np.argsort(place)
        axes.plot(place[order], score[order], color=colour, ls="-", lw=1.2)
        axes.plot(place[one], score[one], mark, color=colour, ms=9, label=f"{name} answer, should be above 0")
        axes.plot(
            place[~one], score[~one], mark, mec=colour, mfc="white", ms=9, label=f"{name} answer, should be below"
        )
    for x, (a, b) in zip(place, coins, strict=True):
        axes.annotate(f"{a}{b}", (x, 1.02), xycoords=("data", "axes fraction"), ha="center", fontsize=11)
    axes.axhline(0, color=style.GREY, lw=1)
    axes.set(xlabel="place on the segment λ", ylabel='score of "1" against "0"')
    axes.legend(fontsize=8.5, loc="upper left")
    return figure
