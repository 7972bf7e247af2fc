"""Figures, tables and descriptions for the mem0 notebook: six memories, RAG, errors when writing, length, reads per write.

Panel 1, the store step by step, is in :mod:`labkit.figures.mem0_store`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter

from labkit.figures import style
from labkit.mem0_scale import ASKED, TURNS, Budget, Lengths
from labkit.mem0_studies import CHUNKS, KINDS, Comparison, RagStudy, WriteErrors

_SYSTEMS = ("full context", "RAG", "MemGPT style", "mem0", "mem0 graph", "add-only")  # order of colours, the same in all panels
_LECTURE_RAG = [(128, 16), (512, 4), (2_048, 1)]
_CURVES = (128, 256, 512, 1_024, 2_048)  # chunk sizes with a curve of their own
_KIND_LINES = {"current": 2, "previous": 3, "two-hop": 4}  # not 0 and 1: blue is what reading costs, orange what writing costs


def _look(system):
    """Colour, dash and marker of a system; "RAG 128 x 16" looks like "RAG"."""
    return style.line(next(i for i in reversed(range(len(_SYSTEMS))) if system.startswith(_SYSTEMS[i])))



def _percent(axis):
    """Tick labels of a share: 50%."""
    axis.set_major_formatter(PercentFormatter(1))


def _legend_of_drawn(fig, lines, **where):
    """The legend of those lines that show something; a new one, and so a full redraw, only when these are others than before."""
    drawn = [line for line in lines if len(line.get_xdata())]
    labels = [line.get_label() for line in drawn]
    old = next((legend for legend in fig.legends if legend.get_gid() == "of drawn"), None)
    if old is None or [text.get_text() for text in old.get_texts()] != labels:
        if old is not None:
            old.remove()
        fig.legend(drawn, labels, loc="outside upper left", **where).set_gid("of drawn")


# -- panel 2: six memories ------------------------------------------------------------------------------------------


def draw_comparison(fig, result: Comparison):
    """A row a system: accuracy by kind of question, tokens read, calls to write, GPU seconds."""
    right, tokens, calls, seconds = fig.subplots(1, 4, sharey=True, width_ratios=(2.1, 1, 1, 1))
    rows = np.arange(len(result.accuracy))
    look = {"linestyle": "none", "markersize": 11, "markeredgecolor": "white"}
    kinds = {kind: right.plot([], [], label=kind, **style.line(i) | look)[0] for kind, i in _KIND_LINES.items()}
    (kinds["all"],) = right.plot([], [], label="all questions", color=style.BLACK, linestyle="none", marker="|", markersize=24, markeredgewidth=4)
    read = tokens.barh(rows, 1, 0.5, left=1, color=style.BLUE)
    write = calls.barh(rows, 0, 0.5, color=style.ORANGE)
    (once,) = seconds.plot([], [], label="writing (once)", **style.line(1) | look)
    (again,) = seconds.plot([], [], label="reading (per question)", **style.line(0) | look)
    right.set(xlim=(-0.03, 1.03), ylim=(len(rows) - 0.5, -0.5), xlabel="accuracy", yticks=rows, yticklabels=result.accuracy.index)
    tokens.set(xscale="log", xlim=(10, 1e5), xlabel="tokens read\nper question")
    calls.set(xlim=(0, 450), xlabel="model calls\nto write")
    seconds.set(xscale="log", xlim=(1e-3, 100), xlabel="GPU seconds")
    tokens.xaxis.set_major_locator(FixedLocator([100, 10_000]))
    calls.xaxis.set_major_locator(FixedLocator([0, 400]))
    seconds.xaxis.set_major_locator(FixedLocator([0.01, 1]))
    _percent(right.xaxis)
    for ax in (tokens, calls, seconds):
        style.human_axis(ax.xaxis)
        ax.xaxis.set_minor_locator(NullLocator())
        ax.tick_params(axis="y", length=0)
    fig.legend(handles=[once, again], loc="outside upper right", ncols=2, columnspacing=1.0, handletextpad=0.1)

    def update(result):
        for kind, dots in kinds.items():
            dots.set_data(*((result.accuracy[kind], rows) if kind in result.accuracy else ([], [])))
        for bars, widths in ((read, result.costs.tokens - 1), (write, result.costs.write_calls)):
            for bar, width in zip(bars, widths):
                bar.set_width(max(width, 0))
        once.set_data(result.costs.write_seconds.where(result.costs.write_seconds > 0), rows)
        again.set_data(result.costs.read_seconds, rows)
        _legend_of_drawn(fig, kinds.values(), ncols=4, columnspacing=1.0, handletextpad=0.1, markerscale=0.8)
        return [*read, *write, once, again, *kinds.values()]

    return update


def table_comparison(result: Comparison) -> pd.DataFrame:
    """Accuracy by kind, and the costs: of a question, of writing (once), and of the extra calls that are an assumption."""
    costs = result.costs
    frame = result.accuracy.assign(**{
        "tokens": costs.tokens, "calls": costs.calls, "write calls": costs.write_calls, "+ assumed calls": costs.extra_calls,
        "GPU s once": costs.write_seconds, "GPU s each": costs.read_seconds})
    frame.attrs["format"] = dict.fromkeys(KINDS, "{:.1%}") | {"tokens": "{:,.0f}", "calls": "{:.2f}", "write calls": "{:,.0f}",
                                                              "+ assumed calls": "{:,.0f}", "GPU s once": "{:.2f}", "GPU s each": "{:.4f}"}
    return frame.rename_axis(index=None)


def alt_comparison(result: Comparison) -> str:
    """Accuracy of all systems in words."""
    said = "; ".join(f"{name}: {', '.join(f'{kind} {value:.0%}' for kind, value in row.items())}, {result.costs.tokens[name]:,.0f} tokens"
                     for name, row in result.accuracy.iterrows())
    return f"A row a system, {result.questions:,} questions; accuracy by kind, and tokens read per question. {said}."


# -- panel 3: RAG ---------------------------------------------------------------------------------------------------


def draw_rag(fig, result: RagStudy):
    """Left: accuracy by tokens read, a curve a chunk size.  Right: accuracy by chunk size, here and in the paper.

    Without `others` only the chosen chunk size has its curve: what another one does with the same budget is to be predicted first.
    """
    spent, sizes = fig.subplots(1, 2, width_ratios=(1.15, 1))
    (own,) = spent.plot([], [], color=style.SKY, linewidth=6, label="your chunk size", zorder=1.5)
    curves = {chunk: spent.plot([], [], label=f"chunks of {chunk:,}", **style.line(i) | {"linewidth": 2, "markersize": 5})[0]
              for i, chunk in enumerate(_CURVES)}
    (graph,) = spent.plot([], [], linestyle="none", marker="*", markersize=17, color=style.BLACK, label="mem0 graph")
    (lecture,) = spent.plot([], [], linestyle="none", marker="s", markersize=15, markerfacecolor="none", markeredgecolor=style.BLACK,
                            markeredgewidth=1.8, label="lecture notes' RAG")
    (paper,) = spent.plot([], [], linestyle="none", marker="x", markersize=9, markeredgewidth=2.5, color=style.GREY, label="the paper's RAG sizes")
    (dot,) = spent.plot([], [], linestyle="none", marker="o", markersize=13, color=style.YELLOW, markeredgecolor=style.BLACK, label="yours")
    spent.set(xscale="log", xlim=(60, 40_000), ylim=(-0.02, 1.04), xlabel="tokens read per question", ylabel="accuracy, here")
    style.human_axis(spent.xaxis)
    _percent(spent.yaxis)
    _percent(sizes.yaxis)
    (budget,) = sizes.plot([], [], color=style.BLACK, marker="o", label="same budget as yours")
    (same_k,) = sizes.plot([], [], color=style.BLACK, linestyle=":", marker="o", markerfacecolor="white", label="same k as yours")
    judged = [sizes.plot(result.paper.index, result.paper[k], color=style.GREY, linestyle=dash, marker="x", label=f"paper's J, k = {k}")[0]
              for k, dash in zip(result.paper, ("--", "-"))]
    sizes.set(xscale="log", xlim=(55, 9_500), ylim=(-0.02, 1.04), xlabel="chunk (tokens)", ylabel="accuracy, or J in the paper")
    sizes.xaxis.set_major_locator(FixedLocator([64, 256, 1_024, 4_096]))
    sizes.xaxis.set_major_formatter("{x:,.0f}")
    for ax in (spent, sizes):
        ax.xaxis.set_minor_locator(NullLocator())
    always, with_others = [own, dot, graph, paper, same_k], [*curves.values(), lecture, budget]

    def update(result):
        grid, others = result.grid, result.others
        for chunk, curve in ((result.chunk, own), *curves.items()):
            shown = grid.loc[chunk] if others or curve is own else grid[:0]
            curve.set_data(shown.tokens, shown.accuracy)
        for marks, pairs in ((lecture, _LECTURE_RAG * others), (paper, [(chunk, k) for k in (1, 2) for chunk in CHUNKS[1:]]),
                             (dot, [(result.chunk, result.k)])):
            at = grid.loc[pairs]
            marks.set_data(at.tokens, at.accuracy)
        graph.set_data([result.graph[0]], [result.graph[1]])
        same_k.set_data(result.same_k.index, result.same_k)
        budget.set_data(*((result.budget.index, result.budget) if others else ([], [])))
        _legend_of_drawn(fig, [*always, *judged, *with_others], ncols=4, columnspacing=1.0, handlelength=2.5)
        return always + with_others

    return update


def table_rag(result: RagStudy) -> pd.DataFrame:
    """What becomes of the questions of each kind with the chosen chunks."""
    frame = result.outcomes.rename(columns={"stale": "only older values found", "missing": "nothing found"}).rename_axis(index=None, columns=None)
    frame.attrs["format"] = dict.fromkeys(frame.columns, "{:.1%}") | {"tokens": "{:,.0f}"}
    return frame.assign(tokens=result.grid.tokens[result.chunk, result.k])


def alt_rag(result: RagStudy) -> str:
    """The chosen point and its rivals."""
    at = result.grid.loc[(result.chunk, result.k)]
    same = ", ".join(f"{chunk:,}: {value:.0%}" for chunk, value in result.budget.items())
    return (f"RAG with {result.k} chunk{'s' * (result.k > 1)} of {result.chunk:,} tokens reads {at.tokens:,.0f} tokens and answers {at.accuracy:.0%} "
            f"of {result.kind} questions; mem0 graph reads {result.graph[0]:,.0f} and answers {result.graph[1]:.0%}."
            + f" With the same budget by chunk size: {same}." * result.others)


# -- panel 4: errors when writing -----------------------------------------------------------------------------------


def draw_write_errors(fig, result: WriteErrors):
    """Left: accuracy of mem0 graph by probability of one error alone.  Right: the full context by alpha, and the stores as chosen.

    The curve of the full context is drawn as far as alpha has been moved: where it meets the stores is to be predicted first.
    """
    alone, reader = fig.subplots(1, 2, sharey=True)
    names, mark = list(result.alone), {"linestyle": "none", "markersize": 13, "markeredgecolor": style.BLACK}
    curves = [alone.plot([], [], label=name, **style.line(i) | {"marker": ""})[0] for i, name in enumerate(names)]
    dots = [alone.plot([], [], **style.line(i) | mark)[0] for i in range(len(names))]
    alone.set(xlim=(-0.03, 1.03), ylim=(-0.02, 1.06), xlabel="probability of the error, all else perfect", ylabel="accuracy, all questions")
    _percent(alone.xaxis)
    _percent(alone.yaxis)
    alone.set_title("mem0 graph, one error alone", fontsize=12)
    (full,) = reader.plot([], [], label="full context", color=style.BLACK)
    (dot,) = reader.plot([], [], **style.line(6) | mark)
    levels = {name: reader.plot([0, 1.5], [0, 0], label=f"{name}, all errors", **_look(name) | {"marker": ""})[0]
              for name in ("mem0 graph", "mem0", "add-only")}
    reader.set(xlim=(-0.04, 1.54), xlabel="alpha: how easily the middle is overlooked")
    reader.set_title("All errors together, as you set them", fontsize=12)
    (yours,) = reader.plot([], [], marker="o", label="your settings", **mark | {"color": "white"})
    fig.legend(handles=[*curves, full, *levels.values(), yours], loc="outside upper left", ncols=3, columnspacing=1.2)

    def update(result):
        for curve, dots_of, name in zip(curves, dots, names):
            curve.set_data(result.alone.index, result.alone[name])
            dots_of.set_data(*([value] for value in result.at[name]))
        alpha, accuracy = result.full
        walked = result.alpha[result.alpha.index < alpha]
        full.set_data([*walked.index, alpha], [*walked, accuracy])
        dot.set_data([alpha], [accuracy])
        for name, level in levels.items():
            level.set_ydata([result.together["all"][name]] * 2)
        return [*curves, full, *levels.values(), *dots, dot]

    return update


def table_write_errors(result: WriteErrors) -> pd.DataFrame:
    """Accuracy with all chosen errors together, then with each alone."""
    together = result.together.rename(index=lambda name: f"{name}, {'your alpha' if name == 'full context' else 'all errors'}")
    frame = together.rename_axis(index=None, columns=None)
    for name, (probability, value) in result.at.items():
        frame.loc[f"mem0 graph, {name} ({100 * probability:.0f} %), alone"] = [value, np.nan, np.nan, np.nan]
    frame.attrs["format"] = dict.fromkeys(frame.columns, "{:.1%}")
    return frame


def alt_write_errors(result: WriteErrors) -> str:
    """Each error alone, and all together."""
    alone = "; ".join(f"{name} with a probability of {p:.0%}: {value:.0%}" for name, (p, value) in result.at.items())
    together = ", ".join(f"{name} {value:.0%}" for name, value in result.together["all"].items())
    return (f"Accuracy of mem0 graph with one error alone: {alone}. All errors together, and a full context read with alpha "
            f"{result.full[0]:.2f}: {together}.")


# -- panel 5: length ------------------------------------------------------------------------------------------------

_MEASURES = {  # label, short name, scale, limits
    "accuracy": ("accuracy", "accuracy", "linear", (-0.02, 1.04)), "tokens": ("tokens read per question", "tokens", "log", (100, 3e5)),
    "write_calls": ("calls of the model to write", "calls", "linear", (-60, 3_000))}


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
        label, _, scale, limits = _MEASURES[result.measure]
        if ax.get_ylabel() != label:
            ax.set(yscale=scale, ylim=limits, ylabel=label)
            ax.yaxis.set_minor_locator(NullLocator())
            (_percent if result.measure == "accuracy" else style.human_axis)(ax.yaxis)
        for name, line in lines.items():
            line.set_data(result.table.index, result.table[name])
        return list(lines.values())

    return update


def table_lengths(result: Lengths) -> pd.DataFrame:
    """The measure by system and length."""
    short = _MEASURES[result.measure][1]  # stands in the head, so that calls are not set against an accuracy at the start
    frame = result.table.T.rename(columns=lambda turns: f"{short} at {turns:,}").rename_axis(index=None, columns=None)
    frame.attrs["format"] = dict.fromkeys(frame.columns, "{:.1%}" if result.measure == "accuracy" else "{:,.0f}")
    return frame


def alt_lengths(result: Lengths) -> str:
    """First and last value of each line."""
    digits = "{:.0%}" if result.measure == "accuracy" else "{:,.0f}"
    ends = "; ".join(f"{name}: {digits.format(line.iloc[0])} to {digits.format(line.iloc[-1])}" for name, line in result.table.items())
    return f"{_MEASURES[result.measure][0].capitalize()} from 600 to 4,800 messages ({result.kind} questions). {ends}."


# -- panel 6: reads per write ---------------------------------------------------------------------------------------


def draw_budget(fig, result: Budget):
    """Cost of a conversation by the number of questions; the cheapest that is accurate enough is underlaid in yellow."""
    ax = fig.subplots()
    (cheapest,) = ax.plot([], [], color=style.YELLOW, linewidth=12, solid_capstyle="round", label="cheapest", zorder=1)
    lines = {name: ax.plot([], [], label=name, **_look(name) | {"markevery": 5})[0] for name in result.curves}
    (here,) = ax.plot([], [], color=style.BLACK, linewidth=1.5, linestyle=":", label="your number of questions")
    said = ax.text(0.5, 0.6, "", transform=ax.transAxes, ha="center")
    ax.set(xscale="log", yscale="log", xlim=(0.9, 11_000), xlabel="questions put to one conversation of 600 messages")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_locator(NullLocator())
        style.human_axis(axis)
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
        here.set_data(*(([result.questions] * 2, ax.get_ylim()) if fits.any() else ([], [])))
        said.set_text("" if fits.any() else f"{result.where}: the weights leave no memory for KV")
        return [cheapest, *lines.values(), here, said]

    return update


def cheaper(low: float, high: float) -> str:
    """For how many questions something is cheaper, in words."""
    if low == np.inf or high <= 1:
        return "never"
    if high < np.inf:
        return f"up to {int(np.ceil(high)) - 1:,}"
    return "always" if low == 0 else f"from {int(np.floor(low)) + 1:,} on"


_UNIT_SHORT = {"GPU seconds": ("GPU s", "{:,.2f}", "{:,.3f}"), "tokens of prefill": ("tokens", "{:,.0f}", "{:,.0f}")}  # name, digits of many, of one


def table_budget(result: Budget) -> pd.DataFrame:
    """Accuracy and costs a system, and for how many questions it is cheaper than the full context."""
    table, (unit, many, one) = result.table, _UNIT_SHORT[result.unit]
    once, again, total, kv, against = f"{unit} once", f"{unit} each", f"{unit} in all", "KV (GB)", "cheaper than full context"
    frame = pd.DataFrame({"accuracy": table.accuracy, once: table.once, again: table.a_question, total: table.total, kv: table.kv_gb,
                          against: [cheaper(row.cheaper_from, row.cheaper_to) for row in table.itertuples()]})
    frame = frame.replace(np.inf, "does not fit")
    frame.loc["full context", against] = "-"
    frame.attrs["format"] = {"accuracy": "{:.1%}", once: many, again: one, total: many, kv: "{:.3f}"}
    return frame.rename_axis(index=None)


def alt_budget(result: Budget) -> str:
    """Who is cheapest at the chosen number of questions."""
    allowed = result.table[result.table.allowed & np.isfinite(result.table.total)]
    winner = f"{allowed.total.idxmin()} is cheapest of those allowed" if len(allowed) else "no system qualifies"
    said = "; ".join(f"{name}: {total:,.1f}" if total < np.inf else f"{name} does not fit" for name, total in result.table.total.items())
    asked = f"{result.questions:,} question{'s' * (result.questions != 1)}"
    return f"Rising lines on log axes, {result.where}. With {asked}, in {result.unit}: {said}. There {winner}."
