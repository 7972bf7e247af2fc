"""Figures, tables and descriptions for the ACE notebook: the playbook's text, serving, learning, where rewriting catches up."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pandas as pd
from matplotlib.collections import PathCollection
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Patch, Rectangle
from matplotlib.textpath import TextPath, text_to_path
from matplotlib.ticker import MaxNLocator, PercentFormatter
from matplotlib.transforms import Affine2D

from labkit.ace_learners import WAYS
from labkit.ace_serving import MODES
from labkit.ace_studies import COLLAPSES, PARTS, RENDERINGS, CatchingUp, Learning, PlaybookCost, PlaybookSteps
from labkit.figures import style
from labkit.figures.kv_cost import nice_limit
from labkit.figures.prefix_cache import PromptStack

# -- the playbook, step by step ------------------------------------------------------------------------------------

_ROWS, _COLUMNS = 13, (1.1, 1)  # lines of a prompt that there is room for, and of what width: counters make lines longer
_FONT = FontProperties(family=style.RC["font.family"], size=12)
_HELD, _NEW = "#B3DCEF", "#F7DFB2"  # pale blue and pale orange, so that black text can be read on both


def draw_playbook_steps(fig, result: PlaybookSteps):
    """The prompt of one task as text, once a rendering, coloured by what the cache held; below, the share of each prompt so far."""
    top, bottom = fig.subfigures(2, 1, height_ratios=(2.6, 1))  # so that the labels below don't narrow the text above
    columns = {}
    room = {name: 72 * fig.get_figwidth() * part / sum(_COLUMNS) - 16 for name, part in zip(RENDERINGS, _COLUMNS)}  # points
    for ax, name in zip(top.subplots(1, 2, width_ratios=_COLUMNS), RENDERINGS):
        ax.set(xlim=(0, 1), ylim=(_ROWS, 0), title=name)
        ax.axis("off")
        blocks = [ax.add_patch(Rectangle((0, 0), 1, 0, facecolor=colour)) for colour in (_HELD, _NEW)]
        columns[name] = blocks, ax.add_collection(
            PathCollection([], offsets=[(0, 0)], offset_transform=ax.transData,
                           transform=Affine2D().scale(1 / 72) + fig.dpi_scale_trans, color=style.BLACK, linewidth=0))
    ax, share = bottom.subplots(), {}
    for i, name in enumerate(RENDERINGS):
        (share[name],) = ax.plot([], [], label=name, **style.line(i))
    here = ax.axvline(1, color=style.BLACK, linewidth=1.5)
    ax.set(xlim=(0.5, len(result.sizes[name]) + 0.5), ylim=(0, 1.05), xlabel="task", ylabel="cached")
    ax.yaxis.set_major_formatter(PercentFormatter(1))
    handles = [*share.values(), Patch(facecolor=_HELD, label="line from the cache"), Patch(facecolor=_NEW, label="line computed")]
    top.legend(handles=handles, loc="outside upper left", ncols=4, columnspacing=1.5, handlelength=2.5)

    def update(result):
        for name, ((held, new), text) in columns.items():
            lines = result.lines[name]
            kept = sum(cached for _, cached in lines)
            held.set_height(kept)
            new.set(y=kept, height=len(lines) - kept)
            text.set_paths([_outline(shorten(line, room[name])) for line, _ in lines])
            text.set_offsets([(0.008, row + 0.68) for row in range(len(lines))])
            sizes = result.sizes[name].loc[: result.step]  # what comes later is not told
            share[name].set_data(sizes.index, sizes["hit"] / sizes["prompt"])
        here.set_xdata([result.step] * 2)
        blocks = [block for blocks, _ in columns.values() for block in blocks]
        return [*blocks, *(text for _, text in columns.values()), *share.values(), here]

    return update


@lru_cache(maxsize=512)
def _outline(line):
    """A line of text as one path in points: drawn seven times faster than as text, glyph by glyph."""
    return TextPath((0, 0), line, prop=_FONT)


@lru_cache(maxsize=512)
def shorten(line: str, room: float) -> str:
    """A line that fits a column of so many points."""
    fits = [line, *(line[:n].rstrip() + "…" for n in range(len(line) - 1, 0, -1))]
    return next(text for text in fits if text_to_path.get_text_width_height_descent(text, _FONT, False)[0] <= room)


def table_playbook_steps(result: PlaybookSteps) -> pd.DataFrame:
    """For this prompt and for all: tokens, from the cache, computed, by rendering."""
    rows = {}
    for name, sizes in result.sizes.items():
        rows[f"task {result.step}, {name}"] = sizes.loc[result.step]
    for name, sizes in result.sizes.items():
        rows[f"all {len(sizes)} tasks, {name}"] = sizes.sum()
    frame = pd.DataFrame(rows).T.rename(columns={"prompt": "tokens", "hit": "from the cache"})
    frame["computed"] = frame["tokens"] - frame["from the cache"]
    frame["share cached"] = frame["from the cache"] / frame["tokens"]
    frame = frame.reindex([*frame.index, *(f"before it: {change}" for change in result.changes)]).astype(object).fillna("")
    frame.attrs["format"] = {"share cached": "{:.1%}"}
    return frame


def alt_playbook_steps(result: PlaybookSteps) -> str:
    """What the two columns of text show now."""
    said = "; ".join(f"{name}: the first {sum(held for _, held in lines)} of {len(lines)} lines" for name, lines in result.lines.items())
    before = f"Before it: {'; '.join(result.changes) or 'no change'}." if result.step > 1 else "It is the first prompt."
    return f"The prompt of task {result.step} ({result.task}) in two renderings. From the cache, {said}. {before}"


# -- serving -------------------------------------------------------------------------------------------------------

_PROMPT = {"system": "system", "playbook": "playbook", "task": "task"}
_CAUSES = {"prefill": "prefill", "answer": "decode: answers", "writing": "decode: writing the playbook", "reflection": "decode: reflection"}


def draw_playbook_cost(fig, result: PlaybookCost):
    """Left: the prompts of the chosen mode, the cached prefix pale.  Right: GPU seconds of all modes, by cause."""
    prompt, time = fig.subplots(1, 2, width_ratios=(1.15, 1))
    stack = PromptStack(prompt, _PROMPT)
    said = prompt.text(0.02, 0.97, "", transform=prompt.transAxes, va="top", fontweight="bold")
    prompt.set(xlim=(0.5, 300.5), xlabel="task", ylabel="prompt (tokens)")
    prompt.grid(axis="x", visible=False)
    style.human_axis(prompt.yaxis)
    rows = np.arange(len(MODES))
    bars = {part: time.barh(rows, 0, 0.42, **style.area(i + 3)) for i, part in enumerate(PARTS)}
    for row, name in enumerate(MODES):
        time.text(0.01, row - 0.3, name, transform=time.get_yaxis_transform(), va="bottom")
    ends = [time.text(0, row, "", va="center", fontweight="bold") for row in rows]
    time.set(ylim=(2.45, -0.85), xlabel="GPU time of 300 tasks (s)", yticks=[])
    time.grid(axis="y", visible=False)
    time.xaxis.set_major_locator(MaxNLocator(5))
    style.human_axis(time.xaxis)
    causes = [Patch(label=_CAUSES[part], **style.area(i + 3)) for i, part in enumerate(PARTS)]
    fig.legend(handles=[*stack.handles, *causes], loc="outside upper left", ncols=4, columnspacing=1.5, handlelength=2.5)

    def update(result):
        table = result.chosen.steps_table
        s = result.settings
        stack.update(pd.DataFrame({"system": s.system, "playbook": table["playbook"], "task": s.task}), table["hit"])
        prompt.set_ylim(0, nice_limit(1.2 * table["prompt"].max()))
        said.set_text(f"{s.mode}: {result.chosen.reuse:.1%} from the cache")
        limit = nice_limit(1.2 * result.seconds.sum(axis=1).max())
        time.set_xlim(0, limit)
        for row, (name, seconds) in enumerate(result.seconds.iterrows()):
            left = 0.0
            for part, patches in bars.items():
                patches[row].set(x=left, width=seconds[part], visible=seconds[part] > 0)
                left += seconds[part]
            ends[row].set(text=f"{left:,.0f} s", x=left + 0.01 * limit)
        return [*stack.moving, said, *(patch for patches in bars.values() for patch in patches), *ends]

    return update


def table_playbook_cost(result: PlaybookCost) -> pd.DataFrame:
    """The chosen mode beside appending: tokens, reuse, GPU seconds by cause, and what rewriting costs."""
    columns = {"chosen": result.settings.mode, "append": "append"}
    rows = {}
    for column, mode in columns.items():
        run, seconds = result.served[mode], result.seconds.loc[mode]
        rows[column] = {"prompt tokens": run.prompt_tokens, "from the cache": run.hit_tokens, "reuse": f"{run.reuse:.1%}",
                        "tokens written into the playbook": run.written, "playbook at the end (tokens)": run.final_playbook,
                        **{f"GPU s, {_CAUSES[part]}": f"{seconds[part]:,.1f}" for part in PARTS}, "GPU s, all": f"{seconds.sum():,.1f}",
                        "times appending": f"{seconds.sum() / result.seconds.loc['append'].sum():.2f}"}
    return pd.DataFrame(rows, dtype=object)


def alt_playbook_cost(result: PlaybookCost) -> str:
    """What prompts and bars show now."""
    bars = "; ".join(f"{mode} {seconds:,.0f} s" for mode, seconds in result.seconds.sum(axis=1).items())
    run = result.chosen
    return (f"300 prompts that grow to {run.final_playbook:,} tokens of playbook; in mode {result.settings.mode} {run.reuse:.1%} of their "
            f"tokens come from the cache. Bars of GPU time: {bars}.")


# -- learning ------------------------------------------------------------------------------------------------------

_WAYS = {"none": "no adaptation", "append": "append and refine (ACE)", "rewrite": "rewrite the whole", "brief": "short general prompt",
         "pile": "never cleaned"}


def draw_learning(fig, result: Learning):
    """Left: accuracy over tasks, of one way its band and its first world.  Right: lessons held at the end, right and wrong."""
    curve, held = fig.subplots(1, 2, width_ratios=(1.7, 1))
    fig.get_layout_engine().set(wspace=0.06)  # the last number of one axis is not the first of the next
    band = curve.fill_between([0, 1], 0, 0, color=style.GREY, alpha=0.25, linewidth=0, label="80 % of the worlds, way looked at")
    (one,) = curve.plot([], [], color=style.GREY, linewidth=1.2, label="one world alone")
    lines = {way: curve.plot([], [], label=label, **style.line(i) | {"marker": ""})[0] for i, (way, label) in enumerate(_WAYS.items())}
    start = curve.axvline(0, color=style.BLACK, linewidth=1, linestyle=":")
    curve.set(ylim=(0.45, 0.95), xlabel="task (before 0: training)", ylabel="accuracy")
    curve.yaxis.set_major_formatter(PercentFormatter(1))
    rows = np.arange(len(WAYS))
    right = held.barh(rows, 0, 0.42, label="right lessons", **style.area(5))
    wrong = held.barh(rows, 0, 0.42, label="wrong lessons", **style.area(6))
    for row, label in enumerate(_WAYS.values()):
        held.text(0.01, row - 0.3, label, transform=held.get_yaxis_transform(), va="bottom")
    ends = [held.text(0, row, "", va="center", fontweight="bold") for row in rows]
    held.set(ylim=(len(WAYS) - 0.55, -0.85), xlim=(0, 100), xlabel="lessons held at the end", yticks=[])
    held.grid(axis="y", visible=False)
    handles = [*lines.values(), one, band, right, wrong]
    fig.legend(handles=handles, loc="outside upper left", ncols=3, columnspacing=1.5, handlelength=2.5)

    def update(result):
        study = result.study
        training = int(study["training"].sum() / len(WAYS))
        curve.set_xlim(-training, len(study) // len(WAYS) - training)
        for way, line in lines.items():
            rows = study[study["way"] == way]
            line.set_data(rows["step"] - training, rows["accuracy"])
            if way == result.way:
                x = rows["step"].to_numpy() - training
                band.set_verts([np.column_stack([np.r_[x, x[::-1]], np.r_[rows["low"], rows["high"][::-1]]])])
                one.set_data(x, rows["example"])
        for row, way in enumerate(WAYS):
            good, bad = result.end.loc[way, ["lessons", "wrong"]]
            right[row].set_width(good)
            wrong[row].set(x=good, width=bad)
            ends[row].set(text=f"{good:.0f} + {bad:.0f}", x=good + bad + 1)
        return [band, one, start, *lines.values(), *right, *wrong, *ends]

    return update


def table_learning(result: Learning) -> pd.DataFrame:
    """One row a way: accuracy over the last tenth, tokens, lessons, GPU seconds; then the band of the way looked at."""
    columns = {"accuracy": "accuracy", "tokens": "tokens", "lessons": "right", "wrong": "wrong", "gpu_seconds": "GPU s"}
    frame = result.end[list(columns)].rename(columns=columns).astype(object)
    frame.index = [_WAYS[way] for way in frame.index]
    for name, column in (("10 %", "low"), ("90 %", "high")):
        frame.loc[f"way looked at: {name} of the worlds below"] = [result.end.loc[result.way, column], *[""] * 4]
    frame.loc["collapses of a rewriter"] = [f"{result.end.loc['rewrite', 'collapses']:.1f}", *[""] * 4]
    frame.attrs["format"] = {"accuracy": "{:.1%}", "tokens": "{:,.0f}", "right": "{:.0f}", "wrong": "{:.0f}", "GPU s": "{:,.0f}"}
    return frame


def alt_learning(result: Learning) -> str:
    """What the curves show now."""
    ends = "; ".join(f"{_WAYS[way]} {row['accuracy']:.1%}, {row['lessons']:.0f} right lessons and {row['wrong']:.0f} wrong"
                     for way, row in result.end.iterrows())
    low, high = result.end.loc[result.way, ["low", "high"]]
    return (f"Accuracy over tasks ({result.arm}, feedback right in {result.reliability:.0%}). At the end: {ends}. "
            f"The band is that of {_WAYS[result.way]}: {low:.1%} to {high:.1%} at the end.")


# -- where rewriting catches up ------------------------------------------------------------------------------------


def draw_catching_up(fig, result: CatchingUp):
    """Left: accuracy at the end of both.  Right: rewriting - appending in points, with its band over worlds."""
    level, gap = fig.subplots(1, 2)
    places = np.arange(len(result.sweep))
    (rewrite,) = level.plot([], [], label="rewrite the whole", **style.line(2))
    (append,) = level.plot([], [], label="append and refine (ACE)", **style.line(1) | {"marker": ""})
    (none,) = level.plot([], [], label="no adaptation", **style.line(0) | {"marker": ""})
    level.set(ylim=(0.45, 0.95), ylabel="accuracy at the end")
    level.yaxis.set_major_formatter(PercentFormatter(1))
    band = gap.fill_between(places, 0, 0, color=style.GREEN, alpha=0.25, linewidth=0, label="80 % of the worlds")
    (mean,) = gap.plot([], [], **style.line(2))
    gap.axhline(0, color=style.ORANGE, linestyle="--")
    gap.set(ylim=(-30, 15), ylabel="rewriting - appending (points)")
    names = [f"{100 * (1 - survival):.3g}" for survival in result.sweep["survival"]]
    for ax in (level, gap):
        ax.set(xlim=(-0.3, len(places) - 0.7), xlabel="lessons lost by a long rewrite (%)")
        ax.set_xticks(places, names)
    fig.legend(handles=[append, rewrite, none, band], loc="outside upper left", ncols=4, columnspacing=1.5, handlelength=2.5)

    def update(result):
        sweep = result.sweep
        rewrite.set_data(places, sweep["rewrite"])
        append.set_data(places, sweep["append"])
        none.set_data(places, np.full(len(places), result.base))
        mean.set_data(places, 100 * sweep["gap"])
        band.set_verts([np.column_stack([np.r_[places, places[::-1]], 100 * np.r_[sweep["low"], sweep["high"][::-1]]])])
        return [band, none, append, rewrite, mean]

    return update


def table_catching_up(result: CatchingUp) -> pd.DataFrame:
    """One row a survival: both accuracies, the gap in points and its band."""
    sweep = result.sweep
    frame = pd.DataFrame({"rewrite": sweep["rewrite"], "append": sweep["append"], "gap (points)": 100 * sweep["gap"],
                          "80 % of worlds": [f"{100 * low:+.1f} to {100 * high:+.1f}" for low, high in zip(sweep["low"], sweep["high"])]})
    frame.index = [f"{100 * (1 - survival):.3g} % lost" for survival in sweep["survival"]]
    frame.attrs["format"] = {"rewrite": "{:.1%}", "append": "{:.1%}", "gap (points)": "{:+.1f}"}
    return frame


def alt_catching_up(result: CatchingUp) -> str:
    """What the curves show now."""
    worst, best = 100 * result.sweep["gap"].iloc[[0, -1]]
    often = COLLAPSES.get(result.collapse, f"{result.collapse:.3g} per rewrite")
    return (f"As a rewrite loses fewer lessons, from 10 % to none, rewriting - appending goes from {worst:+.1f} to {best:+.1f} points "
            f"(collapses: {often}; feedback right in {result.reliability:.0%}; no adaptation: {result.base:.1%}).")
