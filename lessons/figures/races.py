"""The figures of lesson 10: two threads and a counter, what a race does to the numbers, and which lines of memory a
warp touches."""

import itertools

import matplotlib.pyplot as plt
import numpy as np

from lessons.harness import style


def orders():
    """All orders in which two threads can read a counter and write it back plus one"""
    figure, axes = plt.subplots(figsize=(7.2, 3.6))
    every = sorted(set(itertools.permutations("AABB")))
    for row, order in enumerate(every):
        counter, seen = 0, {}
        for step, name in enumerate(order):
            if name in seen:
                counter, text = seen[name] + 1, f"{name} writes {seen[name]} + 1"
            else:
                seen[name], text = counter, f"{name} reads {counter}"
            colour = style.BLUE if name == "A" else style.ORANGE
            axes.add_patch(
                plt.Rectangle((step + 0.04, row + 0.1), 0.92, 0.8, fc=colour, alpha=0.9 if name == "A" else 0.45)
            )
            axes.text(step + 0.5, row + 0.5, text, ha="center", va="center", color="white" if name == "A" else "black")
        said = f"counter = {counter}" + ": a one is lost" * (counter < 2)
        axes.text(4.15, row + 0.5, said, va="center", weight="bold", color=style.GREEN if counter == 2 else style.RED)
    axes.set(xlim=(0, 5.9), ylim=(len(every), 0), yticks=[], xticks=np.arange(4) + 0.5)
    axes.set_xticklabels([f"step {step}" for step in range(1, 5)])
    axes.set(title="Threads A and B each add one to a counter: the six possible orders")
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    return figure


def race(right, unlucky):
    """The numbers that threads should write, and those of a run without the barrier"""
    figure, axes = plt.subplots()
    right, unlucky = np.array(right), np.array(unlucky)
    wrong = np.flatnonzero(unlucky != right)
    axes.plot(right, color=style.BLUE, ls="-", marker=".", label="right: with the barrier, or in the order 0, 1, 2 ...")
    label = f"without the barrier, in a shuffled order: {len(wrong)} of {len(right)} wrong"
    axes.vlines(wrong, right[wrong], unlucky[wrong], color=style.RED, lw=1)
    axes.plot(wrong, unlucky[wrong], color=style.RED, ls="none", marker="x", ms=8, mew=2, label=label)
    axes.set(xlabel="number of the thread", ylabel="what it wrote", ylim=(0, 135))
    axes.set(title="The same program without its barrier, in two orders of the threads")
    axes.legend(loc="upper left")
    return figure


def lines(rows, columns, per_line):
    """rows, columns: the numbers of memory that the threads of a warp read; per_line: numbers that come together"""
    figure, both = plt.subplots(1, 2, figsize=(7.6, 4))
    count = 1 + max(*rows, *columns) // per_line
    colours = np.array([[1.0, 1.0, 1.0], [0.85, 0.85, 0.85], [0.0, 0.45, 0.7]])
    for axes, read, name in zip(both, (rows, columns), ("along a row", "down a column"), strict=True):
        state = np.zeros((count, per_line), int)
        state[np.unique(np.array(read) // per_line)] = 1  # fetched with the line, and thrown away
        state[np.array(read) // per_line, np.array(read) % per_line] = 2
        axes.imshow(colours[state], aspect="auto", extent=(0, per_line, count, 0))
        touched = len(np.unique(np.array(read) // per_line))
        axes.set(title=f"32 threads read {name}:\n{touched} line{'s' * (touched > 1)} fetched")
        axes.set(xlabel="number within its line", ylabel="lines of memory, 128 bytes each")
        for side in axes.spines.values():
            side.set(visible=True, color="0.6")
    names = {"read": colours[2], "fetched for nothing": colours[1], "not touched": colours[0]}
    patches = [plt.Rectangle((0, 0), 1, 1, fc=colour, ec="0.6") for colour in names.values()]
    figure.legend(patches, names, loc="outside lower center", ncols=3)
    return figure
