"""The jobs of a sweep: one call of a simulation each, whose result is kept in a file of its own.

A file's name is the checksum of the simulation's source, labkit's code, the setting and the seed; so a change of any of
them computes anew, and an interruption loses nothing that had ended.
"""

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from inspect import getsource, isclass, isfunction, signature, unwrap
from itertools import islice
from pathlib import Path
from uuid import uuid4

from threadpoolctl import threadpool_limits

import labkit
from labkit.sweep_cells import columns

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


@dataclass(frozen=True)
class Job:
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
            return json.dumps(columns(result, {*self.setting, "seed"}))
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


def task(number, job):
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


def jobs_of(simulate, settings, seeds, cache):
    if not callable(simulate):
        raise ValueError(f"simulate must be callable, not {simulate!r}")
    for setting in islice(settings.values(), 1):  # the others have the same names
        try:
            signature(simulate).bind(**setting, seed=0)
        except TypeError as error:
            raise ValueError(f"{_name(simulate)} cannot be called with {', '.join([*setting, 'seed'])}: {error}") from None
    if cache is None:
        return [Job(simulate, setting, seed, None) for setting in settings.values() for seed in seeds]
    folder = Path(cache).absolute()
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"cache must be a folder, not the file {cache}")
    code = _code(simulate)
    folder.mkdir(parents=True, exist_ok=True)
    return [Job(simulate, setting, seed, folder / f"{simulate.__name__}-{_digest(code, text, seed)}.json")
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
