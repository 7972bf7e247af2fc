"""The three what-if studies of the KV-cost notebook: how many bytes, how many seconds, how many users.

Each function takes what a student can move and returns one frozen result; all arithmetic is done by `labkit.kv_cost`.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from labkit import checks
from labkit.kv_cost import ANSWER_TOKENS, QUESTION_TOKENS, Model, Roofline, check_one

GB, GIB = 1e9, 2**30
CONTEXTS = (1_000, 4_000, 16_000, 32_000, 64_000, 120_000)  # the lengths of L14 1.2
# Stops of a slider, about three to a factor of four; those of the lecture notes are among them.
LENGTHS = (250, 500, 1_000, 2_000, 4_000, 8_000, 12_000, 16_000, 24_000, 32_000, 48_000, 64_000, 96_000, 120_000, 128_000,
           192_000, 256_000, 384_000, 512_000, 768_000, 1_000_000)

# What if the KV heads were chosen otherwise?  Each entry takes a model and gives the number of KV heads.
KV_HEADS = {
    "as built": lambda model: model.kv_heads,
    "one for each query head (no GQA)": lambda model: model.query_heads,
    "one for all query heads (MQA)": lambda model: 1,
}


@dataclass(frozen=True, repr=False)
class CacheSizes:
    """Bytes of one sequence's cache in several designs of the same model.

    variants : DataFrame, a row a design, columns full, window, state (bytes).  weights : bytes.
    per_token : bytes that the next token adds in the chosen design.  model : name.  tokens : length.
    """

    model: str
    tokens: int
    variants: pd.DataFrame
    weights: int | None
    per_token: float

    def __repr__(self):
        sizes = "; ".join(f"{name} {nbytes / GB:,.2f} GB" for name, nbytes in self.variants.sum(axis=1).items())
        return f"CacheSizes of {self.tokens:,} tokens of {self.model}: {sizes} (bytes in .variants, .weights, .per_token)"


def cache_sizes(model="Llama-3-8B", context=128_000, dtype="bf16", kv_heads="as built", window=True) -> CacheSizes:
    """Bytes of KV cache for `context` tokens, as chosen and with each saving of the model undone in turn.

    Parameters
    ----------
    model : name, path of a config.json, dict or Model.
    context : tokens, at least 1.
    dtype : of the cache.
    kv_heads : a key of `KV_HEADS`; without effect on a model that caches an MLA latent.
    window : False keeps every token in windowed layers too (an engine with unified pages).

    Raises
    ------
    ValueError
        For an unknown model, dtype or kind of KV heads, or a context below 1.
    """
    model = Model.load(model)
    check_one("context", context, least=1)
    checks.flag("window", window)
    if kv_heads not in tuple(KV_HEADS):
        raise ValueError(f"kv_heads={kv_heads!r} is unknown; choose one of {', '.join(KV_HEADS)}")
    chosen = model if model.kv_lora_rank else model.with_(kv_heads=KV_HEADS[kv_heads](model), full_kv_heads=None)
    designs = {"as chosen": (chosen, not window)}
    if model.kv_lora_rank:
        designs["without MLA: K and V of every head"] = (model.with_(kv_lora_rank=0), not window)
    elif model.kv_heads < model.query_heads:
        designs["without GQA: a KV head for each query head"] = (
            model.with_(kv_heads=model.query_heads, full_kv_heads=None), not window)
    if model.window_layers:
        designs["without the window: every layer keeps all"] = (chosen, True)
    variants = {name: design.kv_by_kind(context, dtype, unified) for name, (design, unified) in designs.items()}
    per_token = chosen.kv_bytes_per_token(0 if not window else context, dtype)
    return CacheSizes(model.name, context, pd.DataFrame(variants).T, model.weight_bytes, per_token)


@dataclass(frozen=True, repr=False)
class Latency:
    """Where the time of one query goes.

    bars : DataFrame, rows "nothing cached", "your share cached", "all cached", columns (s) weights x tokens, attention,
    waiting for memory, decode.  ttft, decode : s.  points : DataFrame, rows prefill and decode, columns intensity (FLOP/byte)
    and speed (FLOP/s).  flops_per_s, bytes_per_s : reachable peaks.
    """

    bars: pd.DataFrame
    ttft: pd.Series
    decode: float
    points: pd.DataFrame
    flops_per_s: float
    bytes_per_s: float

    def __repr__(self):
        first = ", ".join(f"{name} {seconds:,.4g} s" for name, seconds in self.ttft.items())
        return f"Latency: first token after {first}; decode {self.decode:,.4g} s (in .ttft, .decode; parts in .bars, roofline in .points)"


def latency(model="Llama-3-8B", gpu="H100 SXM", context=128_000, cached=0.0, answer=ANSWER_TOKENS) -> Latency:
    """Time to first token and to the end of the answer, for one user alone on one GPU.

    TTFT = prefill of the uncached rest of the context and a question of 70 tokens; decode = answer x step.

    Parameters
    ----------
    context : tokens before the question.
    cached : share of the context, 0..1, whose KV is in memory already (a prefix).
    answer : tokens generated.

    Raises
    ------
    ValueError
        If context is not above 0, cached not in 0..1, or a name is unknown.
    """
    check_one("cached", cached, least=0, most=1)
    check_one("context", context, least=0, above=True)
    check_one("answer", answer, least=0, above=True)
    roofline = Roofline(model, gpu)
    bars, ttft = {}, {}
    decode = roofline.decode_seconds(answer, context + QUESTION_TOKENS)
    for name, share in (("nothing cached", 0.0), ("your share cached", cached), ("all cached", 1.0)):
        held = round(share * context)
        new = context - held + QUESTION_TOKENS
        parts = roofline.prefill_parts(new, held)
        ttft[name] = roofline.prefill_seconds(new, held)
        compute = parts["linear"] + parts["attention"]
        bars[name] = {"linear": parts["linear"], "attention": parts["attention"],
                      "memory": max(0.0, parts["memory"] - compute) + parts["overhead"], "decode": decode}
    model, held = roofline.model, round(cached * context)
    new, length = context - held + QUESTION_TOKENS, context + QUESTION_TOKENS + answer / 2
    work = {"prefill": (model.linear_flops(new) + model.attention_flops(new, held), context + QUESTION_TOKENS),
            "decode": (model.linear_flops(1) + model.decode_attention_flops(length), length)}
    points = {}
    for name, (flops, tokens) in work.items():
        intensity = float(flops / (model.weight_bytes + roofline.sequence_bytes(tokens)))
        points[name] = {"intensity": intensity, "speed": min(roofline.flops_per_s, intensity * roofline.bytes_per_s)}
    return Latency(pd.DataFrame(bars).T, pd.Series(ttft), decode, pd.DataFrame(points).T, roofline.flops_per_s, roofline.bytes_per_s)


SHARING = {
    "each user has their own": (False, True),
    "all share it (attention work counted)": (True, True),
    "all share it (ideal kernel)": (True, False),
}


@dataclass(frozen=True, repr=False)
class Serving:
    """Users and tokens/s with memory filled, over the length of the context.

    curve : DataFrame by context, columns users, step (s), throughput (tokens/s).  at : the same for the chosen context.
    steps : the same at the lengths of `CONTEXTS`.  own, own_at : throughput (tokens/s) of the curve and at the chosen context
    where each user has their own.
    """

    curve: pd.DataFrame
    steps: pd.DataFrame
    at: pd.Series
    own: np.ndarray
    own_at: float
    sharing: str

    def __repr__(self):
        at = self.at
        return (f"Serving, {self.sharing}: {at['users']:,.0f} users with {at.name:,.0f} tokens get {at['throughput']:,.1f} tokens/s "
                "together (in .at; other lengths in .steps and .curve)")


def serving(model="Llama-3-8B", gpu="H100 SXM", gpus=1, context=120_000, sharing="each user has their own",
            memory_fraction=0.9) -> Serving:
    """Users that fit, decode step and throughput when every byte of memory is used, against the context of a user.

    Parameters
    ----------
    context : tokens, at least 1.
    gpus : how many GPUs serve the model together.
    sharing : a key of `SHARING`: a context for each user; or one for all, stored and read once, its attention FLOPs counted
        for every user or, with an ideal kernel, not at all.
    memory_fraction : share of the GPU's memory that the engine may use.

    Raises
    ------
    ValueError
        For an unknown name or kind of sharing.
    """
    if sharing not in tuple(SHARING):
        raise ValueError(f"sharing={sharing!r} is unknown; choose one of {', '.join(SHARING)}")
    check_one("context", context, least=1)
    shared, counted = SHARING[sharing]
    roofline = Roofline(model, gpu, gpus, memory_fraction=memory_fraction)

    def table(lengths):
        lengths = np.asarray(lengths, float)
        same = lengths if shared else 0
        held = roofline.max_users(lengths, same)
        tokens_per_s = roofline.throughput(lengths, same, shared_attention=counted)
        step = np.divide(held, tokens_per_s, out=np.full(lengths.shape, np.nan), where=tokens_per_s > 0)
        return pd.DataFrame({"users": held, "step": step, "throughput": tokens_per_s}, index=pd.Index(lengths, name="context"))

    curve, at = table(np.geomspace(250, 1_000_000, 80)), table([context]).iloc[0]
    if shared:
        private = serving(model, gpu, gpus, context, memory_fraction=memory_fraction)
        own, own_at = private.own, private.own_at
    else:
        own, own_at = curve["throughput"].to_numpy(), at["throughput"]
    return Serving(curve, table(CONTEXTS), at, own, own_at, sharing)
