"""What each layer of a Hugging Face config keeps of a sequence: every token, a window, a constant state, or nothing."""

from labkit import checks
from labkit.hf_fields import HIDDEN, NotSaid

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

# Fields that only a model with a constant state has: some of its layers do not cache tokens, or not only.
STATE_FIELDS = ("mamba_d_state", "mamba_expand", "mamba_n_heads", "mamba_num_heads", "ssm_state_size", "ssm_cfg", "state_size",
                "linear_num_value_heads", "conv_L_cache", "lru_width")


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
        blocks = attention_blocks(f)
        if len(blocks) != layers:
            raise ValueError(f"{f.where}: block_configs has {len(blocks)} entries for {layers} layers")
        return ["full" if attends(block) else "none" for block in blocks]
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


def attention_blocks(f):
    blocks = f.get("block_configs", list)
    if not all(isinstance(block, dict) and isinstance(block.get("attention"), dict) for block in blocks):
        raise ValueError(f"{f.where}: block_configs must be a list of objects with an 'attention' each")
    for i, block in enumerate(blocks):
        if attends(block):
            checks.whole(f"{f.where}: block_configs[{i}]: n_heads_in_group", block["attention"]["n_heads_in_group"], 1)
    return blocks


def attends(block):
    return block["attention"].get("n_heads_in_group") is not None
