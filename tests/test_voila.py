"""The notebooks as apps: Voila in Chromium, no code on the page, a panel moved by keyboard, nothing fetched from elsewhere."""

import contextlib
import importlib.util
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import browser as chromium
import nbformat
import psutil
import pytest
from test_browser import move_first_control

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
ALWAYS = 2  # the others are as slow again, and Voila treats them alike
START_S = 120  # a guard against hanging; how long a notebook runs, benchmarks/students.py says


def why_not():
    """Return why no test with Voila can run here, or None."""
    if importlib.util.find_spec("voila") is None:
        return "the Python package voila is not installed"
    return chromium.why_not()


pytestmark = [pytest.mark.browser, pytest.mark.skipif(why_not() is not None, reason=f"no app test: {why_not()}")]
each_notebook = pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=[pytest.mark.long] * (i >= ALWAYS)) for i, path in enumerate(NOTEBOOKS)],
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Voila over the notebooks, started as deploy/README.md says: its address and its process."""
    home, port = tmp_path_factory.mktemp("voila"), chromium.free_port()
    command = [sys.executable, "-m", "voila", "notebooks", "--Voila.config_file_paths=deploy", "--no-browser"]
    command += ["--Voila.ip=127.0.0.1", f"--port={port}", "--Voila.port_retries=0"]
    url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + START_S
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never through a proxy
    with open(home / "voila.log", "w+") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=chromium.lab_environment(home), stdout=log, stderr=log)
        try:
            while True:
                with contextlib.suppress(OSError):
                    opener.open(url, timeout=5).close()
                    break
                assert process.poll() is None and time.monotonic() < deadline, (home / "voila.log").read_text()[-3000:]
                time.sleep(0.1)
            yield url, process
        finally:
            process.terminate()
            process.wait(30)


@pytest.fixture
def page(server, browser):
    """An empty page that notes which servers answered it; closed at the end, and its kernel with it."""
    page = chromium.new_page(browser)
    page.set_default_timeout(START_S * 1000)
    page.servers = set()
    page.on("response", lambda answer: page.servers.add(urlsplit(answer.url).netloc))
    yield page
    page.context.close()


def kernels(process):
    """The kernels that Voila runs now; one that has just ended is none."""
    found = []
    for child in psutil.Process(process.pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):
            found += [child] * ("ipykernel_launcher" in " ".join(child.cmdline()))
    return found


def panels_of(path):
    """How many panels a notebook has: its saved pictures with words beside them."""
    outputs = [out for cell in nbformat.read(path, as_version=4).cells for out in cell.get("outputs", [])]
    return sum("alt" in out.get("metadata", {}).get("image/png", {}) for out in outputs)


@each_notebook
def test_a_notebook_is_an_app(server, page, path):
    url, process = server
    page.goto(f"{url}/voila/render/{path.name}")
    page.locator(chromium.PICTURE).nth(panels_of(path) - 1).wait_for()
    panels = chromium.panels(page)
    assert len(panels) == panels_of(path) > 0
    assert chromium.errors(page) == []
    assert page.locator(".jp-InputArea-editor:visible").count() == 0, "code on the page of an app"
    panel = panels[0]  # what every panel does at a move, test_browser.py says
    panel.settle()
    before = panel.shown()
    move_first_control(panel)
    panel.wait_for_change(before)
    panel.settle()
    assert not panel.failed(), panel.status()
    assert page.servers - {""} == {urlsplit(url).netloc}, "the page asked other servers"
    page.goto("about:blank")
    deadline = time.monotonic() + 20
    while kernels(process):
        assert time.monotonic() < deadline, "a closed page leaves its kernel running"
        time.sleep(0.1)


def test_the_first_page_lists_every_notebook(server, page):
    """On a busy machine Voila's list (0.5.13) now and then stays empty until the page is loaded again: deploy/README.md says so."""
    from playwright.sync_api import TimeoutError

    url, _ = server
    files = page.get_by_text(".ipynb")
    for attempt in range(5):
        page.goto(url)
        with contextlib.suppress(TimeoutError if attempt < 4 else ()):
            files.first.wait_for(timeout=15_000)
            break
    for path in NOTEBOOKS:
        page.get_by_text(path.name, exact=True).wait_for()
    assert page.servers - {""} == {urlsplit(url).netloc}
