"""The figure of lesson 20: the memory of a training step, Function by Function."""

import matplotlib.pyplot as plt

from lessons.harness import style


def steps(*found):
    """found: steps of a ledger, one panel each"""
    figure, panels = plt.subplots(1, len(found), figsize=(4.6 * len(found), 3.6), sharey=True, squeeze=False)
    for axes, one in zip(panels[0], found, strict=True):
        axes.plot([m.bytes / 1e6 for m in one.measured], color=style.RED, lw=5, alpha=0.4, label="measured")
        axes.plot([m.bytes / 1e6 for m in one.predicted], color=style.BLUE, lw=1.4, label="predicted from the tape")
        turn = next(i for i, moment in enumerate(one.measured) if moment.backward)
        axes.axvline(turn, color=style.GREY, lw=1, ls=":")
        axes.text(turn, 0.03, " backward", transform=axes.get_xaxis_transform(), color=style.GREY, fontsize=9)
        axes.set(title=f"{one.title}:\n{one.peak / 1e6:.1f} MB at most", xlabel="Functions, in the order they run")
        axes.set_ylim(0, 1.35 * max(step.peak for step in found) / 1e6)  # room for the legend
    panels[0][0].set_ylabel("megabytes of arrays")
    panels[0][0].legend(loc="upper left")
    figure.suptitle("The memory of one training step", fontsize=12)
    return figure
