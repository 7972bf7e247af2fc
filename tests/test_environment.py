"""Set-up: environment.yml and the constraints agree with pyproject.toml, and an installed wheel finds its data."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path

import browser as chromium
import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_in_ci_the_browser_tests_are_not_skipped():
    if os.environ.get("LABKIT_REQUIRE_BROWSER"):
        assert chromium.why_not() is None


def names(requirements):
    return {re.match(r"[A-Za-z0-9._-]+", line)[0].lower().replace("_", "-") for line in requirements if line.strip()}


def test_environment_yml_installs_the_package_itself():
    text = (ROOT / "environment.yml").read_text()
    assert f"python{PROJECT['requires-python']}" in text and "-e ." in text


def test_every_dependency_is_pinned():
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines())
    extras = PROJECT["optional-dependencies"]
    wanted = [line for line in PROJECT["dependencies"] + extras["test"] + extras["cluster"] + extras["class"] if not line.startswith("labkit[")]
    assert names(wanted) <= {name.lower().replace("_", "-") for name in pinned}
    assert all(re.search(r">=\d", line) and "==" not in line for line in wanted), "lower bounds only; exact pins stand in constraints.txt"


def test_the_pins_are_what_is_tested():
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines())
    assert version("jupyterlab") == pinned["jupyterlab"] and version("numpy") == pinned["numpy"]


def test_a_wheel_holds_modules_pages_and_data(tmp_path):
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", tmp_path, ROOT], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
        archive.extractall(tmp_path / "site")
    assert {f"labkit/data/{path.name}" for path in (ROOT / "data").iterdir()} <= inside
    assert {"labkit/keys.js", "labkit/screen.js", "labkit/screen.css", "labkit/quiz.css"} <= inside
    code = "from labkit import kv_cost, exercises; print(kv_cost.Model.load('Llama-3-8B').kv_bytes_per_token(), len(exercises.ids()) > 0)"
    out = subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "site", env={"PYTHONPATH": str(tmp_path / "site")}, capture_output=True, text=True)
    assert out.stdout.split() == ["131072", "True"], out.stderr


@pytest.mark.skipif(shutil.which("git") is None or not (ROOT / ".git").exists(), reason="no clone, or no git to ask what belongs to it")
def test_nothing_of_this_machine_in_the_product():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    for name in tracked:
        if name.endswith((".py", ".md", ".ipynb", ".toml", ".csv", ".js", ".css", ".yml", ".txt", "Makefile", "run")):
            text = (ROOT / name).read_text(encoding="utf-8")
            for word in ("/work/", "/.library", "../shared", "/root/", "pypi-more"):
                assert word not in text or name == "tests/test_environment.py", f"{name} names {word}"


def test_house_rule_simulations_do_not_draw():
    drawing = {"panel.py", "panel_page.py", "controls.py", "quiz.py"}
    for path in (ROOT / "labkit").glob("*.py"):
        if path.name not in drawing:
            assert not re.search(r"^\s*(import|from) (matplotlib|ipywidgets|anywidget)", path.read_text(), re.M), path.name
