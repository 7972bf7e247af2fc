"""labkit.cacheblend: the lecture's model against its formulas, the timeline, layers, tiers, RoPE, prefix caches and RAG."""

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit import cacheblend as cb
from labkit.cacheblend_rag import _retrieved
from labkit.cacheblend_time import link_speed
from labkit.kv_cost import Model, Roofline

# ---- quality

FIGURES = [  # rule, fraction, tail, noise, quality
    ("hkvd", 0.15, 10, 0.7, 0.7733), ("random", 0.15, 10, 0.7, 0.6522), ("oracle", 0.15, 10, 0.7, 0.7795),
    ("hkvd", 0.15, 3, 0.7, 0.7032), ("hkvd", 0.30, 3, 0.7, 0.7595), ("hkvd", 0.15, 10, 2.0, 0.7440),
]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("rule, fraction, tail, noise, quality", FIGURES)
def test_quality_lands_on_the_lecture_s_figures(rule, fraction, tail, noise, quality, seed):
    assert cb.blend_quality(fraction, rule, tail, noise, seed=seed) == pytest.approx(quality, abs=0.001)


@pytest.mark.parametrize("fraction", [0.05, 0.15, 0.5, 0.8])
@pytest.mark.parametrize("tail", [0, 1, 3, 10])
def test_oracle_and_random_against_the_integral(fraction, tail):
    picked = min(int(fraction * 3072), 2560) / 2560
    for rule, rest in (("oracle", (1 - picked) ** (tail + 1)), ("random", 1 - picked)):
        assert cb.blend_quality(fraction, rule, tail) == pytest.approx(0.8 - 0.18 * rest, abs=0.001)


def test_hkvd_against_a_plain_python_twin():
    rng = random.Random(5)
    rests = []
    for _ in range(30):
        d = [rng.random() ** 10 for _ in range(2560)]
        estimate = [value * math.exp(0.7 * rng.gauss(0, 1)) for value in d]
        left = sorted(range(2560), key=estimate.__getitem__, reverse=True)[int(0.15 * 3072):]
        rests.append(sum(d[i] for i in left) / sum(d))
    assert cb.blend_quality(0.15) == pytest.approx(0.8 - 0.18 * sum(rests) / 30, abs=0.0015)


@pytest.mark.parametrize("rule", cb.RULES)
def test_nothing_and_everything_recomputed(rule):
    assert cb.blend_quality(0, rule) == pytest.approx(0.62, abs=1e-12)
    assert cb.blend_quality(1, rule) == pytest.approx(0.80, abs=1e-12)
    assert cb.blend_quality(5 / 6, rule) == pytest.approx(0.80, abs=1e-12)     # the first document needs nothing


@settings(deadline=None, max_examples=10)
@given(st.floats(0, 12), st.floats(0, 3))
def test_curves_rise_and_hkvd_lies_between_random_and_oracle(tail, noise):
    curves = cb.quality_curves(tail, noise, instances=20, steps=20)
    assert (curves.diff().dropna() >= -1e-12).all().all()
    assert (curves["oracle"] >= curves["hkvd"] - 1e-12).all()
    assert (curves["hkvd"] >= curves["random"] - 0.003).all()
    assert curves["hkvd"].loc[0.25] == cb.blend_quality(0.25, "hkvd", tail, noise, instances=20)


def test_without_noise_hkvd_is_the_oracle():
    assert cb.blend_quality(0.1, noise=0) == cb.blend_quality(0.1, "oracle")


def test_gap_and_top_share():
    assert cb.gap_won_back(0.7733) == pytest.approx(0.852, abs=0.001)
    assert cb.top_share(0.1) == pytest.approx(0.686, abs=0.0005)
    assert cb.top_share(307 / 2560) == pytest.approx(0.754, abs=0.001)         # of all 3,072 tokens
    u = np.sort(np.random.default_rng(0).random(1_000_000) ** 3)[::-1]
    assert cb.top_share(0.2, tail=3) == pytest.approx(u[:200_000].sum() / u.sum(), abs=0.003)


@pytest.mark.parametrize("settings", [
    dict(fraction=-0.1), dict(fraction=1.1), dict(fraction=float("nan")), dict(fraction="a"), dict(fraction=0.1, rule="best"),
    dict(fraction=0.1, tail=-1), dict(fraction=0.1, noise=-1), dict(fraction=0.1, instances=0), dict(fraction=0.1, seed=0.5),
])
def test_impossible_settings(settings):
    with pytest.raises(ValueError):
        cb.blend_quality(**settings)


# ---- which layer picks

def test_layers_correlate_as_said():
    u = cb._layered_ranks(0.94, 10, 4, 0)
    between = [np.corrcoef(u[0].ravel(), u[m].ravel())[0, 1] for m in (1, 9)]
    assert between == pytest.approx([0.94, 0.58], abs=0.03)


def test_gradual_lies_between_once_and_the_oracle():
    for fraction in (0.05, 0.15, 0.3):
        for correlation in (0.8, 0.94, 0.99):
            study = cb.layer_study(fraction, correlation=correlation, layers=12, instances=3)
            rest = study.rest.iloc[1:]      # layer 1 is computed in full by those that measure
            assert (rest["oracle"] <= rest["once"] + 1e-12).all()
            same = (study.computed["gradual"] == study.computed["oracle"]).iloc[1:]     # gradual computes more at first
            assert (rest["oracle"] <= rest["gradual"] + 1e-12)[same].all()
            assert rest["gradual"].mean() <= rest["once"].mean()
            assert rest["gradual"].mean() <= rest["once, at the cost of gradual"].mean()


def test_gradual_against_a_plain_python_twin():
    u = cb._layered_ranks(0.9, 4, 2, 1)
    keep = [2560, 400, 300, 200]
    mask = cb.PICKS["gradual"][0](u, keep)
    for i in range(2):
        kept = range(2560)
        for layer in range(1, 4):
            kept = sorted(kept, key=lambda token: -u[layer - 1, i, token])[:keep[layer]]
            assert set(np.flatnonzero(mask[layer, i])) == set(kept)


def test_layers_all_alike_leave_nothing_to_gain_from_a_second_look():
    study = cb.layer_study(correlation=1.0, extra=0.0, instances=2)
    assert study.rest["gradual"].to_numpy() == pytest.approx(study.rest["once"].to_numpy())
    assert study.rest["once"].iloc[1:].to_numpy() == pytest.approx(study.rest["oracle"].iloc[1:].to_numpy())


def test_what_is_computed():
    study = cb.layer_study(0.15, extra=0.5, over=4, layers=8, instances=1)
    assert study.computed["once"].iloc[0] == pytest.approx(5 / 6)
    assert study.computed["gradual"].to_numpy()[1:] == pytest.approx(0.15 * np.array([1.5, 1.375, 1.25, 1.125, 1, 1, 1]), abs=1e-3)
    everything = cb.layer_study(1.0, instances=1)
    assert np.abs(everything.rest).max().max() < 1e-12
    with pytest.raises(ValueError):
        cb.layer_study(correlation=1.2)


# ---- time

def test_lecture_latencies_are_exact():
    table = cb.ttft_table(0.15)
    expected = {"full": [640, 640, 640], "prefix": [1600 / 3] * 3, "reuse": [16, 128, 512], "blend": [96, 128, 512]}
    for method, row in expected.items():
        assert table.loc[method].tolist() == pytest.approx(row, rel=1e-12)
    assert 1 - cb.ttft_ms("prefix", "gpu") / cb.ttft_ms("full", "gpu") == pytest.approx(1 / 6)
    assert [cb.hidden_fraction(device) for device in cb.DEVICES] == pytest.approx([0.025, 0.2, 0.8], rel=1e-12)
    assert [cb.controller(device) for device in cb.DEVICES] == pytest.approx([0.15, 0.2, 0.8], rel=1e-12)
    assert cb.controller("cpu", floor=0.3) == 0.3


def test_the_paper_s_counter_example_is_not_hidden():
    assert cb.hidden_fraction(cb.PAPER["Llama-7B"]) == pytest.approx(0.8)
    assert cb.hidden_fraction(cb.PAPER["Llama-70B"]) < 0.15
    assert cb.ttft_ms("blend", cb.PAPER["Llama-70B"], 0.15) == pytest.approx(80 * 7)


@settings(deadline=None, max_examples=60)
@given(st.floats(0, 50), st.floats(0.1, 50), st.integers(1, 80), st.floats(0, 1), st.sampled_from(list(cb.METHODS)))
def test_timeline_against_the_closed_form(load, full, layers, fraction, method):
    times = cb.LayerTimes(load, full, layers)
    result = cb.pipeline(method, times, fraction)
    loaded, computed = cb.METHODS[method](fraction)
    assert result.ttft_ms == cb.ttft_ms(method, times, fraction)
    assert result.end_ms == pytest.approx(result.ttft_ms + min(load * loaded, full * computed), rel=1e-9)
    if not len(result.timeline):
        return
    assert result.timeline["end_ms"].max() == pytest.approx(result.end_ms, rel=1e-9)
    steps = {action: rows.set_index("layer") for action, rows in result.timeline.groupby("action")}
    for rows in steps.values():         # one at a time
        assert (rows["start_ms"].to_numpy()[1:] >= rows["end_ms"].to_numpy()[:-1] - 1e-6).all()
    if len(steps) == 2:                 # a layer is computed when it is there, while the next one is loaded
        assert (steps["compute"]["start_ms"] >= steps["load"]["end_ms"] - 1e-6).all()
        assert steps["load"]["start_ms"].to_numpy()[1:] == pytest.approx(steps["compute"]["start_ms"].to_numpy()[:-1])


def test_pipeline_lets_the_controller_choose():
    assert cb.pipeline("blend", "cpu", None).fraction == pytest.approx(0.2)


@pytest.mark.parametrize("call", [
    lambda: cb.ttft_ms("magic", "gpu"), lambda: cb.ttft_ms("blend", "tape"), lambda: cb.ttft_ms("blend", "gpu", 1.5),
    lambda: cb.LayerTimes(-1), lambda: cb.LayerTimes(1, 0), lambda: cb.LayerTimes(1, 1, 2.5), lambda: cb.layer_times(link="tape"),
    lambda: cb.layer_times(link=0), lambda: cb.controller("gpu", 2), lambda: cb.sharing(instances=0),
    lambda: cb.layer_times(gpu="Apple M1 Max"),
])
def test_impossible_times(call):
    with pytest.raises(ValueError):
        call()


def test_load_times_of_any_model_by_hand():
    times = cb.layer_times("Llama-3-8B", "H100 SXM", 4.8e9, tokens=4096)
    assert times.load_ms == pytest.approx(1e3 * 4096 * 8 * 128 * 2 * 2 / 4.8e9)     # K and V of 8 heads of 128 in bf16
    assert times.full_ms == pytest.approx(1e3 * Roofline("Llama-3-8B", "H100 SXM").prefill_seconds(4096) / 32)
    assert cb.layer_times(link="ssd") == cb.layer_times(link="NVMe SSD") == cb.layer_times(link=4.8e9)
    assert cb.layer_times("Llama-3-8B", dtype="fp8").load_ms == pytest.approx(cb.layer_times("Llama-3-8B").load_ms / 2)


def test_tiers():
    table = cb.tiers()
    assert list(table.index) == ["gpu", "cpu", "ssd", "remote"]
    assert (table["bytes"] == 3072 * 131_072).all()
    for tier, row in table.iterrows():
        assert row["reuse_ttft_ms"] == pytest.approx(1e3 * row["bytes"] / link_speed(tier))
        assert row["blend_ttft_ms"] == pytest.approx(32 * max(row["load_ms"], row["full_ms"] * row["fraction"]))


def test_one_store_for_all():
    table = cb.sharing(instances=5, documents=10)
    each, shared = table.loc["a store each"], table.loc["one shared store"]
    assert each["stored_bytes"] == 5 * shared["stored_bytes"] == 5 * 10 * Model.load("Llama-3-8B").kv_bytes(512)
    assert each["prefill_gpu_s"] == pytest.approx(5 * shared["prefill_gpu_s"])


@pytest.mark.parametrize("link", ["remote", 1e9, 1e12])
def test_sending_layer_by_layer_against_a_step_by_step_twin(link):
    table = cb.disaggregation(link=link)
    times = cb.layer_times(link=link)
    sent = 0.0
    for layer in range(times.layers):       # a layer is sent when it is computed and the line is free
        sent = max(sent, (layer + 1) * times.full_ms) + times.load_ms
    assert table.loc["sent layer by layer", "ready_ms"] == pytest.approx(sent)
    after = table.loc["sent after the prefill"]
    assert after["delay_ms"] == pytest.approx(1e3 * after["bytes"] / link_speed(link))
    assert table.loc["one machine", "delay_ms"] == table.loc["one machine", "bytes"] == 0


# ---- RoPE

SHAPES = st.tuples(st.lists(st.integers(1, 4), max_size=3), st.integers(1, 64))
FAR = st.integers(-100_000, 100_000)


@settings(deadline=None, max_examples=60)
@given(SHAPES, FAR, FAR, st.floats(10, 1e6), st.integers(0, 2**32 - 1))
def test_rotating_on_equals_computing_at_the_new_position(shape, position, shift, base, seed):
    k = np.random.default_rng(seed).standard_normal((*shape[0], 2 * shape[1]))
    moved = cb.rope_rotate(cb.rope_rotate(k, position, base), shift, base)
    np.testing.assert_allclose(moved, cb.rope_rotate(k, position + shift, base), rtol=0, atol=1e-14)


@settings(deadline=None, max_examples=60)
@given(SHAPES, st.integers(0, 1000), st.integers(-1000, 1000), st.floats(10, 1e6), st.integers(0, 2**32 - 1))
def test_rotation_is_multiplication_by_a_complex_number(shape, position, shift, base, seed):
    """The second way rounds its angles, which are up to 2,000: that allows an error of 1e-12 for numbers of size 1."""
    half = shape[1]
    k = np.random.default_rng(seed).uniform(-0.7, 0.7, (*shape[0], 2 * half))
    moved = cb.rope_rotate(cb.rope_rotate(k, position, base), shift, base)
    frequency = np.array([base ** (-2 * i / (2 * half)) for i in range(half)])
    turned = (k[..., :half] + 1j * k[..., half:]) * np.exp(1j * (position + shift) * frequency)
    np.testing.assert_allclose(moved, np.concatenate([turned.real, turned.imag], -1), rtol=0, atol=1e-12)


def test_rope_scores_depend_on_distance_only_and_shifts_broadcast():
    q, k = np.random.default_rng(0).standard_normal((2, 5, 32))
    score = (cb.rope_rotate(q, 107) * cb.rope_rotate(k, 100)).sum(-1)
    np.testing.assert_allclose(score, (cb.rope_rotate(q, 7) * k).sum(-1), atol=1e-12)
    each = cb.rope_rotate(k, np.arange(5))
    np.testing.assert_allclose(each[3], cb.rope_rotate(k[3], 3))
    assert cb.rope_rotate(k.astype(np.float32), 3).dtype == np.float32


@pytest.mark.parametrize("k, shift, base", [
    (np.ones(5), 1, 1e4), (np.ones(0), 1, 1e4), (1.0, 1, 1e4), (np.ones(4), float("nan"), 1e4), (np.ones(4), "1", 1e4), (np.ones(4), 1, 0),
])
def test_rope_refuses(k, shift, base):
    with pytest.raises(ValueError):
        cb.rope_rotate(k, shift, base)


# ---- RAG

@pytest.mark.parametrize("library, k, skew", [(6, 6, 0.0), (30, 3, 1.0), (100, 6, 1.0), (5, 1, 2.0)])
def test_rag_against_sets_of_prefixes(library, k, skew):
    study = cb.rag_study(library, k, skew, requests=80)
    ranked, popularity = _retrieved(library, k, skew, 80, 0)
    assert all(len(set(row)) == k for row in ranked.tolist())
    places = {"as ranked": lambda row: row, "sorted by id": sorted, "most popular first": lambda row: sorted(row, key=lambda i: popularity[i])}
    for name, place in places.items():
        seen, hits = set(), 0
        for row in ranked.tolist():
            prefixes = [tuple(place(row)[:length + 1]) for length in range(k)]
            hits += sum(prefix in seen for prefix in prefixes)
            seen.update(prefixes)
        assert study.loc[name, "hit_share"] == pytest.approx(hits / (80 * k))
        assert study.loc[name, "stored"] == len(seen)
        assert cb.rag_places(library, k, skew, requests=80)[name].mean() == pytest.approx(hits / (80 * k))
    assert study.loc["CacheBlend", "stored"] == len(set(ranked.ravel().tolist()))
    known = {place: sum(row[place] in ranked[:i] for i, row in enumerate(ranked)) / 80 for place in range(k)}
    assert cb.rag_places(library, k, skew, requests=80)["CacheBlend"].tolist() == pytest.approx(list(known.values()))
    assert (study["hit_share"] <= study.loc["CacheBlend", "hit_share"] + 1e-12).all()


def test_popular_documents_are_retrieved_more_and_a_larger_library_hits_less():
    ranked, popularity = _retrieved(50, 6, 1.5, 80, 0)
    counts = np.bincount(ranked.ravel(), minlength=50)[popularity.argsort()]
    assert counts[:5].sum() > counts[5:].sum() / 2 > 0
    sizes = cb.rag_sizes((10, 100, 1000), requests=200)
    assert (sizes.diff().dropna() < 0).all().all()


def test_rag_refuses():
    for wrong in (dict(library=5, k=6), dict(k=0), dict(skew=-1), dict(requests=0)):
        with pytest.raises(ValueError):
            cb.rag_study(**wrong)


@pytest.mark.parametrize("call, says", [
    (lambda: cb.rag_study(seed=None), "seed"), (lambda: cb.rag_places(seed=-1), "seed"), (lambda: cb.layer_study(seed=1.5), "seed"),
    (lambda: cb.rag_sizes(libraries=100), "libraries=100 must be a list"), (lambda: cb.ttft_table(times=[1]), "times=.* must be a dict"),
])
def test_impossible_seeds_and_lists_are_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()
