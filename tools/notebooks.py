"""Save the notebooks in one canonical form, and check that they are in it.

    python tools/notebooks.py save            # run every notebook anew and write it
    python tools/notebooks.py save 01         # only this one (a path, a name or its beginning)
    python tools/notebooks.py check

The canonical form holds what a reader needs and nothing that changes from run to run: no timings, no
machine's name, no widget state. A widget view that is saved without its model shows an error in place
of the picture, so the views are taken out as well; the picture and the text of the same output stay.
"""

import argparse
import copy
import difflib
import json
import os
import re
import sys
import tempfile
from pathlib import Path

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
CELL_TIMEOUT = 600  # seconds; only a guard against a cell that hangs

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
LANGUAGE_INFO = {
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "pygments_lexer": "ipython3",
}


class NotebookProblem(Exception):
    """Something in a notebook that a person has to mend; the message says what and where."""


# Pure functions: notebook in, notebook out


def strip(nb):
    """Return a copy of a notebook without widget views and widget state; all else is untouched.

    Works on any notebook that is a mapping, so JupyterLab's save hook uses it as well. A view stays
    only where it is the sole content of its output: there is nothing else to show there.
    """
    nb = copy.deepcopy(nb)
    nb.get("metadata", {}).pop("widgets", None)
    for cell in nb.get("cells", []):
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if WIDGET_VIEW in data and len(data) > 1:
                del data[WIDGET_VIEW]
                output.get("metadata", {}).pop(WIDGET_VIEW, None)
    return nb


def tidy(nb):
    """Return what is written when a notebook is saved in JupyterLab: stripped, and the course's metadata as committed.

    Opening, running and saving a notebook of the course then leaves the file as it was, as long as the numbers are the same.
    """
    nb = strip(nb)
    info = nb.get("metadata", {}).get("language_info", {})
    if info.get("name") == LANGUAGE_INFO["name"]:  # the version of Python differs between machines
        nb["metadata"]["language_info"] = dict(LANGUAGE_INFO)
    return nb


def canonical(nb):
    """Return a notebook in canonical form, its sources, outputs and execution counts as they are."""
    nb = strip(nb)
    nb["nbformat"], nb["nbformat_minor"] = 4, 5
    nb["metadata"] = {"kernelspec": dict(KERNELSPEC), "language_info": dict(LANGUAGE_INFO)}
    for cell, cell_id in zip(nb["cells"], cell_ids(nb["cells"])):
        cell["id"] = cell_id
        cell["metadata"] = reduced_metadata(cell.get("metadata", {}))
    return nb


def cell_ids(cells):
    """Return an id for each cell: its own where valid and not yet taken, else its place in the order."""
    wanted = [cell.get("id") for cell in cells]
    ids = []
    for number, own in enumerate(wanted, start=1):
        valid = isinstance(own, str) and re.fullmatch(r"[A-Za-z0-9_-]{1,64}", own)
        if not valid or own in ids:
            own = f"cell-{number:02d}"
            while own in wanted or own in ids:
                own += "x"
        ids.append(own)
    return ids


def reduced_metadata(metadata):
    """Return what a cell's metadata may hold: tags, and whether its source is folded away."""
    kept = {}
    if metadata.get("tags"):
        kept["tags"] = metadata["tags"]
    if metadata.get("jupyter", {}).get("source_hidden"):
        kept["jupyter"] = {"source_hidden": True}
    return kept


def problems(nb):
    """Return what is wrong with the cells of a saved notebook, a line for each."""
    found = []
    count = 0
    for number, cell in enumerate(nb["cells"], start=1):
        if cell["cell_type"] != "code":
            continue
        where = f"cell {number} ({cell.get('id', 'no id')})"
        if not "".join(cell["source"]).strip():
            found.append(f"{where}: empty code cell; delete it")
            continue
        count += 1
        if cell.get("execution_count") is None:
            found.append(f"{where}: has not been run (no execution count)")
        elif cell["execution_count"] != count:
            found.append(f"{where}: execution count {cell['execution_count']}, expected {count}")
        found += [f"{where}: {text}" for text in map(output_problem, cell.get("outputs", [])) if text]
    if "widgets" in nb.get("metadata", {}):
        found.append("the metadata hold widget state")
    return found


def output_problem(output):
    """Return what is wrong with one output, or None."""
    if output["output_type"] == "error":
        return f"error output: {output.get('ename')}: {output.get('evalue')}"
    if output.get("name") == "stderr":
        return f"output on stderr: {''.join(output['text']).strip()[:200]}"
    if WIDGET_VIEW in output.get("data", {}):
        return "a widget view is saved in the output"
    return None


# Files


def read(path):
    """Return the notebook of a file and the file's text; NotebookProblem where it is none."""
    import nbformat

    try:
        text = path.read_bytes().decode("utf-8")
        nb = json.loads(text)
    except UnicodeDecodeError as error:
        raise NotebookProblem(f"not a text file in UTF-8 ({error})") from None
    except (ValueError, RecursionError) as error:
        raise NotebookProblem(f"not JSON: {error}") from None
    except OSError as error:
        raise NotebookProblem(f"cannot be read: {error.strerror}") from None
    cells = nb.get("cells") if isinstance(nb, dict) else None
    if not isinstance(cells, list) or nb.get("nbformat") != 4 or not all(isinstance(cell, dict) for cell in cells):
        raise NotebookProblem("JSON, but not a notebook of format 4 (an object with nbformat 4 and a list of cells)")
    nb.setdefault("metadata", {})
    for number, cell in enumerate(cells, start=1):
        if cell.get("cell_type") not in ("code", "markdown", "raw"):
            raise NotebookProblem(f"not a valid notebook: cell {number} has the cell_type {cell.get('cell_type')!r}; allowed are code, markdown, raw")
    with_ids = dict(nb, cells=[dict(cell, id=new) for cell, new in zip(cells, cell_ids(cells))], nbformat_minor=5)
    for problem in nbformat.validator.iter_validate(with_ids, version=4, version_minor=5):
        raise NotebookProblem(f"not a valid notebook: {str(problem).splitlines()[0]}")
    return nbformat.v4.reads(json.dumps(nb)), text


def to_text(nb):
    """Return the text of a notebook as it stands in a file: indent 1, sorted keys, one newline at the end."""
    import nbformat

    return nbformat.writes(nbformat.from_dict(nb), version=nbformat.NO_CONVERT) + "\n"


def write(path, text):
    """Write a file in one step, so that an interruption leaves the old one."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8", newline="\n")
    os.replace(partial, path)


def find(names):
    """Return the paths that the names mean: a file, or the beginning of a name in notebooks/."""
    known = sorted(NOTEBOOKS.glob("*.ipynb"))
    if not names:
        if not known:
            raise NotebookProblem(f"there is no notebook in {NOTEBOOKS}")
        return known
    return [_find_one(name, known) for name in names]


def _find_one(name, known):
    if Path(name).suffix == ".ipynb" and Path(name).is_file():
        return Path(name)
    matches = [path for path in known if path.name == name or path.stem.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    stems = [path.stem for path in known]
    if matches:
        raise NotebookProblem(f"{name!r} means more than one notebook: {', '.join(p.stem for p in matches)}")
    near = difflib.get_close_matches(name, stems, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(stems) or 'none'}"
    raise NotebookProblem(f"no notebook {name!r}; {hint}")


# Running


def execute(nb, folder):
    """Run all cells of a notebook in place, in a fresh kernel of the running Python."""
    from jupyter_client.kernelspec import KernelSpecManager
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    running = {}  # the cell that runs now, for the messages
    client = NotebookClient(
        nb,
        timeout=CELL_TIMEOUT,
        force_raise_errors=True,
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(folder)}},
        on_cell_start=lambda cell, cell_index: running.update(number=cell_index + 1, id=cell.get("id")),
    )
    client.create_kernel_manager()
    # A kernel spec called python3 may lie anywhere on a user's path; without folders to look in,
    # Jupyter falls back to the Python that runs this script.
    client.km.kernel_spec_manager = KernelSpecManager(kernel_dirs=[])
    with tempfile.TemporaryDirectory() as profile:
        try:
            client.execute(env=kernel_environment(profile))
        except CellExecutionError as error:
            what = f"{error.ename}: {error.evalue}"
        except CellTimeoutError:
            what = f"still running after {CELL_TIMEOUT} s"
        except DeadKernelError:
            what = "the kernel died"
        else:
            return
    raise NotebookProblem(f"cell {running.get('number')} ({running.get('id')}): {what}")


def kernel_environment(profile):
    """Return the kernel's environment: nothing of the user's IPython set-up, one thread, one hash seed."""
    env = dict(os.environ, IPYTHONDIR=profile, PYTHONHASHSEED="0")
    env.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
    env.pop("MPLBACKEND", None)  # the kernel chooses the inline backend itself
    return env


# The two commands


def save(path):
    """Run a notebook and write it in canonical form; the file stays as it was if anything is wrong."""
    nb, old = read(path)
    nb = canonical(nb)
    for cell in nb["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    execute(nb, path.resolve().parent)
    nb = canonical(nb)
    wrong = problems(nb)
    if wrong:
        raise NotebookProblem("\n".join(wrong))
    new = to_text(nb)
    if new == old:
        return "unchanged"
    write(path, new)
    return "saved"


def check(path):
    """Raise NotebookProblem unless a file is in canonical form, with every cell run in order."""
    nb, text = read(path)
    wrong = problems(nb)
    difference = first_difference(text, to_text(canonical(nb)))
    if difference:
        wrong.append(f"not in canonical form: {difference}")
    if wrong:
        raise NotebookProblem("\n".join(wrong))
    return "canonical"


def first_difference(text, expected):
    """Return where two texts part, in words, or None if they are the same."""
    if text == expected:
        return None
    old, new = text.split("\n"), expected.split("\n")
    for number, (have, want) in enumerate(zip(old, new), start=1):
        if have != want:
            start = max(0, len(os.path.commonprefix([have, want])) - 20)
            return f"line {number}: {have[start : start + 60]!r}, expected {want[start : start + 60]!r}"
    return f"{len(old)} lines, expected {len(new)} (exactly one newline belongs at the end)"


def main(argv=None):
    """Run the command line; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=["save", "check"])
    parser.add_argument("names", nargs="*", help="a path, a name or its beginning; none: all notebooks")
    args = parser.parse_args(argv)
    try:
        paths = find(args.names)
    except NotebookProblem as problem:
        print(problem, file=sys.stderr)
        return 2
    command = {"save": save, "check": check}[args.command]
    failed = 0
    for path in paths:
        try:
            print(f"{path.name}: {command(path)}", flush=True)
        except NotebookProblem as problem:
            failed += 1
            for line in str(problem).splitlines():
                print(f"{path.name}: {line}", file=sys.stderr)
    if failed and args.command == "check":
        print("`python tools/notebooks.py save` runs the notebooks and writes the canonical form", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
