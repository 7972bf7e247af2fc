"""Figures, tables and descriptions for the notebook on choosing: prices, poisoning, forgetting."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.ticker import FixedLocator, NullLocator

from labkit.choosing import READS, Choice, dearer, nature, ruled_out, runner_up, what_decided
from labkit.controls import human
from labkit.figures import style
from labkit.figures.kv_cost import nice_limit
from labkit.forgetting import Forgetting
from labkit.poisoning import DEFENCES, Defended

# -- panel 1: the price of remembering -------------------------------------------------------------------------------

_LOOKS = {  # colour, dash, marker; relatives share a colour
    "context": (style.BLACK, "-", "P"), "cached context": (style.BLUE, "-", "o"), "shared prefix": (style.SKY, "--", "s"),
    "RAG": (style.ORANGE, "-", "^"), "RAG, blended": (style.ORANGE, ":", "v"), "MemGPT": (style.GREEN, "-.", "D"),
    "mem0": (style.PURPLE, "--", "X"), "mem0 graph": (style.PURPLE, "-", "*"), "cartridge": (style.VERMILION, "-", "s"),
    "playbook": (style.GREY, "-", "h"),
}
_FAINT = 0.18


def draw_choice(fig, result: Choice):
    """Left: GPU seconds per query by reads per write, a line per memory; pale ones cannot answer.  Right: GB of KV per user."""
    said = fig.suptitle(" ", x=0.012, ha="left", fontsize=13, fontweight="bold")
    cost, memory = fig.subplots(1, 2, width_ratios=(1.35, 1))
    (cheapest,) = cost.plot([], [], color=style.YELLOW, linewidth=12, solid_capstyle="round", zorder=1)
    lines = {name: cost.plot([], [], color=c, linestyle=dash, marker=marker, markevery=8, markersize=7)[0]
             for name, (c, dash, marker) in _LOOKS.items()}
    (here,) = cost.plot([], [], color=style.BLACK, linewidth=1.5, linestyle=":")
    cost.set(xscale="log", yscale="log", xlim=(0.8, 1.3e6), ylim=(1e-3, 1e5), xlabel="reads per write (queries of one user)",
             ylabel="GPU seconds per query")
    style.human_axis(cost.xaxis)
    style.human_axis(cost.yaxis)
    rows = np.arange(len(_LOOKS))
    bars = memory.barh(rows, 1, 0.55, facecolor=style.GREY)  # one colour: these are no prices, and none of them is best
    marks = [memory.plot([1.4e-5], [row], color=c, marker=marker, markersize=9, linestyle="none")[0]
             for row, (c, _, marker) in enumerate(_LOOKS.values())]
    memory.set(xscale="log", xlim=(1e-5, 1e3), ylim=(len(rows) - 0.4, -0.6), yticks=rows, yticklabels=list(_LOOKS),
               title="GB of KV per user\n(pale: cannot answer)")
    memory.xaxis.set_major_locator(FixedLocator([1e-4, 1e-2, 1, 100]))
    memory.xaxis.set_minor_locator(NullLocator())
    memory.xaxis.set_major_formatter(lambda v, _: f"{v:g}")
    memory.grid(axis="y", visible=False)

    def update(result):
        table = result.table
        for name, line in lines.items():
            line.set_data(READS, result.curves[name].where(np.isfinite(result.curves[name])))
            line.set_alpha(1.0 if table.at[name, "can"] else _FAINT)
        for name, bar, mark in zip(_LOOKS, bars, marks):
            bar.set(x=3e-5, width=max(table.at[name, "kv_gb"] - 3e-5, 0))
            for artist in (bar, mark):
                artist.set_alpha(1.0 if table.at[name, "can"] else _FAINT)
        able = result.curves.loc[:, table["can"]]
        cheapest.set_data(READS, able.min(axis=1) if able.shape[1] else np.full(len(READS), np.nan))
        here.set_data([result.workload.reads] * 2, [1e-3, 1e5])
        said.set_text(verdict(result))
        return [cheapest, *lines.values(), here, *bars, *marks, said]

    return update


def verdict(result: Choice) -> str:
    """Three lines: the cheapest that can answer and the next one; what its query pays for; who costs less but cannot answer."""
    table, best = result.table, result.best
    if best is None:
        return "Nothing here can answer: the table says why.\n\n"
    second, own = runner_up(table), nature(table, best, result.workload)
    out = sum(map(len, ruled_out(table).values()))
    price = f"{best}: {table.at[best, 'query']:.3g} GPU s per query"
    if second is None:
        return f"{price}. Nothing else can answer.\n{own[0].upper()}{own[1:]}.\nWhy the others cannot: see the table."
    less = f"{out} would cost less, but cannot answer: see the table." if out else "Nothing costs less."
    return f"{price}; next: {second}, {dearer(table, second, best)}.\n{own[0].upper()}{own[1:]}.\n{less}"


def table_choice(result: Choice) -> pd.DataFrame:
    """A row per memory: GPU s of a query, reads at which it is the cheapest, why (not) here, GPU s to read and per write; GB, accuracy."""
    t = result.table.replace(np.inf, np.nan)  # a dash where it does not fit
    why = t["reason"].where(~t["cheapest"], "CHEAPEST")  # why stands above the picture
    between = {name: span(*ends) for name, *ends in result.cheapest_between().itertuples()}
    frame = pd.DataFrame({"GPU s per query": t["query"], "why": why, "cheapest at (reads)": [between.get(name, "-") for name in t.index],
                          "to read": t["read"], "per write": t["write"], "GB per user": t["kv_gb"], "right": t["accuracy"]})
    frame.attrs["format"] = {"GPU s per query": "{:,.3f}", "to read": "{:,.3f}", "per write": "{:,.1f}", "GB per user": "{:,.3f}",
                             "right": "{:.2f}"}
    return frame.rename_axis(index=None)


def span(least, most) -> str:
    """Numbers of reads in words: 1, 2 to 30, from 31."""
    return f"{least:,.0f}" if least == most else f"{least:,.0f} to {most:,.0f}" if np.isfinite(most) else f"from {least:,.0f}"


def alt_choice(result: Choice) -> str:
    """The reason of the cheapest, and the price of every memory."""
    prices = "; ".join(f"{name} {row['query']:.3g}{'' if row['can'] else ' (cannot answer)'}" if np.isfinite(row["query"]) else
                       f"{name} does not fit" for name, row in result.table.iterrows())
    table, best = result.table, result.best
    why = f"{best}, {table.at[best, 'reason']}" if best else f"N{what_decided(table)[1:]}"  # nothing can answer: ...
    return f"{why}. GPU seconds per query at {human(result.workload.reads)} reads per write: {prices}."


# -- panel 2: poisoning ------------------------------------------------------------------------------------------------

_ROWS = ("no defence", *(f"{name} alone" for name in DEFENCES), "all four", "as chosen")


def draw_defended(fig, result: Defended):
    """Left: tasks harmed so far.  Right: for each set of defences harm, honest lessons still of use, tokens, what the user reads."""
    time, harm, honest, tokens, user = fig.subplots(1, 5, width_ratios=(2.1, 1, 1, 1, 1))
    (chosen,) = time.plot([], [], label="as chosen", **style.line(0) | {"marker": ""})
    (none,) = time.plot([], [], label="no defence", color=style.BLACK, linestyle="--")  # above the chosen one, where both agree
    (once,) = time.plot([], [], label="by the pages themselves, not by memory", color=style.GREY, linestyle=":")
    time.set(xlim=(0, result.none.settings.tasks), ylim=(0, 70), xlabel="task", ylabel="tasks harmed so far (mean)")
    rows = np.arange(len(_ROWS))
    columns = (("harm", harm, "tasks\nharmed", 3), ("in_use", honest, "honest lessons\nof use", 2), ("tokens", tokens, "tokens\nadded", 1),
               ("shown", user, "entries the\nuser reads", 4))
    bars = {name: ax.barh(rows, 0, 0.6, **style.area(look)) for name, ax, _, look in columns}
    for name, ax, label, _ in columns:
        ax.set(ylim=(len(rows) - 0.4, -0.6), yticks=rows, yticklabels=_ROWS if ax is harm else [], xlabel=label)
        ax.grid(axis="y", visible=False)
        ax.xaxis.set_major_formatter(lambda v, _: human(v))
    style.legend_outside(fig, time, ncols=3)
    limits = {"harm": 20, "in_use": 75, "tokens": 50_000, "shown": 500}

    def update(result):
        for line, run in ((none, result.none), (chosen, result.chosen)):
            line.set_data(run.by_task.index + 1, run.by_task["harm"])
        once.set_data([0, result.none.settings.tasks], [result.none.total["once"]] * 2)
        time.set_ylim(0, nice_limit(max(limits["harm"], result.alone["harm"].max())))
        for name, ax, _, _ in columns:
            limit = nice_limit(max(limits[name], result.alone[name].max()))
            ax.set_xlim(0, limit)
            ax.xaxis.set_major_locator(FixedLocator([0, limit]))
            for bar, value in zip(bars[name], result.alone[name]):
                bar.set(width=value, visible=value > 0)
        return [chosen, none, once, *(bar for some in bars.values() for bar in some)]

    return update


def table_defended(result: Defended) -> pd.DataFrame:
    """What each set of defences stops, and what it costs: means over the seeds."""
    t = result.alone
    frame = pd.DataFrame({
        "tasks harmed": t["harm"], "planted written": t["written"], "planted at the end": t["planted"], "honest at the end": t["honest"],
        "of use": t["in_use"], "extra calls": t["calls"], "tokens added": t["tokens"], "user reads": t["shown"]})
    frame.attrs["format"] = dict.fromkeys(frame.columns[:5], "{:.2f}") | dict.fromkeys(frame.columns[5:], "{:,.0f}")
    return frame


def alt_defended(result: Defended) -> str:
    """Harm and honest lessons, set by set."""
    said = "; ".join(f"{name}: {row['harm']:.1f} tasks harmed, {row['in_use']:.0f} honest lessons of use"
                     for name, row in result.alone.iterrows())
    return f"In {result.none.settings.tasks} tasks, by defence: {said}. The pages themselves harm {result.none.total['once']:.1f} tasks."


# -- panel 3: forget me -------------------------------------------------------------------------------------------------


def draw_forgetting(fig, result: Forgetting):
    """Left: share of questions that bring the value back, a row per place.  Right: GPU seconds of forgetting, step by step."""
    traces, cost = fig.subplots(1, 2, width_ratios=(1.9, 1))
    rows = np.arange(len(result.traces))
    look = {"linestyle": "none", "clip_on": False}
    (before,) = traces.plot([], [], marker="o", markersize=13, markerfacecolor="white", markeredgecolor=style.GREY, markeredgewidth=2,
                            color=style.GREY, label="before", **look)
    (after,) = traces.plot([], [], marker="o", markersize=7, color=style.BLUE, label="right after", **look)
    (later,) = traces.plot([], [], marker="X", markersize=10, color=style.VERMILION, label="50 messages later", **look)
    traces.set(xlim=(-0.03, 1.03), ylim=(len(rows) - 0.4, -0.6), yticks=rows, yticklabels=list(result.traces.index),
               xlabel="share of the questions that bring it back")
    steps = np.arange(len(result.bill))
    bars = cost.barh(steps, 1, 0.45, **style.area(1))
    for step, name in zip(steps, result.bill.index):
        cost.text(0.02, step - 0.3, name, transform=cost.get_yaxis_transform(), va="bottom")
    ends = [cost.text(0, step, "", va="center", fontweight="bold") for step in steps]
    cost.set(xscale="log", xlim=(1e-2, 1e7), ylim=(len(steps) - 0.5, -0.85), yticks=[], xlabel="GPU seconds of forgetting")
    cost.grid(axis="y", visible=False)
    cost.xaxis.set_major_locator(FixedLocator([0.1, 10, 1_000, 1e5]))
    cost.xaxis.set_minor_locator(NullLocator())
    style.human_axis(cost.xaxis)
    style.legend_outside(fig, traces, ncols=3)

    def update(result):
        for dots, name, shift in ((before, "before", 0), (after, "after", -0.12), (later, "later", 0.12)):
            dots.set_data(result.traces[name], rows + shift)
        for bar, end, value in zip(bars, ends, result.bill):
            bar.set(x=1e-2, width=max(value - 1e-2, 0), visible=value > 0)
            end.set(text=f"{value:,.3g}" if value < 1_000 else f"{value:,.0f}", x=max(value, 1e-2) * 1.4)
        return [before, after, later, *bars, *ends]

    return update


_STEPS = {"entries": "own delete", "old_versions": "old versions", "raw": "raw messages", "rebuilt": "rebuild", "cartridge": "train again"}


def table_forgetting(result: Forgetting) -> pd.DataFrame:
    """Share of questions that bring the value back, by place; then what forgetting cost the other facts of the cartridge."""
    frame = result.traces[["before", "after", "later"]].rename(columns={"after": "right after", "later": "50 messages later"})
    frame["removed by"] = result.traces["removed_by"].map(_STEPS)
    for name, row in result.others.iterrows():
        frame.loc[f"cartridge: other facts, {name}"] = [row["before"], row["after"], np.nan, ""]
    frame = frame.astype(object)
    frame.loc["places with a trace"] = [*(str((result.traces[name] > 0).sum()) for name in ("before", "after", "later")), ""]
    frame.loc["places, right after or later"] = [np.nan, np.nan, str(result.left), ""]
    frame.loc["GPU seconds"] = [np.nan, result.bill.sum(), np.nan, ""]
    frame.attrs["format"] = dict.fromkeys(frame.columns[:3], "{:,.2f}")
    return frame


def alt_forgetting(result: Forgetting) -> str:
    """Where a trace is left, and the bill."""
    left = [place for place, row in result.traces.iterrows() if max(row["after"], row["later"]) > 0]
    return (f"About {result.request.fact}. A trace is left in {result.left} of {len(result.traces)} places: {', '.join(left) or 'none'}. "
            f"Forgetting took {result.bill.sum():,.2f} GPU seconds.")
