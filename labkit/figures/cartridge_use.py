"""Figures, tables and descriptions for the Cartridges notebook: longer documents, two documents at once, when it pays."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.ticker import FixedLocator, MaxNLocator

from labkit.cartridge_live import ACCOUNTS, BreakEven, Composed, Training
from labkit.cartridge_studies import WINDOW
from labkit.controls import human
from labkit.figures import style
from labkit.figures.cartridges import curve_axes, named_bars, share_axis, steps_limit

# -- longer than the window ----------------------------------------------------------------------------------------


def draw_longer(fig, result: Training):
    """Left: accuracy while it trains, over that of the window alone.  Right: accuracy for each quarter of the document."""
    curve, parts = fig.subplots(1, 2, width_ratios=(1.3, 1), sharey=True)
    (grown,) = curve.plot([], [], label="cartridge (live)", **style.line(0) | {"marker": ""})
    curve.axhline(0.25, label="first window in the context, nothing trained", **style.line(6) | {"marker": ""})
    curve_axes(curve)
    places = np.arange(1, 5)
    parts.bar(1.2, 1, 0.38, **style.area(6))
    bars = parts.bar(places - 0.2, 0, 0.38, **style.area(0))
    parts.set(xlabel="quarter of the document (512 facts each)", xticks=places)
    parts.grid(axis="x", visible=False)
    style.legend_outside(fig, curve)

    def update(result):
        steps_limit(curve, result.steps)
        grown.set_data(result.curve.index, result.curve["accuracy"])
        for bar, value in zip(bars, result.by_part):
            bar.set_height(value)
        return [grown, *bars]

    return update


def table_longer(result: Training) -> pd.DataFrame:
    """Accuracy of the whole and of each quarter, beside the window alone."""
    parts = {f"quarter {i}": (f"{value:.0%}", f"{float(i == 1):.0%}") for i, value in enumerate(result.by_part, 1)}
    rows = {"whole document": (f"{result.accuracy:.0%}", "25%"), **parts, "rows of the cache": (len(result.cartridge), WINDOW),
            "cost of training (GFLOP)": (f"{result.settings.training_flops(len(result.facts)) / 1e9:.0f}", "0")}
    return pd.DataFrame.from_dict(rows, orient="index", columns=[f"cartridge ({result.preset} preset)", "first window"])


def alt_longer(result: Training) -> str:
    """Curve and bars in words."""
    parts = ", ".join(f"{value:.0%}" for value in result.by_part)
    return (f"A cartridge of {len(result.cartridge)} rows for {len(result.facts):,} facts: {result.accuracy:.0%} right after {result.steps} steps; the "
            f"window alone has 25%. By quarter of the document: {parts}.")


# -- composition ---------------------------------------------------------------------------------------------------

_METHODS = ("truncated", "A only", "concatenated", "joint")


def draw_composition(fig, result: Composed):
    """Left: three trainings.  Middle: both documents' questions by method.  Right: where their attention goes."""
    curve, methods, where = fig.subplots(1, 3, width_ratios=(1.2, 1, 1))
    lines = {name: curve.plot([], [], label=f"{name}, own questions", **style.line(i) | {"marker": ""})[0]
             for i, name in enumerate(("A", "B", "joint"))}
    curve_axes(curve)
    curve.xaxis.set_major_locator(MaxNLocator(4, prune="upper"))
    move = named_bars(methods, [name.replace("concatenated", "A and B concatenated") for name in _METHODS], 5)
    methods.set(xlabel="right, both documents")
    shares = [where.barh([0, 1], 0, 0.42, label=f"{name}'s slots", **style.area(i)) for i, name in enumerate("AB")]
    for row, name in enumerate("AB"):
        where.text(0.01, row - 0.27, f"questions about {name}", transform=where.get_yaxis_transform(), va="bottom")
    where.set(xlim=(0, 1), ylim=(1.6, -0.7), yticks=[], xlabel="attention, concatenated")
    where.grid(axis="y", visible=False)
    where.xaxis.set_major_locator(FixedLocator([0, 0.5, 1]))
    share_axis(where.xaxis)
    handles, labels = zip(*(pair for ax in (curve, where) for pair in zip(*ax.get_legend_handles_labels())))
    fig.legend(handles, labels, loc="outside upper left", ncols=5, columnspacing=1.2, handlelength=2.2)

    def update(result):
        steps_limit(curve, result.steps / 3)
        for name, line in lines.items():
            own = result.curves[result.curves["training"] == name]
            line.set_data(own["step"], own["accuracy"])
        table = np.zeros((2, 2)) if result.attention is None else result.attention.to_numpy()
        for side, patches in enumerate(shares):
            for row, patch in enumerate(patches):
                patch.set(x=side * table[row, 0], width=table[row, side])
        return [*lines.values(), *move(result.accuracy.reindex(list(_METHODS))), *(p for patches in shares for p in patches)]

    return update


def table_composition(result: Composed) -> pd.DataFrame:
    """Accuracy by method, and how much of the attention goes to the other document."""
    ends = result.curves.groupby("training")["accuracy"].last()
    rows = {f"{name} alone, its own document": ends.get(name, np.nan) for name in "AB"}
    rows |= {f"both documents: {name}": result.accuracy.get(name, np.nan) for name in _METHODS}
    rows["A's questions: attention to B's slots"] = np.nan if result.attention is None else result.attention.iloc[0, 1]
    frame = pd.DataFrame({f"{result.preset} preset": rows})
    frame.columns = ["share"]
    frame.index.name = f"{result.preset} preset"
    frame.attrs["format"] = {"share": "{:.0%}"}
    return frame


def alt_composition(result: Composed) -> str:
    """The bars in words."""
    said = ", ".join(f"{name} {value:.0%}" for name, value in result.accuracy.items())
    leak = "" if result.attention is None else f" Questions about A give {result.attention.iloc[0, 1]:.0%} of their attention to B's slots."
    return f"Right answers to both documents' questions ({result.preset} preset): {said}.{leak}"


# -- when it pays --------------------------------------------------------------------------------------------------


def draw_break_even(fig, result: BreakEven):
    """Left: queries to break even over the corpus, both accounts.  Right: users on one GPU without and with the cartridge."""
    queries, users = fig.subplots(1, 2, width_ratios=(1.25, 1))
    lines = {name: queries.plot([], [], label=name, **style.line(i) | {"marker": ""})[0] for i, name in enumerate(ACCOUNTS)}
    dots = {name: queries.plot([], [], linestyle="none", marker=style.MARKERS[i], markersize=12, color=style.PALETTE[i])[0]
            for i, name in enumerate(ACCOUNTS)}
    queries.set(xscale="log", yscale="log", xlim=(3_500, 1.15e6), ylim=(0.9, 1e7), xlabel="corpus (tokens)", ylabel="queries to break even")
    style.human_axis(queries.xaxis)
    style.human_axis(queries.yaxis)
    rows = np.array([0, 1, 2.3, 3.3])
    names = [f"{account.split(':')[0]}: {what}" for account in ACCOUNTS for what in ("the corpus in memory", "a cartridge each")]
    bars = users.barh(rows, 1, 0.5, **style.area(0))
    for bar, i in zip(bars, (0, 0, 1, 1)):
        bar.set(**style.area(i))
    for row, name in zip(rows, names):
        users.text(0.01, row - 0.29, name, transform=users.get_yaxis_transform(), va="bottom")
    ends = [users.text(1, row, "", va="center", fontweight="bold") for row in rows]
    users.set(xscale="log", xlim=(0.5, 1e6), ylim=(3.75, -0.85), yticks=[], xlabel="users of one GPU at once")
    users.grid(axis="y", visible=False)
    style.human_axis(users.xaxis)
    style.legend_outside(fig, queries)

    def update(result):
        for name in ACCOUNTS:
            lines[name].set_data(result.curve.index, result.curve[name].clip(lower=1))
            at = result.accounts.loc[name, "queries"]
            shown = np.isfinite(at) and np.isfinite(result.accounts.loc[name, "before"])
            dots[name].set_data([result.corpus], [max(at, 1) if shown else np.nan])
        values = result.accounts[["users_without", "users_with"]].to_numpy().ravel()
        for bar, end, value in zip(bars, ends, values):
            bar.set(x=0.5, width=max(value - 0.5, 0))
            end.set(text=f"{value:,.0f}", x=1.15 * max(value, 0.5))
        return [*lines.values(), *dots.values(), *bars, *ends]

    return update


_ROWS = {"before": ("GPU s per query, before", "{:.3f}"), "after": ("GPU s per query, after", "{:.3f}"),
         "queries": ("queries to break even", "{:,.0f}"), "per_week": ("queries per week, to pay", "{:,.0f}"),
         "users_without": ("users without", "{:,.0f}"), "users_with": ("users with", "{:,.0f}")}


def table_break_even(result: BreakEven) -> pd.DataFrame:
    """Both accounts: GPU seconds, queries, queries per week, users; gaps where there is nothing to compare with."""
    table = result.accounts.astype(float)
    table.loc[np.isinf(table["before"]), ["queries", "per_week"]] = np.nan
    return pd.DataFrame({account: {text: number.format(values[name]) if np.isfinite(values[name]) else "-"
                                   for name, (text, number) in _ROWS.items()} for account, values in table.iterrows()})


def alt_break_even(result: BreakEven) -> str:
    """Both accounts in words."""
    said = "; ".join(f"{row.Index}: {_queries(row)}, {row.users_without:,} users without and {row.users_with:,} with"
                     for row in result.accounts.itertuples())
    return f"Curves of the queries to break even over the size of the corpus. At {human(result.corpus)} tokens, {said}."


def _queries(row):
    if not np.isfinite(row.before):
        return "the corpus fits no user's memory"
    return f"pays after {row.queries:,.0f} queries" if np.isfinite(row.queries) else "never pays"
