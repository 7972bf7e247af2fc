"""The ledger: each figure of the lecture notes beside the same figure, computed here and now.

data/ledger.toml holds one table a figure, named by its id in data/lecture_figures.csv::

    [l14-prefill-128k]
    here = "kv_cost.Roofline('Llama-3-8B', 'H100 SXM').prefill_seconds(128_070)"
    tolerance = 0.01                 # relative; or  absolute = 0.05
    paper = "..."                    # optional: what a paper reports for it
    exercise = true                  # an answer of an exercise: tested, never shown in a table

A figure that the notes give in words ("costs more") has an expression that is True where the words hold.

The tests recompute every row; `compare` shows them in a notebook.
"""

import tomllib
from dataclasses import dataclass, fields
from functools import cache

import pandas as pd

from labkit import reference
from labkit.expressions import LIBRARIES, evaluate, free_names, modules


@dataclass(frozen=True)
class Entry:
    """How a lecture figure is computed: expression, allowed difference, what a paper reports, whether it is an answer."""

    here: str
    tolerance: float = 0.0
    absolute: float = 0.0
    paper: str = ""
    exercise: bool = False

    def __post_init__(self):
        for name in ("here", "paper"):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"{name}={getattr(self, name)!r} must be a text")
        unknown = free_names(self.here) - modules() - set(LIBRARIES)
        if unknown:
            raise ValueError(f"here: {min(unknown)!r} is neither a module of labkit nor np or math")
        for name in ("tolerance", "absolute"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
                raise ValueError(f"{name}={value!r} must be a finite number, at least 0")
        if not isinstance(self.exercise, bool):
            raise ValueError(f"exercise={self.exercise!r} must be true or false")

    def value(self) -> float:
        """The figure, computed by labkit."""
        return float(evaluate(self.here))

    def agrees(self, figure, here: float) -> bool:
        """Whether `here` is what a row of the lecture figures says: near it, within or beyond it, or true where it is in words.

        Near: |here - value| <= max(tolerance x |value|, absolute); the same slack is given to both ends of a range.
        """
        if figure.value != figure.value:
            return here == 1.0
        slack = max(self.tolerance * abs(figure.value), self.absolute) + 1e-9 * abs(figure.value)
        upper = figure.value_to if figure.value_to == figure.value_to else figure.value
        low, high = {"above": (figure.value, float("inf")), "at least": (figure.value, float("inf")),
                     "below": (-float("inf"), figure.value)}.get(figure.relation, (figure.value, upper))
        return low - slack <= here <= high + slack


@cache
def entries() -> dict[str, Entry]:
    """All entries by figure id.

    Raises
    ------
    ValueError
        Naming the entry: not a figure of the lecture notes, a field that is unknown, missing or not an expression.
    """
    path = reference.data_folder() / "ledger.toml"
    known = set(reference.lecture_figures()["id"])
    found = {}
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name} is not TOML: {error}") from None
    for figure_id, table in tables.items():
        if figure_id not in known:
            raise ValueError(f"{path.name}, [{figure_id}]: no such lecture figure; {reference.suggest(figure_id, known)}")
        try:
            known_fields = [f.name for f in fields(Entry)]
            wrong = [name for name in table if name not in known_fields] if isinstance(table, dict) else [table]
            if wrong or "here" not in table:
                what = f"{wrong[0]!r} is none of its fields" if wrong else "'here' is missing"
                raise ValueError(f"{what}; the fields are {', '.join(known_fields)}")
            found[figure_id] = Entry(**table)
        except (ValueError, SyntaxError) as problem:
            raise ValueError(f"{path.name}, [{figure_id}]: {problem}") from None
    return found


class Comparison:
    """A table of figures that shows every word of them; `frame` is the DataFrame."""

    def __init__(self, frame):
        self.frame = frame

    def __repr__(self):
        return self.frame.to_string()

    def _repr_html_(self):
        with pd.option_context("display.max_colwidth", None):
            return self.frame.to_html().replace("<th>", '<th style="text-align: left">')


def compare(notebook: int) -> Comparison:
    """The figures of a notebook's part of the lecture notes: what a paper reports, the notes say, this course computes.

    Rows that only restate a setting, and rows that are answers of exercises, are left out.
    Columns: paper reports, lecture reports, here, unit, kind.
    """
    figures = reference.lecture_figures()
    rows = {}
    for row in figures[figures["notebook"] == notebook].itertuples():
        entry = entries().get(row.id)
        if entry is None or entry.exercise:
            continue
        words = row.value != row.value
        said = row.words if words else {"above": "> ", "below": "< ", "at least": "at least "}.get(row.relation, "") + _digits(row.value)
        said += f" to {_digits(row.value_to)}" if row.value_to == row.value_to else ""
        here = ("does not hold", "holds")[entry.value() == 1] if words else _digits(entry.value())
        rows[f"{row.lecture}: {row.quantity}"] = [entry.paper, said, here, row.unit, row.kind]
    columns = ["paper reports", "lecture reports", "here", "unit", "kind"]
    return Comparison(pd.DataFrame.from_dict(rows, orient="index", columns=columns).fillna(""))


def _digits(value) -> str:
    """Four significant digits, whole numbers in full."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
