"""Reading any Hugging Face config.json: what each layer caches, and how many parameters there are.

The traps are real files: a head dimension that is not hidden / heads, a KV head count that a switch overrules, windows
that are switched off or alternate in code only, layers that cache nothing, values left to the model class. What the
file does not say is taken from the model class where that is known (noted in `Model.assumptions`) and otherwise
refused by name, never guessed.
"""

import json
from pathlib import Path

from labkit.model import Model, check_whole, dtype_bytes
from labkit.param_count import count_params, stored_bytes

# What model classes assume when a file leaves a field out, as far as it changes bytes. Alternating windows that exist
# in code only are here too.
QWEN_WINDOWS = {"use_sliding_window": False, "sliding_window": 4096, "max_window_layers": 28}
CLASS_DEFAULTS = {
    "gemma": {"head_dim": 256},
    "gemma2": {"head_dim": 256, "sliding_window": 4096, "sliding_window_pattern": 2, "vocab_size": 256_000},
    "gemma3": {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 4096,
               "sliding_window_pattern": 6, "vocab_size": 262_208},
    "gemma3n": {"head_dim": 256, "num_kv_shared_layers": 15},
    "cohere2": {"sliding_window_pattern": 4},
    "olmo3": {"sliding_window_pattern": 4},
    "exaone4": {"sliding_window_pattern": 4},
    "gpt_oss": {"head_dim": 64, "sliding_window_pattern": 2},
    "llama4": {"head_dim": 128, "no_rope_layer_interval": 4},
    "falcon": {"multi_query": True, "new_decoder_architecture": False},
    "gpt_bigcode": {"multi_query": True},
    "qwen3_next": {"head_dim": 256},
    "qwen3": {**QWEN_WINDOWS, "head_dim": 128},
    **dict.fromkeys(("qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl", "qwen3_moe"), QWEN_WINDOWS),
}

# Model classes that put the window into every layer (""; a file without model_type is taken as such). All others must say
# where it is, since some alternate in code only.
WINDOW_EVERYWHERE = ("", "mistral", "mixtral", "phi3", "phi3_v", "phi4mm", "phimoe", "starcoder2")

# Names of layer kinds in files -> what the layer keeps of a sequence.
LAYER_KINDS = {
    "full_attention": "full", "attention": "full", "full": "full", "global": "full",
    "sliding_attention": "window", "chunked_attention": "window", "local": "window",
    "linear_attention": "state", "mamba": "state", "mamba2": "state", "conv": "state",
    "moe": "none", "mlp": "none",
}
PATTERN_KINDS = {"M": "state", "*": "full", "-": "none", "E": "none"}    # hybrid_override_pattern
WINDOW_KINDS = {"L": "window", "G": "full"}                              # sliding_window_pattern as a string

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

# Fields that only a model with a constant state has: some of its layers do not cache tokens, or not only.
STATE_FIELDS = ("mamba_d_state", "mamba_expand", "mamba_n_heads", "mamba_num_heads", "ssm_state_size", "ssm_cfg", "state_size",
                "linear_num_value_heads", "conv_L_cache", "lru_width")

MOST_LAYERS = 10_000        # far above any model; a slip of the keyboard should not fill the memory
MOST = 10**7                # of any number: a model's bytes a token stay within 64 bits
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
HIDDEN = ("hidden_size", "n_embd", "n_embed", "d_model")
HEADS = ("num_attention_heads", "n_head", "n_heads")        # not num_heads, which counts the heads of a state as well
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads", "num_attention_groups")

ATTENTION_TYPES = {     # attn_type in attn_config -> KV heads, from its fields and the number of query heads
    "multihead_attention": lambda fields, heads: heads,
    "multiquery_attention": lambda fields, heads: 1,
    "grouped_query_attention": lambda fields, heads: fields.whole("kv_n_heads"),
}


class NotSaid(ValueError):
    """The config does not say something. Fatal for the cache; for the weights, kept until they are needed."""


class Fields:
    """A config's fields: nulls left out, the model class's values filled in, every look-up checked."""

    def __init__(self, config, where):
        self.where = where
        self.family = str(config.get("model_type") or "").removesuffix("_text")
        self.defaults = {name: value for name, value in CLASS_DEFAULTS.get(self.family, {}).items() if name not in config}
        self.values = self.defaults | {name: value for name, value in config.items() if value is not None}
        self.assumptions = []

    def has(self, name):
        return name in self.values

    def get(self, name, kind, default=None):
        """A field of a JSON kind (bool, list, dict, str), or the default."""
        value = self.values.get(name, default)
        if name in self.values and not isinstance(value, kind):
            raise ValueError(f"{self.where}: {name}={value!r} must be a JSON {kind.__name__}")
        self._note(name)
        return value

    def whole(self, *names, least=1, default=None):
        """The first of these fields that is there, as a whole number; a default of None means that one must be there."""
        for name in names:
            if name in self.values:
                check_whole(name, self.values[name], least, self.where)
                if self.values[name] > MOST:
                    raise ValueError(f"{self.where}: {name} must be at most {MOST:,}")
                self._note(name)
                return self.values[name]
        if default is None:
            others = f" (or {', '.join(names[1:])})" if names[1:] else ""
            raise self.not_said(f"the field {names[0]!r}{others} is missing; a whole number is needed there")
        return default

    def agreed(self, *names, default=None):
        """As `whole`, where the names are one thing's: ValueError if two of them are there and differ."""
        value = self.whole(*names, default=default)
        for name in names:
            if name in self.values and self.values[name] != value:
                first = next(other for other in names if other in self.values)
                raise ValueError(f"{self.where}: {first}={value!r} and {name}={self.values[name]!r} contradict each other")
        return value

    def not_said(self, what):
        """The error for something the config leaves open."""
        return NotSaid(f"{self.where}: {what}")

    def _note(self, name):
        note = f"{name} = {self.defaults.get(name)}: default of the model class {self.family}, not in the file"
        if name in self.defaults and note not in self.assumptions:
            self.assumptions.append(note)

    def kinds(self, name, table, layers):
        """A per-layer list or string of layer kinds, translated by `table`, one entry a layer."""
        entries = self.values[name]
        if not isinstance(entries, (list, str)) or len(entries) != layers:
            raise ValueError(f"{self.where}: {name} must have one entry for each of the {layers} layers; got {entries!r}")
        for i, entry in enumerate(entries):
            if not isinstance(entry, (str, int)) or isinstance(entry, bool) or entry not in table:
                raise ValueError(f"{self.where}: {name}[{i}]={entry!r} is an unknown kind of layer; "
                                 f"known are {', '.join(map(str, table))}")
        return [table[entry] for entry in entries]


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
        groups = {block["attention"]["n_heads_in_group"] for block in _blocks(f) if _attends(block)}
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


def _blocks(f):
    blocks = f.get("block_configs", list)
    if not all(isinstance(block, dict) and isinstance(block.get("attention"), dict) for block in blocks):
        raise ValueError(f"{f.where}: block_configs must be a list of objects with an 'attention' each")
    for i, block in enumerate(blocks):
        if _attends(block):
            check_whole("n_heads_in_group", block["attention"]["n_heads_in_group"], 1, f"{f.where}: block_configs[{i}]")
    return blocks


def _attends(block):
    return block["attention"].get("n_heads_in_group") is not None


def layer_kinds(f, layers):
    """What each layer keeps: "full", "window", "state" or "none", by the first field that says so."""
    for name in ("layer_types", "layers_block_type", "attention_layers"):
        if f.has(name):
            kinds = f.kinds(name, LAYER_KINDS, layers)
            # layer_types may still say "sliding" where the switch turns windows off
            return kinds if f.get("use_sliding_window", bool, True) else ["full" if kind == "window" else kind for kind in kinds]
    if f.has("hybrid_override_pattern"):
        return f.kinds("hybrid_override_pattern", PATTERN_KINDS, layers)
    if f.has("attn_type_list"):
        return f.kinds("attn_type_list", {0: "state", 1: "full"}, layers)
    if f.has("block_configs"):
        blocks = _blocks(f)
        if len(blocks) != layers:
            raise ValueError(f"{f.where}: block_configs has {len(blocks)} entries for {layers} layers")
        return ["full" if _attends(block) else "none" for block in blocks]
    if f.has("full_attention_interval"):
        every = f.whole("full_attention_interval")
        return ["state" if (i + 1) % every else "full" for i in range(layers)]
    if f.has("attn_layer_period"):
        period, offset = f.whole("attn_layer_period"), f.whole("attn_layer_offset", least=0)
        if offset >= period:
            raise ValueError(f"{f.where}: attn_layer_offset={offset} must be below attn_layer_period={period}")
        return ["full" if i % period == offset else "state" for i in range(layers)]
    for name in ("attn_layer_indices", "full_attn_idxs"):
        if f.has(name):
            places = f.get(name, list)
            if not all(type(place) is int and 0 <= place < layers for place in places):
                raise ValueError(f"{f.where}: {name}={places!r} must be a list of layers, from 0 to {layers - 1}")
            return ["full" if i in places else "state" for i in range(layers)]
    if f.has("attention_chunk_size"):
        if f.get("no_rope_layers", list):
            return f.kinds("no_rope_layers", {0: "full", 1: "window"}, layers)
        every = f.whole("no_rope_layer_interval")
        return ["window" if (i + 1) % every else "full" for i in range(layers)]
    for name in STATE_FIELDS:
        if f.values.get(name):
            raise f.not_said(f"{name} says that layers keep a state, and the field 'layer_types', which says which of them do, is missing")
    if f.has("sliding_window") and f.get("use_sliding_window", bool, True):
        return _window_kinds(f, layers)
    return ["full"] * layers


def _window_kinds(f, layers):
    pattern = f.values.get("sliding_window_pattern", f.values.get("_sliding_window_pattern"))
    if isinstance(pattern, str):
        if not pattern or set(pattern) - set(WINDOW_KINDS):
            raise ValueError(f"{f.where}: sliding_window_pattern={pattern!r} may hold only {', '.join(WINDOW_KINDS)}")
        return [WINDOW_KINDS[pattern[i % len(pattern)]] for i in range(layers)]
    if pattern is not None:
        every = f.whole("sliding_window_pattern", "_sliding_window_pattern")
        return ["window" if (i + 1) % every else "full" for i in range(layers)]
    if f.has("max_window_layers"):       # the layers below this number stay full
        first = f.whole("max_window_layers", least=0)
        return ["full" if i < first else "window" for i in range(layers)]
    if f.family not in WINDOW_EVERYWHERE:
        raise f.not_said(f"sliding_window is there, and the field 'layer_types', which says which layers have it, is missing; "
                         f"model_type={f.family!r} is not known here")
    return ["window"] * layers


def state_bytes(f, layers):
    """Constant state of a sequence: fp32 recurrent state and the bf16 inputs that the short convolution still needs.

    (None, what is missing) where the layers' form is not known.
    """
    if not layers:
        return 0, ""
    try:
        if f.has("linear_num_value_heads"):              # gated delta net
            heads = f.whole("linear_num_value_heads")
            key, value = f.whole("linear_key_head_dim"), f.whole("linear_value_head_dim")
            channels = 2 * f.whole("linear_num_key_heads") * key + heads * value
            recurrent, kernel = heads * key * value, f.whole("linear_conv_kernel_dim")
        elif f.has("mamba_num_heads") or f.has("mamba_n_heads"):      # Mamba-2
            inner = f.whole("mamba_num_heads", "mamba_n_heads") * f.whole("mamba_head_dim", "mamba_d_head")
            state = f.whole("ssm_state_size", "mamba_d_state")
            channels, recurrent = inner + 2 * f.whole("n_groups", "mamba_n_groups") * state, inner * state
            kernel = f.whole("conv_kernel", "mamba_d_conv")
        else:                                            # Mamba
            channels = f.whole("mamba_expand") * f.whole(*HIDDEN)
            recurrent, kernel = channels * f.whole("mamba_d_state"), f.whole("mamba_d_conv")
    except NotSaid as error:
        return None, str(error)
    return layers * (4 * recurrent + 2 * channels * (kernel - 1)), ""


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
