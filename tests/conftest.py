"""Shared by the tests that need a browser."""

import shutil
from pathlib import Path

import browser as chromium
import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "notebooks").glob("*.ipynb"))


# Per module: Playwright keeps an event loop running in its thread, which the tests of other modules could not start then.
@pytest.fixture(scope="module")
def browser():
    """Chromium without a window."""
    with chromium.open_browser() as running:
        yield running


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """JupyterLab over a copy of the notebooks, so that no test can touch the committed ones."""
    root = tmp_path_factory.mktemp("notebooks")
    for path in NOTEBOOKS:
        shutil.copy(path, root)
    with chromium.start_lab(root) as running:
        yield running
