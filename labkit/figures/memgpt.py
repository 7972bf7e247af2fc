"""Figures, tables and descriptions for the MemGPT notebook: the main context, nested look-ups, recall, prefill by cause."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.collections import PolyCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, PercentFormatter

from labkit import reference
from labkit.figures import style
from labkit.figures.kv_cost import few_ticks, legend_of, nice_limit, seconds
from labkit.figures.prefix_cache import PromptStack
from labkit.memgpt_demos import NestedLookup
from labkit.memgpt_serving import CAUSES, LAYOUTS
from labkit.memgpt_studies import PARTS, SESSIONS, MainContext, PrefillStudy, RecallStudy, papers_zero_levels

# -- the main context ----------------------------------------------------------------------------------------------

_PART_LABELS = {"system": "system instructions", "working": "working context", "summary": "recursive summary", "messages": "messages"}
_LIMITS = (("window", "window", "-"), ("warn_at", "warning above this", "--"), ("evict_to", "left by an eviction", ":"))
_WIDTH, _NEWEST = 30, 6  # characters of a message in the table, and how many messages it lists


def draw_main_context(fig, result: MainContext):
    """The prompt at each call, part on part, the cached prefix pale; the chosen call framed and told in a line."""
    ax = fig.subplots()
    stack = PromptStack(ax, _PART_LABELS)
    lines = {name: ax.plot([0, 200], [0, 0], color=style.BLACK, linestyle=dash, linewidth=1.8, label=label)[0]
             for name, label, dash in _LIMITS}
    (frame,) = ax.plot([], [], color=style.BLACK, linewidth=3.5)
    said = ax.text(0.005, 0.995, "", transform=ax.transAxes, va="top")
    ax.set(xlabel="call", ylabel="prompt (tokens)")
    ax.grid(axis="x", visible=False)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    handles = dict(zip((*_PART_LABELS, "cached"), stack.handles)) | lines

    def update(result):
        legend_of(fig, handles, {name for name in handles if name not in PARTS or result.tokens[name].any()})
        ax.set(xlim=(0.5, 20 * np.ceil(len(result.trace) / 20) + 0.5), ylim=(0, 500 * np.ceil(1.1 * result.window / 500)))
        stack.update(result.tokens, result.trace["cached"])
        for name, line in lines.items():
            line.set_ydata([getattr(result, name)] * 2)
        height = result.row["prompt"]
        frame.set_data(np.array([-0.5, -0.5, 0.5, 0.5, -0.5]) + result.step, [0, height, height, 0, 0])
        said.set_text(in_words(result))
        return [*stack.moving, *lines.values(), frame, said]

    return update


def in_words(result: MainContext) -> str:
    """The chosen call in a line: what led to it, what the model called, what was computed and why."""
    row = result.row
    return (f"call {result.step} of {len(result.trace)}: {row['event']}, then {row['function']}"
            f"{'' if row['ok'] else ' (fails)'}; {row['prefill']} tokens computed ({row['cause']})")


def table_main_context(result: MainContext) -> pd.DataFrame:
    """The chosen prompt, part by part and its newest messages: tokens, from the cache, computed; then the whole conversation."""
    row, trace, segments = result.row, result.trace, result.snapshot.segments
    rows = {f"call {result.step} of {len(trace)}: {row['function']}": (row["prompt"], row["cached"])}
    for part, label in _PART_LABELS.items():
        inside = [s for s in segments if (s.kind if s.kind in PARTS else "messages") == part]
        rows[label] = (sum(s.tokens for s in inside), sum(s.cached for s in inside))
    queue = [(i, s) for i, s in enumerate((s for s in segments if s.kind not in PARTS), 1)][-_NEWEST:]
    rows |= {f"  message {i}, {s.kind}: {_cut(s.text)}": (s.tokens, s.cached) for i, s in queue}
    whole = f"all {len(trace)} calls: {trace['warned'].sum()} warnings, {(trace['evicted'] > 0).sum()} evictions"
    rows[whole] = (trace["prompt"].sum(), trace["cached"].sum())
    frame = pd.DataFrame(list(rows.values()), index=list(rows), columns=["tokens", "from the cache"])
    frame["computed"] = frame["tokens"] - frame["from the cache"]
    return frame


def _cut(text):
    text = " ".join(text.split())
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


def alt_main_context(result: MainContext) -> str:
    """What the columns show now."""
    return (f"{len(result.trace)} columns, one a call, that grow towards the window of {result.window:,} tokens and fall back at each "
            f"eviction. Framed: {in_words(result)}, of {result.row['prompt']}.")


# -- nested look-ups -----------------------------------------------------------------------------------------------


def draw_nested(fig, result: NestedLookup):
    """Accuracy against nesting level: all hops in one call, one hop a call, and where the paper's models are at 0 %."""
    ax = fig.subplots()
    levels = result.table.index
    (one_by_one,) = ax.plot(levels, levels, label="one look-up per call (heartbeats)", **style.line(0) | {"markersize": 13})
    (exact,) = ax.plot(levels, levels, label="all hops in one call, exact", **style.line(3) | {"marker": ""})
    (tried,) = ax.plot(levels, levels, linestyle="none", marker="D", markersize=7, color=style.VERMILION, label="all hops in one call, 1,000 trials")
    papers = papers_zero_levels()
    for i, (model, level) in enumerate(papers.items()):
        same = [other for other in papers if papers[other] == level]  # side by side
        ax.plot([level + 0.12 * (same.index(model) - (len(same) - 1) / 2)], [0], linestyle="none", marker=("v", "X", "P")[i % 3], markersize=13,
                color=style.PALETTE[i + 4], clip_on=False, zorder=4, label=f"paper: {model}, fixed context, 0 %")
    ax.set(xlim=(-0.2, 4.2), ylim=(-0.05, 1.08), xlabel="nesting level (0: one look-up)", ylabel="right answers", xticks=levels)
    ax.yaxis.set_major_formatter(PercentFormatter(1))
    style.legend_outside(fig, ax, ncols=2)

    def update(result):
        for line, column in ((one_by_one, "heartbeat"), (exact, "fixed_exact"), (tried, "fixed")):
            line.set_ydata(result.table[column])
        return [one_by_one, exact, tried]

    return update


def table_nested(result: NestedLookup) -> pd.DataFrame:
    """By level: look-ups, share right and calls, in one call and one hop a call."""
    names = {"lookups": "look-ups", "fixed_exact": "one call, exact", "fixed": "one call, trials", "heartbeat": "heartbeats", "heartbeat_calls": "calls"}
    frame = result.table[list(names)].rename(columns=names)
    frame.index = [f"level {level}" for level in frame.index]
    frame.attrs["format"] = dict.fromkeys(("one call, exact", "one call, trials", "heartbeats"), "{:.1%}")
    return frame


def alt_nested(result: NestedLookup) -> str:
    """What the lines show now."""
    falls = ", ".join(f"{share:.0%}" for share in result.table["fixed_exact"])
    paper = "; ".join(f"{model} at level {level}" for model, level in papers_zero_levels().items())
    return (f"From level 0 to 4 the fixed context falls: {falls}; the agent with heartbeats stays at "
            f"{result.table['heartbeat'].min():.0%}. Points on the zero line, as the paper reports: {paper}.")


# -- recall --------------------------------------------------------------------------------------------------------

_SYSTEMS = {"truncation": "truncation", "summary": "recursive summary", "memgpt": "MemGPT", "memgpt_no_warning": "MemGPT without warning"}
_LECTURE = {  # figures of the lecture notes at the start settings, by system and number of sessions
    "truncation": {40: "l11-m-trunc40"}, "summary": {10: "l11-m-summ10", 40: "l11-m-summ40"},
    "memgpt": {10: "l11-m-memgpt10", 20: "l11-m-memgpt20", 40: "l11-m-memgpt40"}, "memgpt_no_warning": {10: "l11-m-nowarn10"},
}


def draw_recall(fig, result: RecallStudy):
    """Accuracy against sessions, a line a system; rings: the lecture notes at the start settings."""
    ax = fig.subplots()
    lines = {name: ax.plot(SESSIONS, SESSIONS, label=label, **style.line(i))[0] for i, (name, label) in enumerate(_SYSTEMS.items())}
    ring = {"linestyle": "none", "markersize": 17, "marker": "o", "markerfacecolor": "none", "markeredgewidth": 2}
    rings = {name: ax.plot(list(points), [reference.lecture_figure(figure) for figure in points.values()], color=lines[name].get_color(), **ring)[0]
             for name, points in _LECTURE.items()}
    (here,) = ax.plot([0, 0], [0, 1.05], color=style.GREY, linewidth=1.5, linestyle=":", label="sessions chosen")
    ax.set(xlim=(0, 42), ylim=(0, 1.05), xlabel="sessions before the questions", ylabel="right answers", xticks=SESSIONS)
    ax.yaxis.set_major_formatter(PercentFormatter(1))
    handles = lines | {"rings": Line2D([], [], color=style.BLACK, label="lecture notes, start settings", **ring), "here": here}

    def update(result):
        for name, line in lines.items():
            shown = name in result.accuracy
            line.set_visible(shown)
            rings[name].set_visible(shown)
            if shown:
                line.set_ydata(result.accuracy[name])
        here.set_xdata([result.sessions] * 2)
        legend_of(fig, handles, {*result.accuracy, "rings", "here"}, ncols=3)
        return [here, *lines.values(), *rings.values()]

    return update


def table_recall(result: RecallStudy) -> pd.DataFrame:
    """By system: accuracy and standard error at the chosen length, accuracy at the lengths of the lecture notes."""
    systems = {name: label for name, label in _SYSTEMS.items() if name in result.accuracy}
    accuracy, error = (frame[list(systems)].rename(columns=systems) for frame in (result.accuracy, result.error))
    frame = pd.DataFrame({f"{result.sessions} sessions, chosen": accuracy.loc[result.sessions], "standard error": error.loc[result.sessions]})
    for sessions in (5, 10, 20, 40):
        frame[f"after {sessions}"] = accuracy.loc[sessions]
    frame.attrs["format"] = dict.fromkeys(frame.columns, "{:.1%}")
    return frame.rename_axis(None)


def alt_recall(result: RecallStudy) -> str:
    """What the lines show now."""
    at = result.accuracy.loc[[result.sessions, SESSIONS[-1]]]
    said = "; ".join(f"{label} {at[name].iloc[0]:.0%} and {at[name].iloc[1]:.0%}" for name, label in _SYSTEMS.items() if name in at)
    return (f"{'Four' if len(at.columns) == 4 else 'Three'} lines of right answers against {SESSIONS[0]} to {SESSIONS[-1]} sessions. "
            f"After {result.sessions} and {SESSIONS[-1]} sessions: {said}.")


# -- prefill by cause ----------------------------------------------------------------------------------------------

_CAUSES = {"new": "new messages", "edit": "behind an edit", "evict": "behind an eviction", "moved": "working context moved"}


def draw_prefill(fig, result: PrefillStudy):
    """Left: prefill by cause, a bar a layout served.  Right: prompt and computed tokens of each call, in the layout chosen."""
    bars, calls = fig.subplots(1, 2, width_ratios=(1.2, 1))
    rows = np.arange(len(LAYOUTS))
    areas = {cause: bars.barh(rows, 0, 0.42, **style.area(i)) for i, cause in enumerate(CAUSES)}
    handles = {cause: Patch(label=_CAUSES[cause], **style.area(i)) for i, cause in enumerate(CAUSES)}
    for row, name in enumerate(LAYOUTS):
        bars.text(0.05, row - 0.27, f"layout {name}", transform=bars.get_yaxis_transform(), va="bottom")
    (chosen,) = bars.plot([0.02], [0], transform=bars.get_yaxis_transform(), linestyle="none", marker=">", markersize=11, color=style.BLACK,
                          clip_on=False, label="drawn on the right")
    ends = [bars.text(0, row, "", va="center", fontweight="bold") for row in rows]
    bars.set(ylim=(2.45, -0.85), yticks=[], xlabel="prefill (thousand tokens), and its GPU time")
    few_ticks(bars.xaxis)
    (prompt,) = calls.plot([], [], color=style.BLACK, linewidth=1.5, label="prompt of a call")
    computed = {cause: calls.add_collection(PolyCollection([], color=style.PALETTE[i], linewidth=0)) for i, cause in enumerate(CAUSES)}
    calls.set(xlim=(0, 200), xlabel="call (the first 200)", ylabel="tokens of a call; bars: computed")
    style.human_axis(calls.yaxis)
    handles |= {"prompt": prompt, "chosen": chosen}

    def update(result):
        totals = {name: each.prefill_tokens / 1000 for name, each in result.results.items()}
        drawn = {cause for each in result.results.values() for cause in CAUSES if each.prefill[cause]}
        legend_of(fig, handles, {*drawn, "prompt", "chosen"}, ncols=3)
        limit = nice_limit(max(1_000, 1.5 * max(totals.values())))
        bars.set_xlim(0, limit)
        for row, name in enumerate(LAYOUTS):
            left = 0.0
            for cause, patches in areas.items():
                width = result.results[name].prefill[cause] / 1000 if name in totals else 0.0
                patches[row].set(x=left, width=width, visible=width > 0)
                left += width
            text = f"{totals[name]:,.0f}k, {seconds(result.seconds[name])}" if name in totals else "?"
            ends[row].set(text=text, x=left + 0.01 * limit)
        chosen.set_ydata([list(LAYOUTS).index(result.layout) - 0.37])
        calls.set_ylim(0, nice_limit(1.01 * result.window))
        table = result.chosen.calls_table.iloc[:200]
        prompt.set_data(table.index, table["prompt"])
        for cause, area in computed.items():
            part = table.loc[table["cause"] == cause, "prefill"]
            area.set_verts(_bars(part.index.to_numpy(), part.to_numpy()))
        return [*(patch for patches in areas.values() for patch in patches), *ends, chosen, *computed.values(), prompt]

    return update


def _bars(x, height):
    """Corners of bars one wide, centred on x: an array (bars, 4, 2)."""
    low = np.zeros(len(x))
    return np.stack([np.column_stack([x - 0.5, low]), np.column_stack([x - 0.5, height]), np.column_stack([x + 0.5, height]),
                     np.column_stack([x + 0.5, low])], axis=1)


def table_prefill(result: PrefillStudy) -> pd.DataFrame:
    """By layout: prefill by cause (tokens), totals, events and GPU seconds."""
    columns = {}
    for name, each in result.results.items():
        columns[name] = {_CAUSES[cause]: each.prefill[cause] for cause in CAUSES}
        columns[name] |= {"prefill, all": each.prefill_tokens, "saved by the cache": f"{each.saved:.1%}", "calls": each.calls,
                          "edits": each.edits, "times warned": each.warnings, "times evicted": each.evictions,
                          "mean prompt": round(each.mean_prompt), "prefill, GPU s": f"{result.seconds[name]:.2f}",
                          "without a cache, GPU s": f"{result.seconds_uncached[name]:.1f}"}
    return pd.DataFrame(columns, dtype=object)


def alt_prefill(result: PrefillStudy) -> str:
    """What the bars show now."""
    said = []
    for name, each in result.results.items():
        causes = ", ".join(f"{_CAUSES[cause]} {tokens:,}" for cause, tokens in each.prefill.items() if tokens)
        said.append(f"{name}, {each.prefill_tokens:,} tokens ({causes})")
    return f"Stacked bars of prefill by cause, a bar a layout: {'; '.join(said)}. Beside them the prompt of each of the first 200 calls and what of it was computed, layout {result.layout}."
