"""Exercises that check themselves: show, check, hint, solution.

The questions stand in data/exercises.toml, one table an exercise. An answer is never typed there: `expected` is a
Python expression over the modules of labkit, evaluated when a student asks, so it always agrees with the panels::

    from labkit import exercises
    exercises.ids(notebook=1)
    exercises.show("L11-1a.token")
    exercises.check("L11-1a.token", "320 KiB")
    exercises.hint("L11-1a.token")
    exercises.solution("L11-1a.token")

A teacher adds an exercise in the toml alone; `verify()` evaluates the whole file and names what is wrong. The
expressions are run as Python: load only files you trust.
"""

import tomllib
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path

from labkit import reference
from labkit.exercise_kinds import KINDS, Slip


@dataclass(frozen=True, repr=False)
class Note:
    """A text under a heading; `closed` folds it in a notebook until the student opens it."""

    heading: str
    body: str
    closed: bool = False

    def __repr__(self):
        return f"{self.heading}\n\n{self.body}"

    def _repr_markdown_(self):
        if self.closed:
            return f"<details><summary>{self.heading}</summary>\n\n{self.body}\n\n</details>"
        return f"**{self.heading}**\n\n{self.body}"


# ---------------------------------------------------------------------------------------------- the file

_SHAPES = {  # type of a field -> (test of a toml value, in words)
    str: (lambda v: isinstance(v, str) and v.strip(), "a text that is not empty"),
    int: (lambda v: type(v) is int, "an integer"),
    float: (lambda v: type(v) in (int, float), "a number"),
    dict[str, str]: (lambda v: isinstance(v, dict) and all(isinstance(x, str) for x in v.values()), "a table of texts"),
    tuple[str, ...]: (lambda v: isinstance(v, list) and v and all(isinstance(x, str) for x in v)
                      and len(set(v)) == len(v), "a list of different texts"),
    tuple[Slip, ...]: (lambda v: isinstance(v, list) and all(isinstance(x, dict) for x in v), "tables [[exercise.slips]]"),
}


def _build(cls, table, where):
    """A dataclass from a toml table: all its fields, no others, each of its shape."""
    known = {f.name: f for f in fields(cls)}
    for key in table:
        if key not in known:
            raise ValueError(f"{where}: unknown field {key!r}; {reference.suggest(key, known)}")
    for name, f in known.items():
        fits, words = _SHAPES[f.type]
        if name not in table and f.default is MISSING and f.default_factory is MISSING:
            raise ValueError(f"{where}: field {name!r} is missing; it is {words}")
        if name in table and not fits(table[name]):
            raise ValueError(f"{where}, field {name!r}: {table[name]!r} is not {words}")
    given = {name: tuple(v) if isinstance(v, list) else v for name, v in table.items()}
    if "slips" in given:
        given["slips"] = tuple(_build(Slip, slip, f"{where}, slips[{i}]") for i, slip in enumerate(given["slips"], 1))
    return cls(**given)


@cache
def load(path=None):
    """All exercises by id, in the order of the file: checked for form, nothing evaluated yet.

    Raises
    ------
    ValueError
        Naming the exercise and the field: missing or unknown, of a wrong type, an id used twice, an unknown unit or
        kind, an expression that is not Python or uses an unknown name.
    """
    path = Path(path or reference.data_folder() / "exercises.toml")
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8-sig"))    # some editors of Windows write a signature
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name} is not TOML: {error}") from error
    if set(tables) != {"exercise"} or not isinstance(tables["exercise"], list) or not all(
            isinstance(table, dict) for table in tables["exercise"]):
        raise ValueError(f"{path.name}: allowed are only tables [[exercise]]; found {', '.join(tables) or 'none'}")
    found = {}
    for number, table in enumerate(tables["exercise"], 1):
        where = f"exercise {table.get('id', f'number {number}')!r}"
        kind = table.get("kind", "number")
        if kind not in tuple(KINDS):
            raise ValueError(f"{where}, field 'kind': {kind!r} is not one of {', '.join(KINDS)}")
        exercise = _build(KINDS[kind], table, where)
        if exercise.id in found:
            raise ValueError(f"{where}, field 'id': used twice")
        found[exercise.id] = exercise
    return found


def verify(path=None):
    """Evaluate every expression and text of the file; returns how many exercises there are.

    Raises
    ------
    ValueError
        Naming the exercise and the field: an expression fails, gives no answer of the exercise's kind, or a slip gives
        what is judged right.
    """
    for exercise in load(path).values():
        exercise.verify()
    return len(load(path))


# ---------------------------------------------------------------------------------------------- what a notebook calls

def ids(notebook=None):
    """Ids of all exercises, or of those of one notebook (1 to 7)."""
    return [exercise.id for exercise in load().values() if notebook in (None, exercise.notebook)]


def _find(id):
    """The exercise with this id, or all parts of one: "L14-1" stands for "L14-1.tokens" and the others."""
    parts = [exercise for exercise in load().values() if id in (exercise.id, exercise.id.split(".")[0])]
    if not parts:
        raise ValueError(f"no exercise is called {id!r}; {reference.suggest(id, load())}")
    return parts


def _note(id, heading, text, closed=False):
    parts = _find(id)
    if len(parts) == 1:
        return Note(heading.format(f"{id}, {parts[0].title}"), text(parts[0]), closed)
    return Note(heading.format(id), "\n\n".join(f"**{e.id}, {e.title}**\n\n{text(e)}" for e in parts), closed)


def show(id):
    """The question, and the form of the answer; of "L14-1" the questions of all its parts."""
    return _note(id, "Exercise {}", lambda e: e.asked())


def check(id, answer=""):
    """Feedback on an answer: right, near (with the likely slip named), not yet, or unreadable.

    Parameters
    ----------
    id : str
        One of ids().
    answer : number, str or list
        A number (in the unit of the exercise), or with its unit in a text; a word; a list in order. Any for a question
        to think about: the reply says what to look for.

    Raises
    ------
    ValueError
        If there is no such exercise, or it has several parts. Never because of the answer.
    """
    parts = _find(id)
    if len(parts) > 1:
        raise ValueError(f"exercise {id!r} has several parts, checked one by one: {', '.join(e.id for e in parts)}")
    return parts[0].judge(answer)


def hint(id):
    """A first step towards the answer."""
    return _note(id, "Hint for {}", lambda e: e.fill("hint"))


def solution(id):
    """The way to the answer with its numbers, folded in a notebook, and the Python that computes it."""
    return _note(id, "Solution of {}", lambda e: e.solved(), closed=True)
