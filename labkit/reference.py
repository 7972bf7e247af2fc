"""The tables of data/: models, GPUs, links, and what the papers and the lecture notes report.

Every other module takes its facts from here, so a number has one home, its source beside it.
data/README.md says what each column means and where the rows come from.
"""

from difflib import get_close_matches
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

_HERE = Path(__file__).resolve().parent


@cache
def data_folder():
    """The folder that holds the tables: `labkit/data` in an installed wheel, `data/` beside `labkit/` in a checkout."""
    for folder in (_HERE / "data", _HERE.parent / "data"):
        if (folder / "models.csv").is_file():
            return folder
    raise FileNotFoundError(f"the tables of labkit are missing: no models.csv in {_HERE / 'data'} or {_HERE.parent / 'data'}")


@cache
def _table(file_name):
    table = pd.read_csv(data_folder() / file_name)
    texts = table.select_dtypes(exclude=["number", "bool"]).columns
    return table.fillna({column: "" for column in texts})      # a gap is NaN in a column of numbers, "" in one of words


def models():
    """One row a model: geometry, parameters, weight bytes, layers by the way they cache, source."""
    return _table("models.csv").copy()


def gpus():
    """One row an accelerator in one form factor: memory (bytes), bandwidth (bytes/s), dense FLOP/s, links (bytes/s)."""
    return _table("gpus.csv").copy()


def links():
    """One row a way to move KV to a GPU (PCIe, SSD): bytes/s in one direction."""
    return _table("links.csv").copy()


def datasets():
    """One row a public data set the papers use: where it is, its licence, its format, whether it may be shipped."""
    return _table("datasets.csv").copy()


def paper_results(paper=None):
    """What the papers report, one row a number; `paper` keeps one of MemGPT, mem0, CacheBlend, Cartridges, ACE.

    Raises
    ------
    ValueError
        If no row belongs to `paper`; the message names the papers there are.
    """
    return _rows_of(_table("paper_results.csv"), "paper", paper)


def lecture_figures(lecture=None):
    """The figures of the lecture notes, one row a figure with its id; `lecture` keeps L11 or L14.

    Raises
    ------
    ValueError
        If `lecture` is neither.
    """
    return _rows_of(_table("lecture_figures.csv"), "lecture", lecture)


def lecture_figure(figure_id):
    """The value of one lecture figure: a number, or the words where the notes give no number.

    A range ("0.08-0.16") gives its lower end; the row holds the upper one in `value_to`.

    Raises
    ------
    ValueError
        If there is no figure of that id; the message suggests the nearest.
    """
    table = _table("lecture_figures.csv")
    row = table.iloc[find(table["id"], figure_id, "lecture figure")]
    return row["words"] if np.isnan(row["value"]) else float(row["value"])


def find(names, wanted, what):
    """Position of `wanted` in `names`, capital letters ignored; `a|b|c` entries are one row's names.

    Raises
    ------
    ValueError
        If nothing fits; the message suggests the nearest names.
    """
    position = {alias.strip().lower(): i for i, entry in enumerate(names) for alias in str(entry).split("|")}
    key = str(wanted).strip().lower()
    if isinstance(wanted, str) and key in position:
        return position[key]
    raise ValueError(f"no {what} is called {wanted!r}; {suggest(key, names)}")


def suggest(wanted, names):
    """A hint for a message: the names nearest to `wanted`, else the first few there are."""
    shown = {alias.strip().lower(): alias.strip() for entry in names for alias in str(entry).split("|")}
    near = get_close_matches(str(wanted).lower(), list(shown), n=3, cutoff=0.5)
    if near:
        return "did you mean " + " or ".join(shown[name] for name in near) + "?"
    return "there are " + ", ".join(list(shown.values())[:8]) + (", ..." if len(shown) > 8 else "")


def _rows_of(table, column, wanted):
    if wanted is None:
        return table.copy()
    names = list(table[column].unique())
    name = names[find(names, wanted, column)]
    return table[table[column] == name].reset_index(drop=True)
