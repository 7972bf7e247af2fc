"""Figure, table and description of the trained model's panel: accuracy by hops, the deviation map, the answers of a sequence."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.collections import PolyCollection

from labkit.cacheblend_studies import Trained
from labkit.figures import style

_WAYS = ("full prefill", "full reuse", "blend", "random, same share")
_MOST_DEVIATION = 600.0      # end of the map's colours; a bridging fact deviates by about 500
_MOST_TOKENS = 66            # of three documents of 21 facts and their start tokens
_SHOWN = {1: 2, 2: 5, 3: 3}  # questions of each kind in the list of answers
_RULES = {"hkvd": "HKVD", "random": "random", "first-k": "first-k"}


def draw_trained(fig, result: Trained):
    """Top: accuracy by hops, and against the fraction.  Below: deviation of every token, and the answers of one sequence."""
    grid = fig.add_gridspec(3, 2, height_ratios=(3.2, 1.25, 1.3), width_ratios=(1.1, 1))
    hops, knee = fig.add_subplot(grid[0, 0]), fig.add_subplot(grid[0, 1])
    tokens, words = fig.add_subplot(grid[1, :]), fig.add_subplot(grid[2, :])

    bars = {way: hops.add_collection(PolyCollection([], label=way, **style.area(look))) for way, look in zip(_WAYS, (6, 1, 0, 2))}
    hops.set(xlim=(-0.5, 2.5), ylim=(0, 1.05), xticks=range(3), xticklabels=["1 hop", "2 hops", "3 hops"], ylabel="right answers")
    hops.grid(axis="x", visible=False)
    (line,) = knee.plot([], [], color=style.BLUE, linewidth=1.5, label="one question a bridging fact")
    knee.plot([0, 1], [0, 1], color=style.GREEN, linewidth=1.5, linestyle="--", label="the share recomputed")
    dots = {h: knee.plot([], [], linestyle="none", markersize=11, color=style.BLUE, marker=marker, markeredgecolor="white",
                         label=f"{h} hops")[0] for h, marker in ((2, "o"), (3, "^"))}
    (chance,) = knee.plot([], [], linestyle="none", marker="s", markersize=9, color=style.GREEN, label="random, 2 hops", markeredgecolor="white")
    knee.set(xlim=(-0.02, 1.02), ylim=(-0.03, 1.06), xlabel="share of documents 2 and 3 recomputed")

    edges = np.arange(_MOST_TOKENS + 1)
    heat = tokens.pcolormesh(edges, np.arange(4), np.zeros((3, _MOST_TOKENS)), cmap=style.HEAT, vmin=0, vmax=_MOST_DEVIATION)
    (recomputed,) = tokens.plot([], [], linestyle="none", marker="o", markersize=5, color=style.VERMILION, label="recomputed", clip_on=False)
    (bridging,) = tokens.plot([], [], linestyle="none", marker="v", markersize=7, color=style.BLACK, label="bridging fact", clip_on=False)
    (walls,) = tokens.plot([], [], color="white", linewidth=3)
    tokens.set(xlim=(0, _MOST_TOKENS), ylim=(3, 0), yticks=[0.5, 1.5, 2.5], yticklabels=["layer 1", "layer 2", "blended"], xticks=[])
    tokens.set_xlabel("tokens of documents 1, 2, 3; bright: KV deviates (black 0, yellow 600 and more)", fontsize=12)
    tokens.grid(visible=False)
    tokens.spines[:].set_visible(False)

    words.axis("off")
    mono = {"family": "DejaVu Sans Mono", "fontsize": 12, "va": "top", "linespacing": 1.15, "transform": words.transAxes}
    right = words.text(0, 1.08, "", color=style.BLACK, **mono)
    wrong = words.text(0, 1.08, "", color=style.VERMILION, fontweight="bold", **mono)
    handles = [*bars.values(), *dots.values(), line, chance, bridging, recomputed]
    fig.legend(handles, [handle.get_label() for handle in handles], loc="outside upper left", ncols=4, columnspacing=1.2, markerscale=0.9)

    def update(result):
        study, i = result.study, result.sequence
        accuracy = study.accuracy
        for place, (way, collection) in enumerate(bars.items()):
            left = np.arange(3) + 0.2 * (place - 2)
            collection.set_verts([[(x, 0), (x, height), (x + 0.19, height), (x + 0.19, 0)] for x, height in zip(left, accuracy.loc[way])])
        share = study.batch.bridging_share
        line.set_data([0, share, 1], [0, 1, 1])
        for h, dot in dots.items():
            dot.set_data([result.fraction], [accuracy.loc["blend", h]])
        chance.set_data([result.fraction], [accuracy.loc["random, same share", 2]])
        maps, each = result.maps, study.batch.document_tokens
        padded = np.full((3, _MOST_TOKENS), np.nan)
        padded[:, :maps.shape[1]] = maps
        heat.set_array(np.ma.masked_invalid(padded))
        recomputed.set_data(0.5 + np.flatnonzero(study.blend.recomputed[i]), np.full(study.blend.recomputed[i].sum(), 2.5))
        bridging.set_data(0.5 + np.flatnonzero(study.batch.bridging[i]), np.full(study.batch.bridging[i].sum(), -0.25))
        walls.set_data([each, each, np.nan, 2 * each, 2 * each], [0, 3, np.nan, 0, 3])
        right.set_text(answer_lines(result, True))
        wrong.set_text(answer_lines(result, False))
        return [*bars.values(), line, *dots.values(), chance, heat, walls, recomputed, bridging, right, wrong]

    return update


def answer_lines(result: Trained, wanted: bool) -> str:
    """Four lines in columns, one a question; only the right answers, or only the wrong ones, blanks in place of the others."""
    answers = result.answers
    rows = pd.concat([answers[answers.hops == hops].head(count) for hops, count in _SHOWN.items()])
    lines = ["ask, hops " + "".join(f"{asked:>4},{hops}" for asked, hops in zip(rows.asked, rows.hops)),
             "right     " + "".join(f"{symbol:>4}  " for symbol in rows.right)] if wanted else ["", ""]
    for way, name in (("reuse", "reuse"), ("blend", _RULES[result.rule])):
        cells = [f"{symbol:>4}  " if (symbol == truth) == wanted else " " * 6 for symbol, truth in zip(rows[way], rows.right)]
        lines.append((f"{name:10}" if wanted else " " * 10) + "".join(cells))
    return "\n".join(lines)


def table_trained(result: Trained) -> pd.DataFrame:
    """Share of right answers by hops; then how many answers of the drawn sequence are right."""
    study, i = result.study, result.sequence
    frame = study.accuracy.rename(columns={1: "1 hop", 2: "2 hops", 3: "3 hops"}).rename_axis(columns=None)
    frame["this sequence"] = [f"{int((reading.answers[i] == study.batch.answers[i]).sum())} of {len(study.batch.hops)}"
                              for reading in (study.full, study.reuse, study.blend, study.random)]
    frame["deviation left"] = [0.0, *(float(reading.remaining.sum() / reading.deviation.sum()) for reading in (study.reuse, study.blend, study.random))]
    frame.attrs["format"] = dict.fromkeys(["1 hop", "2 hops", "3 hops"], "{:.3f}") | {"deviation left": "{:.1%}"}
    return frame


def alt_trained(result: Trained) -> str:
    """Accuracies, and what the map of the sequence shows."""
    accuracy = result.study.accuracy
    said = "; ".join(f"{way}: {row[1]:.2f}, {row[2]:.2f}, {row[3]:.2f}" for way, row in accuracy.iterrows())
    study, i = result.study, result.sequence
    both = int((study.blend.recomputed[i] & study.batch.bridging[i]).sum())
    return (f"Right answers to 1, 2, 3 hops. {said}. In the map of sequence {i} the bridging facts deviate most; "
            f"{both} of {int(study.batch.bridging[i].sum())} are recomputed.")
