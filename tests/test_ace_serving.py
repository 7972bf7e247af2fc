"""The serving study against its exact figures, and against a twin that builds every prompt from its tokens."""

import json
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from labkit import ace, kv_cost, reference
from labkit.ace_serving import MODES, PlaybookSettings, serve_playbook, step_seconds
from labkit.ace_trace import check_trace, even_trace, load_trace, random_trace, save_trace, trace_of

ROOFLINE = kv_cost.Roofline("Llama-3-8B", "H100 SXM")


def modes(trace, **changes):
    return {name: serve_playbook(trace, PlaybookSettings(mode=name, **changes)) for name in MODES}


# --- a second way: prompts as lists of token identities, the longest common prefix really compared -----------------


def twin(trace, s):
    names = count()

    def fresh(n):
        return [next(names) for _ in range(n)]

    system, playbook, cached = fresh(s.system), [], []
    rows = []
    for entry in trace:
        prompt = system + sum(playbook, []) + fresh(s.task)
        hit = next((i for i, (a, b) in enumerate(zip(prompt, cached)) if a != b), min(len(prompt), len(cached)))
        cached, shown, written = prompt, len(playbook), 0
        if s.mode == "counters":
            for position in entry["touch"]:
                playbook[position] = fresh(s.bullet)
        if entry["add"]:
            playbook.append(fresh(s.bullet))
            written = s.bullet
        if s.mode == "rewrite":
            playbook = [fresh(s.bullet) for _ in playbook]
            written = s.bullet * len(playbook)
        playbook = [bullet for position, bullet in enumerate(playbook) if position not in (entry["drop"] or [])]

        n = len(prompt)
        step = lambda m: ROOFLINE.step_seconds(s.batch, m) / s.batch  # noqa: E731
        seconds = ROOFLINE.prefill_seconds(n - hit, cached=hit) + s.output * step(n + s.output / 2)
        seconds += written * step(n + s.output + written / 2) if written else 0
        if s.reflector_output:
            seconds += s.reflector_output * step(n + s.output + s.reflector_output / 2)
        rows.append((s.bullet * shown, n, hit, written, seconds))
    return rows, s.bullet * len(playbook)


def both_agree(trace, s):
    rows, final = twin(trace, s)
    result = serve_playbook(trace, s)
    columns = ["playbook", "prompt", "hit", "written"]
    assert result.steps_table[columns].values.tolist() == [list(row[:4]) for row in rows]
    np.testing.assert_allclose(result.steps_table["gpu_seconds"], [row[4] for row in rows], rtol=1e-12)
    assert result.prompt_tokens == sum(row[1] for row in rows)
    assert result.hit_tokens == sum(row[2] for row in rows)
    assert result.written == sum(row[3] for row in rows)
    assert result.generated == s.output * len(trace)
    assert result.gpu_seconds == pytest.approx(sum(row[4] for row in rows))
    assert result.final_playbook == final
    assert result.mean_playbook == pytest.approx(np.mean([row[0] for row in rows]) if rows else 0)


@st.composite
def traces(draw):
    bullets, trace = 0, []
    for _ in range(draw(st.integers(0, 20))):
        touch = draw(st.lists(st.integers(0, bullets - 1), unique=True)) if bullets else []
        add = draw(st.booleans())
        bullets += add
        drop = draw(st.none() | (st.lists(st.integers(0, bullets - 1), unique=True) if bullets else st.just([])))
        bullets -= len(drop or [])
        trace.append({"add": add, "touch": touch, "drop": drop})
    return trace


sizes = st.integers(0, 9)
any_settings = st.builds(
    PlaybookSettings, system=sizes, task=st.integers(1, 9), output=sizes, bullet=st.integers(1, 5),
    mode=st.sampled_from(list(MODES)), batch=st.integers(1, 8), reflector_output=sizes,
)


@settings(max_examples=120, deadline=None)
@given(traces(), any_settings)
def test_agrees_with_the_twin_on_any_trace(trace, s):
    both_agree(trace, s)


@pytest.mark.parametrize("mode", MODES)
def test_agrees_with_the_twin_on_usual_traces(mode):
    both_agree(even_trace(steps=80, drop_every=25), PlaybookSettings(mode=mode))
    both_agree(random_trace(3, steps=60, touched=5, drop=0.3, drop_every=7), PlaybookSettings(mode=mode, batch=4))


# --- the figures ---------------------------------------------------------------------------------------------------


def test_even_trace_at_the_defaults():
    results = modes(even_trace())
    assert {name: round(r.gpu_seconds, 1) for name, r in results.items()} == dict(append=616.1, counters=634.3, rewrite=7603.4)
    assert {name: round(100 * r.reuse, 1) for name, r in results.items()} == dict(append=92.6, counters=31.4, rewrite=11.4)
    assert round(100 * results["append"].reuse, 2) == 92.55
    assert round(results["rewrite"].gpu_seconds / results["append"].gpu_seconds, 2) == 12.34
    assert results["rewrite"].written == 1_078_800 and results["append"].written == 7_200
    for result in results.values():
        assert (result.final_playbook, result.mean_playbook, result.generated) == (7_200, 3_572, 90_000)


@pytest.mark.parametrize("tokens, ratio", [(50, 10.8), (100, 9.7), (200, 8.0), (300, 6.9)])
def test_a_reflector_narrows_the_gap(tokens, ratio):
    results = modes(even_trace(), reflector_output=tokens)
    assert round(results["rewrite"].gpu_seconds / results["append"].gpu_seconds, 1) == ratio


@pytest.mark.parametrize("batch, ratio", [(4, 13.2), (16, 15.2), (64, 17.9)])
def test_a_batch_widens_the_gap(batch, ratio):
    results = modes(even_trace(), batch=batch)
    assert round(results["rewrite"].gpu_seconds / results["append"].gpu_seconds, 1) == ratio


@pytest.mark.parametrize("every, reuse", [(50, 90.1), (25, 87.6)])
def test_dropping_breaks_the_cache_once_and_then_it_grows_again(every, reuse):
    assert round(100 * serve_playbook(even_trace(drop_every=every)).reuse, 1) == reuse


def test_random_traces_spread_around_the_lecture():
    runs = [modes(random_trace(seed)) for seed in range(20)]
    final = [run["append"].final_playbook for run in runs]
    written = [run["rewrite"].written for run in runs]
    ratio = [run["rewrite"].gpu_seconds / run["append"].gpu_seconds for run in runs]
    assert np.mean(final) == pytest.approx(7_126, abs=302) and np.mean(written) == pytest.approx(1.068e6, abs=45e3)
    assert np.mean(ratio) == pytest.approx(12.2, abs=0.46)
    lecture = {row.id: row.value for row in reference.lecture_figures("L14").itertuples()}
    assert np.mean(written) == pytest.approx(lecture["l14-ace-rewrite-out"], rel=0.07)
    assert np.mean(ratio) == pytest.approx(lecture["l14-ace-rewrite-x"], rel=0.07)
    reuse = {mode: 100 * np.mean([run[mode].reuse for run in runs]) for mode in MODES}
    assert reuse["append"] == pytest.approx(lecture["l14-ace-reuse-append"], abs=0.5)
    assert reuse["counters"] == pytest.approx(lecture["l14-ace-reuse-count"], abs=2.5)


def test_exercise_5_by_hand():
    assert round(100 * ace.reuse_with_counters(3, 3_400), 2) == 32.14


@pytest.mark.parametrize("touched", [1, 3, 7])
def test_of_k_touched_bullets_one_in_k_plus_one_survives(touched):
    kept = shown = 0
    for seed in range(30):
        table = serve_playbook(random_trace(seed, touched=touched), PlaybookSettings(mode="counters")).steps_table
        kept += (table["hit"][1:] - 500).sum()
        shown += table["playbook"][:-1].sum()
    assert kept / shown == pytest.approx(1 / (touched + 1), abs=0.02)


def test_a_long_playbook_is_not_cheap_for_decoding():
    users = ace.playbook_users([0, 3_400, 6_800, 80_000])
    assert users["users"].is_monotonic_decreasing and users["throughput"].is_monotonic_decreasing
    row = users.iloc[1]
    assert row["users"] == ROOFLINE.max_users(3_900, question=300, answer=300)
    assert row["throughput"] == pytest.approx(row["users"] / ROOFLINE.step_seconds(row["users"], 4_200 + 150))
    assert row["step_ms"] == pytest.approx(1e3 * ROOFLINE.step_seconds(row["users"], 4_350))


# --- clauses -------------------------------------------------------------------------------------------------------


def entry(add=False, touch=(), drop=None):
    return {"add": add, "touch": list(touch), "drop": drop}


def test_what_is_dropped_right_after_was_written():
    trace = [entry(True), entry(True, drop=[0, 1])]
    assert serve_playbook(trace, PlaybookSettings(mode="rewrite")).written == 40 + 80
    assert serve_playbook(trace).written == 80
    assert serve_playbook(trace).final_playbook == 0


def test_touch_counts_before_the_add_and_drop_after_it():
    serve_playbook([entry(True, drop=[0])])
    with pytest.raises(ValueError, match="step 0 .*touch: position 0"):
        serve_playbook([entry(True, touch=[0])])


def test_settings_change_nothing_else():
    trace = even_trace()
    assert serve_playbook(trace, PlaybookSettings(mode="counters")).written == serve_playbook(trace).written
    assert serve_playbook([]).reuse == 0 and serve_playbook([]).gpu_seconds == 0
    assert step_seconds(np.array([800]), np.array([0]), np.array([0])) == pytest.approx(serve_playbook([entry()]).gpu_seconds)


@pytest.mark.parametrize("changes", [
    dict(system=-1), dict(task=0), dict(output=1.5), dict(bullet=0), dict(batch=True), dict(batch=0), dict(mode="prepend"),
    dict(mode=["append"]), dict(reflector_output=float("nan")),
])  # fmt: skip
def test_impossible_settings(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        PlaybookSettings(**changes)


# --- traces --------------------------------------------------------------------------------------------------------


def test_traces_have_their_rates_and_are_valid():
    trace = even_trace(steps=200, p_add=0.29, touched=4, drop=0.25, drop_every=20)
    check_trace(trace)
    assert sum(step["add"] for step in trace) == 58
    assert [k for k, step in enumerate(trace) if step["drop"] is not None] == list(range(19, 200, 20))
    bullets = 0
    for step in trace:
        assert len(step["touch"]) == min(4, bullets)
        bullets += step["add"]
        if step["drop"] is not None:
            assert len(step["drop"]) == round(0.25 * bullets)
            bullets -= len(step["drop"])
    assert trace == even_trace(steps=200, p_add=0.29, touched=4, drop=0.25, drop_every=20)


def test_a_changed_rate_changes_nothing_else():
    few, many = random_trace(5, touched=2), random_trace(5, touched=6)
    assert all(a["touch"] == b["touch"][:2] and a["add"] == b["add"] for a, b in zip(few, many))
    assert random_trace(5) == random_trace(np.random.default_rng(5)) != random_trace(6)
    low, high = random_trace(5, p_add=0.3), random_trace(5, p_add=0.7)
    assert all(b["add"] or not a["add"] for a, b in zip(low, high))


def test_positions_are_uniform():
    first = [step["touch"][0] / 50 for seed in range(40) for step in random_trace(seed, steps=90, p_add=1)[50:51]]
    assert 0.3 < np.mean(first) < 0.7
    drops = [at for seed in range(60) for at in random_trace(seed, steps=20, p_add=1, drop=0.5, drop_every=20)[-1]["drop"]]
    assert np.bincount(drops, minlength=20).min() > 12


def test_a_trace_is_saved_and_loaded(tmp_path):
    path = tmp_path / "trace.json"
    for trace in (even_trace(steps=30, drop_every=10), [], [{"add": np.True_, "touch": [], "drop": [np.int64(0)]}]):
        save_trace(trace, path)
        assert load_trace(path) == trace
        assert len(json.loads(path.read_text())) == len(trace)


@pytest.mark.parametrize("text, message", [
    ('[{"add": true, "touch": [], "drop": null},\n{"add" true}]', "line 2: not JSON"),
    ('{"add": true}', "a trace is a list"),
    ('[{"add": true, "touch": []}]', "step 0 .*exactly add, touch, drop"),
    ('[{"add": true, "touch": [], "drop": null, "x": 1}]', "step 0 .*exactly"),
    ('[{"add": 1, "touch": [], "drop": null}]', "step 0 .*add must be True or False, not 1"),
    ('[{"add": true, "touch": 0, "drop": null}]', "step 0 .*touch must be a list"),
    ('[{"add": true, "touch": [], "drop": null}, {"add": false, "touch": [-1], "drop": null}]', "step 1 .*at least 0"),
    ('[{"add": true, "touch": [], "drop": null}, {"add": false, "touch": [0, 0], "drop": null}]', "step 1 .*distinct"),
    ('[{"add": true, "touch": [], "drop": [1]}]', "step 0 .*drop: position 1 is outside of the 1 bullets"),
    ('[{"add": true, "touch": [0.0], "drop": null}]', "step 0 .*whole number"),
])  # fmt: skip
def test_a_malformed_trace_is_named(tmp_path, text, message):
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        load_trace(path)


@pytest.mark.parametrize("changes", [
    dict(steps=-1), dict(p_add=1.1), dict(p_add=float("nan")), dict(touched=1.0), dict(drop=-0.1), dict(drop_every=True),
])  # fmt: skip
def test_impossible_rates(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        even_trace(**changes)


# --- one mechanism: a real playbook's text through the same study --------------------------------------------------


@pytest.mark.parametrize("counters, mode", [(False, "append"), (True, "counters")])
def test_both_renderings_of_a_real_playbook_agree_with_the_study(counters, mode):
    """Bullets of equal length in one section: a token is a character of the line, and hits are really compared."""
    book, books, prompts = ace.Playbook(sections=["OTHERS"]), [], []
    for k, step in enumerate(random_trace(1, steps=40, drop_every=15)):
        books.append(book)
        prompts.append(list(book.render(counters).split("\n")[1:-1]) + [f"task {k}"])
        tags = {book.bullets[at].id: "helpful" for at in step["touch"]}
        adds = [{"type": "ADD", "section": "OTHERS", "content": f"lesson {k}"}] if step["add"] else []
        book = book.merge(ace.Delta(adds, tags))
        gone = [{"type": "DELETE", "id": book.bullets[at].id} for at in step["drop"] or []]
        book = book.merge(ace.Delta(gone))
    prompts = [[line for line in prompt if not line.startswith("<!--") and line] for prompt in prompts]
    common = [0] + [next(i for i, (a, b) in enumerate(zip(now, old)) if a != b) for old, now in zip(prompts, prompts[1:])]
    trace = trace_of([*books, book])
    table = serve_playbook(trace, PlaybookSettings(system=0, task=1, bullet=1, mode=mode)).steps_table
    assert table["prompt"].tolist() == [len(prompt) for prompt in prompts]
    assert table["hit"].tolist() == common


def test_a_trace_holds_one_new_bullet_a_step():
    book = ace.Playbook.empty()
    with pytest.raises(ValueError, match="step 0 .*adds 2"):
        trace_of([book, book.merge(ace.Delta([{"type": "ADD", "content": "a"}, {"type": "ADD", "content": "b"}]))])


def test_replace_keeps_settings_valid():
    assert replace(PlaybookSettings(), mode="rewrite").mode == "rewrite"


@pytest.mark.parametrize("content", [b"[" * 100_000, b"\xff\xfe\x00", b"9" * 5_000])
def test_a_trace_that_is_no_text_or_nests_without_end_is_refused(tmp_path, content):
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="trace.json"):
        load_trace(path)


@pytest.mark.parametrize("call, says", [
    (lambda: serve_playbook([], {}), "settings must be PlaybookSettings"), (lambda: serve_playbook(even_trace(steps=2), roofline="H100"), "roofline must be a Roofline"),
    (lambda: ace.playbook_users(-1), "playbook=-1 must be"), (lambda: ace.reuse_with_counters("3", 100), "touched='3' must be a number"),
    (lambda: random_trace(None), "seed must be a whole number"),
])
def test_impossible_arguments_are_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()
