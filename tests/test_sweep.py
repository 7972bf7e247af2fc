"""Sweeps: the same table by a plain loop, on processes, on Dask and from disk; what a crash leaves; bad input."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from threadpoolctl import threadpool_limits

from labkit.cartridge_live import train_live
from labkit.sweep import sweep

GRID = {"size": [3, 20_000], "scale": [1e-300, 0.1, np.float64(1e150)]}


@dataclass(frozen=True)
class Settings:
    size: int = 2
    name: str = "plain"


@dataclass
class Loose:
    size: int = 2


@dataclass
class Outcome:
    share: float
    steps: int
    curve: np.ndarray


# Simulations stand at the top of a module, so that other processes can import them.


def study(size, scale, seed):
    """A table whose last bits depend on how many threads sum."""
    vectors = np.random.default_rng(seed).standard_normal((3, size)) * scale
    products = [vector @ vectors[0] for vector in vectors]
    return pd.DataFrame({"product": products, "least": vectors.min(axis=1), "row": np.arange(3), "kind": ["a", "b", None]})


def counted(size, folder, seed):
    """Leave a line for each run."""
    note(folder, size, seed)
    return size + seed / 10


def note(folder, size, seed):
    with open(Path(folder, "runs.txt"), "a") as file:  # one short write at the end of a file is not torn
        file.write(f"{size} {seed}\n")


def runs(folder):
    """How many times each job ran to its end."""
    path = Path(folder, "runs.txt")
    return Counter(path.read_text().splitlines()) if path.exists() else Counter()


def once(sizes, seeds):
    return Counter(f"{size} {seed}" for size in sizes for seed in seeds)


def fails(size, folder, seed):
    if (size, seed) == (2, 1) and Path(folder, "broken").exists():
        raise KeyError("no such memory")
    return counted(size, folder, seed)


def interrupted(size, folder, seed):
    if (size, seed) == (2, 1) and Path(folder, "broken").exists():
        raise KeyboardInterrupt
    return counted(size, folder, seed)


def dies(size, folder, seed):
    """Kill the own process at one job, the first time that job starts."""
    time.sleep(0.03)
    if (size, seed) == (2, 1):
        try:
            Path(folder, "killed").touch(exist_ok=False)
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    return counted(size, folder, seed)


def slow(size, folder, seed):
    time.sleep(0.5)
    return counted(size, folder, seed)


def trained(size, seed):
    for training in train_live(size, steps=8, seed=seed):
        yield {"accuracy": training.accuracy, "step": training.step}


def twin(simulate, grid, seeds):
    """The table by two plain loops."""
    tables = []
    for values in itertools.product(*grid.values()):
        setting = dict(zip(grid, values))
        for seed in seeds:
            tables.append(simulate(**setting, seed=seed).assign(**setting, seed=seed))
    table = pd.concat(tables, ignore_index=True)
    return table[[*grid, "seed", *table.columns.drop([*grid, "seed"])]]


def same_bits(left, right):
    assert_frame_equal(left, right, check_exact=True)
    for name in left.select_dtypes("float"):
        assert left[name].to_numpy().tobytes() == right[name].to_numpy().tobytes()


# -- the table


def test_is_what_two_loops_give():
    with threadpool_limits(2):
        table = sweep(study, GRID, range(3))
    with threadpool_limits(1):
        same_bits(table, twin(study, GRID, range(3)))


def test_has_the_same_bits_on_one_core_on_two_and_from_disk(tmp_path):
    table = sweep(study, GRID, range(3))
    same_bits(table, sweep(study, GRID, range(3), workers=2, cache=tmp_path / "two"))
    same_bits(table, sweep(study, GRID, range(3), cache=tmp_path / "two"))


def test_all_cores_of_a_machine_that_has_one(monkeypatch):
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    same_bits(sweep(study, GRID), sweep(study, GRID, workers=-1))


def test_simulations_of_other_notebook_cells_run_on_processes_too():
    """A function of __main__ goes to the workers by value."""
    program = "from labkit.sweep import sweep\ndef f(size, seed): return size + seed\n" \
              "print(sweep(f, {'size': [1, 2]}, range(2), workers=2)['value'].tolist())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout == "[1, 2, 2, 3]\n" and done.stderr == ""


@pytest.mark.parametrize("grid, seeds, rows", [
    ({}, range(2), [{"seed": 0}, {"seed": 1}]), ({"a": []}, range(2), []), ([], range(2), []), ({"a": [1]}, [], []), ([{}], [7], [{"seed": 7}]),
    ({"a": [1], "b": ["x"]}, [5], [{"a": 1, "b": "x", "seed": 5}]),
    ({"a": [2, 1], "b": [True, None]}, [1], [{"a": a, "b": b, "seed": 1} for a in (2, 1) for b in (True, None)]),
    ([{"a": 1, "b": 2}, {"b": 1, "a": 2}], [0], [{"a": 1, "b": 2, "seed": 0}, {"a": 2, "b": 1, "seed": 0}]),
])
def test_grids_of_none_one_and_many(grid, seeds, rows):
    table = sweep(lambda seed, **setting: 1.5, grid, seeds)
    names = list(grid) if isinstance(grid, dict) else list(grid[0]) if grid else []
    assert list(table) == [*names, "seed", *(["value"] if rows else [])]
    assert table[[*names, "seed"]].astype(object).to_dict("records") == rows


def test_settings_arrive_as_they_are():
    values = [(1, 2), [1, 2], {"x": None}, Settings(3), "text", 1, True, 1.0]
    table = sweep(shown, {"setting": values})
    assert table["value"].tolist() == [repr(value) for value in values]
    assert table["setting"].tolist() == values
    assert sweep(lambda size, seed: type(size).__name__, {"size": np.arange(2)}, np.arange(2))["value"].tolist() == ["int"] * 4


@pytest.mark.parametrize("result, row", [
    (3, {"value": 3}), (np.float32(0.1), {"value": float(np.float32(0.1))}), (np.array(2), {"value": 2}), ("text", {"value": "text"}),
    (True, {"value": True}), (-0.0, {"value": -0.0}), (np.inf, {"value": np.inf}), (2**63, {"value": 2**63}), ({"a": 1, "b": "x"}, {"a": 1, "b": "x"}),
    (pd.Series({"a": 0.1, "b": 2.0}), {"a": 0.1, "b": 2.0}), (Outcome(0.5, 3, np.zeros(2)), {"share": 0.5, "steps": 3}),
    (pd.DataFrame({"a": [1]}, index=["x"]), {"index": "x", "a": 1}), (pd.DataFrame({"a": [1]}, pd.Index([4], name="step")), {"step": 4, "a": 1}),
    (pd.DataFrame({"a": [1]}, index=[9]), {"a": 1}), (iter([1, 2, 3]), {"value": 3}),
])
def test_results_become_rows(result, row):
    table = sweep(lambda seed: result, {}, [0])
    assert table.drop(columns="seed").to_dict("records") == [row]


def test_fields_may_differ_and_tables_may_be_empty():
    table = sweep(lambda seed: {"a": seed} if seed else {"b": 0.5}, {}, range(2))
    assert_frame_equal(table, pd.DataFrame({"seed": [0, 1], "b": [0.5, np.nan], "a": [np.nan, 1.0]}))
    assert sweep(lambda seed: pd.DataFrame({"a": [seed] * seed}), {}, range(3))["seed"].tolist() == [1, 2, 2]


def test_a_training_counts_with_its_last_result():
    table = sweep(trained, {"size": [8, 16]}, range(2))
    assert table["step"].tolist() == [8] * 4
    assert table["accuracy"].tolist() == [list(train_live(size, steps=8, seed=seed))[-1].accuracy for size in (8, 16) for seed in (0, 1)]


@hypothesis_settings(deadline=None)  # writes files
@given(st.lists(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()), min_size=1))
def test_cells_come_back_from_disk_as_they_were(tmp_path_factory, cells):
    folder = tmp_path_factory.mktemp("cells")
    global told
    told = cells
    first = sweep(tell, {"cells": [cells]}, cache=folder)
    told = None  # what is not asked for again cannot be told
    second = sweep(tell, {"cells": [cells]}, cache=folder)
    assert first.equals(second)
    assert [json.loads(path.read_text())["result"]["cell"] for path in folder.iterdir()] == [cells]
    assert first["cell"].equals(pd.Series(cells))


def tell(cells, seed):
    return pd.DataFrame({"cell": pd.Series(told, dtype=object)})


# -- the cache


@pytest.mark.parametrize("workers", [1, 2])
def test_a_second_run_runs_nothing_and_more_seeds_only_the_new_ones(tmp_path, workers):
    grid = {"size": [1, 2], "folder": [str(tmp_path)]}
    first = sweep(counted, grid, range(3), cache=tmp_path / "cache", workers=workers)
    second = sweep(counted, grid, range(3), cache=str(tmp_path / "cache"))
    same_bits(first, second)
    assert runs(tmp_path) == once([1, 2], range(3))
    sweep(counted, {"folder": [str(tmp_path)], "size": [1, 3]}, range(4), cache=tmp_path / "cache")
    assert runs(tmp_path) == once([1, 2], range(3)) + once([1], [3]) + once([3], range(4))


def test_what_differs_is_kept_apart(tmp_path):
    values = [1, 1.0, True, None, "1", (1,), [1], {"1": 1}, Settings(), Settings(3), [["dict", 1]], -0.0, 0.0, 0]
    for _ in range(2):
        table = sweep(shown, {"setting": values}, cache=tmp_path)
        assert table["value"].tolist() == [repr(value) for value in values]
    assert len(list(tmp_path.iterdir())) == len(values)


def shown(setting, seed):
    return repr(setting)


def test_another_source_is_another_job(tmp_path):
    ran = []
    for number, body in enumerate(("size + seed", "size - seed", "size * 10", "size + seed")):
        path = tmp_path / f"{number}.py"
        path.write_text(f"def f(size, seed):\n    ran.append(size)\n    return {body}\n")
        space = {"__name__": "program", "ran": ran}
        exec(compile(path.read_text(), path, "exec"), space)
        table = sweep(space["f"], {"size": [1]}, cache=tmp_path / "cache")
        assert table["value"].tolist() == [10 if "10" in body else 1]
    assert len(ran) == 3  # the last body is the first again


def test_another_version_of_labkit_is_another_job(tmp_path, monkeypatch):
    grid = {"size": [1], "folder": [str(tmp_path)]}
    sweep(counted, grid, cache=tmp_path / "cache")
    monkeypatch.setattr("labkit.sweep_jobs._labkit_code", lambda: "another")
    sweep(counted, grid, cache=tmp_path / "cache")
    assert runs(tmp_path) == {"1 0": 2}


DAMAGE = {
    "empty": lambda text: "", "cut": lambda text: text[:-9], "another number": lambda text: text.replace("1.1", "1.2"), "a list": lambda text: "[1]",
    "no result": lambda text: '{"sha256": ""}', "nesting": lambda text: "[" * 100_000, "bytes": lambda text: text.encode() + b"\xff",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_computed_again(tmp_path, damage):
    grid, cache = {"size": [1], "folder": [str(tmp_path)]}, tmp_path / "cache"
    table = sweep(counted, grid, range(3), cache=cache)
    path = next(path for path in cache.iterdir() if "1.1" in path.read_text())
    broken = DAMAGE[damage](path.read_text())
    path.write_bytes(broken if isinstance(broken, bytes) else broken.encode())
    with pytest.warns(UserWarning, match=f"{path.name} is damaged"):
        same_bits(table, sweep(counted, grid, range(3), cache=cache))
    same_bits(table, sweep(counted, grid, range(3), cache=cache))
    assert runs(tmp_path) == once([1], range(3)) + once([1], [1])


def test_a_file_under_the_name_of_another_counts_as_damaged(tmp_path):
    grid, cache = {"size": [1, 2], "folder": [str(tmp_path)]}, tmp_path / "cache"
    table = sweep(counted, grid, cache=cache)
    one, other = cache.iterdir()
    one.write_bytes(other.read_bytes())
    with pytest.warns(UserWarning, match="damaged"):
        same_bits(table, sweep(counted, grid, cache=cache))


# -- interruptions: what was done is kept, what was not done is done once


@pytest.mark.parametrize("workers", [1, 2])
def test_goes_on_after_an_exception(tmp_path, workers):
    grid, cache = {"size": [1, 2, 3], "folder": [str(tmp_path)]}, tmp_path / "cache"
    (tmp_path / "broken").touch()
    with pytest.raises(RuntimeError, match=r"fails\(size=2, folder='.*', seed=1\) raised KeyError: 'no such memory'") as caught:
        sweep(fails, grid, range(3), cache=cache, workers=workers)
    if workers == 1:
        assert runs(tmp_path) == once([1], range(3)) + once([2], [0])
        assert caught.value.__notes__ == [f"4 of 9 jobs are kept in {cache}; the same call goes on from there"]
    (tmp_path / "broken").unlink()
    table = sweep(fails, grid, range(3), cache=cache, workers=workers)
    assert runs(tmp_path) == once([1, 2, 3], range(3))
    assert table["value"].tolist() == [size + seed / 10 for size in (1, 2, 3) for seed in range(3)]


def test_goes_on_after_ctrl_c(tmp_path):
    grid, cache = {"size": [1, 2, 3], "folder": [str(tmp_path)]}, tmp_path / "cache"
    (tmp_path / "broken").touch()
    with pytest.raises(KeyboardInterrupt):
        sweep(interrupted, grid, range(3), cache=cache)
    assert runs(tmp_path) == once([1], range(3)) + once([2], [0])
    (tmp_path / "broken").unlink()
    sweep(interrupted, grid, range(3), cache=cache)
    assert runs(tmp_path) == once([1, 2, 3], range(3))


PROGRAM = """
import sys
sys.path.insert(0, {tests!r})
import labkit.sweep
from test_sweep import dies, slow
labkit.sweep_jobs._labkit_code = lambda: "unchanged"  # though somebody may edit labkit while the tests run
print(labkit.sweep.sweep({simulate}, {grid}, range({seeds}), cache={cache!r}, workers={workers})["value"].tolist())
"""


def command(**parts):
    return [sys.executable, "-c", PROGRAM.format(tests=str(Path(__file__).parent), **parts)]


def test_goes_on_after_the_program_was_killed(tmp_path):
    grid = {"size": [1, 2, 3], "folder": [str(tmp_path)]}
    run = partial(subprocess.run, command(simulate="dies", grid=grid, seeds=4, cache=str(tmp_path / "cache"), workers=1),
                  capture_output=True, text=True, timeout=120)
    assert run().returncode == -signal.SIGKILL
    assert runs(tmp_path) == once([1], range(4)) + once([2], [0])
    assert run().stdout == f"{[size + seed / 10 for size in (1, 2, 3) for seed in range(4)]}\n"
    assert runs(tmp_path) == once([1, 2, 3], range(4))


def test_goes_on_after_one_of_two_processes_was_killed(tmp_path):
    grid, cache = {"size": [1, 2, 3], "folder": [str(tmp_path)]}, tmp_path / "cache"
    with pytest.raises(Exception, match="worker process") as caught:
        sweep(dies, grid, range(4), cache=cache, workers=2)
    assert "jobs are kept" in caught.value.__notes__[-1]
    assert 4 <= runs(tmp_path).total() < 12
    sweep(dies, grid, range(4), cache=cache, workers=2)
    assert runs(tmp_path) == once([1, 2, 3], range(4))


def test_processes_that_outlive_a_killed_program_do_not_make_jobs_run_twice(tmp_path, monkeypatch):
    """The notebook's kernel is killed, and the same call made again while its processes still end their last jobs."""
    grid, cache = {"size": [1, 2, 3], "folder": [str(tmp_path)]}, tmp_path / "cache"
    monkeypatch.setattr("labkit.sweep_jobs._labkit_code", lambda: "unchanged")
    first = subprocess.Popen(command(simulate="slow", grid=grid, seeds=2, cache=str(cache), workers=2),
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        while not runs(tmp_path):
            assert first.poll() is None
            time.sleep(0.01)
        time.sleep(0.1)
        first.kill()
        first.wait()
        assert runs(tmp_path).total() < 6
        sweep(slow, grid, range(2), cache=cache)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(first.pid, signal.SIGKILL)  # its idle processes
    assert runs(tmp_path) == once([1, 2, 3], range(2))
    assert len(list(cache.glob("*.json"))) == 6


@pytest.mark.slow
def test_on_a_dask_cluster_that_loses_a_worker(tmp_path):
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'labkit[cluster]'")
    grid = {"size": [1, 2, 3, 4], "folder": [str(tmp_path)]}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster, \
            distributed.Client(cluster) as client:
        same_bits(sweep(study, GRID, range(3)), sweep(study, GRID, range(3), workers="dask"))
        before = set(client.run(os.getpid).values())
        table = sweep(dies, grid, range(6), cache=tmp_path / "cache", workers=client)
        client.wait_for_workers(2)
        after = set(client.run(os.getpid).values())
        assert len(before & after) == 1 and len(after) == 2  # one was killed and replaced
        assert runs(tmp_path) == once([1, 2, 3, 4], range(6))
        with pytest.raises(RuntimeError, match=r"broken\(size=1, seed=0\) raised ZeroDivisionError"):
            sweep(broken, {"size": [1]}, workers=client)
    same_bits(table, sweep(dies, grid, range(6), cache=tmp_path / "cache"))
    assert runs(tmp_path) == once([1, 2, 3, 4], range(6))
    with pytest.raises(ValueError, match="there is no cluster"):
        sweep(study, GRID, workers="dask")


def test_without_dask_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'labkit\[cluster\]'"):
        sweep(broken, {"size": [1]}, workers="dask")


def broken(size, seed):
    return size / 0


# -- bad input


class Memory:
    def recall(self, size, seed):
        return size


def closure():
    hidden = 3

    def inner(size, seed):
        return hidden
    return inner


@pytest.mark.parametrize("grid, says", [
    ({"size": "abc"}, "grid\\['size'\\] must be a list"), ({"size": 3}, "grid\\['size'\\]"), ({"size": {"a": 1}}, "grid\\['size'\\]"), ("size", "grid must be"),
    (None, "grid must be"), ([1], "grid must be"), ({"seed": [1]}, "'seed'"), ({1: [1]}, "1 cannot name"), ({"size": [1, 1]}, "twice"),
    ([{"size": 1}, {"width": 1}], r"grid\[1\]"), ({"size": [object()]}, "grid\\['size'\\] is of type object"), ({"size": [np.zeros(2)]}, "ndarray"),
    ({"size": [Loose()]}, "grid\\['size'\\] is of type Loose"), ({"size": [Settings(name=np.zeros(2))]}, "grid\\['size'\\].name is of type ndarray"),
    ({"size": [[1, {2}]]}, r"grid\['size'\]\[1\] is of type set"), ({"size": [{1: 2}]}, "of type dict"), ({"size": [1j]}, "complex"), ({"width": [1]}, "cannot be called"),
    ({"size": [1], "width": [1]}, "cannot be called"), ({}, "cannot be called"), ({"size": [Settings]}, "of type type"),
])
def test_impossible_grids(grid, says):
    with pytest.raises(ValueError, match=says):
        sweep(broken, grid)


@pytest.mark.parametrize("arguments, says", [
    ({"seeds": 3}, "seeds must be a list"), ({"seeds": [0, 0]}, "twice"), ({"seeds": [1.0]}, "whole numbers"), ({"seeds": [True]}, "whole numbers"),
    ({"seeds": [-1]}, "at least 0"), ({"seeds": "12"}, "seeds"), ({"workers": 0}, "workers"), ({"workers": True}, "workers"), ({"workers": "all"}, "workers"),
    ({"workers": -2}, "workers"), ({"workers": None}, "workers"), ({"progress": "yes"}, "progress"), ({"cache": __file__}, "cache must be a folder"),
])
def test_impossible_arguments(arguments, says):
    with pytest.raises(ValueError, match=says):
        sweep(shown, {"setting": [1]}, **arguments)


@pytest.mark.parametrize("simulate", [lambda size, seed: 1, closure(), partial(broken), Memory().recall])
def test_what_has_no_name_and_source_of_its_own_is_not_cached(tmp_path, simulate):
    with pytest.raises(ValueError, match="cache needs a function"):
        sweep(simulate, {"size": [1]}, cache=tmp_path)
    with pytest.raises(ValueError, match="callable"):
        sweep("broken", {"size": [1]})


def test_without_a_source_nothing_is_cached(tmp_path):
    space = {"__name__": "nowhere"}
    exec("def f(size, seed): return 1", space)
    with pytest.raises(ValueError, match="does not find it"):
        sweep(space["f"], {"size": [1]}, cache=tmp_path)


@pytest.mark.parametrize("result, says", [
    ([1], "'value' holds a list"), (1j, "complex"), ({}, "dict without"), ({"a": np.zeros(2)}, "'a' holds a ndarray"), ({"seed": 1}, "'seed' cannot name"),
    ({"size": 1}, "'size' cannot"), ({1: 1}, "1 cannot name"), (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two fields"), (iter([]), "iterator"),
    (pd.DataFrame({"when": [pd.Timestamp(0)]}), "'when' holds a Timestamp"), (Outcome(np.zeros(1), None, None), None), (pd.Series([1, 2], ["a", "a"]), "two fields"),
])
def test_results_that_make_no_rows(result, says):
    if says is None:
        assert sweep(lambda size, seed: result, {"size": [1]})["steps"].isna().all()
    else:
        with pytest.raises(ValueError, match=rf"\(size=1, seed=0\) returned what makes no rows: .*{says}"):
            sweep(lambda size, seed: result, {"size": [1]})


# -- the bar


def test_the_bar_is_drawn_when_asked_or_in_a_terminal(capsys, monkeypatch, tmp_path):
    grid = {"setting": [1, 2]}
    sweep(shown, grid, cache=tmp_path)
    assert capsys.readouterr() == ("", "")
    sweep(shown, grid, range(2), cache=tmp_path, progress=True)
    assert "4/4" in capsys.readouterr().err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    sweep(shown, grid, progress=False)
    assert capsys.readouterr() == ("", "")
    sweep(shown, grid)
    out, err = capsys.readouterr()
    assert "2/2" in err and out == ""
    monkeypatch.setattr(sys, "stderr", None)
    sweep(shown, grid)
