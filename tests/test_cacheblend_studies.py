"""labkit.cacheblend_studies and its figures: each study against the functions it stands for, and against hand arithmetic."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from labkit import cacheblend as cb
from labkit import cacheblend_studies as studies
from labkit.figures import style
from labkit.figures import tiny_transformer as tiny_figures
from labkit.kv_cost import Model
from labkit.tiny_transformer import TinyTransformer, sample


def test_rag_reuse_is_one_study_at_three_views():
    result = studies.rag_reuse(library=100, k=4, skew=1.2)
    assert result.sizes.loc[100].to_dict() == pytest.approx(result.at["hit_share"].to_dict())
    assert result.places.mean().to_dict() == pytest.approx(result.at["hit_share"].to_dict())
    prefix = result.places.drop(columns="CacheBlend")
    assert (prefix.diff().dropna() <= 0).all().all()        # a prefix ends once


@pytest.mark.parametrize("precision, most", [("float64", 1e-14), ("float32", 1e-6), ("float16", 0.005)])
@pytest.mark.parametrize("dims, base", [(2, 10), (8, 10_000), (128, 500_000)])
def test_a_turned_key_is_as_exact_as_its_format(precision, most, dims, base):
    result = studies.rope_shift(4_321, base, dims, precision)
    assert result.errors["turned"].max() < most and result.at["turned"] < most
    assert result.pairs["moved_x"].to_numpy() == pytest.approx(result.pairs["computed_x"].to_numpy(), abs=10 * most)
    assert result.pairs["turns"].iloc[0] == pytest.approx(4_321 / (2 * np.pi))


def test_who_is_recomputed():
    for rule in cb.RULES:
        picked = cb.picked_by_rank(0.15, rule)
        assert picked.mean() == pytest.approx(int(0.15 * 3072) / 2560)
    oracle = cb.picked_by_rank(0.15, "oracle", bins=2560)
    assert oracle.iloc[:460].eq(1).all() and oracle.iloc[460:].eq(0).all()
    assert (cb.picked_by_rank(0.15, "hkvd").diff().dropna() < 0.02).all()      # the more dependent, the likelier
    result = studies.recompute(0.3, "random", 3.0, 0.7)
    assert result.quality["hkvd"] == cb.blend_quality(0.3, tail=3)
    assert result.held.iloc[-1] == pytest.approx(1, abs=0.01)


def test_the_lecture_notes_times_in_proportion():
    times = studies.device_times()
    assert {name: times[name] for name in cb.DEVICES} == cb.LECTURE
    other = studies.device_times(tokens=6_144, disk=9.6)
    assert other["ssd"].load_ms == pytest.approx(16) and other["cpu"].load_ms == pytest.approx(8) and other["cpu"].full_ms == 40
    assert times["remote"].load_ms == pytest.approx(16 * 4.8 / 12.5)


def test_timing_of_a_model_and_the_controller():
    result = studies.timing("Llama-3-8B", "ssd", 0.15, True)
    assert result.table.loc["ssd", "reuse"] == pytest.approx(1e3 * 3072 * Model.load("Llama-3-8B").kv_bytes_per_token() / 4.8e9)
    assert result.table.loc["ssd", "fraction"] == result.pipeline.fraction == 1.0
    assert result.table.loc["ssd", "blend"] > result.table.loc["ssd", "full"]      # simply recomputing wins
    assert studies.timing(controller=True).table["fraction"].tolist() == pytest.approx([0.15, 0.2, 0.8, 0.3072])
    assert studies.timing(fraction=0.4, controller=True).table.loc["cpu", "fraction"] == 0.4
    assert studies.LECTURE_NOTES in studies.MODELS and "Mistral-7B-v0.1" not in studies.MODELS


@pytest.mark.parametrize("call", [
    lambda: studies.rope_shift(precision="bf16"), lambda: studies.rope_shift(dims=7), lambda: studies.timing(disk=0),
    lambda: studies.timing(device="tape"), lambda: studies.device_times(tokens=0), lambda: studies.trained(sequence=100),
    lambda: studies.trained(sequence=-1), lambda: studies.trained(whole_line=1), lambda: studies.timing(fraction=2), lambda: studies.rag_reuse(k=0),
])
def test_impossible_settings(call):
    with pytest.raises(ValueError):
        call()


def test_the_drawn_sequence_follows_the_sliders():
    result = studies.trained(0.2, "hkvd", 0.2, 7)
    model, batch = TinyTransformer.load(), sample(studies.SEQUENCES, 0, 0.2)
    blend = model.blend(batch, 0.2)
    assert (result.answers["blend"] == blend.answers[7]).all() and (result.answers["right"] == batch.answers[7]).all()
    assert (result.maps[1] == blend.deviation[7, :, 1]).all()
    assert (result.maps[2] == np.where(blend.recomputed[7], 0, result.maps[1])).all()
    fig = Figure()
    artists = tiny_figures.draw_trained(fig, result)(result)
    marks = {artist.get_label(): artist.get_xdata() - 0.5 for artist in artists if artist.get_label() in ("recomputed", "bridging fact")}
    assert marks["recomputed"].tolist() == np.flatnonzero(blend.recomputed[7]).tolist()
    assert marks["bridging fact"].tolist() == np.flatnonzero(batch.bridging[7]).tolist()


@pytest.mark.parametrize("bridging", [0.04, 0.27, 0.42])
def test_the_list_of_answers_and_its_colours(bridging):
    result = studies.trained(0.15, "random", bridging, 3)
    shown = tiny_figures.answers_shown(result.answers)
    expected = []
    for hops, count in ((1, 1), (2, 4), (3, 2)):
        rows = result.answers[result.answers.hops == hops][["asked", "right", "reuse", "blend"]].to_numpy().tolist()
        expected += (rows + [[-1] * 4] * count)[:count]
    assert shown.T.tolist() == expected
    [cells] = [artist for artist in tiny_figures.draw_trained(Figure(), result)(result) if type(artist).__name__ == "PathCollection"]
    marked = [to_hex(colour).upper() == style.VERMILION for colour in cells.get_facecolor()]
    wrong = [answer != row[1] for row in expected for answer in row[2:]]
    assert np.reshape(marked, shown.shape)[2:].T.ravel().tolist() == wrong and not np.reshape(marked, shown.shape)[:2].any()
    drawn = [len(path.vertices) > 0 for path in cells.get_paths()]
    assert drawn == (shown.ravel() >= 0).tolist()


def test_the_line_of_the_knee_does_not_run_ahead_of_the_slider():
    result = studies.trained(0.15)
    artists = tiny_figures.draw_trained(Figure(), result)(result)
    [line] = [artist for artist in artists if artist.get_label() == "each pick bridges"]
    assert line.get_xdata()[-1] == 0.15 and max(line.get_ydata()) == pytest.approx(0.15 / result.study.batch.bridging_share)
    knee = [artist for artist in artists if hasattr(artist, "get_text")]
    assert [text.get_text() for text in knee] == ["knee"] and not knee[0].get_visible() and "knee" not in tiny_figures.alt_trained(result)


@pytest.mark.parametrize("bridging", [0.04, 0.27, 0.42])
def test_the_whole_line_bends_at_the_share_of_bridging_facts(bridging):
    result = studies.trained(0.0, bridging=bridging, whole_line=True)
    artists = tiny_figures.draw_trained(Figure(), result)(result)
    [line] = [artist for artist in artists if artist.get_label() == "each pick bridges"]
    share = result.study.batch.bridging_share
    assert line.get_xdata() == [0, share, 1] and line.get_ydata() == [0, 1, 1]
    [knee] = [artist for artist in artists if hasattr(artist, "get_text")]
    assert knee.get_visible() and knee.get_position()[0] == pytest.approx(share + 0.02)
    assert f"bends at {share:.0%}, the knee" in tiny_figures.alt_trained(result)


@pytest.mark.parametrize("call, said", [
    (studies.rag_reuse, "as ranked 14.7%"), (studies.rope_shift, "left as cached 2.6"), (studies.recompute, "hkvd 0.7735"),
    (studies.timing, "blend 512.0 ms"), (studies.trained, "blend 1: 1.00, 2: 0.50, 3: 0.51"), (cb.pipeline, "515.0 ms"),
    (cb.layer_study, "gradual 77.2%"), (TinyTransformer.load, "159,168 weights"), (lambda: sample(3, 0), "26.7%"),
    (lambda: TinyTransformer.load().reuse(sample(3, 0)), "0% of the tokens recomputed: right answers by hops 1: 1.00"),
])
def test_a_result_in_a_cell_is_one_line(call, said):
    text = repr(call())
    assert said in text and "\n" not in text and len(text) < 400


def test_tables_for_the_text():
    log = studies.training_log()
    assert log.loc["yes", "reuse, hops 2"].max() < 0.1 < 0.9 < log.loc["no", "reuse, hops 2"].min()
    assert studies.paper_examples().loc["Llama-70B", "TTFT, 15 % (ms)"] == pytest.approx(560)
    assert studies.paper_table().loc["default recompute ratio", "value"] == 15


def test_a_controller_that_is_neither_on_nor_off():
    with pytest.raises(ValueError, match="controller must be True or False, not 'no'"):
        studies.timing(controller="no")
