"""The figures of lesson 2: who looks at whom, the shapes of attention, and what the root of D does."""

import math

import matplotlib.pyplot as plt
import numpy as np

from lessons.harness import style


def _numbers(ax, matrix, size=9):
    """Writes each weight into its cell, white on dark."""
    for (i, j), weight in np.ndenumerate(matrix):
        ax.text(j, i, f"{weight:.2f}", ha="center", va="center", fontsize=size, color="wk"[int(weight < 0.5)])


def _frame(ax, row, width):
    corner = (-0.5, row - 0.5)
    ax.add_patch(plt.Rectangle(corner, width, 1, fill=False, ec=style.ORANGE, lw=3, zorder=4, clip_on=False))


def sentence(words, weights, row):
    """words: of one sentence; weights (n, n): how much each of them looks at each. Row `row` is framed."""
    figure, ax = plt.subplots(figsize=(5.6, 4.6))
    ax.imshow(weights, cmap="Greys", vmin=0, vmax=1)
    _numbers(ax, weights)
    places = range(len(words))
    ax.set(
        xticks=places,
        xticklabels=words,
        yticks=places,
        yticklabels=words,
        title=f"Who looks at whom: “{words[row]}” looks at “{words[weights[row].argmax()]}”",
    )
    ax.set(xlabel="the word that is looked at (its key)", ylabel="the word that asks (its query)")
    _frame(ax, row, len(words))
    return figure


def shapes(asking, answering, entries, q, k, v, weights, out, row):
    """The formula as five tables. asking, answering: words of y and x; entries: names of the D entries of a vector;
    q (T, D); k, v (S, D); weights (T, S); out (T, D). Row `row` of those who ask is framed."""
    panels = [
        ("queries $Q_y$\n$T × D$", q, asking, entries, ""),
        ("keys $K_x^\\top$\n$D × S$", k.T, entries, answering, "·"),
        ("weights\n$T × S$", weights, asking, answering, "scale,\nsoftmax\nof rows\n$\\rightarrow$"),
        ("values $V_x$\n$S × D$", v, answering, entries, "·"),
        ("attention$(y\\,|\\,x)$\n$T × D$", out, asking, entries, "="),
    ]
    figure, axes = plt.subplots(1, 5, figsize=(11, 3.5), width_ratios=[matrix.shape[1] for _, matrix, *_ in panels])
    for ax, (name, matrix, rows, columns, sign) in zip(axes, panels, strict=True):
        grey = matrix is weights
        look = {"cmap": "Greys", "vmin": 0, "vmax": 1} if grey else {"cmap": style.DIVERGING, "vmin": -8, "vmax": 8}
        ax.imshow(matrix, **look)
        ax.set_title(name, fontsize=11)
        ax.set(xticks=range(len(columns)), yticks=range(len(rows)))
        ax.set_xticklabels(columns, rotation=60, ha="right", rotation_mode="anchor", fontsize=9.5)
        ax.set_yticklabels(rows, fontsize=9.5)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(True)
        for (i, j), number in np.ndenumerate(matrix):
            text = f"{number:.2f}".lstrip("0") if number % 1 else f"{number:.0f}"
            dark = grey and number > 0.5
            ax.text(j, i, text, ha="center", va="center", fontsize=9, color="w" if dark else "k")
        if rows is asking:
            _frame(ax, row, matrix.shape[1])
        # between the tables, left of the names of this one's rows
        place = {"xycoords": "axes fraction", "textcoords": "offset points", "ha": "right", "va": "center"}
        ax.annotate(sign, (0, 0.5), (-46, 0), fontsize=10 if len(sign) > 1 else 18, **place)
    figure.suptitle(f"A row for each word that asks: follow “{asking[row]}”, framed, from left to right", fontsize=12)
    return figure


def root_of_d(panels, widths, keys):
    """panels: label → variances of the scores at widths 1, 2, ...; entropies at `widths`; one query's weights"""
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.5))
    for label, (variances, entropies, weights) in panels.items():
        axes[0].plot(range(1, 1 + len(variances)), variances, marker="o", ms=4, label=label)
        axes[1].semilogx(widths, entropies, marker="o", ms=4, base=2)
        axes[2].plot(range(1, 1 + len(weights)), weights, marker="o", ms=3)
    axes[0].set(title="How far scores spread", xlabel="width D", ylabel="variance of the scores")
    axes[1].axhline(math.log(keys), color=style.GREY, lw=1, ls=":")
    axes[1].text(1, math.log(keys) - 0.12, f"{keys} equal weights", fontsize=9, va="top", color=style.GREY)
    axes[1].set(title="How evenly a query looks", xlabel="width D", ylabel="entropy of the weights (nats)")
    axes[1].set(ylim=(0, 4.4), xticks=widths, xticklabels=widths)
    axes[2].set(title=f"One query, width {widths[-1]}", xlabel=f"its {keys} keys, best first", ylabel="weight")
    axes[0].legend()
    return figure
