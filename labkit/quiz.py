"""Exercises on the page: a question, a box for the answer, and buttons for check, hint and solution.

The questions and their judging are in `labkit.exercises`; this is only their face.  Saved in a notebook it shows the questions.
"""

import html
import pathlib

import anywidget
import ipywidgets as widgets
import traitlets

from labkit import exercises


class Reply(anywidget.AnyWidget):
    """What an exercise answers, as HTML; read aloud by a screen reader.  It also makes Enter in the answer's field press Check."""

    _esm = """
    export default {
      render({ model, el }) {
        el.setAttribute("role", "status");
        const write = () => { el.innerHTML = model.get("value"); };
        model.on("change:value", write);
        write();
        const enter = (event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing || !event.target.matches("input")) return;
          event.target.dispatchEvent(new Event("change", { bubbles: true })); // the answer goes to the kernel first
          event.target.closest(".widget-hbox").querySelector("button").click();
        };
        const attach = () => {
          const card = el.closest(".labkit-quiz");
          if (!card) return requestAnimationFrame(attach);
          card.setAttribute("role", "group");
          card.setAttribute("aria-label", card.querySelector("b")?.textContent ?? "Exercise");
          card.addEventListener("keydown", enter, true);
        };
        requestAnimationFrame(attach);
      },
    };
    """
    _css = pathlib.Path(__file__).parent / "screen.css"
    value = traitlets.Unicode().tag(sync=True)


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
        question = widgets.HTML(_page(exercises.show(exercise_id)))
        field = widgets.Text(description="Answer", placeholder="a number with its unit, or a word", continuous_update=False,
                             layout={"width": "300px"})
        reply = Reply()

        def say(note):
            try:
                reply.value = _page(note())
            except Exception as problem:  # an exception in a callback would vanish unseen
                reply.value = _page(f"{type(problem).__name__}: {problem}")

        buttons = []
        for text, note in (("Check", lambda: exercises.check(exercise_id, field.value)),
                           ("Hint", lambda: exercises.hint(exercise_id)), ("Solution", lambda: exercises.solution(exercise_id))):
            button = widgets.Button(description=text, tooltip=f"{text}: exercise {exercise_id}", layout={"width": "90px"})
            button.on_click(lambda _, note=note: say(note))
            buttons.append(button)
        card = widgets.VBox([question, widgets.HBox([field, *buttons], layout={"flex_flow": "row wrap"}), reply])
        card.add_class("labkit-quiz")
        return card

    @property
    def text(self) -> str:
        """The questions as text: the face of the saved notebook."""
        return "\n\n".join(str(exercises.show(each)) for each in self.ids)

    def _repr_mimebundle_(self, include=None, exclude=None):
        return self.widget._repr_mimebundle_() | {"text/plain": self.text}


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
