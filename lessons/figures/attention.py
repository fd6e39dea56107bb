"""The figures of lesson 2: the shapes of attention, and what the root of d does."""

import math

import matplotlib.pyplot as plt
import numpy as np

from lessons.harness import style


def shapes(q, k, v, weights, out):
    """q (n_y, d); k, v (n_x, d); weights (n_y, n_x); out (n_y, d)"""
    panels = [(r"$Q_y$", q, ""), (r"$K_x^\top$", k.T, r"$\cdot$"), ("weights", weights, r"$\rightarrow$")]
    panels += [(r"$V_x$", v, r"$\cdot$"), (r"attention$(y\,|\,x)$", out, r"$=$")]
    figure, axes = plt.subplots(1, 5, figsize=(9, 2.6), width_ratios=[m.shape[1] for _, m, _ in panels])
    for ax, (name, matrix, sign) in zip(axes, panels, strict=True):
        colours = {"cmap": "Greys", "vmin": 0, "vmax": 1} if name == "weights" else {"cmap": style.DIVERGING}
        limit = {} if name == "weights" else {"vmin": -2.5, "vmax": 2.5}
        ax.imshow(matrix, **colours, **limit)
        ax.set_title(f"{name}\n{matrix.shape[0]} x {matrix.shape[1]}", fontsize=10.5)
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(True)
        ax.text(-0.12, 0.5, sign, transform=ax.transAxes, ha="right", va="center", fontsize=15)
    for (i, j), weight in np.ndenumerate(weights):
        axes[2].text(j, i, f"{weight:.2f}", ha="center", va="center", fontsize=6.5, color="wk"[int(weight < 0.5)])
    return figure


def root_of_d(panels, widths, keys):
    """panels: label → variances of the scores at widths 1, 2, ...; entropies at `widths`; one query's weights"""
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.3))
    for label, (variances, entropies, weights) in panels.items():
        axes[0].plot(range(1, 1 + len(variances)), variances, marker="o", ms=4, label=label)
        axes[1].semilogx(widths, entropies, marker="o", ms=4, base=2)
        axes[2].plot(weights, marker="o", ms=3)
    axes[0].set(title="variance of the scores", xlabel="width d")
    axes[1].axhline(math.log(keys), color=style.GREY, lw=1, ls=":")
    axes[1].text(1, math.log(keys) - 0.12, f"equal weights, ln {keys}", fontsize=9, va="top", color=style.GREY)
    axes[1].set(
        title="entropy of the weights (nats)", xlabel="width d", ylim=(0, 4.4), xticks=widths, xticklabels=widths
    )
    axes[2].set(title="one query's weights, d = 256", xlabel="keys, best first", ylabel="weight")
    axes[0].legend()
    return figure
