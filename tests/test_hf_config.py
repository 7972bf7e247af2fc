"""Reading config.json: every public model's geometry, every trap of a real file, and nothing but ValueError for the rest."""

import copy
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labkit import reference
from labkit.kv_cost import Model, Roofline

CONFIGS = sorted((Path(__file__).parent / "configs").glob("*.json"))

# Small made-up geometry: 4 layers of 8 heads of 16; an MHA cache holds 2 x 8 x 16 x 2 = 512 bytes a token and layer.
BASE = {"num_hidden_layers": 4, "hidden_size": 128, "num_attention_heads": 8}


def per_token(config, at=0):
    return Model.load({**BASE, **config}).kv_bytes_per_token(at)


# ---- the rows of the table are what the configs say

@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_config_gives_the_row_of_its_model(path):
    read, row = Model.load(path), Model.load(path.stem)
    for name in ("layers", "hidden", "query_heads", "kv_heads", "head_dim", "full_layers", "window_layers", "state_layers", "window",
                 "value_head_dim", "kv_lora_rank", "rope_head_dim", "total_params", "state_bytes"):
        assert getattr(read, name) == getattr(row, name), name
    # Llama-3-8B's row holds the rounded numbers that the lecture figures were fitted with
    rounding = 5e-5 if path.stem == "Llama-3-8B" else 0
    assert row.weight_bytes == pytest.approx(read.weight_bytes, rel=rounding, abs=0)
    assert row.block_params == pytest.approx(read.block_params, rel=rounding, abs=0)


def test_every_row_has_its_config():
    assert {path.stem for path in CONFIGS} == set(reference.models()["name"])


# Totals as published or counted from the weight files, apart from our own count.
@pytest.mark.parametrize("name, total", {
    "Llama-2-7B": 6_738_415_616, "Llama-2-70B": 68_976_648_192, "Llama-3-8B": 8_030_261_248, "Llama-3-70B": 70_553_706_496,
    "Llama-3.1-405B": 405_853_388_800, "Llama-3.2-1B": 1_235_814_400, "Llama-3.2-3B": 3_212_749_824,
    "Mistral-7B-v0.1": 7_241_732_096, "Mixtral-8x7B": 46_702_792_704, "Qwen2.5-7B": 7_615_616_512, "Qwen2.5-72B": 72_706_203_648,
    "Qwen3-8B": 8_190_735_360, "Qwen3-30B-A3B": 30_532_122_624, "Qwen3-235B-A22B": 235_093_634_560, "Gemma-2-9B": 9_241_705_984,
    "Gemma-3-27B": 27_009_346_304, "Phi-3-mini-4k": 3_821_079_552, "DeepSeek-V2-Lite": 15_706_484_224,
    "DeepSeek-V3": 671_026_419_200, "gpt-oss-20b": 20_914_757_184, "gpt-oss-120b": 116_829_156_672, "GPT-2": 124_439_808,
    "Falcon-7B": 6_921_720_704, "SmolLM2-135M": 134_515_008}.items())
def test_parameter_totals(name, total):
    assert Model.load(name).total_params == total


@pytest.mark.parametrize("name, nominal", [("Jamba-1.5-Mini", 52e9), ("Qwen3-Next-80B-A3B", 80e9), ("GLM-4.5", 355e9)])
def test_totals_known_only_roughly(name, nominal):
    assert Model.load(name).total_params == pytest.approx(nominal, rel=0.01)


def test_exact_lecture_model():
    model = Model.load(Path(__file__).parent / "configs" / "Llama-3-8B.json")
    per_layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336
    assert model.block_params == 32 * per_layer == 6_979_321_856
    assert model.weight_bytes == 2 * 8_030_261_248


@pytest.mark.parametrize("name, bytes_per_token", [
    ("Llama-3-8B", 131_072), ("Llama-2-7B", 524_288), ("Llama-3.1-405B", 516_096), ("Falcon-7B", 8_192), ("Qwen3-4B", 147_456),
    ("GLM-4.5", 376_832), ("DeepSeek-V3", 70_272), ("DeepSeek-R1", 70_272), ("DeepSeek-V2-Lite", 31_104), ("GPT-2", 36_864),
    ("Jamba-1.5-Mini", 16_384), ("Qwen3-Next-80B-A3B", 24_576), ("Nemotron-3-Nano-30B-A3B", 6_144)])
def test_bytes_a_token(name, bytes_per_token):
    assert Model.load(name).kv_bytes_per_token() == Model.load(name).kv_bytes(1) == bytes_per_token


@pytest.mark.parametrize("name, windowed, full", [
    ("Gemma-3-27B", 425_984, 81_920), ("gpt-oss-120b", 36_864, 36_864), ("gpt-oss-20b", 24_576, 24_576), ("Gemma-2-9B", 172_032, 172_032),
    ("Mistral-7B-v0.1", 131_072, 0), ("Phi-3-mini-4k", 393_216, 0), ("Qwen2.5-7B", 0, 57_344), ("Mistral-7B-v0.3", 0, 131_072)])
def test_windowed_and_full_bytes(name, windowed, full):
    kinds = Model.load(name).kv_by_kind(1)
    assert (kinds["window"], kinds["full"]) == (windowed, full)


# ---- traps, one small config each: what it says -> bytes a token of a short sequence

TRAPS = {
    "MHA where KV heads are missing": ({}, 4 * 512),
    "null KV heads and null head_dim": ({"num_key_value_heads": None, "head_dim": None}, 4 * 512),
    "GQA": ({"num_key_value_heads": 2}, 4 * 128),
    "explicit head_dim": ({"head_dim": 64}, 4 * 2048),
    "explicit head_dim where hidden / heads is a fraction": ({"hidden_size": 130, "head_dim": 16}, 4 * 512),
    "one shared head although num_kv_heads says 8": (
        {"model_type": "falcon", "multi_query": True, "new_decoder_architecture": False, "num_kv_heads": 8}, 4 * 64),
    "the switch is a class default": ({"model_type": "falcon", "num_kv_heads": 8}, 4 * 64),
    "the new architecture has groups": (
        {"model_type": "falcon", "multi_query": True, "new_decoder_architecture": True, "num_kv_heads": 2}, 4 * 128),
    "multi_query off": ({"multi_query": False}, 4 * 512),
    "groups under another name": ({"multi_query_attention": True, "multi_query_group_num": 2, "kv_channels": 16}, 4 * 128),
    "MLA: one latent, no factor 2, heads mislead": (
        {"kv_lora_rank": 32, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16, "num_key_value_heads": 8, "head_dim": 8,
         "q_lora_rank": None}, 4 * 40 * 2),
    "no MLA where the rank is null": ({"kv_lora_rank": None}, 4 * 512),
    "weights' quantisation is not the cache's": ({"quantization_config": {"quant_method": "fp8"}}, 4 * 512),
    "text_config": ({"num_hidden_layers": None, "text_config": {**BASE, "num_hidden_layers": 2}}, 2 * 512),
    "text_config two levels down": ({"num_hidden_layers": None, "thinker_config": {"text_config": BASE}}, 4 * 512),
    "float16 under dtype": ({"dtype": "float16"}, 4 * 512),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_traps(trap):
    config, expected = TRAPS[trap]
    assert per_token(config) == expected


# ... -> (layers that keep all, windowed ones, with a state)
KINDS = {
    "window null": ({"sliding_window": None}, (4, 0, 0)),
    "window in every layer": ({"model_type": "mistral", "sliding_window": 10}, (0, 4, 0)),
    "window switched off": ({"sliding_window": 10, "use_sliding_window": False}, (4, 0, 0)),
    "window off by class default": ({"model_type": "qwen2", "sliding_window": 10}, (4, 0, 0)),
    "window above max_window_layers": (
        {"model_type": "qwen2", "sliding_window": 10, "use_sliding_window": True, "max_window_layers": 3}, (3, 1, 0)),
    "alternation in code only": ({"model_type": "gemma2", "sliding_window": 10}, (2, 2, 0)),
    "the pattern is a class default": ({"model_type": "gemma3_text", "num_hidden_layers": 14, "sliding_window": 10}, (2, 12, 0)),
    "sliding_window_pattern": ({"sliding_window": 10, "sliding_window_pattern": 4}, (1, 3, 0)),
    "the pattern as a string": ({"sliding_window": 10, "sliding_window_pattern": "LLG"}, (1, 3, 0)),
    "layer_types": ({"sliding_window": 10, "layer_types": ["sliding_attention", "full_attention"] * 2}, (2, 2, 0)),
    "layer_types where the switch is off": (
        {"sliding_window": 10, "use_sliding_window": False, "layer_types": ["sliding_attention", "full_attention"] * 2}, (4, 0, 0)),
    "chunks without a window": ({"model_type": "llama4_text", "attention_chunk_size": 10}, (1, 3, 0)),
    "chunks placed one by one": ({"attention_chunk_size": 10, "no_rope_layers": [1, 0, 1, 0]}, (2, 2, 0)),
    "full_attention_interval": ({"full_attention_interval": 2}, (2, 0, 2)),
    "layer_types with linear attention": ({"layer_types": ["linear_attention"] * 3 + ["full_attention"]}, (1, 0, 3)),
    "attn_layer_period and offset": ({"attn_layer_period": 4, "attn_layer_offset": 1}, (1, 0, 3)),
    "attn_layer_indices": ({"attn_layer_indices": [2]}, (1, 0, 3)),
    "layers_block_type": ({"layers_block_type": ["mamba", "attention", "mamba", "mamba"]}, (1, 0, 3)),
    "a pattern string with layers that keep nothing": ({"hybrid_override_pattern": "ME*-"}, (1, 0, 1)),
    "attn_type_list": ({"attn_type_list": [0, 0, 0, 1]}, (1, 0, 3)),
    "block_configs": ({"block_configs": [{"attention": {"n_heads_in_group": 4}}, {"attention": {"no_op": True}}] * 2}, (2, 0, 0)),
}


@pytest.mark.parametrize("case", KINDS)
def test_layer_kinds(case):
    config, expected = KINDS[case]
    model = Model.load({**BASE, **config})
    assert (model.full_layers, model.window_layers, model.state_layers) == expected
    assert model.window == (10 if expected[1] else None)


def test_heads_of_full_layers_may_differ():
    model = Model.load({**BASE, "num_key_value_heads": 4, "sliding_window": 10, "sliding_window_pattern": 2,
                        "num_global_key_value_heads": 1, "global_head_dim": 32})
    assert model.kv_by_kind(100) == {"full": 2 * 1 * 2 * 32 * 2 * 100, "window": 2 * 4 * 2 * 16 * 2 * 10, "state": 0}


def test_constant_state():
    mamba = {"attn_layer_period": 4, "attn_layer_offset": 0, "mamba_expand": 2, "mamba_d_state": 16, "mamba_d_conv": 4}
    assert Model.load({**BASE, **mamba}).state_bytes == 3 * (256 * 16 * 4 + 256 * 3 * 2)
    unknown = Model.load({**BASE, "attn_layer_period": 4, "attn_layer_offset": 0})
    assert unknown.kv_bytes(1) == 512
    with pytest.raises(ValueError, match="mamba_expand"):
        unknown.kv_by_kind(1)


def test_class_defaults_are_said():
    model = Model.load(Path(__file__).parent / "configs" / "Gemma-3-4B.json")
    assert (model.query_heads, model.kv_heads, model.head_dim, model.window) == (8, 4, 256, 1024)
    assert any("num_attention_heads = 8" in note for note in model.assumptions)
    assert Model.load(Path(__file__).parent / "configs" / "Llama-3-8B.json").assumptions == ()


# ---- shapes of public models, as their files write them -> (bytes a token, layers that keep all, windowed ones, with a state)

MPT = {"model_type": "mpt", "d_model": 3072, "n_heads": 24, "n_layers": 32}
PUBLIC_SHAPES = {
    "Llama-4": ({"text_config": {
        "model_type": "llama4_text", "num_hidden_layers": 48, "hidden_size": 5120, "num_attention_heads": 40, "num_key_value_heads": 8,
        "head_dim": 128, "attention_chunk_size": 8192, "no_rope_layers": [], "intermediate_size": 8192}}, (196_608, 12, 36, 0)),
    "Mistral-Small": ({"vision_config": {"num_hidden_layers": 24, "hidden_size": 1024, "num_attention_heads": 16}, "text_config": {
        "model_type": "mistral", "num_hidden_layers": 40, "hidden_size": 5120, "num_attention_heads": 32, "num_key_value_heads": 8,
        "head_dim": 128, "sliding_window": None}}, (163_840, 40, 0, 0)),
    "Phi-3.5-MoE": ({"model_type": "phimoe", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
                     "num_key_value_heads": 8, "sliding_window": 131_072}, (131_072, 0, 32, 0)),
    "Qwen2-VL": ({"text_config": {"model_type": "qwen2_vl_text", "num_hidden_layers": 28, "hidden_size": 3584, "num_attention_heads": 28,
                                  "num_key_value_heads": 4, "sliding_window": 32_768}}, (57_344, 28, 0, 0)),
    "Qwen2, windows on by the class": ({**BASE, "model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 2}, (2048, 2, 2, 0)),
    "DBRX": ({"model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40, "attn_config": {"kv_n_heads": 8, "model_type": ""},
              "ffn_config": {"ffn_hidden_size": 10_752}}, (163_840, 40, 0, 0)),
    "MPT": ({**MPT, "attn_config": {"alibi": True}}, (393_216, 32, 0, 0)),
    "MPT, one KV head": ({**MPT, "attn_config": {"attn_type": "multiquery_attention"}}, (16_384, 32, 0, 0)),
    "MPT, groups": ({**MPT, "attn_config": {"attn_type": "grouped_query_attention", "kv_n_heads": 8}}, (131_072, 32, 0, 0)),
    "Command-R7B": ({"model_type": "cohere2", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
                     "num_key_value_heads": 8, "sliding_window": 4096}, (131_072, 8, 24, 0)),
    "StableLM-2": ({"model_type": "stablelm", "num_hidden_layers": 40, "hidden_size": 5120, "num_attention_heads": 32,
                    "num_key_value_heads": 8}, (204_800, 40, 0, 0)),
    "OLMo": ({"model_type": "olmo", "d_model": 4096, "n_heads": 32, "n_layers": 32, "multi_query_attention": False, "n_kv_heads": None},
             (524_288, 32, 0, 0)),
    "Granite hybrid": ({"model_type": "granitemoehybrid", "num_hidden_layers": 40, "hidden_size": 4096, "num_attention_heads": 32,
                        "num_key_value_heads": 8, "layer_types": (["mamba"] * 9 + ["attention"]) * 4, "mamba_n_heads": 128,
                        "mamba_d_head": 64, "mamba_d_state": 128, "mamba_n_groups": 1, "mamba_d_conv": 4}, (16_384, 4, 0, 36)),
    "Falcon-40B": ({"model_type": "falcon", "num_hidden_layers": 60, "hidden_size": 8192, "num_attention_heads": 128, "num_kv_heads": 8,
                    "multi_query": True, "new_decoder_architecture": True}, (122_880, 60, 0, 0)),
    "GPT-NeoX": ({"model_type": "gpt_neox", "num_hidden_layers": 44, "hidden_size": 6144, "num_attention_heads": 64}, (1_081_344, 44, 0, 0)),
    "BLOOM": ({"model_type": "bloom", "n_layer": 30, "n_embed": 4096, "num_attention_heads": 32}, (491_520, 30, 0, 0)),
    "ChatGLM": ({"model_type": "chatglm", "num_layers": 28, "hidden_size": 4096, "num_attention_heads": 32, "kv_channels": 128,
                 "multi_query_attention": True, "multi_query_group_num": 2}, (28_672, 28, 0, 0)),
    "GPT-J": ({"model_type": "gptj", "n_layer": 28, "n_embd": 4096, "n_head": 16, "rotary_dim": 64, "n_inner": None}, (458_752, 28, 0, 0)),
    "GPT-BigCode": ({"model_type": "gpt_bigcode", "n_layer": 40, "n_embd": 6144, "n_head": 48}, (20_480, 40, 0, 0)),
    "Step-3": ({"model_type": "step3_text", "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 64,
                "num_attention_groups": 1, "head_dim": 256}, (62_464, 61, 0, 0)),
    "Gemma, head_dim left to the class": ({"model_type": "gemma", "num_hidden_layers": 28, "hidden_size": 3072, "num_attention_heads": 16,
                                           "num_key_value_heads": 16}, (458_752, 28, 0, 0)),
    "Gemma-4": ({"text_config": {
        "model_type": "gemma4_text", "num_hidden_layers": 30, "hidden_size": 2816, "num_attention_heads": 16, "num_key_value_heads": 8,
        "head_dim": 256, "num_global_key_value_heads": 2, "global_head_dim": 512, "attention_k_eq_v": True, "num_kv_shared_layers": 0,
        "sliding_window": 1024, "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 5}}, (225_280, 5, 25, 0)),
    "Qwen3.5": ({"text_config": {
        "model_type": "qwen3_5_text", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 16, "num_key_value_heads": 4,
        "head_dim": 256, "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 8, "linear_num_value_heads": 32,
        "linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4}}, (32_768, 8, 0, 24)),
    "values narrower than keys": ({**BASE, "head_dim": 24, "v_head_dim": 16}, (4 * 8 * (24 + 16) * 2, 4, 0, 0)),
    "full_attn_idxs": ({**BASE, "model_type": "lfm2", "full_attn_idxs": [1, 3], "conv_L_cache": 3}, (2 * 512, 2, 0, 2)),
}


@pytest.mark.parametrize("name", PUBLIC_SHAPES)
def test_public_shapes(name):
    config, expected = PUBLIC_SHAPES[name]
    model = Model.load(config)
    assert (model.kv_bytes_per_token(), model.full_layers, model.window_layers, model.state_layers) == expected


# What would be read wrong without an error -> the field that the refusal names.
NOT_COVERED = {
    "Gemma-3n": ({"model_type": "gemma3n_text"}, "num_kv_shared_layers"),        # shared by default of its class
    "a recurrent model's heads": ({"num_attention_heads": None, "num_heads": 8, "model_type": "mamba2"}, "num_attention_heads"),
    "RWKV": ({"attention_hidden_size": 128}, "attention_hidden_size"),
    "an encoder": ({"model_type": "bert", "architectures": ["BertModel"]}, "model_type='bert'"),
    "two towers": ({"num_hidden_layers": None, "model_type": "clip", "text_config": BASE}, "model_type='clip'"),
    "T5": ({"model_type": "t5"}, "model_type='t5'"),
    "an encoder outside": ({"num_hidden_layers": None, "is_encoder_decoder": True, "text_config": BASE}, "decoder-only"),
    "Falcon-H1": ({"model_type": "falcon_h1", "mamba_d_state": 16}, "mamba_d_state.*'layer_types'"),
    "Zamba2": ({"layers_block_type": ["mamba", "hybrid"] * 2}, r"layers_block_type\[1\]='hybrid'"),
    "RecurrentGemma": ({"block_types": ["recurrent", "attention"]}, "block_types"),
    "Ling": ({"layer_group_size": 4}, "layer_group_size"),
    "Phi-4-mini-flash": ({"mb_per_layer": 2}, "mb_per_layer"),
    "Hunyuan": ({"use_cla": True}, "use_cla"),
    "MiMo": ({"hybrid_layer_pattern": [0, 1, 1, 1], "sliding_window": 8}, "hybrid_layer_pattern"),
    "Baichuan-M1": ({"num_swa_key_value_heads": 8, "sliding_window": 8}, "num_swa_key_value_heads"),
    "DeciLM": ({"num_key_value_heads_per_layer": [4, 2, 2, 4]}, "num_key_value_heads_per_layer"),
    "LongCat": ({"model_type": "longcat_flash"}, "longcat_flash"),
    "SantaCoder": ({"attention_head_type": "multiquery"}, "attention_head_type"),
    "a window that only code places": ({"model_type": "new_family", "sliding_window": 8}, "'layer_types'.*new_family"),
    "MiniCPM3": ({"kv_lora_rank": 32, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8}, "'v_head_dim'"),
    "contradicting layers": ({"n_layer": 5}, "num_hidden_layers=4 and n_layer=5 contradict"),
    "contradicting KV heads": ({"num_key_value_heads": 2, "n_head_kv": 4}, "contradict"),
    "attn_config is no object": ({"attn_config": 8}, "attn_config=8"),
    "attn_config without KV heads": ({"attn_config": {}}, "attn_config.*'kv_n_heads'"),
    "attn_config with words": ({"attn_config": {"kv_n_heads": "8"}}, "attn_config: kv_n_heads must be a whole number from 1 to 10,000,000, not '8'"),
    "attn_config of an unknown kind": ({"attn_config": {"attn_type": "x"}}, "attn_type='x' is unknown"),
    "attn_config against itself": ({"attn_config": {"attn_type": "multihead_attention", "kv_n_heads": 2}}, "contradicts kv_n_heads=2"),
    "an offset beyond the period": ({"attn_layer_period": 4, "attn_layer_offset": 4}, "attn_layer_offset=4 must be below"),
    "a place beyond the layers": ({"attn_layer_indices": [4]}, "attn_layer_indices=.*from 0 to 3"),
    "a place in words": ({"full_attn_idxs": ["1"]}, "full_attn_idxs="),
    "a number beyond all models": ({"hidden_size": 10**400}, "hidden_size must be a whole number from 1 to 10,000,000, not 1000"),
}


@pytest.mark.parametrize("name", NOT_COVERED)
def test_what_is_not_covered_is_refused_by_name(name):
    config, words = NOT_COVERED[name]
    with pytest.raises(ValueError, match=words):
        Model.load({**BASE, **config})


def test_a_layer_list_without_modules_leaves_the_weights_open():
    model = Model.load({**FULL, "layers_block_type": ["attention", "mlp", "attention", "moe"]})
    assert model.kv_bytes_per_token() == 2 * 512
    with pytest.raises(ValueError, match="hybrid_override_pattern"):
        model.need("weight_bytes")


# ---- weights

FULL = {**BASE, "intermediate_size": 256, "vocab_size": 1_000, "model_type": "llama"}
BLOCKS = 4 * (4 * 128 * 128 + 3 * 128 * 256)
REST = 2 * 1_000 * 128 + 9 * 128


@pytest.mark.parametrize("config, expected", [
    ({}, 2 * (BLOCKS + REST)), ({"torch_dtype": "float32"}, 4 * (BLOCKS + REST)), ({"dtype": "bfloat16"}, 2 * (BLOCKS + REST)),
    ({"tie_word_embeddings": True}, 2 * (BLOCKS + REST - 128_000)),
    ({"attention_bias": True}, 2 * (BLOCKS + REST + 4 * 4 * 128)),
    ({"attn_output_gate": True}, 2 * (BLOCKS + REST + 4 * 128 * 128)),
    ({"head_dim": 16, "v_head_dim": 8}, 2 * (BLOCKS + REST - 4 * 128 * 128)),          # V and O half as wide
    ({"quantization_config": {"quant_method": "fp8"}}, BLOCKS + 2 * REST),
    ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, BLOCKS / 2 + 2 * REST),
    ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}, BLOCKS / 2 + 2 * REST),
    ({"quantization_config": {"config_groups": {"group_0": {"weights": {"num_bits": 8}}}}}, BLOCKS + 2 * REST),
])
def test_weight_bytes(config, expected):
    assert Model.load({**FULL, **config}).weight_bytes == expected


def test_dtype_beside_or_inside_the_text_part():
    inside = {"text_config": {**FULL, "torch_dtype": "float32"}, "torch_dtype": "bfloat16"}
    outside = {"text_config": FULL, "torch_dtype": "float32"}
    assert Model.load(inside).weight_bytes == Model.load(outside).weight_bytes == 4 * (BLOCKS + REST)


@pytest.mark.parametrize("config, words", [
    ({"vocab_size": None}, "weight_bytes is not known.*vocab_size"),
    ({"intermediate_size": None}, "intermediate_size"),
    ({"quantization_config": {"quant_method": "novel"}}, "quant_method='novel'"),
    ({"num_local_experts": 4}, "num_experts_per_tok"),
])
def test_what_only_the_weights_need_is_named_when_they_are_needed(config, words):
    model = Model.load({**FULL, **config})
    assert model.kv_bytes_per_token() == 4 * 512
    with pytest.raises(ValueError, match=words):
        Roofline(model, "H100 SXM")


# ---- refusals

@pytest.mark.parametrize("config, words", [
    ({"num_hidden_layers": None}, "'num_hidden_layers'.*missing"),
    ({"hidden_size": None}, "'hidden_size'.*missing"),
    ({"num_attention_heads": None}, "'num_attention_heads'.*missing"),
    ({"num_hidden_layers": 0}, "num_hidden_layers must be a whole number from 1 to 10,000,000, not 0"),
    ({"num_hidden_layers": 10**9}, "num_hidden_layers must be a whole number from 1 to 10,000,000, not 1000000000"),
    ({"num_hidden_layers": "4"}, "num_hidden_layers must be a whole number from 1 to 10,000,000, not '4'"),
    ({"num_hidden_layers": True}, "num_hidden_layers must be a whole number from 1 to 10,000,000, not True"),
    ({"hidden_size": -128}, "hidden_size must be a whole number from 1 to 10,000,000, not -128"),
    ({"hidden_size": float("nan")}, "hidden_size must be a whole number from 1 to 10,000,000, not nan"),
    ({"hidden_size": 128.0}, "hidden_size must be a whole number from 1 to 10,000,000, not 128.0"),
    ({"num_key_value_heads": 0}, "num_key_value_heads must be a whole number from 1 to 10,000,000, not 0"),
    ({"num_key_value_heads": 3}, "cannot be shared out over 3 KV heads"),
    ({"num_key_value_heads": [1, 2]}, "num_key_value_heads must be a whole number from 1 to 10,000,000, not .1, 2"),
    ({"hidden_size": 130}, "does not divide into 8 heads"),
    ({"kv_lora_rank": 32}, "qk_rope_head_dim"),
    ({"kv_lora_rank": 32, "qk_rope_head_dim": 8, "v_head_dim": 8}, "qk_nope_head_dim"),
    ({"layer_types": ["full_attention"]}, "one entry for each of the 4 layers"),
    ({"layer_types": ["full_attention"] * 3 + ["telepathy"]}, r"layer_types\[3\]='telepathy' is an unknown kind"),
    ({"layer_types": ["full_attention"] * 3 + [["x"]]}, "unknown kind"),
    ({"layer_types": ["sliding_attention"] * 4}, "sliding_window"),
    ({"hybrid_override_pattern": "M*X*"}, r"\[2\]='X'"),
    ({"sliding_window": -1}, "sliding_window must be a whole number from 1 to 10,000,000, not -1"),
    ({"sliding_window": 10, "use_sliding_window": "no"}, "use_sliding_window='no'"),
    ({"sliding_window": 10, "sliding_window_pattern": "LX"}, "may hold only L, G"),
    ({"attn_layer_period": 4}, "attn_layer_offset"),
    ({"attention_chunk_size": 10}, "no_rope_layer_interval"),
    ({"block_configs": [{}] * 4}, "block_configs"),
    ({"block_configs": [{"attention": {"n_heads_in_group": 3}}] * 4}, "groups of"),
    ({"multi_query_attention": True}, "multi_query_group_num"),
    ({"is_encoder_decoder": True}, "decoder-only"),
    ({"architectures": ["BertForMaskedLM"]}, "decoder-only"),
    ({"num_kv_shared_layers": 2}, "num_kv_shared_layers"),
    ({"index_topk": 2048}, "index_topk"),
    ({"torch_dtype": "float3"}, "float3"),
])
def test_a_config_that_cannot_be_understood_is_refused_by_name(config, words):
    with pytest.raises(ValueError, match=words):
        Model.load({**BASE, **config})


def test_an_empty_config():
    with pytest.raises(ValueError, match="num_hidden_layers"):
        Model.load({})


@pytest.mark.parametrize("content, words", [
    (b"", "is not valid JSON"), (b"[1, 2]", "holds a JSON list"), (b"null", "NoneType"), (b"12", "holds a JSON int"), (b"hello", "is not valid JSON"),
    (b'{"num_hidden_layers": 4, ', "is not valid JSON"), (b"\x80\x81\xff\x00", "not a text file"), (b"{}", "num_hidden_layers"),
    (b'{"n": ' + b"9" * 5_000 + b"}", "not valid JSON"), (b"[" * 100_000, "not valid JSON"),
], ids=["empty", "list", "null", "number", "words", "truncated", "binary", "no fields", "endless number", "endless nesting"])
def test_files_that_are_no_config(tmp_path, content, words):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=words) as caught:
        Model.load(str(path))
    assert str(path) in str(caught.value)


def test_paths(tmp_path):
    folder = tmp_path / "my-model"
    folder.mkdir()
    path = folder / "config.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(BASE).encode("utf-8"))          # a byte-order mark is read over
    assert Model.load(str(path)) == Model.load(path)
    assert Model.load(path).name == "my-model" and Model.load(BASE).name == "config"
    with pytest.raises(ValueError, match="is a folder"):
        Model.load(str(folder))
    for missing in (str(folder / "other.json"), folder / "other.json"):
        with pytest.raises(ValueError, match="cannot be read"):
            Model.load(missing)


SAMPLES = [json.loads(path.read_text()) for path in CONFIGS if path.stem in (
    "Llama-3-8B", "Gemma-3-27B", "DeepSeek-V3", "gpt-oss-20b", "Jamba-1.5-Mini", "Qwen3-Next-80B-A3B", "Nemotron-3-Nano-30B-A3B",
    "Falcon-7B", "Qwen2.5-7B")] + [{**BASE, "block_configs": [{"attention": {"n_heads_in_group": 4}}] * 4}]
JUNK = st.recursive(st.none() | st.booleans() | st.integers(-3, 200) | st.floats() | st.text(max_size=4),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["attention", "bits", "x"]), inner, max_size=2),
                    max_leaves=4)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_a_spoilt_config_gives_a_model_or_a_value_error(data):
    config = copy.deepcopy(data.draw(st.sampled_from(SAMPLES)))
    part = config["text_config"] if "text_config" in config and data.draw(st.booleans()) else config
    for name in data.draw(st.lists(st.sampled_from(sorted(part)), min_size=1, max_size=3)):
        part[name] = data.draw(JUNK)
    try:
        model = Model.load(config)
    except ValueError as error:
        assert str(error)
        return
    assert model.kv_bytes(1_000) >= 0
