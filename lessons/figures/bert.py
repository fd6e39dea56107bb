"""The figures of lesson 12: guesses at a hole, two floors, and what BERT reads."""

import matplotlib.pyplot as plt
import numpy as np

from lessons.harness import style


def hole(tools, left, both, sentence):
    """tools: names; left, both: the probability of each from the words before, and from all others"""
    figure, axes = plt.subplots(figsize=(7.2, 3.8))
    places = np.arange(len(tools))
    looks = (left, style.ORANGE, "///", "from the words before it"), (both, style.BLUE, "", "from both sides")
    for shift, (values, colour, hatch, label) in zip((-0.2, 0.2), looks, strict=True):
        axes.bar(places + shift, 100 * np.array([*values]), 0.38, color=colour, hatch=hatch, label=label)
    axes.set_xticks(places, tools)
    axes.set(ylabel="probability, per cent", ylim=(0, 100), title=sentence)
    axes.legend(title="what one can know of the missing word")
    return figure


def two_floors(seen, floors):
    """seen: model → pairs of a training step and the loss there; floors: text → loss"""
    figure, axes = plt.subplots()
    for (name, looks), colour, dash in zip(seen.items(), (style.RED, style.BLUE), ("--", "-"), strict=True):
        axes.plot(*zip(*looks, strict=True), dash, color=colour, marker="o", ms=4, label=name)
    for text, floor in floors.items():
        axes.axhline(floor, color=style.GREY, lw=1, ls=":")
        axes.text(looks[-1][0], floor - 0.08, text, ha="right", va="top", fontsize=9.5, color=style.GREY)
    axes.set(xlabel="training step", ylabel="loss at the missing tool, nats", ylim=(0, None))
    axes.set(title="Two models of the same size guess the missing tool")
    axes.legend(loc="upper right")
    return figure


def reading(words):
    """words: name, segment (0 or 1), and None or, where it was chosen, what it was and what was guessed"""
    figure, axes = plt.subplots(figsize=(7.6, 3.9))
    numbered = list(enumerate(words))
    lines = [[entry for entry in numbered if entry[1][1] == part] for part in (0, 1)]
    widest = 0.0
    for down, line in enumerate(lines):
        x, y = 0.0, -4.6 * down
        for place, (name, part, asked) in line:
            colour, width = (style.BLUE, style.ORANGE)[part], 0.66 * max(len(name), 2) + 0.9
            axes.add_patch(plt.Rectangle((x, y), width - 0.2, 1, fc=colour, alpha=0.6 if asked else 0.18, ec=colour))
            middle = x + (width - 0.2) / 2
            axes.text(middle, y + 0.48, name, ha="center", va="center", fontsize=10)
            axes.text(middle, y + 1.5, place, ha="center", va="center", fontsize=9, color=style.GREY)
            axes.text(middle, y + 2.2, "AB"[part], ha="center", va="center", fontsize=9, color=style.GREY)
            if asked:
                text = f"was: {asked[0]}\nguess: {asked[1]}"
                axes.text(middle, y - 0.2, text, ha="center", va="top", fontsize=9.5)
            x += width
        widest = max(widest, x)
        for up, text in ((0.48, "word"), (1.5, "+ position"), (2.2, "+ segment")):
            axes.text(-0.5, y + up, text, ha="right", va="center", fontsize=9.5, color=style.GREY)
    axes.set(xlim=(-6.2, widest), ylim=(-6.0, 2.8))
    axes.set_title(
        "What BERT reads: two sentences A and B. Dark boxes were chosen:\nthe model must say which word stood there",
        fontsize=11,
    )
    axes.axis("off")
    return figure
