"""The face of the exercises: it shows questions only, replies to any answer, and gives nothing away when saved."""

import json
from pathlib import Path

import pytest

from labkit import exercises
from labkit.quiz import Quiz

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def parts(card):
    question, row, reply = card.children
    field, check, hint, solution = row.children
    return question, field, check, hint, solution, reply


def test_a_card():
    quiz = Quiz("L11-1")
    assert quiz.ids == [each for each in exercises.ids() if each.startswith("L11-1")]
    question, field, check, hint, solution, reply = parts(quiz.widget.children[0])
    assert "70B" in question.value
    field.value = "320 KiB"
    check.click()
    assert "Right" in reply.value
    field.value = "<b>no</b>"
    check.click()
    assert "<b>no" not in reply.value and "cannot read" in reply.value
    hint.click()
    assert "Hint" in reply.value
    solution.click()
    assert "327,680" in reply.value and "<pre" in reply.value


def test_the_saved_face_gives_no_answer():
    data = Quiz("L11-1")._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data and "327,680" not in data["text/plain"]


def test_numbers_end_a_name():
    assert not [each for each in Quiz("L11-1").ids if each.startswith("L11-10")]
    with pytest.raises(ValueError, match="no exercise"):
        Quiz("L99")


def test_no_name_is_not_every_exercise():
    for name in ("", None, 5):
        with pytest.raises(ValueError, match="no exercise"):
            Quiz(name)


def test_an_error_behind_a_button_is_shown(monkeypatch):
    card = parts(Quiz("L11-1").widget.children[0])
    monkeypatch.setattr(exercises, "hint", lambda each: 1 / 0)
    card[3].click()
    assert "ZeroDivisionError: division by zero" in card[5].value


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_exercise_has_its_home(path):
    """Each exercise of this notebook is asked in it."""
    source = path.read_text(encoding="utf-8")
    asked = [quiz for cell in json.loads(source)["cells"] if cell["cell_type"] == "code"
             for quiz in "".join(cell["source"]).split('Quiz("')[1:]]
    shown = {each for name in (quiz.split('"')[0] for quiz in asked) for each in Quiz(name).ids}
    assert set(exercises.ids(notebook=int(path.name[:2]))) <= shown
