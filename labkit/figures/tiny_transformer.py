"""Figure, table and description of the trained model's panel: right answers, the deviation map, the answers of a sequence."""

from __future__ import annotations

from functools import lru_cache

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.collections import PathCollection
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from matplotlib.ticker import FixedLocator, PercentFormatter
from matplotlib.transforms import Affine2D

from labkit.cacheblend_studies import Trained
from labkit.figures import style

_TEXT = 16                   # points; a low screen shows the picture at 0.72 of its width, and 12 points must be left
_LARGE = dict.fromkeys(["font.size", "axes.labelsize", "xtick.labelsize", "ytick.labelsize", "legend.fontsize"], _TEXT)
_MOST_DEVIATION = 600.0      # end of the map's colours; a bridging fact deviates by about 500
_MOST_TOKENS = 66            # of three documents of 21 facts and their start tokens
_SHOWN = {1: 1, 2: 4, 3: 2}  # questions of each kind in the list of answers
_LINES = {"asked": "asked", "right": "right", "reuse": "full reuse", "blend": "blend"}


@mpl.rc_context(_LARGE)
def draw_trained(fig, result: Trained):
    """Left: right answers against the fraction.  Right: deviation of every token, below it the answers of one sequence."""
    grid = fig.add_gridspec(2, 2, height_ratios=(1, 1.5), width_ratios=(1, 1.3))
    knee, tokens, words = fig.add_subplot(grid[:, 0]), fig.add_subplot(grid[0, 1]), fig.add_subplot(grid[1, 1])

    (line,) = knee.plot([], [], color=style.BLUE, linewidth=2, label="each pick bridges")
    (blind,) = knee.plot([0, 1], [0, 1], color=style.ORANGE, linewidth=2, linestyle="--", label="blind picks")
    (stop,) = knee.plot([], [], color=style.BLACK, linewidth=1.5, linestyle=":")
    said = knee.text(0, 0.83, "knee", fontweight="bold", visible=False)
    dots = {h: knee.plot([], [], linestyle="none", markersize=14, color=style.BLUE, marker=marker, markeredgecolor="white",
                         label=f"blend, {h} hops", clip_on=False)[0] for h, marker in ((2, "o"), (3, "^"))}
    (chance,) = knee.plot([], [], linestyle="none", marker="s", markersize=12, color=style.ORANGE, label="random, 2 hops",
                          markeredgecolor="white", clip_on=False)
    knee.set(xlim=(-0.02, 1.02), ylim=(0, 1.06), xlabel="recomputed of documents 2, 3", ylabel="right answers")
    for axis in (knee.xaxis, knee.yaxis):
        axis.set_major_locator(FixedLocator(np.linspace(0, 1, 5)))
        axis.set_major_formatter(PercentFormatter(1))

    edges = np.arange(_MOST_TOKENS + 1)
    heat = tokens.pcolormesh(edges, np.arange(4), np.zeros((3, _MOST_TOKENS)), cmap=style.HEAT, vmin=0, vmax=_MOST_DEVIATION)
    (recomputed,) = tokens.plot([], [], linestyle="none", marker="D", markersize=7, color=style.SKY, label="recomputed", clip_on=False)
    (bridging,) = tokens.plot([], [], linestyle="none", marker="v", markersize=9, color=style.BLACK, label="bridging fact", clip_on=False)
    (walls,) = tokens.plot([], [], color="white", linewidth=3)
    tokens.set(xlim=(0, _MOST_TOKENS), ylim=(3, -0.5), yticks=[0.5, 1.5, 2.5], yticklabels=["layer 1", "layer 2", "blended"], xticks=[])
    tokens.set_xlabel("tokens of documents 1, 2, 3\n|ΔK|² + |ΔV|²: dark 0, yellow 600", loc="left")
    tokens.grid(visible=False)
    tokens.spines[:].set_visible(False)

    words.set(xlim=(0, _MOST_TOKENS), ylim=(4.6, -0.6), xticks=[], yticks=range(1, len(_LINES) + 1), yticklabels=_LINES.values())
    words.tick_params(length=0)
    words.grid(visible=False)
    words.spines[:].set_visible(False)
    cells = _answer_cells(words)
    handles = [*dots.values(), chance, line, blind, bridging, recomputed]
    fig.legend(handles, [handle.get_label() for handle in handles], loc="outside upper left", ncols=4, columnspacing=1, handlelength=1.5,
               handletextpad=0.4)

    def update(result):
        study, i, fraction = result.study, result.sequence, result.fraction
        share, end = study.batch.bridging_share, 1.0 if result.whole_line else fraction
        line.set_data([0, min(share, end), end], [0, min(1, end / share), min(1, end / share)])
        stop.set_data(*([share] * 2, [0, 1]) if result.whole_line else ([], []))
        said.set(x=share + 0.02, visible=result.whole_line)
        for h, dot in dots.items():
            dot.set_data([fraction], [study.accuracy.loc["blend", h]])
        chance.set_data([fraction], [study.accuracy.loc["random, same share", 2]])
        maps, each = result.maps, study.batch.document_tokens
        padded = np.full((3, _MOST_TOKENS), np.nan)
        padded[:, :maps.shape[1]] = maps
        heat.set_array(np.ma.masked_invalid(padded))
        for marks, chosen, height in ((recomputed, study.blend.recomputed[i], 2.5), (bridging, study.batch.bridging[i], -0.3)):
            marks.set_data(0.5 + np.flatnonzero(chosen), np.full(chosen.sum(), height))
        walls.set_data([each, each, np.nan, 2 * each, 2 * each], [0, 3, np.nan, 0, 3])
        _write_answers(cells, answers_shown(result.answers))
        return [line, stop, said, *dots.values(), chance, heat, walls, recomputed, bridging, cells]

    return update


def answers_shown(answers) -> np.ndarray:
    """The list of answers: symbols (lines, questions), the questions grouped by hops; -1 where there is no such question."""
    table = answers[[*_LINES]].to_numpy().T
    groups = [table[:, answers.hops == hops][:, :count] for hops, count in _SHOWN.items()]
    return np.hstack([np.pad(group, ((0, 0), (0, count - group.shape[1])), constant_values=-1)
                      for group, count in zip(groups, _SHOWN.values())])


def _answer_cells(ax):
    """Words around the list of answers, and one collection for its numbers: forty texts would take 12 ms a picture."""
    step = _MOST_TOKENS / (sum(_SHOWN.values()) + 0.5 * (len(_SHOWN) - 1))
    places, x = [], step / 2
    for hops, count in _SHOWN.items():
        ax.text(x + step * (count - 1) / 2, 0, "1 hop" if hops == 1 else f"{hops} hops", ha="center", va="center", color="#555555")
        places += [x + step * i for i in range(count)]
        x += step * (count + 0.5)
    offsets = [(x, y) for y in range(1, len(_LINES) + 1) for x in places]
    cells = PathCollection([Path.unit_circle()], offsets=offsets, offset_transform=ax.transData, linewidths=0)
    cells.set_transform(Affine2D().scale(ax.figure.dpi / 72))       # the paths are in points
    return ax.add_collection(cells)


def _write_answers(cells, shown):
    """Fill the list; wrong answers are bold and orange (vermilion)."""
    right = list(_LINES).index("right")
    wrong = (shown != shown[right]) & (np.arange(len(shown)) > right)[:, None]
    cells.set_paths([_number(symbol, bold) for symbol, bold in zip(shown.ravel().tolist(), wrong.ravel().tolist())])
    cells.set_facecolor(np.where(wrong.ravel(), style.VERMILION, style.BLACK))


@lru_cache(maxsize=None)
def _number(symbol, bold):
    """A number as a path, centred on (0, 0), in points."""
    if symbol < 0:
        return Path(np.empty((0, 2)))
    path = TextPath((0, 0), str(symbol), size=_TEXT, prop=FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal"))
    box = path.get_extents()
    return path.transformed(Affine2D().translate(-(box.x0 + box.x1) / 2, -(box.y0 + box.y1) / 2))


def table_trained(result: Trained) -> pd.DataFrame:
    """Share of right answers by hops; then how many answers of the drawn sequence are right."""
    study, i = result.study, result.sequence
    frame = study.accuracy.rename(columns={1: "1 hop", 2: "2 hops", 3: "3 hops"}).rename_axis(columns=None)
    frame["this sequence"] = [f"{int((reading.answers[i] == study.batch.answers[i]).sum())} of {len(study.batch.hops)}"
                              for reading in (study.full, study.reuse, study.blend, study.random)]
    frame["deviation left"] = [0.0, *(float(reading.remaining.sum() / reading.deviation.sum()) for reading in (study.reuse, study.blend, study.random))]
    frame.attrs["format"] = dict.fromkeys(["1 hop", "2 hops", "3 hops"], "{:.1%}") | {"deviation left": "{:.1%}"}
    return frame


def alt_trained(result: Trained) -> str:
    """Accuracies, and what the map of the sequence shows."""
    accuracy = result.study.accuracy
    said = "; ".join(f"{way}: {row[1]:.0%}, {row[2]:.0%}, {row[3]:.0%}" for way, row in accuracy.iterrows())
    study, i = result.study, result.sequence
    both = int((study.blend.recomputed[i] & study.batch.bridging[i]).sum())
    right = int((study.blend.answers[i] == study.batch.answers[i]).sum())
    knee = f" The line bends at {study.batch.bridging_share:.0%}, the knee." if result.whole_line else ""
    return (f"Right answers to 1, 2, 3 hops. {said}.{knee} In the map of sequence {i} the bridging facts are bright; "
            f"{both} of {int(study.batch.bridging[i].sum())} are recomputed, and blend answers {right} of {len(study.batch.hops)} questions.")
