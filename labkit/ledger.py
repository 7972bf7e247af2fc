"""The ledger: each figure of the lecture notes beside the same figure, computed here and now.

data/ledger.toml holds one table a figure, named by its id in data/lecture_figures.csv::

    [l14-prefill-128k]
    here = "kv_cost.Roofline('Llama-3-8B', 'H100 SXM').prefill_seconds(128_070)"
    tolerance = 0.01                 # relative; or  absolute = 0.05
    paper = "..."                    # optional: what a paper reports for it
    exercise = true                  # an answer of an exercise: tested, never shown in a table

A figure that the notes give in words ("costs more") has an expression that is True where the words hold.

The tests recompute every row; `compare` shows them in a notebook, and an entry that is wrong says so in its place.
After a change: python -c "from labkit import ledger; print(ledger.verify())"
"""

import tomllib
from dataclasses import dataclass, fields
from functools import cache

import pandas as pd

from labkit import reference
from labkit.expressions import LIBRARIES, evaluate, free_names, modules
from labkit.reference import raise_all


@dataclass(frozen=True)
class Entry:
    """How a lecture figure is computed: expression, allowed difference, what a paper reports, whether it is an answer."""

    here: str
    tolerance: float = 0.0
    absolute: float = 0.0
    paper: str = ""
    exercise: bool = False

    def __post_init__(self):
        raise_all(self.form_problems())

    def form_problems(self):
        """What is wrong with it, a sentence each."""
        for name in ("here", "paper"):
            if not isinstance(getattr(self, name), str):
                yield f"{name}={getattr(self, name)!r} must be a text"
        if isinstance(self.here, str):
            try:
                unknown = sorted(free_names(self.here) - modules() - set(LIBRARIES))
            except SyntaxError as error:
                yield f"here={self.here!r} is not a Python expression: {error.msg}"
            else:
                yield from (f"here: {name!r} is neither a module of labkit nor np or math; "
                            f"{reference.suggest(name, sorted(modules()))}" for name in unknown)
        for name in ("tolerance", "absolute"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
                yield f"{name}={value!r} must be a finite number, at least 0"
        if not isinstance(self.exercise, bool):
            yield f"exercise={self.exercise!r} must be true or false"

    def value(self) -> float:
        """The figure, computed by labkit.

        Raises
        ------
        ValueError
            If the expression fails or gives no number; the message quotes it.
        """
        try:
            return float(evaluate(self.here))
        except (Exception, SystemExit) as error:  # whatever a teacher's expression raises
            raise ValueError(f"here={self.here!r} fails: {type(error).__name__}: {error}") from error

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
def _read(path):
    """(entries, problems) of the file, each by figure id. ValueError if it is not TOML."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path.name} is not TOML: {error}") from None
    known, allowed = set(reference.lecture_figures()["id"]), [f.name for f in fields(Entry)]
    found, wrong = {}, {}
    for figure_id, table in tables.items():
        told = [] if figure_id in known else [f"no such lecture figure; {reference.suggest(figure_id, known)}"]
        if not isinstance(table, dict):
            told.append(f"{table!r} is no table with the fields {', '.join(allowed)}")
        else:
            told += [f"{name!r} is none of its fields, which are {', '.join(allowed)}; {reference.suggest(name, allowed)}"
                     for name in table if name not in allowed]
            told += [] if "here" in table else ["'here' is missing, the expression that computes the figure"]
            try:
                found[figure_id] = Entry(**{"here": "0"} | {name: value for name, value in table.items() if name in allowed})
            except ValueError as error:
                told += str(error).splitlines()
        if told:
            found.pop(figure_id, None)
            wrong[figure_id] = "\n".join(f"{path.name}, [{figure_id}]: {each}" for each in told)
    return found, wrong


def entries() -> dict[str, Entry]:
    """All sound entries by figure id; one that is wrong is left out (see `problems`), the others live on.

    Raises
    ------
    ValueError
        If the file is not TOML.
    """
    return _read(reference.data_folder() / "ledger.toml")[0]


def problems() -> dict[str, str]:
    """What is wrong with an entry, by its id: not a figure of the lecture notes, a field unknown, missing or of a wrong kind."""
    return _read(reference.data_folder() / "ledger.toml")[1]


def verify() -> int:
    """Compute every entry and compare it with the lecture notes; returns how many there are.

    Raises
    ------
    ValueError
        One for all problems, a line each, naming the entry.
    """
    figures = {row.id: row for row in reference.lecture_figures().itertuples()}
    wrong = list(problems().values())
    for figure_id, entry in entries().items():
        try:
            here, row = entry.value(), figures[figure_id]
            if not entry.agrees(row, here):
                wrong.append(f"[{figure_id}]: here gives {here:g}, the lecture notes say {_said(row)} {row.unit}".rstrip())
        except ValueError as error:
            wrong.append(f"[{figure_id}]: {error}")
    raise_all(wrong)
    return len(entries())


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
    if isinstance(notebook, bool) or notebook not in range(1, 8):
        raise ValueError(f"notebook={notebook!r} must be a whole number from 1 to 7")
    rows = {}
    for row in figures[figures["notebook"] == notebook].itertuples():
        entry = entries().get(row.id)
        if (entry is None or entry.exercise) and row.id not in problems():
            continue
        rows[f"{row.lecture}: {row.quantity}"] = [entry.paper if entry else "", _said(row), _here(row, entry), row.unit, row.kind]
    columns = ["paper reports", "lecture reports", "here", "unit", "kind"]
    return Comparison(pd.DataFrame.from_dict(rows, orient="index", columns=columns).fillna(""))


def _said(row) -> str:
    """What the lecture notes say: a number, a range, a bound or words."""
    if row.value != row.value:
        return row.words
    said = {"above": "> ", "below": "< ", "at least": "at least "}.get(row.relation, "") + _digits(row.value)
    return said + (f" to {_digits(row.value_to)}" if row.value_to == row.value_to else "")


def _here(row, entry) -> str:
    """What labkit computes; for an entry that is wrong, what is wrong."""
    if entry is None:
        return problems()[row.id]
    try:
        value = entry.value()
    except ValueError as error:
        return str(error)
    return ("does not hold", "holds")[value == 1] if row.value != row.value else _digits(value)


def _digits(value) -> str:
    """Four significant digits, whole numbers in full."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
