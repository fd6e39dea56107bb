"""The figures of lesson 17: a sentence cut by growing vocabularies, and how many pieces a word takes."""

import matplotlib.pyplot as plt

from lessons.harness import style


def cuts(rows):
    """rows: number of merges → the pieces of one sentence"""
    figure, axes = plt.subplots(figsize=(9.2, 0.62 * len(rows) + 0.9))
    letters = sum(len(piece) for piece in next(iter(rows.values())))
    for line, pieces in enumerate(rows.values()):
        left = 0.0
        for number, piece in enumerate(pieces):
            colour = style.COLOURS[number % 2]
            axes.barh(-line, len(piece), left=left, height=0.72, color=colour, alpha=0.28, ec="white", lw=2)
            for i, letter in enumerate(piece):
                shown = "␣" if letter == " " else letter
                grey = style.GREY if letter == " " else "black"
                axes.text(left + i + 0.5, -line, shown, ha="center", va="center", family="monospace", color=grey)
            left += len(piece)
        axes.text(letters + 0.6, -line, f"{len(pieces)}", ha="left", va="center", weight="bold")
    axes.text(letters + 0.6, 0.62, "pieces", ha="left", va="center")
    axes.set_yticks([-line for line in range(len(rows))], [f"{merges} merges" for merges in rows])
    axes.set(xlim=(0, letters + 3.5), xticks=[], ylim=(0.45 - len(rows), 0.9))
    axes.tick_params(length=0)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    return figure


def pieces_a_word(merges, found):
    """found: pieces a word, for each number of merges"""
    figure, axes = plt.subplots(figsize=(6.8, 3.8))
    axes.plot(merges, found, marker="o", color=style.BLUE)
    axes.axhline(1, color=style.GREY, lw=1, ls=":")
    axes.text(merges[-1], 0.93, "one piece for each word", ha="right", va="top", color=style.GREY)
    axes.set(xlabel="merges", ylabel="pieces a word, unseen reviews", ylim=(0, 1.1 * found[0]), xlim=(0, None))
    axes.set_title("Shorter texts are bought with a longer vocabulary")
    return figure
