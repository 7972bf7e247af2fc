"""What one token of context costs: bytes of KV cache, seconds of a GPU, other users' throughput.

    KV bytes a token = layers x KV heads x (dims of a key + dims of a value) x bytes a number
    time of a pass   = max(FLOPs / reachable FLOP/s, bytes / reachable bytes/s) + overhead

A `Model` knows its bytes, a `Gpu` its memory and speeds, a `Roofline` puts a model on GPUs and gives seconds.
All the other modules price their tokens with these (lecture notes L14 1.2 and exercise 1, L11 1.2).
`tokens`, `context`, `batch` may be numbers or numpy arrays everywhere, so that a whole curve is one call.
"""

from dataclasses import dataclass, fields

import numpy as np

from labkit import checks, reference
from labkit.model import DTYPE_BYTES, Model, check, check_one, dtype_bytes, model_names, names_of, plain, row_fields

# A query of the lecture notes (L14 1.2). Fitted: with a question of 70 tokens every printed figure comes out;
# 200 answer tokens are stated. A user holds on average half of the answer, hence `answer / 2` below.
QUESTION_TOKENS = 70
ANSWER_TOKENS = 200


@dataclass(frozen=True)
class Gpu:
    """An accelerator in one form factor.

    memory_bytes is the marketed size in decimal bytes (80 GB = 80e9), as both lectures count; the device itself may
    report more (80 GiB): `memory_bytes_device`. bandwidth in bytes/s, flops dense bf16 FLOP/s, links in bytes/s one way.
    """

    name: str
    memory_bytes: float
    form_factor: str = ""
    memory_bytes_device: float | None = None
    bandwidth: float | None = None
    flops: float | None = None
    fp8_flops: float | None = None
    host_link: str = ""
    host_link_bytes_per_s: float | None = None
    gpu_link_bytes_per_s: float | None = None

    def __post_init__(self):
        for name in ("memory_bytes", "memory_bytes_device", "bandwidth", "flops", "fp8_flops",
                     "host_link_bytes_per_s", "gpu_link_bytes_per_s"):
            if getattr(self, name) is not None:
                check_one(f"{self.name}: {name}", getattr(self, name), least=0, above=True)

    @classmethod
    def load(cls, source):
        """A GPU by name, such as "H100 SXM" (see `gpu_names()`); a short name means the row that lists it as an alias.

        Raises
        ------
        ValueError
            For an unknown name, with the nearest names.
        """
        if isinstance(source, cls):
            return source
        table = reference.gpus()
        row = table.iloc[reference.find(names_of(table), source, "GPU")]
        return cls(**row_fields(cls, row))


def gpu_names(complete=True):
    """Names of the GPUs in data/gpus.csv; `complete` keeps those with the bandwidth and FLOP/s that a roofline needs."""
    table = reference.gpus()
    return list(table.dropna(subset=["bandwidth", "flops"])["name"] if complete else table["name"])


@dataclass(frozen=True)
class Roofline:
    """A model on GPUs: seconds of a pass = max(FLOPs / F, bytes / B) + overhead.

    F = compute_efficiency x dense bf16 FLOP/s, B = bandwidth_efficiency x bandwidth, KV memory = memory_fraction x
    memory - weights; `gpus` of them add up, links ignored. Passing lists the settings of the lecture notes (L14 1.2).
    A mixture of experts computes with the parameters a token passes but reads all its weights, which is right for
    large batches and too slow for one user.

    Parameters
    ----------
    model : Model or str
    gpu : Gpu or str
    gpus : int
        How many, at least 1.
    compute_efficiency : float
        Share of the dense FLOP/s that matmuls reach, in (0, 1]; 0.7 fits the 8.8 s prefill of 128,000 tokens.
    bandwidth_efficiency : float
        Share of the bandwidth that streaming reaches, in (0, 1]; 0.8 fits the 1.22 s for 200 short-context tokens.
    overhead_s : float
        Seconds a pass costs beside, at least 0; 0.1 ms is fitted.
    memory_fraction : float
        Share of the memory that the engine may use, in (0, 1]; 0.9 is what engines commonly set.
    kv_dtype : str
        Of the KV cache.
    """

    model: Model
    gpu: Gpu
    gpus: int = 1
    compute_efficiency: float = 0.7
    bandwidth_efficiency: float = 0.8
    overhead_s: float = 1e-4
    memory_fraction: float = 0.9
    kv_dtype: str = "bf16"

    def __post_init__(self):
        object.__setattr__(self, "model", Model.load(self.model))
        object.__setattr__(self, "gpu", Gpu.load(self.gpu))
        checks.whole("Roofline: gpus", self.gpus, 1)
        for name in ("compute_efficiency", "bandwidth_efficiency", "memory_fraction"):
            check(name, getattr(self, name), least=0, most=1, above=True)
        check("overhead_s", self.overhead_s, least=0)
        for name in ("compute_efficiency", "bandwidth_efficiency", "memory_fraction", "overhead_s"):
            if np.ndim(getattr(self, name)):
                raise ValueError(f"{name}={getattr(self, name)!r} must be one number; make a Roofline for each")
        dtype_bytes(self.kv_dtype)
        for name in ("memory_bytes", "bandwidth", "flops"):
            if not getattr(self.gpu, name):
                raise ValueError(f"{self.gpu.name}: its {name} is not known, so it has no roofline; "
                                 f"gpu_names() lists the GPUs that have one")
        for name in ("weight_bytes", "block_params"):
            self.model.need(name)

    @property
    def flops_per_s(self):
        """F, FLOP/s reached by all GPUs together."""
        return self.compute_efficiency * self.gpu.flops * self.gpus

    @property
    def bytes_per_s(self):
        """B, bytes/s reached by all GPUs together."""
        return self.bandwidth_efficiency * self.gpu.bandwidth * self.gpus

    @property
    def kv_capacity_bytes(self):
        """memory_fraction x memory - weights: bytes left for KV; 0 where the weights alone do not fit."""
        return max(0.0, self.memory_fraction * self.gpu.memory_bytes * self.gpus - self.model.weight_bytes)

    def sequence_bytes(self, tokens):
        """Bytes of one sequence in memory: its KV cache and its constant state."""
        state = self.model.need("state_bytes") if self.model.state_layers else 0
        return self.model.kv_bytes(tokens, self.kv_dtype) + state

    def prefill_parts(self, new, cached=0):
        """Seconds of a prefill by cause: {"linear", "attention", "memory", "overhead"}.

        The pass takes max(linear + attention, memory) + overhead. Parameters as `prefill_seconds`.
        """
        new = check("new", new, least=0, above=True)
        cached = check("cached", cached, least=0)
        return {"linear": plain(self.model.linear_flops(new) / self.flops_per_s),
                "attention": plain(self.model.attention_flops(new, cached) / self.flops_per_s),
                "memory": plain((self.model.weight_bytes + self.sequence_bytes(cached + new)) / self.bytes_per_s),
                "overhead": self.overhead_s}

    def prefill_seconds(self, new, cached=0):
        """max((2 P new + 4 L d new (cached + new / 2)) / F, (W + KV bytes of cached + new) / B) + overhead.

        Parameters
        ----------
        new : number or array
            Tokens to compute, above 0.
        cached : number or array
            Tokens before them whose KV is in memory already.
        """
        parts = self.prefill_parts(new, cached)
        return plain(np.maximum(parts["linear"] + parts["attention"], parts["memory"]) + parts["overhead"])

    def step_seconds(self, batch, context, shared=0, shared_attention=True):
        """Seconds of one decode step, one token for each of `batch` users with `context` tokens before it.

        max(batch (2 P + 4 L d context) / F, (W + batch x KV bytes of context) / B) + overhead. Of the context `shared`
        tokens are the same for all: stored and read once; `shared_attention` False leaves their FLOPs out as well, as
        if the kernel's work on them were free. The truth depends on the kernel.
        """
        batch = check("batch", batch, least=0, above=True)
        shared, context = _check_shared(shared, context)
        read = context if shared_attention else context - shared
        compute = batch * (self.model.linear_flops(1) + self.model.decode_attention_flops(read)) / self.flops_per_s
        memory = (self.model.weight_bytes + self._once(shared) + batch * self._each(context - shared)) / self.bytes_per_s
        return plain(np.maximum(compute, memory) + self.overhead_s)

    def decode_seconds(self, tokens, context, batch=1):
        """tokens x step at the mean context, context + tokens / 2: seconds to answer, after the first token's prefill."""
        tokens = check("tokens", tokens, least=0, above=True)
        context = check("context", context, least=0, above=True)
        return plain(tokens * self.step_seconds(batch, context + tokens / 2))

    # ---- many users

    def max_users(self, context, shared=0, question=QUESTION_TOKENS, answer=ANSWER_TOKENS):
        """floor(KV memory / KV bytes of (context + question + answer / 2)): users held at once, 0 if not even one fits.

        A `shared` part of the context is stored once, before the users are counted.
        """
        shared, context = _check_shared(shared, context)
        own = _mean_length(context - shared, question, answer)
        return _whole(np.maximum(0, (self.kv_capacity_bytes - self._once(shared)) // self._each(own)))

    def throughput(self, context, shared=0, users=None, shared_attention=True,
                   question=QUESTION_TOKENS, answer=ANSWER_TOKENS):
        """users / step(users, context + question + answer / 2): tokens/s of all users together.

        `users` None fills the memory; a number of users must fit. 0 tokens/s where not even one user fits.
        `shared` and `shared_attention` as in `step_seconds`.

        Raises
        ------
        ValueError
            If more users are asked for than fit, or shared is longer than context.
        """
        most = self.max_users(context, shared, question, answer)
        users = most if users is None else check("users", users, least=0, above=True)
        if np.any(users > most):
            raise ValueError(f"users={users} do not fit: the memory left holds {most}")
        length = _mean_length(check("context", context, least=0, above=True), question, answer)
        return plain(users / self.step_seconds(np.maximum(users, 1), length, shared, shared_attention))

    def gpu_seconds_per_query(self, context, cached=True, question=QUESTION_TOKENS, answer=ANSWER_TOKENS):
        """GPU seconds of one query on full GPUs: gpus x (answer x step / users + prefill of the question).

        `cached`: the context's KV is in memory already and only the question is computed; else the whole prompt is.
        inf where not even one user fits.
        """
        checks.flag("cached", cached)
        users = self.max_users(context, 0, question, answer)
        context = check("context", context, least=0, above=True)
        step = self.step_seconds(np.maximum(users, 1), _mean_length(context, question, answer))
        prefill = self.prefill_seconds(question, context) if cached else self.prefill_seconds(context + question)
        seconds = self.gpus * (answer * step / np.maximum(users, 1) + prefill)
        return plain(np.where(np.equal(users, 0), np.inf, seconds))

    def _once(self, shared):
        """Bytes stored and read once for all users: the KV of the tokens they share."""
        kv = self.model.kv_bytes(np.where(np.greater(shared, 0), shared, 1), self.kv_dtype)
        return np.where(np.greater(shared, 0), kv, 0)

    def _each(self, own):
        """Bytes of one user: the KV of the tokens no other user has, and the constant state."""
        kv = self.sequence_bytes(np.where(np.greater(own, 0), own, 1))
        return np.where(np.greater(own, 0), kv, self.model.need("state_bytes") if self.model.state_layers else 0)


def break_even_queries(training_gpu_seconds, gpu_seconds_before, gpu_seconds_after=0.0, training_price=1.0):
    """training_gpu_seconds x training_price / (before - after): queries after which a trained cache has paid.

    Parameters
    ----------
    training_gpu_seconds : number
        Of one training, such as 14,400 (8 GPUs for half an hour).
    gpu_seconds_before, gpu_seconds_after : number or array
        GPU seconds of a query without and with the trained cache.
    training_price : number
        Price of a training GPU second over a serving one; 1/3 for idle GPUs at night.

    Returns
    -------
    number or array
        inf where the trained cache saves nothing, or cannot be served either.
    """
    cost = check("training_gpu_seconds", training_gpu_seconds, least=0) * check("training_price", training_price, least=0)
    before, after = np.asarray(gpu_seconds_before), np.asarray(gpu_seconds_after)
    for name, value in (("gpu_seconds_before", before), ("gpu_seconds_after", after)):
        if value.dtype.kind not in "iuf" or not (value >= 0).all():      # NaN is not at least 0
            raise ValueError(f"{name}={value.tolist()!r} must be a number, at least 0; inf where a query does not fit")
    served = np.isfinite(after)                  # inf: a query that does not fit in the memory
    saved = np.where(served, before, 0) - np.where(served, after, 0)
    return plain(np.where(saved > 0, cost / np.where(saved > 0, saved, 1), np.inf))


@dataclass(frozen=True)
class RoundNumbers:
    """The round numbers of L11 (1.2 and 4.6), kept apart from the roofline: no reserve, one prefill speed.

    users = floor((memory - weights) / KV bytes); break-even = training seconds / (corpus / prefill speed).
    """

    memory_bytes: float = 80e9              # an H100, decimal
    weight_bytes: float = 16e9              # "about 16 GB" of Llama-3-8B
    prefill_tokens_per_s: float = 20_000    # assumed by the notes, for one GPU
    training_gpu_seconds: float = 4 * 3600  # 8 GPUs for half an hour

    def __post_init__(self):
        for f in fields(self):
            check_one(f.name, getattr(self, f.name), least=0, above=True)
        if self.weight_bytes >= self.memory_bytes:
            raise ValueError(f"weight_bytes={self.weight_bytes} leave no KV memory in memory_bytes={self.memory_bytes}")

    @property
    def kv_capacity_bytes(self):
        """memory - weights."""
        return self.memory_bytes - self.weight_bytes

    def max_users(self, model, tokens, dtype="bf16"):
        """Users held at once, each with `tokens` tokens of KV."""
        return _whole(self.kv_capacity_bytes // Model.load(model).kv_bytes(tokens, dtype))

    def break_even_queries(self, corpus_tokens):
        """Queries after which training a cache beats prefilling the corpus each time."""
        corpus = check("corpus_tokens", corpus_tokens, least=0, above=True)
        return break_even_queries(self.training_gpu_seconds, corpus / self.prefill_tokens_per_s)


L11_RULES = RoundNumbers()


def _check_shared(shared, context):
    shared, context = check("shared", shared, least=0), check("context", context, least=0, above=True)
    if np.any(np.asarray(shared) > context):
        raise ValueError(f"shared={shared} is longer than context={context}; it is the part of the context that all users share")
    return shared, context


def _mean_length(context, question, answer):
    return context + check("question", question, least=0, above=True) + check("answer", answer, least=0, above=True) / 2


def _whole(value):
    """Counts: int for one, an integer array for many."""
    return np.asarray(value).astype(np.int64) if np.ndim(value) else int(value)
