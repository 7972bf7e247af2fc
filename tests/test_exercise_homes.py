"""The exercises as a course: all sixteen of the lecture notes, each asked in one notebook, no answer in sight."""

import json
import re
from pathlib import Path

import pytest

from labkit import exercises
from labkit.answers import format_value
from labkit.quiz import Quiz

NOTEBOOKS = {int(path.name[:2]): path for path in sorted((Path(__file__).parents[1] / "notebooks").glob("0*.ipynb"))}
HOMES = {"L14-1": 1, "L14-2": 3, "L14-3": 2, "L14-4": 5, "L14-5": 6, "L14-6": 5, "L14-7": 6, "L14-8": 7,
         "L11-1": 1, "L11-2": 2, "L11-3": 2, "L11-4": 4, "L11-5": 5, "L11-6": 5, "L11-7": 7, "L11-8a": 2, "L11-8b": 4}
EACH = [exercise for exercise in exercises.load().values() if exercise.notebook in NOTEBOOKS]


def visible_text(path):
    """What a reader sees before opening anything: Markdown without its closed parts, and the outputs."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(re.sub(r"<details>.*?</details>", "", source, flags=re.S))
        for output in cell.get("outputs", []):
            parts.append("".join(output.get("text", "") or output.get("data", {}).get("text/plain", "")))
    return "\n".join(parts)


@pytest.mark.parametrize("name, home", HOMES.items())
def test_the_lectures_exercises_have_a_home(name, home):
    if home in NOTEBOOKS:
        assert {exercises.load()[each].notebook for each in Quiz(name).ids} == {home}


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_two_new_what_ifs(notebook):
    assert len(Quiz(f"NB{notebook}").ids) >= 2


@pytest.mark.parametrize("exercise", EACH, ids=lambda exercise: exercise.id)
def test_its_right_answer_is_judged_right(exercise):
    """What the solution ends with is what `check` takes for right."""
    if exercise.kind == "think":
        assert exercises.check(exercise.id, "anything").verdict == "think"
        return
    answer = exercise.right_answer()
    given = format_value(answer, exercise.unit).split(" (")[0] if exercise.kind == "number" else answer
    assert exercises.check(exercise.id, given).verdict == "right", given


# Answers that are a figure of the text itself, because the exercise asks what that figure means.
SAID = {"L14-4.weekly": "trained anew each week, the break-even is needed each week: the figure is the panel's own"}


@pytest.mark.parametrize("exercise", [e for e in EACH if e.kind == "number" and e.id not in SAID], ids=lambda exercise: exercise.id)
def test_no_answer_stands_in_the_open(exercise):
    text = visible_text(NOTEBOOKS[exercise.notebook])
    for answer in format_value(exercise.right_answer(), exercise.unit).rstrip(")").split(" ("):
        assert not re.search(rf"(?<![\d.,]){re.escape(answer)}(?![\d])", text), f"{answer} can be read in the notebook"
