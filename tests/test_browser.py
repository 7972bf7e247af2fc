"""The notebooks as a student meets them: JupyterLab in Chromium, moved by keyboard."""

import json
import shutil

import browser as chromium
import nbformat
import pytest
from conftest import NOTEBOOKS
from nbformat.sign import NotebookNotary
from nbformat.v4 import new_code_cell, new_notebook

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(chromium.why_not() is not None, reason=f"no browser test: {chromium.why_not()}"),
]

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)

SCREEN = 790  # pixels that JupyterLab leaves of a window 900 high

SCRATCH = """\
import pandas as pd
from labkit.panel import Panel

def squares(side=6):
    if side == 7:
        raise ValueError("seven is not allowed")
    return pd.Series({"area": side**2}, name="now")

def draw(fig, result):
    axes = fig.subplots()
    axes.set(xlim=(0, 10), ylim=(0, 100))
    (line,) = axes.plot([], [])

    def update(result):
        line.set_data([0, 9], [0, result["area"]])
        return [line]

    return update

Panel(squares, draw, title="Squares", side=(1, 9, 6))
"""


TRAINING = """\
import time
import pandas as pd
from dataclasses import dataclass
from labkit.panel import Panel

@dataclass
class Progress:
    step: int
    goal: int

def count(steps=1):
    for step in range(1, steps + 1):
        if steps > 1:
            time.sleep(0.02)
        yield Progress(step, steps)

def draw(fig, result):
    axes = fig.subplots()
    axes.set(xlim=(0, 200), ylim=(0, 1))
    (line,) = axes.plot([], [])

    def update(result):
        line.set_data([0, result.step], [0.5, 0.5])
        return [line]

    return update

Panel(count, draw, lambda result: pd.Series({"step": result.step, "of": result.goal}, name="now"), title="Training",
      steps=(1, 201, 1, 100))
"""


def _scratch(lab, source):
    """A notebook of one cell."""
    path = lab.root / "scratch.ipynb"
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(new_notebook(cells=[new_code_cell(source)], metadata=kernel), path)
    return path


@pytest.fixture
def scratch(lab):
    """A notebook with one panel, whose simulation fails at 7; its slider starts at 6."""
    path = _scratch(lab, SCRATCH)
    yield path
    path.unlink()


@pytest.fixture
def training(lab):
    """A notebook whose panel trains for some seconds after a move."""
    path = _scratch(lab, TRAINING)
    yield path
    path.unlink()


def move_first_control(panel):
    """Move the first slider three steps by keyboard (or the first list by one, where there is no slider)."""
    sliders = panel.sliders()
    if sliders:
        at_end = sliders[0].get_attribute("aria-valuenow") == sliders[0].get_attribute("aria-valuemax")
        panel.press(sliders[0], "ArrowLeft" if at_end else "ArrowRight", times=3)
    else:
        panel.press(panel.dropdowns()[0], "ArrowDown")


@each_notebook
def test_every_panel_answers_to_the_keyboard(lab, browser, path):
    with chromium.opened(browser, lab, path.name) as page:
        chromium.run_all(page)
        assert chromium.errors(page) == []
        found = chromium.panels(page)
        assert found, "no panel in this notebook"
        for number, panel in enumerate(found):
            panel.settle()
            before = panel.shown()
            assert panel.height_to_picture() <= SCREEN, f"panel {number}: controls and picture are not on the screen together"
            assert panel.alt(), f"panel {number}: the picture has no words for those who can't see it"
            assert all(panel.label(slider) for slider in panel.sliders()), f"panel {number}: a slider without a name"
            move_first_control(panel)
            panel.wait_for_change(before)
            panel.settle()
            assert not panel.failed(), f"panel {number}: {panel.status()}"
            panel.reset()
            panel.wait_for_shown(before)
        assert chromium.errors(page) == []


@each_notebook
def test_saved_pictures_show_without_running(lab, browser, path):
    """Untrusted, as a stranger opens it, and trusted, as its author does."""
    nb = nbformat.read(path, as_version=4)
    outputs = [out for cell in nb.cells for out in cell.get("outputs", []) if "image/png" in out.get("data", {})]
    for trust in (False, True):
        if trust:
            NotebookNotary(data_dir=lab.env["JUPYTER_DATA_DIR"]).sign(nb)
        with chromium.opened(browser, lab, path.name) as page:
            assert chromium.trusted(page) is trust
            widths = chromium.saved_pictures(page)
            assert len(widths) == len(outputs) and all(widths)
            assert chromium.errors(page) == []


def test_an_error_in_the_simulation_is_shown_and_survived(lab, browser, scratch):
    with chromium.opened(browser, lab, scratch.name) as page:
        chromium.run_all(page)
        (panel,) = chromium.panels(page)
        panel.settle()
        before = panel.shown()
        side = panel.slider("side")
        panel.press(side, "ArrowRight")
        panel.wait_for_status("seven is not allowed")
        assert panel.failed() and panel.shown() == before
        panel.press(side, "ArrowRight")
        panel.wait_for_change(before)
        assert not panel.failed() and "64" in panel.table()


def test_save_close_and_open_again_shows_the_picture(lab, browser, scratch):
    with chromium.opened(browser, lab, scratch.name) as page:
        chromium.run_all(page)
        chromium.save_notebook(page)
        chromium.save_notebook(page)  # what lies on disk differs from what is open: no question may come up
        (output,) = json.loads(scratch.read_text(encoding="utf-8"))["cells"][0]["outputs"]
        assert set(output["data"]) == {"image/png", "text/plain"}
        chromium.open_notebook(page, lab, scratch.name)
        assert len(chromium.panels(page)) == 0
        assert all(chromium.saved_pictures(page)) and len(chromium.saved_pictures(page)) == 1
        assert chromium.errors(page) == []


def test_open_run_and_save_leaves_the_file_as_it_was(lab, browser):
    """So a student who works in a clone can still pull; a picture may differ by a pixel where other fonts are installed."""

    def words(path):
        return [line for line in path.read_text(encoding="utf-8").splitlines() if '"image/png": "' not in line]

    committed = NOTEBOOKS[0]
    with chromium.opened(browser, lab, committed.name) as page:
        chromium.run_all(page)
        chromium.save_notebook(page)
    assert words(lab.root / committed.name) == words(committed)
    shutil.copy(committed, lab.root)


def test_a_training_grows_before_the_eyes_and_the_newest_move_wins(lab, browser, training):
    with chromium.opened(browser, lab, training.name) as page:
        chromium.run_all(page)
        (panel,) = chromium.panels(page)
        panel.settle()
        start = panel.shown()
        panel.press(panel.slider("steps"), "ArrowRight", times=2)  # 201 steps of 20 ms
        panel.wait_for_status("of 201")
        assert panel.shown() != start  # it shows partial results
        panel.press(panel.slider("steps"), "ArrowLeft")  # 101 steps: the longer training is dropped
        panel.wait_for_status("of 101")
        panel.wait_for_status("done")
        assert "101" in panel.table() and "201" not in panel.table() and not panel.failed()
