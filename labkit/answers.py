"""Reading an answer as a student writes it: a number with its unit ("41.9 GB", "1,330k", "约 39 GiB", 0.32), a word, a list."""

import math
import re
import unicodedata
from dataclasses import dataclass
from numbers import Real

import numpy as np

_COUNTED = "contexts users queries questions requests calls GPUs documents sessions steps layers heads slots facts bullets"
UNITS = {  # dimension -> unit -> its size in the base unit, which is what labkit computes in
    "bytes": {"bytes": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
              "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "bits": 1 / 8},
    "time": {"s": 1, "ms": 1e-3, "us": 1e-6, "minutes": 60, "hours": 3600},
    "tokens": {"tokens": 1, "k tokens": 1e3, "M tokens": 1e6},
    "rate": {"tokens/s": 1},
    "share": {"%": 0.01, "x": 1},
    "count": dict.fromkeys(_COUNTED.split(), 1),
    "number": {"number": 1},  # without a unit
}
DIMENSION = {unit: dimension for dimension, units in UNITS.items() for unit in units}

_OTHER_WORDS = {
    "bytes": "b byte 字节", "bits": "bit 比特", "KB": "kilobytes kilobyte", "MB": "megabytes megabyte",
    "GB": "gigabytes gigabyte", "TB": "terabytes terabyte", "KiB": "kibibytes", "MiB": "mebibytes", "GiB": "gibibytes",
    "s": "sec second seconds 秒", "ms": "msec millisecond milliseconds 毫秒", "us": "μs microseconds 微秒",
    "minutes": "min mins minute 分钟", "hours": "h hour hr hrs 小时", "tokens": "token tok 词元", "%": "percent points pp",
    "tokens/s": "token/s tok/s tokens/sec tps", "x": "times × 倍", "queries": "query 次", "contexts": "copies copy 份 个",
    "users": "人", "GPUs": "张",
}
_UNIT_OF = ({unit.lower(): unit for unit in DIMENSION} | {unit.lower()[:-1]: unit for unit in UNITS["count"]}
            | {word: unit for unit, words in _OTHER_WORDS.items() for word in words.split()}
            | {"tokens per second": "tokens/s", "tokens a second": "tokens/s", "per cent": "%"})
_TIMES = {"k": 1e3, "thousand": 1e3, "万": 1e4, "m": 1e6, "million": 1e6, "亿": 1e8, "g": 1e9, "b": 1e9, "billion": 1e9}
_NOT_MULTIPLIED = ("time", "share")  # "12 m" is not twelve million seconds

_LONGEST = 2_000  # signs of an answer
_SEPARATORS = re.compile(r"->|[<>→⇒,;|\n、，；]")  # between the parts of a list
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_PUNCTUATION = str.maketrans({"\u200b": "", "\ufeff": "", "−": "-", "–": "-", "。": ".", "’": "'", "⁄": "/"})
_LEAD = re.compile(r"(?:about|approximately|approx\.?|around|roughly|circa|ca\.|大约|约|[≈~=\s])+", re.I)
_TAIL = re.compile(r"\s*(?:(?:/|\bof\b)(?!\s*\d)|\b(?:per|a|each|for|at)\b|每)(?!\s*(?:s|sec|second)\b).*$")  # "per token", not "per second"
_NUMBER = re.compile(
    r"""(?P<sign>[-+]?)\s*
    (?: (?P<grouped>\d{1,3}(?:[,\ '_]\d{3})+(?!\d)(?:\.\d+)?)  # 327,680  327 680  327_680
      | (?P<plain>(?:\d+\.?\d*|\.\d+)(?!,?\d))
      | (?P<comma>\d+,\d{1,2}(?!\d)) )                           # 41,9
    (?:e(?P<exponent>[-+]?\d{1,3}) | \s*[x×*]\s*10\s*(?:\^|\*\*)\s*(?P<power>[-+]?\d{1,3}) )?
    (?: \s*/\s*(?P<over>\d+(?:\.\d+)?) )?                        # 1/4
    """, re.I | re.X)


@dataclass(frozen=True)
class Reading:
    """A number as it was written; `unit` (a key of DIMENSION) is None if none was written."""

    number: float
    unit: str | None


def read_number(answer, dimension="number"):
    """Read a number with an optional unit of one dimension.

    Parameters
    ----------
    answer : number or str
        In a text, thousands separators, full-width digits, "about", k and M, and a tail like "per token" are understood.
    dimension : str
        A key of UNITS.

    Returns
    -------
    Reading

    Raises
    ------
    ValueError
        If it is not a finite number, or the unit is unknown or of another dimension; the message says which.
    """
    if isinstance(answer, Real) and not isinstance(answer, (bool, np.bool_)):
        return _finite(answer, None)
    answer = _written(answer)
    text = re.sub("(?<=10)[⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+", lambda power: "^" + power[0].translate(_SUPERSCRIPTS), answer)
    text = unicodedata.normalize("NFKC", text).translate(_PUNCTUATION).strip()
    text = _LEAD.sub("", text, count=1) if _LEAD.match(text) else text
    found = _NUMBER.match(text)
    if not found:
        raise ValueError("it does not start with a number")
    times, unit = _read_unit(text[found.end():], dimension)
    return _finite(_value(found) * times, unit)


def read_word(answer, words):
    """The one of `words` that a text (or a number, by its digits) names, in full or by a beginning that fits only one.

    Raises
    ------
    ValueError
        If it names none, or several; the message quotes it.
    """
    if isinstance(answer, Real) and not isinstance(answer, (bool, np.bool_)) and abs(answer) < 1e15:
        answer = f"{answer:.15g}"
    answer = _written(answer)
    key = " ".join(unicodedata.normalize("NFKC", answer).split()).casefold()
    fits = [word for word in words if word.casefold() == key] or [word for word in words if word.casefold().startswith(key)]
    if len(fits) != 1:
        raise ValueError(f"{answer.strip()[:30]!r} is not one of the words")
    return fits[0]


def split_list(answer):
    """The parts of a list: of a Python list or tuple as they are, of a text what stands between commas, arrows or lines.

    Raises
    ------
    ValueError
        If it is none of these, or empty.
    """
    if isinstance(answer, (list, tuple)):
        return list(answer)
    return [part for part in _SEPARATORS.split(_written(answer)) if part.strip()]


def is_blank(answer):
    """Nothing at all, or a text of spaces only."""
    return answer is None or isinstance(answer, str) and not answer.strip("\u200b\ufeff \t\r\n\u00a0\u3000")


def _written(answer):
    """A text of a human's length, or a ValueError that says what it is instead."""
    if not isinstance(answer, str):
        raise ValueError(f"a Python {type(answer).__name__} cannot be an answer here")
    if len(answer) > _LONGEST:
        raise ValueError(f"it is longer than {_LONGEST:,} signs")
    return answer


def _value(found):
    """The number in a match of _NUMBER."""
    digits = re.sub("[, '_]", "", found["grouped"] or "") or found["plain"] or found["comma"].replace(",", ".")
    number = float(f"{found['sign']}{digits}e{found['exponent'] or found['power'] or 0}")
    over = float(found["over"] or 1)
    return number / over if over else math.nan


def _finite(number, unit):
    try:
        number = float(number)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError("the number is not finite")
    return Reading(number, unit)


def _read_unit(text, dimension):
    """(multiplier, unit or None) of what follows a number, such as " M tokens per GPU"."""
    whole = " ".join(text.lower().split()).rstrip(".! ")
    for words in (whole, _TAIL.sub("", whole)):
        if not words:
            return 1, None
        if dimension == DIMENSION.get(_UNIT_OF.get(words)):
            return 1, _UNIT_OF[words]
        many = re.match(r"(thousand|million|billion|[kmgb万亿])\s*(.*)", words)
        if many and dimension not in _NOT_MULTIPLIED:
            unit = _UNIT_OF.get(many[2]) if many[2] else next(iter(UNITS[dimension]))
            if dimension == DIMENSION.get(unit):
                return _TIMES[many[1]], unit
    if text[:1] in ".,":
        raise ValueError("it is not one number")
    raise ValueError(f"I do not know {text.strip()[:30]!r} as a unit here")


def format_value(value, unit):
    """`value` (in the base unit) in words, about four digits: "41.94 GB (39.06 GiB)", "10 contexts"."""
    if unit[1:] in ("B", "iB"):  # both conventions, since they differ
        return f"{_in_unit(value, unit)} ({_in_unit(value, unit[0] + {'B': 'iB', 'iB': 'B'}[unit[1:]])})"
    return _in_unit(value, unit)


def _in_unit(value, unit):
    number = float(value) / UNITS[DIMENSION[unit]][unit]
    decimals = max(0, 3 - math.floor(math.log10(abs(number)))) if number else 0
    digits = f"{number:,.{decimals}f}"
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return digits if unit == "number" else f"{digits} {unit}"
