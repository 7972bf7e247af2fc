"""Panel 1 of the mem0 notebook: dialogue, operations, store and graph after a message."""

from __future__ import annotations

import functools
import textwrap

import numpy as np
import pandas as pd
from matplotlib.colors import to_rgba
from matplotlib.font_manager import findfont
from matplotlib.text import Text
from PIL import Image, ImageDraw, ImageFont

from labkit.figures import style
from labkit.mem0_store import Step

_MESSAGES, _OPERATIONS, _MEMORIES, _NEAR, _FAR = 6, 5, 7, 5, 3  # lines and nodes shown
_WIDE, _NARROW = 56, 40  # characters that fit into a column
_ERRORS = ("wrongly taken for known", "conflict missed", "unknown id", "said twice", "only deleted")  # notes of what should not be
_MARKS = {"stated": "●", "not extracted": "○", "": " "}
_PALE = "#5A5A5A"  # of what matters less; dark enough to be read


class QuickText(Text):
    """Text, ragged right and centred on its height, that Pillow writes line by line: ten times as quick as letter by letter."""

    def draw(self, renderer):
        """Copy the picture of the text to its place."""
        if not self.get_text() or not self.get_visible():
            return
        pixels = self.get_fontsize() * self.get_figure(root=True).dpi / 72
        picture = _picture(self.get_text(), findfont(self.get_fontproperties()), pixels, self.get_color())
        x, y = self.get_transform().transform(self.get_position())
        renderer.draw_image(renderer.new_gc(), round(x), round(y - len(picture) / 2), picture)


@functools.lru_cache(maxsize=1_024)
def _picture(text, font_file, pixels, colour):
    """A text as bytes, shape (height, width, RGBA), the lowest row first as Agg wants it."""
    font, lines = ImageFont.truetype(font_file, pixels, layout_engine=ImageFont.Layout.BASIC), text.split("\n")
    height = sum(font.getmetrics())
    ink = Image.new("L", (int(max(map(font.getlength, lines))) + 2, height * len(lines)))
    for row, line in enumerate(lines):
        ImageDraw.Draw(ink).text((0, row * height), line, fill=255, font=font)
    picture = np.full((ink.height, ink.width, 4), np.round(255 * np.array(to_rgba(colour))), np.uint8)
    picture[..., 3] = np.asarray(ink)
    return picture[::-1].copy()


def _text(ax, x, y, **look):
    """An empty text at a place of an Axes that leaves the layout as it is."""
    text = QuickText(x, y, "", fontsize=12, transform=ax.transData, **look)
    text.set_in_layout(False)
    return ax.add_artist(text)


def _short(text, width):
    return textwrap.shorten(text, width, placeholder="…") if len(text) > width else text


def _lines(ax, title, count):
    """A column of text: a title that stays, and `count` lines that change."""
    ax.set_axis_off()
    ax.set(xlim=(0, 1), ylim=(count - 0.4, -0.6))
    ax.set_title(title, fontsize=12)
    return [_text(ax, 0, row) for row in range(count)]


def _say(lines, said):
    """Write (text, colour, bold) into the lines, blanks into the rest."""
    said = list(said)
    for line, (text, colour, bold) in zip(lines, said + [("", style.BLACK, False)] * (len(lines) - len(said))):
        line.set(text=text, color=colour, fontweight="bold" if bold else "normal")


def draw_store(fig, result: Step):
    """Four parts: what was said, what was done with it, what is held, and the same as a graph."""
    (said, done), (held, net) = fig.subplots(2, 2, width_ratios=(1.25, 1), height_ratios=(_MESSAGES, _MEMORIES + 1))
    messages = _lines(said, "Dialogue   ● a fact   ○ not extracted   ★ answers", _MESSAGES)
    operations = _lines(done, "Operations   (orange: an error)", _OPERATIONS)
    memories = _lines(held, "Store   ★ answers   ☆ would, if read   ▸ read", _MEMORIES)
    graph = _Graph(net)

    def update(result):
        _say(messages, (_message(row) for row in result.dialogue.tail(_MESSAGES).itertuples()))
        _say(operations, (_operation(row) for row in result.log.tail(_OPERATIONS).itertuples()))
        _say(memories, _memories(result.store))
        return [*messages, *operations, *memories, *graph.update(result)]

    return update


def _message(row):
    text, lost = _short(f"{row.turn + 1} {row.speaker}: {row.text}", _WIDE - 2), row.state == "not extracted"
    mark = "★" if row.evidence and not lost else _MARKS[row.state]
    return f"{mark} {text}", style.VERMILION if lost else style.BLACK if row.state else _PALE, False


def _operation(row):
    return _short(f"{row.turn + 1} {row.operation} {row.key}: {row.value}", _NARROW), style.VERMILION if row.note in _ERRORS else style.BLACK, False


def _memories(store):
    """The memories worth showing: evidence first, then what is read, then the newest; in the order in which they came."""
    order = store.sort_values(["evidence", "read", "turn"], ascending=False, kind="stable")
    few = len(store) <= _MEMORIES
    shown = order.head(_MEMORIES if few else _MEMORIES - 1).sort_values("turn", kind="stable")
    for row in shown.itertuples():
        mark = "★" if row.evidence and row.read else "☆" if row.evidence else "▸" if row.read else " "
        text = f"{mark} {_short(row.text, _WIDE)}{'' if row.valid else ' (invalid)'}"
        yield text, style.BLACK if row.valid else _PALE, row.evidence and row.read
    if not few:
        yield f"   … and {len(store) - len(shown)} more", _PALE, False


class _Graph:
    """The user at the left, what is said of the user in the middle, what is said of those people at the right."""

    def __init__(self, ax):
        ax.set_axis_off()
        ax.set(xlim=(0, 1), ylim=(1, 0))
        ax.set_title("Graph   (dashed: invalid)", fontsize=12)
        self.user = _text(ax, 0, 0.5, fontweight="bold")
        self.near = [_Edge(ax, 0.13, 0.24, (row + 0.5) / _NEAR) for row in range(_NEAR)]
        self.far = [_Edge(ax, 0.62, 0.665, (row + 0.5) / _NEAR) for row in range(_FAR)]
        self.none = _text(ax, 0, 0.4, color=_PALE)

    def update(self, result):
        near, far = _near_and_far(result)
        self.none.set_text("This system keeps a flat list.\nChoose “mem0 graph” to see\nnodes and edges." if result.edges is None else "")
        self.user.set_text(near[0].source if near else "")
        heights = {row.target: edge.y for edge, row in zip(self.near, near)}
        for edge, row in zip(self.near, near + [None] * _NEAR):
            edge.show(row, 0.5)
        for edge, row in zip(self.far, far + [None] * _FAR):
            edge.show(row, row and heights[row.source])
        return [self.none, self.user, *(artist for edge in (*self.near, *self.far) for artist in edge.artists)]


def _near_and_far(result):
    """Edges worth showing, evidence first: from the user, and from the people these lead to, who come first then."""
    if result.edges is None or result.edges.empty:
        return [], []
    user = result.nodes.node[0]
    edges = result.edges.sort_values(["evidence", "read", "turn"], ascending=False, kind="stable")
    near = edges[edges.source == user].head(_NEAR)
    far = edges[edges.source.isin(near.target)].head(_FAR)
    near = list(near.assign(alone=~near.target.isin(far.source)).sort_values(["alone", "turn"], kind="stable").itertuples())
    order = [row.target for row in near]
    return near, sorted(far.itertuples(), key=lambda row: (order.index(row.source), row.turn))


class _Edge:
    """A line to a node, with relation and value written beside it."""

    def __init__(self, ax, start, x, y):
        self.start, self.x, self.y = start, x, y
        (self.line,) = ax.plot([], [], marker="o", markevery=[1], markersize=7)
        self.label = _text(ax, x + 0.02, y)
        self.artists = (self.line, self.label)

    def show(self, row, from_y):
        """Draw the edge of a row of `Step.edges`; None draws nothing."""
        self.line.set_visible(row is not None)
        self.label.set_text("")
        if row is None:
            return
        colour = style.GREY if not row.valid else style.GREEN if row.evidence else style.BLUE
        self.line.set_data([self.start, self.x], [from_y, self.y])
        self.line.set(color=colour, linestyle="-" if row.valid else "--", linewidth=4 if row.evidence else 2)
        answers = row.evidence and row.read
        self.label.set(text=f"{'★ ' if answers else ''}{row.relation}:\n{_short(row.target, 18)}",
                       color=style.BLACK if row.valid else _PALE, fontweight="bold" if answers else "normal")


def table_store(result: Step) -> pd.Series:
    """The question with its answer, and counts of what was said, done and held."""
    operations, states = result.log.operation.value_counts(), result.dialogue.state.value_counts()
    values = {
        "asked now": result.question or "(not spoken of yet)", "right answer": result.answer or "-",
        "found in the store": "yes" if result.right else "no",
        "messages, of them stating a fact": f"{result.turn + 1}, {len(result.dialogue) - states.get('', 0)}",
        "facts not extracted": int(states.get("not extracted", 0)),
        "memories valid, invalid but kept": f"{int(result.store.valid.sum())}, {int((~result.store.valid).sum())}",
        "ADD, UPDATE, NOOP": ", ".join(str(operations.get(name, 0)) for name in ("ADD", "UPDATE", "NOOP")),
        "DELETE, INVALIDATE": ", ".join(str(operations.get(name, 0)) for name in ("DELETE", "INVALIDATE")),
        "unknown ids": result.unknown_ids, "calls of the model to write": result.write_calls,
    }
    return pd.Series(values, name=f"after message {result.turn + 1}", dtype=object)


def alt_store(result: Step) -> str:
    """The newest message, what it did, and the question."""
    last = result.dialogue.iloc[-1]
    done = "; ".join(f"{row.operation} {row.key}: {row.value}" for row in result.log[result.log.turn == result.turn].itertuples())
    asked = (f"Asked: {result.question} The answer {result.answer} is {'found' if result.right else 'not found'}." if result.question else
             "What is asked was not spoken of yet.")
    return (f"Message {result.turn + 1}, {last.speaker}: {last.text} Operations: {done or 'none'}. The store holds "
            f"{int(result.store.valid.sum())} valid and {int((~result.store.valid).sum())} invalid memories. {asked}")
