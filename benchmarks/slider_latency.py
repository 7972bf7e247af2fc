"""How fast is a slider?  Key press to painted picture, in one browser session, and CPU a move without a browser.

    python benchmarks/slider_latency.py [--presses 25]

Three sliders are compared in the same JupyterLab: the floor (a bare slider echoed into text), the heaviest panel of
notebook 1, and the same figure drawn with `interact` and the inline backend.  Goals: at most 2.5 times the floor, at
least 3.5 times faster than `interact`.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_notebook

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
import browser as chromium  # noqa: E402  (tests/browser.py)

FLOOR = """
import ipywidgets as widgets
slider, echo = widgets.IntSlider(20, 0, 100), widgets.Label("20")
slider.observe(lambda change: setattr(echo, "value", str(change.new)), "value")
box = widgets.VBox([slider, echo]); box.add_class("bench-0"); box
"""
PANEL = """
from labkit import kv_studies
from labkit.controls import stops
from labkit.figures import kv_cost as figures
from labkit.panel import Panel
contexts = [20_000 + 400 * i for i in range(101)]
panel = Panel(kv_studies.latency, figures.draw_latency, figures.table_latency, alt=figures.alt_latency, title="panel",
              size=(9.8, 4.6), context=stops(contexts, contexts[20]), cached=(0.0, 1.0, 0.5))
panel.widget.add_class("bench-1"); panel
"""
INTERACT = """
%matplotlib inline
import matplotlib.pyplot as plt
def show(i=20):
    result = kv_studies.latency(context=contexts[i], cached=0.5)
    fig = plt.figure(figsize=(9.8, 4.6), layout="constrained")
    figures.draw_latency(fig, result)(result)
    plt.show()
widget = widgets.interactive(show, i=(0, 100)); widget.add_class("bench-2"); widget
"""

# Waits until the next change under `root` is on the screen: text has changed or a picture has been decoded, and two frames have passed.
WATCH = """([index]) => {
    const root = document.querySelector(`.bench-${index}`);
    const pictures = () => [...root.querySelectorAll('img')].map(img => img.src).join();
    const echo = index === 0 ? root.querySelector('.widget-label:last-child') : null;
    const state = () => index === 0 ? echo.textContent : pictures();
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


def press(page, index):
    """Milliseconds from one key press to the painted change."""
    page.evaluate(WATCH, [index])
    page.keyboard.press("ArrowRight")
    page.wait_for_function("window.__painted !== null")
    return page.evaluate("window.__painted - window.__pressed")


def in_the_browser(presses):
    """Median latency (ms) of the floor, the panel and `interact`."""
    with tempfile.TemporaryDirectory() as folder:
        notebook = new_notebook(cells=[new_code_cell(source) for source in (FLOOR, PANEL, INTERACT)])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
        nbformat.write(notebook, Path(folder) / "bench.ipynb")
        with chromium.start_lab(Path(folder)) as lab, chromium.open_browser() as started:
            with chromium.opened(started, lab, "bench.ipynb") as page:
                chromium.run_all(page)
                times = []
                for index in range(3):
                    page.locator(f".bench-{index} [role=slider]").first.focus()
                    sample = []
                    for _ in range(presses):
                        sample.append(press(page, index))
                        page.wait_for_timeout(120)  # the kernel is idle again before the next key
                    times.append(statistics.median(sample[3:]))
                return times


def cpu_of_a_move(presses):
    """CPU milliseconds of a move for each panel of notebook 1: simulation alone, and with the picture."""
    import json

    from labkit import panel as panel_module

    made = []

    class Caught(panel_module.Panel):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            made.append(self)

    panel_module.Panel = Caught
    names = {}
    for cell in json.loads((ROOT / "notebooks" / "01_kv_cost.ipynb").read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code" and ("Panel(" in "".join(cell["source"]) or "import" in "".join(cell["source"])):
            exec("".join(cell["source"]), names)
    for panel in made:
        contexts = [4_000 + 50 * i for i in range(presses)]
        sample = {"simulation": [], "with picture": []}
        for context in contexts:
            start = time.process_time()
            panel._simulate(**panel.params | {"context": context})
            sample["simulation"].append(1000 * (time.process_time() - start))
            start = time.process_time()
            panel.set(context=context)
            sample["with picture"].append(1000 * (time.process_time() - start))
        yield panel.title, *(statistics.median(times) for times in sample.values())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--presses", type=int, default=25)
    presses = parser.parse_args().presses
    print("CPU a move (ms, median)          simulation   with picture    goals: 20 and 30")
    for title, simulation, picture in cpu_of_a_move(presses):
        print(f"  {title[:30]:<30} {simulation:>11.1f} {picture:>14.1f}")
    if chromium.why_not():
        sys.exit(f"no latency in a browser: {chromium.why_not()}")
    floor, panel, interact = in_the_browser(presses)
    print(f"key press to painted picture (ms, median of {presses - 3}): floor {floor:.0f}, panel {panel:.0f}, interact {interact:.0f}")
    print(f"  panel / floor    {panel / floor:.2f}   goal: at most 2.5")
    print(f"  interact / panel {interact / panel:.2f}   goal: at least 3.5")
