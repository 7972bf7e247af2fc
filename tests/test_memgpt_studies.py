"""The what-if studies of the MemGPT notebook against the mechanisms they stand for."""

import numpy as np
import pytest

from labkit import memgpt
from labkit import memgpt_studies as studies
from labkit.figures import memgpt as figures
from labkit.panel import Panel


# --- the main context


@pytest.mark.parametrize("step", [1, 13, 42, 500])
@pytest.mark.parametrize("window, evict", [(900, 0.5), (700, 0.1), (2_000, 0.9)])
def test_main_context_shows_what_the_agent_did(window, evict, step):
    result = studies.main_context(window=window, evict=evict, step=step)
    agent = memgpt.conversation_demo(window, 0.7, evict)
    assert result.step == min(step, len(agent.trace))
    assert result.trace.equals(agent.trace)
    assert (result.tokens.sum(axis=1) == agent.trace["prompt"]).all()
    table = figures.table_main_context(result)
    parts = table.loc[["system instructions", "working context", "recursive summary", "messages"]].sum()
    assert parts.to_list() == result.row[["prompt", "cached", "prefill"]].to_list() == table.iloc[0].to_list()


def test_main_context_refuses_a_step_below_one():
    with pytest.raises(ValueError, match="step"):
        studies.main_context(step=0)


def test_the_papers_models_at_zero():
    assert studies.papers_zero_levels() == {"GPT-3.5 Turbo": 1, "GPT-4": 3, "GPT-4 Turbo": 3}


# --- recall, prefill


def test_recall_curves_are_the_recall_study():
    result = studies.recall_curves(sessions=20, core=5, recall=0.7, dialogues=100)
    alone = memgpt.recall_study(20, memgpt.RecallSettings(core=5, recall=0.7), 100).set_index("system")
    for column, frame in (("accuracy", result.accuracy), ("standard_error", result.error)):
        assert frame.loc[20, list(memgpt.SYSTEMS)].to_list() == alone.loc[list(memgpt.SYSTEMS), column].to_list()
    with pytest.raises(ValueError, match="sessions=7"):
        studies.recall_curves(sessions=7)


@pytest.mark.parametrize("layout", memgpt.LAYOUTS)
def test_prefill_by_cause_is_the_serving_study(layout):
    result = studies.prefill_by_cause(window=6_000, evict=0.3, layout=layout)
    alone = memgpt.serve_session(memgpt.even_session(), memgpt.ServeSettings(window=6_000, evict=0.3, layout=layout))
    assert list(result.results) == [layout] and result.chosen == alone
    table = figures.table_prefill(result)[layout]
    assert table.iloc[:4].sum() == table["prefill, all"] == alone.prefill_tokens
    everything = studies.prefill_by_cause(window=6_000, evict=0.3, layout=layout, compare=True)
    assert list(everything.results) == list(memgpt.LAYOUTS) and everything.chosen == alone
    assert 0 < result.seconds[layout] < result.seconds_uncached[layout]


def test_the_order_of_front_and_end_flips_near_083():
    def dearer(p_save):
        front, end = (studies.prefill_by_cause(p_save=p_save, layout=name).chosen for name in ("front", "end"))
        return front.prefill_tokens > end.prefill_tokens

    assert [dearer(p) for p in (0.0, 0.5, 0.75, 0.82, 0.85, 1.0)] == [False] * 4 + [True] * 2


# --- what the panels show, and what they keep for a prediction


def test_the_agent_without_warning_is_left_out_until_asked_for():
    hidden, shown = (studies.recall_curves(dialogues=50, without_warning=asked) for asked in (False, True))
    assert "memgpt_no_warning" not in hidden.accuracy and "without" not in figures.alt_recall(hidden)
    assert hidden.accuracy.equals(shown.accuracy[list(hidden.accuracy)])
    assert [*figures.table_recall(shown).index] == [*figures.table_recall(hidden).index, "MemGPT without warning"]


def test_legends_name_what_is_drawn():
    panel = Panel(studies.recall_curves, figures.draw_recall, figures.table_recall, dialogues=[50], without_warning=False)
    (legend,) = panel._canvas.figure.legends
    assert "MemGPT without warning" not in [text.get_text() for text in legend.get_texts()]
    panel.set(without_warning=True)
    (legend,) = panel._canvas.figure.legends
    assert "MemGPT without warning" in [text.get_text() for text in legend.get_texts()]
    panel = Panel(studies.prefill_by_cause, figures.draw_prefill, figures.table_prefill, layout=list(memgpt.LAYOUTS))
    for layout, cause in (("front", "behind an edit"), ("end", "working context moved")):
        panel.set(layout=layout)
        (legend,) = panel._canvas.figure.legends
        named = {text.get_text() for text in legend.get_texts()}
        assert named & {"behind an edit", "working context moved"} == {cause}


def test_bars_stand_on_their_calls():
    corners = figures._bars(np.array([3, 7]), np.array([10, 20]))
    assert corners.tolist() == [[[2.5, 0], [2.5, 10], [3.5, 10], [3.5, 0]], [[6.5, 0], [6.5, 20], [7.5, 20], [7.5, 0]]]


@pytest.mark.parametrize("call, says", [
    (lambda: studies.main_context(step=3), "call 3 of 42"),
    (lambda: studies.recall_curves(dialogues=50), "after 10 sessions: memgpt 0."),
    (lambda: studies.prefill_by_cause(), "507,840 tokens"),
    (lambda: memgpt.nested_lookup(p=0.5), "in one call 50%, 25%"),
])
def test_results_print_in_a_line(call, says):
    text = repr(call())
    assert says in text and "\n" not in text and len(text) < 200


@pytest.mark.parametrize("call, says", [
    (lambda: studies.main_context(window=[900]), "window"), (lambda: studies.main_context(warn=[0.7]), "warn"),
    (lambda: studies.prefill_by_cause(p_save=[0.5]), "p_save"), (lambda: studies.prefill_by_cause(compare="no"), "compare must be True or False"),
    (lambda: studies.recall_curves(without_warning="no"), "without_warning must be True or False"),
    (lambda: studies.recall_curves(sessions=np.array([5, 10])), "sessions=.* must be one of"),
    (lambda: memgpt.recall_study(5, settings=None), "settings must be RecallSettings"),
    (lambda: memgpt.recall_curve(sessions=()), "sessions must be a list"),
    (lambda: memgpt.james_edit(settings={}), "settings must be AgentSettings"),
    (lambda: memgpt.nested_lookup(seed=None), "seed"), (lambda: memgpt.paged_search(seed=-1), "seed"),
    (lambda: memgpt.paged_search(patience=3), "patience must be a list"),
])
def test_impossible_arguments_are_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()
