"""Any simulation over a grid of settings and seeds, as one tidy table: error bars, finer curves, long studies.

    rows = settings x seeds x rows of a result

On one core, on all of them or on a cluster the table is the same to the bit: every job has its own seed and one BLAS
thread, and its result goes through the same text, whether it was just computed or lay on disk.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import fields, is_dataclass
from inspect import isclass
from itertools import product
from numbers import Integral

import joblib
import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from labkit.sweep_cells import CELL
from labkit.sweep_jobs import jobs_of, task

__all__ = ["sweep"]


def sweep(simulate, grid, seeds=range(1), *, cache=None, workers=1, progress="auto"):
    """Run simulate(**setting, seed=seed) for each setting of a grid and each seed.

    Parameters
    ----------
    simulate : callable
        Its result becomes rows. One number or text: a row with the field value. A dict or Series: a row. A dataclass: a
        row of those of its fields that hold one number or text. A DataFrame: its rows, with its index unless that only
        numbers them. A generator of partial results, as a training is: its last.
    grid : dict of str to list, or list of dicts
        All combinations of the listed values, the first name varying slowest; or the settings one by one, each with the
        same names. A value is None, a bool, number or text, a list, tuple or dict of such, or a frozen dataclass of such.
    seeds : iterable of int
    cache : path, optional
        Folder that keeps every result. A call runs only the jobs that are not there, so after an exception, Ctrl-C or a
        killed process the same call goes on where it stopped, and two calls at once share the work. A job is known by the name and source of `simulate`, by the
        version and source of labkit, by its setting and seed. Other code and data that `simulate` uses are not
        watched: after changing them take a new folder.
    workers : int, "dask" or dask.distributed.Client
        Processes on this machine, -1 for one a core; or the workers of a Dask cluster, "dask" for that of the newest
        Client (pip install 'labkit[cluster]'). The jobs of a Dask worker that dies go to another.
    progress : "auto" or bool
        A bar on stderr. "auto" draws it in a terminal only, so that a saved notebook stays clean.

    Returns
    -------
    DataFrame
        Columns: the names of the grid, seed, the fields of the results (empty where a result lacks one). Rows in the order
        of the settings, the seeds and the result, whichever job finished first.

    Raises
    ------
    ValueError
        For an impossible argument, naming it, and for a result that makes no rows.
    RuntimeError
        When a job raises, naming its setting and seed. The jobs that are done stay in the cache.
    ImportError
        When Dask is asked for and missing.

    Examples
    --------
    >>> def half(size, seed):
    ...     return size / 2 + seed
    >>> table = sweep(half, {"size": [1, 2]}, seeds=range(2))
    >>> table
       size  seed  value
    0     1     0    0.5
    1     1     1    1.5
    2     2     0    1.0
    3     2     1    2.0
    >>> table.groupby("size")["value"].sem().to_dict()
    {1: 0.5, 2: 0.5}
    """
    if progress not in ("auto", True, False):
        raise ValueError(f"progress must be 'auto', True or False, not {progress!r}")
    engine, names = _engine(workers), _names(grid)
    jobs = jobs_of(simulate, _settings(grid, names), _seeds(seeds), cache)
    results = [job.load() for job in jobs]
    missing = [number for number, result in enumerate(results) if result is None]
    tasks = (joblib.delayed(task)(number, jobs[number]) for number in missing)
    try:
        with threadpool_limits(1), joblib.parallel_config(**engine):
            with closing(joblib.Parallel(return_as="generator_unordered")(tasks)) as finished:
                for number, results[number] in _with_bar(finished, progress, len(jobs), len(missing)):
                    jobs[number].store(results[number])  # once more, for workers that do not see our disk
    except BaseException as error:
        if cache is not None:
            error.add_note(f"{sum(job.path.exists() for job in jobs)} of {len(jobs)} jobs are kept in {cache}; the same call goes on from there")
        raise
    return _table(names, jobs, [json.loads(result) for result in results])


def _with_bar(finished, progress, total, missing):
    shown = progress if progress != "auto" else sys.stderr is not None and sys.stderr.isatty()
    return tqdm(finished, total=total, initial=total - missing, unit="job") if shown else finished


def _table(names, jobs, results):
    columns = {name: [] for name in (*names, "seed", *dict.fromkeys(field for result in results for field in result))}
    for job, result in zip(jobs, results):
        rows = len(next(iter(result.values()), []))
        cells = {name: [value] * rows for name, value in {**job.setting, "seed": job.seed}.items()} | result
        for name, column in columns.items():
            column.extend(cells.get(name, [None] * rows))
    return pd.DataFrame(columns)


# -- arguments


def _names(grid):
    """Names of the settings."""
    dicts = [grid] if isinstance(grid, Mapping) else grid
    if not isinstance(dicts, (list, tuple)) or not all(isinstance(each, Mapping) for each in dicts):
        raise ValueError(f"grid must be a dict of lists or a list of dicts, not {grid!r:.100}")
    names = list(dicts[0]) if dicts else []
    for number, each in enumerate(dicts):
        if set(each) != set(names):
            raise ValueError(f"grid[{number}] has the names {list(each)}, the first has {names}: each dict must have the same")
    for name in names:
        if not isinstance(name, str) or name == "seed":
            raise ValueError(f"grid: {name!r} cannot name a setting; allowed is any text but 'seed', which has its own argument")
    return names


def _settings(grid, names):
    """Settings by their identity, a text."""
    if isinstance(grid, Mapping):
        combinations = product(*(_listed(f"grid[{name!r}]", values) for name, values in grid.items()))
    else:
        combinations = ([setting[name] for name in names] for setting in grid)
    settings = {}
    for values in combinations:
        setting = {name: value.item() if isinstance(value, np.generic) else value for name, value in zip(names, values)}
        identity = json.dumps({name: _identity(f"grid[{name!r}]", setting[name]) for name in sorted(names)})
        if identity in settings:
            raise ValueError(f"grid has the setting {setting} twice; for more runs of it take more seeds")
        settings[identity] = setting
    return settings


def _seeds(seeds):
    seeds = _listed("seeds", seeds)
    for seed in seeds:
        if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
            raise ValueError(f"seeds must be whole numbers of at least 0, not {seed!r}")
    if len(set(seeds)) < len(seeds):
        raise ValueError("seeds has a seed twice: that would count the same luck twice")
    return [int(seed) for seed in seeds]


def _listed(where, values):
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise ValueError(f"{where} must be a list of values, not {values!r:.100}")
    return list(values)


def _identity(where, value):
    """What a value of a setting is, for JSON: a tuple is not a list, and a dataclass has its name."""
    if isinstance(value, CELL):
        return value
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *(_identity(f"{where}[{number}]", part) for number, part in enumerate(value))]
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return ["dict", *([name, _identity(f"{where}[{name!r}]", part)] for name, part in value.items())]
    if is_dataclass(value) and not isclass(value) and type(value).__dataclass_params__.frozen:
        parts = ([field.name, _identity(f"{where}.{field.name}", getattr(value, field.name))] for field in fields(value))
        return [f"{type(value).__module__}.{type(value).__qualname__}", *parts]
    raise ValueError(f"{where} is of type {type(value).__name__}; a setting is None, a bool, number or text, a list, tuple or dict "
                     "(with text as keys) of such, or a frozen dataclass of such")


def _engine(workers):
    """What joblib is told."""
    if isinstance(workers, Integral) and not isinstance(workers, bool) and (workers == -1 or workers >= 1):
        return {"backend": "sequential"} if workers == 1 else {"backend": "loky", "n_jobs": int(workers), "inner_max_num_threads": 1}
    if isinstance(workers, str) and workers == "dask":
        try:
            from distributed import default_client
        except ImportError:
            raise ImportError("workers='dask' needs Dask: pip install 'labkit[cluster]'") from None
        try:
            return {"backend": "dask", "client": default_client()}
        except ValueError:
            raise ValueError("workers='dask', but there is no cluster: make a dask.distributed.Client first") from None
    if hasattr(workers, "scheduler_info"):
        return {"backend": "dask", "client": workers}
    raise ValueError(f"workers must be a number of processes, -1 for all cores, 'dask' or a dask.distributed.Client, not {workers!r}")
