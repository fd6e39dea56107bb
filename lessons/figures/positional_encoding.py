"""The figures of lesson 4: who sees order, the waves, and how far apart neighbours are."""

import matplotlib.pyplot as plt
import numpy as np

from lessons.harness import style


def order(results):
    """results: model → right answers, and how many were asked for"""
    figure, ax = plt.subplots(figsize=(6.8, 2.3))
    for place, (right, asked) in enumerate(results.values()):
        good = 2 * right > asked
        ax.barh(place, right / asked, color=style.BLUE if good else style.ORANGE, hatch="" if good else "//", ec="w")
        ax.text(right / asked + 0.01, place, f"{right} of {asked}", va="center", fontsize=9)
    ax.axvline(0.5, color=style.GREY, lw=1, ls=":")
    ax.set(
        yticks=range(len(results)), yticklabels=results, xlim=(0, 1.17), xlabel="right answers to: did a come before b?"
    )
    ax.set_xticks([0, 0.5, 1], ["0", "half", "all"])
    ax.invert_yaxis()
    return figure


def waves(table, products, shifts, errors):
    """table (n, C); products (n, n), of its rows; errors: kind of table → what the best matrix leaves at each shift"""
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.3), width_ratios=[1.2, 1, 1.1])
    image = axes[0].imshow(table[:100].T, cmap=style.DIVERGING, aspect="auto", vmin=-1, vmax=1)
    axes[0].set(title="the table", xlabel="position", ylabel="column")
    figure.colorbar(image, ax=axes[0], pad=0.02)
    n = len(products)
    for p in (n // 4, n // 2):
        reach = np.arange(-n // 4, n // 4)
        axes[1].plot(reach, products[p, p + reach], label=f"p = {p}")
    axes[1].set(title="$PE(p) \\cdot PE(q)$", xlabel="distance q - p")
    axes[1].legend(loc="upper right")
    for name, left in errors.items():
        axes[2].loglog(shifts, left, marker="o", ms=3, label=name)
    axes[2].set(title="error of the best matrix (rms)", xlabel="shift k", ylim=(1e-17, 30))
    axes[2].legend(loc="center right")
    return figure


def neighbours(gaps, clock, width):
    """gaps: kind of table → distance from each position to the next; clock (23, 2): the fastest sine and cosine"""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.3), width_ratios=[1.6, 1])
    for name, distances in gaps.items():
        axes[0].plot(distances, label=name)
    axes[0].set(title=f"how far apart neighbours are, width {width}", xlabel="position p", ylabel="|PE(p+1) - PE(p)|")
    axes[0].set_ylim(0, 1.5)
    axes[0].legend(loc="upper right", ncols=2)
    turn = np.linspace(0, 2 * np.pi, 200)
    axes[1].plot(np.cos(turn), np.sin(turn), color=style.GREY, lw=0.8, ls="-")
    axes[1].plot(clock[:, 1], clock[:, 0], "o", color=style.BLUE, ms=3.5)
    axes[1].plot(clock[[0, 22], 1], clock[[0, 22], 0], "o--", color=style.RED, ms=6, lw=1)
    for p, side in ((0, "left"), (22, "right")):
        axes[1].text(clock[p, 1] * 1.12, 0, str(p), ha=side, va="center")
    axes[1].set(
        title="positions 0 to 22, fastest wave", xlabel="cosine", ylabel="sine", aspect="equal", xlim=(-1.5, 1.5)
    )
    return figure
