"""The figures of lesson 12: two floors, and what BERT reads."""

import matplotlib.pyplot as plt
import numpy as np

from lessons.harness import style


def two_floors(seen, floors):
    """seen: model → pairs of a training step and the loss there; floors: text → loss"""
    figure, axes = plt.subplots()
    for (name, looks), colour, dash in zip(seen.items(), (style.RED, style.BLUE), ("--", "-"), strict=True):
        axes.plot(*zip(*looks, strict=True), dash, color=colour, marker="o", ms=4, label=name)
    for text, floor in floors.items():
        axes.axhline(floor, color=style.GREY, lw=1, ls=":")
        axes.text(looks[-1][0], floor - 0.08, text, ha="right", va="top", fontsize=9, color=style.GREY)
    axes.set(xlabel="training step", ylabel="exact loss at the tool, nats", ylim=(0, None))
    axes.legend(loc="upper right")
    return figure


def reading(words):
    """words: name, segment (0 or 1), and None or, where it was hidden, what it was and what was guessed"""
    widths = np.array([max(len(name), 2) * 0.62 + 0.9 for name, _, _ in words])
    left = np.concatenate([[0], np.cumsum(widths)[:-1]])
    figure, axes = plt.subplots(figsize=(10.5, 1.9))
    for place, (x, width, (name, part, asked)) in enumerate(zip(left, widths, words, strict=True)):
        colour = (style.BLUE, style.ORANGE)[part]
        axes.add_patch(plt.Rectangle((x, 0), width - 0.15, 1, fc=colour, alpha=0.55 if asked else 0.18, ec=colour))
        axes.text(x + width / 2 - 0.08, 0.5, name, ha="center", va="center", fontsize=8.5)
        axes.text(x + width / 2 - 0.08, 1.2, str(place), ha="center", va="bottom", fontsize=7.5, color=style.GREY)
        axes.text(x + width / 2 - 0.08, 1.75, "AB"[part], ha="center", va="bottom", fontsize=8.5, color=style.GREY)
        if asked:
            text = f"was: {asked[0]}\nguess: {asked[1]}"
            axes.text(x + width / 2 - 0.08, -0.2, text, ha="center", va="top", fontsize=8.5)
    for y, text in ((0.5, "word"), (1.4, "+ position"), (1.95, "+ segment")):
        axes.text(-0.6, y, text, ha="right", va="center", fontsize=8.5, color=style.GREY)
    axes.set(xlim=(-6, left[-1] + widths[-1]), ylim=(-1.2, 2.4))
    axes.axis("off")
    return figure
