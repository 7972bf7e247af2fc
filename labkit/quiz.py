"""Exercises on the page: a question, a box for the answer, and buttons for check, hint and solution.

The questions and their judging are in `labkit.exercises`; this is only their face.  Saved in a notebook it shows the questions.
"""

import html

import ipywidgets as widgets

from labkit import exercises


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
        field = widgets.Text(description="Answer", placeholder="a number with its unit, or a word", layout={"width": "340px"})
        reply = widgets.HTML()
        reply.add_class("labkit-reply")

        def say(note):
            try:
                reply.value = _page(note())
            except Exception as problem:  # an exception in a callback would vanish unseen
                reply.value = _page(f"{type(problem).__name__}: {problem}")

        buttons = []
        for text, note in (("Check", lambda: exercises.check(exercise_id, field.value)),
                           ("Hint", lambda: exercises.hint(exercise_id)), ("Solution", lambda: exercises.solution(exercise_id))):
            button = widgets.Button(description=text, layout={"width": "90px"})
            button.on_click(lambda _, note=note: say(note))
            buttons.append(button)
        card = widgets.VBox([question, widgets.HBox([field, *buttons]), reply])
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
            pieces.append(f"<pre style='background:#f0f0f0;padding:6px'>{block.removeprefix('python').strip()}</pre>")
        else:
            pieces += [f"<p style='margin:4px 0;white-space:pre-line'>{part}</p>" for part in block.split("\n\n") if part.strip()]
    return f"<div style='font-size:15px;line-height:1.45;max-width:900px'><b>{heading}</b>{''.join(pieces)}</div>"
