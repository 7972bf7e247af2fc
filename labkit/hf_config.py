"""Reading any Hugging Face config.json: what each layer caches, and how many parameters there are.

The traps are real files: a head dimension that is not hidden / heads, a KV head count that a switch overrules, windows
that are switched off or alternate in code only, layers that cache nothing, values left to the model class. What the
file does not say is taken from the model class where that is known (noted in `Model.assumptions`) and otherwise
refused by name, never guessed.
"""

import json
from pathlib import Path

from labkit.hf_fields import CLASS_DEFAULTS, HEADS, HIDDEN, KV_HEADS, LAYERS, Fields, NotSaid  # noqa: F401  (their other home)
from labkit.hf_layers import attends, attention_blocks, layer_kinds, state_bytes
from labkit.model import Model, dtype_bytes
from labkit.param_count import count_params, stored_bytes

NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
INHERITED = ("model_type", "torch_dtype", "dtype", "tie_word_embeddings", "quantization_config")

# Fields whose meaning changes the cache in a way this course does not model.
REFUSED = {
    "attention_head_type": "attention whose heads only the model's own code knows",
    "attention_hidden_size": "attention of another width than the layers",
    "attention_types": "nested lists of attention kinds",
    "block_types": "layers with a recurrent state of a form of its own",
    "cross_attention_layers": "layers that cache an image instead of the text",
    "hybrid_layer_pattern": "a list of windowed layers with heads of their own",
    "index_topk": "a second cache for the index of sparse attention",
    "layer_group_size": "groups of linear-attention layers",
    "linear_attn_config": "lists of linear-attention layers",
    "mb_per_layer": "layers that share another layer's cache",
    "num_key_value_heads_per_layer": "another number of KV heads in each layer",
    "num_kv_shared_layers": "layers that share another layer's cache",
    "num_swa_key_value_heads": "KV heads of windowed layers apart",
    "use_cla": "layers that share another layer's cache",
}

NOT_DECODERS = tuple("""albert bart bert big_bird blenderbot camembert canine clip clip_text_model convbert deberta deberta-v2 distilbert
    electra ernie esm eurobert funnel hubert led longformer longt5 m2m_100 marian mbart megatron-bert mobilebert modernbert mpnet mt5
    nomic_bert pegasus prophetnet rembert roberta roformer siglip siglip_model switch_transformers t5 t5gemma umt5 vit wav2vec2 whisper
    xlm-roberta xlnet""".split())
REFUSED_FAMILIES = {
    **dict.fromkeys(NOT_DECODERS, "is not a decoder-only model; only those are covered"),
    "longcat_flash": "has two attentions a layer, which is not covered",
}

MOST_LAYERS = 10_000        # far above any model; a slip of the keyboard should not fill the memory
ATTENTION_TYPES = {     # attn_type in attn_config -> KV heads, from its fields and the number of query heads
    "multihead_attention": lambda fields, heads: heads,
    "multiquery_attention": lambda fields, heads: 1,
    "grouped_query_attention": lambda fields, heads: fields.whole("kv_n_heads"),
}


def read_config(source):
    """A Model from a Hugging Face config.json: a path, or the file's dict.

    Raises
    ------
    ValueError
        If it is no readable config, or does not say what its layers cache; the message names the file and the field.
        A missing field that only the weights need is named later, when `weight_bytes` or `block_params` is needed.
    """
    config, where = _parse(source)
    f = Fields(_text_part(config), where)
    _refuse(Fields(config, where))
    _refuse(f)
    layers = f.agreed(*LAYERS)
    if layers > MOST_LAYERS:
        raise ValueError(f"{where}: {layers} layers; at most {MOST_LAYERS} are read")
    geometry = {"layers": layers, "hidden": f.agreed(*HIDDEN), "query_heads": f.agreed(*HEADS)}
    geometry |= _cache_heads(f, geometry["hidden"], geometry["query_heads"])
    kinds = layer_kinds(f, layers)
    geometry |= {f"{kind}_layers": kinds.count(kind) for kind in ("full", "window", "state")}
    if geometry["window_layers"]:
        # A chunk is attended to as it fills: a sequence holds at most attention_chunk_size tokens of it.
        geometry["window"] = f.whole("sliding_window", "attention_chunk_size", "window_size")
        if f.has("num_global_key_value_heads"):
            geometry["full_kv_heads"] = f.whole("num_global_key_value_heads")
        if f.has("global_head_dim"):
            geometry["full_head_dim"] = f.whole("global_head_dim")
    geometry["state_bytes"], missing = state_bytes(f, kinds.count("state"))
    weights, missing_weights = _weights(f, geometry, kinds)
    return Model(name=_name(config, f, where), **geometry, **weights, missing="; ".join(filter(None, [missing, missing_weights])),
                 assumptions=tuple(f.assumptions))


def _refuse(f):
    """ValueError for a kind of model that is not covered, naming the field that says so."""
    for name, what in REFUSED.items():
        if f.values.get(name):
            raise ValueError(f"{f.where}: {name} means {what}, which is not covered")
    if f.get("is_encoder_decoder", bool) or any(str(a).endswith("ForMaskedLM") for a in f.get("architectures", list, [])):
        raise ValueError(f"{f.where}: model_type={f.family!r} {REFUSED_FAMILIES['bert']}")
    if f.family in REFUSED_FAMILIES:
        raise ValueError(f"{f.where}: model_type={f.family!r} {REFUSED_FAMILIES[f.family]}")


def _name(config, f, where):
    """A name for the model: what the file calls itself, else the file's or its folder's name, else the model class."""
    path = Path(where)
    from_path = path.parent.name if path.stem == "config" else path.stem
    return str(config.get("_name_or_path") or from_path or f.family or "config")


def _parse(source):
    """The config's dict and a name for messages."""
    if isinstance(source, dict):
        return source, "config"
    path = Path(source)
    try:
        if path.is_dir():
            raise ValueError(f"{path} is a folder; give the path of the config.json inside it")
        text = path.read_bytes().decode("utf-8-sig")    # the signature that some Windows editors write is no fault
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text file (byte {error.start} is not UTF-8); a config.json is needed") from None
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not valid JSON ({error}); a config.json is needed") from None
    if not isinstance(config, dict):
        raise ValueError(f"{path} holds a JSON {type(config).__name__}; a config.json is an object with fields")
    return config, str(path)


def _text_part(config):
    """The language model's fields of a multimodal config; dtype and the like may stand outside them."""
    if not any(config.get(name) is not None for name in LAYERS):
        for name in NESTED:
            if isinstance(config.get(name), dict):
                outside = {key: config[key] for key in INHERITED if config.get(key) is not None}
                return _text_part({**outside, **config[name]})
    return config


def _cache_heads(f, hidden, heads):
    """KV heads and dimensions: MLA latent, explicit head_dim, one shared head, groups, or one KV head a query head."""
    if f.whole("kv_lora_rank", least=0, default=0):
        rope, value = f.whole("qk_rope_head_dim"), f.whole("v_head_dim")
        # num_key_value_heads and head_dim mislead here: all heads read the one latent.
        return {"kv_heads": heads, "head_dim": f.whole("qk_nope_head_dim") + rope, "value_head_dim": value,
                "kv_lora_rank": f.whole("kv_lora_rank"), "rope_head_dim": rope}
    if not f.has("head_dim") and not f.has("kv_channels") and hidden % heads:
        raise ValueError(f"{f.where}: hidden size {hidden} does not divide into {heads} heads, and head_dim is missing")
    head_dim = f.whole("head_dim", "kv_channels", default=max(1, hidden // heads))
    kv_heads = _kv_heads(f, heads)
    if heads % kv_heads:
        raise ValueError(f"{f.where}: {heads} attention heads cannot be shared out over {kv_heads} KV heads "
                         f"(num_key_value_heads must divide num_attention_heads)")
    # Values may be narrower than keys; where they are not, the field is left out.
    return {"kv_heads": kv_heads, "head_dim": head_dim, "value_head_dim": f.whole("v_head_dim") if f.has("v_head_dim") else None}


def _kv_heads(f, heads):
    if f.has("multi_query") and not f.get("new_decoder_architecture", bool):
        return 1 if f.get("multi_query", bool) else heads     # overrules num_kv_heads, which may hold the query heads
    if f.has("multi_query_attention"):
        return f.whole("multi_query_group_num") if f.get("multi_query_attention", bool) else heads
    if f.has("block_configs"):
        groups = {block["attention"]["n_heads_in_group"] for block in attention_blocks(f) if attends(block)}
        if len(groups) != 1 or heads % max(groups):
            raise ValueError(f"{f.where}: block_configs share {heads} heads out in groups of {sorted(groups)}; "
                             f"one size of group that divides them is covered")
        return heads // groups.pop()
    if f.has("attn_config"):
        nested = Fields({**f.get("attn_config", dict), "model_type": ""}, f"{f.where}: attn_config")
        shared = nested.has("kv_n_heads") or f.family != "mpt"                # MPT's class says multihead_attention
        kind = nested.get("attn_type", str, "grouped_query_attention" if shared else "multihead_attention")
        if kind not in ATTENTION_TYPES:
            raise ValueError(f"{nested.where}: attn_type={kind!r} is unknown; known are {', '.join(ATTENTION_TYPES)}")
        kv_heads = ATTENTION_TYPES[kind](nested, heads)
        if nested.whole("kv_n_heads", default=kv_heads) != kv_heads:
            raise ValueError(f"{nested.where}: attn_type={kind!r} contradicts kv_n_heads={nested.values['kv_n_heads']}")
        return kv_heads
    return f.agreed(*KV_HEADS, default=heads)


def _weights(f, geometry, kinds):
    """Parameter counts and weight bytes, or Nones and the name of what is missing for them."""
    dtype = f.get("torch_dtype", str) or f.get("dtype", str) or "auto"
    if dtype == "auto":
        dtype = "bf16"
        f.assumptions.append("no dtype in the file: weights counted at 2 bytes, as engines serve them")
    try:
        size = dtype_bytes(dtype)
    except ValueError as error:
        raise ValueError(f"{f.where}: {error}") from None
    try:
        params = count_params(f, geometry, kinds)
        weights = {"total_params": params.total, "block_params": params.active}
        return weights | {"weight_bytes": stored_bytes(f, params, size)}, ""
    except NotSaid as error:
        return {}, str(error)
