"""Any simulation over a grid of settings and seeds, as one tidy table: error bars, finer curves, long studies.

    rows = settings x seeds x rows of a result

On one core, on all of them or on a cluster the table is the same to the bit: every job has its own seed and one BLAS
thread, and its result goes through the same text, whether it was just computed or lay on disk.
"""

import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from hashlib import sha256
from inspect import getsource, isclass, isfunction, signature, unwrap
from itertools import islice, product
from numbers import Integral
from pathlib import Path
from uuid import uuid4

import joblib
import numpy as np
import pandas as pd
from pandas.api.types import is_integer_dtype
from threadpoolctl import threadpool_limits
from tqdm import tqdm

import labkit

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

__all__ = ["sweep"]

CELL = (type(None), bool, int, float, str)  # what JSON gives back exactly: a float is written with as many digits as it needs


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
    jobs = _jobs(simulate, _settings(grid, names), _seeds(seeds), cache)
    results = [job.load() for job in jobs]
    missing = [number for number, result in enumerate(results) if result is None]
    tasks = (joblib.delayed(_task)(number, jobs[number]) for number in missing)
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


# -- jobs


@dataclass(frozen=True)
class _Job:
    """One call of simulate. Its result is text: JSON of a list of cells for each field."""

    simulate: Callable
    setting: dict
    seed: int
    path: Path | None  # of the file that keeps the result

    def __str__(self):
        arguments = ", ".join(f"{name}={value!r}" for name, value in {**self.setting, "seed": self.seed}.items())
        return f"{_name(self.simulate)}({arguments})"

    def run(self):
        try:
            result = self.simulate(**self.setting, seed=self.seed)
            if isinstance(result, Iterator):
                for result in result:
                    pass
        except Exception as error:
            raise RuntimeError(f"{self} raised {type(error).__name__}: {error}") from error
        try:
            return json.dumps(_columns(result, {*self.setting, "seed"}))
        except ValueError as error:
            raise ValueError(f"{self} returned what makes no rows: {error}") from None

    def checksum(self, result):
        return sha256((self.path.name + result).encode()).hexdigest()

    def store(self, result):
        """Write a file whole or not at all."""
        if self.path is not None and self.path.parent.is_dir() and not self.path.exists():
            temporary = self.path.with_name(f"{uuid4().hex}.tmp")
            temporary.write_text(f'{{"job": {json.dumps(str(self))}, "sha256": "{self.checksum(result)}", "result": {result}}}\n')
            temporary.replace(self.path)

    @contextmanager
    def alone(self):
        """Wait for others at the same job: a second call, or processes that outlive a killed one for a moment.

        The system ends a lock with its process. Without locks (Windows, some network disks) such a job may run twice.
        """
        if fcntl is None or self.path is None or not self.path.parent.is_dir():
            yield
            return
        lock = self.path.with_suffix(".lock")
        with lock.open("w") as file:
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
            yield
            lock.unlink(missing_ok=True)

    def load(self):
        """The result if it is there; a damaged file is removed with a warning."""
        if self.path is None:
            return None
        try:
            entry = json.loads(self.path.read_text())
            result = json.dumps(entry["result"])
            whole = entry["sha256"] == self.checksum(result)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, RecursionError):
            whole = False
        if whole:
            return result
        warnings.warn(f"{self.path} is damaged; its job runs again", stacklevel=3)
        self.path.unlink(missing_ok=True)


def _task(number, job):
    """Done by a worker. It looks on the disk itself: another may have done the job and died since, or be about to end it."""
    _one_thread()
    with job.alone():
        result = job.load()
        if result is None:
            result = job.run()
            job.store(result)
    return number, result


@lru_cache
def _one_thread():
    """Sums on several threads differ in the last bit. For good: the threads of a Dask worker share the limit."""
    threadpool_limits(1)


def _jobs(simulate, settings, seeds, cache):
    if not callable(simulate):
        raise ValueError(f"simulate must be callable, not {simulate!r}")
    for setting in islice(settings.values(), 1):  # the others have the same names
        try:
            signature(simulate).bind(**setting, seed=0)
        except TypeError as error:
            raise ValueError(f"{_name(simulate)} cannot be called with {', '.join([*setting, 'seed'])}: {error}") from None
    if cache is None:
        return [_Job(simulate, setting, seed, None) for setting in settings.values() for seed in seeds]
    folder = Path(cache).absolute()
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"cache must be a folder, not the file {cache}")
    code = _code(simulate)
    folder.mkdir(parents=True, exist_ok=True)
    return [_Job(simulate, setting, seed, folder / f"{simulate.__name__}-{_digest(code, text, seed)}.json")
            for text, setting in settings.items() for seed in seeds]


def _name(simulate):
    return getattr(simulate, "__qualname__", repr(simulate))


def _digest(*parts):
    return sha256(json.dumps(parts).encode()).hexdigest()


def _code(simulate):
    """Text that changes whenever what a function computes may have changed."""
    function = unwrap(simulate)
    if not (isfunction(function) and function.__closure__ is None or isclass(function)) or function.__name__ == "<lambda>":
        raise ValueError(f"cache needs a function of its arguments alone, with a name and a source: write {_name(simulate)} as a def "
                         "without variables of a function around it, and put fixed settings into the grid as lists of one value")
    try:
        return _digest(function.__module__, function.__qualname__, getsource(function), _labkit_code())
    except (OSError, TypeError):
        raise ValueError(f"cache needs the source of {_name(simulate)}, and Python does not find it: put it in a file or a cell") from None


@lru_cache
def _labkit_code():
    sources = sorted(Path(labkit.__file__).parent.glob("*.py"))
    return labkit.__version__ + sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


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


# -- results


def _columns(result, taken):
    """A list of cells for each field of a result."""
    if isinstance(result, pd.DataFrame):
        numbered = result.index.nlevels == 1 and result.index.name is None and is_integer_dtype(result.index)
        columns = [(name, column.tolist()) for name, column in (result if numbered else result.reset_index()).items()]
    else:
        columns = [(name, [value]) for name, value in _row(result)]
        if not columns:
            raise ValueError(f"a {type(result).__name__} without a field that holds one number or text")
    cells = {name: [_cell(name, value) for value in column] for name, column in columns}
    for name in cells:
        if not isinstance(name, str) or name in taken:
            raise ValueError(f"{name!r} cannot name a field; allowed is any text that is not the name of a setting or 'seed'")
    if len(cells) < len(columns):
        raise ValueError(f"two fields of one name among {[name for name, _ in columns]}")
    return cells


def _row(result):
    if isinstance(result, (Mapping, pd.Series)):
        return result.items()
    if is_dataclass(result) and not isclass(result):
        pairs = ((field.name, getattr(result, field.name)) for field in fields(result))
        return [(name, value) for name, value in pairs if isinstance(_plain(value), CELL)]
    return [("value", result)]


def _plain(value):
    """Python's own number for one of NumPy; None for what pandas calls missing."""
    if value is pd.NA:
        return None
    return value.item() if isinstance(value, np.generic) or isinstance(value, np.ndarray) and value.ndim == 0 else value


def _cell(name, value):
    if not isinstance(value := _plain(value), CELL):
        raise ValueError(f"{name!r} holds a {type(value).__name__}; a cell holds None, a bool, number or text")
    return value
