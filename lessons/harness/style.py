"""One look for all figures: colours that colour-blind readers can tell apart, and that survive a grey printer."""

import matplotlib
import matplotlib.pyplot as plt

BLUE, ORANGE, GREEN, RED, PURPLE, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#555555"
COLOURS = (BLUE, ORANGE, GREEN, RED, PURPLE, GREY)
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))  # a second way to tell lines apart
SEQUENTIAL, DIVERGING = "viridis", "RdBu_r"


def apply(notebook: bool = False) -> None:
    """Sets the style for every figure drawn from here on."""
    if not notebook:
        matplotlib.use("Agg")
    plt.rcParams.update(
        {
            "figure.figsize": (7.2, 4.2),
            "figure.constrained_layout.use": True,
            "axes.prop_cycle": plt.cycler(color=COLOURS, linestyle=DASHES),
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlesize": 12,
            "axes.labelsize": 11,
            "legend.frameon": False,
            "legend.fontsize": 9.5,
            "lines.linewidth": 1.8,
            "font.size": 10.5,
            "image.cmap": SEQUENTIAL,
            "svg.hashsalt": "minitransformer",  # the same names inside the file at every run
        }
    )
