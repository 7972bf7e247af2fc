"""The committed notebooks: canonical, reproducible, readable without a kernel."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "tools"))
import notebooks  # noqa: E402

NOTEBOOKS = sorted(notebooks.NOTEBOOKS.glob("*.ipynb"))
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)

WIDEST = 105  # characters of code that a screen of 1280 pixels shows

# With these a correct notebook fails nbval, or an exception stays unseen.
FORBIDDEN = ("interact", "interactive", "Output", "clear_output", "update_display")


def code_cells(path):
    return [cell for cell in notebooks.read(path)[0].cells if cell.cell_type == "code"]


def png_outputs(path):
    return [out for cell in code_cells(path) for out in cell.outputs if "image/png" in out.get("data", {})]


def test_there_is_a_notebook():
    assert NOTEBOOKS, "an empty folder would pass every test below"


@each_notebook
def test_canonical_form(path):
    notebooks.check(path)


def test_nbval_finds_the_saved_outputs_again():
    """All notebooks run anew in one process; every number in their outputs must be the saved one."""
    assert NOTEBOOKS, "without a file to run, pytest would run this very folder again"
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "--nbval-cell-timeout=300"]
    command += ["-p", "no:cacheprovider", *map(str, NOTEBOOKS)]
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", PYTHONHASHSEED="0")
    environment.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed and int(passed[1]) == sum(len(code_cells(path)) for path in NOTEBOOKS)


@pytest.mark.slow
@each_notebook
def test_saving_again_changes_no_byte(path, tmp_path):
    """On another machine fonts may differ by a pixel from the committed picture; a second save must still agree."""
    twin = tmp_path / path.name
    shutil.copy(path, twin)
    if notebooks.save(twin) == "saved":
        assert notebooks.save(twin) == "unchanged"


@each_notebook
def test_pictures_are_there_without_a_kernel(path):
    """GitHub, nbviewer and HTML show the PNG; a screen reader and nbval have the text."""
    from nbconvert import HTMLExporter

    outputs = png_outputs(path)
    assert outputs, "no picture in this notebook"
    assert all("".join(out.data["text/plain"]).strip() for out in outputs)
    html, _ = HTMLExporter().from_filename(str(path))
    assert len(re.findall(r'<img[^>]*\ssrc="data:image/png;base64,', html)) == len(outputs)
    assert notebooks.WIDGET_VIEW not in html


@each_notebook
def test_cells_are_short_and_hide_no_logic(path):
    cells = code_cells(path)
    assert len(cells) <= 24
    for cell in cells:
        lines = cell.source.split("\n")
        assert len(lines) <= 15 and max(map(len, lines)) <= WIDEST, f"cell {cell.id}"
        tree = ast.parse(cell.source)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno < 12, f"{node.name} in cell {cell.id}: belongs in labkit"
        used = {getattr(node, "id", getattr(node, "attr", None)) for node in ast.walk(tree)}
        assert not used & set(FORBIDDEN), f"cell {cell.id}"
