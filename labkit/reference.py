"""The tables of data/: models, GPUs, links, and what the papers and the lecture notes report.

Every other module takes its facts from here, so a number has one home, its source beside it.
data/README.md says what each column means and where the rows come from.
"""

from dataclasses import MISSING, fields
from difflib import get_close_matches
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

_HERE = Path(__file__).resolve().parent

KINDS = ("exact arithmetic", "simulation", "assumption", "paper reports", "lecture reports")  # what a number is worth

# The columns of numbers in the tables that teachers add rows to: a word there must not turn the whole column into words.
_NUMBERS = {
    "models.csv": """layers full_layers window_layers state_layers window hidden query_heads kv_heads head_dim value_head_dim kv_lora_rank
        rope_head_dim total_params block_params weight_bytes state_bytes max_positions""".split(),
    "gpus.csv": "memory_bytes memory_bytes_device bandwidth flops fp8_flops host_link_bytes_per_s gpu_link_bytes_per_s".split(),
}
_TEXTS = ("name", "aliases", "kind", "source")  # the columns of words that both of them need
_NEEDED_WITH = {"window": "window_layers", "state_bytes": "state_layers", "rope_head_dim": "kv_lora_rank"}  # where that is above 0


@cache
def data_folder():
    """The folder that holds the tables: `labkit/data` in an installed wheel, `data/` beside `labkit/` in a checkout."""
    for folder in (_HERE / "data", _HERE.parent / "data"):
        if (folder / "models.csv").is_file():
            return folder
    raise FileNotFoundError(f"the tables of labkit are missing: no models.csv in {_HERE / 'data'} or {_HERE.parent / 'data'}")


@cache
def _table(file_name):
    try:
        table = pd.read_csv(data_folder() / file_name, dtype=dict.fromkeys(_TEXTS, str))
    except OSError as error:
        raise ValueError(f"{file_name} cannot be read in {data_folder()}: {error.strerror or error}") from None
    except (ValueError, UnicodeDecodeError) as error:      # pandas' own errors are ValueErrors
        raise ValueError(f"{file_name} cannot be read as a table: {str(error).strip()} (a comma inside a text needs quotes around the text)") from None
    if not isinstance(table.index, pd.RangeIndex):         # pandas takes the first cell of such rows for their label
        raise ValueError(f"{file_name}: its rows have more cells than the header has columns, which are {', '.join(table.columns)}")
    numbers = _NUMBERS.get(file_name, [])
    missing = [column for column in (*numbers, *_TEXTS) if numbers and column not in table]
    if missing:
        raise ValueError(f"{file_name}: the column {missing[0]!r} is missing; there are {', '.join(table.columns)}")
    for column in numbers:
        if not pd.api.types.is_numeric_dtype(table[column]):
            parsed = pd.to_numeric(table[column], errors="coerce").astype(object)
            table[column] = parsed.where(parsed.notna(), table[column].astype(object))
    texts = table.select_dtypes(exclude=["number", "bool"]).columns.difference(numbers)
    table = table.fillna({column: "" for column in texts})      # a gap is NaN in a column of numbers, "" in one of words
    table.attrs["file"] = file_name                             # for messages
    return table


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
        If nothing fits, with the nearest names; or if more than one row has that name.
    """
    places = {}
    for i, entry in enumerate(names):
        for alias in str(entry).split("|"):
            places.setdefault(alias.strip().lower(), {})[i] = str(entry).partition("|")[0]
    key = str(wanted).strip().lower()
    if isinstance(wanted, str) and key and key in places:
        if len(places[key]) > 1:
            raise ValueError(f"more than one {what} is called {wanted!r}: the rows {' and '.join(places[key].values())}; "
                             "each name and alias may stand in one row only")
        return next(iter(places[key]))
    raise ValueError(f"no {what} is called {wanted!r}; {suggest(key, names)}")


def suggest(wanted, names):
    """A hint for a message: the names nearest to `wanted`, else the first few there are."""
    shown = {alias.strip().lower(): alias.strip() for entry in names for alias in str(entry).split("|")}
    near = get_close_matches(str(wanted).lower(), list(shown), n=3, cutoff=0.5)
    if near:
        return "did you mean " + " or ".join(shown[name] for name in near) + "?"
    return "there are " + ", ".join(list(shown.values())[:8]) + (", ..." if len(shown) > 8 else "")


def names_of(table):
    """Each row's names as `name|alias|alias`, for `find`."""
    return (table["name"] + "|" + table["aliases"]).str.strip("|")


def row_fields(cls, row):
    """The fields of a dataclass that a row of data/models.csv or data/gpus.csv holds, whole numbers as int.

    Raises
    ------
    ValueError
        For all that is wrong in the row, a line each, naming file, row and column: a needed cell is empty, a word stands
        where a number belongs, the kind is unknown, or the class refuses the value.
    """
    where = f"{row.attrs.get('file', 'table')}, row {row['name'] or f'in line {row.name + 2}'!r}"
    held, wrong = {}, []
    for f in (f for f in fields(cls) if f.name in row.index):
        value = row[f.name].item() if isinstance(row[f.name], np.generic) else row[f.name]
        if value == "" or value != value:
            beside, needed = _NEEDED_WITH.get(f.name), "a text is needed" if f.type is str else "a number is needed"
            if f.default is MISSING:
                wrong.append(f"{where}, column {f.name!r}: it is empty; {needed}")
            elif held.get(beside):
                wrong.append(f"{where}, column {f.name!r}: it is empty; {needed}, since {beside} is {held[beside]}")
        elif isinstance(value, str) and f.type is not str:
            wrong.append(f"{where}, column {f.name!r}: {value!r} is not a number; write one such as 128 or 3.35e12")
        else:       # a column of numbers with gaps holds floats
            held[f.name] = int(value) if isinstance(value, float) and value.is_integer() else value
    if row["kind"] not in KINDS:
        wrong.append(f"{where}, column 'kind': {row['kind']!r} is not one of {', '.join(KINDS)}")
    if not row["source"]:
        wrong.append(f"{where}, column 'source': it is empty; say where the numbers come from")
    raise_all(wrong)
    try:
        cls(**held)
    except ValueError as error:     # the class says what is allowed, the file where it stands
        raise ValueError(f"{where.partition(',')[0]}, row {error}") from None
    return held


def raise_all(problems):
    """One ValueError that says all problems, a line each; nothing if there are none."""
    problems = list(dict.fromkeys(problems))
    if problems:
        raise ValueError("\n".join(problems))


def _rows_of(table, column, wanted):
    if wanted is None:
        return table.copy()
    names = list(table[column].unique())
    name = names[find(names, wanted, column)]
    return table[table[column] == name].reset_index(drop=True)
