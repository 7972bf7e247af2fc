"""Exercises on the page: a question, a box for the answer, and buttons for check, hint and solution.

The questions and their judging are in `labkit.exercises`; this is only their face.  Saved in a notebook it shows the questions.
"""

import html
import pathlib

import anywidget
import ipywidgets as widgets
import traitlets

from labkit import exercises

_HERE = pathlib.Path(__file__).parent


class Reply(anywidget.AnyWidget):
    """What an exercise answers, as HTML; read aloud by a screen reader.  It also keeps the keys of a card in the card."""

    _esm = (_HERE / "keys.js").read_text(encoding="utf-8") + """
    export default {
      render({ model, el }) {
        el.setAttribute("role", "status");
        const write = () => { el.innerHTML = model.get("value"); };
        model.on("change:value", write);
        write();

        const keys = (event) => keepKeys(el.closest(".labkit-quiz"), event); // of keys.js
        const attach = () => {
          const card = el.closest(".labkit-quiz");
          if (!card) return requestAnimationFrame(attach);
          card.setAttribute("role", "group");
          card.setAttribute("aria-label", card.querySelector("b")?.textContent ?? "Exercise");
        };
        requestAnimationFrame(attach);
        window.addEventListener("keydown", keys, true); // before JupyterLab, which listens on the document
        return () => window.removeEventListener("keydown", keys, true);
      },
    };
    """
    _css = "\n".join((_HERE / name).read_text(encoding="utf-8") for name in ("screen.css", "quiz.css"))
    value = traitlets.Unicode().tag(sync=True)


def _line(placeholder, width):
    return widgets.Text(description="Answer", placeholder=placeholder, continuous_update=False, layout={"width": width})


# kind of exercise -> the field for its answer
FIELDS = {
    "number": lambda e: _line(e.form(), "300px"),
    "choice": lambda e: widgets.Dropdown(description="Answer", options=[("choose one", ""), *((o, o) for o in e.options)],
                                         layout={"width": "max-content", "max_width": "100%"}),
    "order": lambda e: _line(f"{', '.join(e.parts[:2])}, ...", "600px"),
    "think": lambda e: widgets.Textarea(description="Answer", placeholder="a few sentences", rows=4, continuous_update=False,
                                        layout={"width": "100%", "max_width": "750px"}),
}


class Quiz:
    """The exercises whose id is `name` or begins with it, such as "L11-1" for L11-1a.token, L11-1a.context and so on.

    Raises
    ------
    ValueError
        If there is none.
    """

    def __init__(self, name: str):
        name = str(name)
        self.ids = [each for each in exercises.ids()
                    if each == name or (name and each.startswith(name) and not each[len(name)].isdigit())]
        if not self.ids:
            exercises.show(name)  # raises, with the nearest ids
        self.widget = widgets.VBox([self._card(each) for each in self.ids])

    def _card(self, exercise_id):
        exercise = exercises.load().get(exercise_id)
        question, reply = widgets.HTML(), Reply()
        asked = _say(question, lambda: exercises.show(exercise_id))
        row = []
        if exercise and asked:  # one that has a fault says so, and asks nothing
            field = FIELDS[exercise.kind](exercise)
            row = [field, *(_button(name, exercise_id, reply, note) for name, note in (
                ("Check", lambda: exercises.check(exercise_id, field.value)),
                ("Hint", lambda: exercises.hint(exercise_id)),
                ("Solution", lambda: exercises.solution(exercise_id))))]
        card = widgets.VBox([question, widgets.HBox(row, layout={"flex_flow": "row wrap"}), reply])
        card.add_class("labkit-quiz")
        return card

    @property
    def text(self) -> str:
        """The questions as text: the face of the saved notebook."""
        return "\n\n".join(_told(lambda each=each: exercises.show(each))[0] for each in self.ids)

    def _repr_mimebundle_(self, include=None, exclude=None):
        return self.widget._repr_mimebundle_() | {"text/plain": self.text}


def _button(name, exercise_id, reply, note):
    button = widgets.Button(description=name, tooltip=f"{name}: exercise {exercise_id}", layout={"width": "90px"})
    button.on_click(lambda _: _say(reply, note))
    return button


def _told(note):
    """(its text, True), or (what went wrong, False): an exception in a callback would vanish unseen."""
    try:
        return str(note()), True
    except Exception as problem:
        return f"Something is wrong here\n\n{type(problem).__name__}: {problem}", False


def _say(screen, note):
    """Show a note; False if it was a fault."""
    text, well = _told(note)
    screen.value = _page(text)
    return well


def _page(note) -> str:
    """A note as HTML for a widget: paragraphs of plain text and fenced code, nothing interpreted."""
    heading, _, body = html.escape(str(note)).partition("\n\n")
    pieces = []
    for i, block in enumerate(body.split("```")):
        if i % 2:
            pieces.append(f"<pre class='labkit-code'>{block.removeprefix('python').strip()}</pre>")
        else:
            pieces += [f"<p style='margin:4px 0;white-space:pre-line'>{part}</p>" for part in block.split("\n\n") if part.strip()]
    return f"<div style='font-size:15px;line-height:1.45;max-width:900px'><b>{heading}</b>{''.join(pieces)}</div>"
