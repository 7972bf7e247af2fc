"""What a sweep keeps of a result: cells of a table, as JSON gives them back exactly."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from inspect import isclass

import numpy as np
import pandas as pd
from pandas.api.types import is_integer_dtype

CELL = (type(None), bool, int, float, str)  # what JSON gives back exactly: a float is written with as many digits as it needs

def columns(result, taken):
    """A list of cells for each field of a result; ValueError if it makes no rows, or takes a name in `taken`."""
    if isinstance(result, pd.DataFrame):
        numbered = result.index.nlevels == 1 and result.index.name is None and is_integer_dtype(result.index)
        named = [(name, column.tolist()) for name, column in (result if numbered else result.reset_index()).items()]
    else:
        named = [(name, [value]) for name, value in _row(result)]
        if not named:
            raise ValueError(f"a {type(result).__name__} without a field that holds one number or text")
    cells = {name: [_cell(name, value) for value in column] for name, column in named}
    for name in cells:
        if not isinstance(name, str) or name in taken:
            raise ValueError(f"{name!r} cannot name a field; allowed is any text that is not the name of a setting or 'seed'")
    if len(cells) < len(named):
        raise ValueError(f"two fields of one name among {[name for name, _ in named]}")
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
