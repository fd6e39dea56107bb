"""The figures of lesson 8: the roof over kernels, the memory of attention and head, and a race."""

import matplotlib.pyplot as plt
import numpy as np

from lessons.harness import style

BELOW, ABOVE, BESIDE = (
    {"xytext": (0, -8), "ha": "center", "va": "top"},
    {"xytext": (0, 7), "ha": "center", "va": "bottom"},
    {"xytext": (8, 0), "ha": "left", "va": "center"},
)
LABELS = {  # where a label beside its point would meet another
    "attention": BELOW,
    "attention_backward": ABOVE,
    "linear_cross_entropy": BELOW,
    "softmax": BELOW,
}


def roof(points, peak, speed, machine):
    """points: name, operations per byte, GFLOPS, milliseconds; peak in GFLOPS; speed of memory in GB/s"""
    figure, axes = plt.subplots(figsize=(7.8, 4.8))
    x = np.logspace(-1.3, 3.7, 200)
    axes.loglog(x, np.minimum(peak, x * speed), color=style.GREY, ls="-")
    axes.text(peak / speed, peak * 1.15, f"products: {peak:.0f} GFLOPS", fontsize=9, color=style.GREY)
    axes.text(x[45], x[50] * speed, f"memory: {speed:.0f} GB/s", fontsize=9, color=style.GREY, ha="right")
    for name, intensity, gflops, _ in points:
        colour, mark = (style.BLUE, "o") if name.startswith(("linear", "attention")) else (style.ORANGE, "s")
        axes.plot(intensity, gflops, mark, color=style.RED if "steps" in name else colour, ms=7)
        side, label = LABELS.get(name, BESIDE), name.replace("_", " ")
        axes.annotate(label, (intensity, gflops), textcoords="offset points", fontsize=8.5, **side)
    axes.set(xlabel="operations per byte of memory", ylabel="GFLOPS", title=f"The roof ({machine})")
    axes.set_ylim(min(p.gflops for p in points) / 2, peak * 1.8)
    return figure


def memory(lengths, naive, tiled, predicted):
    """Bytes at their peak, one number a length"""
    figure, axes = plt.subplots()
    axes.loglog(lengths, np.array(naive) / 1e6, color=style.RED, ls="--", marker="s", label="step by step")
    axes.loglog(lengths, np.array(predicted) / 1e6, color=style.GREY, ls="-", lw=1.2, label="predicted")
    axes.loglog(lengths, np.array(tiled) / 1e6, color=style.BLUE, ls="none", marker="o", label="in tiles, measured")
    square = 4 * np.array(lengths) ** 2 / 1e6
    axes.loglog(lengths, square, color=style.GREY, ls=":", label="one square of scores, 4 T²")
    axes.set(xlabel="length T", ylabel="megabytes of arrays", title="Attention, forward and backward, one head of 64")
    axes.set(xticks=lengths, xticklabels=[f"{T:,}" for T in lengths])
    axes.minorticks_off()
    axes.legend()
    return figure


def head(sizes, fused, whole, predicted, V):
    """Bytes at their peak, one number for each number of positions; V words"""
    figure, axes = plt.subplots()
    axes.plot(sizes, np.array(whole) / 1e6, color=style.RED, ls="--", marker="s", label="linear, then cross-entropy")
    axes.plot(sizes, 4 * V * np.array(sizes) / 1e6, color=style.GREY, ls=":", label="the logits alone, 4 N V")
    axes.plot(sizes, np.array(predicted) / 1e6, color=style.GREY, ls="-", lw=1.2, label="fused, predicted")
    axes.plot(sizes, np.array(fused) / 1e6, color=style.BLUE, ls="none", marker="o", label="fused, measured")
    axes.set(xlabel="positions N", ylabel="megabytes of arrays", title=f"Head and loss, {V:,} words, with gradients")
    axes.set(xticks=sizes, xticklabels=[f"{N:,}" for N in sizes], ylim=(0, None))
    axes.legend()
    return figure


def race(right, unlucky):
    """The numbers (64) that 64 threads should write, and those of a run without the barrier"""
    figure, axes = plt.subplots()
    wrong = np.flatnonzero(unlucky != right)
    axes.plot(range(64), right, color=style.BLUE, ls="-", marker=".", label="right; also without the barrier, in order")
    label = f"without the barrier, shuffled: {len(wrong)} of 64 wrong"
    axes.plot(wrong, unlucky[wrong], color=style.RED, ls="none", marker="x", ms=8, mew=2, label=label)
    axes.vlines(wrong, right[wrong], unlucky[wrong], color=style.RED, lw=1)
    axes.set(
        xlabel="thread", ylabel="its number", title="One missing barrier, two orders of the threads", ylim=(0, 130)
    )
    axes.legend(loc="upper left")
    return figure
