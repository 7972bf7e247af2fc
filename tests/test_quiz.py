"""The face of the exercises: it shows questions only, replies to any answer, and gives nothing away when saved."""

import json
from pathlib import Path

import ipywidgets as widgets
import pytest

from labkit import exercises, reference
from labkit.quiz import FIELDS, Quiz

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


def test_the_field_fits_the_kind():
    fields = {}
    for exercise in exercises.load().values():
        field = FIELDS[exercise.kind](exercise)
        assert field.description == "Answer", "the name that a screen reader speaks"
        fields.setdefault(exercise.kind, []).append((exercise, field))
    assert {kind: type(pairs[0][1]) for kind, pairs in fields.items()} == {
        "number": widgets.Text, "choice": widgets.Dropdown, "order": widgets.Text, "think": widgets.Textarea}
    for exercise, field in fields["number"]:
        assert field.placeholder == "a number" if exercise.unit == "number" else exercise.unit in field.placeholder
    for exercise, field in fields["choice"]:
        assert [value for _, value in field.options] == ["", *exercise.options] and field.value == ""
    for exercise, field in fields["order"]:
        assert field.placeholder.removesuffix(", ...") == ", ".join(exercise.parts[:2]) and exercise.right_answer()[0] != exercise.parts[0]


def test_a_choice_is_made_in_its_list():
    (card,) = Quiz("L14-3.rest").widget.children
    _, field, check, *_, reply = parts(card)
    check.click()
    assert "no answer yet" in reply.value
    field.value = "edits"
    check.click()
    assert "Right" in reply.value


def test_a_thought_is_written_in_lines():
    (card,) = Quiz("L14-7").widget.children
    _, field, check, *_, reply = parts(card)
    field.value = "first\nsecond"
    check.click()
    assert "Think" in reply.value and "retrieved by file or symbol" in reply.value


@pytest.fixture
def spoil(tmp_path, monkeypatch):
    """Put the exercises with one text replaced in the place of the real ones."""
    shipped = (reference.data_folder() / "exercises.toml").read_text(encoding="utf-8")

    def put(exercise_id, old, new):
        start = shipped.index(f'id = "{exercise_id}"')
        assert old in shipped[start:]
        path = tmp_path / "exercises.toml"
        path.write_text(shipped[:start] + shipped[start:].replace(old, new, 1), encoding="utf-8")
        monkeypatch.setattr(exercises, "_all", lambda _=None: exercises._read(path))

    return put


@pytest.mark.parametrize("old, new, told", [
    ("tolerance = 0.01", "tolernace = 0.01", "unknown field &#x27;tolernace&#x27;; did you mean tolerance"),
    ("{model.layers} layers", "{model.leyers} layers", "field &#x27;question&#x27;: &#x27;model.leyers&#x27; fails: AttributeError"),
])
def test_a_bad_exercise_fails_alone_in_its_place(spoil, old, new, told):
    spoil("L11-1a.token", old, new)
    quiz = Quiz("L11-1")
    assert quiz.ids[:2] == ["L11-1a.token", "L11-1a.context"]
    question, row, reply = quiz.widget.children[0].children
    assert told in question.value and row.children == () and "Something is wrong here" in quiz.text
    question, field, check, *_, reply = parts(quiz.widget.children[1])
    field.value = "39.06 GiB"
    check.click()
    assert "Right" in reply.value and "128,000 tokens in the same model" in quiz.text


def test_a_fault_in_an_answer_is_told_at_its_button(spoil):
    spoil("L11-1a.token", "model.kv_bytes_per_token()", "model.kv_bites_per_token()")
    _, field, check, hint, *_, reply = parts(Quiz("L11-1").widget.children[0])
    field.value = "320"
    check.click()
    assert "L11-1a.token" in reply.value and "kv_bites_per_token" in reply.value
    hint.click()
    assert "Multiply" in reply.value


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_exercise_has_its_home(path):
    """Each exercise of this notebook is asked in it."""
    source = path.read_text(encoding="utf-8")
    asked = [quiz for cell in json.loads(source)["cells"] if cell["cell_type"] == "code"
             for quiz in "".join(cell["source"]).split('Quiz("')[1:]]
    shown = {each for name in (quiz.split('"')[0] for quiz in asked) for each in Quiz(name).ids}
    assert set(exercises.ids(notebook=int(path.name[:2]))) <= shown
