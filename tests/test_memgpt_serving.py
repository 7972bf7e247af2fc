"""The serving study against its exact figures, and against a twin that compares token by token."""

import doctest
import json
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from labkit import kv_cost, memgpt
from labkit.memgpt_serving import (
    CAUSES, LAYOUTS, ServeSettings, even_session, gpu_seconds, load_session, random_session, save_session, serve_session,
)


# --- a second way: prompts as lists of token identities, the longest common prefix really compared ---


class DoesNotFit(Exception):
    pass


def twin(session, s):
    """Counters, prefill by cause and a row a call, by building every prompt from its tokens."""
    names = count()

    def fresh(n):
        return [next(names) for _ in range(n)]

    system, working, summary, queue = fresh(s.system), fresh(s.working), [], []
    memory = working  # what an up-to-date working context would read
    cached, rows = None, []
    warned_since_eviction = False
    counts = dict(calls=0, evictions=0, edits=0, searches=0, warnings=0, prompt_tokens=0)
    prefill = dict(new=0, edit=0, evict=0, moved=0)

    def parts():
        messages = [token for message in queue for token in message]
        if s.layout == "end":
            return [("system", system), ("summary", summary), ("messages", messages), ("working", working)]
        return [("system", system), ("working", working), ("summary", summary), ("messages", messages)]

    def tokens():
        return [token for _, part in parts() for token in part]

    def call(turn):
        nonlocal cached, summary, working, warned_since_eviction
        warned = evicted = False
        if s.layout != "append":
            working = memory
        if len(tokens()) > s.warn * s.window and not len(tokens()) > s.window and not warned_since_eviction:
            queue.append(fresh(s.warning))
            warned_since_eviction = warned = True
            counts["warnings"] += 1
        if len(tokens()) > s.window:
            while len(queue) > 1 and not len(tokens()) <= (1 - s.evict) * s.window:
                del queue[0]
            summary, working, warned_since_eviction, evicted = fresh(s.summary), memory, False, True
            counts["evictions"] += 1
            if len(tokens()) > s.window:
                raise DoesNotFit(turn)
        prompt = tokens()
        labels = [name for name, part in parts() for _ in part]
        hit = 0
        if cached is not None:
            hit = next((i for i, (a, b) in enumerate(zip(prompt, cached)) if a != b), min(len(prompt), len(cached)))
        broken = labels[hit] if hit < len(prompt) else "messages"
        if cached is None:
            cause = "new"
        elif s.layout == "end":
            cause = "evict" if evicted else "moved"
        elif broken == "working":
            cause = "edit" if s.layout == "front" else "evict"
        else:
            cause = "evict" if evicted else "new"
        for label in labels[hit:]:
            prefill[("moved" if label == "working" else "new") if cause == "moved" else cause] += 1
        counts["calls"] += 1
        counts["prompt_tokens"] += len(prompt)
        rows.append((turn, len(prompt), hit, len(prompt) - hit, cause))
        cached = prompt
        return warned

    def write(n):  # by the model
        nonlocal cached
        queue.append(fresh(n))
        if s.credit_output:
            cached = cached + queue[-1]

    def edit(turn):
        nonlocal memory
        counts["edits"] += 1
        write(s.call)
        queue.append(fresh(s.result))
        memory = fresh(s.working)
        if s.layout == "append":
            queue.append(fresh(s.note))
        return call(turn)

    for turn, entry in enumerate(session):
        queue.append(fresh(entry["user"]))
        warned = [call(turn)]
        if entry["hits"] > 0:
            counts["searches"] += 1
            write(s.call)
            queue.append(fresh(entry["hits"]))
            warned.append(call(turn))
        if entry["save"]:
            warned.append(edit(turn))
        if any(warned):
            edit(turn)
        write(entry["reply"])
    return counts, prefill, rows


def both_agree(session, s):
    try:
        counts, prefill, rows = twin(session, s)
    except DoesNotFit as error:
        with pytest.raises(ValueError, match=rf"turn {error.args[0]} "):
            serve_session(session, s)
        return
    result = serve_session(session, s)
    assert {name: getattr(result, name) for name in counts} == counts
    assert result.prefill == prefill
    assert list(result.calls_table.itertuples(index=False, name=None)) == rows


layouts = st.sampled_from(list(LAYOUTS))
shares = st.sampled_from([0.0, 0.05, 0.1, 0.25, 0.3, 0.5, 0.7, 0.75, 0.9, 1.0]) | st.floats(0, 1)
turns = st.fixed_dictionaries(
    dict(user=st.integers(1, 30), reply=st.integers(1, 30), save=st.booleans(), hits=st.just(0) | st.integers(1, 40))
)
small = st.integers(0, 12)
tiny_settings = st.builds(
    ServeSettings, window=st.integers(60, 300), warn=shares, evict=shares, system=small, working=st.integers(1, 12),
    summary=small, call=small, result=small, warning=small, note=small, layout=layouts, credit_output=st.booleans(),
)


@settings(max_examples=600, deadline=None)
@given(st.lists(turns, max_size=25), tiny_settings)
def test_agrees_with_the_twin_on_tiny_windows(session, s):
    both_agree(session, s)


@settings(max_examples=100, deadline=None)
@given(st.lists(turns, min_size=1, max_size=8), tiny_settings, st.integers(1, 60))
def test_agrees_with_the_twin_where_little_fits(session, s, window):
    both_agree(session, replace(s, window=window))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("credit", [False, True])
def test_agrees_with_the_twin_on_usual_sessions(layout, credit):
    for session in (even_session(turns=120), random_session(3, turns=90)):
        both_agree(session, ServeSettings(window=4_000, layout=layout, credit_output=credit))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_prefill_is_what_the_cache_did_not_hold(layout):
    for seed in range(3):
        result = serve_session(random_session(seed), ServeSettings(layout=layout, evict=0.3))
        table = result.calls_table
        assert result.prefill_tokens == sum(result.prefill[cause] for cause in CAUSES)
        assert result.prefill_tokens == table["prefill"].sum() == result.prompt_tokens - table["hit"].sum()
        assert result.saved == pytest.approx(table["hit"].sum() / table["prompt"].sum())
        assert result.mean_prompt == pytest.approx(table["prompt"].mean())
        assert table["prompt"].max() <= 8_000


# --- the even session, to the token ------------------------------------------------------------------


def test_even_session_at_the_defaults():
    result = serve_session(even_session())
    assert result.prefill == dict(new=78_340, edit=385_880, evict=43_620, moved=0)
    assert (result.calls, result.evictions, result.prefill_tokens) == (770, 19, 507_840)
    assert (result.edits, result.searches, result.warnings) == (80, 90, 20)
    assert round(result.saved, 3) == 0.888
    assert serve_session(even_session(), ServeSettings(credit_output=True)).prefill_tokens == 470_340


def test_even_session_in_the_other_layouts():
    end = serve_session(even_session(), ServeSettings(layout="end"))
    assert end.prefill == dict(new=81_540, edit=0, evict=56_920, moved=525_000)
    append = serve_session(even_session(), ServeSettings(layout="append"))
    assert append.prefill == dict(new=83_340, edit=0, evict=59_680, moved=0)
    assert end == serve_session(even_session(), ServeSettings(layout="end", credit_output=True))


@pytest.mark.parametrize(
    "evict, prefill", [(0.05, 2_576_190), (0.1, 1_449_130), (0.25, 788_770), (0.5, 507_840), (0.75, 377_880)]
)
def test_the_more_is_evicted_at_once_the_less_is_computed(evict, prefill):
    assert serve_session(even_session(), ServeSettings(evict=evict)).prefill_tokens == prefill


def test_evicting_little_means_evicting_often():
    often, rarely = (serve_session(even_session(), ServeSettings(evict=evict)) for evict in (0.1, 0.75))
    assert (often.evictions, rarely.evictions) == (85, 13)
    assert (round(often.mean_prompt), round(rarely.mean_prompt)) == (7_346, 4_946)
    assert (round(often.prefill["evict"], -3), round(often.prefill["edit"], -3)) == (465_000, 919_000)


def test_warnings_cause_half_of_the_cost_when_little_is_evicted():
    quiet = [serve_session(even_session(), ServeSettings(evict=evict, warn=1.0)) for evict in (0.5, 0.1)]
    assert [result.warnings for result in quiet] == [0, 0]
    assert [round(result.prefill_tokens, -3) for result in quiet] == [415_000, 755_000]


@pytest.mark.parametrize(
    "p_save, thousands",
    [(0, (210, 616, 133)), (0.25, (353, 640, 137)), (0.5, (508, 663, 143)), (0.75, (650, 684, 145)), (1, (802, 707, 147))],
)
def test_layouts_against_the_save_rate(p_save, thousands):
    results = [serve_session(even_session(p_save=p_save), ServeSettings(layout=name)) for name in LAYOUTS]
    assert tuple(round(result.prefill_tokens / 1_000) for result in results) == thousands


def test_end_is_dearer_than_front_up_to_a_save_rate_of_about_083():
    def dearer(p_save):
        front, end = (serve_session(even_session(p_save=p_save), ServeSettings(layout=name)) for name in ("front", "end"))
        return end.prefill_tokens > front.prefill_tokens

    assert dearer(0.82) and not dearer(0.85)


# --- clauses, one by one -----------------------------------------------------------------------------


def turn(user, reply=1, save=False, hits=0):
    return dict(user=user, reply=reply, save=save, hits=hits)


BARE = ServeSettings(window=100, warn=1.0, system=10, working=10, summary=0, call=1, result=1, warning=5, note=1)


def test_both_thresholds_are_strict():
    at, above = (serve_session([turn(user)], replace(BARE, warn=0.5)) for user in (30, 31))
    assert (at.warnings, above.warnings) == (0, 1)
    assert serve_session([turn(79), turn(1)], BARE).evictions == 1
    assert serve_session([turn(78), turn(1)], BARE).evictions == 0


def test_a_warning_raised_by_the_answer_is_not_answered():
    # The first warning lifts the prompt above the window: evicted, re-armed, and answered by one edit.
    # That edit's own call is above the threshold again: a second warning, which nobody answers in any turn.
    result = serve_session([turn(79), turn(1)], replace(BARE, warn=0.7, result=50))
    assert (result.warnings, result.edits, result.calls) == (2, 1, 3)


def test_one_edit_answers_all_warnings_of_a_turn():
    # The call after the search warns, the one after the save does not again; save and answer are two edits.
    result = serve_session([turn(45, save=True, hits=6)], replace(BARE, warn=0.7))
    assert (result.warnings, result.edits, result.calls) == (1, 2, 4)


def test_a_warning_may_lift_the_prompt_above_the_window():
    result = serve_session([turn(40), turn(37)], replace(BARE, warn=0.7))
    assert (result.warnings, result.evictions) == (1, 1)


def test_first_call_is_all_new_even_if_it_evicts():
    for layout in LAYOUTS:
        result = serve_session([turn(78)], replace(BARE, warn=0.7, evict=0.5, layout=layout))
        assert result.evictions >= 1
        assert result.calls_table.loc[0, ["hit", "cause"]].tolist() == [0, "new"]


def test_the_snapshot_is_renewed_only_if_there_was_an_edit():
    s = replace(BARE, layout="append")
    for save, hit in ((False, 20), (True, 10)):
        table = serve_session([turn(40, save=save), turn(50)], s).calls_table
        assert table.iloc[-1][["hit", "cause"]].tolist() == [hit, "evict"]


def test_what_does_not_fit_names_its_turn():
    with pytest.raises(ValueError, match="turn 2 .*one message alone"):
        serve_session([turn(5), turn(5), turn(81)], BARE)
    with pytest.raises(ValueError, match="turn 1 .*with the new summary"):
        serve_session([turn(30), turn(40, reply=9), turn(9)], replace(BARE, evict=0.1, summary=30, window=85))


def test_an_empty_session_costs_nothing():
    result = serve_session([])
    assert (result.calls, result.prefill_tokens, result.saved, result.mean_prompt) == (0, 0, 0, 0)


# --- seconds -----------------------------------------------------------------------------------------


def test_gpu_seconds_price_every_call_with_the_one_cost_model():
    roofline = kv_cost.Roofline(kv_cost.Model.load("Llama-3-8B"), kv_cost.Gpu.load("H100 SXM"))
    result = serve_session(even_session(turns=60))
    rows = list(result.calls_table.itertuples())
    warm = [roofline.prefill_seconds(row.prefill, cached=row.hit) for row in rows]
    cold = [roofline.prefill_seconds(row.prompt) for row in rows]
    np.testing.assert_allclose(gpu_seconds(result, roofline), warm)
    np.testing.assert_allclose(gpu_seconds(result, roofline, cache=False), cold)


def test_a_call_that_hits_in_full_still_computes_its_last_token():
    class Clock:
        def prefill_seconds(self, new, cached=0):
            return new + cached / 1_000

    result = serve_session([turn(5, save=True)], replace(BARE, layout="append", credit_output=True, result=0, note=0))
    assert result.calls_table["prefill"].tolist() == [25, 0]
    assert gpu_seconds(result, Clock()).tolist() == pytest.approx([25, 1.025])


# --- sessions as data --------------------------------------------------------------------------------


def test_even_session_has_the_rates_it_is_asked_for():
    session = even_session(turns=1_000, p_fact=0.3, p_save=0.7, p_search=0.29)
    assert sum(entry["save"] for entry in session) == 210
    assert sum(entry["hits"] == 170 for entry in session) == 290
    assert [t for t, entry in enumerate(even_session(turns=20)) if entry["save"]] == [9, 19]


def test_random_session_is_its_seed_and_keeps_its_bounds():
    session = random_session(7, turns=2_000, user=3, reply=60, hits=1)
    assert session == random_session(7, turns=2_000, user=3, reply=60, hits=1)
    assert session == random_session(np.random.default_rng(7), turns=2_000, user=3, reply=60, hits=1)
    assert {entry["user"] for entry in session} <= {1, 2, 3, 4, 5}
    assert {entry["hits"] for entry in session} <= {0, 1, 2}
    assert np.mean([entry["reply"] for entry in session]) == pytest.approx(60, abs=2)
    assert np.mean([entry["save"] for entry in session]) == pytest.approx(0.1, abs=0.03)
    more = random_session(7, turns=2_000, user=3, reply=60, hits=1, p_save=0.9)
    assert all(b["save"] >= a["save"] and a["user"] == b["user"] for a, b in zip(session, more))


def test_json_round_trip(tmp_path):
    path = tmp_path / "session.json"
    session = random_session(1, turns=20)
    save_session(session, path)
    assert load_session(path) == session
    save_session([dict(turn(np.int64(3)), save=np.bool_(True))], path)
    assert load_session(path) == [turn(3, save=True)]


@pytest.mark.parametrize(
    "change, field",
    [
        (dict(user=0), "user"), (dict(user=True), "user"), (dict(user=2.0), "user"), (dict(reply="5"), "reply"),
        (dict(reply=None), "reply"), (dict(hits=-1), "hits"), (dict(hits=False), "hits"), (dict(save=1), "save"),
        (dict(saved=True), "saved"),
    ],
)
def test_a_malformed_entry_is_refused_with_number_and_field(tmp_path, change, field):
    session = even_session(turns=5)
    session[3].update(change)
    path = tmp_path / "session.json"
    path.write_text(json.dumps(session))
    for refuse in (lambda: load_session(path), lambda: serve_session(session), lambda: save_session(session, path)):
        with pytest.raises(ValueError, match=rf"entry 3 .*\b{field}\b"):
            refuse()


def test_other_malformed_sessions(tmp_path):
    path = tmp_path / "session.json"
    for text in ("{}", "12", "[1", "", "[" * 100_000, '[{"user": ' + "9" * 5_000):
        path.write_text(text)
        with pytest.raises(ValueError):
            load_session(path)
    path.write_bytes(b"\xff\xfe[")
    with pytest.raises(ValueError, match="session.json: not JSON"):
        load_session(path)
    path.write_bytes(b"\xef\xbb\xbf[]")    # a byte-order mark is read over
    assert load_session(path) == []
    with pytest.raises(ValueError, match="entry 0 .*must be an object"):
        serve_session([[40, 60]])
    with pytest.raises(ValueError, match="entry 1 .*save is missing"):
        serve_session([turn(1), dict(user=1, reply=1, hits=0)])


@pytest.mark.parametrize(
    "change",
    [
        dict(window=0), dict(window=8e3), dict(window=True), dict(working=0), dict(system=-1), dict(summary=1.5),
        dict(call=None), dict(result=-1), dict(warning="30"), dict(note=-1), dict(warn=1.01), dict(warn=float("nan")),
        dict(evict=-0.1), dict(evict="half"), dict(evict=True), dict(layout="middle"), dict(layout=[]), dict(credit_output=1),
    ],
)
def test_impossible_settings_are_refused_by_name(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        ServeSettings(**change)


@pytest.mark.parametrize("change", [dict(turns=0), dict(user=0.5), dict(p_fact=1.1), dict(p_save=float("nan")), dict(hits=0)])
def test_impossible_rates_are_refused_by_name(change):
    for make in (even_session, lambda **rates: random_session(0, **rates)):
        with pytest.raises(ValueError, match=next(iter(change))):
            make(**change)


@pytest.mark.parametrize("seed", [None, -1, 1.5, "x", True, [1, 2]])
def test_a_seed_is_a_whole_number_or_a_generator(seed):
    with pytest.raises(ValueError, match="seed"):
        random_session(seed)


def test_numpys_small_integers_do_not_overflow():
    small = [dict(user=np.uint8(40), reply=np.int8(60), save=np.bool_(k % 2), hits=np.uint8(250)) for k in range(60)]
    plain = [dict(user=40, reply=60, save=bool(k % 2), hits=250) for k in range(60)]
    result = serve_session(small, ServeSettings(window=np.int16(4_000), system=np.int16(1_000), working=np.int16(700), call=np.uint8(30)))
    assert result == serve_session(plain, ServeSettings(window=4_000))
    assert all(type(tokens) is int for tokens in result.prefill.values())


def test_one_module_speaks_the_whole_vocabulary():
    assert memgpt.serve_session is serve_session
    assert doctest.testmod(memgpt) == (0, 2)


def test_settings_of_a_wrong_kind_are_refused():
    with pytest.raises(ValueError, match="settings must be ServeSettings"):
        serve_session(even_session(turns=2), {"window": 8000})
