"""What every kind of exercise shares: texts with computed numbers, a right answer as an expression, likely slips.

An exercise keeps its right answer as a Python expression over the modules of labkit; see labkit.exercises.
"""

import builtins
import keyword
import re
import string
from dataclasses import dataclass, field
from functools import cache

from labkit import reference
from labkit.answers import is_blank
from labkit.expressions import LIBRARIES, evaluate, free_names, modules
from labkit.reference import raise_all

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


def _one_line(expression):
    return " ".join(expression.split())


def _expressions_in(text):
    """The expressions of a text such as "memory for {users:,} users"."""
    return [expression for _, expression, _, _ in string.Formatter().parse(text) if expression is not None]


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
    kind : a key of exercise_kinds.KINDS
    values : named expressions for all others of the exercise; one may use those before it

    A table that is wrong raises one ValueError with all that its form shows; `verify` computes everything as well.
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
        raise_all(self.form_problems())

    def problem(self, where, what):
        """The sentence that a teacher reads."""
        return f"exercise {self.id!r}, field {where!r}: {what}"

    def texts(self):
        """Field -> text with placeholders."""
        return {"question": self.question, "hint": self.hint, "solution": self.solution}

    def expressions(self):
        """Field -> expression, beside `values`."""
        return {}

    # ---- what is wrong with it

    def form_problems(self):
        """What is wrong before anything is computed, a sentence each."""
        if not re.fullmatch(r"[A-Za-z0-9-]+(\.[a-z0-9-]+)?", self.id):
            yield self.problem("id", "allowed are letters, digits and '-', then at most one '.part' in small letters")
        if not 1 <= self.notebook <= 7:
            yield self.problem("notebook", f"{self.notebook} is not one of 1 to 7")
        known = set()
        for name, expression in self.values.items():
            if not name.isidentifier() or keyword.iskeyword(name) or hasattr(builtins, name):
                yield self.problem(f"values.{name}", "a value needs a Python name of its own: letters, digits and '_', none of Python's words")
            yield from self._name_problems(f"values.{name}", expression, known)
            known.add(name)
        for where, text in self.texts().items():
            try:
                inside = _expressions_in(text)
            except ValueError as error:
                yield self.problem(where, f"{error} (a brace that is only a brace is written twice)")
                continue
            for expression in inside:
                yield from self._name_problems(where, expression, known)
        for where, expression in self.expressions().items():
            yield from self._name_problems(where, expression, known)

    def _name_problems(self, where, expression, known):
        try:
            names = free_names(_one_line(expression))
        except SyntaxError as error:
            yield self.problem(where, f"{_one_line(expression)!r} is not a Python expression: {error.msg}")
            return
        allowed = known | (modules() | set(LIBRARIES)) - set(self.values)  # a value hides a module of its name
        for name in sorted(names - allowed):
            yield self.problem(where, f"unknown name {name!r}; {reference.suggest(name, sorted(allowed))} "
                                      f"Allowed: values set before it, modules of labkit, np, math")

    def value_problems(self):
        """What is wrong once all that can be computed is computed, a sentence each."""
        for where in self.texts():
            try:
                self.fill(where)
            except ValueError as error:
                yield str(error)

    def verify(self):
        """Compute all that can be computed; one ValueError with all that fails."""
        raise_all(self.value_problems())

    # ---- computing it

    @cache
    def evaluate(self, expression, where):
        """The value of an expression; a module of labkit is imported when it is first named."""
        line = _one_line(expression)
        used = free_names(line) & set(self.values)
        known = {name: self.evaluate(self.values[name], f"values.{name}") for name in used}
        try:
            return evaluate(line, known)
        except (Exception, SystemExit) as error:  # whatever a teacher's expression raises: say where it stands
            raise ValueError(self.problem(where, f"{line!r} fails: {type(error).__name__}: {error}")) from error

    def fill(self, where):
        """The text of a field with its placeholders computed."""
        filled = []
        for literal, expression, spec, _ in string.Formatter().parse(self.texts()[where]):
            filled.append(literal)
            if expression is not None:
                value = self.evaluate(expression, where)
                try:
                    filled.append(format(value, spec))
                except (TypeError, ValueError) as error:
                    raise ValueError(self.problem(where, f"{{{expression}:{spec}}}: {error}")) from error
        return "".join(filled).strip()


@dataclass(frozen=True, eq=False, kw_only=True)
class JudgedExercise(Exercise):
    """Has a right answer, the expression `expected`; `slips` are tried in their order.

    A kind says how to `read` an answer (ValueError if it can't), when two are the `same`, how to `display` one, what form
    is `accepted`, what else to say of a wrong one (`advise`, or None), and what is wrong with a computed answer
    (`answer_problem`, or None).
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
        if is_blank(answer):
            return Feedback("unreadable", f"there is no answer yet. {self.accepted()}")
        try:
            given = self.read(answer)
        except ValueError as error:
            return Feedback("unreadable", f"{error}. {self.accepted()}")
        right = self.right_answer()
        if self.is_right(given, right):
            return Feedback("right", f"{self.display(right)}.")
        for i, slip in enumerate(self.slips, 1):
            if self.same(given, self.evaluate(slip.expression, f"slips[{i}].expression"), slip=True):
                return Feedback("near", self.fill(f"slips[{i}].hint"))
        return self.advise(given, right) or Feedback("not yet", "try again, or take the hint.")

    def is_right(self, given, right):
        return self.same(given, right)

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

    def value_problems(self):
        yield from super().value_problems()
        sound = {}
        for where, expression in self.expressions().items():
            try:
                value = self.evaluate(expression, where)
            except ValueError as error:
                yield str(error)
                continue
            wrong = self.answer_problem(value)
            if wrong:
                yield self.problem(where, f"gives {value!r}, {wrong}")
            else:
                sound[where] = value
        right = sound.pop("expected", None)
        for where, value in sound.items():
            if right is not None and self.same(value, right):
                yield self.problem(where, f"gives {value!r}, which is judged right, so this slip is never told")
