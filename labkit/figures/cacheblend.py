"""Figures, tables and descriptions for the CacheBlend notebook: retrieved documents, moved keys, which tokens, layers, time.

The trained model has a module of its own, :mod:`labkit.figures.tiny_transformer`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.collections import PolyCollection
from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter

from labkit.cacheblend import FULL_QUALITY, REUSE_QUALITY, LayerStudy, gap_won_back
from labkit.cacheblend_studies import Recompute, RagReuse, RopeShift, Timing
from labkit.figures import style
from labkit.figures.kv_cost import nice_limit

# One look a thing in all panels: CacheBlend blue, a prefix cache and random orange, full reuse and the oracle green.
_RAG_LINES = {"CacheBlend": 0, "most popular first": 4, "sorted by id": 3, "as ranked": 1}
_RULES = {"oracle": ("oracle", 2), "hkvd": ("HKVD", 0), "random": ("random", 1)}
_LECTURE_POINTS = {"x": [0.15, 0.15], "y": [0.773, 0.652]}       # L11 3.5, as printed
_PICKS = {"oracle": 2, "gradual": 0, "once, at the cost of gradual": 1, "once": 3}
_METHODS = {"prefix": ("prefix cache", 1), "full": ("full recompute", 6), "blend": ("CacheBlend", 0), "reuse": ("full reuse", 2)}
_PLACES = {"gpu": "GPU", "cpu": "CPU", "ssd": "disk", "remote": "remote"}


# -- retrieved documents and a prefix cache -------------------------------------------------------------------------


def draw_rag(fig, result: RagReuse):
    """Left: share of documents found by size of the library.  Right: by place in the prompt, for the chosen library."""
    sizes, places = fig.subplots(1, 2, sharey=True)
    lines = {name: sizes.plot([], [], label=name, **style.line(i))[0] for name, i in _RAG_LINES.items()}
    by_place = {name: places.plot([], [], **style.line(i))[0] for name, i in _RAG_LINES.items()}
    (here,) = sizes.plot([], [], color=style.BLACK, linewidth=1.5, linestyle=":", label="your library")
    sizes.set(xscale="log", xlim=(9, 1_100), ylim=(-0.03, 1.04), xlabel="documents in the library", ylabel="documents found in the cache")
    places.set(xlim=(0.7, 10.3), xlabel="place in the prompt, in your library")
    sizes.yaxis.set_major_formatter(PercentFormatter(1))
    places.xaxis.set_major_locator(FixedLocator(range(1, 11)))
    style.human_axis(sizes.xaxis)
    style.legend_outside(fig, sizes, ncols=5)

    def update(result):
        for name in lines:
            lines[name].set_data(result.sizes.index, result.sizes[name])
            by_place[name].set_data(result.places.index, result.places[name])
        here.set_data([result.library] * 2, [-0.03, 1.04])
        return [*lines.values(), *by_place.values(), here]

    return update


def table_rag(result: RagReuse) -> pd.DataFrame:
    """Share found at all, at the first and the second place, and documents kept."""
    second = result.places.iloc[1] if len(result.places) > 1 else np.nan
    frame = pd.DataFrame({"found": result.at.hit_share, "at place 1": result.places.iloc[0], "at place 2": second,
                          "documents kept": result.at.stored.astype(int)}).loc[list(result.at.index)]
    frame.attrs["format"] = dict.fromkeys(frame.columns[:3], "{:.1%}") | {"documents kept": "{:,}"}
    return frame


def alt_rag(result: RagReuse) -> str:
    """The shares of the chosen library in words."""
    said = ", ".join(f"{name} {share:.0%}" for name, share in result.at.hit_share.items())
    return f"Falling curves over the size of the library. With {result.library:,} documents the cache holds of those retrieved: {said}."


# -- moving a document ----------------------------------------------------------------------------------------------


def draw_rope(fig, result: RopeShift):
    """Left: four pairs of a key as hands of a clock.  Right: error against a key computed at the new place."""
    grid = fig.add_gridspec(2, 3, width_ratios=(1, 1, 2.6))
    circle = np.linspace(0, 2 * np.pi, 90)
    dials, clocks, titles = [], [], []
    for i in range(4):
        ax = fig.add_subplot(grid[i // 2, i % 2])
        ax.plot(np.cos(circle), np.sin(circle), color=style.GREY, linewidth=1)
        ax.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), aspect="equal")
        ax.axis("off")
        dials.append(ax)
        hand = {"linewidth": 4, "solid_capstyle": "round"}
        clocks.append((ax.plot([], [], color=style.GREY, label="as cached", **hand)[0],
                       ax.plot([], [], color=style.BLUE, label="turned", **hand)[0],
                       ax.plot([], [], linestyle="none", marker="o", markersize=13, markerfacecolor="none", markeredgewidth=3,
                               color=style.VERMILION, label="computed at the new place")[0]))
        titles.append(ax.text(0, -1.72, "", ha="center", fontsize=12))
    error = fig.add_subplot(grid[:, 2])
    (left,) = error.plot([], [], label="left as cached", **style.line(3) | {"marker": "", "color": style.GREY})
    (turned,) = error.plot([], [], label="turned", **style.line(0) | {"marker": ""})
    (here,) = error.plot([], [], linestyle="none", marker="o", markersize=12, color=style.BLACK, clip_on=False)
    error.axhline(1e-12, color=style.GREY, linewidth=1.2)
    error.text(1.2, 1.6e-12, "a millionth of a millionth", fontsize=12, color="#555555")
    error.set(xscale="log", yscale="log", xlim=(1, 1e5), ylim=(1e-17, 30), xlabel="shift (places)", ylabel="largest error (numbers up to 1)")
    style.human_axis(error.xaxis)
    error.yaxis.set_major_locator(FixedLocator([1e-16, 1e-12, 1e-8, 1e-4, 1]))
    error.yaxis.set_minor_locator(NullLocator())
    fig.legend(handles=[*clocks[0], left], loc="outside upper left", ncols=4, columnspacing=1.5)

    def update(result):
        for i, (hands, title) in enumerate(zip(clocks, titles)):
            shown = i < len(result.pairs)               # 8 numbers per head have three pairs that differ enough
            dials[i].set_visible(shown)
            row = result.pairs.iloc[i] if shown else None
            for artist, name in zip(hands, ("cached", "moved", "computed")):
                end = (row[f"{name}_x"], row[f"{name}_y"]) if shown else (np.nan, np.nan)
                artist.set_data(*([v] if name == "computed" else [0, v] for v in end))
            title.set_text(f"pair {result.pairs.index[i]}: {turns(row.turns)}" if shown else "")
        left.set_data(result.errors.index, result.errors["left as cached"])
        turned.set_data(result.errors.index, result.errors["turned"].clip(lower=2e-17))
        here.set_data([result.shift] * 2, result.at.clip(lower=2e-17))
        return [artist for hands in clocks for artist in hands] + titles + [left, turned, here]

    return update


def turns(number: float) -> str:
    """Turns of a clock for people."""
    return f"{number:.3g} turns" if number < 1000 else f"{number:,.0f} turns"


def table_rope(result: RopeShift) -> pd.DataFrame:
    """Largest error of a key, at a few shifts and at yours; values need no turn."""
    few = result.errors.iloc[[np.abs(result.errors.index - place).argmin() for place in (10, 1_000, 100_000)]]
    frame = pd.concat([few, result.at.to_frame().T])
    frame = pd.DataFrame({"K turned": frame["turned"], "K left as cached": frame["left as cached"], "V": 0.0})
    frame.index = [*(f"shift {shift:,}" for shift in few.index), "your shift"]
    # below 1e-12 only the order of size is the same on all machines
    frame["K turned"] = ["below 1e-14" if error < 1e-14 else f"{error:.1e}" for error in frame["K turned"]]
    frame.attrs["format"] = {"K left as cached": "{:.2f}", "V": "{:.0f}"}
    return frame


def alt_rope(result: RopeShift) -> str:
    """Turns of the fastest and the slowest pair drawn, and the error."""
    first, last = result.pairs.turns.iloc[[0, -1]]
    places = "1 place" if result.shift == 1 else f"{result.shift:,} places"
    return (f"Pairs of a key as hands of clocks. A shift by {places} turns the first pair {turns(first)}, the last drawn {turns(last)}. "
            f"The turned key is off by {result.at['turned']:.0e}, one left as cached by {result.at['left as cached']:.2g}.")


# -- which few tokens -----------------------------------------------------------------------------------------------


def draw_recompute(fig, result: Recompute):
    """Left: quality by fraction recomputed, a line a rule.  Right: who holds the dependency, and who is picked."""
    quality, ranks = fig.subplots(1, 2, width_ratios=(1.15, 1))
    lines = {rule: quality.plot([], [], label=label, **style.line(i) | {"marker": ""})[0] for rule, (label, i) in _RULES.items()}
    (dots,) = quality.plot([], [], linestyle="none", marker="o", markersize=14, markerfacecolor="none", markeredgewidth=2.5,
                           color=style.BLACK, clip_on=False, label="your fraction")
    (notes,) = quality.plot(_LECTURE_POINTS["x"], _LECTURE_POINTS["y"], linestyle="none", marker="*", markersize=13, color=style.YELLOW,
                            markeredgecolor=style.BLACK, label="lecture notes: tail 10, 15 %")
    for level, text in ((FULL_QUALITY, "full recompute"), (REUSE_QUALITY, "full reuse")):
        quality.axhline(level, color=style.GREY, linewidth=1.2, zorder=1)
        quality.text(0.95, level + 0.002, text, ha="right", va="bottom", fontsize=12, color="#555555")
    quality.set(xlim=(-0.01, 1.01), ylim=(0.61, 0.815), xlabel="share of all 3,072 tokens recomputed", ylabel="quality (assumed formula)")
    (held,) = ranks.plot([], [], label="dependency held up to here", color=style.PURPLE)
    (picked,) = ranks.plot([], [], label="chance to be recomputed", color=style.BLACK, linestyle="--")
    ranks.set(xlim=(0, 1), ylim=(-0.02, 1.04), xlabel="tokens, most dependent first", ylabel="share, chance")
    for axis in (quality.xaxis, ranks.xaxis, ranks.yaxis):
        axis.set_major_formatter(PercentFormatter(1))
    handles = [*lines.values(), dots, notes, held, picked]
    fig.legend(handles, [handle.get_label() for handle in handles], loc="outside upper left", ncols=4, columnspacing=1.5)

    def update(result):
        for rule, line in lines.items():
            line.set_data(result.curves.index, result.curves[rule])
            line.set_linewidth(4 if rule == result.rule else 2)
        dots.set_data([result.fraction] * len(result.quality), result.quality)
        held.set_data(result.held.index, result.held)
        picked.set_data(result.picked.index, result.picked)
        return [*lines.values(), notes, dots, held, picked]

    return update


def table_recompute(result: Recompute) -> pd.DataFrame:
    """Quality and share of the gap won back at the chosen fraction, and the fraction that wins 95 % of it."""
    enough = {rule: (lambda good: good.index[0] if len(good) else np.nan)(curve[gap_won_back(curve) >= 0.95]) for rule, curve in result.curves.items()}
    rows = [*reversed(_RULES)]
    frame = pd.DataFrame({"quality": result.quality[rows], "gap won back": gap_won_back(result.quality[rows]), "95 % of it needs": pd.Series(enough)[rows]})
    frame.index = [_RULES[rule][0] for rule in rows]
    frame.attrs["format"] = {"quality": "{:.4f}", "gap won back": "{:.1%}", "95 % of it needs": "{:.0%}"}
    return frame


def alt_recompute(result: Recompute) -> str:
    """The three qualities in words."""
    said = ", ".join(f"{_RULES[rule][0]} {value:.3f}" for rule, value in result.quality.items())
    return (f"Quality rises from {REUSE_QUALITY} to {FULL_QUALITY:.2f} with the share recomputed. At {result.fraction:.0%}: {said}. "
            f"The top tenth of the tokens holds {np.interp(0.1, result.held.index, result.held):.0%} of the dependency.")


# -- which layer picks ----------------------------------------------------------------------------------------------


def draw_layers(fig, result: LayerStudy):
    """By layer, a line a way to pick: the deviation that remains (left), the tokens that are computed (right)."""
    rest, computed = fig.subplots(1, 2, sharex=True)
    lines = {name: rest.plot([], [], label=name, **style.line(i))[0] for name, i in _PICKS.items()}
    costs = {name: computed.plot([], [], **style.line(i))[0] for name, i in _PICKS.items()}
    rest.set(xlim=(0.7, 10.3), ylim=(-0.03, 1.03), xlabel="layer", ylabel="deviation that remains")
    computed.set(ylim=(-0.03, 1.03), xlabel="layer", ylabel="tokens computed")
    for ax in (rest, computed):
        ax.yaxis.set_major_formatter(PercentFormatter(1))
    rest.xaxis.set_major_locator(FixedLocator(range(1, 11)))
    style.legend_outside(fig, rest, ncols=4)

    def update(result):
        for name in _PICKS:
            lines[name].set_data(result.rest.index, result.rest[name])
            costs[name].set_data(result.computed.index, result.computed[name])
        return [*lines.values(), *costs.values()]

    return update


def table_layers(result: LayerStudy) -> pd.DataFrame:
    """Share of the gap won back, what remains, what is computed."""
    frame = result.summary[["won_back", "rest", "last_rest", "computed"]].loc[[*reversed(_PICKS)]]
    frame.columns = ["gap won back", "remains, mean", "remains, last layer", "computed, mean"]
    frame.attrs["format"] = dict.fromkeys(frame.columns, "{:.1%}")
    return frame


def alt_layers(result: LayerStudy) -> str:
    """Won back by each way to pick."""
    said = ", ".join(f"{name} {share:.0%}" for name, share in result.summary.won_back.items())
    left = ", ".join(f"{name} {share:.0%}" for name, share in result.summary.last_rest.items())
    return f"Ten layers, from left to right. Share of the gap won back: {said}. Deviation that remains in the tenth layer: {left}."


# -- when it is free ------------------------------------------------------------------------------------------------


def draw_timing(fig, result: Timing):
    """Left: load and compute of each layer as a Gantt chart.  Right: time to first token by device, a mark a method."""
    gantt, ttft = fig.subplots(1, 2, width_ratios=(1.5, 1))
    looks = {"load": {"facecolor": style.SKY, "edgecolor": "none"}, "compute": {"facecolor": style.BLUE, "edgecolor": "none"}}
    bars = {action: gantt.add_collection(PolyCollection([], label=f"{action} a layer", **look)) for action, look in looks.items()}
    zoom = gantt.inset_axes([0.58, 0.5, 0.42, 0.48])
    zoom.set(xlim=(0, 6.1), ylim=(5.5, 0.5), xticks=[], yticks=range(1, 6))
    zoom.set_xlabel("the first five layers", fontsize=12)
    zoom.grid(visible=False)
    near = {action: zoom.add_collection(PolyCollection([], **look)) for action, look in looks.items()}
    (end,) = gantt.plot([], [], color=style.BLACK, linewidth=2, linestyle=":", label="full recompute done", transform=gantt.get_xaxis_transform())
    gantt.set_ylabel("layer")
    style.human_axis(gantt.xaxis)
    rows = np.arange(len(_PLACES))
    marks = {name: ttft.plot([], [], label=label, linestyle="none", markersize=15 if name == "blend" else 10, markeredgecolor="white",
                             clip_on=False, **{key: style.line(i)[key] for key in ("color", "marker")})[0] for name, (label, i) in _METHODS.items()}
    band = ttft.axhspan(-0.5, 0.5, color="#DDDDDD", zorder=0)
    ttft.set(xscale="log", ylim=(len(rows) - 0.5, -0.5), yticks=rows, yticklabels=_PLACES.values(), xlabel="time to first token (ms)")
    style.human_axis(ttft.xaxis)
    handles = [*bars.values(), end, *marks.values()]
    fig.legend(handles, [handle.get_label() for handle in handles], loc="outside upper left", ncols=4, columnspacing=1.5, handletextpad=0.5)

    def update(result):
        steps, full = result.pipeline.timeline, result.table.full[result.device]
        unit, name = (1_000, "s") if max(result.pipeline.end_ms, full) > 10_000 else (1, "ms")
        label = f"time ({name}); first token when the last layer is done"
        if gantt.get_xlabel() != label:
            gantt.set_xlabel(label)
        gantt.set(xlim=(0, nice_limit(1.02 * max(result.pipeline.end_ms, full) / unit)), ylim=(result.layers + 0.5, 0.5))
        slot = max(result.pipeline.ttft_ms / result.layers, 1e-12)
        for action in looks:
            rows = steps[steps.action == action]
            bars[action].set_verts(_boxes(rows, unit))
            near[action].set_verts(_boxes(rows[rows.layer <= 5], slot))
        end.set_data([full / unit] * 2, [0, 0.4])
        known = [list(_PLACES).index(device) for device in result.table.index]
        times = result.table[[*_METHODS]]
        ttft.set_xlim(10.0 ** np.floor(np.log10(times.min().min() * 0.8)), 10.0 ** np.ceil(np.log10(times.max().max() * 1.2)))
        for method, mark in marks.items():
            mark.set_data(times[method], known)
        band.set_y(list(_PLACES).index(result.device) - 0.5)
        return [band, *bars.values(), end, *near.values(), *marks.values()]

    return update


def _boxes(steps, unit):
    """Corners of a box a step, (steps, 4, 2): from its start to its end, as high as its layer."""
    left, right, layer = (steps[column].to_numpy(float) for column in ("start_ms", "end_ms", "layer"))
    return np.stack([np.stack([left, right, right, left], -1) / unit, layer[:, None] + [-0.45, -0.45, 0.45, 0.45]], -1)


def table_timing(result: Timing) -> pd.DataFrame:
    """A row a device: ms a layer, the fraction that is hidden and the one computed, TTFT of each method in ms."""
    table = result.table
    frame = pd.DataFrame({"layer: load (ms)": table.load, "compute": table["full layer"], "hidden": table.hidden,
                          "recomputed": table.fraction, "TTFT: full (ms)": table.full, "prefix": table.prefix, "reuse": table.reuse,
                          "blend": table.blend})
    frame.index = [_PLACES[device] for device in table.index]
    frame.attrs["format"] = {"layer: load (ms)": "{:,.3f}", "compute": "{:,.3f}", "hidden": "{:.1%}", "recomputed": "{:.1%}"}
    frame.attrs["format"] |= dict.fromkeys(frame.columns[4:], "{:,.1f}")
    return frame


def alt_timing(result: Timing) -> str:
    """The drawn pipeline and its rivals."""
    row, p = result.table.loc[result.device], result.pipeline
    return (f"Gantt chart of {result.layers} layers (KV: {_PLACES[result.device]}): each is loaded in {row['load']:.3g} ms "
            f"while the one before it is computed in {row['full layer'] * p.fraction:.3g} ms. Recomputing {p.fraction:.0%} takes {row.blend:,.1f} ms to the first token by the formula, "
            f"{p.end_ms:,.1f} on the chart; full recompute {row.full:,.1f} ms.")
