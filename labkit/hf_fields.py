"""The fields of a Hugging Face config.json: every look-up checked, what a file leaves to its model class filled in."""

from labkit import checks

MOST = 10**7                # of any number: a model's bytes a token stay within 64 bits
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
HIDDEN = ("hidden_size", "n_embd", "n_embed", "d_model")
HEADS = ("num_attention_heads", "n_head", "n_heads")        # not num_heads, which counts the heads of a state as well
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads", "num_attention_groups")

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
                checks.whole(f"{self.where}: {name}", self.values[name], least, MOST)
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
