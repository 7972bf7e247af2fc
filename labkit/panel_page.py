"""The page of a panel: title, prediction, controls, Reset, and the screen that the kernel paints."""

import html
import pathlib

import anywidget
import ipywidgets as widgets
import traitlets

_HERE = pathlib.Path(__file__).parent
_MANY = 8  # more controls than these stand in three columns, where there is room


class Screen(anywidget.AnyWidget):
    """What the kernel paints: picture, alternative text, status line, table and call.  The page side is in screen.js and keys.js."""

    _esm = "\n".join((_HERE / name).read_text(encoding="utf-8") for name in ("keys.js", "screen.js"))
    _css = _HERE / "screen.css"
    png = traitlets.Bytes().tag(sync=True)
    alt = traitlets.Unicode().tag(sync=True)
    width = traitlets.Int().tag(sync=True)
    status = traitlets.Unicode().tag(sync=True)
    failed = traitlets.Bool(False).tag(sync=True)
    table = traitlets.Dict().tag(sync=True)
    call = traitlets.Unicode().tag(sync=True)


def assemble(panel, question=None):
    """The widget of a panel, with a box for a prediction if a question asks for one."""
    title = widgets.HTML(f'<div class="labkit-title">{html.escape(panel.title)}</div>')
    reset = widgets.Button(description="Reset", tooltip="Every control back to its start", layout={"width": "90px"})
    reset.add_class("labkit-reset")  # drawn beside the title
    reset.on_click(lambda _: panel.reset())
    narrowest = 280 if len(panel.inputs) > _MANY else 360
    columns = f"repeat(auto-fit, minmax(min({narrowest}px, 100%), 1fr))"
    grid = widgets.GridBox(list(panel.inputs.values()), layout={"grid_template_columns": columns, "grid_gap": "2px 24px"})
    box = widgets.VBox([title, *(_prediction(panel, question) if question else []), grid, reset, panel.screen])
    box.add_class("labkit-panel")
    return box


def _prediction(panel, question):
    field = widgets.Text(description=f"Predict first: {question}", placeholder="your number",
                         continuous_update=False,  # sent when it is left, or by Enter, which keys.js turns into Commit
                         style={"description_width": "initial"}, layout={"flex": "1 1 300px", "width": "auto"})
    commit = widgets.Button(description="Commit", layout={"width": "90px"})
    reply = widgets.HTML(layout={"display": "none", "margin": "0"})

    def committed(_):
        try:
            panel.predict(field.value)
        except Exception as problem:
            said, panel.screen.failed = str(problem), True
        else:
            said, panel.screen.failed = panel.prediction, False
        panel.screen.status = said  # read aloud, too
        reply.value, reply.layout.display = f'<div class="labkit-reply">{html.escape(said)}</div>', None

    commit.on_click(committed)
    return [widgets.HBox([field, commit], layout={"flex_flow": "row wrap"}), reply]
