"""Is an argument what it should be? Each function gives the value back as a plain Python one, or raises a ValueError.

Its message says where, what is allowed and what came: "Rag.k must be a whole number from 1 to 1,000,000,000, not 0".
True and False are no numbers here, and neither is an array (numpy's scalars are). Arrays of numbers: `labkit.model.check`.
"""

from math import inf

import numpy as np

LARGEST = 1e300  # so that sums and products with small numbers stay finite


def whole(name, value, low, high=inf):
    """`value` as an int, if it is a whole number in low..high; 2.0 is not.

    Raises
    ------
    ValueError
        Also for True, NaN, text, arrays and whatever else is not an integer of Python or numpy.
    """
    if not _is_integer(value) or not low <= int(value) <= high:
        raise _wrong(name, f"a whole number {_range(low, high)}", value)
    return int(value)


def number(name, value, low, high=LARGEST, above=False):
    """`value` as an int or a float, if it is in low..high; with `above`, low itself is refused.

    Infinity is let in by ``high=math.inf`` alone, NaN never.

    Raises
    ------
    ValueError
        Also for True, text, arrays and whatever else is not a real number of Python or numpy.
    """
    if _is_integer(value) or isinstance(value, (float, np.floating)):
        plain = int(value) if _is_integer(value) else float(value)  # float16 knows no 1e300
        if low <= plain <= high and not (above and plain == low):
            return plain
    raise _wrong(name, f"a number {_range(low, high, above)}", value)


def share(name, value):
    """`value` as an int or a float, if it is a number from 0 to 1; else a ValueError."""
    return number(name, value, 0, 1)


def flag(name, value):
    """`value` as a bool, if it is True or False (numpy's too); else, also for 0 and 1, a ValueError."""
    if not isinstance(value, (bool, np.bool_)):
        raise _wrong(name, "True or False", value)
    return bool(value)


def _is_integer(value):
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))  # numpy's days count as one


def _range(low, high, above=False):
    if above:
        return f"above {low:,}" + ("" if high == inf else f" and at most {high:,}")
    return f"of at least {low:,}" if high == inf else f"from {low:,} to {high:,}"


def _wrong(name, allowed, value):
    try:
        shown = repr(value)
    except Exception:  # Python writes out no number of more than 4,300 digits
        shown = f"this {type(value).__name__}"
    return ValueError(f"{name} must be {allowed}, not {shown if len(shown) <= 100 else shown[:97] + '...'}")
