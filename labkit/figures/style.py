"""One look for every figure of the course: large type, colours that everybody can tell apart, units on the axes.

The palette is Okabe and Ito's (2008), chosen to stay distinct under the common kinds of colour blindness.  Lines
also differ in dash and marker, areas in hatching, so that a figure survives a bad projector or a black-and-white print.
"""

from __future__ import annotations

import functools

import matplotlib as mpl
import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from PIL import Image

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


HEAT = "cividis"  # the colour map of every heat map: one hue order for all kinds of colour vision


@functools.cache
def picture_palette() -> Image.Image:
    """The 256 colours of a picture: greys, the palette blended towards white and black, and the heat map's.

    A picture of these colours is encoded five times faster than a true-colour one, and is half its size.
    """
    white, black = np.ones(3), np.zeros(3)
    colours = [np.full(3, level) for level in np.linspace(0, 1, 34)]
    for name in (*PALETTE, GREY):
        base = np.array(to_rgb(name))
        colours += [base + (white - base) * t for t in np.linspace(0, 1, 15)[:-1]] + [base + (black - base) * t for t in (0.25, 0.5, 0.75)]
    colours += [np.array(mpl.colormaps[HEAT](t)[:3]) for t in np.linspace(0, 1, 256 - len(colours))]
    palette = Image.new("P", (1, 1))
    palette.putpalette(np.round(255 * np.array(colours)).astype(np.uint8).tobytes())
    return palette


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
