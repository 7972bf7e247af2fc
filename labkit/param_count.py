"""Counting the parameters of a decoder-only transformer from its config: all of them, and those one token passes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """How the blocks of a model family are built, as far as counting needs it (its config does not say)."""

    gated: bool = True          # an MLP of three matrices (gate, up, down), else of two
    norms: int = 2              # norms of hidden size a layer
    norm_bias: bool = False     # LayerNorm (scale and shift) instead of RMSNorm (scale)
    qk_norm: bool = False       # a norm of head_dim size on queries and on keys
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    router_bias: bool = False
    sinks: bool = False         # one learned logit a query head
    gate_heads: bool = False    # an output gate as wide as the queries
    shared_expert: bool = False  # an expert of full width beside the chosen ones
    tied: bool = False          # tie_word_embeddings where the file is silent
    positions: bool = False     # learned position embeddings


SHAPES = {
    "gpt2": Shape(gated=False, norm_bias=True, qkv_bias=True, out_bias=True, mlp_bias=True, tied=True, positions=True),
    "falcon": Shape(gated=False, norms=1, norm_bias=True, tied=True),
    "llama": Shape(), "mistral": Shape(), "mixtral": Shape(), "phi3": Shape(), "jamba": Shape(),
    "deepseek_v2": Shape(), "deepseek_v3": Shape(router_bias=True),
    "glm4_moe": Shape(qkv_bias=True, router_bias=True),
    "qwen2": Shape(qkv_bias=True), "qwen2_moe": Shape(qkv_bias=True),
    "qwen3": Shape(qk_norm=True), "qwen3_moe": Shape(qk_norm=True),
    "qwen3_next": Shape(qk_norm=True, gate_heads=True),
    "gemma": Shape(tied=True), "gemma2": Shape(norms=4, tied=True), "gemma3": Shape(norms=4, qk_norm=True, tied=True),
    "gpt_oss": Shape(qkv_bias=True, out_bias=True, mlp_bias=True, router_bias=True, sinks=True),
    "llama4": Shape(shared_expert=True),
    "nemotron_h": Shape(gated=False, norms=1, router_bias=True),
}


@dataclass(frozen=True)
class ParamCount:
    """Parameters: all; matmul parameters of the blocks a token passes; matmul parameters of all blocks; of the experts."""

    total: int
    active: int
    blocks: int
    experts: int


def count_params(f, geometry, kinds):
    """Parameters of a config, without vision towers and without extra heads for several tokens at once.

    A family not in `SHAPES` is counted as a Llama: gated MLP, two RMSNorms a layer, no biases; noted in f.assumptions.

    Raises
    ------
    ValueError
        Naming the field that is missing for the count.
    """
    if f.family not in SHAPES:
        f.assumptions.append(f"model_type {f.family!r} is not known here: parameters counted as for a Llama")
    shape = SHAPES.get(f.family, Shape())
    hidden, vocab = geometry["hidden"], f.whole("vocab_size", "padded_vocab_size")
    norm = hidden * (2 if shape.norm_bias else 1)
    extra = norm + (f.whole("max_position_embeddings", "n_positions") * hidden if shape.positions else 0)
    single = f.has("hybrid_override_pattern")         # one module a layer instead of attention and MLP
    if "none" in kinds and not single and not f.has("block_configs"):
        raise f.not_said("the field 'hybrid_override_pattern', which says what each layer without a cache computes, is missing")
    active = blocks = experts = 0
    for i, kind in enumerate(kinds):
        extra += shape.norms * norm
        if kind in ("full", "window"):
            matmul, other = _attention(f, geometry, shape, kind)
        elif kind == "state":
            matmul, other = _state_layer(f, hidden)
        else:
            matmul, other = 0, 0
        if not single or kind == "none":
            moe = f.values["hybrid_override_pattern"][i] == "E" if single else is_moe(f, i)
            passed, stored, in_experts, biases = _moe(f, hidden, shape) if moe else _mlp(f, hidden, shape, i)
            active, blocks, experts, extra = active + passed, blocks + stored, experts + in_experts, extra + biases
        active, blocks, extra = active + matmul, blocks + matmul, extra + other
    embeddings = vocab * hidden * (1 if f.get("tie_word_embeddings", bool, shape.tied) else 2)
    return ParamCount(blocks + extra + embeddings, active, blocks, experts)


def _attention(f, geometry, shape, kind):
    """(matmul parameters, others) of one attention layer."""
    hidden, heads, key = geometry["hidden"], geometry["query_heads"], geometry["head_dim"]
    if geometry.get("kv_lora_rank"):
        value, latent, rope = geometry["value_head_dim"], geometry["kv_lora_rank"], geometry["rope_head_dim"]
        rank = f.whole("q_lora_rank", least=0, default=0)
        queries = hidden * rank + rank * heads * key if rank else hidden * heads * key
        keys = hidden * (latent + rope) + latent * heads * (key - rope + value)
        return queries + keys + heads * value * hidden, rank + latent          # a norm on each latent
    kv_heads, projections, value = geometry["kv_heads"], 2, geometry.get("value_head_dim") or key
    if kind == "full":                                                         # full layers may have heads of their own
        kv_heads, key = geometry.get("full_kv_heads") or kv_heads, geometry.get("full_head_dim") or key
        value = geometry.get("full_head_dim") or value
        projections = 1 if f.get("attention_k_eq_v", bool, False) else 2       # one projection makes K and V, both cached
    gated = shape.gate_heads or f.get("attn_output_gate", bool, False)
    qkv_width = heads * key * (2 if gated else 1) + kv_heads * (key + (value if projections == 2 else 0))
    bias = f.get("attention_bias", bool, False)
    other = qkv_width * (shape.qkv_bias or bias) + hidden * (shape.out_bias or (bias and not shape.qkv_bias))
    other += 2 * key * shape.qk_norm + heads * shape.sinks
    return hidden * qkv_width + heads * value * hidden, other


def _mlp(f, hidden, shape, layer):
    """(passed, stored, in experts, biases) of a dense MLP."""
    matrices = 3 if shape.gated else 2
    if f.has("block_configs"):
        raise f.not_said(f"the MLP widths of block_configs are not read, so parameters cannot be counted")
    default = 4 * hidden if f.family in ("gpt2", "falcon") else None        # the class's width where the file is silent
    width = f.whole("intermediate_size_mlp", "intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim", default=default)
    size = matrices * hidden * width
    bias = ((matrices - 1) * width + hidden) * (shape.mlp_bias or f.get("mlp_bias", bool, False))
    return size, size, 0, bias


def _moe(f, hidden, shape):
    """(passed, stored, in experts, biases) of a mixture of experts: router, chosen experts, shared experts."""
    matrices = 3 if shape.gated else 2
    count = f.whole(*EXPERTS)
    chosen = f.whole("num_experts_per_tok", "experts_per_token", "num_experts_per_token", "moe_topk")
    width = f.whole("moe_intermediate_size", "intermediate_size")
    expert, router = matrices * hidden * width, hidden * count
    shared = f.whole("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size",
                     least=0, default=0)
    shared = shared or width * (f.whole("n_shared_experts", least=0, default=0) or shape.shared_expert)
    always = router + matrices * hidden * shared + (hidden if f.has("shared_expert_intermediate_size") else 0)
    biases = count * shape.router_bias + count * ((matrices - 1) * width + hidden) * shape.mlp_bias
    return always + chosen * expert, always + count * expert, count * expert, biases


EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")


def is_moe(f, layer):
    """Whether a layer's MLP is a mixture of experts, by the fields that place them."""
    if f.whole(*EXPERTS, least=0, default=0) <= 1:
        return False
    if f.has("expert_layer_period"):
        return layer % f.whole("expert_layer_period") == f.whole("expert_layer_offset", least=0)
    if f.has("interleave_moe_layer_step"):
        return (layer + 1) % f.whole("interleave_moe_layer_step") == 0
    dense_first = f.whole("first_k_dense_replace", least=0, default=0)
    return (layer >= dense_first and layer % f.whole("moe_layer_freq", default=1) == 0
            and (layer + 1) % f.whole("decoder_sparse_step", default=1) == 0
            and layer not in f.get("mlp_only_layers", list, []))


def _state_layer(f, hidden):
    """(matmul parameters, others) of a linear-attention or SSM layer; the few scalars a head are counted as others."""
    if f.has("linear_num_value_heads"):                              # gated delta net
        heads, value_dim = f.whole("linear_num_value_heads"), f.whole("linear_value_head_dim")
        key = f.whole("linear_num_key_heads") * f.whole("linear_key_head_dim")
        value = heads * value_dim
        other = (2 * key + value) * f.whole("linear_conv_kernel_dim") + 2 * heads + value_dim
        return hidden * (2 * key + 2 * value + 2 * heads) + value * hidden, other
    if f.has("mamba_num_heads") or f.has("mamba_n_heads"):           # Mamba-2
        heads = f.whole("mamba_num_heads", "mamba_n_heads")
        inner = heads * f.whole("mamba_head_dim", "mamba_d_head")
        groups = 2 * f.whole("n_groups", "mamba_n_groups") * f.whole("ssm_state_size", "mamba_d_state")
        other = (inner + groups) * (f.whole("conv_kernel", "mamba_d_conv") + 1) + 3 * heads + inner
        return hidden * (2 * inner + groups + heads) + inner * hidden, other
    inner, state = f.whole("mamba_expand") * hidden, f.whole("mamba_d_state")            # Mamba
    rank = f.whole("mamba_dt_rank", default=-(-hidden // 16))
    other = inner * (f.whole("mamba_d_conv") + 1) + inner * (state + 2) + rank + 2 * state
    return hidden * 2 * inner + inner * (rank + 2 * state) + rank * inner + inner * hidden, other


def stored_bytes(f, params, size):
    """Bytes of the weights: `size` bytes a parameter, fewer where quantization_config says so (scales left out).

    Raises
    ------
    ValueError
        If the quantisation is not one of those known here.
    """
    quantised = f.get("quantization_config", dict)
    if not quantised:
        return int(params.total * size)
    method = str(quantised.get("quant_method", quantised.get("quant_algo", ""))).lower()
    if method == "mxfp4":                                # 4 bits and a shared 8-bit scale for every 32, experts only
        return int((params.total - params.experts) * size + params.experts * 4.25 / 8)
    bits = _weight_bits(quantised, method)
    if not isinstance(bits, int) or isinstance(bits, bool) or not 1 <= bits <= 32:
        raise f.not_said(f"quantization_config does not say how many bits a weight has (quant_method={method!r})")
    return int((params.total - params.blocks) * size + params.blocks * bits / 8)


def _weight_bits(quantised, method):
    """Bits of a weight by the first entry that says so: a number, a switch, a group of layers, the method's name."""
    groups = quantised.get("config_groups")
    weights = [group.get("weights") for group in groups.values() if isinstance(group, dict)] if isinstance(groups, dict) else []
    found = [quantised.get("bits"), 4 if quantised.get("load_in_4bit") else None, 8 if quantised.get("load_in_8bit") else None,
             *(entry.get("num_bits") for entry in weights if isinstance(entry, dict)),
             8 if "fp8" in method else None, 4 if "fp4" in method else None]
    return next((bits for bits in found if bits is not None), None)
