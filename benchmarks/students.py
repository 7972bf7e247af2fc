"""What one student costs a server: memory and CPU of each notebook, and how many students a machine holds.

    python benchmarks/students.py [--machine 2x8 --machine 4x16] [--no-browser] [names ...]

Each notebook is run whole in a kernel of its own, as *Restart and run all* does it; then every slider of every panel
is moved to its ends and middle, and the CPU time of each move taken.  Memory is read from the operating system:
`resident` counts the pages of libraries that all kernels share, `own` only what ends with this kernel (where the system
tells it, else NaN), `data` is what a limit on data counts (ulimit -d, Linux).  The server's part is measured while
Chromium moves a slider of the first notebook once a second.
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

import nbformat
import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
import browser as chromium  # noqa: E402  (tests/browser.py)

MB = 1e6
SYSTEM_GB = 1.0  # left to the operating system
TABS = (1, 3)  # notebooks that a student keeps open: JupyterLab ends no kernel by itself
SHARE = 0.7  # of the cores, at most, so that a slider does not wait for another student's
MACHINES = ((2, 8), (4, 16), (8, 32))  # cores, GB
MOVES = 12  # seconds of one move each, in the browser

# Runs in the kernel.  Each slider goes to its ends and middle; a training is run to its end, as a student would wait for it.
PROBE = """
import gc as _gc, json as _json, time as _time
from labkit.panel import Panel as _Panel
_costs = []
for _panel in [_thing for _thing in _gc.get_objects() if isinstance(_thing, _Panel)]:
    for _name, _control in _panel.controls.items():
        for _value in _control.ends:
            _start = _time.process_time()
            _panel.set(**{_name: _value})
            _costs.append(1000 * (_time.process_time() - _start))
        _panel.reset()
open(_FILE, "w").write(_json.dumps(_costs))
"""


def memory(process):
    """Return resident, own and data memory of a process in MB; NaN where the system does not tell."""
    full, plain = process.memory_full_info(), process.memory_info()
    values = (plain.rss, getattr(full, "uss", float("nan")), getattr(plain, "data", float("nan")))
    return [value / MB for value in values]


def cpu(process):
    """Return the CPU seconds that a process has taken so far."""
    times = process.cpu_times()
    return times.user + times.system


@contextlib.contextmanager
def kernel(folder):
    """Start a kernel as the course does; give a function that runs code in it, and its process."""
    from jupyter_client import KernelManager
    from jupyter_client.kernelspec import KernelSpecManager

    manager = KernelManager(kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))  # this Python's own kernel
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", PYTHONHASHSEED="0")
    manager.start_kernel(cwd=str(folder), env=environment, extra_arguments=["--log-level=ERROR"])
    client = manager.blocking_client()
    client.start_channels()
    client.wait_for_ready(timeout=60)

    def run(code):
        reply = client.execute_interactive(code, timeout=600, output_hook=lambda message: None)
        if reply["content"]["status"] != "ok":
            raise RuntimeError(f"{reply['content'].get('ename')}: {reply['content'].get('evalue')}")

    try:
        yield run, psutil.Process(manager.provisioner.pid)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def measure(path):
    """Return one row of the table: what a notebook's kernel takes."""
    with tempfile.TemporaryDirectory() as folder, kernel(path.parent) as (run, process):
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "code":
                run(cell.source)
        busy, (resident, own, _) = cpu(process), memory(process)
        file = Path(folder) / "costs.json"
        run(f"_FILE = {str(file)!r}\n{PROBE}")
        costs = json.loads(file.read_text())
        _, own_after, data = memory(process)
    return {
        "notebook": path.stem,
        "resident MB": resident,
        "own MB": own,
        "own, all moved MB": own_after,
        "data MB": data,
        "run all, CPU s": busy,
        "a move, CPU ms": statistics.median(costs),
        "dearest move, CPU ms": max(costs),
    }


def measure_server(path):
    """Return what JupyterLab's server takes with one notebook open, and CPU a move of server and kernel (ms)."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(path, folder)
        with chromium.start_lab(folder) as lab:
            (server,) = [child for child in psutil.Process().children() if "jupyterlab" in " ".join(child.cmdline())]
            with chromium.open_browser() as browser, chromium.opened(browser, lab, path.name) as page:
                chromium.run_all(page)
                panel = chromium.panels(page)[0]
                panel.settle()
                (kernel_process,) = server.children()
                processes, slider = (server, kernel_process), panel.sliders()[0]
                before = [cpu(process) for process in processes]
                for move in range(MOVES):
                    panel.press(slider, "ArrowRight" if move % 2 else "ArrowLeft")
                    page.wait_for_timeout(1000)
                spent = [1000 * (cpu(process) - start) / MOVES for process, start in zip(processes, before)]
                resident, own, data = memory(server)
    names = ("server, CPU ms a move", "kernel, CPU ms a move")
    return {"server": "JupyterLab", "resident MB": resident, "own MB": own, "data MB": data, **dict(zip(names, spent))}


def machine_line(cores, gigabytes, rows, server):
    """Return a row: how many students a machine holds, by memory, and by CPU if each makes a move a second."""
    kernels = sorted((row["own, all moved MB"] for row in rows), reverse=True)
    free = (gigabytes - SYSTEM_GB) * 1000
    by_memory = [int(free / (sum(kernels[:tabs]) + server["own MB"])) for tabs in TABS]
    moves = [row["a move, CPU ms"] + server["server, CPU ms a move"] for row in rows]
    burst = max(row["run all, CPU s"] for row in rows)
    return {
        "machine": f"{cores} cores, {gigabytes:.0f} GB",
        **{f"students, {tabs} open": number for tabs, number in zip(TABS, by_memory)},
        "a move a second each, median notebook": int(SHARE * cores * 1000 / statistics.median(moves)),
        "dearest notebook": int(SHARE * cores * 1000 / max(moves)),
        "10 run all at once: wait s": 10 * burst / cores,
    }


def table(rows):
    """Return rows of the same keys as a Markdown table."""
    keys = list(rows[0])
    lines = ["| " + " | ".join(keys) + " |", "|---|" + "---:|" * (len(keys) - 1)]
    for row in rows:
        lines.append("| " + " | ".join(_text(key, value) for key, value in row.items()) + " |")
    return "\n".join(lines)


def _text(key, value):
    return value if isinstance(value, str) else f"{value:.1f}" if key.endswith("CPU s") else f"{value:.0f}"


def machine(text):
    """Read "2x8" as 2 cores and 8 GB."""
    cores, _, gigabytes = text.partition("x")
    return int(cores), float(gigabytes)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="beginnings of notebooks' names; none: all")
    parser.add_argument("--machine", type=machine, action="append", metavar="CORESxGB", help="as 2x8; may be repeated")
    parser.add_argument("--no-browser", action="store_true", help="leave the server out")
    args = parser.parse_args()
    paths = [p for p in sorted((ROOT / "notebooks").glob("*.ipynb")) if p.name.startswith(tuple(args.names or [""]))]
    rows = [measure(path) for path in paths]
    print(table(rows))
    if args.no_browser or chromium.why_not():
        return print(f"\nno figures of the server: {chromium.why_not() or 'not asked for'}")
    server = measure_server(paths[0])
    print(f"\n{table([server])}\n")
    # Pages of libraries are shared, so `own` is what each student adds; those who have n notebooks open have the n largest.
    print(table([machine_line(*size, rows, server) for size in args.machine or MACHINES]))


if __name__ == "__main__":
    main()
