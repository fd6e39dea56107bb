"""The pictures of a benchmark: ratios as bars, kernels under the roofline, growth with its exponents."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from minitransformer.app.bench.growth import Curve
from minitransformer.app.bench.ledger import Step
from minitransformer.app.bench.roofline import Point

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "#555555"


def _finish(figure, path: Path) -> None:
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=160, bbox_inches="tight")
    plt.close(figure)


def bars(results: list[dict[str, Any]], machine: str, path: Path) -> None:
    """How many times faster than PyTorch each case is; a mark where we meant to be."""
    shown = [r for r in results if r.get("ratio")][::-1]
    figure, axes = plt.subplots(figsize=(8, 0.42 * len(shown) + 1.4), layout="constrained")
    colours = [BLUE if r["ratio"] >= r["target"] else ORANGE for r in shown]
    axes.barh(range(len(shown)), [r["ratio"] for r in shown], color=colours, height=0.62)
    for row, r in enumerate(shown):
        axes.plot([r["target"]] * 2, [row - 0.38, row + 0.38], color="black", lw=1.6)
        axes.text(max(r["ratio"], r["target"]) + 0.05, row, f"{r['ratio']:.2f}×", va="center", fontsize=9)
    axes.axvline(1, color=GREY, lw=1, ls=":")
    axes.set_yticks(range(len(shown)), [r["title"] for r in shown], fontsize=9)
    axes.set_xlim(0, max(r["ratio"] for r in shown) * 1.12)
    axes.set_xlabel("PyTorch's time / ours, best of both; black: the target")
    axes.set_title(f"Side by side with PyTorch ({machine})", fontsize=11)
    _finish(figure, path)


def roofline(points: list[Point], peak: float, bandwidth: float, machine: str, path: Path) -> None:
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    x = np.logspace(-2, 4, 200)
    axes.loglog(x, np.minimum(peak, x * bandwidth), color=GREY, lw=1.8)
    axes.text(x[-1], peak * 1.08, f"products: {peak:.0f} GFLOPS", ha="right", fontsize=9, color=GREY)
    axes.text(0.007, 0.1 * bandwidth, f"memory: {bandwidth:.0f} GB/s", fontsize=9, color=GREY)
    colours = plt.colormaps["viridis"]
    shown = sorted((point for point in points if point.gflops > 0), key=lambda p: -p.gflops)
    products = [p for p in shown if p.kernel.startswith(("linear", "attention", "feed_forward"))]
    for point in shown:
        if point in products:  # they lie close together: a legend instead of labels
            colour = colours(products.index(point) / len(products))
            label = f"{point.kernel}  {point.gflops:.0f} GFLOPS"
            axes.plot(point.intensity, point.gflops, "o", color=colour, ms=7, label=label)
        else:
            axes.plot(point.intensity, point.gflops, "s", color=ORANGE, ms=6)
            where = (point.intensity, point.gflops)
            axes.annotate(
                point.kernel,
                where,
                xytext=(7, -9 if point.kernel == "layer_norm" else -2),
                textcoords="offset points",
                fontsize=8,
            )
    axes.legend(loc="lower right", fontsize=8, frameon=False)
    axes.set(xlabel="arithmetic per byte of memory (flop / byte)", ylabel="GFLOPS", ylim=(0.3, peak * 1.8))
    axes.set_title(f"Every kernel under the roofline ({machine})", fontsize=11)
    _finish(figure, path)


def growth(curves: list[Curve], path: Path) -> None:
    figure, panels = plt.subplots(2, len(curves), figsize=(4.2 * len(curves), 6.4), layout="constrained")
    for column, curve in enumerate(curves):
        for row, (name, values) in enumerate((("seconds", curve.seconds), ("megabytes", curve.megabytes))):
            axes = panels[row, column]
            axes.loglog(curve.sizes, values, "o-", color=(BLUE, GREEN)[row])
            label = f"{curve.axis}^{curve.exponent(values):.2f} at the end"
            axes.text(0.05, 0.92, label, transform=axes.transAxes, fontsize=10, va="top")
            axes.set(xlabel=curve.axis, ylabel=name if column == 0 else "")
            if row == 0:
                axes.set_title(curve.title, fontsize=10)
    _finish(figure, path)


def ledger(steps: list[Step], path: Path) -> None:
    """The memory of a training step over its Functions, one panel a way of doing it."""
    figure, panels = plt.subplots(1, len(steps), figsize=(5 * len(steps), 3.8), layout="constrained", sharey=True)
    for axes, step in zip(panels, steps, strict=True):
        axes.plot([m.bytes / 1e6 for m in step.measured], color=ORANGE, lw=4, alpha=0.55, label="measured")
        axes.plot([m.bytes / 1e6 for m in step.predicted], color=BLUE, lw=1.3, label="predicted from the tape")
        turn = next(i for i, m in enumerate(step.measured) if m.backward)
        axes.axvline(turn, color=GREY, lw=1, ls=":")
        axes.text(turn, 0.02, " backward begins", transform=axes.get_xaxis_transform(), fontsize=8, color=GREY)
        axes.set_title(f"{step.title}: {step.peak / 1e6:.0f} MB at most", fontsize=10)
        axes.set(xlabel="Functions run, then visited", ylim=(0, None))
    panels[0].set_ylabel("megabytes of arrays")
    panels[0].legend(loc="center left", fontsize=9, frameon=False, bbox_to_anchor=(0, 0.3))
    figure.suptitle("Memory of a training step, 12 layers, 4 × 256 words", fontsize=11)
    _finish(figure, path)


def ranks(found: dict[str, Any], path: Path) -> None:
    """How much of N times the work N ranks do, on paper, for each model and network."""
    models = list(dict.fromkeys(point["model"] for point in found["paper"]))
    figure, panels = plt.subplots(1, len(models), figsize=(4.6 * len(models), 3.8), sharey=True, layout="constrained")
    looks = {("strong", "10 Gbit/s"): (ORANGE, "--o"), ("strong", "100 Gbit/s"): (ORANGE, "-s"),
             ("weak", "10 Gbit/s"): (BLUE, "--o"), ("weak", "100 Gbit/s"): (BLUE, "-s")}  # fmt: skip
    for axes, model in zip(panels, models, strict=True):
        for (scaling, wire), (colour, line) in looks.items():
            points = [p for p in found["paper"] if (p["model"], p["scaling"], p["wire"]) == (model, scaling, wire)]
            label = f"{'one batch for all' if scaling == 'strong' else 'one batch each'}, {wire}"
            axes.semilogx(
                [p["ranks"] for p in points], [p["efficiency"] for p in points], line, color=colour, label=label
            )
        axes.set(title=model, xlabel="ranks", ylim=(0, 1.05), xticks=[p["ranks"] for p in points])
        axes.set_xticklabels([f"{p['ranks']:,}" for p in points])
        axes.minorticks_off()
    panels[0].set_ylabel("share of N times the work")
    panels[0].legend(fontsize=8, frameon=False)
    _finish(figure, path)
