"""The notebooks need no network: none opens a connection, and the whole course runs where there is none."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import browser as chromium
import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
ALWAYS = 2  # the others in make test-long
each_notebook = pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=[pytest.mark.long] * (i >= ALWAYS)) for i, path in enumerate(NOTEBOOKS)],
)

# Python itself reports every use of a socket, whichever library asks. An audit hook can't be taken out again, so this
# runs in a process of its own. What a notebook tries is printed too: a caught exception would hide it.
WATCH = """
import json, sys
EVENTS = {"socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname",
          "socket.gethostbyaddr", "socket.getnameinfo", "urllib.Request", "http.client.connect"}

def watch(event, args):
    if event in EVENTS:
        print("NETWORK", event, args, flush=True)
        raise OSError(f"no network here: {event}")

sys.addaudithook(watch)
names = {"display": lambda *things: None, "__name__": "__main__"}
for source in json.load(sys.stdin):
    exec(source, names)
print("DONE")
"""

# A network of its own, with the loopback device that Jupyter's kernels talk over and no other.
ALONE = ["unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "alone"]


def watched(sources):
    """Run code cells with Python's network events watched; give the lines of what they tried, and all output."""
    command = [sys.executable, "-c", WATCH]
    done = subprocess.run(command, input=json.dumps(sources), cwd=ROOT / "notebooks", capture_output=True, text=True, timeout=600)
    return [line for line in done.stdout.splitlines() if line.startswith("NETWORK")], done.stdout + done.stderr


def why_not_alone():
    """Return why no process can be cut off from the network here, or None."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        if subprocess.run([*ALONE, "true"], capture_output=True, timeout=30).returncode == 0:
            return None
    return "this system lets no process have a network of its own (unshare, ip)"


def test_the_watch_sees_what_it_should():
    tried, output = watched(["import urllib.request as u\ntry: u.urlopen('http://192.0.2.1/')\nexcept OSError: pass"])
    assert tried and "DONE" in output


@each_notebook
def test_a_notebook_opens_no_connection(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    tried, output = watched(["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"])
    assert tried == [] and "DONE" in output, output[-3000:]


@pytest.mark.long
@pytest.mark.skipif(why_not_alone() is not None, reason=f"not cut off: {why_not_alone()}")
def test_a_notebook_runs_where_there_is_no_network():
    """In a real kernel, without a route to anywhere: the numbers are the saved ones."""
    nbval = [*ALONE, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--nbval", "--nbval-current-env", str(NOTEBOOKS[0])]
    done = subprocess.run(nbval, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout[-3000:] + done.stderr[-1000:]


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.skipif(chromium.why_not() is not None, reason=f"no browser test: {chromium.why_not()}")
@pytest.mark.skipif(why_not_alone() is not None, reason=f"not cut off: {why_not_alone()}")
def test_jupyterlab_and_browser_work_where_there_is_no_network():
    """What a student does, on a machine cut off: open, run all, move every panel by keyboard."""
    name = f"test_every_panel_answers_to_the_keyboard[{NOTEBOOKS[0].stem}]"
    tests = [*ALONE, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"tests/test_browser.py::{name}"]
    done = subprocess.run(tests, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout[-3000:] + done.stderr[-1000:]
