"""Notebooks in a real browser: JupyterLab started for one test, Chromium driven with Playwright.

    with start_lab(folder) as lab, open_browser() as browser, opened(browser, lab, "01_kv_cost.ipynb") as page:
        run_all(page)
        panel = panels(page)[0]
        panel.press(panel.sliders()[0], "ArrowRight")

From the command line it takes pictures of a notebook, to look at:

    python tests/browser.py shots notebooks/01_kv_cost.ipynb out_dir [--zoom 2] [--only 0] [--lists] [--text]
"""

import argparse
import contextlib
import dataclasses
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
LAB_CONFIG = REPOSITORY / "tools" / "jupyter" / "jupyter_lab_config.py"
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM_ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
VIEWPORT = {"width": 1280, "height": 900}

# Every cell in the page at once, no news from the network, no saving behind the test's back.
LAB_SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none", "scrollPastEnd": False},
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "docmanager-extension/plugin": {"autosave": False},
}

NOTEBOOK = ".jp-Notebook"
PICTURE = "img.labkit-picture"
TABLE = ".labkit-table"
# The picture's address may be replaced while it is being read: then read the new one.
DIGEST = """async image => {
    for (let attempt = 0; ; attempt++) {
        try {
            const bytes = await (await fetch(image.src)).arrayBuffer();
            const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
            return Array.from(digest, byte => byte.toString(16).padStart(2, "0")).join("");
        } catch (error) {
            if (attempt > 20) throw error;
            await new Promise(again => setTimeout(again, 50));
        }
    }
}"""
BUSY = "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'busy'"  # in Voila: no
ERRORS = (
    '[data-mime-type="application/vnd.jupyter.error"]',
    '[data-mime-type="application/vnd.jupyter.stderr"]',
    ".jupyter-widgets-error-widget",
    "text=Error displaying widget",
)


def find_chromium():
    """Return the path of a Chromium on this machine, or None."""
    return next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)


def why_not():
    """Return why no browser test can run here, in plain words, or None where it can."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "the Python package playwright is not installed"
    if find_chromium() is None:
        return f"no Chromium on the PATH (looked for {', '.join(CHROMIUM_NAMES)})"
    return None


# JupyterLab


@dataclasses.dataclass(frozen=True)
class Lab:
    """A running JupyterLab: its address, its secret token, the folder it serves, its environment."""

    url: str
    token: str
    root: Path
    env: dict

    def notebook_url(self, name):
        """Return the address of a notebook alone on the page (single-document mode)."""
        return f"{self.url}/doc/tree/{name}?token={self.token}"


@contextlib.contextmanager
def start_lab(root, timeout=60):
    """Serve a folder with JupyterLab as `make lab` starts it; give a Lab, stop it and its kernels after.

    It shares nothing with the user's own Jupyter: settings, workspaces, trust, IPython profile are new.
    """
    with tempfile.TemporaryDirectory(prefix="lab-") as home:
        home = Path(home)
        for plugin, values in LAB_SETTINGS.items():
            file = home / "settings" / "@jupyterlab" / f"{plugin}.jupyterlab-settings"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(values))
        port, token = free_port(), secrets.token_hex(16)
        lab = Lab(f"http://127.0.0.1:{port}", token, Path(root).resolve(), lab_environment(home))
        command = [sys.executable, "-m", "jupyterlab", f"--config={LAB_CONFIG}", "--no-browser"]
        command += ["--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
        command += [f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={lab.root}"]
        command += ["--LabApp.expose_app_in_browser=True"]  # gives window.jupyterapp to the test
        with open(home / "lab.log", "w+") as log:
            server = subprocess.Popen(command, env=lab.env, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            try:
                _wait_for_lab(lab, server, log, timeout)
                yield lab
            finally:
                server.terminate()  # the server shuts its kernels down before it ends
                try:
                    server.wait(20)
                except subprocess.TimeoutExpired:
                    server.kill()
                    server.wait()


def lab_environment(home):
    """Return an environment in which Jupyter keeps all it writes in one folder."""
    env = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", IPYTHONDIR=str(home / "ipython"))
    for name in ("config", "data", "runtime"):
        env[f"JUPYTER_{name.upper()}_DIR"] = str(home / name)
    env["JUPYTERLAB_SETTINGS_DIR"] = str(home / "settings")
    env["JUPYTERLAB_WORKSPACES_DIR"] = str(home / "workspaces")
    env.pop("MPLBACKEND", None)
    return env


def free_port():
    """Return a TCP port of this machine that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_for_lab(lab, server, log, timeout):
    deadline = time.monotonic() + timeout
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never through a proxy
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(OSError):
            opener.open(f"{lab.url}/api/status?token={lab.token}", timeout=5).close()
            return
        time.sleep(0.1)
    log.seek(0)
    raise RuntimeError(f"JupyterLab did not start within {timeout} s:\n{log.read()[-3000:]}")


# The browser and the page


@contextlib.contextmanager
def open_browser():
    """Start Chromium without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=CHROMIUM_ARGS)
        try:
            yield browser
        finally:
            browser.close()


def new_page(browser, zoom=1):
    """Open an empty page of 1280 x 900, with `zoom` pixels to the point."""
    page = browser.new_context(viewport=VIEWPORT, device_scale_factor=zoom).new_page()
    page.set_default_timeout(30_000)
    return page


def open_notebook(page, lab, name):
    """Open a notebook and wait until its cells are drawn and its kernel is ready; nothing is run."""
    page.goto(lab.notebook_url(name))
    page.locator(f"{NOTEBOOK} .jp-Cell").first.wait_for()
    _until(page, "document", "() => window.jupyterapp.shell.currentWidget.context.ready")
    _until(page, "kernel", "() => window.jupyterapp.shell.currentWidget.sessionContext.ready")
    for side in ("left", "right"):
        bar = page.locator(f".jp-SideBar.jp-mod-{side}")
        if bar.count() and bar.first.is_visible():
            command = f"execute('application:toggle-side-tabbar', {{side: '{side}'}})"
            _until(page, side, f"() => window.jupyterapp.commands.{command}")


def run_all(page, timeout=120):
    """Run all cells and wait until the last has ended and every widget is drawn."""
    _until(page, "run", "() => window.jupyterapp.commands.execute('notebook:run-all-cells')", timeout)
    page.wait_for_function(
        """() => !document.querySelector('.jp-InputPrompt[data-prompt="*"]')
            && !document.body.innerText.includes('Loading widget...')"""
    )


def save_notebook(page):
    """Save the open notebook, as Ctrl-S does."""
    _until(page, "save", "() => window.jupyterapp.commands.execute('docmanager:save')")


def shut_kernel_down(page):
    """End the kernel of the open notebook, so that it takes no time from the next test."""
    _until(page, "shutdown", "() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")


def _until(page, name, promise, timeout=60):
    """Wait for a JavaScript promise, with a time limit (`evaluate` alone has none)."""
    from playwright.sync_api import TimeoutError

    page.evaluate(
        """([name, source]) => {
            window.__done = {name};
            Promise.resolve(eval(source)()).then(
                () => window.__done = {name, ok: true},
                error => window.__done = {name, error: String(error)});
        }""",
        [name, promise],
    )
    try:
        page.wait_for_function("window.__done.ok || window.__done.error", timeout=timeout * 1000)
    except TimeoutError:
        dialogs = page.locator(".jp-Dialog").all_inner_texts()
        raise RuntimeError(f"{name}: not done after {timeout} s; JupyterLab asks: {dialogs}") from None
    error = page.evaluate("window.__done.error")
    if error:
        raise RuntimeError(f"{name}: {error}")


def trusted(page):
    """Return whether JupyterLab trusts all code cells of the open notebook."""
    return page.evaluate(
        """() => window.jupyterapp.shell.currentWidget.content.widgets
            .filter(cell => cell.model.type === 'code').every(cell => cell.model.trusted)"""
    )


@contextlib.contextmanager
def opened(browser, lab, name, zoom=1):
    """Open a notebook in a page of its own; close the page and end the notebook's kernel after."""
    page = new_page(browser, zoom)
    try:
        open_notebook(page, lab, name)
        yield page
        shut_kernel_down(page)
    finally:
        page.context.close()


def errors(page):
    """Return the texts of all error outputs and broken widgets in the page."""
    return [text for selector in ERRORS for text in page.locator(selector).all_inner_texts()]


def saved_pictures(page):
    """Return the widths in pixels of the pictures drawn from saved PNG outputs; 0 is one that did not load."""
    images = page.locator('.jp-OutputArea-output[data-mime-type="image/png"] img')
    return images.evaluate_all("images => Promise.all(images.map(i => i.decode().then(() => i.naturalWidth, () => 0)))")


def panels(page):
    """Return the panels in the page, from top to bottom."""
    return [PanelInPage(page, root) for root in page.locator(".labkit-panel").all()]


class PanelInPage:
    """One panel in the page, seen as a student sees it: controls, picture, table, status line."""

    def __init__(self, page, root):
        self.page = page
        self.root = root

    # What it shows

    def picture(self):
        """Return a digest of the picture: the same for the same pixels, whatever its address."""
        return self.root.locator(PICTURE).first.evaluate(DIGEST)

    def alt(self):
        """Return the words that stand for the picture."""
        return self.root.locator(PICTURE).first.get_attribute("alt")

    def table(self):
        """Return the text of the table."""
        return self.root.locator(TABLE).first.inner_text()

    def status(self):
        """Return the text of the status line."""
        return self.root.locator(".labkit-status").first.inner_text().strip()

    def failed(self):
        """Return whether the status line shows an error."""
        return self.root.locator(".labkit-status.labkit-error").count() > 0

    def height_to_picture(self):
        """Return the pixels from the top of the panel to the end of its picture."""
        picture = self.root.locator(PICTURE).first.bounding_box()
        return picture["y"] + picture["height"] - self.root.bounding_box()["y"]

    def shown(self):
        """Return picture and table together, to be compared."""
        return self.picture(), self.table()

    # Its controls

    def sliders(self):
        """Return the handles of all sliders that can be seen."""
        return [handle for handle in self.root.get_by_role("slider").all() if handle.is_visible()]

    def slider(self, label):
        """Return the handle of the slider that assistive technology calls by this label."""
        return self.root.get_by_role("slider", name=label).first

    def dropdowns(self):
        """Return all drop-down lists that can be seen."""
        return [select for select in self.root.locator("select").all() if select.is_visible()]

    def label(self, control):
        """Return the accessible name of a control, as Chromium computes it."""
        return accessible_name(self.page, control)

    def press(self, slider, key, times=1):
        """Press a key on a slider, by keyboard alone."""
        slider.focus()
        for _ in range(times):
            self.page.keyboard.press(key)

    def reset(self):
        """Press the Reset button."""
        self.root.get_by_role("button", name="Reset").first.click()
        self.settle()

    def wait_for_change(self, before, timeout=20):
        """Wait until both the picture and the table differ from what `shown` gave before."""
        return self._wait(lambda: all(a != b for a, b in zip(self.shown(), before)), timeout, "picture and table")

    def wait_for_status(self, text, timeout=20):
        """Wait until the status line contains a text."""
        return self._wait(lambda: text in self.status(), timeout, f"{text!r} in the status line")

    def wait_for_shown(self, before, timeout=20):
        """Wait until picture and table are what `shown` gave before."""
        return self._wait(lambda: self.shown() == before, timeout, "the picture and table of before")

    def settle(self, quiet=0.6, timeout=60):
        """Wait until nothing has changed for a while: the last redraw, the end of a training; a busy kernel may still change it."""
        deadline, since, last = time.monotonic() + timeout, time.monotonic(), None
        while time.monotonic() < deadline and time.monotonic() - since < quiet:
            now = (*self.shown(), self.status())
            if now != last or self.page.evaluate(BUSY):
                last, since = now, time.monotonic()
            self.page.wait_for_timeout(50)

    def _wait(self, happened, timeout, what):
        deadline = time.monotonic() + timeout
        while not happened():
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {timeout} s for {what}; the status line says {self.status()!r}")
            self.page.wait_for_timeout(20)


def accessible_name(page, control):
    """Return the name that a screen reader would speak for an element."""
    session = page.context.new_cdp_session(page)
    control.evaluate("element => window.__control = element")
    element = session.send("Runtime.evaluate", {"expression": "window.__control"})["result"]["objectId"]
    nodes = session.send("Accessibility.getPartialAXTree", {"objectId": element, "fetchRelatives": False})["nodes"]
    session.detach()
    return nodes[0].get("name", {}).get("value", "")


# Pictures to look at


def screenshot(page, element, path):
    """Write a PNG of an element, whole even where it is taller than the window."""
    box = element.bounding_box()
    if box and box["height"] + 100 > VIEWPORT["height"]:
        page.set_viewport_size({**VIEWPORT, "height": int(box["height"]) + 200})
    element.scroll_into_view_if_needed()
    element.screenshot(path=path, animations="disabled")
    page.set_viewport_size(VIEWPORT)


def screenshot_notebook(page, path, zoom=1, slice_height=1600):
    """Write PNGs of the whole notebook: one of everything, and one for each piece of some 1600 points.

    Chromium paints at most 16384 pixels in one go, so a longer notebook comes in pieces only.
    """
    scroller = page.locator(f"{NOTEBOOK} .jp-WindowedPanel-outer")
    page.wait_for_timeout(300)
    hidden = VIEWPORT["height"] - int(scroller.evaluate("n => n.clientHeight"))  # menu, tool bar, status bar
    height = int(scroller.evaluate("n => n.scrollHeight")) + hidden
    page.set_viewport_size({**VIEWPORT, "height": height})
    page.wait_for_timeout(500)
    scroller.evaluate("n => n.scrollTop = 0")
    written = []
    for number, top in enumerate(range(0, height, slice_height), start=1):
        piece = path.with_name(f"{path.stem}_{number:02d}.png")
        clip = {"x": 0, "y": top, "width": VIEWPORT["width"], "height": min(slice_height, height - top)}
        page.screenshot(path=piece, clip=clip, animations="disabled")
        written.append(piece)
    if height * zoom <= 16_000:
        page.screenshot(path=path, animations="disabled")
        written.append(path)
    page.set_viewport_size(VIEWPORT)
    return written


def shots(notebook, out, zoom=1, only=None, lists=False, text=False):
    """Run a notebook in the browser and write PNGs of its panels in many states, and of its text."""
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="shots-") as root:
        shutil.copy(notebook, root)
        with start_lab(root) as lab, open_browser() as browser, opened(browser, lab, Path(notebook).name, zoom) as page:
            run_all(page)
            for message in errors(page):
                print(f"error in the page: {message[:500]}", file=sys.stderr)
            written = screenshot_notebook(page, out / "notebook.png", zoom)
            for number, panel in enumerate([] if text else panels(page)):
                if only is None or number == only:
                    written += shoot_panel(page, panel, out, f"panel{number}", lists)
    return written


def shoot_panel(page, panel, out, stem, lists):
    """Write PNGs of a panel: as it is, each slider at both ends and (if asked) each choice of each list, one at a time."""
    written = []

    def shoot(*words):
        panel.settle()
        path = out / ("_".join([stem, *(re.sub(r"\W+", "-", word).strip("-") for word in words)]) + ".png")
        screenshot(page, panel.root, path)
        print(f"{path.name}: {panel.status()!r}", flush=True)
        written.append(path)

    shoot("default")
    for index, slider in enumerate(panel.sliders()):
        for key, word in (("Home", "least"), ("End", "largest")):
            panel.press(slider, key)
            shoot(f"{index}", panel.label(slider)[:30] or "slider", word)
        panel.reset()
    for index, select in enumerate(panel.dropdowns() if lists else []):
        for number, option in enumerate(select.locator("option").all_inner_texts()):
            select.select_option(index=number)
            shoot(f"list{index}", f"{number:02d}", option[:30])
        panel.reset()
    shoot("reset")
    return written


def main(argv=None):
    """Run the command line; return its exit code."""
    parser = argparse.ArgumentParser(description="Take pictures of a notebook that runs in a real browser.")
    parser.add_argument("command", choices=["shots"])
    parser.add_argument("notebook", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--zoom", type=float, default=1, help="pixels to the point (2: sharp)")
    parser.add_argument("--only", type=int, help="the number of the one panel to shoot, from 0")
    parser.add_argument("--lists", action="store_true", help="every choice of every drop-down list as well")
    parser.add_argument("--text", action="store_true", help="the notebook only, no panel states")
    args = parser.parse_args(argv)
    reason = why_not()
    if reason or not args.notebook.is_file():
        print(reason or f"no such notebook: {args.notebook}", file=sys.stderr)
        return 2
    written = shots(args.notebook, args.out, args.zoom, args.only, args.lists, args.text)
    print(f"{len(written)} pictures in {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
