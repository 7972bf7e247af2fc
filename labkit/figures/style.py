"""One look for every figure of the course: large type, colours that everybody can tell apart, units on the axes.

The palette is Okabe and Ito's (2008), chosen to stay distinct under the common kinds of colour blindness.  Lines
also differ in dash and marker, areas in hatching, so that a figure survives a bad projector or a black-and-white print.
"""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from labkit.controls import human

BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#E69F00", "#009E73", "#CC79A7"
VERMILION, SKY, YELLOW, BLACK, GREY = "#D55E00", "#56B4E9", "#F0E442", "#000000", "#8A8A8A"
PALETTE = (BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, BLACK, YELLOW)
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (1, 1)), "-", "--")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo", "--")

RC = {
    "font.family": "DejaVu Sans",  # ships with matplotlib: the same picture on every machine
    "font.size": 13,
    "axes.titlesize": 14,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 13,
    "xtick.labelsize": 12,
    "ytick.labelsize": 12,
    "legend.fontsize": 12,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "lines.linewidth": 2.5,
    "lines.markersize": 8,
    "hatch.linewidth": 0.8,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "path.simplify": True,
}


def line(i: int) -> dict:
    """Colour, dash and marker of the i-th line of a figure (as keywords for `Axes.plot`)."""
    return {"color": PALETTE[i % 8], "linestyle": DASHES[i % 8], "marker": MARKERS[i % 8]}


def area(i: int) -> dict:
    """Colour and hatching of the i-th area or bar of a figure (as keywords for `Axes.bar`)."""
    return {"facecolor": PALETTE[i % 8], "hatch": HATCHES[i % 8], "edgecolor": "white"}


def human_axis(axis) -> None:
    """Tick labels for people (1k, 128k, 1M) on an x or y axis."""
    axis.set_major_formatter(FuncFormatter(lambda v, _: human(v)))
    axis.set_minor_formatter(FuncFormatter(lambda v, _: ""))


def legend_outside(fig: Figure, ax, **kwargs):
    """The legend above the axes, where no moving line can paint over it."""
    handles, labels = ax.get_legend_handles_labels()
    kwargs = {"loc": "outside upper left", "ncols": min(len(labels), 4), "columnspacing": 1.5, "handlelength": 2.5} | kwargs
    return fig.legend(handles, labels, **kwargs)
