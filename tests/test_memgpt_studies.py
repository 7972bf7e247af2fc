"""The what-if studies of the MemGPT notebook against the mechanisms they stand for."""

import pytest

from labkit import memgpt
from labkit import memgpt_studies as studies
from labkit.figures import memgpt as figures


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
