"""The figures of lesson 6: what heads cost, and what they buy."""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np

from autograd import draw
from lessons.harness import style

FOLDER = TemporaryDirectory()


def work(n, d, heads, parts, milliseconds):
    """parts: for each number of heads, kernel → operations; milliseconds: of the fused layer, for each"""
    products = np.array([part["linear"] + part["matmul"] for part in parts]) / 1e6
    others = np.array([part["softmax"] + part["multiply"] for part in parts]) / 1e6
    figure, (counts, times) = plt.subplots(1, 2, figsize=(9.2, 4))
    names = [str(h) for h in heads]
    counts.bar(names, products, color=style.BLUE, label="matrix products")
    counts.bar(names, others, bottom=products, color=style.ORANGE, hatch="//", ec="white", label="softmax and scaling")
    counts.set(xlabel="number of heads", ylabel="million operations", title="Operations, counted")
    counts.set_ylim(0, 1.3 * (products + others).max())
    counts.legend(loc="upper left")
    times.bar(names, milliseconds, color=style.GREY)
    times.set(xlabel="number of heads", ylabel="milliseconds", title="Time, measured here on one core")
    figure.suptitle(f"One attention layer of width {d} on {n} words, cut into more and more heads", fontsize=12)
    return figure


def loss(curves, width, bound):
    """curves: number of heads → losses of several seeds, step by step"""
    figure, axes = plt.subplots()
    for (heads, seeds), colour, dashes in zip(curves.items(), (style.RED, style.BLUE), ("--", "-"), strict=True):
        for number, losses in enumerate(seeds):
            name = "one head" if heads == 1 else "two heads"
            label = f"{name} of width {width // heads}, {len(seeds)} runs"
            axes.plot(losses, color=colour, ls=dashes, lw=1.3, label=None if number else label)
    axes.axhline(bound, color=style.GREY, lw=1.2, ls=":")
    axes.text(len(losses), bound, f"(ln 2)/4 = {bound:.3f}: no single head gets below ", ha="right", va="bottom")
    axes.axhline(np.log(2), color=style.GREY, lw=0.8, ls=":")
    axes.text(len(losses), np.log(2), "ln 2: guessing ", ha="right", va="bottom")
    axes.set(xlabel="training step", ylabel="loss of an answer", ylim=(-0.02, 0.8))
    axes.set_title("Reading two boxes at once: two heads learn it, one head cannot")
    axes.legend(loc="upper right", bbox_to_anchor=(1, 0.82))
    return figure


def weights(maps, first, second):
    """maps: weights (questions, boxes) of the only head, and of the two; first, second: the boxes asked for"""
    titles = "the only head", "two heads: the first", "two heads: the second"
    figure, all_axes = plt.subplots(1, 3, figsize=(7.6, 6), sharey=True)
    for axes, title, matrix in zip(all_axes, titles, maps, strict=True):
        image = axes.imshow(matrix, cmap="Greys", vmin=0, vmax=1, aspect="auto")
        axes.plot(first, range(len(first)), "o", color=style.BLUE, ms=4, label="box asked for first")
        axes.plot(second, range(len(second)), "^", color=style.ORANGE, ms=4, label="box asked for second")
        axes.set(title=title, xlabel="box", xticks=range(matrix.shape[1]))
        axes.title.set_fontsize(11)
    all_axes[0].set_ylabel("question (one row for each pair of boxes)")
    figure.colorbar(image, ax=all_axes, label="attention weight", shrink=0.6)
    handles, labels = all_axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, title="Where trained heads look")
    return figure


def segment(cases, places, scores):
    """cases (4, 2): the coins a, b; places (4): the share of 1s; scores (4, 2): of "1" against "0", either answer"""
    figure, panels = plt.subplots(1, 2, figsize=(9.2, 4.2), sharex=True)
    order = np.argsort(places)
    for answer, axes in enumerate(panels):
        score, wanted = scores[:, answer], cases[:, answer] == 1
        right = (score > 0) == wanted
        reach = 1.35 * np.abs(score).max()
        axes.axhspan(0, reach, color=style.BLUE, alpha=0.08, lw=0)
        axes.axhline(0, color=style.GREY, lw=1)
        axes.plot(places[order], score[order], color=style.GREY, ls="-", lw=1.2)
        for kind, mark, colour, label in ((right, "o", style.GREEN, "right"), (~right, "X", style.RED, "wrong")):
            axes.plot(places[kind], score[kind], mark, color=colour, ms=11, ls="none", label=label)
        for x, y, coins in zip(places, score, cases, strict=True):
            side = 14 if y > 0 else -14
            text = f"{coins[0]}{coins[1]}"
            axes.annotate(text, (x, y), xytext=(0, side), textcoords="offset points", ha="center", va="center")
        axes.text(0.5, 0.93 * reach, 'the line says "1"', ha="center", va="top", color=style.BLUE)
        axes.text(0.5, -0.93 * reach, 'the line says "0"', ha="center", va="bottom", color=style.GREY)
        which = ("first", "second")[answer]
        axes.set(ylim=(-reach, reach), xlim=(-0.12, 1.12), xlabel="share of 1s in what the head brings back")
        axes.set_title(f"Answer about the {which} coin: {right.sum()} of 4 right")
        if np.abs(score).max() < 1:
            axes.text(0.62, 0.3 * reach, "all scores are near 0:\nit guesses", color=style.RED)
    panels[0].set_ylabel('score of "1" against "0"')
    handles = {
        label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    title = "A trained single head: the four cases (first coin, second coin) of one question lie on one line"
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=2)
    figure.suptitle(title, fontsize=11.5)
    return figure


def layer_tape(result, names):
    """The engine's own drawing of a layer, as a file that is gone when the lesson ends."""
    return draw(result, Path(FOLDER.name) / "layer.svg", names=names)
