"""tools/notebooks.py and the save hook of JupyterLab, on small notebooks written for the purpose."""

import copy
import json
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

TOOLS = Path(__file__).resolve().parents[1] / "tools"
sys.path.insert(0, str(TOOLS))
import notebooks  # noqa: E402

VIEW = notebooks.WIDGET_VIEW

# A stand-in for a panel: a live widget, a picture and a text in one output.
THREE_FACES = """\
import base64, io
import ipywidgets, matplotlib.pyplot as plt

class Faces:
    def _repr_mimebundle_(self, **kwargs):
        figure, axes = plt.subplots()
        axes.plot([1, 4, 9])
        picture = io.BytesIO()
        figure.savefig(picture, format="png")
        plt.close(figure)
        png = base64.b64encode(picture.getvalue()).decode()
        return {**ipywidgets.IntSlider()._repr_mimebundle_(), "image/png": png, "text/plain": "tokens 9"}
"""


def write(path, *sources, **metadata):
    nb = new_notebook(cells=[new_markdown_cell("# é"), *map(new_code_cell, sources)], metadata=metadata)
    nbformat.write(nb, path)
    return path


def run(*arguments):
    command = [sys.executable, str(TOOLS / "notebooks.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A notebook that has been run and saved."""
    path = write(tmp_path_factory.mktemp("saved") / "faces.ipynb", THREE_FACES, "Faces()", "print('é')\n1 + 1")
    assert notebooks.save(path) == "saved"
    return path


@pytest.fixture
def nb(saved):
    return json.loads(saved.read_text(encoding="utf-8"))


# save


def test_saved_notebook_is_canonical_and_saving_again_changes_no_byte(saved):
    before = saved.read_bytes()
    assert notebooks.check(saved) == "canonical"
    assert notebooks.save(saved) == "unchanged"
    assert saved.read_bytes() == before


def test_saved_text_has_the_form_that_is_promised(saved, nb):
    text = saved.read_text(encoding="utf-8")
    assert text.startswith('{\n "cells": [\n  {\n') and text.endswith("}\n") and not text.endswith("\n\n")
    assert "é" in text and "\\u00e9" not in text
    assert nb["metadata"] == {"kernelspec": notebooks.KERNELSPEC, "language_info": notebooks.LANGUAGE_INFO}
    assert [cell["execution_count"] for cell in nb["cells"] if cell["cell_type"] == "code"] == [1, 2, 3]
    assert all(cell["metadata"] == {} for cell in nb["cells"])


def test_saved_output_keeps_picture_and_text_but_no_widget_view(nb):
    data = nb["cells"][2]["outputs"][0]["data"]
    assert set(data) == {"image/png", "text/plain"}
    assert data["text/plain"] == ["tokens 9"]


def test_save_runs_in_this_python_whatever_kernels_lie_about(tmp_path, monkeypatch):
    spec = tmp_path / "share" / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True)
    spec.write_text('{"argv": ["no-such-program"], "display_name": "other", "language": "python"}')
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share"))
    path = write(tmp_path / "who.ipynb", "import sys, os\nprint(sys.executable, os.environ['PYTHONHASHSEED'])")
    notebooks.save(path)
    output = notebooks.read(path)[0].cells[1].outputs[0]
    assert output.text == f"{sys.executable} 0\n"


@pytest.mark.parametrize(
    "source, message",
    [
        ("1 / 0", "cell 3 (last): ZeroDivisionError: division by zero"),
        ("import sys; print('careful', file=sys.stderr)", "cell 3 (last): output on stderr: careful"),
        ("import os; os._exit(1)", "cell 3 (last): the kernel died"),
    ],
)
def test_save_says_which_cell_went_wrong_and_leaves_the_file(tmp_path, source, message):
    path = tmp_path / "bad.ipynb"
    cells = [new_markdown_cell("text"), new_code_cell("a = 1"), new_code_cell(source, id="last")]
    nbformat.write(new_notebook(cells=cells), path)
    before = path.read_bytes()
    with pytest.raises(notebooks.NotebookProblem) as caught:
        notebooks.save(path)
    assert str(caught.value) == message
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_that_a_tag_allows_is_still_an_error(tmp_path):
    path = tmp_path / "tagged.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell("1 / 0", metadata={"tags": ["raises-exception"]})]), path)
    with pytest.raises(notebooks.NotebookProblem, match="ZeroDivisionError"):
        notebooks.save(path)


# check


def set_in(nb, *keys_and_value):
    *keys, last, value = keys_and_value
    for key in keys:
        nb = nb[key]
    nb[last] = value


@pytest.mark.parametrize(
    "change, message",
    [
        (("cells", 1, "execution_count", None), "cell 2 ({1}): has not been run"),
        (("cells", 2, "execution_count", 7), "cell 3 ({2}): execution count 7, expected 2"),
        (("cells", 2, "outputs", 0, "data", VIEW, {"model_id": "x"}), "cell 3 ({2}): a widget view"),
        (("cells", 3, "source", []), "cell 4 ({3}): empty code cell"),
        (("metadata", "widgets", {"state": {}}), "the metadata hold widget state"),
        (("metadata", "language_info", "version", "3.11.7"), "not in canonical form"),
        (("cells", 0, "metadata", "collapsed", True), "not in canonical form"),
        (("cells", 1, "metadata", "execution", {"iopub.status.busy": "now"}), "not in canonical form"),
        (("cells", 1, "id", "has blanks"), "not in canonical form"),
    ],
)
def test_check_says_what_is_wrong_and_where(tmp_path, nb, change, message):
    ids = [cell["id"] for cell in nb["cells"]]
    set_in(nb, *change)
    path = tmp_path / "changed.ipynb"
    path.write_text(json.dumps(nb, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
    with pytest.raises(notebooks.NotebookProblem) as caught:
        notebooks.check(path)
    assert message.format(*ids) in str(caught.value)


@pytest.mark.parametrize(
    "output, message",
    [
        (new_output("error", ename="KeyError", evalue="'k'", traceback=[]), "error output: KeyError: 'k'"),
        (new_output("stream", name="stderr", text="old warning"), "output on stderr: old warning"),
    ],
)
def test_check_refuses_error_outputs(tmp_path, nb, output, message):
    nb["cells"][1]["outputs"] = [output]
    path = tmp_path / "failed.ipynb"
    path.write_text(json.dumps(nb), encoding="utf-8")
    with pytest.raises(notebooks.NotebookProblem, match=message):
        notebooks.check(path)


@pytest.mark.parametrize("text", ["compact", "no newline", "two newlines", "windows"])
def test_check_wants_the_exact_text(tmp_path, saved, text):
    good = saved.read_text(encoding="utf-8")
    changed = {
        "compact": json.dumps(json.loads(good)),
        "no newline": good[:-1],
        "two newlines": good + "\n",
        "windows": good.replace("\n", "\r\n"),
    }[text]
    path = tmp_path / "form.ipynb"
    path.write_bytes(changed.encode())
    with pytest.raises(notebooks.NotebookProblem, match="not in canonical form"):
        notebooks.check(path)


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "not JSON"),
        (b"{", "not JSON: .*line 1 column 2"),
        (b"[" * 100_000, "not JSON"),
        (b'{"nbformat": ' + b"9" * 5_000 + b"}", "not JSON"),
        (b"\xff\xfe", "not a text file in UTF-8"),
        (b"[]", "not a notebook of format 4"),
        (b'{"nbformat": 3, "worksheets": []}', "not a notebook of format 4"),
        (b'{"nbformat": 4, "cells": [1]}', "not a notebook of format 4"),
        (b'{"nbformat": 4, "cells": [{"cell_type": 5}]}', "cell 1 has the cell_type 5; allowed are code, markdown, raw"),
        (b'{"nbformat": 4, "cells": [{"cell_type": "code"}]}', "not a valid notebook: .*required"),
    ],
)
@pytest.mark.parametrize("command", [notebooks.save, notebooks.check])
def test_a_file_that_is_no_notebook(tmp_path, command, content, message):
    path = tmp_path / "odd.ipynb"
    path.write_bytes(content)
    with pytest.raises(notebooks.NotebookProblem, match=message):
        command(path)


# the pure functions


def notebook_of_outputs(*outputs):
    return new_notebook(cells=[new_code_cell("x", outputs=list(outputs))], metadata={"widgets": {"state": {}}, "a": 1})


def test_tidy_forgets_the_version_of_python_and_nothing_else():
    kernel = {"name": "python", "version": "3.11.2", "codemirror_mode": {"name": "ipython", "version": 3}}
    nb = {"metadata": {"language_info": kernel, "toc": 1}, "cells": [{"metadata": {"slideshow": 2}, "source": "x"}]}
    tidied = notebooks.tidy(nb)
    assert tidied == nb | {"metadata": {"language_info": notebooks.LANGUAGE_INFO, "toc": 1}}
    assert notebooks.tidy({"metadata": {"language_info": {"name": "R", "version": "4"}}})["metadata"]["language_info"]["version"] == "4"
    assert notebooks.tidy({}) == {}


def test_strip_takes_views_and_state_and_nothing_else():
    with_png = new_output("display_data", {VIEW: {"model_id": "1"}, "image/png": "aGk=", "text/plain": "t"})
    view_only = new_output("display_data", {VIEW: {"model_id": "2"}})
    plain = new_output("stream", text="hello")
    nb = notebook_of_outputs(with_png, view_only, plain)
    before = copy.deepcopy(nb)
    stripped = notebooks.strip(nb)
    assert nb == before
    assert stripped["metadata"] == {"a": 1}
    assert [dict(o.get("data", {})) for o in stripped["cells"][0]["outputs"]] == [
        {"image/png": "aGk=", "text/plain": "t"},
        {VIEW: {"model_id": "2"}},
        {},
    ]
    assert notebooks.strip(stripped) == stripped
    assert notebooks.strip({}) == {}


def test_canonical_is_idempotent_and_keeps_tags_and_folded_sources():
    nb = new_notebook(cells=[new_code_cell("x")])
    metadata = {"tags": ["panel"], "jupyter": {"source_hidden": True, "outputs_hidden": False}, "scrolled": 1}
    nb["cells"][0]["metadata"] = metadata
    once = notebooks.canonical(nb)
    assert once["cells"][0]["metadata"] == {"tags": ["panel"], "jupyter": {"source_hidden": True}}
    assert notebooks.canonical(once) == once


def test_cell_ids_stay_where_they_can_and_are_unique():
    cells = [{"id": "a"}, {}, {"id": "a"}, {"id": "no good"}, {"id": "cell-02"}, {"id": 5}]
    ids = notebooks.cell_ids(cells)
    assert ids == ["a", "cell-02x", "cell-03", "cell-04", "cell-02", "cell-06"]
    assert notebooks.cell_ids([{"id": i} for i in ids]) == ids


# the command line


def test_command_line_names(tmp_path, saved, monkeypatch, capsys):
    for name in ("01_cost", "02_cache"):
        (tmp_path / f"{name}.ipynb").write_bytes(saved.read_bytes())
    monkeypatch.setattr(notebooks, "NOTEBOOKS", tmp_path)
    assert [p.stem for p in notebooks.find([])] == ["01_cost", "02_cache"]
    assert [p.stem for p in notebooks.find(["02", "01_cost", "01_cost.ipynb"])] == ["02_cache", "01_cost", "01_cost"]
    assert notebooks.find([str(saved)]) == [saved]
    for name, message in [
        ("0", "'0' means more than one notebook: 01_cost, 02_cache"),
        ("01_cots", "no notebook '01_cots'; did you mean 01_cost?"),
        ("zzz", "no notebook 'zzz'; there are: 01_cost, 02_cache"),
    ]:
        assert notebooks.main(["check", name]) == 2
        assert message in capsys.readouterr().err
    assert notebooks.main(["check"]) == 0
    (tmp_path / "01_cost.ipynb").write_text("{")
    assert notebooks.main(["check"]) == 1
    out, err = capsys.readouterr()
    assert "02_cache.ipynb: canonical" in out and "01_cost.ipynb: not JSON" in err


def test_command_line_as_a_program(tmp_path, saved):
    good = run("check", saved)
    assert (good.returncode, good.stdout, good.stderr) == (0, "faces.ipynb: canonical\n", "")
    bad = run("save", write(tmp_path / "raises.ipynb", "undefined"))
    assert bad.returncode == 1 and "NameError: name 'undefined' is not defined" in bad.stderr
    assert "Traceback" not in bad.stderr
    assert run("polish").returncode == 2


# the configuration of JupyterLab


def test_lab_configuration_tidies_on_save():
    from traitlets.config import PyFileConfigLoader

    config = PyFileConfigLoader("jupyter_lab_config.py", str(TOOLS / "jupyter")).load_config()
    hook = config.ContentsManager.pre_save_hook
    view = new_output("display_data", {VIEW: {"model_id": "1"}, "image/png": "aGk="})
    model = {"type": "notebook", "content": notebook_of_outputs(view)}
    hook(model=model, path="x.ipynb", contents_manager=None)
    assert model["content"] == notebooks.strip(notebook_of_outputs(view)) | {"cells": model["content"]["cells"]}
    assert dict(model["content"]["cells"][0]["outputs"][0]["data"]) == {"image/png": "aGk="}
    text = {"type": "file", "content": "words"}
    hook(model=text, path="x.txt", contents_manager=None)
    assert text == {"type": "file", "content": "words"}
    assert config.ServerApp.allow_root is True
