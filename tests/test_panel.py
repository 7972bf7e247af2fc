"""The panel without a browser: faces, moves, errors, trainings, predictions, blitting."""

import asyncio
import io
from dataclasses import dataclass
from fractions import Fraction

import ipywidgets as widgets
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from labkit.controls import as_control, choice, human, log_slider, percent, powers, slider, stops, switch
from labkit.figures import style
from labkit.panel import Panel, Prediction
from labkit.tables import number_text, read_number

X = np.linspace(0, 1, 50)


@dataclass
class Progress:
    step: int
    y: np.ndarray


def simulate(slope=2, offset=0.5, bad=False):
    if bad:
        raise ValueError("slope does not suit this offset")
    return slope * X + offset


def train(steps=4, rate=0.5):
    for step in range(1, steps + 1):
        yield Progress(step, step * rate * X)


def draw(fig, result):
    ax = fig.subplots()
    (curve,) = ax.plot(X, X, **style.line(0) | {"marker": ""})
    ax.set(xlim=(0, 1), ylim=(0, 12), xlabel="x", ylabel="y (s)")

    def update(result):
        curve.set_ydata(getattr(result, "y", result))
        return [curve]

    return update


def table(result):
    y = getattr(result, "y", result)
    return pd.Series({"last (s)": y[-1], "mean (s)": y.mean()}, name="value")


@pytest.fixture
def panel():
    return Panel(simulate, draw, table, title="A line", slope=(1, 10, 2), offset=(0.0, 1.0, 0.5), bad=False)


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)))


def test_three_faces(panel):
    data, metadata = panel._repr_mimebundle_()
    assert {"application/vnd.jupyter.widget-view+json", "image/png", "text/plain"} <= set(data)
    assert data["text/plain"] == panel.text
    assert metadata["image/png"]["width"] < pixels(data["image/png"]).shape[1]  # sharper than the page
    assert panel.text.splitlines() == [
        "A line", "          value", "last (s)  2.500", "mean (s)  1.500", "simulate(slope=2, offset=0.5, bad=False)"]


def test_a_move_shows_the_difference(panel):
    before = panel.png
    panel.set(slope=4)
    assert panel.params == {"slope": 4, "offset": 0.5, "bad": False}
    assert "4.500 (was 2.500)" in panel.text and "simulate(slope=4, offset=0.5, bad=False)" in panel.text
    assert panel.png != before and "4.500" in panel.screen.alt
    panel.reset()
    assert "was" not in panel.text and panel.png == before


def test_widget_moves_like_set(panel):
    panel.inputs["slope"].value = 4
    text, png = panel.text, panel.png
    panel.reset()
    panel.set(slope=4)
    assert (panel.text, panel.png) == (text, png)


def test_an_error_keeps_the_last_picture_and_the_next_move_works(panel):
    panel.set(slope=3)
    png, result = panel.png, panel.result
    panel.set(bad=True)
    assert panel.png == png and panel.result is result and isinstance(panel.error, ValueError)
    assert "does not suit" in panel.screen.status and panel.screen.failed and "error: slope does not suit" in panel.text
    panel.set(bad=False)
    assert panel.error is None and not panel.screen.failed and "error" not in panel.text


def test_an_error_in_table_or_alt_keeps_the_last_picture():
    for broken in ("table", "alt"):
        def fail(result, broken=broken):
            if result[-1] > 5:
                raise RuntimeError(f"{broken} broke")
            return table(result) if broken == "table" else "fine"

        panel = Panel(simulate, draw, **{"table": table, broken: fail}, slope=(1, 10, 2))
        png, result = panel.png, panel.result
        panel.set(slope=9)
        assert panel.png == png and panel.result is result and f"{broken} broke" in panel.text
        panel.set(slope=2)
        assert panel.error is None


@pytest.mark.parametrize(
    "values, message",
    [({"slopes": 1}, "no control slopes; this panel has slope, offset, bad"), ({"slope": 11}, "slope: 11 is outside 1 to 10"),
     ({"slope": 2.5}, "whole number"), ({"slope": True}, "whole number"), ({"slope": "3"}, "whole number"),
     ({"offset": float("nan")}, "a number from"), ({"bad": 1}, "True or False")],
)
def test_set_refuses_impossible_values_and_moves_nothing(panel, values, message):
    with pytest.raises(ValueError, match=message):
        panel.set(**({"offset": 0.9} | values if "offset" not in values else values))
    assert panel.params == {"slope": 2, "offset": 0.5, "bad": False}


def test_a_value_between_two_stops(panel):
    panel.set(offset=0.123)
    assert panel.params["offset"] == 0.123 and panel.inputs["offset"].label == "12.3 %"


def test_controls_must_be_parameters():
    with pytest.raises(ValueError, match="'slop'.*it takes slope, offset, bad"):
        Panel(simulate, draw, table, slop=(1, 2, 1))
    with pytest.raises(ValueError, match="control 'slope'.*low <= start"):
        Panel(simulate, draw, table, slope=(1, 2, 3))
    with pytest.raises(ValueError, match="control 'slope'.*write"):
        Panel(simulate, draw, table, slope="wide")


def test_blitting_paints_what_a_full_draw_paints(panel):
    panel.set(slope=7)
    fresh = Panel(simulate, draw, table, slope=(1, 10, 7), offset=(0.0, 1.0, 0.5))
    assert np.array_equal(pixels(panel.png), pixels(fresh.png))


def test_changed_limits_are_drawn_again():
    def zoom(fig, result):
        update = draw(fig, result)

        def rescale(result):
            fig.axes[0].set_ylim(0, result[-1])
            fig.axes[0].set_title(f"up to {result[-1]:.0f}")
            return update(result)

        return rescale

    panel = Panel(simulate, zoom, table, slope=(1, 10, 2))
    panel.set(slope=9)
    fresh = Panel(simulate, zoom, table, slope=(1, 10, 9))
    assert np.array_equal(pixels(panel.png), pixels(fresh.png))


def test_a_draw_without_update_is_redrawn_each_time():
    panel = Panel(simulate, lambda fig, result: lambda r: fig.clear() or fig.subplots().plot(X, r) and None, table, slope=(1, 10, 2))
    before = panel.png
    panel.set(slope=5)
    assert panel.png != before


def test_a_training_runs_to_its_end_at_once_when_made_or_set():
    panel = Panel(train, draw, table, steps=(2, 8, 4), rate=(0.0, 1.0, 0.5))
    assert panel.result.step == 4
    panel.set(steps=8)
    assert panel.result.step == 8


def test_a_training_after_a_slider_move_is_a_task_and_the_newest_wins(monkeypatch):
    monkeypatch.setattr("labkit.panel._REDRAW_S", 0.0)
    seen, closed = [], []

    def slow(steps=4):
        try:
            for step in range(1, steps + 1):
                yield Progress(step, step * X)
        finally:
            closed.append(steps)

    async def story():
        panel = Panel(slow, draw, table, steps=(2, 9, 4))
        closed.clear()
        panel.screen.observe(lambda change: seen.append(change.new), names="status")
        panel.inputs["steps"].value = 9
        first = panel.task
        for _ in range(4):
            await asyncio.sleep(0)
        panel.inputs["steps"].value = 6
        await asyncio.gather(first, panel.task, return_exceptions=True)
        return panel, first

    panel, first = asyncio.run(story())
    assert first.cancelled() and panel.result.step == 6 and closed == [9, 6]
    assert any("of 9" in status and "left" in status for status in seen) and seen[-1].startswith("done")


def test_a_training_that_fails_midway_says_so():
    def breaks(steps=4):
        yield Progress(1, X)
        if steps > 4:
            raise FloatingPointError("it diverged at step 2")

    async def story():
        panel = Panel(breaks, draw, table, steps=(2, 9, 4))
        panel.inputs["steps"].value = 9
        await panel.task
        return panel

    panel = asyncio.run(story())
    assert "it diverged" in panel.screen.status and panel.screen.failed


def test_prediction_stands_beside_the_truth():
    panel = Panel(simulate, draw, table, slope=(1, 10, 2), predict=Prediction("last (s) at slope 10?", lambda y: y[-1], {"slope": 10}))
    assert "predicted" not in panel.text
    panel.predict("4.5")
    assert "you predicted" in panel.text and "last (s) at slope 10?" in panel.text and "10.5" in panel.text
    for wrong in ("many", "", None):
        with pytest.raises(ValueError, match="not a number"):
            panel.predict(wrong)
    with pytest.raises(ValueError, match="no prediction"):
        Panel(simulate, draw, table, slope=(1, 10, 2)).predict(3)


def test_the_prediction_box_survives_a_word(panel):
    panel = Panel(simulate, draw, table, slope=(1, 10, 2), predict=Prediction("last?", lambda y: y[-1]))
    field, commit = panel.widget.children[1].children
    field.value = "a lot"
    commit.click()
    assert panel.screen.failed and "ValueError" not in panel.screen.status
    field.value = "40 %"
    commit.click()
    assert "you predicted 0.4" in panel.text and not panel.screen.failed
    panel = Panel(simulate, draw, table, slope=(1, 10, 2), predict=Prediction("last (%)?", lambda y: y[-1]))
    panel.predict("４０ %")
    assert "you predicted 40" in panel.text


def test_a_second_class_predicts_anew():
    panel = Panel(simulate, draw, table, slope=(1, 10, 2), predict=Prediction("last?", lambda y: y[-1]))
    field, commit = panel.widget.children[1].children
    field.value = "7"
    commit.click()
    field.value = "3"
    commit.click()
    assert "you predicted 3" in panel.text


def test_tables_of_any_shape():
    frame = pd.DataFrame({"users": [4, 364], "share": [0.125, 0.5], "fits": [True, False]}, index=["now", "then"])
    frame.attrs["format"] = {"share": "{:.2f}"}
    panel = Panel(lambda n=1: frame.copy() if n == 1 else frame.iloc[:1], lambda fig, r: None, n=(1, 3, 1))
    assert panel.text.splitlines()[:3] == ["      users  share  fits", "now       4   0.12   yes", "then    364   0.50    no"]
    panel.set(n=2)
    assert "then" not in panel.text and panel.error is None
    with pytest.raises(TypeError, match="DataFrame or Series"):
        Panel(lambda n=1: 3, lambda fig, r: None, n=(1, 3, 1))


def test_each_slider_says_what_it_holds(panel):
    for child in panel.inputs.values():
        assert child.description
    assert isinstance(panel.inputs["bad"], widgets.Checkbox)


def test_controls():
    assert [human(v) for v in (0, 5, 950, 1500, 128_000, 2.4e6, 0.123)] == ["0", "5", "950", "1.5k", "128k", "2.4M", "0.123"]
    assert percent(0.155) == "15.5 %"
    assert as_control("w", (3_000, 32_000, 8_000)).ends[0] == 3000
    scale = log_slider(250, 128_000, 4_000)
    assert scale.default == 4000 and scale.check(4321) == 4321
    assert powers(1, 64, 8).ends == (1, 8, 64)
    assert stops([1, 3, 9], 3).check(9) == 9
    assert choice({"one": 1, "two": 2}).ends == (1, 2) and switch(True).ends == (False, True)
    for wrong in (lambda: slider(1, 1, 1), lambda: slider(0, 1, "a"), lambda: log_slider(0, 5, 1), lambda: powers(1, 6, 2),
                  lambda: stops([1], 2), lambda: choice([]), lambda: choice(["a"], "b"), lambda: switch(1),
                  lambda: stops([1, 2], 1).check(3), lambda: choice(["a"]).check("b")):
        with pytest.raises(ValueError):
            wrong()


@pytest.mark.parametrize("value, text", [(0, "0"), (1234567, "1,234,567"), (2.5, "2.500"), (26.94, "26.94"), (1e-5, "1e-05"),
                                         (0.1234567, "0.1235"), (True, "yes"), (None, "-"), (float("nan"), "-"), (123456.7, "123,457")])
def testnumber_text(value, text):
    assert number_text(value) == text


@pytest.mark.parametrize("text, value", [("12", 12), ("1,500", 1500), ("1.5k", 1500), ("40 %", 0.4), (".5", 0.5), ("-3", -3), ("107x", 107)])
def testread_number(text, value):
    assert read_number(text) == pytest.approx(value)


# ---- what careless teachers and nasty students do

ODD_VALUES = {"inf": float("inf"), "-inf": -float("inf"), "nan": float("nan"), "none": None, "na": pd.NA, "nat": pd.NaT, "truth": np.True_,
              "words": "<b>x</b>", "list": [1, 2], "array": np.array([1, 2]), "huge": 1e300, "fraction": Fraction(1, 3)}


def test_any_value_can_stand_in_a_table():
    written = {name: number_text(value) for name, value in ODD_VALUES.items()}
    assert written == {"inf": "inf", "-inf": "-inf", "nan": "-", "none": "-", "na": "-", "nat": "-", "truth": "yes", "words": "<b>x</b>",
                       "list": "[1, 2]", "array": "[1 2]", "huge": "1e+300", "fraction": "0.3333"}
    frame = pd.DataFrame({"now": list(ODD_VALUES.values())}, index=list(ODD_VALUES))
    frame.attrs["format"] = {"now": "{:.1f}"}
    text = Panel(simulate, draw, lambda result: frame, slope=(1, 10, 2)).text
    assert "inf" in text and all(name in text for name in ODD_VALUES)


def test_labels_that_stand_twice_are_compared_by_place():
    panel = Panel(simulate, draw, lambda y: pd.DataFrame({"y": [y[-1], 1.0, y[0]]}, index=["row", "row", "row"]), slope=(1, 10, 2))
    panel.set(slope=4)
    assert [line.split()[1:] for line in panel.text.splitlines()[1:4]] == [["4.500", "(was", "2.500)"], ["1"], ["0.5000"]]
    with pytest.raises(ValueError, match="two columns of one name"):
        Panel(simulate, draw, lambda y: pd.DataFrame([[1, 2]], columns=["a", "a"]), slope=(1, 10, 2))


def test_a_title_is_text_and_not_markup():
    title = "<script>x</script> & " + "long " * 300
    panel = Panel(simulate, draw, table, title=title, slope=(1, 10, 2))
    assert "&lt;script&gt;" in panel.widget.children[0].value and "<script" not in panel.widget.children[0].value
    assert panel.text.startswith(title)
    assert Panel(simulate, draw, table, title=None, slope=(1, 10, 2)).title == ""


@pytest.mark.parametrize("alt", [None, 5])
def test_alt_must_be_a_text(alt):
    with pytest.raises(TypeError, match="alt must give a text"):
        Panel(simulate, draw, table, alt=lambda result: alt, slope=(1, 10, 2))


class Stop(BaseException):
    pass


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, Stop])
@pytest.mark.parametrize("training", [False, True])
def test_an_interrupt_is_not_swallowed_and_the_panel_lives_on(stop, training):
    def plain(slope=2):
        if slope == 3:
            raise stop
        return slope * X

    def partials(slope=2):
        yield X
        yield plain(slope)

    panel = Panel(partials if training else plain, draw, table, slope=(1, 10, 2))
    png = panel.png
    with pytest.raises(stop):
        panel.set(slope=3)
    assert panel.png == png and panel.error is None
    panel.set(slope=4)
    assert panel.result[-1] == 4 and panel.error is None


def test_a_move_made_by_the_simulation_itself_is_the_newer_one():
    made = []

    def restless(slope=2):
        if made and slope == 3:
            made[0].set(slope=4)
        return slope * X

    made.append(Panel(restless, draw, table, slope=(1, 10, 2)))
    made[0].set(slope=3)
    assert made[0].params == {"slope": 4} and made[0].result[-1] == 4 and "4 (was 2)" in made[0].text


def test_a_finished_training_is_no_task():
    async def story():
        panel = Panel(train, draw, table, steps=(2, 9, 4))
        panel.inputs["steps"].value = 6
        await panel.task
        return panel

    panel = asyncio.run(story())
    assert panel.task is None and panel.result.step == 6


def test_a_training_without_a_result():
    def nothing(steps=4):
        yield from ()

    with pytest.raises(ValueError, match="gave no result"):
        Panel(nothing, draw, table, steps=(2, 9, 4))


@pytest.mark.parametrize("guess", ["nan", "inf", float("nan"), float("inf"), "1e999", "9" * 400, True, None, [], "", "1_0", "1/4", "5 GB", "--5"])
def test_a_prediction_must_be_a_finite_number(guess):
    panel = Panel(simulate, draw, table, slope=(1, 10, 2), predict=Prediction("last (s)?", lambda y: y[-1]))
    with pytest.raises(ValueError, match="number"):
        panel.predict(guess)
    assert "predicted" not in panel.text


@pytest.mark.parametrize("text, value", [("1,5", 1.5), ("1,500", 1500), ("−2", -2), ("1.5 K", 1500), (".5", 0.5), ("5.", 5), ("1e3", 1000),
                                         (np.int64(5), 5), (np.float32(0.5), 0.5), ("1_000", 1000), ("40 %", 0.4)])
def test_numbers_as_people_write_them(text, value):
    assert read_number(text) == pytest.approx(value)


def test_a_truth_that_fails_leaves_the_panel_whole():
    panel = Panel(simulate, draw, table, slope=(1, 10, 2), predict=Prediction("last (s)?", lambda y: y["nothing"]))
    with pytest.raises(IndexError):
        panel.predict(5)
    panel.set(slope=4)
    assert panel.error is None and "predicted" not in panel.text
    with pytest.raises(ValueError, match="no such parameter"):
        Panel(simulate, draw, table, slope=(1, 10, 2), predict=Prediction("q?", lambda y: y[-1], {"slop": 3}))


@pytest.mark.parametrize("spec", [(np.int64(1), np.int64(100), np.int64(5)), (np.int8(0), np.int8(100), np.int8(5)), [np.int64(5), np.int64(7)],
                                  powers(np.int64(1), np.int64(64), np.int64(4)), stops(np.array([4, 5, 6]), np.int64(5)),
                                  log_slider(np.int32(1), np.int32(1000), np.int32(10))])
def test_numpy_numbers_become_plain_ones(spec):
    panel = Panel(simulate, draw, table, slope=spec)
    for value in panel.controls["slope"].ends:
        panel.set(slope=np.int64(value))
        assert type(panel.params["slope"]) is int and "np." not in panel.call


@pytest.mark.parametrize("spec", [(0, 10, 5, 0), (0, 10, 5, -1), (0, 10, 5, float("nan")), (0, 10, 5, "1"), (0, 10, 5, True), (0, 10, 5, 1e-9),
                                  (0, 10**9, 5, 1), (0, float("inf"), 1), (5, 5, 5), ("a", "b", "c"), [float("nan")], [np.array([1, 2])], []])
def test_an_impossible_control_is_refused_by_name(spec):
    with pytest.raises(ValueError, match="control 'slope'"):
        as_control("slope", spec)


def test_a_tiny_range_keeps_its_steps():
    values = [value for _, value in slider(0.0, 1e-12, 0.0).build("x", 0.0).options]
    assert len(values) == 101 and values[1] == pytest.approx(1e-14)


def test_reset_shows_the_start_again_without_running_it():
    runs = []

    def counted(slope=2):
        runs.append(slope)
        return simulate(slope)

    panel = Panel(counted, draw, table, slope=(1, 10, 2))
    start = panel.png, panel.text
    panel.set(slope=7)
    assert panel.text != start[1] and runs == [2, 7]
    panel.reset()
    assert (panel.png, panel.text) == start and runs == [2, 7] and panel.screen.status == "back at the start"


@pytest.mark.parametrize("make, says", [
    (lambda: log_slider(1, 10, 5, per_decade=1e300), "10,000 stops"),
    (lambda: log_slider(1, 10, 5, per_decade=-1), "per_decade must be a number of stops above 0"),
    (lambda: log_slider(1e-320, 10, 5), "a positive low end"),
    (lambda: stops(None, 1), "stops must be a list"),
    (lambda: choice("abc"), "options must be a list"),
    (lambda: slider(0, 1, 0, label=5), "a label must be a text"),
    (lambda: slider(0, 1, 0, text="x"), "text must be a function"),
])
def test_a_control_that_cannot_be_is_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()


@pytest.mark.parametrize("pieces, says", [
    ({"simulate": None}, "simulate must be a function"), ({"draw": None}, "draw must be a function"), ({"table": 5}, "table must be a function"),
    ({"alt": "a text"}, "alt must be a function"), ({"predict": "How many?"}, "predict must be a Prediction"),
    ({"draw": lambda fig, result: 5}, "draw must return a function"),
    ({"draw": lambda fig, result: lambda result: fig.subplots().plot([0, 1])[0]}, "update must return a list of the artists"),
])
def test_a_panel_of_wrong_pieces_says_which(pieces, says):
    given = {"simulate": simulate, "draw": draw, "table": table} | pieces
    with pytest.raises(ValueError, match=says):
        Panel(given.pop("simulate"), given.pop("draw"), given.pop("table"), slope=(1, 10, 2), **given)


@pytest.mark.parametrize("wrong, says", [({"question": None}, "question must be a text"), ({"truth": 5}, "truth must be a function"), ({"at": 5}, "at must be a dict")])
def test_a_prediction_of_wrong_pieces_says_which(wrong, says):
    with pytest.raises(ValueError, match=says):
        Prediction(**{"question": "How many?", "truth": len} | wrong)


def test_a_truth_that_is_no_number_is_said_and_nothing_is_committed():
    asks = Panel(simulate, draw, table, predict=Prediction("How many?", lambda result: "many"), slope=(1, 10, 2))
    before = asks.text
    with pytest.raises(ValueError, match="'How many\\?' must be a number, but its function gives 'many'"):
        asks.predict(3)
    assert asks.text == before


@pytest.mark.parametrize("text, question, number", [
    ("900 ms", "TTFT (ms)?", 900), ("900ms", "TTFT (ms)?", 900), ("1.5k tokens", "tokens of prefill?", 1_500), ("3 points", "points behind?", 3),
    ("40 %", "share (%)?", 40), ("40 %", "share?", 0.4), ("12k tokens/s", "tokens/s at 120k?", 12_000), ("5 k", "the k of RAG?", 5_000)])
def test_a_prediction_may_carry_the_unit_that_is_asked_for(text, question, number):
    assert read_number(text, asked=question) == pytest.approx(number)


@pytest.mark.parametrize("text", ["0.9 s", "ms", "", "s ms", "900 ms ms2", True, None])
def test_no_other_unit_is_taken(text):
    with pytest.raises(ValueError, match="is not a number; write one such as 12"):
        read_number(text, asked="TTFT (ms)?")


def test_the_old_value_stands_beside_numbers_not_beside_sentences():
    words = {1: "the first of all the reasons", 2: "another reason, as long as that"}
    panel = Panel(lambda n=1: n, lambda fig, result: None, lambda n: pd.DataFrame({"n": [n], "why": [words[n]]}, index=["row"]), n=(1, 2, 1))
    panel.set(n=2)
    assert "2 (was 1)" in panel.text and "was the first" not in panel.text
    _, number, why = panel.screen.table["rows"][0]
    assert number["changed"] and why["changed"] and number["was"] == "1" and why["was"] == ""
