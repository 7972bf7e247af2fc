"""Numbers as people read and write them, and tables of them: fixed digits out, "1.5k" and "40 %" in."""

from __future__ import annotations

import math
import numbers
import re
import unicodedata

import numpy as np
import pandas as pd


def as_frame(table) -> pd.DataFrame:
    """A Series as a table of one column, a DataFrame as it is; TypeError or ValueError for anything else."""
    if isinstance(table, pd.Series):
        frame = table.to_frame(table.name or "now")
        frame.attrs = dict(table.attrs)
        return frame
    if isinstance(table, pd.DataFrame):
        if not table.columns.is_unique:
            raise ValueError(f"table gives two columns of one name; its columns are {', '.join(map(str, table.columns))}")
        return table
    raise TypeError(f"table must give a pandas DataFrame or Series, not {type(table).__name__}")


def as_text(frame: pd.DataFrame) -> pd.DataFrame:
    """Every cell as text, by the format that ``frame.attrs["format"]`` gives its column, else with fixed digits."""
    formats = frame.attrs.get("format", {})
    text = {column: [formats[column].format(v) if column in formats and _is_finite(v) else number_text(v)
                     for v in frame[column].tolist()] for column in frame.columns}
    return pd.DataFrame(text, index=frame.index, columns=frame.columns, dtype=object)


def number_text(value) -> str:
    """Fixed digits: whole numbers in full, others to four significant digits; what is no number as it writes itself."""
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if value is None or value is pd.NA or value is pd.NaT or (isinstance(value, numbers.Real) and value != value):
        return "-"
    if not isinstance(value, numbers.Real):
        return str(value)
    if isinstance(value, numbers.Integral):
        return f"{int(value):,}"
    value = float(value)
    if not abs(value) < 1e15:
        return f"{value:.4g}"
    if value == int(value):
        return f"{int(value):,}"
    digits = 4 - len(str(int(abs(value)))) if abs(value) >= 1 else 4
    return f"{value:,.{max(digits, 0)}f}" if abs(value) >= 1e-3 else f"{value:.3g}"


def read_number(text, asked="") -> float:
    """A number as people write it: "12", "1,500", "1.5k", "４０ %".

    The unit may stand behind it as the question `asked` names it: "900 ms" where ms are asked for, and then "40 %" is 40
    where the question says (%), else 0.4.  Raises ValueError for everything else.
    """
    plain = unicodedata.normalize("NFKC", str(text)).replace("−", "-").strip()
    plain = re.sub(r"\s*per ?cent$", "%", plain)
    words = set(_WORD.findall(asked)) - set("kKMGx")
    while (last := (_WORD.findall(plain) or [""])[-1]) in words and plain.endswith(last):
        plain = plain.removesuffix(last).rstrip()
    match = _NUMBER.fullmatch(plain)
    if match is None or isinstance(text, bool):
        raise ValueError(f"{text!r} is not a number; write one such as 12, 1.5k or 40 %, in the unit that is asked for")
    digits = match["comma"].replace(",", ".") if match["comma"] else re.sub("[,_]", "", match["digits"])
    scale = {"": 1, "x": 1, "%": 1 if "(%)" in asked else 0.01, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}[match["scale"]]
    value = float(f"{match['sign']}{digits}{match['exponent'] or ''}") * scale
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is not a finite number")
    return value


def _is_finite(value) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool) and abs(value) < math.inf


_NUMBER = re.compile(r"""(?P<sign>[-+]?)(?:(?P<comma>\d+,\d{1,2})|(?P<digits>(?:\d{1,3}(?:[,_]\d{3})+|\d*)(?:\.\d+|(?<=\d)\.?)))
                     (?P<exponent>e[-+]?\d+)?\s*(?P<scale>[kKMG%x]?)""", re.VERBOSE)
_WORD = re.compile(r"[^\W\d_]+(?:/[^\W\d_]+)?")  # "ms", "tokens/s"
