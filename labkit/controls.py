"""The controls of a panel: what a student can move, described in one line each.

A panel takes plain Python values and turns them into controls:

====================  =====================================================
``(low, high, start)``  a slider; a fourth number is its step
``[first, ...]``        a drop-down list that starts at its first entry
``True`` / ``False``    a check box
====================  =====================================================

The functions below say more (label, unit, steps, read-out).  Every control knows how to check a value, so
that `Panel.set` can refuse an impossible one with a sentence instead of moving it silently.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ipywidgets as widgets

_MOST_STOPS = 10_000  # of one slider: the page holds a text for each
_LARGEST = 1e300  # so that differences and sums stay finite
_LAYOUT = {"width": "100%", "margin": "0"}
_STYLE = {"description_width": "46%"}


def human(value: float) -> str:
    """A number for people: 950, 1.5k, 128k, 2.4M (decimal prefixes, three digits); below 10,000 nothing is rounded: 1,024."""
    if value and abs(value) < 10_000 and value == int(value) and (abs(value) < 1000 or value % 10):
        return f"{int(value):,}"
    for size, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{suffix}"
    return f"{value:.3g}"


def percent(value: float) -> str:
    """A share for people: 0.15 is 15 %."""
    return f"{100 * value:.3g} %"


@dataclass(frozen=True)
class Control:
    """One control: its start value, the widget that shows it, and the check for a value set from code.

    Attributes
    ----------
    default : the value at the start and after a reset.
    build : function of (label, value) that makes the ipywidgets widget.
    check : function that returns the value as the widget wants it, or raises ValueError saying what is allowed.
    label : text beside the control, unit included; None uses the parameter's name.
    ends : values at which a test should try the control: least, largest and some between.
    text : for a slider whose value may be any number of its range: writes the read-out.
    """

    default: Any
    build: Callable[[str, Any], widgets.ValueWidget]
    check: Callable[[Any], Any]
    label: str | None
    ends: tuple
    text: Callable[[Any], str] | None = None

    def __post_init__(self):
        if not isinstance(self.label, (str, type(None))):
            raise ValueError(f"a label must be a text, or None for the parameter's name, not {self.label!r}")
        if self.text is not None and not callable(self.text):
            raise ValueError(f"text must be a function that writes the read-out, not {self.text!r}")

    def put(self, widget, value) -> None:
        """Move the widget to a checked value; a value between two stops becomes a stop of its own."""
        if self.text is not None and value not in (v for _, v in widget.options):
            values = sorted([v for _, v in widget.options] + [value])
            keep = widget.value
            with widget.hold_trait_notifications():
                widget.options = [(self.text(v), v) for v in values]
                widget.value = keep
        widget.value = value


def _number(value, low, high, whole):
    kind = "a whole number" if whole else "a number"
    value = _plain(value)
    if not _is_number(value) or (whole and value != int(value)):
        raise ValueError(f"{kind} from {low:,} to {high:,} is needed, not {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{value:,} is outside {low:,} to {high:,}")
    return int(value) if whole else float(value)


def _slide(values, text):
    """Builder of a slider over `values`; ipywidgets' other sliders can't write a read-out such as 128k or 15 %."""

    def build(name, value):
        return widgets.SelectionSlider(options=[(text(v), v) for v in values], value=value, description=name,
                                       tooltip=name, continuous_update=True, layout=_LAYOUT, style=_STYLE)

    return build


def _along(values, start, whole, label, text):
    low, high = values[0], values[-1]
    ends = (low, values[len(values) // 2], high)
    values = [v if whole else float(v) for v in values]
    return Control(values[values.index(start)], _slide(values, text), lambda value: _number(value, low, high, whole), label, ends, text)


def slider(low, high, start, step=None, *, label=None, text: Callable[[Any], str] | None = None) -> Control:
    """A slider with even steps; whole numbers if `low`, `high` and `start` (and `step`) are.

    Parameters
    ----------
    low, high, start, step : numbers; the step defaults to 1 % of the range, rounded to 1, 2 or 5 times a power of ten.
    label : text beside it, with the unit in brackets.
    text : function that writes the read-out; by default `percent` for a range within 0..1, else `human`.

    `Panel.set` may choose any value of the range, between two steps too.  Raises ValueError if not low <= start <= high.
    """
    low, high, start = _check_range(low, high, start)
    if step is None:
        whole = _whole(low, high, start)
        step = _nice_step((high - low) / 100, whole)
    else:
        step = _plain(step)
        if not _is_number(step) or not step > 0:
            raise ValueError(f"a step must be a number above 0, not {step!r}")
        whole = _whole(low, high, start, step)
    if (high - low) / step > _MOST_STOPS:
        raise ValueError(f"from {low!r} to {high!r} in steps of {step!r} are more than {_MOST_STOPS:,} stops; use a log_slider or a larger step")
    count = int((high - low) / step + 1e-9)
    digits = max(10, 3 - math.floor(math.log10(step)))
    values = sorted({low, high, start} | {low + i * step if whole else round(low + i * step, digits) for i in range(count + 1)})
    if text is None:
        text = human if whole or low < 0 or high > 1 else percent
    return _along(values, start, whole, label, text)


def log_slider(low, high, start, *, label=None, per_decade=10, text: Callable[[Any], str] = human) -> Control:
    """A slider on a log scale: `per_decade` stops a decade, rounded to two digits; whole numbers if all three are.

    Raises ValueError if not 0 < low <= start <= high.
    """
    low, high, start = _check_range(low, high, start)
    if low < 1 / _LARGEST:
        raise ValueError(f"a log scale needs a positive low end, at least {1 / _LARGEST:g}, not {low!r}")
    if not _is_number(per_decade) or not per_decade > 0:
        raise ValueError(f"per_decade must be a number of stops above 0, not {per_decade!r}")
    whole = _whole(low, high, start)
    count = max(1, round(min(per_decade * (math.log10(high) - math.log10(low)), _LARGEST)))
    if count > _MOST_STOPS:
        raise ValueError(f"from {low!r} to {high!r} with {per_decade!r} stops a decade are more than {_MOST_STOPS:,} stops; "
                         "use fewer a decade")
    raw = (low * (high / low) ** (i / count) for i in range(1, count))
    values = {round(v, 1 - math.floor(math.log10(v))) for v in raw}
    values = {int(v) for v in values if v == int(v)} if whole else values
    return _along(sorted(v for v in values | {low, high, start} if low <= v <= high), start, whole, label, text)


def stops(values: Sequence, start, *, label=None, text: Callable[[Any], str] = human) -> Control:
    """A slider that stops at the given values only, each with a read-out made by `text`."""
    values, start = [_plain(v) for v in _listed("stops", values)], _plain(start)
    if start not in values:
        raise ValueError(f"the start {start!r} is not one of the stops {values}")

    def check(value):
        value = _plain(value)
        if isinstance(value, bool) or hasattr(value, "shape") or value not in values:
            shown = ", ".join(map(str, values if len(values) < 9 else [*values[:3], "...", *values[-3:]]))
            raise ValueError(f"{value!r} is not one of the stops of this slider: {shown}")
        return value

    return Control(start, _slide(values, text), check, label, (values[0], values[len(values) // 2], values[-1]))


def powers(low: int, high: int, start: int, *, label=None, text: Callable[[Any], str] = "{:,}".format) -> Control:
    """A slider over the powers of two from `low` to `high`."""
    low, high, start = map(_plain, (low, high, start))
    for v in (low, high, start):
        if isinstance(v, bool) or not isinstance(v, int) or v < 1 or v & (v - 1):
            raise ValueError(f"{v!r} is not a power of two")
    return stops([2**i for i in range(low.bit_length() - 1, high.bit_length())], start, label=label, text=text)


def choice(options: Sequence | Mapping, start=None, *, label=None) -> Control:
    """A drop-down list; a mapping gives {text: value}."""
    pairs = list(options.items()) if isinstance(options, Mapping) else [(str(o), o) for o in _listed("options", options)]
    if not pairs:
        raise ValueError("a choice needs at least one option")
    pairs = [(text, _plain(v)) for text, v in pairs]
    values = [v for _, v in pairs]
    for v in values:
        if not isinstance(v == v, bool) or v != v:  # an array, or NaN: could not be found again in the list
            raise ValueError(f"{v!r} cannot be an option, because it does not equal itself")
    start = values[0] if start is None else start

    def build(name, value):
        return widgets.Dropdown(options=pairs, value=value, description=name, layout=_LAYOUT, style=_STYLE)

    def check(value):
        value = _plain(value)
        if hasattr(value, "shape") or value not in values:
            raise ValueError(f"{value!r} is not an option; choose one of: {', '.join(map(str, values))}")
        return value

    return Control(check(start), build, check, label, tuple(values))


def switch(start: bool, *, label=None) -> Control:
    """A check box."""

    def build(name, value):
        return widgets.Checkbox(value=value, description=name, indent=False, layout=_LAYOUT)

    def check(value):
        value = _plain(value)
        if not isinstance(value, bool):
            raise ValueError(f"True or False is needed, not {value!r}")
        return value

    return Control(check(start), build, check, label, (False, True))


def as_control(name: str, spec) -> Control:
    """The control that `spec` stands for (see the table on top); ValueError with the parameter's name if it is none."""
    try:
        if isinstance(spec, Control):
            return spec
        if isinstance(spec, bool):
            return switch(spec)
        if isinstance(spec, tuple) and len(spec) in (3, 4):
            return slider(*spec)
        if isinstance(spec, list):
            return choice(spec)
        raise ValueError("write (low, high, start), (low, high, start, step), a list of options, True or False, "
                         f"or a control from labkit.controls; not {spec!r}")
    except ValueError as problem:
        raise ValueError(f"control {name!r}: {problem}") from None


def _check_range(low, high, start):
    """The three as Python numbers (numpy's would overflow, and spoil the call line)."""
    low, high, start = map(_plain, (low, high, start))
    for v in (low, high, start):
        if not _is_number(v):
            raise ValueError(f"low, high and start must be numbers, not {v!r}")
    if not low < high or not low <= start <= high:
        raise ValueError(f"low < high and low <= start <= high are needed, not ({low!r}, {high!r}, {start!r})")
    return low, high, start


def _listed(what, values):
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ValueError(f"the {what} must be a list, not {values!r}")
    return list(values)


def _plain(value):
    return value.item() if hasattr(value, "item") and not getattr(value, "shape", ()) else value


def _is_number(value):
    return not isinstance(value, bool) and isinstance(value, numbers.Real) and abs(value) <= _LARGEST


def _whole(*values):
    return all(isinstance(v, numbers.Integral) for v in values)


def _nice_step(raw, whole):
    power = 10.0 ** math.floor(math.log10(raw))
    step = min((m * power for m in (1, 2, 5, 10)), key=lambda s: abs(math.log(s / raw)))
    return max(1, round(step)) if whole else float(f"{step:.1g}")
