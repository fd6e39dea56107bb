"""The figures of lesson 19: sums in many orders, ring and tree, computing against sending."""

import matplotlib.pyplot as plt
import numpy as np

from lessons.evidence import many_hands as evidence
from lessons.harness import style


def orders(results):
    """results (numbers): how many different sums each number of the gradient has"""
    figure, axes = plt.subplots(figsize=(6.6, 3.6))
    counts = np.bincount(np.minimum(results, 10), minlength=11)[1:]
    axes.bar(np.arange(1, 11), counts, color=[style.GREY, *[style.BLUE] * 9])
    axes.set(xlabel="different sums in 200 orders", ylabel="numbers of the gradient")
    axes.set_xticks(np.arange(1, 11), [*map(str, range(1, 10)), "10 or more"])
    axes.set_title("Eight slices, added in 200 orders: how many results?")
    return figure


def ring_and_tree(ranks, latency=50e-6, bandwidth=1.25e9):
    """On paper, over the size of the array."""
    figure, axes = plt.subplots(figsize=(6.8, 4.0))
    sizes = np.logspace(2, 9, 200)
    for way, colour, dashes in (("ring", style.BLUE, "-"), ("tree", style.ORANGE, "--")):
        seconds = [evidence.seconds(way, ranks, size, latency, bandwidth) for size in sizes]
        axes.loglog(sizes, seconds, color=colour, ls=dashes, label=way)
    axes.axvline(4 * 21_018_401, color=style.GREY, lw=1)
    axes.text(4 * 21_018_401, 1e-3, "the labs' model ", ha="right", color=style.GREY)
    axes.set(xlabel="bytes of the array", ylabel="seconds", title=f"Adding up arrays of {ranks} ranks, on paper")
    axes.legend()
    return figure


def scaling(per_token, numbers, tokens=2048, rate=1e11, latency=50e-6):
    """Seconds of a step over the number of ranks. per_token: operations; numbers: of the model"""
    figure, axes = plt.subplots(figsize=(6.8, 4.2))
    ranks = 2 ** np.arange(0, 11)
    lines = ((1.25e9, style.ORANGE, "--", "10 Gbit/s"), (12.5e9, style.GREEN, "-.", "100 Gbit/s"))
    for bandwidth, colour, dashes, name in lines:
        computing, sending = evidence.scaling(ranks, tokens, per_token, numbers, rate, bandwidth, latency)
        axes.loglog(ranks[1:], sending[1:], color=colour, ls=dashes, label=f"sending, {name}")
    axes.loglog(ranks, computing, color=style.BLUE, ls="-", label="computing")
    axes.set(xlabel="ranks", ylabel="seconds a step", title="The labs' model, 2,048 tokens a step in all, on paper")
    axes.set_xticks(ranks)
    axes.set_xticklabels([f"{n:,}" for n in ranks])
    axes.minorticks_off()
    axes.legend()
    return figure
