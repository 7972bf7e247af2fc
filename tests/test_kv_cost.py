"""Bytes and seconds against hand arithmetic, the lecture figures to the printed rounding, and a plain-Python twin."""

from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit import kv_cost, kv_studies
from labkit.figures import kv_cost as figures
from labkit.kv_cost import L11_RULES, Gpu, Model, Roofline, RoundNumbers, break_even_queries, gpu_names, model_names
from labkit.panel import Panel

LLAMA = Model.load("Llama-3-8B")
ROOF = Roofline(LLAMA, "H100 SXM")
K128 = 128_000


# ---- the figures of L14, to the rounding printed beside them

def gpu_seconds(context):
    return ROOF.gpu_seconds_per_query(context)


def break_even(context, training=14_400, price=1.0):
    return break_even_queries(training, gpu_seconds(context), gpu_seconds(context / 38.6), price)


def shared_ratio(**how):
    return ROOF.throughput(120_000, shared=120_000, **how) / ROOF.throughput(1_000)


FIGURES = {
    "128k prefill": (lambda: ROOF.prefill_seconds(K128 + 70), 8.793, 3),
    "prefill of 250 tokens, ms": (lambda: 1e3 * ROOF.prefill_seconds(250 + 70), 6.59, 2),
    "cached TTFT, ms": (lambda: 1e3 * ROOF.prefill_seconds(70, cached=K128), 12.36, 2),
    "200 tokens at 250": (lambda: ROOF.decode_seconds(200, 250 + 70), 1.223, 3),
    "200 tokens at 128k": (lambda: ROOF.decode_seconds(200, K128 + 70), 2.472, 3),
    "throughput falls": (lambda: ROOF.throughput(1_000) / ROOF.throughput(120_000), 106.9, 1),
    "step at 1k, ms": (lambda: 1e3 * ROOF.step_seconds(364, 1_170), 26.9, 1),
    "step at 120k, ms": (lambda: 1e3 * ROOF.step_seconds(3, 120_170), 23.7, 1),
    "break-even 8k": (lambda: break_even(8_000), 145_511, 0),
    "break-even 16k": (lambda: break_even(16_000), 72_578, 0),
    "break-even 32k": (lambda: break_even(32_000), 36_245, 0),
    "break-even 64k": (lambda: break_even(64_000), 17_762, 0),
    "break-even 128k": (lambda: break_even(K128), 8_879, 0),
    "training 10x cheaper": (lambda: break_even(K128, training=1_440), 888, 0),
    "idle price": (lambda: break_even(K128, price=1 / 3), 2_960, 0),
    "both": (lambda: break_even(K128, training=1_440, price=1 / 3), 296, 0),
    "shared, same users, FLOPs counted": (lambda: shared_ratio(users=364), 0.66, 2),
    "shared, same users, not counted": (lambda: shared_ratio(users=364, shared_attention=False), 1.80, 2),
    "shared, full memory, FLOPs counted": (lambda: shared_ratio(), 0.66, 2),
    "shared, full memory, not counted": (lambda: shared_ratio(shared_attention=False), 3.64, 2),
}


@pytest.mark.parametrize("name", FIGURES)
def test_lecture_figures_to_their_rounding(name):
    compute, printed, digits = FIGURES[name]
    assert round(compute(), digits) == printed


def test_attention_is_most_of_a_long_prefill():
    # 6.20 s without the question's 70 tokens, 6.21 with them
    assert round(ROOF.prefill_parts(K128)["attention"], 2) == 6.20


# 16k comes out at 975.46; the other values round to what the notes' companion table prints.
@pytest.mark.parametrize("context, users, tokens_per_s, digits", [
    (1_000, 364, 13_521, 0), (4_000, 102, 3_793, 0), (16_000, 26, 975.5, 1), (32_000, 13, 490, 0), (64_000, 6, 241, 0),
    (120_000, 3, 126.5, 1)])
def test_throughput_table(context, users, tokens_per_s, digits):
    assert ROOF.max_users(context) == users
    assert round(ROOF.throughput(context), digits) == tokens_per_s


def test_a_shared_context_leaves_room_for_many():
    assert ROOF.max_users(120_000, shared=120_000) == 1_804


def test_geometry_of_the_lectures_model():
    assert LLAMA.kv_bytes_per_token() == 131_072
    assert (LLAMA.total_params, LLAMA.weight_bytes, LLAMA.block_params) == (8_030_261_248, 16.06e9, 6.979e9)
    assert ROOF.model.kv_bytes(1_000) / LLAMA.weight_bytes < 1 / 3
    each = LLAMA.kv_bytes(120_170) / LLAMA.weight_bytes
    assert 0.9 < each < 1                                      # one user at 120k holds almost as much as the weights


# ---- the 70B exercises

def test_70b_on_eight_gpus():
    big = Roofline("Llama-3-70B", "H100 SXM", gpus=8)
    assert big.model.total_params == 70_553_706_496
    assert big.model.kv_bytes_per_token() == 320 * 1024
    assert round(big.kv_capacity_bytes / 1e9) == 435
    assert round(big.kv_capacity_bytes / big.model.kv_bytes_per_token() / 1e6, 3) == 1.327
    assert round(big.model.kv_bytes(K128) / 1e9, 2) == 41.94
    assert round(big.model.kv_bytes(K128) / 2**30, 2) == 39.06
    assert big.kv_capacity_bytes // big.model.kv_bytes(K128) == 10
    assert big.max_users(K128 - 170) == 10
    mha = big.model.with_(kv_heads=64)
    assert mha.kv_bytes_per_token() == 2.5 * 2**20 and mha.kv_bytes(K128) / 2**30 == 312.5


# ---- L11's rules

def test_l11_round_numbers():
    assert round(L11_RULES.kv_capacity_bytes / 2**30, 3) == 59.605
    assert LLAMA.kv_bytes(100_000) / 2**20 == 12_500
    assert L11_RULES.max_users("Llama-3-8B", 100_000) == 4
    cartridges = np.array([256, 512, 1_024, 2_048, 4_096, 8_192])
    assert L11_RULES.max_users(LLAMA, cartridges).tolist() == [1907, 953, 476, 238, 119, 59]
    assert L11_RULES.break_even_queries(100_000) == 2_880
    assert L11_RULES.break_even_queries(500_000) == 576
    with pytest.raises(ValueError, match="weight_bytes"):
        RoundNumbers(weight_bytes=90e9)


# ---- a plain-Python twin of the formulas

def twin(gpus=1, compute=0.7, bandwidth=0.8, overhead=1e-4, fraction=0.9, kv_size=2):
    W, P, L, d, kv = 16.06e9, 6.979e9, 32, 4096, 32 * 8 * 128 * 2 * kv_size
    F, B = compute * 989e12 * gpus, bandwidth * 3.35e12 * gpus
    memory = fraction * 80e9 * gpus - W

    def prefill(new, cached=0):
        return max((2 * P * new + 4 * L * d * new * (cached + new / 2)) / F, (W + (cached + new) * kv) / B) + overhead

    def step(batch, context):
        return max(batch * (2 * P + 4 * L * d * context) / F, (W + batch * context * kv) / B) + overhead

    def users(context):
        return max(0, floor(memory / (kv * (context + 170))))
    return prefill, step, users


@given(new=st.integers(1, 200_000), cached=st.integers(0, 200_000), batch=st.integers(1, 500), gpus=st.integers(1, 8),
       compute=st.floats(0.05, 1), fraction=st.floats(0.3, 1), dtype=st.sampled_from(["bf16", "fp8", "fp32"]))
def test_against_the_twin(new, cached, batch, gpus, compute, fraction, dtype):
    roof = Roofline(LLAMA, "H100 SXM", gpus, compute, memory_fraction=fraction, kv_dtype=dtype)
    prefill, step, users = twin(gpus, compute, fraction=fraction, kv_size=kv_cost.DTYPE_BYTES[dtype])
    assert roof.prefill_seconds(new, cached) == pytest.approx(prefill(new, cached), rel=1e-12)
    assert roof.step_seconds(batch, new) == pytest.approx(step(batch, new), rel=1e-12)
    assert roof.decode_seconds(200, new) == pytest.approx(200 * step(1, new + 100), rel=1e-12)
    assert roof.max_users(new) == users(new)
    if users(new):
        assert roof.throughput(new) == pytest.approx(users(new) / step(users(new), new + 170), rel=1e-12)
        seconds = gpus * (200 * step(users(new), new + 170) / users(new) + prefill(70, new))
        assert roof.gpu_seconds_per_query(new) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize("name", model_names())
def test_curves_equal_their_points(name):
    """An array in gives the numbers that its elements give, for every model of the table."""
    roof = Roofline(name, "H200 SXM", gpus=16)
    contexts = np.array([1, 100, 2_047, 2_048, 4_096, 33_000, 128_000])
    for method in (roof.prefill_seconds, lambda c: roof.prefill_seconds(70, c), lambda c: roof.step_seconds(7, c), roof.max_users,
                   roof.throughput, roof.gpu_seconds_per_query, roof.model.kv_bytes, roof.model.kv_bytes_per_token,
                   lambda c: roof.throughput(c, shared=c), lambda c: roof.step_seconds(3, c, c / 2, False)):
        assert method(contexts) == pytest.approx([method(int(c)) for c in contexts], rel=1e-12)


@pytest.mark.parametrize("name", model_names())
def test_bytes_add_up_token_by_token(name):
    model = Model.load(name)
    grown = sum(model.kv_bytes_per_token(at) for at in range(5_000))
    assert model.kv_bytes(5_000) == grown
    assert model.kv_bytes(5_000, "fp8") * 2 == grown
    kinds = model.kv_by_kind(5_000)
    assert kinds["full"] + kinds["window"] == grown and kinds["state"] == model.state_bytes
    assert model.kv_bytes(5_000, unified_pages=True) == 5_000 * model.kv_bytes_per_token(0) >= grown


@pytest.mark.parametrize("name", ["Llama-3-8B", "Gemma-2-9B", "Mistral-7B-v0.1", "gpt-oss-20b"])
@pytest.mark.parametrize("cached, new", [(0, 50), (0, 300), (100, 7), (5_000, 300)])
def test_prefill_attention_is_the_sum_over_tokens(name, cached, new):
    """Attention of a prefill = each new token's own, half a token apart, windowed layers capped."""
    model = Model.load(name)
    tokens = cached + np.arange(new) + 0.5
    assert model.attention_flops(new, cached) == pytest.approx(model.decode_attention_flops(tokens).sum(), rel=1e-3)


def test_mla_bytes_and_flops():
    model = Model.load("DeepSeek-V3")
    assert model.kv_bytes_per_token() == (512 + 64) * 61 * 2 == 70_272
    assert model.with_(kv_lora_rank=0).kv_bytes_per_token() == 61 * 128 * (192 + 128) * 2
    assert model.attention_flops(1, 1_000) == 2 * 128 * (192 + 128) * 61 * 1_000.5
    assert model.decode_attention_flops(1_000) == 2 * 128 * (576 + 512) * 61 * 1_000
    assert model.kv_bytes_per_rank(10, 8) == model.kv_bytes(10)


def test_tensor_parallel_ranks():
    for ranks, heads in ((1, 8), (2, 4), (3, 3), (8, 1), (16, 1)):
        assert LLAMA.kv_bytes_per_rank(1_000, ranks) == heads * 32 * 128 * 2 * 2 * 1_000
    mixed = LLAMA.with_(full_layers=16, window_layers=16, window=100, full_kv_heads=2)
    assert mixed.kv_bytes_per_rank(1_000, 4) == 16 * 1 * 512 * 1_000 + 16 * 2 * 512 * 100


def test_windows():
    mistral = Model.load("Mistral-7B-v0.1")
    assert mistral.kv_bytes(10**6) == 512 * 2**20
    assert mistral.kv_bytes_per_token(4_095) == 131_072 and mistral.kv_bytes_per_token(4_096) == 0
    assert mistral.with_(window=None).kv_bytes(10**6) == mistral.kv_bytes(10**6, unified_pages=True) == 131_072 * 10**6
    oss = Model.load("gpt-oss-20b")
    assert round(32 * oss.kv_bytes(8_192) / 2**30, 2) == 6.09
    assert round(32 * oss.kv_bytes(8_192, unified_pages=True) / 2**30, 2) == 12.00
    gemma = Model.load("Gemma-3-27B")
    assert (gemma.kv_bytes_per_token(10**5), gemma.kv_bytes_per_token(0)) == (81_920, 507_904)


def test_state_is_apart():
    hybrid = Model.load("Qwen3-Next-80B-A3B")
    assert hybrid.state_bytes == 77_266_944 and hybrid.kv_bytes(1) == 24_576
    roof = Roofline(hybrid, "H200 SXM", gpus=4)
    assert roof.sequence_bytes(1) == 24_576 + 77_266_944
    assert roof.max_users(1) == (roof.kv_capacity_bytes) // (171 * 24_576 + 77_266_944)


def test_mixture_of_experts_computes_with_the_chosen_ones():
    model = Model.load("Mixtral-8x7B")
    attention, expert, router = 2 * 4096 * 4096 + 2 * 4096 * 1024, 3 * 4096 * 14336, 4096 * 8
    assert model.block_params == 32 * (attention + 2 * expert + router)
    assert model.weight_bytes == 2 * 46_702_792_704


# ---- limits

def test_prefill_limits():
    parts = ROOF.prefill_parts(1_000)
    assert ROOF.prefill_seconds(1_000) == max(parts["linear"] + parts["attention"], parts["memory"]) + parts["overhead"]
    grid = np.arange(1, 130_000, 997)
    assert (np.diff(ROOF.prefill_seconds(grid)) > 0).all()
    assert (ROOF.prefill_seconds(100, grid) <= ROOF.prefill_seconds(100 + grid)).all()
    assert (np.diff(ROOF.throughput(grid)) <= 1e-9).mean() > 0.95       # whole users make small steps
    assert ROOF.throughput(50_000, shared=0) == ROOF.throughput(50_000)


def test_what_does_not_fit():
    small = Roofline("Llama-3-70B", "RTX 4090")
    assert small.kv_capacity_bytes == 0 and small.max_users(100) == 0 and small.throughput(100) == 0
    assert small.gpu_seconds_per_query(100) == np.inf
    assert ROOF.max_users(10**6) == 0
    assert ROOF.throughput(np.array([1_000, 10**6])).tolist()[1] == 0
    assert break_even_queries(14_400, np.inf, 1.0) == 0
    assert break_even_queries(14_400, 1.0, 1.0) == break_even_queries(14_400, np.inf, np.inf) == np.inf
    with pytest.raises(ValueError, match="do not fit"):
        ROOF.throughput(120_000, users=4)


def test_gpu_seconds_without_a_cache():
    assert ROOF.gpu_seconds_per_query(K128, cached=False) - ROOF.gpu_seconds_per_query(K128) == pytest.approx(
        ROOF.prefill_seconds(K128 + 70) - ROOF.prefill_seconds(70, K128))


# ---- GPUs and names

def test_gpu_rows():
    h100 = Gpu.load("H100 SXM")
    assert (h100.memory_bytes, h100.bandwidth, h100.flops, h100.form_factor) == (80e9, 3.35e12, 989e12, "SXM")
    assert Gpu.load("h100") == h100
    assert h100.memory_bytes_device == 80 * 2**30 and h100.host_link_bytes_per_s == 64e9
    for name in gpu_names():
        assert Roofline("SmolLM2-135M", name).max_users(1_000) > 0
    assert "Apple M1 Max" in gpu_names(complete=False) and "Apple M1 Max" not in gpu_names()
    with pytest.raises(ValueError, match="Apple M1 Max: its flops is not known"):
        Roofline("SmolLM2-135M", "Apple M1 Max")


@pytest.mark.parametrize("call, words", [
    (lambda: Model.load("Lama-3-8B"), "did you mean.*Llama-3-8B"),
    (lambda: Model.load("xyzzy"), "there are"),
    (lambda: Model.load(7), "no model is called 7"),
    (lambda: Model.load(None), "no model"),
    (lambda: Gpu.load("H100 SMX"), "did you mean.*H100 SXM"),
    (lambda: LLAMA.with_(kvheads=8), "did you mean.*kv_heads"),
    (lambda: LLAMA.with_(kv_heads=5), "must divide"),
    (lambda: LLAMA.with_(kv_heads=0), "at least 1"),
    (lambda: LLAMA.with_(kv_heads=8.0), "whole number"),
    (lambda: LLAMA.with_(kv_heads=True), "whole number"),
    (lambda: LLAMA.with_(window=100), "no windowed layers"),
    (lambda: LLAMA.with_(full_layers=40), "more than its 32 layers"),
    (lambda: LLAMA.with_(weight_bytes=None).need("weight_bytes"), "weight_bytes is not known"),
    (lambda: LLAMA.kv_bytes(0), "tokens=0"),
    (lambda: LLAMA.kv_bytes(-5), "tokens=-5"),
    (lambda: LLAMA.kv_bytes(float("nan")), "tokens=nan"),
    (lambda: LLAMA.kv_bytes(float("inf")), "tokens=inf"),
    (lambda: LLAMA.kv_bytes(True), "tokens=True"),
    (lambda: LLAMA.kv_bytes("12"), "tokens='12'"),
    (lambda: LLAMA.kv_bytes(None), "tokens=None"),
    (lambda: LLAMA.kv_bytes(np.array([5, 0])), "tokens="),
    (lambda: LLAMA.kv_bytes(5, "bf61"), "known are fp32, bf16"),
    (lambda: LLAMA.kv_bytes_per_token(-1), "at=-1"),
    (lambda: LLAMA.kv_bytes_per_rank(5, 0), "ranks must be a whole number of at least 1, not 0"),
    (lambda: Roofline(LLAMA, "H100", gpus=0), "gpus must be a whole number of at least 1, not 0"),
    (lambda: Roofline(LLAMA, "H100", gpus=1.5), "gpus must be a whole number of at least 1, not 1.5"),
    (lambda: Roofline(LLAMA, "H100", memory_fraction=1.5), "memory_fraction=1.5 must be above 0 and at most 1"),
    (lambda: Roofline(LLAMA, "H100", compute_efficiency=0), "compute_efficiency=0"),
    (lambda: Roofline(LLAMA, "H100", overhead_s=-1), "overhead_s=-1"),
    (lambda: Roofline(LLAMA, "H100", kv_dtype="int3"), "int3"),
    (lambda: ROOF.prefill_seconds(0), "new=0"),
    (lambda: ROOF.prefill_seconds(5, -1), "cached=-1"),
    (lambda: ROOF.step_seconds(0, 5), "batch=0"),
    (lambda: ROOF.step_seconds(1, 0), "context=0"),
    (lambda: ROOF.decode_seconds(0, 5), "tokens=0"),
    (lambda: ROOF.max_users(0), "context=0"),
    (lambda: ROOF.throughput(-3), "context=-3"),
    (lambda: ROOF.throughput(100, shared=101), "shared=101 is longer than context=100"),
    (lambda: ROOF.throughput(100, users=0), "users=0"),
    (lambda: ROOF.max_users(100, question=0), "question=0"),
    (lambda: ROOF.gpu_seconds_per_query(100, answer=float("nan")), "answer=nan"),
    (lambda: break_even_queries(-1, 1), "training_gpu_seconds=-1"),
    (lambda: break_even_queries(1, float("nan")), "nan"),
    (lambda: L11_RULES.break_even_queries(0), "corpus_tokens=0"),
    (lambda: Roofline(LLAMA, "H100", compute_efficiency=[0.5, 0.7]), "compute_efficiency=.*one number"),
    (lambda: ROOF.max_users(float("inf")), "context=inf must be above 0 and finite"),
    (lambda: kv_studies.latency(context=0), "context=0"), (lambda: kv_studies.latency(cached=1.5), "cached=1.5"),
    (lambda: kv_studies.serving(context=0), "0"), (lambda: kv_studies.serving(memory_fraction=1.5), "memory_fraction=1.5"),
    (lambda: kv_studies.serving(sharing=[]), "sharing=.* is unknown"), (lambda: kv_studies.cache_sizes(kv_heads=["x"]), "kv_heads=.* is unknown"),
    (lambda: Model.load("x" * 5_000 + ".json"), "cannot be read"), (lambda: Model.load("a\0.json"), "no model is called"),
    (lambda: Gpu(name="mine", memory_bytes=-1), "mine: memory_bytes=-1"),
])
def test_impossible_values_say_what_and_where(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_a_gpu_of_ones_own():
    mine = Gpu(name="mine", memory_bytes=80e9, bandwidth=3.35e12, flops=989e12)
    assert Roofline(LLAMA, mine).prefill_seconds(5_000) == ROOF.prefill_seconds(5_000)


def test_small_integers_do_not_overflow():
    assert LLAMA.kv_bytes(np.array([128_000], dtype=np.int32)).tolist() == [131_072 * 128_000]
    assert LLAMA.kv_bytes(np.int32(128_000)) == 131_072 * 128_000


# ---- what the panels show

def test_the_curve_and_the_table_end_at_the_context_chosen():
    """The rest is for the student to predict."""
    panel = Panel(kv_studies.serving, figures.draw_serving, figures.table_serving, alt=figures.alt_serving,
                  context=[4_000, 250, 120_000, 1_000_000], sharing=list(kv_studies.SHARING))
    for context, sharing in ((4_000, 0), (250, 1), (120_000, 2), (1_000_000, 0)):
        panel.set(context=context, sharing=list(kv_studies.SHARING)[sharing])
        speed, users = panel._canvas.figure.axes
        for line in (*speed.lines[:2], users.lines[0]):
            assert line.get_xdata()[-1] == context
        assert speed.lines[0].get_ydata()[-1] == pytest.approx(kv_studies.serving(context=context).at["throughput"] or np.nan, nan_ok=True)
        table = figures.table_serving(panel.result)
        assert len(table) == 1 + sum(length <= context for length in kv_studies.CONTEXTS)
        assert ("falls" in panel.screen.alt) == (context == 120_000 and sharing == 0)


def test_all_points_are_inside_the_roofline():
    """Of every model on the slowest and the fastest GPUs, at both ends of the sliders."""
    gpus = [Gpu.load(name) for name in gpu_names()]
    ends = {pick(gpus, key=key).name for pick in (min, max) for key in (lambda gpu: gpu.flops, lambda gpu: gpu.bandwidth)}
    panel = Panel(kv_studies.latency, figures.draw_latency, figures.table_latency, context=[32_000])
    roof = panel._canvas.figure.axes[1]
    (left, right), (low, high) = roof.get_xlim(), roof.get_ylim()
    for model in model_names():
        for gpu in ends:
            for context in (250, 1_000_000):
                points = kv_studies.latency(model, gpu, context).points
                assert points["intensity"].between(left, right).all() and points["speed"].between(low, high).all(), (model, gpu)


def test_the_legend_names_the_kinds_of_layer_there_are():
    panel = Panel(kv_studies.cache_sizes, figures.draw_cache_sizes, figures.table_cache_sizes, model=["Llama-3-8B", "Gemma-3-27B", "Jamba-1.5-Mini"])
    for model, kind in (("Llama-3-8B", set()), ("Gemma-3-27B", {"windowed layers"}), ("Jamba-1.5-Mini", {"constant state"})):
        panel.set(model=model)
        (legend,) = panel._canvas.figure.legends
        assert {text.get_text() for text in legend.get_texts()} == {"layers that keep every token", "weights"} | kind
        assert ("of it constant state" in figures.table_cache_sizes(panel.result).index) == (model == "Jamba-1.5-Mini")


def test_results_print_in_a_line():
    for result, words in ((kv_studies.cache_sizes(), "16.78 GB"), (kv_studies.latency(), "decode 2.472 s"), (kv_studies.serving(), "3 users")):
        assert words in repr(result) and "\n" not in repr(result) and len(repr(result)) < 200


def test_the_lengths_of_the_lectures_are_stops_of_the_sliders():
    assert {*kv_studies.CONTEXTS, K128, 250, 48_000} <= {*kv_studies.LENGTHS} and list(kv_studies.LENGTHS) == sorted(kv_studies.LENGTHS)


ROOFLINE, LLAMA = Roofline("Llama-3-8B", "H100 SXM"), Model.load("Llama-3-8B")


@pytest.mark.parametrize("call, says", [
    (lambda: LLAMA.linear_flops("5"), "tokens='5' must be a number"),
    (lambda: LLAMA.attention_flops(-1), "new=-1 must be"),
    (lambda: LLAMA.attention_flops(1, float("nan")), "cached=nan must be"),
    (lambda: LLAMA.decode_attention_flops(None), "context=None must be"),
    (lambda: LLAMA.numbers_per_token("windowed"), "choose full or window"),
    (lambda: LLAMA.need("weight"), "did you mean weight_bytes"),
    (lambda: ROOFLINE.gpu_seconds_per_query(1000, cached=500), "cached must be True or False, not 500"),
    (lambda: Gpu("mine", [80e9]), "memory_bytes=.* must be one number"),
    (lambda: RoundNumbers(memory_bytes=[80e9, 90e9]), "must be one number"),
    (lambda: break_even_queries(100, "3"), "gpu_seconds_before='3' must be a number"),
    (lambda: break_even_queries(100, 3, -1), "gpu_seconds_after=-1 must be a number, at least 0"),
    (lambda: break_even_queries(100, float("nan")), "gpu_seconds_before=nan"),
    (lambda: kv_studies.latency(context=[1000, 2000]), "context=.* must be one number"),
    (lambda: kv_studies.latency(answer=None), "answer=None must be"),
    (lambda: kv_studies.serving(context="120k"), "context='120k' must be a number"),
    (lambda: kv_studies.serving(context=0.5), "context=0.5 must be at least 1"),
    (lambda: kv_studies.cache_sizes(window="no"), "window must be True or False, not 'no'"),
])
def test_impossible_numbers_are_refused_by_name(call, says):
    with pytest.raises(ValueError, match=says):
        call()
