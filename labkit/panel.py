"""A panel: controls, one picture, one table.  It knows nothing about memory; it only wires.

    Panel(simulate, draw, table, window=(3_000, 32_000, 8_000), evict=(0.1, 0.9, 0.5))

* ``simulate(window=..., evict=...)`` returns a result; or it is a generator of partial results, the last of which is final;
* ``draw(fig, result)`` draws once and returns ``update(result)``, which moves artists and returns those it moved;
* ``table(result)`` returns the numbers, a DataFrame or a Series.

A panel has three faces: live controls (Jupyter), a PNG (GitHub, print) and a text table (tests, screen readers).

Why it is built this way.  Drawing axes and text costs 50 ms or more, moving a line and encoding the picture under 10.  So the
artists that `update` returns are kept out of the background, which is drawn again only when limits or texts change.
"""

from __future__ import annotations

import asyncio
import inspect
import numbers
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from labkit.figures.canvas import Canvas
from labkit.controls import as_control, human
from labkit.panel_page import Screen, assemble
from labkit.tables import as_frame, as_text, number_text, read_number

_LONGEST_WAS = 20  # characters: of a number its old value is shown, of a sentence not
_REDRAW_S = 0.12  # a training redraws this often: quick enough to look alive, slow enough to leave time for the work


@dataclass(frozen=True)
class Prediction:
    """A number that the student commits before looking.

    Attributes
    ----------
    question : what to predict, with its unit.
    truth : function of a result that gives the true number.
    at : the parameters at which the question is asked, where they differ from the panel's start.
    """

    question: str
    truth: Callable[[Any], float]
    at: dict | None = None

    def __post_init__(self):
        if not isinstance(self.question, str):
            raise ValueError(f"question must be a text, not {self.question!r}")
        if not callable(self.truth):
            raise ValueError(f"truth must be a function of a result that gives a number, not {self.truth!r}")
        if not isinstance(self.at, (dict, type(None))):
            raise ValueError(f"at must be a dict of parameters, or None, not {self.at!r}")


class Panel:
    """Controls that re-run a simulation, with its picture and its table.

    Parameters
    ----------
    simulate : callable
        Takes the controls' values as keywords.  A generator function is trained live: see the module's text.
    draw : callable(fig, result) -> update
        ``update(result)`` returns the artists it changed; None asks for a full redraw each time.
    table : callable(result) -> DataFrame or Series, optional
        Without it the result itself must be one.  ``frame.attrs["format"] = {column: "{:.1f}"}`` sets digits.
    title : str
        Stands above the controls.
    alt : callable(result) -> str, optional
        What the picture shows now, in a sentence, for those who cannot see it.  By default title and first numbers.
    predict : Prediction, optional
        Asks for a prediction before the first move; truth and prediction are then shown side by side.
    call : str, optional
        The function's name in the line that the sliders stand for; by default the name of `simulate`.
    size : (float, float)
        Width and height of the picture in inches of 96 page pixels.
    **controls
        One control a parameter of `simulate`; see `labkit.controls`.

    Attributes
    ----------
    params : dict, the controls' values.  inputs : dict, their widgets.  result : the newest result.  text : the text face.  png : the picture.
    error : the exception of the last move, or None.  task : the running training, or None.

    Raises
    ------
    ValueError
        If a control is not understood or is no parameter of `simulate`.
    """

    def __init__(self, simulate, draw, table=None, *, title="", alt=None, predict=None, call=None, size=(9.8, 4.2), **controls):
        self._simulate, self._table, self._alt, self._predict = simulate, table or (lambda result: result), alt, predict
        self.title, self._call = str(title or ""), call or _call_name(simulate)
        self.controls = {name: as_control(name, spec) for name, spec in controls.items()}
        _check_pieces(simulate=simulate, draw=draw, table=self._table, alt=alt)
        if predict is not None and not isinstance(predict, Prediction):
            raise ValueError(f"predict must be a Prediction, as Prediction('How many?', lambda result: ...), not {predict!r}")
        _check_parameters(simulate, {**self.controls, **((predict and predict.at) or {})})
        self.error = self.task = self._guess = None
        self._muted, self._moves = False, 0
        self.inputs = {name: c.build(c.label or name.replace("_", " "), c.default) for name, c in self.controls.items()}
        self.result = self._start = self._last(simulate(**self.params))
        self._defaults = self._frame = as_frame(self._table(self.result))
        self._canvas = Canvas(draw, self.result, size)
        self.screen = Screen(width=round(96 * size[0]))
        self.widget = assemble(self, predict and predict.question)
        self._show(self.result)
        for name, control in self.inputs.items():
            control.observe(self._moved, names="value")

    # -- what a student or a test calls ----------------------------------------------------------------------------

    @property
    def params(self) -> dict:
        """The controls' values by name."""
        return {name: control.value for name, control in self.inputs.items()}

    @property
    def png(self) -> bytes:
        """The picture as it stands."""
        return self.screen.png

    @property
    def text(self) -> str:
        """The text face: title, table (beside each changed number its value at the start), call."""
        header, rows = self._cells()
        lines = [[*header], *([c if isinstance(c, str) else f"{c['text']} (was {c['was']})" if c.get("was") else c["text"]
                              for c in row] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*lines)]
        text = [self.title] if self.title else []
        text += ["  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:]))]).rstrip() for row in lines]
        if self.error is not None:
            text.append(f"error: {self.error}")
        if self._guess is not None:
            text.append(": ".join(self._prediction()))
        return "\n".join([*text, self.call])

    @property
    def prediction(self) -> str:
        """The student's number beside the true one, in words, and where it holds; empty before one is committed."""
        if self._guess is None:
            return ""
        unit = " %" if "(%)" in self._predict.question else ""
        at = ", ".join(f"{name}={value!r}" for name, value in (self._predict.at or {}).items())
        return (f"you predicted {number_text(self._guess)}{unit}, it is {number_text(self._truth)}{unit}" + (f" at {at}" if at else ""))

    @property
    def call(self) -> str:
        """The call that the controls stand for, ready to paste into a cell."""
        return f"{self._call}({', '.join(f'{name}={value!r}' for name, value in self.params.items())})"

    def set(self, **values) -> None:
        """Move controls from code: the same path as a slider move, except that a training runs to its end at once.

        Raises ValueError for an unknown control or a value out of its range (nothing is moved then).  An error inside the
        simulation is shown in the panel and kept in `error`, as after a slider move.
        """
        unknown = set(values) - set(self.inputs)
        if unknown:
            raise ValueError(f"no control {', '.join(sorted(unknown))}; this panel has {', '.join(self.inputs)}")
        checked = {}
        for name, value in values.items():
            try:
                checked[name] = self.controls[name].check(value)
            except ValueError as problem:
                raise ValueError(f"{name}: {problem}") from None
        self._put(checked)
        self._run(live=False)

    def reset(self) -> None:
        """Every control back to its start; what was shown there is kept, so a training does not run again."""
        self._put({name: control.default for name, control in self.controls.items()})
        self._run(live=True, simulate=lambda **_: self._start)

    def predict(self, guess) -> None:
        """Commit a prediction (a number, or text such as "1.5k" or "40 %"); shown beside the truth from then on.

        Raises ValueError if the panel asks for none or `guess` is not a number.
        """
        if self._predict is None:
            raise ValueError("this panel asks for no prediction")
        guess = read_number(guess, asked=self._predict.question)
        at = {name: control.default for name, control in self.controls.items()} | (self._predict.at or {})
        truth = self._predict.truth(self._last(self._simulate(**at)))
        truth = truth.item() if hasattr(truth, "item") and not getattr(truth, "shape", ()) else truth
        if not isinstance(truth, numbers.Real):
            raise ValueError(f"the truth of {self._predict.question!r} must be a number, but its function gives {truth!r:.60}")
        truth = float(truth)
        self._guess, self._truth = guess, truth  # both or, where the truth fails, neither
        self.screen.table = self._screen_table()

    def _repr_mimebundle_(self, include=None, exclude=None):
        data = {"text/plain": self.text, "image/png": self.png}
        data |= self.widget._repr_mimebundle_() | {"text/plain": self.text}
        return data, {"image/png": {"width": self.screen.width, "alt": self.screen.alt}}

    # -- one move --------------------------------------------------------------------------------------------------

    def _moved(self, change):
        if not self._muted:
            self._run(live=True)

    def _put(self, values):
        self._muted = True
        try:
            for name, value in values.items():
                self.controls[name].put(self.inputs[name], value)
        finally:
            self._muted = False

    def _run(self, live, simulate=None):
        if self.task is not None:
            self.task.cancel()  # the newest value wins
            self.task = None
        self._moves += 1
        started, move = time.perf_counter(), self._moves
        try:
            outcome = (simulate or self._simulate)(**self.params)
            if inspect.isgenerator(outcome) and live and _loop_runs():
                self.task = asyncio.get_running_loop().create_task(self._follow(outcome, self.params))
                return
            outcome = self._last(outcome)
            if move == self._moves:  # else the simulation itself moved a control, and that move is the newer one
                self._show(outcome, "back at the start" if simulate else f"simulated in {1000 * (time.perf_counter() - started):.0f} ms")
        except Exception as problem:  # an exception in a callback would vanish unseen
            self._fail(problem)

    async def _follow(self, partials, params):
        """Show a training as it goes: a redraw now and then, and room for the next slider move in between."""
        started = drawn = time.perf_counter()
        result = None
        try:
            for result in partials:
                now = time.perf_counter()
                if now - drawn >= _REDRAW_S:
                    self._show(result, _progress(result, params, now - started))
                    drawn = time.perf_counter()
                await asyncio.sleep(0)
            if result is None:
                raise ValueError("the simulation gave no result")
            self._show(result, f"done in {time.perf_counter() - started:.1f} s")
        except Exception as problem:
            self._fail(problem)
        finally:
            partials.close()
            if self.task is asyncio.current_task():
                self.task = None

    @staticmethod
    def _last(outcome):
        if not inspect.isgenerator(outcome):
            return outcome
        result = None
        for result in outcome:
            pass
        if result is None:
            raise ValueError("the simulation gave no result")
        return result

    def _show(self, result, status=""):
        """Picture, table and alternative text change together or, if one of them fails, not at all."""
        frame, before = as_frame(self._table(result)), (self.result, self.error, self._frame)
        png = self._canvas.paint(result)
        self.result, self.error, self._frame = result, None, frame
        try:
            alt = self._describe()
        except Exception:
            self.result, self.error, self._frame = before
            raise
        with self.screen.hold_sync():
            self.screen.png, self.screen.alt, self.screen.table = png, alt, self._screen_table()
            self.screen.status, self.screen.failed, self.screen.call = status, False, self.call

    def _fail(self, problem):
        self.error = problem
        with self.screen.hold_sync():
            self.screen.status, self.screen.failed = f"{type(problem).__name__}: {problem} (the last good picture is kept)", True
            self.screen.call = self.call

    # -- faces -----------------------------------------------------------------------------------------------------

    def _describe(self):
        if self._alt is not None:
            said = self._alt(self.result)
            if not isinstance(said, str):
                raise TypeError(f"alt must give a text, not {type(said).__name__}")
            return said
        header, rows = self._cells()
        said = [f"{row[0]}: " + ", ".join(f"{h} {c['text']}" for h, c in zip(header[1:], row[1:])) for row in rows[:6]]
        return " ".join([self.title.rstrip(".:") + "." if self.title else "", *(s + "." for s in said)]).strip()

    def _cells(self):
        """Header and rows of the table as text; a cell that differs from its value at the start carries that too."""
        now, was = as_text(self._frame), as_text(self._defaults)
        same = now.index.equals(was.index)  # then by place: labels may stand there twice
        header = [str(now.index.name or ""), *map(str, now.columns)]
        rows = []
        for place, (label, values) in enumerate(zip(now.index, now.itertuples(index=False))):
            row = [str(label)]
            for column, value in zip(now.columns, values):
                known = column in was.columns and (same or (was.index.is_unique and label in was.index))
                old = (was[column].iat[place] if same else was.at[label, column]) if known else value
                row.append({"text": value, "was": old if old != value and len(old) <= _LONGEST_WAS else "", "changed": old != value})
            rows.append(row)
        return header, rows

    def _screen_table(self):
        header, rows = self._cells()
        return {"header": header, "rows": rows, "prediction": self._prediction()}

    def _prediction(self):
        """The question, and the student's number beside the true one; nothing before one is committed."""
        return [self._predict.question, self.prediction] if self._guess is not None else []


# -- small helpers -------------------------------------------------------------------------------------------------


def _check_parameters(simulate, controls):
    accepted = inspect.signature(simulate).parameters
    if any(p.kind is p.VAR_KEYWORD for p in accepted.values()):
        return
    for name in controls:
        if name not in accepted:
            raise ValueError(f"control {name!r}: {_call_name(simulate)} has no such parameter; it takes {', '.join(accepted)}")


def _check_pieces(**pieces):
    for name, piece in pieces.items():
        if not callable(piece) and not (piece is None and name == "alt"):
            raise ValueError(f"{name} must be a function, not {piece!r:.60}; the text of Panel says what it takes and gives")


def _call_name(function):
    module = getattr(function, "__module__", "__main__") or "__main__"
    name = getattr(function, "__name__", type(function).__name__)
    return f"{module.rsplit('.', 1)[-1]}.{name}" if module.startswith("labkit.") else name


def _progress(result, params, seconds):
    step, steps = getattr(result, "step", None), getattr(result, "steps", params.get("steps"))
    if not step or not steps:
        return f"running, {seconds:.1f} s"
    left = seconds * max(steps - step, 0) / step
    return f"step {human(step)} of {human(steps)} ({100 * step / steps:.0f} %), about {left:.1f} s left"


def _loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
