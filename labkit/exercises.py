"""Exercises that check themselves: show, check, hint, solution.

The questions stand in data/exercises.toml, one table an exercise. An answer is never typed there: `expected` is a
Python expression over the modules of labkit, evaluated when a student asks, so it always agrees with the panels::

    from labkit import exercises
    exercises.ids(notebook=1)
    exercises.show("L11-1a.token")
    exercises.check("L11-1a.token", "320 KiB")
    exercises.hint("L11-1a.token")
    exercises.solution("L11-1a.token")

A teacher adds an exercise in the toml alone; `verify()` evaluates the whole file and names all that is wrong. One table
that is wrong says so in its place, and stops no other. The expressions are run as Python: load only files you trust.
"""

import tomllib
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path

from labkit import reference
from labkit.exercise_base import Slip
from labkit.exercise_kinds import KINDS
from labkit.reference import raise_all


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
    """A dataclass from a toml table: all its fields, no others, each of its shape; one ValueError with all that is wrong."""
    known = {f.name: f for f in fields(cls)}
    wrong = [f"{where}: unknown field {key!r}; {reference.suggest(key, known)} The fields are {', '.join(known)}"
             for key in table if key not in known]
    for name, f in known.items():
        fits, words = _SHAPES[f.type]
        if name not in table and f.default is MISSING and f.default_factory is MISSING:
            wrong.append(f"{where}: field {name!r} is missing; it is {words}")
        if name in table and not fits(table[name]):
            wrong.append(f"{where}, field {name!r}: {table[name]!r} is not {words}")
        elif name in table and f.type == tuple[Slip, ...]:
            slips = [_tried(_build, Slip, slip, f"{where}, slips[{i}]") for i, slip in enumerate(table[name], 1)]
            wrong += [problem for _, problem in slips if problem]
            table = table | {name: [slip for slip, _ in slips]}
    raise_all(wrong)
    return cls(**{name: tuple(v) if isinstance(v, list) else v for name, v in table.items()})


def _tried(make, *arguments):
    """(what was made, None), or (None, what is wrong)."""
    try:
        return make(*arguments), None
    except ValueError as error:
        return None, str(error)


def _exercise(table, where):
    """The exercise of one table of the file."""
    if not isinstance(table, dict):
        raise ValueError(f"{where}: {table!r} is no table [[exercise]]")
    kind = table.get("kind", "number")
    if kind not in tuple(KINDS):
        raise ValueError(f"{where}, field 'kind': {kind!r} is not one of {', '.join(KINDS)}")
    return _build(KINDS[kind], table, where)


@dataclass(frozen=True)
class Broken:
    """What stands in the place of an exercise whose table is wrong: it says so, and the others live on."""

    id: str
    notebook: int | None
    problem: str
    title = "an exercise with a fault"

    def verify(self):
        raise ValueError(self.problem)

    asked = solved = verify

    def fill(self, where):
        self.verify()

    def judge(self, answer):
        self.verify()


@cache
def _read(path):
    """Every table of the file by id, in its order: an Exercise, or Broken. ValueError if the file is none."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8-sig"))    # some editors of Windows write a signature
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path.name} is not TOML: {error}") from error
    if not isinstance(tables.get("exercise"), list):
        raise ValueError(f"{path.name}: tables [[exercise]] are needed; found {', '.join(tables) or 'none'}")
    found = {}
    for number, table in enumerate(tables.pop("exercise"), 1):
        said = table if isinstance(table, dict) else {}
        id = said.get("id", f"number {number}")
        exercise, problem = _tried(_exercise, table, f"exercise {id!r}")
        name = str(id)
        if name in found:
            problem = problem or f"exercise {id!r}, field 'id': used twice; number {number} of the file needs an id of its own"
            exercise, name = None, f"{id} (number {number})"
        found[name] = exercise or Broken(name, said.get("notebook"), problem)
    for key in tables:
        found[key] = Broken(key, None, f"{path.name}: allowed are only tables [[exercise]], not {key!r}")
    return found


def _all(path=None):
    return _read(Path(path or reference.data_folder() / "exercises.toml"))


def load(path=None):
    """All sound exercises by id, in the order of the file: checked for form, nothing evaluated yet.

    A table that is wrong is left out, and says what is wrong where it is asked for (`problems`); the others live on.

    Raises
    ------
    ValueError
        If the file is not TOML, or has no tables [[exercise]].
    """
    return {id: exercise for id, exercise in _all(path).items() if not isinstance(exercise, Broken)}


def problems(path=None):
    """What is wrong in the form of a table, by id: missing or unknown fields, a wrong type, an id used twice, an unknown
    unit or kind, an expression that is not Python or uses an unknown name."""
    return {id: exercise.problem for id, exercise in _all(path).items() if isinstance(exercise, Broken)}


def verify(path=None):
    """Evaluate every expression and text of the file; returns how many exercises there are.

    Raises
    ------
    ValueError
        One for all problems, a line each, naming the exercise and the field: a table is wrong (see `problems`), an
        expression fails, gives no answer of the exercise's kind, or a slip gives what is judged right.
    """
    wrong = [_tried(exercise.verify)[1] for exercise in _all(path).values()]
    raise_all(filter(None, wrong))
    return len(wrong)


# ---------------------------------------------------------------------------------------------- what a notebook calls

def ids(notebook=None):
    """Ids of all exercises, or of those of one notebook (1 to 7); one that is wrong keeps its place."""
    return [id for id, exercise in _all().items() if notebook in (None, exercise.notebook)]


def _find(id):
    """The exercise with this id, or all parts of one: "L14-1" stands for "L14-1.tokens" and the others."""
    parts = [exercise for name, exercise in _all().items() if id in (name, name.split(".")[0])]
    if not parts:
        wrong = problems()
        also = f"; and {len(wrong)} of the file cannot be read: {' / '.join(wrong.values())}" if wrong else ""
        raise ValueError(f"no exercise is called {id!r}; {reference.suggest(id, load())}{also}")
    return parts


def _note(id, heading, text, closed=False):
    parts = _find(id)
    if len(parts) == 1:
        return Note(heading.format(f"{id}, {parts[0].title}"), text(parts[0]), closed)
    told = []
    for part in parts:
        said, problem = _tried(text, part)
        told.append(f"**{part.id}, {part.title}**\n\n{said or problem}")
    return Note(heading.format(id), "\n\n".join(told), closed)


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
