"""The figure of lesson 1: what a difference can see."""

import matplotlib.pyplot as plt
import numpy as np

from lessons.harness import style

LOOKS = (style.RED, ":"), (style.ORANGE, "--"), (style.BLUE, "-."), (style.GREEN, "-")


def valley(methods):
    """methods: name → steps, relative errors, and the floor of their valley"""
    figure, axes = plt.subplots()
    for (name, (steps, errors, floor)), (colour, dashes) in zip(methods.items(), LOOKS, strict=True):
        label = f"{name}: floor {floor:.0e}"
        axes.loglog(steps, np.maximum(errors, 1e-17), linestyle=dashes, color=colour, label=label)
    axes.axhline(1e-7, color=style.GREY, lw=1, ls="-")
    axes.text(1.01, 1e-7, "gradcheck\ndemands\n1e-7", transform=axes.get_yaxis_transform(), fontsize=9, va="center")
    axes.set(xlabel="step h", ylabel="relative error of the difference", title="Two errors fight, and leave a valley")
    axes.legend()
    return figure
