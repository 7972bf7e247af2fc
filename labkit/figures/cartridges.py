"""Figures, tables and descriptions for the Cartridges notebook: a training as it goes, its start, its slots.

What a trained cartridge is used for is in :mod:`labkit.figures.cartridge_use`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, PercentFormatter

from labkit.cartridge_live import Slots, Training
from labkit.cartridge_studies import SIZES, WINDOW, stored_means
from labkit.figures import style
from labkit.figures.kv_cost import nice_limit

_DARK = "#555555"
# live frontier: method -> line number
_FRONTIER = {"self-study": 0, "truncation": 6, "merging": 4, "dropping": 5}
_MEMORISE = 3
# lecture setting: (title, study, {label: (method, size, steps)})
_DEMOS = (
    ("2 · ablation, p=64", "ablation", {
        "1,000 steps": ("self-study", 64, 1000), "3,000 steps": ("self-study", 64, 3000), "8,000 steps": ("self-study", 64, 8000),
        "hard labels": ("hard", 64, 3000), "normal init": ("self-study, normal init", 64, 3000)}),
    ("3 · longer, p=256", "longer", {
        "first window": ("truncated", 512, 0), "chunked, 3,000 steps": ("chunked teacher", 256, 3000),
        "chunked, 6,000 steps": ("chunked teacher", 256, 6000), "whole, 3,000 steps": ("whole-document teacher", 256, 3000)}),
    ("4 · two documents", "composition", {
        "truncated": ("truncated", 128, 0), "A only": ("A only", 64, 3000), "concatenated": ("concatenated", 128, 3000),
        "joint": ("joint", 128, 3000)}),
)


def share_axis(axis):
    """Shares as per cent on an x or y axis."""
    axis.set_major_formatter(PercentFormatter(1))


def curve_axes(ax):
    """Axes for accuracy against the step."""
    ax.set(ylim=(-0.02, 1.05), xlabel="step", ylabel="reworded questions right")
    share_axis(ax.yaxis)


def steps_limit(ax, steps):
    """The x axis ends at a round number of steps, so that it seldom changes."""
    ax.set_xlim(-0.01 * steps, nice_limit(steps))


def named_bars(ax, names, i=0):
    """Horizontal bars from 0 to 1 with their names above and numbers behind; returns update(values) -> moved artists."""
    rows = np.arange(len(names))
    bars = ax.barh(rows, 0, 0.42, **style.area(i))
    for row, name in enumerate(names):
        ax.text(0.01, row - 0.27, name, transform=ax.get_yaxis_transform(), va="bottom", fontsize=12)
    ends = [ax.text(0, row, "", va="center", fontsize=12, fontweight="bold") for row in rows]
    ax.set(xlim=(0, 1.28), ylim=(len(names) - 0.55, -0.85), yticks=[])
    ax.grid(axis="y", visible=False)
    ax.xaxis.set_major_locator(FixedLocator([0, 0.5, 1]))
    share_axis(ax.xaxis)

    def update(values):
        for bar, end, value in zip(bars, ends, values):
            known = value == value
            bar.set(width=value if known else 0, visible=known)
            end.set(text=f"{value:.0%}" if known else "", x=(value if known else 0) + 0.02)
        return [*bars, *ends]

    return update


# -- live training -------------------------------------------------------------------------------------------------


def draw_training(fig, result: Training):
    """Above, live preset: accuracy while it trains, and its place on the frontier.  Below: the lecture setting's stored results.

    What memorising reaches appears when one memorises: before, the panel asks for a prediction of it.
    """
    live, lecture = fig.subfigures(2, 1, height_ratios=(1.5, 1))
    curve, frontier = live.subplots(1, 2, width_ratios=(1, 1.5))
    (grown,) = curve.plot([], [], color=style.BLACK)
    curve_axes(curve)
    memorised = _draw_frontier(frontier)
    (own,) = frontier.plot([], [], linestyle="none", marker="o", markersize=12, color=style.BLACK, label="yours, reworded")
    (original,) = frontier.plot([], [], linestyle="none", marker="o", markersize=15, markeredgewidth=2, markerfacecolor="none",
                                color=style.BLACK, label="yours, own wording")
    handles, labels = frontier.get_legend_handles_labels()
    live.legend(handles[-2:] + handles[:-2], labels[-2:] + labels[:-2], loc="outside upper left", ncols=4, columnspacing=1.2,
                handlelength=2.2)
    memorised += _draw_lecture_setting(lecture)

    def update(result):
        for artist in memorised:
            artist.set_visible(result.settings.recipe == "memorise")
        steps_limit(curve, result.steps)
        grown.set_data(result.curve.index, result.curve["accuracy"])
        size = len(result.cartridge)
        own.set_data([size], [result.accuracy])
        original.set_data([size], [result.original])
        return [*memorised, grown, original, own]

    return update


def _draw_frontier(ax):
    """Stored results of the live preset and of what needs no training; returns what tells of memorising."""
    means = stored_means("frontier", "live")
    for name, i in _FRONTIER.items():
        look = style.line(i) | ({"linewidth": 1.6, "markersize": 5} if i > 3 else {})
        line = means[name].reset_index("steps", drop=True)
        ax.plot(line.index, line.to_numpy(), label=f"{name}{' (live)' if i < 4 else ''}", **look)
    linear = [means[f"linear memory, {how}"].iloc[0] for how in ("sum", "least squares")]
    ax.plot([32, 32], linear, linestyle="none", marker="X", markersize=9, color=style.GREEN, label="linear memory, 2 ways")
    kinds = stored_means("kinds", "live")
    ax.plot([64] * len(kinds), kinds, linestyle="none", marker="_", markersize=14, markeredgewidth=2.5, color=style.ORANGE,
            label="1 to 5 kinds (live)")
    ax.plot([512], means["ICL"], linestyle="none", marker="*", markersize=15, color=style.GREEN, label="whole document")
    ax.set(xscale="log", xlim=(7, 620), ylim=(-0.02, 1.05), xlabel="p, rows of the cache (the document has 512)")
    ax.xaxis.set_major_locator(FixedLocator([*SIZES, 512]))
    style.human_axis(ax.xaxis)
    ax.xaxis.set_minor_locator(NullLocator())
    share_axis(ax.yaxis)
    line = means["memorise"].reset_index("steps", drop=True)
    return [*ax.plot(line.index, line.to_numpy(), **style.line(_MEMORISE)),
            ax.text(84, 0.53, "memorise (live)", color=style.PALETTE[_MEMORISE])]


def _draw_lecture_setting(fig):
    """All four demonstrations at the lecture setting, from the stored results; returns what tells of memorising."""
    fig.suptitle("Lecture preset, stored, 3 seeds (parts 3 to 5 explain it). Not to be compared with the above.",
                 fontsize=12, fontweight="bold", x=0.01, ha="left")
    first, *others = fig.subplots(1, 4, width_ratios=(1.1, 1, 1, 1))
    means, plain = stored_means("frontier"), stored_means("frontier", measure="original")
    memorised = []
    for table, name, look in ((means, "self-study", style.line(0)), (means, "memorise", style.line(_MEMORISE)),
                              (plain, "memorise", style.line(_MEMORISE) | {"linestyle": "--"})):
        line = table[name].reset_index("steps", drop=True)
        memorised += first.plot(line.index, line.to_numpy(), **look | {"markersize": 5, "linewidth": 2})
    memorised[0] = first.text(8, 1.04, "memorise, own wording", color=style.PALETTE[_MEMORISE], fontsize=12)  # self-study stays
    first.set(xscale="log", xlim=(7, 300), ylim=(-0.02, 1.2), xlabel="p")
    first.set_title("1 · frontier", fontsize=12)
    first.xaxis.set_major_locator(FixedLocator([8, 32, 128]))
    style.human_axis(first.xaxis)
    first.xaxis.set_minor_locator(NullLocator())
    first.yaxis.set_major_locator(FixedLocator([0, 0.5, 1]))
    share_axis(first.yaxis)
    for ax, (title, study, rows) in zip(others, _DEMOS):
        stored = stored_means(study)
        ax.set_title(title, fontsize=12)
        named_bars(ax, list(rows))([stored[key] for key in rows.values()])
    return memorised


def table_training(result: Training) -> pd.DataFrame:
    """What this cartridge answers, what it took, and what it costs to make."""
    asked = result.settings.rephrasings if result.settings.recipe != "memorise" else 1
    return pd.DataFrame({f"{result.preset} preset": {
        "reworded questions right": f"{result.accuracy:.0%}", "in the document's own wording": f"{result.original:.0%}",
        "times smaller than the document": f"{result.compression:.3g}", "questions to train on": len(result.facts) * asked,
        "loss (nats per question)": f"{result.curve['loss'].iloc[-1]:.2f}",
        "cost of training (GFLOP)": f"{result.settings.training_flops(len(result.facts)) / 1e9:.1f}"}})


def alt_training(result: Training) -> str:
    """The curve and the point on the frontier in words."""
    return (f"A curve of accuracy over {result.steps} steps of {result.settings.recipe} ({result.preset} preset) ends at "
            f"{result.accuracy:.0%}; in the document's own wording {result.original:.0%}. Beside it the frontier of accuracy over size, with "
            f"this cartridge of {len(result.cartridge)} rows on it. Below, stored results of the lecture setting.")


# -- initialisation ------------------------------------------------------------------------------------------------


def draw_start(fig, result: Training):
    """Left: accuracy, and how much of the attention one slot gets.  Right: accuracy over the keys' length at the start."""
    curve, norms = fig.subplots(1, 2, sharey=True)
    (grown,) = curve.plot([], [], label="reworded questions right", **style.line(0) | {"marker": ""})
    (sharp,) = curve.plot([], [], label="attention of a question's strongest slot", **style.line(3) | {"marker": ""})
    curve_axes(curve)
    curve.set_ylabel("share")
    stored = stored_means("key norm", "live")
    lengths = [float(name.split()[-1]) for name in stored.index.get_level_values("method")]
    norms.plot(lengths, stored.to_numpy(), label="random directions, stored (live)", **style.line(2))
    norms.axhline(64 / WINDOW, color=style.GREY, linewidth=1.5)
    norms.text(0.46, 64 / WINDOW - 0.02, "one fact per slot: p/N", fontsize=12, color=_DARK, va="top")
    (own,) = norms.plot([], [], linestyle="none", marker="o", markersize=13, color=style.BLACK, label="yours")
    norms.set(xscale="log", xlim=(0.43, 9.3), xlabel="length of the keys at the start")
    norms.xaxis.set_major_locator(FixedLocator([0.5, 1, 2, 4, 8]))
    style.human_axis(norms.xaxis)
    norms.xaxis.set_minor_locator(NullLocator())
    handles, labels = zip(*(pair for ax in (curve, norms) for pair in zip(*ax.get_legend_handles_labels())))
    fig.legend(handles, labels, loc="outside upper left", ncols=2, columnspacing=1.5, handlelength=2.5)

    def update(result):
        steps_limit(curve, result.steps)
        grown.set_data(result.curve.index, result.curve["accuracy"])
        sharp.set_data(result.curve.index, result.curve["strongest"])
        own.set_data([result.settings.key_norm], [result.accuracy])
        return [grown, sharp, own]

    return update


def table_start(result: Training) -> pd.DataFrame:
    """Start and end of this training."""
    ends = result.curve.iloc[[0, -1]]
    frame = pd.DataFrame({f"at the {place}": {"reworded questions right": f"{row.accuracy:.0%}",
                                              "attention of the strongest slot": f"{row.strongest:.0%}"}
                          for place, row in zip(("start", "end"), ends.itertuples())})
    frame.index.name = f"{result.preset} preset"
    return frame


def alt_start(result: Training) -> str:
    """Both curves and the point in words."""
    first, last = result.curve.iloc[0], result.curve.iloc[-1]
    return (f"From {result.settings.init} with keys of length {result.settings.key_norm:.3g}: accuracy from {first.accuracy:.0%} "
            f"to {last.accuracy:.0%} ({result.preset} preset); the strongest slot gets {first.strongest:.0%} of the attention at first "
            f"and {last.strongest:.0%} at the end.")


# -- slots ---------------------------------------------------------------------------------------------------------


def draw_slots(fig, result: Slots):
    """Attention of every fact to every slot before and after, facts in the order of their slot after; right: facts a slot."""
    before, after, scale, counts = fig.subplots(1, 4, width_ratios=(1, 1, 0.06, 0.9))
    images = {}
    for ax, name in ((before, "before"), (after, "after")):
        images[name] = ax.imshow(np.zeros((2, 2)), cmap=style.HEAT, vmin=0, vmax=1, aspect="auto", interpolation="nearest",
                                 extent=(0, 1, 1, 0))
        ax.set(xticks=[], yticks=[], xlabel="slots")
        ax.set_title(name, fontsize=13)
        ax.grid(False)
    before.set_ylabel("facts, in order of their slot after")
    fig.colorbar(images["after"], cax=scale, label="attention")  # in the grid, so that the layout starts afresh for it too
    lines = {name: counts.plot([], [], drawstyle="steps-mid", label=name, **style.line(i) | {"marker": ""})[0]
             for i, name in enumerate(images)}
    counts.set(xlabel="slot, fullest first", ylabel="facts whose strongest slot it is")
    counts.yaxis.set_major_locator(MaxNLocator(integer=True))
    counts.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    counts.legend(loc="upper right")

    def update(result):
        order = np.argsort(result.after.argmax(axis=1), kind="stable")
        images["before"].set_data(result.before[order])
        images["after"].set_data(result.after[order])
        size = len(result.shared)
        counts.set(xlim=(0.5, size + 0.5), ylim=(0, nice_limit(1.05 * result.shared.to_numpy().max())))
        for name, line in lines.items():
            line.set_data(np.arange(1, size + 1), np.sort(result.shared[name].to_numpy())[::-1])
        return [*images.values(), *lines.values()]

    return update


def table_slots(result: Slots) -> pd.DataFrame:
    """How facts share the slots, before and after."""
    rows = {}
    for name, attention in (("before", result.before), ("after", result.after)):
        shared = result.shared[name]
        rows[name] = {"slots": len(shared), "facts in the fullest slot": int(shared.max()), "slots of no fact": int((shared == 0).sum()),
                      "attention of the strongest slot": f"{attention.max(axis=1).mean():.0%}"}
    frame = pd.DataFrame(rows, dtype=object)
    frame.loc["facts right, in their own wording"] = ["", f"{result.right.mean():.0%}"]
    frame.index.name = f"{result.preset} preset"
    return frame


def alt_slots(result: Slots) -> str:
    """The two maps in words."""
    most = result.shared.max()
    return (f"Two heat maps of the attention of {len(result.right)} facts to {len(result.shared)} slots, before and after {result.step} steps. "
            f"The slot that is the strongest for most facts: for {most['before']} before, for {most['after']} after. "
            f"{result.right.mean():.0%} of the facts are right now.")
