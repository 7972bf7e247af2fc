"""The kinds of exercise, a number, a choice, an order or a thought, and how each judges an answer.

An exercise keeps its right answer as a Python expression over the modules of labkit; see labkit.exercises.
"""

import builtins
import keyword
import re
import string
import unicodedata
from dataclasses import dataclass, field
from functools import cache
from numbers import Real

import numpy as np

from labkit import reference
from labkit.answers import DIMENSION, UNITS, Reading, format_value, read_number
from labkit.expressions import LIBRARIES, evaluate, free_names, modules

MOST = 1e300  # an answer beyond it is none, and would overflow a float

# verdict -> how a reply begins
VERDICTS = {"right": "Right", "near": "Near", "not yet": "Not yet", "unreadable": "I cannot read that", "think": "Think"}


@dataclass(frozen=True, repr=False)
class Feedback:
    """The reply to an answer: `verdict` is a key of VERDICTS."""

    verdict: str
    message: str

    def __repr__(self):
        return f"{VERDICTS[self.verdict]}: {self.message}"

    def _repr_markdown_(self):
        return f"**{VERDICTS[self.verdict]}:** {self.message}"


# ---------------------------------------------------------------------------------------------- expressions over labkit

def _one_line(expression):
    return " ".join(expression.split())


def _pieces(text):
    """(literal, expression or None, format) of each piece of a text such as "memory for {users:,} users"."""
    return [(literal, expression, spec) for literal, expression, spec, _ in string.Formatter().parse(text)]


# ---------------------------------------------------------------------------------------------- the kinds of exercise

@dataclass(frozen=True)
class Slip:
    """A likely mistake: `expression` is what a student who makes it answers, `hint` says what went wrong."""

    expression: str
    hint: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Exercise:
    """What every kind has; the fields are the keys of the toml.

    id : "L14-1" (lecture, number, letter), "L14-1.tokens" (a part of it), "NB1-1" (one of our own, of notebook 1)
    notebook : 1 to 7, where it is asked
    lecture : such as "L14 section 10, exercise 1", or "new"
    title, question, hint, solution : texts; {expression:format} in them is computed
    kind : a key of KINDS
    values : named expressions for all others of the exercise; one may use those before it
    """

    id: str
    notebook: int
    lecture: str
    title: str
    question: str
    hint: str
    solution: str
    kind: str = "number"
    values: dict[str, str] = field(default_factory=dict)

    def __post_init__(self):
        if not re.fullmatch(r"[A-Za-z0-9-]+(\.[a-z0-9-]+)?", self.id):
            self.refuse("id", "allowed are letters, digits and '-', then at most one '.part' in small letters")
        if not 1 <= self.notebook <= 7:
            self.refuse("notebook", f"{self.notebook} is not one of 1 to 7")
        known = set()
        for name, expression in self.values.items():
            if not name.isidentifier() or keyword.iskeyword(name) or hasattr(builtins, name):
                self.refuse(f"values.{name}", "a value needs a Python name of its own: letters, digits and '_', none of Python's words")
            self._check_names(f"values.{name}", expression, known)
            known.add(name)
        for where, text in self.texts().items():
            for expression in self._placeholders(where, text):
                self._check_names(where, expression, known)
        for where, expression in self.expressions().items():
            self._check_names(where, expression, known)

    def refuse(self, where, problem):
        """Raise the ValueError that a teacher reads."""
        raise ValueError(f"exercise {self.id!r}, field {where!r}: {problem}")

    def texts(self):
        """Field -> text with placeholders."""
        return {"question": self.question, "hint": self.hint, "solution": self.solution}

    def expressions(self):
        """Field -> expression, beside `values`."""
        return {}

    def _placeholders(self, where, text):
        try:
            return [expression for _, expression, _ in _pieces(text) if expression is not None]
        except ValueError as error:
            self.refuse(where, f"{error} (a brace that is only a brace is written twice)")

    def _check_names(self, where, expression, known):
        try:
            names = free_names(_one_line(expression))
        except SyntaxError as error:
            self.refuse(where, f"{_one_line(expression)!r} is not a Python expression: {error.msg}")
        allowed = known | (modules() | set(LIBRARIES)) - set(self.values)  # a value hides a module of its name
        for name in sorted(names - allowed):
            self.refuse(where, f"unknown name {name!r}; {reference.suggest(name, sorted(allowed))} "
                               f"Allowed: values set before it, modules of labkit, np, math")

    @cache
    def evaluate(self, expression, where):
        """The value of an expression; a module of labkit is imported when it is first named."""
        line = _one_line(expression)
        used = free_names(line) & set(self.values)
        known = {name: self.evaluate(self.values[name], f"values.{name}") for name in used}
        try:
            return evaluate(line, known)
        except (Exception, SystemExit) as error:  # whatever a teacher's expression raises: say where it stands
            raise ValueError(f"exercise {self.id!r}, field {where!r}: {line!r} fails: "
                             f"{type(error).__name__}: {error}") from error

    def fill(self, where):
        """The text of a field with its placeholders computed."""
        filled = []
        for literal, expression, spec in _pieces(self.texts()[where]):
            filled.append(literal)
            if expression is not None:
                value = self.evaluate(expression, where)
                try:
                    filled.append(format(value, spec))
                except (TypeError, ValueError) as error:
                    self.refuse(where, f"{{{expression}:{spec}}}: {error}")
        return "".join(filled).strip()

    def verify(self):
        """Compute all that can be computed; ValueError where that fails."""
        for where in self.texts():
            self.fill(where)


@dataclass(frozen=True, eq=False, kw_only=True)
class JudgedExercise(Exercise):
    """Has a right answer, the expression `expected`; `slips` are tried in their order.

    A kind says how to `read` an answer (ValueError if it can't), when two are the `same`, how to `display` one, what form
    is `accepted`, and what else to say of a wrong one (`advise`, or None).
    """

    expected: str
    slips: tuple[Slip, ...] = ()

    def texts(self):
        hints = {f"slips[{i}].hint": slip.hint for i, slip in enumerate(self.slips, 1)}
        return super().texts() | hints

    def expressions(self):
        slips = {f"slips[{i}].expression": slip.expression for i, slip in enumerate(self.slips, 1)}
        return {"expected": self.expected} | slips

    def right_answer(self):
        return self.evaluate(self.expected, "expected")

    def judge(self, answer):
        """Feedback on an answer of any type: the answer itself never makes it raise."""
        try:
            given = self.read(answer)
        except ValueError as error:
            return Feedback("unreadable", f"{error}. {self.accepted()}")
        right = self.right_answer()
        if self.same(given, right):
            return Feedback("right", f"{self.display(right)}.")
        for i, slip in enumerate(self.slips, 1):
            if self.same(given, self.evaluate(slip.expression, f"slips[{i}].expression"), slip=True):
                return Feedback("near", self.fill(f"slips[{i}].hint"))
        return self.advise(given, right) or Feedback("not yet", f"try again; hint({self.id!r}) helps.")

    def advise(self, given, right):
        return None

    def asked(self):
        return f"{self.fill('question')}\n\n{self.accepted()}"

    def solved(self):
        return f"{self.fill('solution')}\n\nIn labkit:\n\n```python\n{self.code()}\n```"

    def code(self):
        """The Python that computes the answer, ready to paste."""
        used, todo = set(), [self.expected]
        while todo:
            new = free_names(_one_line(todo.pop())) - used
            used |= new
            todo += [self.values[name] for name in new & set(self.values)]
        taken = used - set(self.values)
        lines = [f"from labkit import {name}" for name in sorted(taken & modules())]
        lines += [f"import {'numpy as np' if name == 'np' else name}" for name in sorted(taken & set(LIBRARIES))]
        lines += [f"{name} = {_one_line(text)}" for name, text in self.values.items() if name in used]
        return "\n".join([*lines, _one_line(self.expected)])

    def verify(self):
        super().verify()
        right = self.right_answer()
        self.check_answer("expected", right)
        for i, slip in enumerate(self.slips, 1):
            where = f"slips[{i}].expression"
            value = self.evaluate(slip.expression, where)
            self.check_answer(where, value)
            if self.same(value, right):
                self.refuse(where, f"gives {value!r}, which is judged right, so this slip is never told")


@dataclass(frozen=True, eq=False, kw_only=True)
class NumberExercise(JudgedExercise):
    """A number with a unit.

    `expected` and the slips are in the base unit, in which labkit computes: bytes, seconds, tokens, a share of 1.
    unit : the one that a plain number is taken in (a key of answers.DIMENSION)
    tolerance : relative; 0 for a number that must be exact
    """

    unit: str
    tolerance: float

    def __post_init__(self):
        super().__post_init__()
        if self.unit not in DIMENSION:
            self.refuse("unit", f"unknown unit {self.unit!r}; allowed: {', '.join(DIMENSION)}")
        if not 0 <= self.tolerance <= 0.2:
            self.refuse("tolerance", f"{self.tolerance} is not between 0 and 0.2; it is relative: 0.01 is one per cent")

    def read(self, answer):
        return read_number(answer, DIMENSION[self.unit])

    def accepted(self):
        others = [unit for unit in UNITS[DIMENSION[self.unit]] if unit != self.unit]
        form = "Answer with a number" if self.unit == "number" else f"Answer with a number, in {self.unit}"
        if others and DIMENSION[self.unit] != "count":
            form += f" unless you write another unit behind it ({', '.join(others)})"
        return form + "."

    def display(self, value):
        return format_value(value, self.unit)

    def same(self, given, target, slip=False):
        # a slip is recognised within 1 % even where the answer itself must be exact
        tolerance = max(self.tolerance, 0.01) if slip else self.tolerance
        return any(abs(value - target) <= (tolerance + 1e-9) * abs(target) for value in self._meanings(given))

    def _meanings(self, given):
        """What an answer may be in the base unit: a plain number is in `unit`, and for % a share of 1 as well."""
        if not isinstance(given, Reading):
            return [given]
        value = given.number * UNITS[DIMENSION[self.unit]][given.unit or self.unit]
        return [value, given.number] if self.unit == "%" and given.unit is None else [value]

    def advise(self, given, right):
        for unit in UNITS[DIMENSION[self.unit]]:
            if self.same(Reading(given.number, unit), right):
                wrote = f"you wrote {given.unit}" if given.unit else f"without a unit it is taken in {self.unit}"
                prefixes = " (1 KiB = 2**10 bytes, 1 KB = 10**3 bytes)" if DIMENSION[unit] == "bytes" else ""
                return Feedback("near", f"the number is right in {unit}, but {wrote}{prefixes}.")
        if abs(self._meanings(given)[0] - right) <= 5 * self.tolerance * abs(right):
            return Feedback("near", "very close. Start from exact numbers and round only at the end.")
        return None

    def check_answer(self, where, value):
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real) or not abs(value) <= MOST:
            self.refuse(where, f"gives {value!r}, not a finite number")


def _pick(text, words):
    """The one of `words` that a text names, in full or by a beginning that fits only one."""
    key = _one_line(unicodedata.normalize("NFKC", str(text))).casefold()
    fits = [word for word in words if word.casefold() == key] or [word for word in words if word.casefold().startswith(key)]
    if len(fits) != 1:
        raise ValueError(f"{str(text)[:30]!r} is not one of the words")
    return fits[0]


def _check_words(exercise, where, words):
    """Refuse words of which an answer, read as a student's, could never name one."""
    for word in words:
        try:
            _pick(word, words)
        except ValueError:
            exercise.refuse(where, f"{word!r} cannot be told from another one; capital letters and spaces do not count")


_SEPARATORS = re.compile(r"->|[<>→⇒,;|\n、，；]")


@dataclass(frozen=True, eq=False, kw_only=True)
class ChoiceExercise(JudgedExercise):
    """One word of several: `expected` and the slips give one of `options`."""

    options: tuple[str, ...]

    def __post_init__(self):
        super().__post_init__()
        _check_words(self, "options", self.options)

    def read(self, answer):
        return _pick(answer, self.options)

    def accepted(self):
        return f"Answer with one of: {', '.join(self.options)}."

    def display(self, value):
        return value

    def same(self, given, target, slip=False):
        return given == target

    def check_answer(self, where, value):
        if not isinstance(value, str) or value not in self.options:
            self.refuse(where, f"gives {value!r}, not one of the options {list(self.options)}")


@dataclass(frozen=True, eq=False, kw_only=True)
class OrderExercise(JudgedExercise):
    """A list to put in order: `parts` as shown; `reasons` may say of a part why it belongs further back."""

    parts: tuple[str, ...]
    reasons: dict[str, str] = field(default_factory=dict)

    def __post_init__(self):
        super().__post_init__()
        _check_words(self, "parts", self.parts)
        for part in self.parts:
            if len(_SEPARATORS.split(part)) > 1:
                self.refuse("parts", f"{part!r} holds a sign that parts the words of an answer, such as a comma")
        for name in self.reasons:
            if name not in self.parts:
                self.refuse("reasons", f"{name!r} is not one of the parts {list(self.parts)}")

    def texts(self):
        return super().texts() | {f"reasons.{part}": text for part, text in self.reasons.items()}

    def read(self, answer):
        if isinstance(answer, str):
            answer = [part for part in _SEPARATORS.split(answer) if part.strip()]
        if not isinstance(answer, (list, tuple)):
            raise ValueError("this is not a list")
        order = [_pick(part, self.parts) for part in answer]
        for part in self.parts:
            if order.count(part) != 1:
                raise ValueError(f"{part!r} is there {order.count(part)} times")
        return order

    def accepted(self):
        return f"Answer with a list of all of these, first to last: {', '.join(self.parts)}."

    def display(self, value):
        return " → ".join(value)

    def same(self, given, target, slip=False):
        return list(given) == list(target)

    def advise(self, given, right):
        place = next(i for i, part in enumerate(given) if part != right[i])
        reason = self.fill(f"reasons.{given[place]}") if given[place] in self.reasons else ""
        start = f"the first {place} are right, then {given[place]!r} is" if place else f"{given[0]!r} at the front is"
        return Feedback("near" if place else "not yet", f"{start} too early. {reason}".strip())

    def check_answer(self, where, value):
        if not isinstance(value, (list, tuple)) or sorted(map(str, value)) != sorted(self.parts):
            self.refuse(where, f"gives {value!r}, not an order of the parts {list(self.parts)}")


@dataclass(frozen=True, eq=False, kw_only=True)
class ThinkExercise(Exercise):
    """A question to think about: `rubric` lists what a good answer has, `solution` is a sample answer."""

    rubric: tuple[str, ...]

    def texts(self):
        return super().texts() | {f"rubric[{i}]": point for i, point in enumerate(self.rubric, 1)}

    def judge(self, answer):
        points = "\n".join(f"- {self.fill(f'rubric[{i}]')}" for i in range(1, len(self.rubric) + 1))
        return Feedback("think", f"no program can judge this. Which of these {len(self.rubric)} points does your answer "
                                 f"make? Then compare it with solution({self.id!r}).\n\n{points}")

    def asked(self):
        return f"{self.fill('question')}\n\nWrite a few sentences, then check({self.id!r}) lists what to look for."

    def solved(self):
        return self.fill("solution")


KINDS = {"number": NumberExercise, "choice": ChoiceExercise, "order": OrderExercise, "think": ThinkExercise}
