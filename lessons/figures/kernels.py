"""The figures of lesson 8: how many last digits the tiers differ by, operations per byte, and the roof over kernels."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.text import Text

from lessons.harness import style


def last_digits(steps):
    """steps: tier → for each number, how many neighbouring float64 numbers it is away from NumPy's"""
    figure, axes = plt.subplots(figsize=(7.2, 3.6))
    most = max(int(away.max()) for away in steps.values())
    width = 0.8 / len(steps)
    for place, ((tier, away), colour) in enumerate(zip(steps.items(), style.COLOURS, strict=False)):
        shares = [100 * np.mean(away == n) for n in range(most + 1)]
        middle = np.arange(most + 1) + (place - (len(steps) - 1) / 2) * width
        bars = axes.bar(middle, shares, 0.9 * width, color=colour, hatch=("", "///", "..")[place % 3], label=tier)
        axes.bar_label(bars, [f"{share:.0f} %" if share >= 0.5 else "" for share in shares], padding=2, fontsize=9)
    count = next(iter(steps.values())).size
    axes.set(xlabel="distance from NumPy's number, in steps of the last binary digit", ylabel="per cent of the numbers")
    axes.set(title=f"The same softmax on other tiers: {count:,} numbers", xticks=range(most + 1))
    axes.legend(title="compared with NumPy")
    return figure


def intensity(lengths, steps, fused, limit):
    """steps, fused: operations per byte at each length; limit: what the first cannot pass"""
    figure, axes = plt.subplots()
    axes.loglog(lengths, fused, color=style.BLUE, ls="-", marker="o", label="in one kernel")
    axes.loglog(lengths, steps, color=style.RED, ls="--", marker="s", label="step by step")
    axes.axhline(limit, color=style.GREY, ls=":", lw=1.2)
    axes.text(lengths[-1], limit * 1.08, f"limit of step by step: {limit:.1f}", **_note("right", "bottom"))
    axes.set(xlabel="length of the text, T", ylabel="operations per byte of memory")
    axes.set(title="How much attention makes of each byte (one head of width 64)")
    axes.set(xticks=lengths, xticklabels=[f"{T:,}" for T in lengths])
    axes.minorticks_off()
    axes.set_yticks([5, 10, 20, 50, 100], ["5", "10", "20", "50", "100"])
    axes.legend()
    return figure


# As its maker publishes it: GFLOPS in float32 (10,496 cores, 2 operations each, 1.695 GHz), and GB/s (384 bits of 19.5
# Gbit/s)
CARD, CARD_PEAK, CARD_SPEED = "GeForce RTX 3090", 35_600, 936


def roof(points, peak, speed, machine):
    """points: name, operations per byte, GFLOPS, milliseconds; peak in GFLOPS; speed of memory in GB/s"""
    figure, axes = plt.subplots(figsize=(8, 5.6))
    corner, left, right = peak / speed, 0.03, 4000
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set(xlim=(left, right), ylim=(min(p.gflops for p in points) / 8, CARD_PEAK * 3))
    x = np.array([left, corner, right])
    axes.plot(x, np.minimum(peak, x * speed), color=style.GREY, ls="-")
    axes.vlines(corner, 0, peak, color=style.GREY, ls=":", lw=1)
    limits = f"this machine: {speed:.0f} GB and {peak:.0f} billion operations a second"
    axes.text(right, peak * 1.1, limits, **_note("right", "bottom"))
    _roof_of_a_card(
        axes, left, right, [p for p in points if p.kernel.startswith("attention") and "back" not in p.kernel]
    )
    low = axes.get_ylim()[0] * 1.15
    axes.text(corner / 1.15, low, "memory is\nthe limit", **_note("right", "bottom"))
    axes.text(corner * 1.15, low, "arithmetic is\nthe limit", **_note("left", "bottom"))
    kinds = {"products of matrices": (style.BLUE, "o"), "a few operations a number": (style.ORANGE, "s")}
    for kind, (colour, mark) in kinds.items():
        axes.plot([], [], mark, color=colour, ms=8, label=kind)
    for name, operations, gflops, _ in points:
        product = name.startswith(("linear", "attention", "head"))
        colour, mark = kinds["products of matrices" if product else "a few operations a number"]
        axes.plot(operations, gflops, mark, color=style.RED if "step" in name else colour, ms=8)
    axes.set(xlabel="operations per byte that has to come from memory or go there")
    axes.set(ylabel="billion operations a second", title=f"What limits each kernel of a training step\n({machine})")
    axes.legend(loc="lower right")
    line = np.geomspace(left, right, 300)
    heights = [*np.minimum(peak, line * speed), *np.minimum(CARD_PEAK, line * CARD_SPEED)]
    _label(figure, axes, [p[:3] for p in points], [*zip([*line, *line], heights, strict=True)])
    return figure


def _roof_of_a_card(axes, left, right, attentions):
    """A thin second roof, and rings for the most that such a card could do of each attention."""
    x = np.array([left, CARD_PEAK / CARD_SPEED, right])
    axes.plot(x, np.minimum(CARD_PEAK, x * CARD_SPEED), color=style.GREY, ls="-", lw=0.8)
    name = f"a graphics card ({CARD}, as published):\n{CARD_SPEED} GB and {CARD_PEAK:,} billion operations a second"
    axes.text(right, CARD_PEAK * 1.15, name, **_note("right", "bottom"))
    for point in attentions:
        top = min(CARD_PEAK, point.intensity * CARD_SPEED)
        colour = style.RED if "step" in point.kernel else style.BLUE
        axes.plot(point.intensity, top, "o", mfc="white", mec=colour, ms=8)
        name = "by steps, at most" if "step" in point.kernel else "in one kernel, at most"
        axes.annotate(name, (point.intensity, top), (9, -3), textcoords="offset points", **_note("left", "top"))


def _note(across, up):
    return {"fontsize": 9.5, "color": style.GREY, "ha": across, "va": up}


def _label(figure, axes, places, line):
    """Writes a name near each point, where it meets no point, no other text and not the line; a thin stroke leads to it
    where that is some way off."""
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    dots, line = (axes.transData.transform(where) for where in ([(x, y) for _, x, y in places], line))
    taken = [text.get_window_extent() for text in axes.texts]
    room = 7  # pixels that a mark takes around its place
    directions = [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1)]
    for name, x, y in places:
        for far, (right, up) in itertools.product((10, 22, 36, 52), directions):
            across, along = ("right", "center", "left")[right + 1], ("top", "center", "bottom")[up + 1]
            stroke = {"arrowstyle": "-", "color": style.GREY, "lw": 0.7} if far > 10 else None
            options = {"textcoords": "offset points", "ha": across, "va": along, "fontsize": 9.5, "arrowprops": stroke}
            text = axes.annotate(name, (x, y), (far * right, far * up), **options)
            text.update_positions(renderer)
            box = Text.get_window_extent(text)  # of the words alone, without their stroke
            inside = axes.bbox.x0 < box.x0 and box.x1 < axes.bbox.x1 and axes.bbox.y0 < box.y0 and box.y1 < axes.bbox.y1
            upon_a_line = any(box.contains(*place) for place in line)
            upon_a_mark = any(box.padded(room).contains(*dot) for dot in dots)
            if inside and not any(map(box.overlaps, taken)) and not upon_a_line and not upon_a_mark:
                break
            text.remove()
        else:
            axes.add_artist(text)  # a crowd: better upon another than nowhere
        taken.append(box)
