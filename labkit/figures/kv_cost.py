"""Figures, tables and descriptions for the KV-cost notebook: bytes, latency, throughput."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from labkit import reference
from labkit.controls import human
from labkit.figures import style
from labkit.kv_studies import GB, GIB, CacheSizes, Latency, Serving

_KINDS = {"full": "layers that keep every token", "window": "windowed layers", "state": "constant state", "weights": "weights"}
_PARTS = {"linear": "prefill: weights x tokens", "attention": "prefill: attention", "memory": "prefill: waiting for memory",
          "decode": "decode"}
_PAPER = reference.paper_results("Cartridges").set_index("metric")["value"]
_PAPER_DROP = _PAPER["peak throughput fall, context 1k -> 120k"]  # measured; our own drop is computed


def both(nbytes: float) -> str:
    """Bytes in decimal and in binary units: "16.8 GB = 15.6 GiB"."""
    for size, name in ((1, "G"), (1e3, "M"), (1e6, "k")):
        if nbytes >= GB / size:
            binary = GIB / {"G": 1, "M": 2**10, "k": 2**20}[name]
            return f"{nbytes / GB * size:,.1f} {name}B = {nbytes / binary:,.1f} {'K' if name == 'k' else name}iB"
    return f"{nbytes:,.0f} B"


def nice_limit(value: float) -> float:
    """The next of 1, 2, 5 times a power of ten: an axis limit that changes seldom while a slider moves."""
    power = 10.0 ** np.floor(np.log10(value))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= value * (1 - 1e-12))


def few_ticks(axis) -> None:
    """At most six ticks, with commas in thousands: labels that can't run into each other, however long they are."""
    axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(lambda value, _: f"{value:,.10g}")


def legend_of(fig, handles, drawn, ncols=4):
    """The legend above the axes with those handles (a dict by name) that are drawn now; made anew only when these change."""
    shown = [handle for name, handle in handles.items() if name in drawn]
    if fig.legends and [text.get_text() for text in fig.legends[0].get_texts()] == [handle.get_label() for handle in shown]:
        return
    for legend in list(fig.legends):
        legend.remove()
    fig.legend(handles=shown, loc="outside upper left", ncols=ncols, columnspacing=1.5, handlelength=2.5)


# -- bytes ---------------------------------------------------------------------------------------------------------


def draw_cache_sizes(fig, result: CacheSizes):
    """Bars: the cache of one sequence as chosen, with each saving undone, beside the weights; stacked by kind of layer."""
    ax = fig.subplots()
    rows = np.arange(4)
    bars = {kind: ax.barh(rows, 0, 0.42, **style.area(i)) for i, kind in enumerate(_KINDS)}
    handles = {kind: Patch(label=label, **style.area(i)) for i, (kind, label) in enumerate(_KINDS.items())}
    names = [ax.text(0.008, row - 0.3, "", transform=ax.get_yaxis_transform(), va="bottom") for row in rows]
    sizes = [ax.text(0, row, "", va="center", fontweight="bold") for row in rows]
    ax.set(ylim=(3.45, -0.85), xlabel="size in GB (1 GB = 10⁹ bytes)")
    ax.yaxis.set_major_locator(NullLocator())
    ax.grid(axis="y", visible=False)
    few_ticks(ax.xaxis)
    gib = ax.secondary_xaxis("top", functions=(lambda v: v * GB / GIB, lambda v: v * GIB / GB))
    few_ticks(gib.xaxis)
    gib.set_xlabel("size in GiB (1 GiB = 2³⁰ bytes)")

    def update(result):
        frame = result.variants.assign(weights=0)
        frame.loc[f"weights of {result.model}"] = [0, 0, 0, result.weights or 0]
        legend_of(fig, handles, {kind for kind in bars if frame[kind].any()})
        limit = nice_limit(1.3 * frame.sum(axis=1).max() / GB)
        ax.set_xlim(0, limit)
        for row in rows:
            left, used = 0.0, row < len(frame)
            for kind, patches in bars.items():
                size = frame[kind].iloc[row] / GB if used else 0.0
                patches[row].set(x=left, width=size, visible=size > 0)
                left += size
            names[row].set_text(frame.index[row] if used else "")
            sizes[row].set(text=both(left * GB) if left else "", x=left + 0.008 * limit)
        return [*(patch for patches in bars.values() for patch in patches), *sizes]

    return update


def table_cache_sizes(result: CacheSizes) -> pd.DataFrame:
    """One row a design: GB, GiB, bytes a token on average, times the chosen design; then the state and the next token, if any."""
    total = result.variants.sum(axis=1)
    frame = pd.DataFrame({"GB": total / GB, "GiB": total / GIB, "KiB a token, mean": total / result.tokens / 1024,
                          "x as chosen": total / total.iloc[0]})
    if state := result.variants["state"].iloc[0]:
        frame.loc["of it constant state"] = [state / GB, state / GIB, np.nan, state / total.iloc[0]]
    frame.loc["the next token adds"] = [np.nan, np.nan, result.per_token / 1024, np.nan]
    frame.attrs["format"] = {"GB": "{:,.3f}", "GiB": "{:,.3f}", "KiB a token, mean": "{:,.2f}", "x as chosen": "{:,.2f}"}
    return frame


def alt_cache_sizes(result: CacheSizes) -> str:
    """What the bars show now."""
    parts = "; ".join(f"{name}, {both(size)}" for name, size in result.variants.sum(axis=1).items())
    weights = f" Its weights take {both(result.weights)}." if result.weights else ""
    return f"Bars for the KV cache of {result.tokens:,} tokens of {result.model}: {parts}.{weights}"


# -- latency -------------------------------------------------------------------------------------------------------


def draw_latency(fig, result: Latency):
    """Left: the seconds of one query, stacked by cause.  Right: the roofline with prefill and decode on it."""
    time, roof = fig.subplots(1, 2, width_ratios=(1.35, 1))
    rows = np.arange(3)
    bars = {part: time.barh(rows, 0, 0.42, label=label, **style.area(i)) for i, (part, label) in enumerate(_PARTS.items())}
    for row, name in enumerate(result.bars.index):
        time.text(0.01, row - 0.3, name, transform=time.get_yaxis_transform(), va="bottom")
    ends = [time.text(0, row, "", va="center", fontweight="bold") for row in rows]
    time.set(ylim=(2.45, -0.85), xlabel="time (s): to the first token + to decode the answer")
    time.yaxis.set_major_locator(NullLocator())
    time.grid(axis="y", visible=False)
    few_ticks(time.xaxis)

    # From one token of a mixture of experts (it reads all experts, computes with few) to a million tokens at once.
    roof.set(xscale="log", yscale="log", xlim=(0.01, 1e8), ylim=(1e9, 1e16), xlabel="work (FLOP per byte read)", ylabel="speed (FLOP/s)")
    for axis in (roof.xaxis, roof.yaxis):
        axis.set_major_locator(LogLocator(100))
        axis.set_minor_locator(NullLocator())
    (edge,) = roof.plot([], [], color=style.BLACK, linewidth=2)
    dots = {name: roof.plot([], [], linestyle="none", markersize=13, marker=marker, color=color, label=name)[0]
            for name, marker, color in (("prefill", "s", style.BLUE), ("decode", "D", style.VERMILION))}
    roof.legend(loc="lower right", handlelength=1)
    style.legend_outside(fig, time, ncols=2)

    def update(result):
        limit = nice_limit(1.6 * result.bars.sum(axis=1).max())
        time.set_xlim(0, limit)
        for row, (name, values) in enumerate(result.bars.iterrows()):
            left = 0.0
            for part, patches in bars.items():
                patches[row].set(x=left, width=values[part])
                left += values[part]
            ends[row].set(text=f"{seconds(result.ttft[name])} + {seconds(result.decode)}", x=left + 0.01 * limit)
        ridge = result.flops_per_s / result.bytes_per_s
        edge.set_data([0.01, ridge, 1e8], [0.01 * result.bytes_per_s, result.flops_per_s, result.flops_per_s])
        for name, dot in dots.items():
            x, y = result.points.loc[name, ["intensity", "speed"]]
            dot.set_data([x], [y])
        return [edge, *(patch for patches in bars.values() for patch in patches), *ends, *dots.values()]

    return update


def seconds(value: float) -> str:
    """A duration for people: 12.4 ms, 8.79 s."""
    return f"{1000 * value:.1f} ms" if value < 1 else f"{value:.2f} s" if value < 100 else f"{value:,.0f} s"


def table_latency(result: Latency) -> pd.DataFrame:
    """Seconds to the first token, of it attention, and to the end of the answer."""
    frame = pd.DataFrame({"TTFT (s)": result.ttft, "of it attention (s)": result.bars["attention"], "decode (s)": result.decode,
                          "whole answer (s)": result.ttft + result.decode})
    frame.attrs["format"] = dict.fromkeys(frame.columns, "{:,.4f}")
    return frame


def alt_latency(result: Latency) -> str:
    """What bars and roofline show now."""
    bars = "; ".join(f"{name}: first token after {seconds(t)}" for name, t in result.ttft.items())
    bound = {name: "compute" if p["speed"] >= 0.999 * result.flops_per_s else "memory" for name, p in result.points.iterrows()}
    return (f"Stacked bars of time. {bars}. Decoding takes {seconds(result.decode)} each time. On the roofline prefill is bound by "
            f"{bound['prefill']}, decode by {bound['decode']}.")


# -- throughput ----------------------------------------------------------------------------------------------------


def draw_serving(fig, result: Serving):
    """Throughput (left) and users (right) against the context of a user, on log axes, drawn as far as the context chosen."""
    speed, users = fig.subplots(1, 2)
    (own,) = speed.plot([], [], label="each user has their own", **style.line(0) | {"marker": ""})
    (chosen,) = speed.plot([], [], label="as chosen", **style.line(3) | {"marker": ""})
    (dot,) = speed.plot([], [], linestyle="none", marker="o", markersize=13, color=style.BLACK, label="your context")
    (held,) = users.plot([], [], **style.line(3) | {"marker": ""})
    (count,) = users.plot([], [], linestyle="none", marker="o", markersize=13, color=style.BLACK)
    for ax, label, low, top in ((speed, "throughput (tokens/s)", 1, 1e7), (users, "users at once", 0.5, 1e6)):
        ax.set(xscale="log", yscale="log", xlim=(200, 1.3e6), ylim=(low, top), xlabel="context of a user (tokens)", ylabel=label)
        style.human_axis(ax.xaxis)
        style.human_axis(ax.yaxis)
    said = speed.text(0.03, 0.05, "", transform=speed.transAxes, fontsize=12)
    style.legend_outside(fig, speed)

    def update(result):
        at, x = result.at, np.append(result.curve.index, result.at.name)
        seen = np.argsort(x)[: (x <= at.name).sum()]  # the rest is for the student to predict
        for line, y, here in ((own, result.own, result.own_at), (chosen, result.curve["throughput"], at["throughput"]),
                              (held, result.curve["users"], at["users"])):
            y = np.append(y, here)
            line.set_data(x[seen], np.where(y > 0, y, np.nan)[seen])
        for point, y in ((dot, at["throughput"]), (count, at["users"])):
            point.set_data([at.name], [y if y > 0 else np.nan])
        said.set_text(_said(result))
        return [own, chosen, dot, held, count, said]

    return update


def _said(result):
    if not result.steps["users"].iloc[0]:
        return "The weights leave no room\nfor even one user: take more\nor larger GPUs."
    if not result.at["users"]:
        return f"Not even one user fits\nwith {human(result.at.name)} tokens."
    if result.at.name < result.steps.index[-1]:
        return "Move the context on: the curve\nis drawn as far as yours."
    return f"1k to 120k: {drop(result)}\nmeasured (8B, own contexts): {_PAPER_DROP:.0f}x"


def drop(result: Serving) -> str:
    """How much less throughput is left at 120k than at 1k."""
    first, last = result.steps["throughput"].iloc[0], result.steps["throughput"].iloc[-1]
    return "does not fit" if not last > 0 else "does not fall" if first < 1.05 * last else f"falls {first / last:,.1f}x"


def table_serving(result: Serving) -> pd.DataFrame:
    """Users, step and throughput at your context, and at those lengths of the lecture notes that it has reached."""
    first, steps = result.steps["throughput"].iloc[0], result.steps[result.steps.index <= result.at.name]
    frame = pd.concat([steps, result.at.to_frame().T])
    frame = pd.DataFrame({"users": frame["users"].astype(int), "step (ms)": 1000 * frame["step"], "tokens/s": frame["throughput"],
                          "tokens/s a user": frame["throughput"] / frame["users"].where(frame["users"] > 0),
                          "of that at 1k": frame["throughput"] / first if first else np.nan})
    frame.index = [*(f"{human(n)} tokens" for n in steps.index), "your context"]
    frame.attrs["format"] = {"users": "{:,}", "step (ms)": "{:,.1f}", "tokens/s": "{:,.1f}", "tokens/s a user": "{:,.1f}", "of that at 1k": "{:.4f}"}
    return frame


def alt_serving(result: Serving) -> str:
    """What the two curves show now."""
    at = result.at
    if not at["users"]:
        return f"With {at.name:,.0f} tokens a user not even one user fits into the memory."
    reached = f" From 1k to 120k tokens throughput {drop(result)}." if at.name >= result.steps.index[-1] else ""
    return (f"Throughput and users against the context of a user, on log axes, up to {at.name:,.0f} tokens ({result.sharing}). "
            f"There {at['users']:,.0f} users fit and get {at['throughput']:,.0f} tokens/s together.{reached}")
