"""How fast is a slider?  For the heaviest panel of every notebook: CPU a move, and key press to painted picture.

    python benchmarks/slider_latency.py [01 05 ...] [--presses 20] [--no-browser]

Three sliders are compared in one JupyterLab: the floor (a bare slider echoed into text), the panel, and the same simulation
and figure under `interact` with the inline backend.  Goals: at most 2.5 times the floor, at least 3.5 times faster than
`interact`.  A panel that trains is timed to its first redraw.  The last columns are the notebook's own run (as nbval does it).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import nbformat  # noqa: E402  (after the threads are set)
from nbformat.v4 import new_code_cell, new_notebook  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]
import browser as chromium  # noqa: E402  (tests/browser.py)

NOTEBOOKS = sorted((ROOT / "notebooks").glob("0*.ipynb"))

FLOOR = """
import ipywidgets as widgets
slider, echo = widgets.IntSlider(20, 0, 100), widgets.Label("20")
slider.observe(lambda change: setattr(echo, "value", str(change.new)), "value")
box = widgets.VBox([slider, echo]); box.add_class("bench-0"); box
"""
PANEL = """
import sys; sys.path.insert(0, {here!r})
import slider_latency as bench
panel, name = bench.heaviest(bench.panels_of({path!r}))
panel.widget.add_class("bench-1"); panel
"""
INTERACT = """
%matplotlib inline
import inspect
import matplotlib as mpl
import matplotlib.pyplot as plt
from labkit.figures import style
stops = bench.stops_of(panel, name)
def show(i):
    result = panel._simulate(**panel.params | {name: stops[i]})
    result = next(result) if inspect.isgenerator(result) else result
    same = panel._canvas.figure  # the same picture: size, resolution and style
    with mpl.rc_context(style.RC):
        fig = plt.figure(figsize=same.get_size_inches(), dpi=same.dpi, layout="constrained")
        update = panel.draw(fig, result)
        if update is not None:
            update(result)
        plt.show()
widget = widgets.interactive(show, i=widgets.IntSlider(len(stops) // 2, 0, len(stops) - 1)); widget.add_class("bench-2"); widget
"""

# Waits until the next change under `root` is on the screen: text has changed or a picture has been decoded, and a frame has passed.
WATCH = """([index]) => {
    const root = document.querySelector(`.bench-${index}`);
    const state = () => index === 0 ? root.querySelector('.widget-label:last-child').textContent
        : [...root.querySelectorAll('img')].map(img => img.src).join();
    const before = state();
    window.__pressed = null; window.__painted = null;
    addEventListener('keydown', () => window.__pressed = performance.now(), {capture: true, once: true});
    const look = () => {
        const now = state();
        const ready = now && now !== before && [...root.querySelectorAll('img')].every(img => img.complete);
        if (ready) requestAnimationFrame(() => window.__painted = performance.now());
        else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
}"""


def panels_of(path):
    """The panels that a notebook's cells make, run here."""
    from labkit import panel as module

    made, original = [], module.Panel

    class Caught(original):
        def __init__(self, simulate, draw, *args, **kwargs):
            super().__init__(simulate, draw, *args, **kwargs)
            self.draw = draw
            made.append(self)

    module.Panel, names, printed = Caught, {"__name__": "__main__"}, sys.stdout
    try:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
        for cell in json.loads(Path(path).read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    finally:
        module.Panel, sys.stdout = original, printed
    return made


def stops_of(panel, name):
    """The values at which a slider stops."""
    return [value for _, value in panel.inputs[name].options]


def slider_of(panel):
    """The slider with the most stops, or None."""
    sliders = [name for name, widget in panel.inputs.items() if type(widget).__name__ == "SelectionSlider"]
    return max(sliders, key=lambda name: len(stops_of(panel, name)), default=None)


def cpu_of_a_move(panel, name, moves=12):
    """(simulation alone, with the picture): CPU milliseconds of a move, medians over different values."""
    stops = stops_of(panel, name)
    values = [stops[(i * max(1, len(stops) // (2 * moves))) % len(stops)] for i in range(1, 2 * moves + 1)]
    alone, whole = [], []  # in turns, at values of their own: some simulations keep what they have computed
    for i, value in enumerate(values):
        start = time.process_time()
        if i % 2:
            panel.set(**{name: value})
        else:
            panel._last(panel._simulate(**panel.params | {name: value}))
        (whole if i % 2 else alone).append(1000 * (time.process_time() - start))
    panel.reset()
    return statistics.median(alone), statistics.median(whole)


def heaviest(panels):
    """The panel whose move costs most CPU, and its slider."""
    movable = [(panel, slider_of(panel)) for panel in panels]
    movable = [(panel, name) for panel, name in movable if name is not None]
    return max(movable, key=lambda pair: cpu_of_a_move(*pair, moves=4)[1])


def press(page, index, key):
    """Milliseconds from one key press to the painted change."""
    page.evaluate(WATCH, [index])
    page.keyboard.press(key)
    page.wait_for_function("window.__painted !== null")
    return page.evaluate("window.__painted - window.__pressed")


def latencies(path, presses):
    """Median latency (ms) of the floor, the notebook's heaviest panel and `interact`."""
    with tempfile.TemporaryDirectory() as folder:
        cells = [FLOOR, PANEL.format(here=str(ROOT / "benchmarks"), path=str(path)), INTERACT]
        notebook = new_notebook(cells=[new_code_cell(source) for source in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
        nbformat.write(notebook, Path(folder) / "bench.ipynb")
        with chromium.start_lab(Path(folder)) as lab, chromium.open_browser() as started:
            with chromium.opened(started, lab, "bench.ipynb") as page:
                chromium.run_all(page, timeout=240)
                times = []
                for index in range(3):
                    widest = page.locator(f".bench-{index} [role=slider]")
                    handle = widest.first if index != 1 else max(widest.all(), key=lambda h: float(h.get_attribute("aria-valuemax")))
                    handle.focus()
                    sample = []
                    for turn in range(presses):
                        sample.append(press(page, index, "ArrowRight" if turn % 2 else "ArrowLeft"))
                        page.wait_for_timeout(150)  # the kernel is idle again before the next key
                    times.append(statistics.median(sample[3:]))
                return times


def run_seconds(path):
    """(wall, CPU) seconds of the whole notebook in a kernel of its own."""
    start, before = time.perf_counter(), os.times()
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval", "--nbval-current-env", str(path)],
                   cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return time.perf_counter() - start, after.children_user + after.children_system - before.children_user - before.children_system


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="beginnings of notebook names; all without")
    parser.add_argument("--presses", type=int, default=20)
    parser.add_argument("--no-browser", action="store_true")
    chosen = parser.parse_args()
    paths = [path for path in NOTEBOOKS if not chosen.names or path.name.startswith(tuple(chosen.names))]
    print(f"{'notebook, heaviest panel':<52}{'CPU a move (ms)':>18}{'key to picture (ms)':>26}{'ratios':>14}{'nbval (s)':>14}")
    print(f"{'':<52}{'alone':>9}{'picture':>9}{'floor':>8}{'panel':>8}{'interact':>10}{'<=2.5':>7}{'>=3.5':>7}{'wall':>7}{'CPU':>7}")
    for path in paths:
        panel, name = heaviest(panels_of(path))
        alone, whole = cpu_of_a_move(panel, name)
        line = f"{path.stem + ': ' + panel.title[:34]:<52}{alone:>9.1f}{whole:>9.1f}"
        if chosen.no_browser or chromium.why_not():
            line += f"{'-':>8}{'-':>8}{'-':>10}{'-':>7}{'-':>7}"
        else:
            floor, ours, interact = latencies(path, chosen.presses)
            line += f"{floor:>8.0f}{ours:>8.0f}{interact:>10.0f}{ours / floor:>7.2f}{interact / ours:>7.2f}"
        wall, cpu = run_seconds(path)
        print(f"{line}{wall:>7.1f}{cpu:>7.1f}", flush=True)


if __name__ == "__main__":
    main()
