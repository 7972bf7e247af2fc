"""The recall study against its figures, and against a twin that follows one dialogue message by message."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from labkit.memgpt_recall import SYSTEMS, RecallSettings, draw_world, recall_curve, recall_study


def world_of(sessions, dialogues, seed, s):
    return draw_world(sessions, dialogues, seed, s.attributes, s.update, s.messages, s.facts, s.questions)


def accuracy(sessions, system, dialogues=2_000, seed=0, **changes):
    study = recall_study(sessions, RecallSettings(**changes), dialogues, seed)
    return study.set_index("system").loc[system, "accuracy"]


# --- a second way: one dialogue, one message at a time, with the same draws --------------------------


def follow(world, d, s):
    """System -> set of attributes answered with their latest value."""
    said = {int(world.position[f, d]): f for f in range(len(world.position))}
    window, last, summary, core = [], [], {}, {}
    archives = {"memgpt": [], "memgpt_no_warning": []}
    truth = {}
    for message in range(world.messages):
        window.append(message)
        last = (last + [message])[-s.window:]
        if message in said:
            f = said[message]
            a = int(world.attribute[f, d])
            truth[a] = f
            if a in core:
                core[a] = f
            elif s.core:
                if len(core) == s.core:
                    del core[next(iter(core))]
                core[a] = f
            pressure = len(window) >= round(s.warn * s.window, 6)
            for system, archive in archives.items():
                eager = pressure and system == "memgpt"
                if world.archive[f, d] < (s.archive_warned if eager else s.archive):
                    archive.append((a, f))
        if len(window) == s.window:
            flushed, window = window[: s.window // 2], window[s.window // 2 :]
            summary = {a: (f, age + 1) for a, (f, age) in summary.items() if world.keep[f, d] < s.keep ** (age + 1)}
            summary.update({int(world.attribute[said[m], d]): (said[m], 0) for m in flushed if m in said})

    def values(messages):
        return {int(world.attribute[said[m], d]): said[m] for m in messages if m in said}

    def fetch(archive, a):
        versions = [f for b, f in archive if b == a]
        if versions and world.find[a, d] < s.find:
            return versions[-1] if len(versions) == 1 or world.newest[a, d] < s.newest else versions[0]
        return truth[a] if world.recall[a, d] < s.recall else None

    answers = {"truncation": values(last), "summary": {a: f for a, (f, _) in summary.items()} | values(window)}
    for system, archive in archives.items():
        answers[system] = {a: fetch(archive, a) for a in truth} | core | values(window)
    return {name: {a for a, f in answer.items() if f == truth[a]} for name, answer in answers.items()}


chance = st.floats(0, 1)
any_settings = st.builds(
    RecallSettings, window=st.integers(2, 60), core=st.integers(0, 12), archive=chance, archive_warned=chance, warn=chance,
    keep=chance, find=chance, newest=chance, recall=chance, attributes=st.integers(1, 20), update=chance,
    messages=st.integers(3, 14), facts=st.integers(1, 3), questions=st.integers(1, 8),
)


@settings(max_examples=150, deadline=None)
@given(any_settings, st.integers(1, 15), st.integers(0, 10_000))
def test_agrees_with_the_twin(s, sessions, seed):
    world = world_of(sessions, 4, seed, s)
    for name, system in SYSTEMS.items():
        right = system(world, s)
        for d in range(4):
            mentioned = set(world.attribute[:, d].tolist())
            assert set(np.flatnonzero(right[:, d]).tolist()) & mentioned == follow(world, d, s)[name]


def test_the_study_is_the_mean_over_dialogues():
    s = RecallSettings(recall=0.4)
    world = world_of(12, 50, 3, s)
    study = recall_study(12, s, dialogues=50, seed=3).set_index("system")
    asked = [set(np.flatnonzero(world.asked[:, d]).tolist()) for d in range(50)]
    for name in SYSTEMS:
        shares = [len(follow(world, d, s)[name] & asked[d]) / len(asked[d]) for d in range(50)]
        assert study.loc[name, "accuracy"] == pytest.approx(np.mean(shares))
        assert study.loc[name, "standard_error"] == pytest.approx(np.std(shares, ddof=1) / 50**0.5)


# --- the world ---------------------------------------------------------------------------------------


def test_what_is_said():
    s = RecallSettings()
    world = world_of(40, 400, 0, s)
    session, place = world.position // 12, world.position % 12
    assert (np.bincount(session.ravel()) == 2 * 400).all()
    assert (np.diff(world.position, axis=0) > 0).all()
    assert np.bincount(place.ravel(), minlength=12) / place.size == pytest.approx(np.full(12, 1 / 12), abs=0.01)
    for line in world.attribute.T[:50].tolist():
        known = set()
        for attribute in line:  # new ones come in the order of their numbers, until all 30 are known
            assert attribute in known or attribute == len(known) < 30
            known.add(attribute)


def test_a_quarter_are_updates_and_every_mentioned_attribute_is_as_likely():
    world = world_of(10, 4_000, 1, RecallSettings())
    new = np.diff(np.maximum.accumulate(world.attribute, axis=0), axis=0) > 0
    assert 1 - new.mean() == pytest.approx(0.25, abs=0.01)
    updated = world.attribute[-1][~new[-1]] / world.attribute.max(axis=0)[~new[-1]]
    assert updated.mean() == pytest.approx(0.5, abs=0.03)


def test_what_is_asked():
    for sessions, seed in ((1, 0), (3, 1), (40, 2)):
        world = world_of(sessions, 500, seed, RecallSettings())
        mentioned = (world.latest >= 0).sum(axis=0)
        assert (world.asked.sum(axis=0) == np.minimum(mentioned, 6)).all()
        assert not (world.asked & (world.latest < 0)).any()
    assert world.asked.mean(axis=1) == pytest.approx(np.full(30, 0.2), abs=0.06)


def test_a_shorter_world_is_the_beginning_of_a_longer_one():
    short, long = (world_of(n, 30, 5, RecallSettings()) for n in (6, 20))
    for name in ("position", "attribute", "archive", "keep"):
        assert (getattr(short, name) == getattr(long, name)[:12]).all()
    assert (short.find == long.find).all()
    with pytest.raises(ValueError):
        short.find[0, 0] = 0.0


# --- the figures -------------------------------------------------------------------------------------

LENGTHS = (5, 10, 20, 40)
FIGURES = [
    ("truncation", {}, (0.771, 0.422, 0.218, 0.201)),
    ("summary", {}, (0.967, 0.830, 0.614, 0.506)),
    ("memgpt", {}, (0.983, 0.848, 0.790, 0.774)),
    ("memgpt_no_warning", {}, (0.984, 0.779, 0.660, 0.646)),
    ("memgpt", dict(archive=0.95), (0.995, 0.915, 0.880, 0.854)),
    ("memgpt", dict(core=16), (1.000, 0.990, 0.865, 0.860)),
    ("memgpt", dict(recall=0.7), (0.994, 0.933, 0.911, 0.851)),
    ("memgpt_no_warning", dict(recall=0.7), (0.993, 0.908, 0.853, 0.776)),
]
LECTURE = [  # of 100 dialogues, at 10, 20 and 40 sessions
    ("truncation", {}, (None, None, 0.183)),
    ("summary", {}, (0.843, None, 0.497)),
    ("memgpt", {}, (0.843, 0.800, 0.757)),
    ("memgpt_no_warning", {}, (0.758, None, None)),
    ("memgpt", dict(archive=0.95), (0.917, 0.898, 0.832)),
    ("memgpt", dict(core=16), (0.987, 0.853, 0.875)),
]


@pytest.mark.parametrize("system, changes, expected", FIGURES)
def test_accuracy_of_2000_dialogues(system, changes, expected):
    got = [accuracy(n, system, **changes) for n in LENGTHS]
    assert got == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("system, changes, expected", FIGURES)
def test_accuracy_of_100_dialogues(system, changes, expected):
    got = [accuracy(n, system, dialogues=100, **changes) for n in LENGTHS]
    assert got == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize("system, changes, expected", LECTURE)
def test_lecture_figures(system, changes, expected):
    for n, figure in zip(LENGTHS[1:], expected):
        if figure is not None:
            assert accuracy(n, system, **changes) == pytest.approx(figure, abs=0.05)


def test_the_warning_matters_and_recall_storage_makes_it_matter_less():
    for n in (10, 20, 40):
        gain = accuracy(n, "memgpt") - accuracy(n, "memgpt_no_warning")
        gain_with_recall = accuracy(n, "memgpt", recall=0.7) - accuracy(n, "memgpt_no_warning", recall=0.7)
        assert 0 < gain_with_recall < gain


# --- laws --------------------------------------------------------------------------------------------


def test_a_window_that_holds_everything_forgets_nothing():
    assert (recall_study(8, RecallSettings(window=97)).accuracy == 1).all()


def test_sure_storage_never_fails():
    for sure in (dict(archive=1.0, archive_warned=1.0, find=1.0, newest=1.0), dict(archive=0.0, archive_warned=0.0, recall=1.0)):
        assert accuracy(40, "memgpt", dialogues=50, **sure) == 1
    assert accuracy(40, "summary", dialogues=50, keep=1.0) == 1


@pytest.mark.parametrize("name, system", [("find", "memgpt"), ("newest", "memgpt"), ("recall", "memgpt"), ("keep", "summary")])
def test_a_better_chance_never_hurts(name, system):
    curve = [accuracy(25, system, dialogues=60, **{name: p}) for p in np.linspace(0, 1, 11)]
    assert (np.diff(curve) >= 0).all() and curve[0] < curve[-1]


def test_a_longer_window_never_hurts_truncation():
    curve = [accuracy(10, "truncation", dialogues=60, window=w) for w in range(2, 130, 8)]
    assert (np.diff(curve) >= 0).all()


def test_without_pressure_the_warning_changes_nothing():
    study = recall_study(20, RecallSettings(archive_warned=0.6)).set_index("system")
    assert study.loc["memgpt"].equals(study.loc["memgpt_no_warning"])


def test_same_seed_same_luck():
    assert recall_study(10, seed=4).equals(recall_study(10, seed=4))
    assert not recall_study(10, seed=4).equals(recall_study(10, seed=5))
    assert np.isnan(recall_study(10, dialogues=1).standard_error).all()


def test_the_curve_is_the_study_at_each_length():
    curve = recall_curve(sessions=(3, 12), dialogues=40, seed=2)
    assert list(curve.columns) == ["sessions", "system", "accuracy", "standard_error"]
    for n, part in curve.groupby("sessions"):
        assert part.drop(columns="sessions").reset_index(drop=True).equals(recall_study(n, dialogues=40, seed=2))


@pytest.mark.parametrize(
    "change",
    [dict(window=1), dict(window=40.0), dict(core=-1), dict(core=True), dict(facts=13), dict(messages=0), dict(questions=0),
     dict(attributes=0)]
    + [{chance.name: bad} for chance in fields(RecallSettings) if chance.type is float
       for bad in (-0.1, 1.1, float("nan"), "x", True)],
)
def test_impossible_settings_are_refused_by_name(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        replace(RecallSettings(), **change)


def test_impossible_arguments_are_refused_by_name():
    for bad in (dict(sessions=0), dict(sessions=2.5), dict(sessions=5, dialogues=0), dict(sessions=5, seed=-1)):
        with pytest.raises(ValueError, match=list(bad)[-1]):
            recall_study(**bad)
