"""Figures, tables and descriptions for prefix caches: prompts with their cached part, prompt order, trace replay."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter

from labkit.figures import style
from labkit.figures.kv_cost import seconds
from labkit.cache_studies import CAPACITIES, PROMPT_PARTS, PromptOrder, Replay

_KINDS = {"radix": "radix tree", "blocks": "blocks of the size chosen"}


class PromptStack:
    """Prompts side by side, each a column of its parts; pale is what came from the cache, full colour was computed.

    Parameters
    ----------
    ax : Axes
    parts : dict of part to label; the colours follow its order, the columns the order of the data.
    """

    def __init__(self, ax, parts):
        self._parts = {part: ax.add_collection(PolyCollection([], **style.area(i))) for i, part in enumerate(parts)}
        self._cached = ax.add_collection(PolyCollection([], facecolor="white", alpha=0.65, linewidth=0))
        self._labels = parts
        self.moving = [*self._parts.values(), self._cached]

    @property
    def handles(self):
        """Legend entries."""
        areas = [Patch(label=label, **style.area(i)) for i, label in enumerate(self._labels.values())]
        return [*areas, Patch(facecolor="#D9D9D9", label="pale: from the cache")]

    def update(self, tokens, hit):
        """Show a DataFrame of tokens (a row a prompt, a column a part, in prompt order) and the tokens that hit."""
        ends = tokens.cumsum(axis=1)
        for part, area in self._parts.items():
            top = ends[part].to_numpy()
            area.set_verts([_steps(top - tokens[part].to_numpy(), top)])
        self._cached.set_verts([_steps(np.zeros(len(hit)), np.asarray(hit))])


def _steps(low, high):
    """Corners of the area between two step lines over columns 1, 2, 3, ..."""
    x = np.repeat(np.arange(len(low) + 1), 2)[1:-1] + 0.5
    return np.concatenate([np.column_stack([x, np.repeat(low, 2)]), np.column_stack([x, np.repeat(high, 2)])[::-1]])


# -- the order of a prompt's parts ---------------------------------------------------------------------------------


def draw_prompt_order(fig, result: PromptOrder):
    """One column a request: its parts in prompt order from the bottom up, the cached prefix pale."""
    ax = fig.subplots()
    stack = PromptStack(ax, {part: part for part in PROMPT_PARTS})
    said = ax.text(0.01, 0.97, "", transform=ax.transAxes, va="top", fontweight="bold")
    n = len(result.tokens)
    ax.set(xlim=(0.5, n + 0.5), ylim=(0, 6_000), xlabel="request (six tasks of five steps)", ylabel="prompt (tokens)")
    style.human_axis(ax.yaxis)
    ax.grid(axis="x", visible=False)
    fig.legend(handles=stack.handles, loc="outside upper left", ncols=4, columnspacing=1.5, handlelength=2.5)

    def update(result):
        stack.update(result.tokens, result.hit)
        said.set_text(f"from the cache: {result.reuse:.1%} of all tokens;  prefill {seconds(result.seconds)} of GPU time")
        return [*stack.moving, said]

    return update


def table_prompt_order(result: PromptOrder) -> pd.DataFrame:
    """The parts in prompt order: tokens of all requests, and how many of them came from the cache."""
    tokens, cached = result.tokens.sum(), result.cached.sum()
    rows = {f"{place}. {part}": (PROMPT_PARTS[part].changes, tokens[part], cached[part], f"{cached[part] / tokens[part]:.1%}")
            for place, part in enumerate(result.tokens, 1)}
    rows["whole prompt"] = ("", tokens.sum(), cached.sum(), f"{result.reuse:.1%}")
    rows["GPU seconds of prefill"] = ("", "", "", f"{result.seconds:.2f}")
    return pd.DataFrame.from_dict(rows, orient="index", columns=["changes", "tokens", "from the cache", "share"], dtype=object)


def alt_prompt_order(result: PromptOrder) -> str:
    """What the columns show now."""
    return (f"{len(result.tokens)} columns, one a request, made of {', then '.join(result.tokens.columns)}. "
            f"The pale lower part, from the cache, is {result.reuse:.1%} of all tokens.")


# -- replay of a trace ---------------------------------------------------------------------------------------------


def draw_replay(fig, result: Replay):
    """Hit rate against capacity: radix tree and blocks, the chosen cache marked."""
    ax = fig.subplots()
    lines = {kind: ax.plot(CAPACITIES, result.rates[kind], label=label, **style.line(i))[0] for i, (kind, label) in enumerate(_KINDS.items())}
    (limit,) = ax.plot([CAPACITIES[0] * 0.8, CAPACITIES[-1] * 1.2], [0, 0], color=style.GREY, linestyle=":", label="your cache without a limit")
    (dot,) = ax.plot([], [], linestyle="none", marker="o", markersize=14, markerfacecolor="none", markeredgewidth=3,
                     color=style.BLACK, label="your cache")
    said = ax.text(0.985, 0.05, "", transform=ax.transAxes, ha="right")
    ax.set(xscale="log", xlim=(CAPACITIES[0] * 0.8, CAPACITIES[-1] * 1.2), ylim=(0, 0.7), xlabel="capacity (tokens of KV)",
           ylabel="hit rate (share of tokens)")
    ax.xaxis.set_major_locator(FixedLocator(CAPACITIES))
    ax.xaxis.set_minor_locator(NullLocator())
    style.human_axis(ax.xaxis)
    ax.yaxis.set_major_formatter(PercentFormatter(1))
    style.legend_outside(fig, ax)

    def update(result):
        for kind, line in lines.items():
            line.set_ydata(result.rates[kind])
        limit.set_ydata([result.infinite] * 2)
        dot.set_data([result.capacity], [result.rate])
        said.set_text(f"{result.rate:.1%} hit, {result.refused} of {result.requests} requests refused\n"
                      f"prefill {seconds(result.seconds)} instead of {seconds(result.seconds_uncached)} of GPU time")
        return [*lines.values(), limit, dot, said]

    return update


def table_replay(result: Replay) -> pd.DataFrame:
    """Hit rates by capacity, then what the chosen cache did."""
    rows = {f"{capacity:,} tokens": (f"{at['radix']:.1%}", f"{at['blocks']:.1%}") for capacity, at in result.rates.iterrows()}
    chosen = {"your cache": f"{result.rate:.1%}", "the same without a limit": f"{result.infinite:.1%}",
              f"refused of {result.requests} requests": result.refused, "tokens evicted": result.evicted,
              "prefill, GPU s": f"{result.seconds:.2f}", "without a cache, GPU s": f"{result.seconds_uncached:.2f}"}
    rows |= {name: ("", value) if result.cache == "blocks" else (value, "") for name, value in chosen.items()}
    return pd.DataFrame(rows, index=["radix tree", f"blocks of {result.block_size:,}"], dtype=object).T


def alt_replay(result: Replay) -> str:
    """What the two curves show now."""
    ends = {kind: (result.rates[kind].iloc[0], result.rates[kind].iloc[-1]) for kind in _KINDS}
    curves = "; ".join(f"{_KINDS[kind]} {low:.1%} to {high:.1%}" for kind, (low, high) in ends.items())
    return (f"Hit rate from {CAPACITIES[0]:,} to {CAPACITIES[-1]:,} tokens of capacity: {curves}. Your cache, {result.cache} with "
            f"{result.capacity:,} tokens, hits {result.rate:.1%}; without a limit it would hit {result.infinite:.1%}.")
