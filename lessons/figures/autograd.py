"""The figures of lesson 1: a tape with its values and slopes, and what a difference can see."""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from autograd import draw
from lessons.harness import style

FOLDER = tempfile.TemporaryDirectory()
LOOKS = (style.RED, ":"), (style.ORANGE, "--"), (style.BLUE, "-."), (style.GREEN, "-")
PLACES = {"x": (0, 2), "w": (0, 0.9), "b": (1, 0), "p = x w": (1, 1.25), "s = p + b": (2, 0.7)}  # column, height
LETTERING = {"ha": "center", "va": "center", "fontsize": 10, "zorder": 3}
PLACES |= {"t = tanh s": (3, 0.7), "loss = t x": (4, 1.35)}


def tape(steps):
    """steps: name → number with its value, its slope `grad`, and its sources (number, local slope)"""
    figure, axes = plt.subplots(figsize=(9.5, 4))
    names = {id(number): name for name, number in steps.items()}
    for name, number in steps.items():
        column, height = PLACES[name]
        box = {"boxstyle": "round,pad=0.35", "fc": "#cfe6f5" if number.sources else "#e7e7e7", "ec": style.GREY}
        axes.text(column, height, f"{name}\nvalue {number.value:+.3f}", bbox=box, **LETTERING)
        axes.text(column, height - 0.33, f"slope {number.grad:+.3f}", color=style.RED, **LETTERING)
        for source, local in number.sources:
            begin, end = np.array(PLACES[names[id(source)]]) + (0.3, 0), np.array((column - 0.3, height))
            far = end[0] - begin[0] > 2  # led above the boxes in between
            look = {"arrowstyle": "-|>", "color": style.BLUE, "lw": 1.4, "shrinkA": 0, "shrinkB": 0}
            look["connectionstyle"] = "arc3,rad=-0.12" if far else "arc3"
            axes.annotate("", end, begin, arrowprops=look)
            level = begin[1] == end[1]  # such an arrow is short: its number stands above it
            middle = (begin + end) / 2 + (0, 0.38 if far else 0.16 * level)
            paper = {"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none"}
            axes.text(*middle, f"× {local:+.3f}", color=style.BLUE, bbox=paper, **LETTERING)
    axes.annotate("", (0.2, -0.55), (4.2, -0.55), arrowprops={"arrowstyle": "-|>", "color": style.RED, "lw": 1.4})
    way = "backward: a slope, times the number on an arrow, is passed to where the arrow comes from"
    axes.text(2.2, -0.75, way, color=style.RED, **LETTERING)
    axes.set(xlim=(-0.5, 4.6), ylim=(-0.95, 2.6), title="The tape of loss = tanh(x w + b) x")
    axes.axis("off")
    return figure


def engine_tape(result, names, given=()):
    """The engine's own drawing, as a file that is gone when the lesson ends.

    given  inputs that nobody trains: the engine draws them in grey once they want no gradient any more"""
    for tensor in given:
        tensor.requires_grad = False
    return draw(result, Path(FOLDER.name) / "tape.svg", names=names)


def valley(methods):
    """methods: name → steps, relative errors, and the floor of their valley"""
    figure, axes = plt.subplots()
    for (name, (steps, errors, floor)), (colour, dashes) in zip(methods.items(), LOOKS, strict=True):
        label = f"{name}: {floor:.0e} at best"
        axes.loglog(steps, np.maximum(errors, 1e-17), linestyle=dashes, color=colour, label=label)
    axes.axhline(1e-7, color=style.GREY, lw=1, ls="-")
    axes.text(1.01, 1e-7, "gradcheck\ndemands\n1e-7", transform=axes.get_yaxis_transform(), fontsize=9, va="center")
    axes.set(xlabel="step h", ylabel="relative error of the slope", title="How wrong is a slope taken by differences?")
    axes.set_ylim(1e-19, 10)  # room for the legend
    axes.set_yticks([1e-16, 1e-12, 1e-8, 1e-4, 1])
    axes.legend(title="lucky hits of single steps left out", title_fontsize=9)
    return figure
