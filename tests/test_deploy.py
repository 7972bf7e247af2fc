"""The files for a class: they load, hand out notebooks without touching a student's work, and name what exists."""

import importlib.util
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
from traitlets.config import Config

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}


def load(name):
    """Run a configuration file as its program does: what it defines, and what it configured."""
    config = Config()
    return runpy.run_path(str(ROOT / "deploy" / name), {"get_config": lambda: config}), config


@pytest.fixture
def hub(tmp_path, monkeypatch):
    monkeypatch.setenv("CLASS_PASSWORD", "long enough")
    monkeypatch.setenv("CLASS_FOLDER", str(tmp_path))
    return load("jupyterhub_config.py")


def test_a_student_gets_each_notebook_once(hub, tmp_path):
    ada = SimpleNamespace(user=SimpleNamespace(name="ada"))
    hub[1].Spawner.pre_spawn_hook(ada)
    folder = tmp_path / "ada" / "notebooks"
    assert {path.name for path in folder.iterdir()} == NOTEBOOKS
    changed, lost = sorted(NOTEBOOKS)[:2]
    (folder / changed).write_text("my work")
    (folder / lost).unlink()
    hub[1].Spawner.pre_spawn_hook(ada)
    assert (folder / changed).read_text() == "my work" and (folder / lost).exists()


def test_the_hub_needs_a_password_and_limits_memory(hub, monkeypatch):
    assert f"--data={hub[0]['LIMIT']}" in hub[1].Spawner.cmd
    (config,) = [arg.partition("=")[2] for arg in hub[1].Spawner.args if arg.startswith("--config=")]
    assert Path(config).is_file() and Path(hub[1].Spawner.default_url).name in NOTEBOOKS
    monkeypatch.delenv("CLASS_PASSWORD")
    with pytest.raises(KeyError, match="CLASS_PASSWORD"):
        load("jupyterhub_config.py")


def test_voila_takes_style_sheets_from_its_own_server_only():
    policy = load("voila.py")[1].Voila.tornado_settings["headers"]["Content-Security-Policy"]
    assert "style-src 'self'" in policy and "http" not in policy


def test_binder_installs_the_pinned_versions():
    lines = (ROOT / ".binder" / "requirements.txt").read_text().splitlines()
    (constraints,) = [line.split()[1] for line in lines if line.startswith("-c ")]
    assert (ROOT / ".binder" / constraints).resolve() == ROOT / "constraints.txt" and "-e ." in lines


def test_how_many_students_a_machine_holds():
    spec = importlib.util.spec_from_file_location("students", ROOT / "benchmarks" / "students.py")
    students = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(students)
    cost = {"own, all moved MB": 400, "a move, CPU ms": 93, "run all, CPU s": 3.0}
    line = students.machine_line(2, 8, [cost, {**cost, "own, all moved MB": 200}], {"own MB": 100, "server, CPU ms a move": 7})
    assert line["students, 1 open"] == 14  # 7 GB / (400 + 100 MB)
    assert line["students, 3 open"] == 10  # both notebooks: 7 GB / (400 + 200 + 100 MB)
    assert line["dearest notebook"] == line["a move a second each, median notebook"] == 14  # 0.7 * 2 s / 100 ms
    assert line["10 run all at once: wait s"] == 15
