"""Panel 1 of the mem0 notebook: dialogue, operations, store and graph after a message."""

from __future__ import annotations

import textwrap

import pandas as pd

from labkit.figures import style
from labkit.mem0_store import Step

_MESSAGES, _OPERATIONS, _MEMORIES, _NEAR, _FAR = 6, 5, 7, 5, 3  # lines and nodes shown
_WIDE, _NARROW = 56, 40  # characters that fit into a column
_ERRORS = ("wrongly taken for known", "conflict missed", "unknown id", "said twice")  # notes of operations that should not be
_MARKS = {"stated": "●", "not extracted": "○", "": " "}


def _short(text, width):
    return textwrap.shorten(text, width, placeholder="…") if len(text) > width else text


def _lines(ax, title, count):
    """A column of text: a title that stays, and `count` lines that change."""
    ax.set_axis_off()
    ax.set(xlim=(0, 1), ylim=(count - 0.4, -0.6))
    ax.set_title(title, fontsize=13)
    return [ax.text(0, row, "", va="center", fontsize=12) for row in range(count)]


def _say(lines, said):
    """Write (text, colour, bold) into the lines, blanks into the rest."""
    said = list(said)
    for line, (text, colour, bold) in zip(lines, said + [("", style.BLACK, False)] * (len(lines) - len(said))):
        line.set(text=text, color=colour, fontweight="bold" if bold else "normal")


def draw_store(fig, result: Step):
    """Four parts: what was said, what was done with it, what is held, and the same as a graph."""
    (said, done), (held, net) = fig.subplots(2, 2, width_ratios=(1.25, 1), height_ratios=(_MESSAGES, _MEMORIES + 1))
    messages = _lines(said, "Dialogue   ● states a fact   ★ answers", _MESSAGES)
    operations = _lines(done, "Operations   (orange: an error)", _OPERATIONS)
    memories = _lines(held, "Store   ★ answers   ▸ read   grey: invalid", _MEMORIES)
    graph = _Graph(net)

    def update(result):
        _say(messages, (_message(row) for row in result.dialogue.tail(_MESSAGES).itertuples()))
        _say(operations, (_operation(row) for row in result.log.tail(_OPERATIONS).itertuples()))
        _say(memories, _memories(result.store))
        return [*messages, *operations, *memories, *graph.update(result)]

    return update


def _message(row):
    text = _short(f"{row.turn + 1} {row.speaker}: {row.text}", _WIDE - 2)
    return f"{'★' if row.evidence else _MARKS[row.state]} {text}", style.BLACK if row.state else "#5A5A5A", False


def _operation(row):
    return _short(f"{row.turn + 1} {row.operation} {row.key}: {row.value}", _NARROW), style.VERMILION if row.note in _ERRORS else style.BLACK, False


def _memories(store):
    """The memories worth showing: evidence first, then what is read, then the newest; in the order in which they came."""
    order = store.sort_values(["evidence", "read", "turn"], ascending=False, kind="stable")
    few = len(store) <= _MEMORIES
    shown = order.head(_MEMORIES if few else _MEMORIES - 1).sort_values("turn", kind="stable")
    for row in shown.itertuples():
        mark = "★" if row.evidence and row.read else "☆" if row.evidence else "▸" if row.read else " "
        yield f"{mark} {_short(row.text, _WIDE)}", style.BLACK if row.valid else style.GREY, row.evidence and row.read
    if not few:
        yield f"   … and {len(store) - len(shown)} more", "#5A5A5A", False


class _Graph:
    """The user at the left, what is said of the user in the middle, what is said of those people at the right."""

    def __init__(self, ax):
        ax.set_axis_off()
        ax.set(xlim=(0, 1), ylim=(1, 0))
        ax.set_title("Graph   (dashed: invalid)", fontsize=13)
        self.user = ax.text(0, 0.5, "", ha="left", va="center", fontsize=12, fontweight="bold")
        self.near = [_Edge(ax, 0.14, 0.29, (row + 0.5) / _NEAR) for row in range(_NEAR)]
        self.far = [_Edge(ax, 0.66, 0.74, (row + 0.5) / _NEAR) for row in range(_FAR)]
        self.none = ax.text(0, 0.4, "", va="center", fontsize=12, color="#5A5A5A")

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
        self.label = ax.text(x + 0.025, y, "", ha="left", va="center", fontsize=12, linespacing=1.1)
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
                       color=style.BLACK if row.valid else style.GREY, fontweight="bold" if answers else "normal")


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
    return (f"Message {result.turn + 1}, {last.speaker}: {last.text} Operations: {done or 'none'}. The store holds {int(result.store.valid.sum())} valid "
            f"and {int((~result.store.valid).sum())} invalid memories. Asked: {result.question or 'nothing yet'} "
            f"The answer {result.answer} is {'found' if result.right else 'not found'}.")
