"""Figures, tables and descriptions for the mem0 notebook: six memories, RAG, errors when writing, length, reads per write.

Panel 1, the store step by step, is in :mod:`labkit.figures.mem0_store`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.ticker import FixedLocator, NullLocator

from labkit.figures import style
from labkit.mem0_scale import ASKED, TURNS, Budget, Lengths
from labkit.mem0_studies import CHUNKS, KINDS, Comparison, RagStudy, WriteErrors

_SYSTEMS = ("full context", "RAG", "MemGPT style", "mem0", "mem0 graph", "add-only")  # order of colours, the same in all panels
_LECTURE_RAG = [(128, 16), (512, 4), (2_048, 1)]
_KIND_LINES = {"current": 0, "previous": 3, "two-hop": 2}


def _look(system):
    """Colour, dash and marker of a system; "RAG 128 x 16" looks like "RAG"."""
    return style.line(next(i for i in reversed(range(len(_SYSTEMS))) if system.startswith(_SYSTEMS[i])))


# -- panel 2: six memories ------------------------------------------------------------------------------------------


def draw_comparison(fig, result: Comparison):
    """A row a system: accuracy by kind of question, tokens read, calls to write, GPU seconds."""
    right, tokens, calls, seconds = fig.subplots(1, 4, sharey=True, width_ratios=(2.1, 1, 1, 1))
    rows = np.arange(len(result.accuracy))
    look = {"linestyle": "none", "markersize": 11, "markeredgecolor": "white"}
    kinds = {kind: right.plot([], [], label=kind, **style.line(i) | look)[0] for kind, i in _KIND_LINES.items()}
    (overall,) = right.plot([], [], label="all questions", color=style.BLACK, linestyle="none", marker="|", markersize=24, markeredgewidth=4)
    read = tokens.barh(rows, 1, 0.5, left=1, color=style.BLUE)
    write = calls.barh(rows, 0, 0.5, color=style.ORANGE)
    (once,) = seconds.plot([], [], label="GPU s once (writing)", **style.line(1) | look)
    (again,) = seconds.plot([], [], label="GPU s each (question)", **style.line(0) | look)
    right.set(xlim=(-0.03, 1.03), ylim=(len(rows) - 0.5, -0.5), xlabel="accuracy", yticks=rows, yticklabels=result.accuracy.index)
    tokens.set(xscale="log", xlim=(10, 1e5), xlabel="tokens read\na question")
    calls.set(xlim=(0, 450), xlabel="model calls\nto write")
    seconds.set(xscale="log", xlim=(1e-3, 100), xlabel="GPU seconds")
    tokens.xaxis.set_major_locator(FixedLocator([100, 10_000]))
    calls.xaxis.set_major_locator(FixedLocator([0, 400]))
    seconds.xaxis.set_major_locator(FixedLocator([0.01, 1]))
    for ax in (tokens, calls, seconds):
        style.human_axis(ax.xaxis)
        ax.tick_params(axis="y", length=0)
    handles = [*kinds.values(), overall, once, again]
    fig.legend(handles, [handle.get_label() for handle in handles], loc="outside upper left", ncols=6, columnspacing=1.0, handletextpad=0.1, markerscale=0.8)

    def update(result):
        for kind, dots in (kinds | {"all": overall}).items():
            shown = kind in result.accuracy
            dots.set_data(result.accuracy[kind] if shown else [], rows if shown else [])
        for bars, widths in ((read, result.costs.tokens - 1), (write, result.costs.write_calls)):
            for bar, width in zip(bars, widths):
                bar.set_width(max(width, 0))
        once.set_data(result.costs.write_seconds.where(result.costs.write_seconds > 0), rows)
        again.set_data(result.costs.read_seconds, rows)
        return [*read, *write, once, again, *kinds.values(), overall]

    return update


def table_comparison(result: Comparison) -> pd.DataFrame:
    """Accuracy by kind, and the costs: of a question, of writing (once), and of the extra calls that are an assumption."""
    costs = result.costs
    frame = result.accuracy.assign(**{
        "tokens": costs.tokens, "calls": costs.calls, "write calls": costs.write_calls, "+ assumed": costs.extra_calls,
        "GPU s once": costs.write_seconds, "GPU s each": costs.read_seconds})
    frame.attrs["format"] = dict.fromkeys(KINDS, "{:.3f}") | {"tokens": "{:,.0f}", "calls": "{:.2f}", "write calls": "{:,.0f}",
                                                              "+ assumed": "{:,.0f}", "GPU s once": "{:.2f}", "GPU s each": "{:.4f}"}
    return frame.rename_axis(index=None)


def alt_comparison(result: Comparison) -> str:
    """Accuracy of all systems in words."""
    said = "; ".join(f"{name}: {', '.join(f'{kind} {value:.2f}' for kind, value in row.items())}, {result.costs.tokens[name]:,.0f} tokens"
                     for name, row in result.accuracy.iterrows())
    return f"A row a system, {result.questions:,} questions; accuracy by kind, and tokens read for a question. {said}."


# -- panel 3: RAG ---------------------------------------------------------------------------------------------------


def draw_rag(fig, result: RagStudy):
    """Left: accuracy by tokens read, a curve a chunk size.  Right: accuracy by chunk size at the same budget, and in the paper."""
    spent, sizes = fig.subplots(1, 2, width_ratios=(1.15, 1))
    curves = {chunk: spent.plot([], [], label=f"chunks of {chunk:,}", **style.line(i) | {"linewidth": 2, "markersize": 5})[0]
              for i, chunk in enumerate((128, 256, 512, 1_024, 2_048))}
    (graph,) = spent.plot([], [], linestyle="none", marker="*", markersize=17, color=style.BLACK, label="mem0 graph")
    (lecture,) = spent.plot([], [], linestyle="none", marker="s", markersize=15, markerfacecolor="none", markeredgecolor=style.BLACK,
                            markeredgewidth=1.8, label="lecture notes' RAG")
    (paper,) = spent.plot([], [], linestyle="none", marker="x", markersize=9, markeredgewidth=2.5, color=style.GREY, label="the paper's RAG sizes")
    (dot,) = spent.plot([], [], linestyle="none", marker="o", markersize=13, color=style.YELLOW, markeredgecolor=style.BLACK, label="yours")
    spent.set(xscale="log", xlim=(60, 40_000), ylim=(-0.02, 1.04), xlabel="tokens read for a question", ylabel="accuracy, here")
    style.human_axis(spent.xaxis)
    (budget,) = sizes.plot([], [], color=style.BLACK, marker="o", label="here, same budget as yours")
    (same_k,) = sizes.plot([], [], color=style.BLACK, linestyle=":", marker="o", markerfacecolor="white", label="here, same k as yours")
    for k, dash in zip(result.paper, ("--", "-")):
        sizes.plot(result.paper.index, result.paper[k], color=style.GREY, linestyle=dash, marker="x", label=f"paper's J, k = {k}")
    sizes.set(xscale="log", xlim=(55, 9_500), ylim=(-0.02, 1.04), xlabel="chunk (tokens)", ylabel="accuracy, or J / 100 in the paper")
    sizes.xaxis.set_major_locator(FixedLocator([64, 256, 1_024, 4_096]))
    sizes.xaxis.set_major_formatter("{x:,.0f}")
    handles = [artist for ax in (spent, sizes) for artist in ax.get_legend_handles_labels()[0]]
    fig.legend(handles, [handle.get_label() for handle in handles], loc="outside upper left", ncols=4, columnspacing=1.2)

    def update(result):
        grid = result.grid
        for chunk, curve in curves.items():
            curve.set_data(grid.tokens[chunk], grid.accuracy[chunk])
        for marks, pairs in ((lecture, _LECTURE_RAG), (paper, [(chunk, k) for k in (1, 2) for chunk in CHUNKS[1:]]), (dot, [(result.chunk, result.k)])):
            at = grid.loc[pairs]
            marks.set_data(at.tokens, at.accuracy)
        graph.set_data([result.graph[0]], [result.graph[1]])
        budget.set_data(result.budget.index, result.budget)
        same_k.set_data(result.same_k.index, result.same_k)
        return [*curves.values(), paper, lecture, graph, dot, budget, same_k]

    return update


def table_rag(result: RagStudy) -> pd.DataFrame:
    """What becomes of the questions of each kind with the chosen chunks."""
    frame = result.outcomes.copy()
    frame["tokens"] = result.grid.tokens[result.chunk, result.k]
    frame.attrs["format"] = dict.fromkeys(result.outcomes.columns, "{:.3f}") | {"tokens": "{:,.0f}"}
    return frame.rename(columns={"stale": "only older values found", "missing": "nothing found"}).rename_axis(index=None, columns=None)


def alt_rag(result: RagStudy) -> str:
    """The chosen point and its rivals."""
    at = result.grid.loc[(result.chunk, result.k)]
    same = ", ".join(f"{chunk:,}: {value:.2f}" for chunk, value in result.budget.items())
    return (f"RAG with {result.k} chunks of {result.chunk:,} tokens reads {at.tokens:,.0f} tokens and answers {at.accuracy:.2f}; mem0 graph reads "
            f"{result.graph[0]:,.0f} and answers {result.graph[1]:.2f}. With the same budget by chunk size: {same}.")


# -- panel 4: errors when writing -----------------------------------------------------------------------------------


def draw_write_errors(fig, result: WriteErrors):
    """Left: accuracy of mem0 graph by probability of one error alone.  Right: the full context by alpha, and the stores as chosen."""
    alone, reader = fig.subplots(1, 2, sharey=True)
    curves = [alone.plot(result.alone.index, result.alone[name], label=name, **style.line(i) | {"marker": ""})[0] for i, name in enumerate(result.alone)]
    dots = [alone.plot([], [], linestyle="none", markersize=13, markeredgecolor=style.BLACK, **{k: style.line(i)[k] for k in ("color", "marker")})[0]
            for i in range(len(curves))]
    alone.set(xlim=(-0.03, 1.03), ylim=(-0.02, 1.06), xlabel="probability of the error, all else perfect", ylabel="accuracy, all questions")
    (full,) = reader.plot(result.alpha.index, result.alpha, label="full context", color=style.BLACK)
    (dot,) = reader.plot([], [], linestyle="none", marker="X", markersize=13, color=style.BLACK)
    levels = {name: reader.plot([0, 1.5], [0, 0], label=f"{name}, as chosen", **_look(name) | {"marker": ""})[0]
              for name in ("mem0 graph", "mem0", "add-only")}
    reader.set(xlim=(-0.04, 1.54), xlabel="alpha: how easily the middle is overlooked")
    handles = [*curves, full, *levels.values()]
    fig.legend(handles, [handle.get_label() for handle in handles], loc="outside upper left", ncols=3, columnspacing=1.2)

    def update(result):
        for i, (curve, name) in enumerate(zip(curves, result.alone)):
            curve.set_data(result.alone.index, result.alone[name])
            dots[i].set_data(*([value] for value in result.at[name]))
        full.set_data(result.alpha.index, result.alpha)
        dot.set_data(*([value] for value in result.full))
        for name, level in levels.items():
            level.set_ydata([result.together["all"][name]] * 2)
        return [*curves, full, *levels.values(), *dots, dot]

    return update


def table_write_errors(result: WriteErrors) -> pd.DataFrame:
    """Accuracy with all chosen errors together, then with each alone."""
    frame = result.together.rename(index=lambda name: f"{name}, as chosen").rename_axis(index=None, columns=None)
    for name, (probability, value) in result.at.items():
        frame.loc[f"mem0 graph, {name} ({probability:.0%}), alone"] = [value, np.nan, np.nan, np.nan]
    frame.attrs["format"] = dict.fromkeys(frame.columns, "{:.3f}")
    return frame


def alt_write_errors(result: WriteErrors) -> str:
    """Each error alone, and all together."""
    alone = "; ".join(f"{name} with probability {p:.2f}: {value:.2f}" for name, (p, value) in result.at.items())
    together = ", ".join(f"{name} {value:.2f}" for name, value in result.together["all"].items())
    return f"Accuracy of mem0 graph with one error alone: {alone}. All together: {together}. The full context is read with alpha {result.full[0]:.2f}."


# -- panel 5: length ------------------------------------------------------------------------------------------------

_MEASURES = {"accuracy": ("accuracy", "linear", (-0.02, 1.04)), "tokens": ("tokens read for a question", "log", (100, 5e5)),
             "write_calls": ("calls of the model to write", "linear", (-60, 3_000))}


def draw_lengths(fig, result: Lengths):
    """A line a system over the length of the conversation."""
    ax = fig.subplots()
    lines = {name: ax.plot([], [], label=name, **_look(name))[0] for name in result.table}
    ax.set(xscale="log", xlim=(550, 5_300), xlabel="length of the conversation (messages; 43 tokens each)")
    ax.xaxis.set_major_locator(FixedLocator(TURNS))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(lambda v, _: f"{v:,.0f}")
    style.legend_outside(fig, ax, ncols=6)

    def update(result):
        label, scale, limits = _MEASURES[result.measure]
        if ax.get_ylabel() != label:
            ax.set(yscale=scale, ylim=limits, ylabel=label)
        for name, line in lines.items():
            line.set_data(result.table.index, result.table[name])
        return list(lines.values())

    return update


def table_lengths(result: Lengths) -> pd.DataFrame:
    """The measure by system and length."""
    frame = result.table.T.rename(columns=lambda turns: f"{turns:,} messages").rename_axis(index=None, columns=None)
    frame.attrs["format"] = dict.fromkeys(frame.columns, "{:.3f}" if result.measure == "accuracy" else "{:,.0f}")
    return frame


def alt_lengths(result: Lengths) -> str:
    """First and last value of each line."""
    digits = "{:.2f}" if result.measure == "accuracy" else "{:,.0f}"
    ends = "; ".join(f"{name}: {digits.format(line.iloc[0])} to {digits.format(line.iloc[-1])}" for name, line in result.table.items())
    return f"{_MEASURES[result.measure][0]} from 600 to 4,800 messages ({result.kind} questions). {ends}."


# -- panel 6: reads per write ---------------------------------------------------------------------------------------


def draw_budget(fig, result: Budget):
    """Cost of a conversation by the number of questions; the cheapest that is accurate enough is underlaid in yellow."""
    ax = fig.subplots()
    (cheapest,) = ax.plot([], [], color=style.YELLOW, linewidth=12, solid_capstyle="round", label="cheapest", zorder=1)
    lines = {name: ax.plot([], [], label=name, **_look(name) | {"markevery": 5})[0] for name in result.curves}
    (here,) = ax.plot([], [], color=style.BLACK, linewidth=1.5, linestyle=":", label="your number of questions")
    ax.set(xscale="log", yscale="log", xlim=(0.9, 11_000), xlabel="questions put to one conversation of 600 messages")
    style.human_axis(ax.xaxis)
    style.human_axis(ax.yaxis)
    style.legend_outside(fig, ax, ncols=4)

    def update(result):
        if ax.get_ylabel() != result.unit:
            ax.set_ylabel(result.unit)
        fits = np.isfinite(result.curves.to_numpy())
        bottom, top = (result.curves.to_numpy()[fits].min(), result.curves.to_numpy()[fits].max()) if fits.any() else (1, 10)
        ax.set_ylim(10.0 ** np.floor(np.log10(bottom)), 10.0 ** np.ceil(np.log10(top)))
        for name, line in lines.items():
            line.set_data(result.curves.index, result.curves[name].where(np.isfinite(result.curves[name])))
            line.set_alpha(1.0 if result.table.allowed[name] else 0.25)
        allowed = result.curves.loc[:, result.table.allowed]
        cheapest.set_data(ASKED, allowed.min(axis=1).where(lambda v: np.isfinite(v)) if allowed.shape[1] else np.full(len(ASKED), np.nan))
        here.set_data([result.questions] * 2, ax.get_ylim())
        return [cheapest, *lines.values(), here]

    return update


def cheaper(low: float, high: float) -> str:
    """For how many questions something is cheaper, in words."""
    if low == np.inf:
        return "never"
    first, last = int(np.floor(low)) + 1, "" if high == np.inf else f" up to {int(np.ceil(high)) - 1:,}"
    return f"always{last}" if low == 0 else f"from {first:,}{last}"


def table_budget(result: Budget) -> pd.DataFrame:
    """Accuracy and costs a system, and from how many questions it is cheaper than the full context."""
    table = result.table
    frame = pd.DataFrame({"accuracy": table.accuracy, "once": table.once, "a question": table.a_question, "in all": table.total,
                          "KV in memory (GB)": table.kv_gb,
                          "cheaper than full context": [cheaper(row.cheaper_from, row.cheaper_to) for row in table.itertuples()]})
    frame.loc["full context", "cheaper than full context"] = "-"
    digits = "{:,.3f}" if result.unit == "GPU seconds" else "{:,.0f}"
    frame.attrs["format"] = {"accuracy": "{:.3f}", "once": digits, "a question": digits, "in all": digits, "KV in memory (GB)": "{:.3f}"}
    return frame.rename_axis(index=None)


def alt_budget(result: Budget) -> str:
    """Who is cheapest at the chosen number of questions."""
    allowed = result.table[result.table.allowed & np.isfinite(result.table.total)]
    winner = f"{allowed.total.idxmin()} is cheapest of those allowed" if len(allowed) else "no system qualifies"
    said = "; ".join(f"{name}: {row.total:,.1f}" for name, row in result.table.iterrows())
    return f"Rising lines on log axes. With {result.questions:,} questions, in {result.unit}: {said}. There {winner}."
