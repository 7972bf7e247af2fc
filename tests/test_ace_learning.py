"""The learning study against a twin with sets of lessons, and the statements that must come out of it."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from labkit import ace
from labkit.ace_learners import ARMS, WAYS, Condition, simulate
from labkit.ace_learning import final_accuracy
from labkit.ace_serving import step_seconds
from labkit.ace_world import LearningSettings, draw_world


SMALL = LearningSettings(lessons=8, kinds=6, steps=60, train=10, epochs=2, long=4, survival=0.8, collapse=0.2, left=0.2,
                         brief=2, record=30, budget=1_500, dilution=900, prune_votes=1, misread=0.2, summary_harm=0.1)


# --- a second way: one world, lesson by lesson -----------------------------------------------------------------------


def twin(c, world, s, arm):
    """Rows of accuracy, tokens, lessons, wrong, written, collapses; (name, wrong) stands for a lesson."""
    L, way = s.lessons, WAYS[c.way]
    room = s.budget // s.bullet
    room = min(room, s.brief) if way.short else room
    learn, misread = (s.learn, s.misread) if c.reflector else (s.learn_alone, s.misread_alone)
    held, records, collapsed, rows = {}, 0, False, []  # lesson -> [score, votes, born]
    kept = None

    def column(lesson):
        return lesson[0] + L * lesson[1]

    for t in range(len(world.need)):
        training = t < world.training
        learning = ARMS[arm][0 if training else 1]
        if learning is None:
            continue
        tokens = s.bullet * len(held) + records
        use = 1 / (1 + tokens / s.dilution)
        gains = sum((-s.harm if wrong else s.gain) * world.weight[0, name] for name, wrong in held)
        accuracy = s.base + use * gains - s.summary_harm * collapsed
        hit = 0 if kept is None else 500 + min(kept, rows[-1][1])
        needs = [name for name in world.need[t, 0] if name < 2 * L]
        right, wrong = ([name for name in needs if (name, flag) in held] for flag in (False, True))
        p = s.base + use * (s.gain * len(right) - s.harm * len(wrong)) / len(needs) - s.summary_harm * collapsed
        number = {flag: sum(lesson[1] == flag for lesson in held) for flag in (False, True)}
        row = [accuracy, tokens, number[False], number[True], 0, False, hit]
        rows.append(row)
        kept = tokens
        if not learning:
            continue

        success, lie = world.success[t, 0] < p, world.lie[t, 0] >= c.reliability
        seen = not success if lie else success
        for flag, names in ((False, right), (True, wrong)):
            for name in names:
                held[name, flag][0] += 1 if seen else -1
                held[name, flag][1] += 1
        before = dict(held)
        if way.rewrites:
            length = min(1, len(held) / s.long)
            row[5] = world.collapse[t, 0] < s.collapse * length
            chance = s.left if row[5] else 1 - (1 - s.survival) * length
            held = {lesson: v for lesson, v in held.items() if world.survive[t, 0, column(lesson)] < chance}
        mistaken = bool(lie or world.misread[t, 0] < misread)
        missing = [name for name in needs if (name, mistaken) not in before]
        added = way.learns and not seen and world.learn[t, 0] < learn and bool(missing)
        if added:
            held[missing[int(world.which[t, 0] * len(missing))], mistaken] = [0, 0, t]
        lost = []
        if s.prune and not way.piles:
            for flag in (False, True):
                for name in needs:
                    if (name, flag) in held and held[name, flag][0] <= 0 and held[name, flag][1] >= s.prune_votes:
                        lost.append(held.pop((name, flag))[2])
        if added and len(held) > room:
            lowest = min(held, key=lambda lesson: (held[lesson][0], held[lesson][2]))
            lost.append(held.pop(lowest)[2])
        collapsed = bool((collapsed or row[5]) and len(held) < s.regrown)
        if way.piles:
            full = records + s.record
            records = min(full, max(s.budget - s.bullet * len(held), 0))
            kept = kept if records == full else 0
        for born in lost:
            kept = min(kept, s.bullet * sum(v[2] < born for v in held.values()))
        if way.rewrites:
            kept = 0
        row[4] = s.bullet * len(held) if way.rewrites else s.bullet * added
    return rows


@pytest.mark.parametrize("arm", ARMS)
def test_agrees_with_the_twin(arm):
    settings = [SMALL, replace(SMALL, prune=True), replace(SMALL, budget=120)]
    for seed in (1, 2):
        conditions = [Condition(way, f, s, reflector) for way in WAYS for s in settings
                      for f, reflector in ((1.0, True), (0.7, False))]
        result = simulate(conditions, arm, [seed])
        world = draw_world((seed,), *(getattr(SMALL, n) for n in ("lessons", "kinds", "zipf", "steps", "train", "epochs")))
        for at, c in enumerate(conditions):
            rows = np.array(twin(c, world, c.settings, arm), dtype=float)
            for place, name in enumerate(("accuracy", "tokens", "lessons", "wrong", "written", "collapses")):
                np.testing.assert_allclose(result[name][:, at, 0], rows[:, place], err_msg=f"{name} of {c}")
            if c.way != "none" and not c.settings.prune:
                seconds = step_seconds(800 + rows[:, 1], rows[:, 6], rows[:, 4])
                np.testing.assert_allclose(result["gpu_seconds"][:, at, 0], seconds, err_msg=f"seconds of {c}")


# --- limits ----------------------------------------------------------------------------------------------------------


def test_no_adaptation_stays_where_it_is():
    study = ace.learning_study("none", 0.6)
    assert (study["accuracy"] == LearningSettings().base).all() and study["tokens"].max() == 0


def test_a_perfect_rewrite_is_appending_at_another_price():
    s = LearningSettings(survival=1, collapse=0)
    result = simulate([Condition("append", 0.9, s), Condition("rewrite", 0.9, s)])
    for name in ("accuracy", "tokens", "lessons", "wrong"):
        np.testing.assert_array_equal(result[name][:, 0], result[name][:, 1])
    cost = result["gpu_seconds"].sum(axis=0).mean(axis=1)
    assert cost[1] > 2 * cost[0]


def test_perfect_feedback_read_rightly_gives_no_wrong_lesson():
    result = simulate([Condition(way, 1.0, LearningSettings(misread=0)) for way in WAYS])
    assert result["wrong"].max() == 0
    result = simulate([Condition("append", 0.0, LearningSettings(misread=0))])
    assert result["lessons"].max() == 0


def test_sizes_and_chances_keep_their_bounds():
    s = LearningSettings(budget=400)
    result = simulate([Condition(way, 0.8, s) for way in WAYS], "offline, then online", 6)
    tokens = dict(zip(WAYS, result["tokens"].max(axis=(0, 2))))
    assert tokens == dict(none=0, append=400, rewrite=400, brief=200, pile=400)
    assert ((0 <= result["accuracy"]) & (result["accuracy"] <= 1)).all()
    weight = draw_world((0, 1), 60, 60, 0.8, 30, 5, 1).weight
    np.testing.assert_allclose(weight.sum(axis=1), 1)


def test_the_luck_does_not_depend_on_what_is_studied():
    alone = ace.learning_study("append", 0.9, seeds=[3])
    among = ace.learning_study(list(WAYS), 0.9, seeds=[3])
    pd.testing.assert_frame_equal(alone, among[among["way"] == "append"].reset_index(drop=True))
    longer = LearningSettings(epochs=1)
    pd.testing.assert_frame_equal(alone, ace.learning_study("append", 0.9, longer, seeds=[3]))


# --- what the study must show, over 24 seeds -------------------------------------------------------------------------


def test_appending_with_reliable_feedback_rises_and_holds():
    study = ace.learning_study("append", 1.0)
    decades = study["accuracy"].to_numpy().reshape(-1, 30).mean(axis=1)
    assert (np.diff(decades) > 0).all()  # decade by decade
    assert study["low"].iloc[-1] > LearningSettings().base + 0.15
    result = simulate([Condition("append", 1.0)])
    assert (np.diff(result["lessons"], axis=0) >= 0).all()


def test_rewriting_saws_and_ends_below_appending():
    result = simulate([Condition("append"), Condition("rewrite")])
    append, rewrite = final_accuracy(result)
    gap = append - rewrite
    assert (gap > 0).all() and np.percentile(gap, 10) > 0.04
    fall = -np.diff(result["lessons"], axis=0)
    assert fall[:, 0].max() <= 0
    assert result["collapses"][:, 1].sum(axis=0).mean() > 1  # collapses a run
    assert (fall[:, 1] > 0).sum(axis=0).mean() > 10  # steps at which lessons get lost
    after = result["accuracy"][1:, 1][result["collapses"][:-1, 1] > 0]
    assert np.median(after) < LearningSettings().base  # as in the paper's figure 2, below no adaptation


def test_where_rewriting_catches_up():
    sweep = ace.survival_sweep().set_index(["collapse", "survival"])["gap"]
    assert sweep[0.0, 1.0] == 0
    assert -0.01 < sweep[0.0, 0.999] < 0 and sweep[0.0, 0.995] < -0.02  # within a point only from 0.999 on
    assert (sweep.groupby("collapse").diff().dropna() > -0.01).all()  # better survival, smaller gap
    assert sweep[1 / 240].max() < -0.02 and sweep[1 / 60].max() < -0.08  # no survival makes up for collapses


def test_below_some_reliability_every_way_ends_below_no_adaptation_and_pruning_moves_it():
    ways = ("append", "rewrite", "brief", "pile")
    base = LearningSettings().base
    sweep = ace.reliability_sweep(ways=ways)
    point = ace.break_even(sweep, base)
    assert (sweep[sweep["reliability"] <= 0.6].groupby("way")["accuracy"].max() < base).all()
    assert (sweep[sweep["reliability"] >= 0.8].groupby("way")["accuracy"].min() > base).all()
    pruned = ace.break_even(ace.reliability_sweep(ways=("append", "rewrite"), settings=LearningSettings(prune=True)), base)
    assert 0.70 < point["append"] < 0.78 and 0.61 < pruned["append"] < 0.69
    assert pruned["rewrite"] < point["rewrite"] - 0.05


def test_a_budget_that_is_too_small_loses_lessons():
    sweep = ace.budget_sweep()
    assert (sweep["tokens"] <= sweep["budget"]).all()
    assert sweep["lessons"].is_monotonic_increasing and sweep["accuracy"].is_monotonic_increasing
    assert sweep["accuracy"].iloc[0] < sweep["accuracy"].iloc[-1] - 0.1


def test_brevity_costs_with_reliable_feedback_and_protects_without():
    good, bad = (final_accuracy(simulate([Condition("append", f), Condition("brief", f)])).mean(axis=1) for f in (1.0, 0.75))
    assert good[0] > good[1] + 0.1 and bad[0] < bad[1]


def test_a_context_that_is_never_cleaned_costs_more_and_gives_less():
    study = ace.learning_study(["append", "pile"]).groupby("way")
    last, cost = study["accuracy"].last(), study["gpu_seconds"].sum()
    assert last["pile"] < last["append"] - 0.05 and cost["pile"] > 1.4 * cost["append"]


def test_the_arms_come_in_the_order_of_the_paper():
    arms = ace.learning_arms().pivot(index="arm", columns="feedback", values="accuracy")
    labels = arms["labels"]
    assert labels["no adaptation"] < labels["offline, one epoch, no reflector"] < labels["offline, one epoch"] < labels["offline"]
    assert labels["online"] < labels["offline, then online"]
    assert labels["online, rewriting"] < labels["online"]
    learning = arms.drop(index="no adaptation")
    assert (learning["labels"] > learning["execution"]).all() and (learning["execution"] > learning["own judgement"]).all()


# --- what comes out, and what is refused -----------------------------------------------------------------------------


def test_columns_of_a_study():
    study = ace.learning_study(["append", "rewrite"], arm="offline, then online", settings=SMALL, seeds=5)
    assert list(study.columns) == ["way", "step", "training", "accuracy", "low", "high", "example", "tokens", "lessons",
                                   "wrong", "collapses", "written", "gpu_seconds"]
    assert len(study) == 2 * 80 and study["training"].sum() == 2 * 20
    assert (study["low"] <= study["high"]).all() and study["collapses"].ge(0).all()
    assert ace.learning_study("append", arm="offline", settings=SMALL, seeds=1)["lessons"].iloc[20:].nunique() == 1


def test_break_even_of_simple_lines():
    def sweep(y):
        return pd.DataFrame({"way": "append", "reliability": [0.5, 0.6, 0.7], "accuracy": y})

    assert ace.break_even(sweep([0.4, 0.5, 0.7]), 0.6)["append"] == pytest.approx(0.65)
    assert ace.break_even(sweep([0.7, 0.7, 0.7]), 0.6)["append"] == 0.5
    assert np.isnan(ace.break_even(sweep([0.7, 0.7, 0.5]), 0.6)["append"])


@pytest.mark.parametrize("changes", [
    dict(lessons=2), dict(kinds=0), dict(zipf=-1), dict(zipf=float("nan")), dict(steps=1.5), dict(base=1.2), dict(gain=0.5),
    dict(harm=0.7), dict(learn=True), dict(survival=-0.1), dict(collapse=2), dict(budget=-1), dict(bullet=0),
    dict(dilution=0), dict(prune=1), dict(long=0), dict(brief="5"),
])  # fmt: skip
def test_impossible_settings(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        LearningSettings(**changes)


def test_impossible_studies():
    with pytest.raises(ValueError, match="way must be one of none, append"):
        ace.learning_study("prepend")
    with pytest.raises(ValueError, match="reliability"):
        ace.learning_study("append", 1.1)
    with pytest.raises(ValueError, match="arm must be one of online"):
        ace.learning_study("append", arm="both")
    with pytest.raises(ValueError, match="seeds"):
        ace.learning_study("append", seeds=0)
    with pytest.raises(ValueError, match="share lessons"):
        simulate([Condition(), Condition(settings=SMALL)])
