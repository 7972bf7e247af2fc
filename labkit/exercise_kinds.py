"""The kinds of exercise, a number, a choice, an order or a thought, and how each judges an answer."""

import math
from dataclasses import dataclass, field
from numbers import Real

import numpy as np

from labkit.answers import DIMENSION, UNITS, Reading, format_value, read_number, read_word, split_list
from labkit.exercise_base import VERDICTS, Exercise, Feedback, JudgedExercise, Slip  # noqa: F401  (their other home)

MOST = 1e300  # an answer beyond it is none, and would overflow a float


def two_digits(number):
    """A number rounded to two significant digits: 1,327,187 is 1,300,000."""
    return float(f"{number:.1e}")


@dataclass(frozen=True, eq=False, kw_only=True)
class NumberExercise(JudgedExercise):
    """A number with a unit.

    `expected` and the slips are in the base unit, in which labkit computes: bytes, seconds, tokens, a share of 1.
    unit : the one that a plain number is taken in (a key of answers.DIMENSION)
    tolerance : relative; 0 for a number that must be exact

    Right is what lies within the tolerance, and, unless that is 0, the right answer rounded to two digits: who reads
    0.63 off a panel, or writes 1.3 million, has understood.
    """

    unit: str
    tolerance: float

    def form_problems(self):
        yield from super().form_problems()
        if self.unit not in DIMENSION:
            yield self.problem("unit", f"unknown unit {self.unit!r}; allowed: {', '.join(DIMENSION)}")
        if not 0 <= self.tolerance <= 0.2:
            yield self.problem("tolerance", f"{self.tolerance} is not between 0 and 0.2; it is relative: 0.01 is one per cent")

    def read(self, answer):
        return read_number(answer, DIMENSION[self.unit])

    def form(self):
        """What an answer looks like, in a few words."""
        if self.unit == "number":
            return "a number"
        return f"a number of {self.unit}" if DIMENSION[self.unit] == "count" else f"a number, in {self.unit}"

    def accepted(self):
        others = [unit for unit in UNITS[DIMENSION[self.unit]] if unit != self.unit]
        unless = f" unless you write another unit behind it ({', '.join(others)})" if others and DIMENSION[self.unit] != "count" else ""
        return f"Answer with {self.form()}{unless}. {'Two right digits are enough.' if self.tolerance else 'It must be exact.'}"

    def display(self, value):
        return format_value(value, self.unit)

    def same(self, given, target, slip=False):
        # a slip is recognised within 1 % even where the answer itself must be exact
        tolerance = max(self.tolerance, 0.01) if slip else self.tolerance
        return any(abs(value - target) <= (tolerance + 1e-9) * abs(target) for value in self._meanings(given))

    def is_right(self, given, right):
        rounded = {two_digits(right / self._size(unit)) for unit in self._units(given)} if self.tolerance else ()
        return self.same(given, right) or any(math.isclose(given.number, number, rel_tol=1e-9) for number in rounded)

    def _size(self, unit):
        return UNITS[DIMENSION[self.unit]][unit]

    def _units(self, given):
        """Units an answer may be in: a plain number is in `unit`, and for % it may be a share of 1 as well."""
        return [given.unit or self.unit, *(["x"] if self.unit == "%" and given.unit is None else [])]

    def _meanings(self, given):
        """What an answer may be in the base unit."""
        return [given.number * self._size(unit) for unit in self._units(given)] if isinstance(given, Reading) else [given]

    def advise(self, given, right):
        for unit in UNITS[DIMENSION[self.unit]]:
            if self.is_right(Reading(given.number, unit), right):
                wrote = f"you wrote {given.unit}" if given.unit else f"without a unit it is taken in {self.unit}"
                prefixes = " (1 KiB = 2^10 bytes, 1 KB = 10^3 bytes)" if DIMENSION[unit] == "bytes" else ""
                return Feedback("near", f"the number is right in {unit}, but {wrote}{prefixes}.")
        off = min((value / float(right) - 1 for value in self._meanings(given)), key=abs) if right else math.inf
        if abs(off) <= min(5 * self.tolerance, 0.1):
            return Feedback("near", f"close, but a little too {'large' if off > 0 else 'small'}; right is what lies within "
                                    f"{100 * self.tolerance:.3g} % of it. Was something rounded on the way, or read off a curve?")
        return None

    def answer_problem(self, value):
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real) or not abs(value) <= MOST:
            return "not a finite number"
        return None


def _word_problems(exercise, where, words):
    """Words of which an answer, read as a student's, could never name one."""
    for word in words:
        try:
            read_word(word, words)
        except ValueError:
            yield exercise.problem(where, f"{word!r} cannot be told from another one; capital letters and spaces do not count")


@dataclass(frozen=True, eq=False, kw_only=True)
class ChoiceExercise(JudgedExercise):
    """One word of several: `expected` and the slips give one of `options`."""

    options: tuple[str, ...]

    def form_problems(self):
        yield from super().form_problems()
        yield from _word_problems(self, "options", self.options)

    def read(self, answer):
        return read_word(answer, self.options)

    def accepted(self):
        return f"Answer with one of: {', '.join(self.options)}."

    def display(self, value):
        return value

    def same(self, given, target, slip=False):
        return given == target

    def answer_problem(self, value):
        return None if isinstance(value, str) and value in self.options else f"not one of the options {list(self.options)}"


@dataclass(frozen=True, eq=False, kw_only=True)
class OrderExercise(JudgedExercise):
    """A list to put in order: `parts` as shown; `reasons` may say of a part why it belongs further back."""

    parts: tuple[str, ...]
    reasons: dict[str, str] = field(default_factory=dict)

    def form_problems(self):
        yield from super().form_problems()
        yield from _word_problems(self, "parts", self.parts)
        for part in self.parts:
            if len(split_list(part)) > 1:
                yield self.problem("parts", f"{part!r} holds a sign that parts the words of an answer, such as a comma")
        for name in self.reasons:
            if name not in self.parts:
                yield self.problem("reasons", f"{name!r} is not one of the parts {list(self.parts)}")

    def texts(self):
        return super().texts() | {f"reasons.{part}": text for part, text in self.reasons.items()}

    def read(self, answer):
        order = [read_word(part, self.parts) for part in split_list(answer)]
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

    def answer_problem(self, value):
        right = isinstance(value, (list, tuple)) and sorted(map(str, value)) == sorted(self.parts)
        return None if right else f"not an order of the parts {list(self.parts)}"


@dataclass(frozen=True, eq=False, kw_only=True)
class ThinkExercise(Exercise):
    """A question to think about: `rubric` lists what a good answer has, `solution` is a sample answer."""

    rubric: tuple[str, ...]

    def texts(self):
        return super().texts() | {f"rubric[{i}]": point for i, point in enumerate(self.rubric, 1)}

    def judge(self, answer):
        points = "\n".join(f"- {self.fill(f'rubric[{i}]')}" for i in range(1, len(self.rubric) + 1))
        return Feedback("think", f"no program can judge this. Which of these {len(self.rubric)} points does your answer "
                                 f"make? Then compare it with the solution.\n\n{points}")

    def asked(self):
        return f"{self.fill('question')}\n\nWrite a few sentences. Check then lists what a good answer has."

    def solved(self):
        return self.fill("solution")


KINDS = {"number": NumberExercise, "choice": ChoiceExercise, "order": OrderExercise, "think": ThinkExercise}
