"""The figures of lesson 4: the waves, who sees order, how a matrix shifts, and how far apart neighbours are."""

import matplotlib.pyplot as plt
import numpy as np

from lessons.harness import style


def waves(table):
    """table (n, C)"""
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.6), width_ratios=[1.15, 1])
    image = axes[0].imshow(table.T, cmap=style.DIVERGING, aspect="auto", vmin=-1, vmax=1)
    axes[0].set(title="The table: a column of colours is the code of a position", xlabel="position", ylabel="entry")
    axes[0].title.set_fontsize(11)
    figure.colorbar(image, ax=axes[0], pad=0.02)
    for entry in (0, 8, 16, 24):
        axes[1].plot(table[:, entry], label=f"entry {entry}")
    axes[1].set(xlabel="position", ylabel="value", ylim=(-1.1, 1.75))
    axes[1].set_title("Four of its entries: fast waves and slow ones", fontsize=11)
    axes[1].legend(loc="upper center", ncols=2)
    return figure


def order(results):
    """results: model → right answers, and how many were asked for"""
    figure, ax = plt.subplots(figsize=(7.6, 2.6))
    for place, (right, asked) in enumerate(results.values()):
        good = 2 * right > asked
        ax.barh(place, right / asked, color=style.BLUE if good else style.ORANGE, hatch="" if good else "//", ec="w")
        ax.text(right / asked + 0.01, place, f"{right} of {asked}", va="center", fontsize=9)
    ax.axvline(0.5, color=style.GREY, lw=1, ls=":")
    ax.set(yticks=range(len(results)), yticklabels=results, xlim=(0, 1.17), xlabel="right answers")
    ax.set_xticks([0, 0.5, 1], ["0", "half (blind)", "all"])
    ax.set_title("Did a come before b? Four trained models", loc="left")
    ax.invert_yaxis()
    return figure


def shift_matrix(M, k, p, hands):
    """M (C, C) shifts by k; hands: frequency → angles of the pair at position p, and at p + k"""
    figure, axes = plt.subplots(1, 1 + len(hands), figsize=(10, 3.7), width_ratios=[1.5] + [1] * len(hands))
    axes[0].imshow(M, cmap=style.DIVERGING, vmin=-1.6, vmax=1.6)
    for (i, j), number in np.ndenumerate(M):
        axes[0].text(j, i, f"{number:.2f}" if number else "0", ha="center", va="center", fontsize=9)
    axes[0].set_title(f"The matrix that shifts by {k}", fontsize=11)
    axes[0].set(xlabel="entry of PE(p)", ylabel=f"entry of PE(p + {k})", xticks=range(len(M)), yticks=range(len(M)))
    turn = np.linspace(0, 2 * np.pi, 200)
    for ax, (frequency, (before, after)) in zip(axes[1:], hands.items(), strict=True):
        ax.plot(np.cos(turn), np.sin(turn), color=style.GREY, lw=0.8, ls="-")
        for angle, colour, name, aside in ((before, style.BLUE, "p", -0.15), (after, style.RED, f"p + {k}", 0.15)):
            look = {"arrowstyle": "-|>", "color": colour, "lw": 2, "shrinkA": 0, "shrinkB": 0}
            ax.annotate("", (np.cos(angle), np.sin(angle)), (0, 0), arrowprops=look)
            place = 1.3 * np.cos(angle + aside), 1.3 * np.sin(angle + aside)
            ax.text(*place, name, color=colour, ha="center", va="center")
        ax.set(xlim=(-1.6, 1.6), ylim=(-1.6, 1.6), aspect="equal", xticks=[-1, 0, 1], yticks=[-1, 0, 1])
        ax.set(xlabel="cosine", ylabel="sine")
        ax.set_title(f"p = {p}, frequency {frequency:g}:\nturned by {k} × {frequency:g}", fontsize=11)
    return figure


def three_back(scores, k):
    """scores: position p of the query → its scores with the keys at all positions"""
    figure, ax = plt.subplots(figsize=(7, 3.2))
    for p, score in scores.items():
        (line,) = ax.plot(score, label=f"query at p = {p}")
        ax.annotate(f"{p - k}", (p - k, score[p - k]), (0, 5), textcoords="offset points", ha="center", fontsize=10)
        ax.axvline(p, color=line.get_color(), lw=1, ls=":")
    ax.set(title=f"A query that looks {k} words back, wherever it stands (dotted: its own place)")
    ax.title.set_fontsize(11)
    ax.set(xlabel="position q of the key", ylabel="score", ylim=(None, 1.25 * max(s.max() for s in scores.values())))
    ax.legend(loc="upper center")
    return figure


def shifts(k, panels):
    """panels: kind of table → one entry at p + k, the same entry as the best matrix predicts it, and its error (rms)"""
    figure, axes = plt.subplots(1, len(panels), figsize=(10, 3.4), sharey=True)
    for ax, (name, (true, predicted, error)) in zip(axes, panels.items(), strict=True):
        ax.plot(true, color=style.GREY, ls="-", lw=1.2, label=f"true value at p + {k}")
        ax.plot(predicted, "o", color=style.RED, ms=3.5, ls="", label="best matrix, from p")
        ax.set_title(f"{name}\nerror {error:.0e}" if error < 1e-3 else f"{name}\nerror {error:.2f}", fontsize=11)
        ax.set(xlabel="position p", ylim=(-1.9, 1.9))
    axes[0].set_ylabel("one entry of the code")
    figure.suptitle(
        f"Can a matrix tell position p + {k} from position p? One entry, and the error (rms) of all", fontsize=12
    )
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def products(table):
    """table (n, C): its rows' dot products"""
    figure, ax = plt.subplots(figsize=(7, 3.2))
    n = len(table)
    reach = np.arange(-n // 4, n // 4)
    for p in (n // 4, n // 2):
        ax.plot(reach, table[p + reach] @ table[p], label=f"p = {p}")
    ax.set(title="How similar two codes are depends on their distance only", xlabel="distance q - p (positions)")
    ax.set_ylabel("$PE(p) \\cdot PE(q)$")
    ax.legend(loc="upper right")
    return figure


def neighbours(gaps, clock, width):
    """gaps: kind of table → distance from each position to the next; clock (23, 2): the fastest sine and cosine"""
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.6), width_ratios=[1.6, 1])
    for name, distances in gaps.items():
        axes[0].plot(distances, label=name)
    axes[0].set_title(f"How far apart neighbours are (width {width})", fontsize=11)
    axes[0].set(xlabel="position p", ylabel="distance from p to p + 1")
    axes[0].set_ylim(0, 1.25 * max(distances.max() for distances in gaps.values()))
    axes[0].legend(loc="upper right", ncols=2)
    turn = np.linspace(0, 2 * np.pi, 200)
    axes[1].plot(np.cos(turn), np.sin(turn), color=style.GREY, lw=0.8, ls="-")
    axes[1].plot(clock[:, 1], clock[:, 0], "o", color=style.BLUE, ms=3.5)
    axes[1].plot(clock[[0, 22], 1], clock[[0, 22], 0], "o--", color=style.RED, ms=6, lw=1)
    for p, side in ((0, "left"), (22, "right")):
        axes[1].text(clock[p, 1] * 1.12, 0, str(p), ha=side, va="center")
    axes[1].set_title("Positions 0 to 22 on the fastest wave:\nby their sines, 0 and 22 are the same", fontsize=11)
    axes[1].set(xlabel="cosine", ylabel="sine", aspect="equal", xlim=(-1.5, 1.5))
    return figure
