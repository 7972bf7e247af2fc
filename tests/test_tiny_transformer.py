"""labkit.tiny_transformer: the task, the forward pass against two others, and what the shipped weights must do."""

import sys
from pathlib import Path

import numpy as np
import pytest

from labkit import reference
from labkit.tiny_task import NONE
from labkit.tiny_transformer import RULES, TinyTransformer, blend_study, kv_deviation, layout, sample

UNSEEN = 2_000_000      # a seed that neither training nor its log has used
SHARES = (0.09, 0.13, 0.27)
FRACTIONS = (0.0, 0.05, 0.1, 0.2, 0.35, 0.6, 1.0)


@pytest.fixture(scope="module")
def model():
    return TinyTransformer.load()


@pytest.fixture(scope="module")
def batches():
    return {share: sample(400, UNSEEN, share) for share in SHARES}


@pytest.fixture(scope="module")
def small():
    return sample(3, 7, 0.2)


# ---- the task

@pytest.mark.parametrize("bridging", [0.05, 0.09, 0.13, 0.2, 0.27, 0.4])
def test_answers_and_bridges_by_following_the_facts(bridging):
    batch = sample(20, 3, bridging)
    assert batch.bridging_share == pytest.approx(bridging, abs=0.006)
    each = batch.document_tokens
    for i in range(20):
        facts = {s: (o, t // each) for t, (s, o) in enumerate(batch.tokens[i].tolist()) if s != NONE}
        assert len(facts) == 3 * (each - 1)
        for question, answer, hops in zip(batch.questions[i].tolist(), batch.answers[i].tolist(), batch.hops):
            at = question
            for _ in range(hops):
                at, document = facts[at]
            assert at == answer
            assert hops == 1 or document > 0
        pointed = {o: (s, document) for s, (o, document) in facts.items()}
        for t, (s, o) in enumerate(batch.tokens[i].tolist()):
            points = s in pointed and pointed[s][1] < t // each
            assert batch.bridging[i, t] == points
            assert batch.refers_to[i, t] == (pointed[s][0] if points else NONE)
    assert (batch.tokens[:, ::each] == NONE).all()


def test_four_chains_of_fourteen_facts_are_the_default():
    batch = sample(2, 0)
    assert batch.tokens.shape == (2, 45, 2) and batch.bridging_share == pytest.approx(8 / 30)
    assert [(batch.hops == hops).sum() for hops in (1, 2, 3)] == [4, 8, 4]
    assert layout(0.27) == (4, 14) and layout(0.13) == (2, 14) and layout(0.09) == (2, 21)


def test_a_seed_is_a_batch():
    assert (sample(5, 1).tokens == sample(5, 1).tokens).all()
    assert (sample(5, 1).tokens != sample(5, 2).tokens).any()


@pytest.mark.parametrize("call", [
    lambda m, b: sample(0, 0), lambda m, b: sample(2.5, 0), lambda m, b: sample(2, 0, 0.9), lambda m, b: sample(2, 0, float("nan")),
    lambda m, b: m.blend(b, 1.2), lambda m, b: m.blend(b, -0.1), lambda m, b: m.blend(b, 0.1, "best"),
])
def test_impossible_settings(model, small, call):
    with pytest.raises(ValueError):
        call(model, small)


# ---- the forward pass

def plain_pass(model, tokens, documents_apart, question, hops, recomputed=()):
    """One sequence and one question, token by token, in float64: (logits, kv[layer][t] = (k, v)), nothing shared with numpy's.

    Tokens in `recomputed` are computed again on top of the cached KV, reading what stands before them in the cache.
    """
    w = {name: weight.astype(float) for name, weight in model.weights.items()}
    each = len(tokens) // 3

    def norm(x, gain):
        return x / np.sqrt((x ** 2).mean() + 1e-6) * gain

    def rope(x, position):
        x = x.reshape(3, 32)
        turned = (x[:, :16] + 1j * x[:, 16:]) * np.exp(1j * position * 10_000.0 ** (-np.arange(16) / 16))
        return np.hstack([turned.real, turned.imag])

    def embed(s, o, kind):
        zero = np.zeros(48)
        return np.hstack([zero if x == NONE else w["embedding"][x] for x in (s, o)]) + w["kinds"][kind]

    def keys_values(layer, h, position):
        x = norm(h, w[f"{layer}.norm"])
        return rope(x @ w[f"{layer}.key"], position), (x @ w[f"{layer}.value"]).reshape(3, 32)

    def block(layer, h, position, kv):
        q = rope(norm(h, w[f"{layer}.norm"]) @ w[f"{layer}.query"], position)
        read = []
        for head in range(3):
            weights = np.array([np.exp(q[head] @ k[head] / np.sqrt(32)) for k, _ in kv])
            read.append(sum(weight * v[head] for weight, (_, v) in zip(weights / weights.sum(), kv)))
        h = h + np.hstack(read) @ w[f"{layer}.output"]
        x = norm(h, w[f"{layer}.mlp_norm"]) @ w[f"{layer}.up"]
        return h + (x / (1 + np.exp(-x))) @ w[f"{layer}.down"]

    h = [embed(s, o, 0 if s == NONE else 1) for s, o in tokens]
    first = [keys_values(0, x, t) for t, x in enumerate(h)]
    second = []
    for t, x in enumerate(h):
        start = t // each * each if documents_apart and t not in recomputed else 0
        second.append(keys_values(1, block(0, x, t, first[start:t + 1]), t))
    x = embed(question, NONE, 1 + hops)
    for layer, kv in enumerate((first, second)):
        x = block(layer, x, len(tokens), [*kv, keys_values(layer, x, len(tokens))])
    return norm(x, w["norm"]) @ w["head"] @ w["embedding"].T, (first, second)


@pytest.mark.parametrize("way", ["prefill", "reuse", "blend"])
def test_forward_pass_against_a_token_by_token_twin(model, small, way):
    reading = model.blend(small, 0.3) if way == "blend" else getattr(model, way)(small)
    for i, asked in ((0, 0), (2, -1)):
        chosen = np.flatnonzero(reading.recomputed[i]) if way == "blend" else ()
        logits, kv = plain_pass(model, small.tokens[i], way != "prefill", small.questions[i, asked], small.hops[asked], chosen)
        np.testing.assert_allclose(reading.logits[i, asked], logits, atol=2e-3)
        for layer in range(2):
            for part in range(2):
                expected = np.array([token[part] for token in kv[layer]]).swapaxes(0, 1)
                np.testing.assert_allclose(reading.kv[layer, part, i], expected, atol=1e-3)


@pytest.mark.parametrize("fraction", [0.0, 0.3, 1.0])
def test_the_first_look_is_the_same_in_every_reading(model, small, fraction):
    reading = model.blend(small, fraction)
    h = model.ask(small)
    for layer in range(2):                                               # from its own KV, in both layers
        h = model.look_up(layer, h, reading.kv[layer])
    np.testing.assert_allclose(model.logits(h), reading.logits, atol=1e-3)


def test_logits_agree_with_pytorch(model, small):
    torch = pytest.importorskip("torch")
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
    from train_tiny_transformer import Transformer
    twin = Transformer()
    for name, weight in model.weights.items():
        twin.w[name.replace(".", "_")].data = torch.from_numpy(weight)
    with torch.no_grad():
        logits, _ = twin(small)
    assert np.abs(logits.numpy() - model.prefill(small).logits).max() < 0.05


def test_first_layer_of_the_cache_is_exact_after_rotation(model, batches):
    batch = batches[0.27]
    full, cached = model.prefill(batch).kv, model.reuse(batch).kv
    assert np.abs(full[0] - cached[0]).max() < 1e-5
    first = batch.document_tokens
    assert np.abs(full[..., :first, :] - cached[..., :first, :]).max() < 1e-5      # a prefix is exact in both layers
    assert np.abs(full[1] - cached[1]).max() > 0.1


# ---- the shipped weights

def test_size(model):
    assert 150_000 < model.parameters < 165_000
    assert (reference.data_folder() / "tiny_transformer.npz").stat().st_size < 500_000


@pytest.mark.parametrize("share", SHARES)
def test_required_accuracies(model, batches, share):
    batch = batches[share]
    assert min(model.prefill(batch).accuracy.values()) >= 0.98
    reuse = model.reuse(batch).accuracy
    assert reuse[2] < 0.1 and reuse[1] > 0.95
    hkvd = model.blend(batch, 1.2 * batch.bridging_share).accuracy
    chance = model.blend(batch, 1.2 * batch.bridging_share, "random").accuracy
    assert min(hkvd.values()) >= 0.95
    assert chance[2] <= hkvd[2] - 0.4 and chance[3] <= hkvd[3] - 0.4


@pytest.mark.parametrize("share", SHARES)
def test_the_knee_stands_at_the_share_of_bridging_facts(model, batches, share):
    batch = batches[share]
    two_hops = {part: model.blend(batch, part * batch.bridging_share).accuracy[2] for part in (0.25, 0.5, 0.75, 1.0, 1.25)}
    for part in (0.25, 0.5, 0.75):      # below it each recomputed token answers its share of the questions, above it nothing is left
        k = round(part * batch.bridging_share * 2 * batch.document_tokens)
        assert two_hops[part] == pytest.approx(k / batch.bridging[0].sum(), abs=0.05)
    assert two_hops[1.0] >= 0.95 and two_hops[1.25] - two_hops[1.0] < 0.05


def test_most_deviating_tokens_are_the_bridging_facts(model, batches):
    batch = batches[0.27]
    recomputed = model.blend(batch, batch.bridging_share).recomputed
    assert (recomputed & batch.bridging).sum() / recomputed.sum() > 0.95


@pytest.mark.parametrize("share", SHARES)
def test_invariants_over_the_rules(model, batches, share):
    batch = batches[share]
    full = model.prefill(batch)
    right = {}
    for rule in RULES:
        before = np.inf
        for fraction in FRACTIONS:
            reading = model.blend(batch, fraction, rule)
            left = np.square(reading.kv - full.kv).sum()
            assert left <= before * (1 + 1e-6) and left == pytest.approx(reading.remaining.sum(), rel=1e-3, abs=1e-3)
            assert reading.recomputed.sum(1).tolist() == [round(fraction * 2 * batch.document_tokens)] * 400
            before = left
            right[rule, fraction] = float((reading.answers == batch.answers).mean())
        assert left < 1e-5                                              # r = 1: everything is recomputed
        assert (reading.answers == full.answers).all()
        np.testing.assert_allclose(reading.kv, full.kv, atol=1e-5)
    for fraction in FRACTIONS:
        assert right["hkvd", fraction] >= right["random", fraction] - 0.02
    assert (model.blend(batch, 0).answers == model.reuse(batch).answers).all()


def test_remaining_deviation_and_the_map(model, small):
    reading = model.blend(small, 0.2)
    assert reading.deviation.shape == (*small.bridging.shape, 2)
    assert (reading.deviation == model.reuse(small).deviation).all()        # the map is what was measured, at every r
    assert (reading.remaining[reading.recomputed] == 0).all()
    full, cached = model.document_kv(small.tokens), model.cached_kv(small.tokens)
    np.testing.assert_array_equal(reading.deviation, kv_deviation(full, cached))
    assert reading.deviation[1, 20, 1] == pytest.approx(sum((x - y) ** 2 for x, y in zip(
        full[1][:, 1, :, 20].ravel().tolist(), cached[1][:, 1, :, 20].ravel().tolist())), rel=1e-4)
    least = reading.deviation[..., 1][reading.recomputed].reshape(3, -1).min(1)
    others = np.where(reading.recomputed, 0, reading.deviation[..., 1]).max(1)
    assert (least >= others).all()


def test_study_is_the_four_readings(model):
    study = blend_study(0.2, "first-k", 0.13, sequences=20, seed=5)
    batch = sample(20, 5, 0.13)
    assert (study.batch.tokens == batch.tokens).all()
    expected = [model.prefill(batch), model.reuse(batch), model.blend(batch, 0.2, "first-k"), model.blend(batch, 0.2, "random")]
    assert study.accuracy.to_dict("index") == {way: reading.accuracy for way, reading in zip(study.accuracy.index, expected)}
    assert blend_study(0.4, bridging=0.13, sequences=20, seed=5).full is study.full         # kept for the next move
    assert blend_study(0.2, "random", 0.13, sequences=20, seed=5).blend is study.random


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", bytes(range(256))])
def test_weights_that_cannot_be_read_are_refused(tmp_path, content):
    path = tmp_path / "weights.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="weights.npz cannot be read as a file of weights"):
        TinyTransformer.load(path)


def test_weights_that_are_no_numbers_and_a_seed_that_is_none_are_refused(tmp_path):
    path = tmp_path / "weights.npz"
    np.savez(path, head=np.array([1.0, np.nan]))
    with pytest.raises(ValueError, match="the weights head must be finite numbers"):
        TinyTransformer.load(path)
    with pytest.raises(ValueError, match="seed"):
        sample(2, seed=None)
