"""Every control of every panel in every notebook, driven to its ends and to the middle: a result each time, no exception.

A notebook's code cells are run once, in order, in this process; every panel they make is caught and driven.
"""

import json
import signal
from pathlib import Path

import pytest

from labkit import panel as panel_module

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
GUARD_S = 20  # against hanging; how fast a move is, benchmarks/ says


@pytest.fixture(scope="module", params=NOTEBOOKS, ids=lambda path: path.stem)
def panels(request):
    made = []

    class Caught(panel_module.Panel):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            made.append(self)

    original, panel_module.Panel = panel_module.Panel, Caught
    names = {"display": lambda *things: None, "__name__": "__main__"}
    try:
        for cell in json.loads(request.param.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), f"{request.param.name}:{cell['id']}", "exec"), names)
    finally:
        panel_module.Panel = original
    return made


def _too_slow(*_):
    raise TimeoutError(f"one move took more than {GUARD_S} s")


def test_every_control(panels):
    assert panels, "a notebook without a panel"
    signal.signal(signal.SIGALRM, _too_slow)
    for panel in panels:
        start = panel.png
        for name, control in panel.controls.items():
            for value in dict.fromkeys(control.ends):
                signal.alarm(GUARD_S)
                panel.set(**{name: value})
                signal.alarm(0)
                assert panel.error is None, f"{panel.title}, {name}={value!r}: {panel.error!r}"
                assert panel.png.startswith(b"\x89PNG") and panel.params[name] == value
            panel.reset()
            assert panel.png == start, f"{panel.title}: Reset after {name} does not bring back the first picture"
        assert panel.error is None


def test_every_panel_is_readable(panels):
    for panel in panels:
        assert panel.title and len(panel.screen.alt) > 20, panel.title
        assert all(len(control.description) < 45 for control in panel.inputs.values())
        at_start = panel.text
        assert " (was " not in at_start and "nan" not in at_start.split(), at_start


def test_ends_together(panels):
    """All controls at their least, then all at their greatest: the corners where divisions by zero live."""
    for panel in panels:
        for end in (0, -1):
            panel.set(**{name: control.ends[end] for name, control in panel.controls.items()})
            assert panel.error is None or isinstance(panel.error, ValueError), f"{panel.title}: {panel.error!r}"
        panel.reset()
        assert panel.error is None
