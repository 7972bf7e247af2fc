"""Prompt order and trace replay against brute force and a second count by hand."""

from itertools import permutations

import numpy as np
import pytest

from labkit import cache_studies as studies
from labkit import prefix_cache
from labkit.figures import prefix_cache as cache_figures

# --- the order of a prompt


def test_part_stability_gives_the_best_of_all_orders():
    lasting = studies.part_stability()
    best = sorted(lasting, key=lasting.get, reverse=True)
    reuse = {order: studies.prompt_order(order).reuse for order in permutations(studies.PROMPT_PARTS)}
    top = max(reuse.values())
    assert [list(order) for order, value in reuse.items() if value == top] == [best]
    assert min(reuse, key=reuse.get)[0] == "time stamp"


def test_prompt_order_by_hand():
    """The hits again, from the versions alone: a part hits if it and all before it are as they were."""
    order = ["system", "history", "tools", "task", "preferences", "time stamp"]
    result = studies.prompt_order(order)
    requests = [(task, step) for task in range(studies.TASKS) for step in range(studies.STEPS)]
    expected = [0]
    for then, now in zip(requests, requests[1:]):
        hit = 0
        for part in (studies.PROMPT_PARTS[name] for name in order):
            if part.version(*then) != part.version(*now):
                break
            hit += min(part.length(then[1]), part.length(now[1]))
            if part.length(then[1]) != part.length(now[1]):
                break
        expected.append(hit)
    assert result.hit.tolist() == expected
    assert result.cached.sum(axis=1).tolist() == expected
    assert (result.cached <= result.tokens).all(axis=None)


def test_places_with_a_tie_keep_the_listed_order():
    assert list(studies.sort_prompt(1, 1, 1, 1, 1, 1).tokens) == list(studies.PROMPT_PARTS)
    for wrong in (["system"], [*studies.PROMPT_PARTS, "system"], ["a", "b", "c", "d", "e", "f"]):
        with pytest.raises(ValueError, match="once"):
            studies.prompt_order(wrong)


# --- the replay


def test_replay_at_a_capacity_and_on_the_curve():
    for kind, size in (("radix", 16), ("blocks", 16), ("blocks", 1_024)):
        result = studies.cache_replay(kind, 20_000, size)
        assert result.rate == result.rates.loc[20_000, kind] <= result.infinite
    trace = prefix_cache.replay(studies.sample_trace(), (None,)).iloc[0]
    assert studies.cache_replay("radix").infinite == pytest.approx(trace["token_hit_rate"], abs=0.001)  # at most n - 1
    table = cache_figures.table_replay(result)
    assert table.loc["20,000 tokens", "blocks of 1,024"] == table.loc["your cache", "blocks of 1,024"]


@pytest.mark.parametrize("wrong", [{"cache": "tree"}, {"block_size": 17}, {"capacity": 0}])
def test_replay_refuses(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        studies.cache_replay(**wrong)


def test_replay_names_the_bad_line(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text('{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [0]}\nnot json\n')
    with pytest.raises(ValueError, match="line 2"):
        studies.cache_replay(trace=path)


def test_steps_are_closed_areas_over_the_columns():
    corners = cache_figures._steps(np.array([0, 1]), np.array([2, 3]))
    assert corners[:, 0].tolist() == [0.5, 1.5, 1.5, 2.5, 2.5, 1.5, 1.5, 0.5]
    assert corners[:, 1].tolist() == [0, 0, 1, 1, 3, 3, 2, 2]


def test_results_print_in_a_line():
    texts = [repr(studies.sort_prompt()), repr(studies.cache_replay()), repr(studies.cache_replay("radix"))]
    assert all("\n" not in text and len(text) < 200 for text in texts)
    assert "0.0% of 114,300 tokens" in texts[0] and "blocks of 16" in texts[1] and "blocks" not in texts[2]


@pytest.mark.parametrize("call, says", [
    (lambda: studies.cache_replay(trace=[]), "trace must be the path of a file"),
    (lambda: studies.cache_replay(trace=""), "trace must be the path of a file"),
    (lambda: studies.cache_replay(cache=["radix"]), "cache must be one of"),
    (lambda: studies.sort_prompt(system=float("nan")), "place of system must be a number"),
    (lambda: studies.sort_prompt(task="first"), "place of task must be a number"),
    (lambda: studies.prompt_order(None), "order must have each of"),
])
def test_impossible_arguments_are_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()
