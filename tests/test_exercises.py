"""labkit.answers, labkit.exercise_kinds, labkit.exercises and data/exercises.toml."""

import itertools
import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit import exercises
from labkit.answers import DIMENSION, UNITS, Reading, format_value, read_number
from labkit.exercise_kinds import KINDS, Feedback, JudgedExercise, NumberExercise

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
    ("-2.5", "number", -2.5), ("−2.5", "number", -2.5), ("1/4", "number", 0.25), (".5", "number", 0.5), ("3.", "number", 3), ("= 7", "number", 7),
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
    ("L14-1.contexts", "10"), ("L14-1.contexts", 10.0), ("L14-1.contexts", "10 users"), ("L14-1.share", "29.7 %"),
    ("L14-1.share", 0.297), ("L14-1.share", 29.7), ("NB1-1", 48), ("NB1-2", "59 %"), ("NB1-2", 0.6),
])
def test_right_answers(id, answer):
    assert exercises.check(id, answer).verdict == "right"


@pytest.mark.parametrize("id, answer, verdict, words", [
    ("L11-1a.token", "160 KiB", "near", "half"), ("L11-1a.token", "2.5 MiB", "near", "KV heads"), ("L11-1a.token", "320 KB", "near", "right in KiB, but you wrote KB"),
    ("L11-1a.token", 327680, "near", "right in bytes, but without a unit it is taken in KiB"), ("L11-1a.token", "4 KiB", "near", "one layer"),
    ("L11-1a.token", "335 KiB", "near", "very close"), ("L11-1a.token", "1 GiB", "not yet", "hint"), ("L11-1a.token", "-320 KiB", "not yet", "hint"),
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
    (["t"] * 6, "unreadable", "'t' is not one of"), ("", "unreadable", "0 times"), (6, "unreadable", "not a list"), ([None], "unreadable", "None")])
def test_order(sample, answer, verdict, words):
    feedback = sample()["T-3"].judge(answer)
    assert (feedback.verdict, words in feedback.message) == (verdict, True), feedback


def test_think(sample):
    exercise = sample()["T-4"]
    feedback = exercise.judge("")
    assert feedback.verdict == "think" and feedback.message.endswith("- what is retrieved\n- what is cached")
    assert exercise.judge(object()) == feedback
    assert exercise.solved() == "sample"
    assert "check('T-4')" in exercise.asked()


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
    (b"exercise = [1, 2]", "allowed are only tables"), (b"exercise = [[]]", "allowed are only tables"),
    (b"[[exercise]]\nkind = ['number']", "field 'kind'"), ("[[exercise]]\nid = 'x'".encode("utf-16"), "bad.toml is not TOML"),
    (b"\xef\xbb\xbf[[exercise]]\nid = 'T-1'", "exercise 'T-1': field 'notebook' is missing"),
])
def test_a_file_that_is_none(tmp_path, text, message):
    path = tmp_path / "bad.toml"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=message):
        exercises.load(path)


def test_a_part_that_a_list_in_words_would_split():
    with pytest.raises(ValueError, match="'a, b' holds a sign"):
        KINDS["order"](id="T-1", notebook=1, lecture="new", title="t", question="q", hint="h", solution="s", expected="['a, b', 'c']",
                       parts=("a, b", "c"))
