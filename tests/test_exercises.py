"""labkit.answers, labkit.exercise_kinds, labkit.exercises and data/exercises.toml."""

import itertools
import math
import re
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit import exercises, reference
from labkit.answers import DIMENSION, UNITS, Reading, format_value, read_number
from labkit.exercise_kinds import KINDS, Feedback, JudgedExercise, NumberExercise
from labkit.tables import as_frame, as_text

ALL = exercises.load()
JUDGED = [e for e in ALL.values() if isinstance(e, JudgedExercise)]
NUMBERS = [e for e in ALL.values() if isinstance(e, NumberExercise)]


def base(answer, dimension, unit=None):
    """An answer in the base unit."""
    reading = read_number(answer, dimension)
    return reading.number * UNITS[dimension][reading.unit or unit or next(iter(UNITS[dimension]))]


# ---------------------------------------------------------------- reading answers

@pytest.mark.parametrize("answer, dimension, value", [
    ("41.9 GB", "bytes", 41.9e9), ("41.9gb", "bytes", 41.9e9), ("39 GiB", "bytes", 39 * 2**30), ("2.5 MiB", "bytes", 2.5 * 2**20),
    ("327,680 bytes", "bytes", 327680), ("327 680 B", "bytes", 327680), ("327_680", "bytes", 327680), ("327'680 bytes", "bytes", 327680),
    ("327 680 bytes", "bytes", 327680), ("41,9 GB", "bytes", 41.9e9), ("320 KiB/token", "bytes", 327680),
    ("320 KiB per token", "bytes", 327680), ("2.5 MiB / sequence", "bytes", 2.5 * 2**20), ("about 39 GiB each.", "bytes", 39 * 2**30),
    ("≈ 39 GiB", "bytes", 39 * 2**30), ("8 bits", "bytes", 1), ("4.19e10 bytes", "bytes", 4.19e10), ("4.19×10¹⁰ bytes", "bytes", 4.19e10),
    ("4.19 x 10^10", "bytes", 4.19e10), ("12 million bytes", "bytes", 12e6), ("320千", "bytes", None), ("12 GB/s", "bytes", None),
    ("1.33M tokens", "tokens", 1.33e6), ("1.33M", "tokens", 1.33e6), ("1,330k", "tokens", 1.33e6), ("1330 k tokens", "tokens", 1.33e6),
    ("1.33 million tokens", "tokens", 1.33e6), ("１，３３０，０００", "tokens", 1.33e6), ("约 133万 token", "tokens", 1.33e6),
    ("100 tokens/s", "tokens", None), ("100 tokens per second", "tokens", None), ("100 GB", "tokens", None),
    ("13.5k tok/s", "rate", 13500), ("100 tokens per second", "rate", 100),
    ("8.8 s", "time", 8.8), ("8.8 seconds", "time", 8.8), ("12 ms", "time", 0.012), ("12 毫秒", "time", 0.012), ("8。8 秒", "time", 8.8),
    ("12 µs", "time", 12e-6), ("12 μs", "time", 12e-6), ("2 min", "time", 120), ("4 h", "time", 14400), ("12 m", "time", None),
    ("8,900 queries", "count", 8900), ("8,900", "count", 8900), ("10", "count", 10), ("10份", "count", 10), ("10 contexts at once", "count", 10),
    ("1 query", "count", 1), ("10 users", "count", 10), ("32 %", "share", 0.32), ("32％", "share", 0.32), ("32 percent", "share", 0.32),
    ("26.4x", "share", 26.4), ("26.4×", "share", 26.4), ("38.6 times", "share", 38.6),
    ("-2.5", "number", -2.5), ("−2.5", "number", -2.5), ("1/4", "number", 0.25), ("½", "number", 0.5), ("1⁄4", "number", 0.25), ("1.5.5", "number", None), (".5", "number", 0.5), ("3.", "number", 3), ("= 7", "number", 7),
    (7, "number", 7), (np.int64(7), "number", 7), (np.float32(0.5), "number", 0.5), (Fraction(1, 4), "number", 0.25),
    ("1,3300", "number", None), ("3-4", "number", None), ("1/0", "number", None), ("1e999", "number", None), ("", "number", None),
    ("ten", "number", None), ("nan", "number", None), (math.nan, "number", None), (10**400, "number", None), (True, "number", None),
    ("1/2/3", "number", None), ("3 of 8 users", "count", None), ("3 users of 8", "count", None), ("5 per cent", "share", 0.05),
    ("\u200b41.9 GB", "bytes", 41.9e9), ("41.9 GB at 128k", "bytes", 41.9e9), ("5 GB for 8 GPUs", "bytes", 5e9),
    (np.True_, "number", None), (None, "number", None), ([10], "number", None), (b"10", "number", None), (1j, "number", None),
])
def test_reading(answer, dimension, value):
    if value is None:
        with pytest.raises(ValueError):
            read_number(answer, dimension)
    else:
        assert base(answer, dimension) == pytest.approx(value, rel=1e-9)


@given(st.integers(0, 10**12), st.sampled_from(["", ",", " ", "_", "'", "\u00a0", "\u202f", "，"]), st.sampled_from(list(DIMENSION)),
       st.sampled_from(["", " ", "\t"]), st.booleans())
def test_integers_survive_every_spelling(number, separator, unit, gap, full_width):
    text = f"{number:,}".replace(",", separator)
    if full_width:
        text = text.translate({ord(digit): ord(digit) + 0xFEE0 for digit in "0123456789"})
    assert read_number(f"{text}{gap}{unit}", DIMENSION[unit]) == Reading(number, unit)


@given(st.floats(1e-6, 1e15), st.sampled_from([unit for unit in DIMENSION if unit != "number"]))
def test_printed_values_are_read_back(value, unit):
    text = format_value(value, unit).split(" (")[0]
    assert base(text, DIMENSION[unit]) == pytest.approx(value, rel=6e-4)  # four digits


def test_printed_values():
    assert format_value(41_943_040_000, "GiB") == "39.06 GiB (41.94 GB)"
    assert format_value(327_680, "KB") == "327.7 KB (320 KiB)"
    assert format_value(1_327_186.85, "tokens") == "1,327,187 tokens"
    assert format_value(10.0, "contexts") == "10 contexts"
    assert format_value(0, "s") == "0 s"
    assert format_value(0.29724, "%") == "29.72 %"
    assert format_value(-2.5, "number") == "-2.5"


# ---------------------------------------------------------------- the shipped exercises

def test_the_file_stands():
    assert exercises.verify() == len(ALL) == len(exercises.ids())
    assert exercises.ids(notebook=1)[:2] == ["L11-1a.token", "L11-1a.context"]
    assert exercises.ids(notebook=8) == []


def test_expected_values_against_plain_arithmetic():
    token = 80 * 8 * 128 * 2 * 2
    weights = 2 * 70_553_706_496
    left = 8 * 80e9 * 0.9 - weights
    by_hand = {
        "L11-1a.token": token,
        "L11-1a.context": 128_000 * token,
        "L11-1b.token": 8 * token,
        "L11-1b.context": 128_000 * 8 * token,
        "L14-1.tokens": left / token,
        "L14-1.contexts": 10,
        "L14-1.share": 128_000 * token / weights,
        "NB1-1": left // (61 * (512 + 64) * 2 * 128_000),
        "NB1-2": 0.591,
    }
    assert {e.id: e.right_answer() for e in JUDGED if e.id in by_hand} == pytest.approx(by_hand, rel=1e-9)


def test_half_the_wait_against_a_quadratic():
    # seconds(cached share s of n) = (2 P n (1 - s) + 2 L d n^2 (1 - s^2)) / F + 0.1 ms = half of seconds(0)
    n, flops = 32_000, 0.7 * 989e12
    linear, attention = 2 * 6_979_321_856 * n, 2 * 32 * 4096 * n**2
    half_of_it = (linear + attention) / 2 + 0.5e-4 * flops  # the overhead is not halved
    roots = np.roots([attention, linear, -half_of_it])
    assert ALL["NB1-2"].right_answer() == pytest.approx(max(roots.real), abs=1.1e-3)


@pytest.mark.parametrize("id, answer", [
    ("L11-1a.token", "320 KiB"), ("L11-1a.token", 320), ("L11-1a.token", "327,680 bytes"), ("L11-1a.token", "327.7 KB"),
    ("L11-1a.token", "2,621,440 bits"), ("L11-1a.context", "39 GiB"), ("L11-1a.context", "41.9 GB"), ("L11-1a.context", 39.06),
    ("L11-1b.token", "2.5 MiB"), ("L11-1b.token", "2,560 KiB"), ("L11-1b.context", "312 GiB"), ("L11-1b.context", "312.5"),
    ("L14-1.tokens", "1.33M tokens"), ("L14-1.tokens", "1,330k"), ("L14-1.tokens", 1_328_000), ("L14-1.tokens", "约 133 万"),
    ("L14-1.tokens", "1.3M"), ("L11-1b.context", 310), ("L14-5.reuse", "31"), ("L14-5.reuse", "31.4 %"), ("L14-2.questions", 20),
    ("L14-1.contexts", "10"), ("L14-1.contexts", 10.0), ("L14-1.contexts", "10 users"), ("L14-1.share", "29.7 %"),
    ("L14-1.share", 0.297), ("L14-1.share", 29.7), ("NB1-1", 48), ("NB1-2", "59 %"), ("NB1-2", 0.6),
])
def test_right_answers(id, answer):
    assert exercises.check(id, answer).verdict == "right"


@pytest.mark.parametrize("id, answer, verdict, words", [
    ("L11-1a.token", "160 KiB", "near", "half"), ("L11-1a.token", "2.5 MiB", "near", "KV heads"), ("L11-1a.token", "320 KB", "near", "right in KiB, but you wrote KB"),
    ("L11-1a.token", 327680, "near", "right in bytes, but without a unit it is taken in KiB"), ("L11-1a.token", "4 KiB", "near", "one layer"),
    ("L11-1a.token", "335 KiB", "near", "close, but a little too large"), ("L11-1a.token", "1 GiB", "not yet", "hint"), ("L11-1a.token", "-320 KiB", "not yet", "hint"),
    ("L11-1a.token", "320 tokens", "unreadable", "in KiB"),
    ("L11-1a.context", "39.06 GB", "near", "right in GiB, but you wrote GB"), ("L11-1a.context", 41.9, "near", "right in GB"),
    ("L11-1a.context", "40 GiB", "near", "131,072"), ("L11-1a.context", "19.5 GiB", "near", "half"), ("L11-1a.context", "312.5 GiB", "near", "64"),
    ("L11-1b.token", "320 KiB", "near", "still with 8"), ("L11-1b.context", "312.5 GB", "near", "right in GiB"),
    ("L14-1.tokens", "1.758M", "near", "weights"), ("L14-1.tokens", "1.5225M", "near", "90%"), ("L14-1.tokens", "166k", "near", "eighth"),
    ("L14-1.tokens", 1.33, "near", "right in M tokens"), ("L14-1.tokens", "1.37M", "near", "before the weights"),
    ("L14-1.contexts", "10.37", "near", "round down"), ("L14-1.contexts", 11, "near", "one too many"), ("L14-1.contexts", 13, "near", "subtract"),
    ("L14-1.contexts", 9, "not yet", "hint"), ("L14-1.share", "1/3", "near", "sentence"), ("L14-1.share", "27.7%", "near", "GiB by GB"),
    ("L14-1.share", "0.297 %", "near", "right in x"), ("L14-1.share", "a third", "unreadable", "in %"), ("NB1-1", 24, "near", "factor 2"),
    ("NB1-1", 0, "near", "128 heads"), ("NB1-2", "50 %", "near", "half of the work"), ("NB1-2", 0.41, "near", "still to be computed"),
    ("NB1-2", "55", "near", "not yet half"), ("NB1-2", "63 %", "near", "a little too large; right is what lies within 3 %"),
    ("L14-2.questions", "11", "near", "GPU seconds"), ("L14-2.questions", 35, "near", "prefix cache"),
    ("L14-4.night", "3,108", "near", "0.35"), ("NB5-2", 6.2, "near", "0.35"),
])
def test_wrong_answers(id, answer, verdict, words):
    feedback = exercises.check(id, answer)
    assert (feedback.verdict, words in feedback.message) == (verdict, True), feedback


@pytest.mark.parametrize("exercise", JUDGED, ids=lambda e: e.id)
def test_every_slip_is_told(exercise):
    right = exercise.right_answer()
    shown = exercise.display(right)
    assert exercise.judge(shown.split(" (")[0]).verdict == "right"
    for i, slip in enumerate(exercise.slips, 1):
        answer = exercise.evaluate(slip.expression, f"slips[{i}].expression")
        if isinstance(exercise, NumberExercise):
            answer = f"{float(answer) / UNITS[DIMENSION[exercise.unit]][exercise.unit]!r} {exercise.unit}"
        assert exercise.judge(answer) == Feedback("near", exercise.fill(f"slips[{i}].hint"))


@pytest.mark.parametrize("exercise", NUMBERS, ids=lambda e: e.id)
def test_right_in_every_unit(exercise):
    for unit, size in UNITS[DIMENSION[exercise.unit]].items():
        assert exercise.judge(f"{float(exercise.right_answer() / size)!r} {unit}").verdict == "right"


@pytest.mark.parametrize("id", ALL)
def test_texts(id):
    for note in (exercises.show(id), exercises.hint(id), exercises.solution(id)):
        assert id in repr(note) and repr(note) == repr(note)
        assert not set("{}$~") & set(repr(note)), "a placeholder left, or what Markdown reads as mathematics or struck out"
    assert exercises.solution(id)._repr_markdown_().startswith("<details><summary>")
    assert exercises.show(id)._repr_markdown_().startswith("**Exercise ")
    assert exercises.check(id, "?")._repr_markdown_().startswith("**")


@pytest.mark.parametrize("exercise", JUDGED, ids=lambda e: e.id)
def test_the_code_of_a_solution_runs(exercise):
    *lines, last = exercise.code().splitlines()
    scope = {}
    exec("\n".join(lines), scope)
    assert eval(last, scope) == exercise.right_answer()
    assert exercise.code() in repr(exercises.solution(exercise.id))


def test_questions_do_not_give_the_answer():
    for exercise in NUMBERS:
        number = exercise.display(exercise.right_answer()).split()[0]
        assert number not in f"{exercise.asked()} {exercise.fill('hint')}".split(), exercise.id


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(list(ALL)), st.one_of(st.text(), st.floats(), st.integers(), st.none(), st.booleans(), st.complex_numbers(),
                                             st.binary(), st.lists(st.text()), st.dictionaries(st.text(), st.integers())))
def test_no_answer_raises(id, answer):
    assert exercises.check(id, answer).verdict in {"right", "near", "not yet", "unreadable", "think"}


def test_ids():
    with pytest.raises(ValueError, match="no exercise is called 'L11-1a.tokens'; did you mean L11-1a.token"):
        exercises.check("L11-1a.tokens", 1)
    with pytest.raises(ValueError, match="no exercise is called None"):
        exercises.hint(None)
    with pytest.raises(ValueError, match="several parts, checked one by one: L14-1.tokens, L14-1.contexts, L14-1.share"):
        exercises.check("L14-1", 10)
    assert all(part in repr(exercises.show("L14-1")) for part in ("L14-1.tokens", "L14-1.contexts", "L14-1.share"))
    assert repr(exercises.solution("L14-1")).count("In labkit:") == 3


def test_feedback_text():
    assert repr(exercises.check("L11-1a.token", 320)) == "Right: 320 KiB (327.7 KB)."
    assert exercises.check("L11-1a.token", 320)._repr_markdown_() == "**Right:** 320 KiB (327.7 KB)."


def test_loading_imports_no_simulation():
    code = ("import sys; from labkit import exercises; exercises.load(); before = 'labkit.kv_cost' in sys.modules;"
            "exercises.check('L11-1a.token', 1); print(before, 'labkit.kv_cost' in sys.modules, 'labkit.panel' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "False"]


# ---------------------------------------------------------------- the other kinds, and a teacher's mistakes

SAMPLE = '''
[[exercise]]
id = "T-1"
notebook = 2
lecture = "new"
title = "a number"
question = "how many per {n} tokens? {{braces}}"
unit = "s"
tolerance = 0.01
expected = "math.sqrt(np.square(n))"
hint = "h"
solution = "{n:,} seconds"
[exercise.values]
n = "1000"
[[exercise.slips]]
expression = "n / 2"
hint = "half of {n}"

[[exercise]]
id = "T-2"
kind = "choice"
notebook = 3
lecture = "new"
title = "a choice"
question = "which?"
options = ["append", "rewrite", "counter at the end"]
expected = "'append'"
hint = "h"
solution = "append"
[[exercise.slips]]
expression = "'rewrite'"
hint = "everything behind is new"

[[exercise]]
id = "T-3"
kind = "order"
notebook = 2
lecture = "L11 section 7, exercise 3"
title = "an order"
question = "sort"
parts = ["time stamp", "system", "tools", "preferences", "task", "history"]
expected = "['system', 'tools', 'preferences', 'task', 'history', 'time stamp']"
hint = "h"
solution = "stable first"
[exercise.reasons]
"time stamp" = "It changes at each call."

[[exercise]]
id = "T-4"
kind = "think"
notebook = 7
lecture = "L14 section 10, exercise 7"
title = "a thought"
question = "design"
rubric = ["what is retrieved", "what is cached"]
hint = "h"
solution = "sample"
'''


@pytest.fixture
def sample(tmp_path):
    """A loader of SAMPLE with one text replaced by another."""
    numbers = itertools.count()

    def load(old="", new=""):
        assert old in SAMPLE
        path = tmp_path / f"{next(numbers)}.toml"  # load() remembers a path
        path.write_text(SAMPLE.replace(old, new, 1) if old else SAMPLE, encoding="utf-8")
        exercises.verify(path)
        return exercises.load(path)
    return load


def test_number_of_the_sample(sample):
    exercise = sample()["T-1"]
    assert exercise.fill("question") == "how many per 1000 tokens? {braces}"
    assert exercise.solved().startswith("1,000 seconds")
    assert exercise.judge("1000 s").verdict == "right"
    assert exercise.judge("8.3 min") == Feedback("near", "half of 1000")
    assert exercise.judge(1000 * 1000).message.startswith("the number is right in ms")
    assert exercise.code() == "import math\nimport numpy as np\nn = 1000\nmath.sqrt(np.square(n))"


@pytest.mark.parametrize("answer, verdict", [
    ("append", "right"), ("APP", "right"), (" Append ", "right"), ("ａｐｐｅｎｄ", "right"), ("rewrite", "near"), ("counter", "not yet"),
    ("", "unreadable"), (3, "unreadable"), (None, "unreadable"), ("shuffle", "unreadable")])
def test_choice(sample, answer, verdict):
    feedback = sample()["T-2"].judge(answer)
    assert feedback.verdict == verdict
    assert ("append, rewrite, counter at the end" in feedback.message) == (verdict == "unreadable")


@pytest.mark.parametrize("answer, verdict, words", [
    (["system", "tools", "preferences", "task", "history", "time stamp"], "right", "system → tools"),
    ("System > tools > pref > task > history > time", "right", "system → tools"),
    ("system，tools，preferences，task，history，time stamp", "right", ""),
    ("system -> tools -> preferences -> task -> history -> time", "right", ""),
    ("time, system, tools, preferences, task, history", "not yet", "'time stamp' at the front is too early. It changes"),
    ("system, tools, time, preferences, task, history", "near", "the first 2 are right, then 'time stamp' is too early. It changes"),
    ("system, tools, task, preferences, history, time", "near", "the first 2 are right, then 'task' is too early."),
    ("system, tools", "unreadable", "'time stamp' is there 0 times"), ("system, tools, tools", "unreadable", "0 times"),
    (["t"] * 6, "unreadable", "'t' is not one of"), ("", "unreadable", "no answer yet"), (",", "unreadable", "0 times"), (6, "unreadable", "a Python int cannot be an answer"),
    ([None], "unreadable", "a Python NoneType cannot be"), (["system", ""], "unreadable", "'' is not one of")])
def test_order(sample, answer, verdict, words):
    feedback = sample()["T-3"].judge(answer)
    assert (feedback.verdict, words in feedback.message) == (verdict, True), feedback


def test_think(sample):
    exercise = sample()["T-4"]
    feedback = exercise.judge("")
    assert feedback.verdict == "think" and feedback.message.endswith("- what is retrieved\n- what is cached")
    assert exercise.judge(object()) == feedback
    assert exercise.solved() == "sample"
    assert exercise.asked().endswith("Check then lists what a good answer has.")


@pytest.mark.parametrize("old, new, message", [
    ("[[exercise]]", "[exercise", "is not TOML"),
    ("[[exercise]]", "colour = 1\n[[exercise]]", "allowed are only tables .*colour"),
    ('id = "T-1"\n', "", "exercise 'number 1': field 'id' is missing"),
    ('id = "T-2"', 'id = "T-1"', "exercise 'T-1', field 'id': used twice"),
    ('id = "T-1"', 'id = "T 1"', "exercise 'T 1', field 'id': allowed are letters"),
    ('id = "T-1"', "id = 1", "exercise 1, field 'id': 1 is not a text"),
    ("notebook = 2", "notebook = 8", "exercise 'T-1', field 'notebook': 8 is not one of 1 to 7"),
    ("notebook = 2", "notebook = true", "field 'notebook': True is not an integer"),
    ('hint = "h"\n', "", "exercise 'T-1': field 'hint' is missing"),
    ('hint = "h"\n', 'hint = " "\n', "field 'hint': ' ' is not a text that is not empty"),
    ('hint = "h"', 'hints = "h"', "exercise 'T-1': unknown field 'hints'; did you mean hint"),
    ('unit = "s"', 'unit = "parsec"', "exercise 'T-1', field 'unit': unknown unit 'parsec'; allowed: bytes"),
    ("tolerance = 0.01", "tolerance = 1", "exercise 'T-1', field 'tolerance': 1 is not between 0 and 0.2"),
    ("tolerance = 0.01", 'tolerance = "1 %"', "field 'tolerance': '1 %' is not a number"),
    ('kind = "choice"', 'kind = "chioce"', "exercise 'T-2', field 'kind': 'chioce' is not one of number, choice"),
    ('"math.sqrt(np.square(n))"', '"1 +"', "exercise 'T-1', field 'expected': .* is not a Python expression"),
    ('"math.sqrt(np.square(n))"', '"kv_cots.Model"', "field 'expected': unknown name 'kv_cots'; did you mean kv_cost"),
    ('"math.sqrt(np.square(n))"', '"kv_cost.Modle(n)"', "exercise 'T-1', field 'expected': .* fails: AttributeError"),
    ('"math.sqrt(np.square(n))"', '"str(n)"', "field 'expected': gives '1000', not a finite number"),
    ('"math.sqrt(np.square(n))"', '"math.nan"', "field 'expected': gives nan, not a finite number"),
    ('n = "1000"', 'n = "n + 1"', "exercise 'T-1', field 'values.n': unknown name 'n'"),
    ('n = "1000"', 'n = "1 / 0"', "exercise 'T-1', field 'values.n': '1 / 0' fails: ZeroDivisionError"),
    ('n = "1000"', "n = 1000", "field 'values': .* is not a table of texts"),
    ('n = "1000"', 'n = "1000"\n"n-1" = "1"', "field 'values.n-1': a value needs a Python name"),
    ("{n:,} seconds", "{m:,} seconds", "exercise 'T-1', field 'solution': unknown name 'm'"),
    ("{n:,} seconds", "{n seconds", "exercise 'T-1', field 'solution': .*brace"),
    ("{n:,} seconds", "{n:q} seconds", "exercise 'T-1', field 'solution': {n:q}"),
    ('expression = "n / 2"', 'expression = "n"', r"exercise 'T-1', field 'slips\[1\].expression': gives 1000, which is judged right"),
    ('hint = "half of {n}"', "", r"exercise 'T-1', slips\[1\]: field 'hint' is missing"),
    ('hint = "half of {n}"', 'hint = "half of {m}"', r"field 'slips\[1\].hint': unknown name 'm'"),
    ("expected = \"'append'\"", "expected = \"'apend'\"", "exercise 'T-2', field 'expected': gives 'apend', not one of the options"),
    ('["append", "rewrite", "counter at the end"]', '["append", "append"]', "field 'options': .* is not a list of different texts"),
    ("expected = \"['system', ", 'expected = "[', "exercise 'T-3', field 'expected': gives .* not an order of the parts"),
    ('"time stamp" = "It', '"clock" = "It', "exercise 'T-3', field 'reasons': 'clock' is not one of the parts"),
    ('rubric = ["what is retrieved", "what is cached"]', "rubric = []", "exercise 'T-4', field 'rubric'"),
    ('"math.sqrt(np.square(n))"', '"exit()"', "field 'expected': 'exit.*' fails: SystemExit"),
    ('"math.sqrt(np.square(n))"', '"10**400"', "field 'expected': gives 1000"),
    ('n = "1000"', 'n = "1000"\nsum = "1"', "field 'values.sum': a value needs a Python name of its own"),
    ('n = "1000"', 'n = "1000"\nclass = "1"', "field 'values.class': a value needs a Python name of its own"),
    ('["append", "rewrite", "counter at the end"]', '["append", "Append"]', "field 'options': 'append' cannot be told"),
    ("expected = \"'append'\"", "expected = \"['append']\"", "not one of the options"),
    ('rubric = ["what is retrieved", ', 'expected = "1"\nrubric = [', "exercise 'T-4': unknown field 'expected'"),
])
def test_a_teachers_mistakes(sample, old, new, message):
    with pytest.raises(ValueError, match=message):
        sample(old, new)


def test_every_kind_is_tried():
    assert all(f'kind = "{kind}"' in SAMPLE for kind in KINDS if kind != "number")


@pytest.mark.parametrize("text, message", [
    (b"exercise = 5", "bad.toml: tables .*exercise.* are needed"), (b"", "bad.toml: tables .* are needed; found none"),
    ("[[exercise]]\nid = 'x'".encode("utf-16"), "bad.toml is not TOML"), (b"[[exercise]]\nid = ", "bad.toml is not TOML"), (b"x = " + 100_000 * b"[", "bad.toml is not TOML"),
])
def test_a_file_that_is_none(tmp_path, text, message):
    path = tmp_path / "bad.toml"
    path.write_bytes(text)
    for asked in (exercises.load, exercises.problems, exercises.verify):
        with pytest.raises(ValueError, match=message):
            asked(path)


@pytest.mark.parametrize("text, message", [
    (b"exercise = [1, 2]", "exercise 'number 1': 1 is no table"), (b"exercise = [[]]", "exercise 'number 1': .* is no table"),
    (b"[[exercise]]\nkind = ['number']", "field 'kind'"), (b"[[exercise]]\nid = [1]", "exercise .1., field 'id': .1. is not a text"),
    (b"\xef\xbb\xbf[[exercise]]\nid = 'T-1'", "exercise 'T-1': field 'notebook' is missing"),
])
def test_a_table_that_is_none(tmp_path, text, message):
    path = tmp_path / "bad.toml"
    path.write_bytes(text)
    assert exercises.load(path) == {}
    with pytest.raises(ValueError, match=message):
        exercises.verify(path)


# ---------------------------------------------------------------- a fault stays where it is

FAULTS = (("tolerance = 0.01", "tolernace = 0.01"), ('expected = "\'append\'"', 'expected = "\'apend\'"'), ('id = "T-4"', 'id = "T-3"'),
          ('unit = "s"', 'unit = "parsec"'), ("notebook = 3", "notebook = 33"), ('hint = "everything behind is new"', 'hint = "{1 / 0}"'))


@pytest.fixture
def course(tmp_path, monkeypatch):
    """Put a text in the place of data/exercises.toml."""
    numbers = itertools.count()

    def put(text):
        folder = tmp_path / f"data {next(numbers)}"
        folder.mkdir()
        (folder / "exercises.toml").write_text(text, encoding="utf-8")
        monkeypatch.setattr(reference, "data_folder", lambda: folder)
    return put


def spoilt(*faults):
    text = SAMPLE
    for old, new in faults:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def test_one_bad_table_stops_no_other(course):
    course(spoilt(FAULTS[0]))
    assert list(exercises.load()) == ["T-2", "T-3", "T-4"] and exercises.ids() == ["T-1", "T-2", "T-3", "T-4"]
    assert exercises.ids(notebook=2) == ["T-1", "T-3"]
    told = exercises.problems()["T-1"]
    unknown, missing = told.splitlines()
    assert unknown.startswith("exercise 'T-1': unknown field 'tolernace'; did you mean tolerance") and "The fields are id, notebook," in unknown
    assert missing == "exercise 'T-1': field 'tolerance' is missing; it is a number" and list(exercises.problems()) == ["T-1"]
    for call in (exercises.show, exercises.check, exercises.hint, exercises.solution, lambda id: exercises.verify()):
        with pytest.raises(ValueError) as caught:
            call("T-1")
        assert str(caught.value) == told
    assert exercises.check("T-2", "append").verdict == "right"


def test_a_bad_part_tells_among_its_fellows(course):
    course(spoilt(('id = "T-1"', 'id = "T-2.a"'), ('id = "T-2"', 'id = "T-2.b"'), FAULTS[0]))
    text = repr(exercises.show("T-2"))
    assert "unknown field 'tolernace'" in text and "which?" in text


def test_all_faults_are_told_at_once(course):
    course(spoilt(*FAULTS) + "\n[colour]\nred = 1\n")
    with pytest.raises(ValueError) as caught:
        exercises.verify()
    told = str(caught.value).splitlines()
    for words in ("exercise 'T-1': unknown field 'tolernace'", "exercise 'T-1': field 'tolerance' is missing", "'T-2', field 'notebook': 33",
                  "exercise 'T-3', field 'id': used twice; number 4 of the file", "allowed are only tables [[exercise]], not 'colour'"):
        assert sum(words in line for line in told) == 1, (words, told)
    course(spoilt(FAULTS[1], FAULTS[5], FAULTS[3]))
    with pytest.raises(ValueError) as caught:
        exercises.verify()
    told = str(caught.value).splitlines()
    assert len(told) == 3 and "parsec" in told[0] and "1 / 0" in told[1] and "'apend', not one of the options" in told[2]


def test_a_value_that_fails_is_told_once(course):
    course(spoilt(('n = "1000"', 'n = "1 / 0"')))
    with pytest.raises(ValueError) as caught:
        exercises.verify()
    assert str(caught.value) == "exercise 'T-1', field 'values.n': '1 / 0' fails: ZeroDivisionError: division by zero"
    with pytest.raises(ValueError, match="values.n"):
        exercises.show("T-1")
    assert exercises.check("T-2", "append").verdict == "right"


def test_a_table_without_its_id_is_told_when_it_is_missed(course):
    course(spoilt(('id = "T-1"\n', "")))
    with pytest.raises(ValueError, match="no exercise is called 'T-1'.* 1 of the file cannot be read: exercise 'number 1': field 'id' is missing"):
        exercises.show("T-1")


# ---------------------------------------------------------------- odd answers

ODD = ["", " ", "\u200b", None, "1/0", "0/0", 10**400, -10**400, "1e400", "9" * 5_000, 10**5_000, "🙂", "３２０ ＫｉＢ", "320KiB per token", "1,5", "1.5.5",
       "1,234,5", "-", "+", ".", "e5", "%", "KiB", "KiB 320", "nan", "inf", "-inf", math.nan, math.inf, True, np.True_, [], (), [1], ["a"], [None],
       [["system"]], {}, {"a": 1}, set(), b"320", 1j, object(), int, lambda: 1, np.array([1, 2]), np.float64("nan"), Fraction(10**400, 3),
       "a" * 100_000, "1 " * 50_000, " per" * 20_000, "system" + "," * 50_000, "<b>x</b>", "'; drop table", "\\", "\n\n", "{n}", "十", "٣٢٠", "½", "1⁄2", "①"]


class Spiteful:
    """Neither a text nor a number, and no way to print it."""

    def __repr__(self):
        raise RuntimeError("no")

    __str__ = __bool__ = __len__ = __repr__


@pytest.mark.parametrize("exercise", [next(e for e in ALL.values() if isinstance(e, kind)) for kind in KINDS.values()], ids=lambda e: e.kind)
@pytest.mark.parametrize("number", range(len(ODD) + 1))
def test_an_odd_answer_gets_a_sentence(exercise, number):
    answer = (ODD + [Spiteful()])[number]
    feedback = exercises.check(exercise.id, answer)
    assert len(feedback.message) < 2_000 and (exercise.kind == "think" or repr(feedback).endswith((".", "?", ")")))
    assert feedback.verdict != "right" or answer in ("３２０ ＫｉＢ", "320KiB per token", "٣٢٠")


def test_no_answer_yet():
    for exercise in JUDGED:
        for answer in ("", "  ", None):
            assert exercise.judge(answer).message == f"there is no answer yet. {exercise.accepted()}"


def test_texts_read_the_same_as_markdown_and_as_plain_text():
    for exercise in ALL.values():
        for where in exercise.texts():
            assert not re.search(r"[*`<>|]|(?<!\w)_|_(?!\w)", exercise.fill(where)), f"{exercise.id}: a sign of Markdown in {where}"


def test_no_reply_is_a_command():
    """On the page there are buttons: no text tells a student to type a call of this module."""
    for exercise in ALL.values():
        for text in (exercise.asked(), repr(exercise.judge("12345678")), exercise.fill("hint"), exercise.solved()):
            assert not re.search(r"\b(check|hint|solution|show)\(", text), exercise.id


# ---------------------------------------------------------------- fair to those who round, and to those who read a panel

@pytest.mark.parametrize("exercise", [e for e in NUMBERS if e.tolerance], ids=lambda e: e.id)
def test_two_right_digits_are_enough(exercise):
    assert "Two right digits are enough" in exercise.asked() and exercise.tolerance >= 0.01
    for unit, size in UNITS[DIMENSION[exercise.unit]].items():
        for digits in (2, 3, 4):
            assert exercise.judge(f"{float(exercise.right_answer()) / size:.{digits - 1}e} {unit}").verdict == "right", (unit, digits)


def printed(table):
    """Every number that a panel's table shows, as it is written there."""
    cells = as_text(as_frame(table)).to_numpy().ravel()
    return [re.search(r"-?\d[\d,]*\.?\d*%?", cell)[0] for cell in cells if re.search(r"\d", cell)]


def panels():
    """id -> the table of the panel at the setting that the exercise asks for, or at the nearest stop of its slider."""
    from labkit import ace_studies, cacheblend_studies, cartridge_live, kv_studies, mem0_scale, memgpt_studies, poisoning
    from labkit.figures import ace, cacheblend, cartridge_use, choosing, kv_cost, mem0, memgpt, tiny_transformer

    no_gqa = "one for each query head (no GQA)"
    tables = {
        "L11-1a.token": lambda: kv_cost.table_cache_sizes(kv_studies.cache_sizes("Llama-3-70B")),
        "L11-1a.context": lambda: kv_cost.table_cache_sizes(kv_studies.cache_sizes("Llama-3-70B")),
        "L11-1b.context": lambda: kv_cost.table_cache_sizes(kv_studies.cache_sizes("Llama-3-70B", kv_heads=no_gqa)),
        "L14-1.contexts": lambda: kv_cost.table_serving(kv_studies.serving("Llama-3-70B", gpus=8, context=128_000)),
        "L14-3.ten": lambda: memgpt.table_prefill(memgpt_studies.prefill_by_cause(evict=0.1)),
        "L14-3.fifty": lambda: memgpt.table_prefill(memgpt_studies.prefill_by_cause(evict=0.5)),
        "NB2-1": lambda: memgpt.table_prefill(memgpt_studies.prefill_by_cause(window=16_000)),
        "L14-2.prefill": lambda: mem0.table_budget(mem0_scale.read_write_budget(unit="tokens of prefill")),
        "L14-2.questions": lambda: mem0.table_budget(mem0_scale.read_write_budget(unit="tokens of prefill")),
        "L14-5.reuse": lambda: ace.table_playbook_cost(ace_studies.playbook_cost("counters")),
        "NB6-1": lambda: ace.table_playbook_cost(ace_studies.playbook_cost("rewrite", batch=64)),
        "L11-4a.share": lambda: cacheblend.table_recompute(cacheblend_studies.recompute(tail=3.0)),
        "L11-4a.enough": lambda: cacheblend.table_recompute(cacheblend_studies.recompute(tail=3.0)),
        "L11-8b.share": lambda: cacheblend.table_recompute(cacheblend_studies.recompute(noise=2.0)),
        "NB4-1": lambda: tiny_transformer.table_trained(cacheblend_studies.trained(fraction=0.1, bridging=0.13)),
        "NB7-2": lambda: choosing.table_defended(poisoning.defend(labels=True, user=True, look=50)),
        "L14-4.weekly": lambda: cartridge_use.table_break_even(cartridge_live.break_even()),
        "L14-4.cheaper": lambda: cartridge_use.table_break_even(cartridge_live.break_even(training=1_400)),  # no stop at 1,440
        "L14-4.night": lambda: cartridge_use.table_break_even(cartridge_live.break_even(idle_price=1 / 3)),
        "L14-4.both": lambda: cartridge_use.table_break_even(cartridge_live.break_even(training=1_400, idle_price=1 / 3)),
    }
    for dialogues in (100, 400, 1_000):  # each that the panel offers, though 100 are noisy
        for id, at in (("L11-2b.accuracy", {"archive": 0.95, "sessions": 20}), ("L11-2c.accuracy", {"core": 16}), ("L11-8a.accuracy", {"recall": 0.7})):
            tables[f"{id} {dialogues}"] = (lambda at=at, dialogues=dialogues: memgpt.table_recall(
                memgpt_studies.recall_curves(dialogues=dialogues, **at)))
    return tables


PANELS = panels()


@pytest.mark.parametrize("name", PANELS)
def test_what_the_panel_prints_is_right(name):
    said = printed(PANELS[name]())
    assert any(exercises.check(name.split()[0], number).verdict == "right" for number in said), said


def test_a_part_that_a_list_in_words_would_split():
    with pytest.raises(ValueError, match="'a, b' holds a sign"):
        KINDS["order"](id="T-1", notebook=1, lecture="new", title="t", question="q", hint="h", solution="s", expected="['a, b', 'c']",
                       parts=("a, b", "c"))
