"""The studies behind the mem0 notebook: the store step by step, the choices of a panel, the paper's arithmetic."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit import mem0_paper, mem0_scale, mem0_store, mem0_studies, memory_systems
from labkit.conversation import Conversation
from labkit.figures import mem0 as figures
from labkit.figures import mem0_store as store_figures
from labkit.figures.canvas import Canvas
from labkit.memory_systems import Mem0, Mem0Graph, Rag

TINY = Path(__file__).parent / "data" / "locomo_tiny.json"
HATE = "love, then hate (5 messages)"
MEM0 = "mem0 (DELETE, then ADD)"


# --- the store, step by step ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 7])
def test_what_a_question_needs_at_the_end_is_what_the_world_says(seed):
    world = Conversation.generate(seed)
    for question in range(len(world.question_kind)):
        np.testing.assert_array_equal(mem0_store.needed_at(world, question, world.turns - 1), world.needs[:, question])


@pytest.mark.parametrize("system", mem0_store.SYSTEMS)
def test_asked_at_the_end_a_step_agrees_with_the_system(system):
    for ask in mem0_store.ASKS:
        step = mem0_store.step_through(system=system, messages=mem0_store.LONGEST, ask=ask)
        world = mem0_store.story("a life in 200 messages")
        memory = mem0_store.SYSTEMS[system](**mem0_store.PERFECT).build(world)
        question = mem0_store.find_question(world, ask)
        assert step.right == bool(memory.answers().right[question]), ask
        assert (step.question, step.answer) == (world.questions.text[question], world.questions.answer[question])
        assert step.write_calls == memory.write_calls and len(step.log) == len(memory.log)


def test_a_question_changes_its_answer_as_the_life_goes_on():
    answers = [mem0_store.step_through(messages=n, ask="favourite dish now").answer for n in range(1, 201)]
    assert list(dict.fromkeys(answers)) == ["", "polenta", "curry"]
    before = [mem0_store.step_through(messages=n, ask="favourite dish before").answer for n in range(1, 201)]
    assert list(dict.fromkeys(before)) == ["", "polenta"]


def test_failures_of_real_systems_show_in_the_store():
    def held(failure, messages, system=MEM0):
        return mem0_store.step_through(HATE, system, failure, messages, "favourite dish now")

    assert held("none", 4).right and held("none", 5).store.value.tolist() == ["anything but pizza", "Ghent"]
    only_deleted = held("a contradiction only deletes", 5)
    assert only_deleted.store.empty and only_deleted.log.note.tolist().count("only deleted") == 2
    assert held("said twice deletes", 3).store.value.tolist() == ["Lisbon"]
    unknown = held("an update names an unknown id", 5)
    assert unknown.unknown_ids == 2 and len(unknown.store) == 4
    assert not held("an update names an unknown id", 5, "mem0 (UPDATE in place)").right


def test_evidence_is_marked_in_dialogue_store_and_graph():
    step = mem0_store.step_through(messages=165)
    assert step.right and step.answer == "Penang"
    assert set(step.dialogue.turn[step.dialogue.evidence]) == {160, 161}
    assert set(step.store.value[step.store.evidence & step.store.read]) == {"Farid Moreno", "Penang"}
    assert set(step.edges.target[step.edges.evidence]) == {"Farid Moreno", "Penang"}
    old = step.edges[step.edges.target == "Yusuf Yilmaz"]
    assert not old.valid.any() and len(old) == 1


@pytest.mark.parametrize("wrong", [{"story": "x"}, {"system": "x"}, {"failure": "x"}, {"ask": "x"}, {"messages": 0}])
def test_a_wrong_step_is_named(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        mem0_store.step_through(**wrong)


# --- the studies ---------------------------------------------------------------------------------------------------


def test_scores_are_those_of_evaluate():
    systems = {"a": Mem0(k=3), "b": Rag(256, 2)}
    expected = memory_systems.evaluate(systems, [Conversation.generate(seed) for seed in range(4)])
    found = mem0_studies.scores(systems, 4)
    assert found.drop(columns="system").equals(expected.drop(columns="system")) and found.system.tolist() == expected.system.tolist()


def test_rag_outcomes_and_budget():
    study = mem0_studies.rag_budget(256, 8)
    assert study.outcomes.sum(axis=1).tolist() == pytest.approx([1] * 4)
    assert study.outcomes.right["all"] == pytest.approx(study.grid.accuracy[256, 8]) == study.budget[256] == study.same_k[256]
    assert study.budget.index.tolist() == [64, 128, 256, 512, 1024, 2048]
    assert study.paper.loc[256, 2] == pytest.approx(0.6097)
    with pytest.raises(ValueError, match="chunk=100"):
        mem0_studies.rag_budget(100)


def test_errors_alone_lie_on_their_curves():
    study = mem0_studies.write_errors(recall=0.7, known_mistake=0.6, conflict_missed=0.0, alpha=0.5, conversations=5)
    for name, (probability, value) in study.at.items():
        assert study.alone[name][probability] == value
    assert study.alpha[0.5] == study.full[1]
    assert study.together["all"]["mem0 graph"] <= min(value for _, value in study.at.values())


def test_doubling_is_what_panel_2_shows():
    gain = mem0_studies.doubling(5)
    before, after = (mem0_studies.compare("all kinds", page=page, conversations=5) for page in (8, 16))
    assert gain.accuracy["page"] == after.accuracy["all"]["MemGPT style"] - before.accuracy["all"]["MemGPT style"]
    assert gain.tokens["page"] == after.costs.tokens["MemGPT style"] - before.costs.tokens["MemGPT style"]


def test_a_missed_conflict_keeps_the_past_of_mem0():
    study = mem0_studies.write_errors(conflict_missed=1.0, conversations=10).together
    assert study["previous"]["mem0"] == study["previous"]["mem0 graph"] > 0.6


@given(*[st.floats(0, 100)] * 4)
def test_cheaper_range_by_brute_force(once, again, other_once, other_again):
    low, high = mem0_scale.cheaper_range(once, again, other_once, other_again)
    for n in (0.5, 3.0, 20.0, 1_000.0):
        margin = once + n * again - other_once - n * other_again
        if abs(margin) > 1e-6 * (1 + once + other_once + n * (again + other_again)):
            assert (low <= n <= high) == (margin < 0)


@pytest.mark.parametrize("cached", [False, True])
def test_budget_agrees_with_the_systems(cached):
    results = mem0_studies.scores(mem0_scale.READ_WRITE_SYSTEMS)
    expected = memory_systems.reads_per_write(results, (1, 100), prefix_cached=cached).set_index(["system", "questions"])
    for unit, column in (("GPU seconds", "gpu_seconds"), ("tokens of prefill", "prefill")):
        curves = mem0_scale.read_write_budget(prefix_cached=cached, unit=unit).curves
        for system in curves:
            assert curves.loc[[1, 100], system].tolist() == pytest.approx(expected.loc[system][column].tolist())


def test_graph_calls_cost_the_graph_alone():
    plain, counted = (mem0_scale.read_write_budget(graph_calls=calls).table.once for calls in (False, True))
    assert counted["mem0 graph"] > 2 * plain["mem0 graph"]
    assert counted.drop("mem0 graph").equals(plain.drop("mem0 graph"))


def test_what_does_not_fit_on_the_gpu_is_never_and_always_cheaper():
    assert mem0_scale.cheaper_range(1.0, np.inf, 0.0, 5.0) == (np.inf, np.inf)
    assert mem0_scale.cheaper_range(1.0, 5.0, 0.0, np.inf) == (0.0, np.inf)
    for cached in (False, True):
        table = figures.table_budget(mem0_scale.read_write_budget(prefix_cached=cached, model="Llama-2-7B", gpu="L4"))
        assert table["GPU s each"]["full context"] == "does not fit"
        assert table["cheaper than full context"]["mem0"] == "always"


# --- the pictures --------------------------------------------------------------------------------------------------


def painted(draw, *results):
    """The figure after these results, the newest last."""
    canvas = Canvas(draw, results[0], (9.8, 4.6))
    for result in results:
        canvas.paint(result)
    return canvas.figure


def legend_of(figure):
    return {text.get_text() for legend in figure.legends for text in legend.get_texts()}


def test_a_legend_lists_what_is_drawn():
    few, all_kinds = mem0_studies.compare(conversations=2), mem0_studies.compare("all kinds", conversations=2)
    costs = {"writing (once)", "reading (per question)"}
    assert legend_of(painted(figures.draw_comparison, few)) == {"current"} | costs
    assert legend_of(painted(figures.draw_comparison, few, all_kinds)) == {"current", "previous", "two-hop", "all questions"} | costs
    assert legend_of(painted(figures.draw_comparison, all_kinds, few)) == {"current"} | costs


def test_what_is_to_be_predicted_is_not_drawn_before():
    rag = painted(figures.draw_rag, mem0_studies.rag_budget(others=False))
    assert not {"chunks of 128", "lecture notes' RAG", "same budget as yours"} & legend_of(rag)
    assert "87%" not in figures.alt_rag(mem0_studies.rag_budget(others=False)) and "87%" in figures.alt_rag(mem0_studies.rag_budget())
    for alpha in (0.0, 0.4, 1.5):
        result = mem0_studies.write_errors(alpha=alpha, conversations=2)
        line = next(line for line in painted(figures.draw_write_errors, result).axes[1].lines if line.get_label() == "full context")
        assert max(line.get_xdata()) == alpha and line.get_ydata()[-1] == result.full[1]


@pytest.mark.parametrize(("low", "high", "words"), [
    (0.0, np.inf, "always"), (np.inf, np.inf, "never"), (10.4, np.inf, "from 11 on"), (0.0, 10.5, "up to 10"), (0.0, 0.9, "never")])
def test_cheaper_in_words(low, high, words):
    assert figures.cheaper(low, high) == words


def test_a_quick_text_stands_where_matplotlib_writes_it():
    def ink(kind):
        figure = Canvas(lambda fig, _: None, None, (3, 1)).figure
        figure.add_artist(kind(0.2, 0.5, "Otto\nGent", va="center", transform=figure.transFigure, fontsize=12, color="red"))
        figure.canvas.draw()
        red = np.asarray(figure.canvas.buffer_rgba())[..., 1] < 128
        rows, columns = np.nonzero(red)
        return np.array([rows.min(), rows.max(), columns.min(), columns.max()]), red.sum()

    (quick, quick_ink), (plain, plain_ink) = ink(store_figures.QuickText), ink(store_figures.Text)
    assert abs(quick - plain).max() <= 6 and quick_ink == pytest.approx(plain_ink, rel=0.2)


def test_a_result_is_told_in_a_line():
    grown = mem0_scale.Lengths(pd.DataFrame({"mem0": [0.6, 0.5]}, index=[600, 4_800]), "accuracy", "all")
    results = (mem0_store.step_through(), mem0_studies.compare(conversations=2), mem0_studies.rag_budget(),
               mem0_studies.write_errors(conversations=2), grown, mem0_scale.read_write_budget())
    for result in results:
        said = repr(result)
        assert said.startswith(type(result).__name__) and len(said) < 250 and "\n" not in said


# --- the paper's tables --------------------------------------------------------------------------------------------


def test_one_numbering_of_24_makes_the_tables_agree():
    fits = [numbering for numbering in mem0_paper.all_numberings() if mem0_paper.worst_misfit(numbering) <= 0.01]
    assert fits == [{"single-hop": 1, "multi-hop": 3, "open-domain": 4, "temporal": 2}]
    assert mem0_paper.weighted_overall().weighted["Mem0"] == 62.14
    assert len(mem0_paper.judge_scores().dropna()) == 6


def test_an_incomplete_numbering_is_refused():
    with pytest.raises(ValueError, match="number of its own"):
        mem0_paper.weighted_overall({"single-hop": 1, "multi-hop": 1, "open-domain": 4, "temporal": 2})


def test_word_overlap_rewards_the_wrong_month():
    truth = "Alice was born in March"
    assert mem0_paper.word_f1("Alice was born in July", truth) == 0.8 > mem0_paper.word_f1("March", truth)
    assert mem0_paper.word_f1(truth, truth) == 1


def test_locomo_report_with_and_without_a_file():
    assert mem0_paper.locomo_report().count(".json") == 1
    said = mem0_paper.locomo_report(TINY, sizes=((16, 1), (32, 2)), embed=lambda texts: np.array([[len(text), 1.0] for text in texts]))
    assert "2 dialogues" in said and "16 x 1" in said and "2 split" in said


def test_the_lecture_run_errs_one_part_at_a_time():
    assert mem0_studies.lecture("perfect") == 1
    assert mem0_studies.LECTURE_SYSTEMS["recall 0.7"] == Mem0Graph(recall=0.7, known_mistake=0.0, conflict_missed=0.0)
