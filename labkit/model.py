"""A decoder-only transformer as far as its cost goes: what its layers cache, how many parameters a token passes.

    KV bytes a token = layers x KV heads x (dims of a key + dims of a value) x bytes a number
"""

import os
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from labkit import checks, reference
from labkit.reference import names_of, row_fields

# Bytes of one cached number. The dtype of the KV cache is a choice of the engine, apart from the weights' quantisation.
DTYPE_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1, "fp4": 0.5, "int4": 0.5}
DTYPE_ALIASES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float": "fp32",
                 "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8"}


def dtype_bytes(dtype):
    """Bytes of one number of the given dtype, such as "bf16" or "fp8".

    Raises
    ------
    ValueError
        If the dtype is unknown; the message lists the known ones.
    """
    name = str(dtype).removeprefix("torch.").lower()
    name = DTYPE_ALIASES.get(name, name)
    if name not in DTYPE_BYTES:
        raise ValueError(f"dtype {dtype!r} is unknown; known are {', '.join(DTYPE_BYTES)}")
    return DTYPE_BYTES[name]


@dataclass(frozen=True)
class Model:
    """A decoder-only transformer, as far as its cost goes.

    Layers come in kinds, by what they keep of a sequence: `full_layers` every token, `window_layers` the last `window`
    tokens, `state_layers` (linear attention, SSM) a state of constant size; the rest (`layers` minus these) nothing.

    Parameters
    ----------
    query_heads, kv_heads : int
        Heads of the queries and of the cache; equal without GQA.
    head_dim, value_head_dim : int
        Dimensions of a query or key, and of a value (None: the same).
    full_kv_heads, full_head_dim : int or None
        Where full layers differ from windowed ones (None: they do not).
    kv_lora_rank, rope_head_dim : int
        MLA: a layer caches one latent of kv_lora_rank + rope_head_dim numbers a token for all heads, K and V together.
    total_params, block_params : int or None
        All parameters; matmul parameters of the blocks that one token passes (no embedding, no lm_head; a mixture of
        experts counts its router, shared and chosen experts only). None where a config does not say enough.
    weight_bytes, state_bytes : int or None
        Bytes of all weights as stored; bytes of constant state a sequence.
    missing : str
        What the config lacked, for the message when a None is needed.
    assumptions : tuple of str
        What the reader had to take from the model class instead of the file.
    """

    name: str
    layers: int
    hidden: int
    query_heads: int
    kv_heads: int
    head_dim: int
    full_layers: int
    window_layers: int = 0
    state_layers: int = 0
    window: int | None = None
    value_head_dim: int | None = None
    full_kv_heads: int | None = None
    full_head_dim: int | None = None
    kv_lora_rank: int = 0
    rope_head_dim: int = 0
    total_params: int | None = None
    block_params: int | None = None
    weight_bytes: int | None = None
    state_bytes: int | None = 0
    missing: str = ""
    assumptions: tuple = ()

    def __post_init__(self):
        for name in ("layers", "hidden", "query_heads", "kv_heads", "head_dim"):
            checks.whole(f"{self.name}: {name}", getattr(self, name), 1)
        for name in ("full_layers", "window_layers", "state_layers", "kv_lora_rank", "rope_head_dim"):
            checks.whole(f"{self.name}: {name}", getattr(self, name), 0)
        for name in ("window", "value_head_dim", "full_kv_heads", "full_head_dim"):
            if getattr(self, name) is not None:
                checks.whole(f"{self.name}: {name}", getattr(self, name), 1)
        for name in ("total_params", "block_params", "weight_bytes", "state_bytes"):
            if getattr(self, name) is not None:
                check(f"{self.name}: {name}", getattr(self, name), least=0)
        if self.full_layers + self.window_layers + self.state_layers > self.layers:
            raise ValueError(f"{self.name}: {self.full_layers} full + {self.window_layers} windowed + {self.state_layers} state "
                             f"layers are more than its {self.layers} layers")
        for heads in {self.kv_heads, self.full_kv_heads or self.kv_heads}:
            if self.query_heads % heads:
                raise ValueError(f"{self.name}: {self.query_heads} query heads cannot be shared out over {heads} KV heads; "
                                 f"kv_heads must divide query_heads")
        if self.window is not None and not self.window_layers:
            raise ValueError(f"{self.name}: window={self.window}, but it has no windowed layers; give window_layers too")

    @classmethod
    def load(cls, source):
        """A model by name (see `model_names()`), or read from a Hugging Face config.json (path, or its dict).

        Raises
        ------
        ValueError
            For an unknown name (with the nearest names), a file that is not a config, or a config that does not say
            what its layers cache (naming the field).
        """
        from labkit.hf_config import read_config    # imported late: the reader builds Models

        if isinstance(source, cls):
            return source
        if isinstance(source, (dict, Path)):
            return read_config(source)
        table = reference.models()
        try:
            row = table.iloc[reference.find(names_of(table), source, "model")]
        except ValueError:
            if isinstance(source, str) and (source.endswith(".json") or os.path.exists(source)) and "\0" not in source:
                return read_config(source)
            raise
        return cls(**row_fields(cls, row))

    def with_(self, **changes):
        """The same model with some fields changed, such as `with_(kv_heads=32)` (no GQA) or `with_(kv_lora_rank=0)`
        (no MLA) or `with_(window=None)` (windowed layers keep all). Weights stay as they are: only the cache changes.

        Raises
        ------
        ValueError
            For a field that does not exist or an impossible value.
        """
        names = [f.name for f in fields(self)]
        for name in changes:
            if name not in names:
                raise ValueError(f"a model has no field {name!r}; {reference.suggest(name, names)}")
        return replace(self, **changes)

    # ---- bytes

    def numbers_per_token(self, kind="full"):
        """Cached numbers a token in one layer of this kind: kv_heads (head_dim + value_head_dim), or the MLA latent."""
        if not isinstance(kind, str) or kind not in ("full", "window"):
            raise ValueError(f"{self.name}: kind={kind!r} of layer has no cached numbers a token; choose full or window")
        if self.kv_lora_rank:
            return self.kv_lora_rank + self.rope_head_dim
        heads, key = self.kv_heads, self.head_dim
        value = self.value_head_dim or key
        if kind == "full":
            heads = self.full_kv_heads or heads
            key, value = self.full_head_dim or key, self.full_head_dim or value
        return heads * (key + value)

    def kv_by_kind(self, tokens, dtype="bf16", unified_pages=False):
        """Bytes of one sequence by kind of layer: {"full": ..., "window": ..., "state": ...}.

        Parameters
        ----------
        tokens : number or array
            Length of the sequence, above 0.
        dtype : str
            Of the KV cache, see `DTYPE_BYTES`. The state has its own fixed precision.
        unified_pages : bool
            True for an engine that pages all layers alike, so that windowed layers keep every token too.

        Raises
        ------
        ValueError
            If tokens is not above 0, the dtype unknown, or the size of the state needed and not known.
        """
        tokens = check("tokens", tokens, least=0, above=True)
        state = self.need("state_bytes") if self.state_layers else 0
        return {"full": plain(self._layer_bytes("full", dtype) * tokens),
                "window": plain(self._layer_bytes("window", dtype) * (tokens if unified_pages else self._held(tokens))),
                "state": plain(state + 0 * tokens)}

    def kv_bytes(self, tokens, dtype="bf16", unified_pages=False):
        """Bytes of KV cache of one sequence: full layers x tokens + windowed layers x min(tokens, window).

        The constant state of linear and SSM layers is apart, in `state_bytes`. Parameters as `kv_by_kind`.

        Raises
        ------
        ValueError
            If tokens is not above 0 or the dtype unknown.
        """
        tokens = check("tokens", tokens, least=0, above=True)
        held = tokens if unified_pages else self._held(tokens)
        return plain(self._layer_bytes("full", dtype) * tokens + self._layer_bytes("window", dtype) * held)

    def kv_bytes_per_token(self, at=0, dtype="bf16"):
        """Bytes that one more token adds to a sequence of `at` tokens: windowed layers add nothing once full."""
        at = check("at", at, least=0)
        growing = np.where(at < (np.inf if self.window is None else self.window), 1, 0)
        return plain(self._layer_bytes("full", dtype) + growing * self._layer_bytes("window", dtype))

    def kv_bytes_per_rank(self, tokens, ranks, dtype="bf16"):
        """Bytes on each of `ranks` tensor-parallel GPUs: a rank holds max(1, ceil(kv_heads / ranks)) KV heads.

        Beyond kv_heads ranks, heads are copied and not split; an MLA latent, shared by all heads, is on every rank whole.
        """
        checks.whole(f"{self.name}: ranks", ranks, 1)
        if self.kv_lora_rank:
            return self.kv_bytes(tokens, dtype)
        held = self.kv_by_kind(tokens, dtype)
        heads = {"full": self.full_kv_heads or self.kv_heads, "window": self.kv_heads}
        return plain(sum(held[kind] * max(1, -(-count // ranks)) / count for kind, count in heads.items()))

    def _layer_bytes(self, kind, dtype):
        """Bytes a token in all the layers of this kind together."""
        layers = {"full": self.full_layers, "window": self.window_layers}[kind]
        return layers * self.numbers_per_token(kind) * dtype_bytes(dtype)

    def _held(self, tokens):
        """Tokens that a windowed layer holds."""
        return tokens if self.window is None else np.minimum(tokens, self.window)

    # ---- FLOPs

    def linear_flops(self, tokens):
        """2 P a token: each matmul parameter that a token passes multiplies and adds once."""
        return 2 * self.need("block_params") * check("tokens", tokens, least=0)

    def attention_flops(self, new, cached=0):
        """FLOPs of attention when `new` tokens read `cached` earlier ones and, causally, each other.

        A full layer: 2 heads (head_dim + value_head_dim) new (cached + new / 2), which is 4 d new (cached + new / 2)
        where heads x head_dim = d. A windowed layer: no token reads more than `window`. MLA: keys and values are
        unfolded from the latent, as engines do in prefill. State layers: constant a token, left out as small.
        """
        new, cached = check("new", new, least=0), check("cached", cached, least=0)
        full = new * (cached + new / 2)
        end = cached + new
        held = full if self.window is None else _area(end, self.window) - _area(cached, self.window)
        return plain(self._score_flops("full") * self.full_layers * full
                     + self._score_flops("window") * self.window_layers * held)

    def decode_attention_flops(self, context):
        """FLOPs of attention for one new token over `context`: 4 d context in a full layer, a windowed one capped.

        MLA scores in the latent space (keys of kv_lora_rank + rope_head_dim, values of kv_lora_rank numbers), so that
        the cache need not be unfolded at each step.
        """
        context = check("context", context, least=0)
        held = self._held(context)
        if self.kv_lora_rank:
            latent = 2 * self.query_heads * (2 * self.kv_lora_rank + self.rope_head_dim)
            return plain(latent * (self.full_layers * context + self.window_layers * held))
        return plain(self._score_flops("full") * self.full_layers * context
                     + self._score_flops("window") * self.window_layers * held)

    def _score_flops(self, kind):
        key, value = self.head_dim, self.value_head_dim or self.head_dim
        if kind == "full" and self.full_head_dim:
            key = value = self.full_head_dim
        return 2 * self.query_heads * (key + value)

    def need(self, name):
        """A field that may be unknown, or a ValueError that says what the config lacked."""
        if name not in [f.name for f in fields(self)]:
            raise ValueError(f"a model has no field {name!r}; {reference.suggest(name, [f.name for f in fields(self)])}")
        value = getattr(self, name)
        if value is None:
            raise ValueError(f"{self.name}: {name} is not known, because {self.missing or 'it was not given'}")
        return value


def model_names():
    """Names of the models in data/models.csv whose weights are known, for a dropdown: the others have bytes, but no seconds."""
    models = reference.models()
    return list(models["name"][models["weight_bytes"].notna() & models["block_params"].notna()])


def _area(length, window):
    """Sum of min(position, window) over positions up to `length`: keys read by all tokens of a windowed sequence."""
    return np.where(length <= window, length * length / 2, window * length - window * window / 2)


def check(name, value, least, most=np.inf, above=False):
    """A number, or an array of them as floats, in range; else a ValueError that says what is allowed.

    Arrays become float64, so that bytes never overflow a platform's 32-bit integers.
    """
    bound = f"{'above' if above else 'at least'} {least}" + (" and finite" if most == np.inf else f" and at most {most}")
    array = np.asarray(value)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name}={value!r} must be a number {bound}")
    if not (np.isfinite(array) & (array > least if above else array >= least) & (array <= most)).all():
        raise ValueError(f"{name}={value!r} must be {bound}")
    return array.astype(float) if array.ndim else array.item()


def check_one(name, value, least, most=np.inf, above=False):
    """As `check`, for what cannot be an array."""
    if np.ndim(value):
        raise ValueError(f"{name}={value!r} must be one number; make a call for each")
    return check(name, value, least, most, above)


def plain(value):
    """A result for one number as a Python number; arrays unchanged."""
    return value.item() if np.ndim(value) == 0 and isinstance(value, (np.ndarray, np.generic)) else value
