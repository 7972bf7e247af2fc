"""The what-if studies of the CacheBlend notebook: each takes what a student can move and returns one frozen result.

The mechanisms are in `labkit.cacheblend` and `labkit.tiny_transformer`; nothing is computed here that is not theirs.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from labkit import cacheblend, checks, reference
from labkit.cacheblend_time import LayerTimes, link_speed
from labkit.kv_cost import Gpu, Model, model_names
from labkit.model import check
from labkit.tiny_transformer import BlendStudy, blend_study

# ---- retrieved documents and a prefix cache

LIBRARIES = (10, 30, 100, 300, 1_000)      # documents, the points of the curve
REQUESTS = 200


@dataclass(frozen=True)
class RagReuse:
    """sizes : hit share by size of the library, a column an order and "CacheBlend".  places : share found by place in
    the prompt, for the chosen library.  at : hit_share and stored of each order, for the chosen library."""

    sizes: pd.DataFrame
    places: pd.DataFrame
    at: pd.DataFrame
    library: int

    def __repr__(self):
        found = ", ".join(f"{name} {share:.1%}" for name, share in self.at.hit_share.items())
        return f"RagReuse of {self.library:,} documents: found {found} (in .at; by place in .places, by size in .sizes)"


def rag_reuse(library=100, k=6, skew=1.0):
    """What a prefix cache finds of k retrieved documents, by size of the library, by place and by order; 200 prompts."""
    return RagReuse(cacheblend.rag_sizes(LIBRARIES, k, skew, REQUESTS), cacheblend.rag_places(library, k, skew, REQUESTS),
                    cacheblend.rag_study(library, k, skew, REQUESTS), library)


# ---- moving a document

PRECISIONS = {"float64": np.float64, "float32": np.float32, "float16": np.float16}
READ_AT = 100                                    # place of the token in its document, read alone
SHIFTS = np.unique(np.geomspace(1, 100_000, 60).astype(int))


@dataclass(frozen=True)
class RopeShift:
    """A key read alone and moved.

    pairs : DataFrame, a row a pair of numbers that is drawn, columns turns (of the shift, 1 is once around), and x, y of
    the key as cached, moved, computed.  errors : DataFrame over the shift, largest |difference| from the key computed at
    the new place, columns "turned", "left as cached".  at : the same for the chosen shift.
    """

    pairs: pd.DataFrame
    errors: pd.DataFrame
    at: pd.Series
    shift: int
    read_at: int = READ_AT

    def __repr__(self):
        errors = ", ".join(f"{name} {error:.2g}" for name, error in self.at.items())
        return f"RopeShift by {self.shift:,} places: largest error {errors} (in .at; over the shift in .errors; hands in .pairs)"


def rope_shift(shift=512, base=10_000, dims=64, precision="float64"):
    """Compare a key that was turned by `shift` places with one computed there, and with one left as it was.

    Parameters
    ----------
    shift : int
        Places that the document stands further back than when it was read.
    base : float
        Of RoPE: 10,000 in Llama 2, 500,000 in Llama 3.
    dims : int
        Of a head, even.
    precision : str
        A key of `PRECISIONS`, in which keys are kept.

    Raises
    ------
    ValueError
        For an unknown precision, an odd `dims`, or a base not above 0.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"precision={precision!r} is unknown; choose one of {', '.join(PRECISIONS)}")
    checks.whole("rope_shift: dims", dims, 2)
    k = np.random.default_rng(0).uniform(-1, 1, (32, dims)).astype(PRECISIONS[precision])
    cached = cacheblend.rope_rotate(k, READ_AT, base)

    def errors(shifts):
        shifts = np.asarray(shifts)[:, None]                                         # (S, 1), against keys (32, dims)
        computed = cacheblend.rope_rotate(k, READ_AT + shifts, base).astype(float)
        found = {"turned": cacheblend.rope_rotate(cached, shifts, base), "left as cached": cached}
        return pd.DataFrame({name: np.abs(keys - computed).max((1, 2)) for name, keys in found.items()},
                            index=pd.Index(shifts[:, 0], name="shift"))

    half = dims // 2
    drawn = np.unique(np.array([0, half // 8, half // 4, half // 2]))
    ways = {"cached": cached, "moved": cacheblend.rope_rotate(cached, shift, base),
            "computed": cacheblend.rope_rotate(k, READ_AT + shift, base)}
    pairs = {"turns": shift * float(base) ** (-drawn / half) / (2 * np.pi)}
    for name, keys in ways.items():
        x, y = keys[0, drawn].astype(float), keys[0, drawn + half].astype(float)
        pairs |= {f"{name}_x": x / np.hypot(x, y), f"{name}_y": y / np.hypot(x, y)}
    pairs = pd.DataFrame(pairs, index=pd.Index(drawn, name="pair"))
    return RopeShift(pairs, errors(SHIFTS), errors([shift]).iloc[0], shift)


# ---- which few tokens

@dataclass(frozen=True)
class Recompute:
    """curves : quality by fraction, a column a rule.  quality : Series by rule, at the chosen fraction.  picked : chance
    to be recomputed by rank, under the chosen rule.  held : share of all dependency in the tokens up to a rank."""

    curves: pd.DataFrame
    quality: pd.Series
    picked: pd.Series
    held: pd.Series
    fraction: float
    rule: str

    def __repr__(self):
        said = ", ".join(f"{name} {quality:.4f}" for name, quality in self.quality.items())
        return f"Recompute of {self.fraction:.0%}: quality {said} (in .quality; by fraction in .curves, by rank in .picked, .held)"


def recompute(fraction=0.15, rule="hkvd", tail=10.0, noise=0.7):
    """Quality against the fraction recomputed, with the tokens that a rule picks: parameters as `cacheblend.blend_quality`."""
    curves = cacheblend.quality_curves(tail, noise)
    quality = pd.Series({name: cacheblend.blend_quality(fraction, name, tail, noise) for name in cacheblend.RULES})
    picked = cacheblend.picked_by_rank(fraction, rule, tail, noise)
    held = pd.Series([cacheblend.top_share(share, tail) for share in picked.index], picked.index)
    return Recompute(curves, quality, picked, held, fraction, rule)


# ---- when it is free

LECTURE_NOTES = "lecture notes (20 ms per layer)"
# Recomputing some tokens needs a KV cache of every token in every layer: no windows, no states.
MODELS = (LECTURE_NOTES, *(name for name in model_names() if Model.load(name).full_layers == Model.load(name).layers))
DISK_GB_PER_S = 4.8                         # the paper's SSD (sec. 7.1)


@dataclass(frozen=True)
class Timing:
    """pipeline : that of the chosen device.  table : DataFrame, a row a device, columns load, full (ms per layer), hidden
    (fraction), fraction (computed by a blend), and the TTFT of each method in ms."""

    pipeline: cacheblend.Pipeline
    table: pd.DataFrame
    device: str
    layers: int

    def __repr__(self):
        ttft = ", ".join(f"{method} {ms:,.1f} ms" for method, ms in self.table.loc[self.device, list(cacheblend.METHODS)].items())
        return f"Timing with KV on {self.device}: first token after {ttft} (all devices in .table; the steps in .pipeline)"


def device_times(model=LECTURE_NOTES, gpu="H100 SXM", tokens=3072, disk=DISK_GB_PER_S):
    """Milliseconds of a layer where the KV lies on the GPU, in CPU memory, on a disk, in a remote store: {name: LayerTimes}.

    A model of the list: bytes over link speed, and the prefill of notebook 1. The lecture notes' times are for 3,072
    tokens and a disk of 4.8 GB/s; they grow with the tokens and shrink with the disk's speed, and the remote store,
    which the notes do not time, is theirs in proportion to its speed. `gpu` is of no use to them.

    Raises
    ------
    ValueError
        For an unknown name, a disk not above 0 GB/s, or tokens below 1.
    """
    check("disk", disk, least=0, above=True)
    checks.whole("device_times: tokens", tokens, 1)
    if model == LECTURE_NOTES:
        notes, scale = cacheblend.LECTURE, tokens / cacheblend.TOKENS
        ssd = notes["ssd"].load_ms * DISK_GB_PER_S
        loads = {"gpu": notes["gpu"].load_ms, "cpu": notes["cpu"].load_ms, "ssd": ssd / disk, "remote": ssd * 1e9 / link_speed("remote")}
        return {name: LayerTimes(load * scale, 20.0 * scale) for name, load in loads.items()}
    known = [link for link in cacheblend.LINKS if link != "cpu" or Gpu.load(gpu).host_link_bytes_per_s]
    return {link: cacheblend.layer_times(model, gpu, disk * 1e9 if link == "ssd" else link, tokens) for link in known}


def timing(model=LECTURE_NOTES, device="ssd", fraction=0.15, controller=False, gpu="H100 SXM", tokens=3072, disk=DISK_GB_PER_S):
    """Time to first token by method and device, and the pipeline of the chosen device.

    Parameters
    ----------
    model : str
        One of `MODELS`.
    device : str
        "gpu", "cpu", "ssd" or "remote": where the cached KV lies.
    fraction : float
        Recomputed, 0 to 1.
    controller : bool
        Let the controller choose instead, for each device, with `fraction` as the least that quality asks for.
    gpu, tokens, disk
        As `device_times`; disk in GB/s.

    Raises
    ------
    ValueError
        For an unknown name, also if the link of this GPU to its host is not known.
    """
    checks.flag("controller", controller)
    times = device_times(model, gpu, tokens, disk)
    if device not in times:
        raise ValueError(f"device={device!r} is unknown, or its speed is not known for {gpu}; choose one of {', '.join(times)}")
    rows = {}
    for name, layer in times.items():
        computed = cacheblend.controller(layer, fraction) if controller else fraction
        rows[name] = {"load": layer.load_ms, "full layer": layer.full_ms, "hidden": cacheblend.hidden_fraction(layer), "fraction": computed}
        rows[name] |= {method: cacheblend.ttft_ms(method, layer, computed) for method in cacheblend.METHODS}
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("device")
    return Timing(cacheblend.pipeline("blend", times[device], table.fraction[device]), table, device, times[device].layers)


def paper_examples():
    """The paper's two examples (sec. 5): ms per layer at 4K tokens from an SSD, and whether 15 % is hidden."""
    rows = {name: {"layers": times.layers, "load (ms per layer)": times.load_ms, "recompute 15 % (ms per layer)": 0.15 * times.full_ms,
                   "hidden fraction": cacheblend.hidden_fraction(times), "TTFT, reuse (ms)": cacheblend.ttft_ms("reuse", times),
                   "TTFT, 15 % (ms)": cacheblend.ttft_ms("blend", times), "TTFT, full (ms)": cacheblend.ttft_ms("full", times)}
            for name, times in cacheblend.PAPER.items()}
    return pd.DataFrame.from_dict(rows, orient="index")


def paper_table():
    """The main results of the CacheBlend paper, a row each: what, low, high, unit, place."""
    rows = reference.paper_results("CacheBlend")
    rows = rows[rows.place.str.contains("abstract|sec 4.3|Fig 7|Fig 16|^sec 7$") | rows.metric.str.contains("default")]
    return rows[["metric", "value", "value_to", "unit", "place"]].set_index("metric").rename_axis(index=None)


# ---- the trained model

@dataclass(frozen=True, eq=False)
class Trained:
    """study : `tiny_transformer.BlendStudy` of 100 sequences.  sequence : the one that is drawn.  fraction, rule.
    whole_line : whether right answers are drawn beyond `fraction` too."""

    study: BlendStudy
    sequence: int
    fraction: float
    rule: str
    whole_line: bool = False

    def __repr__(self):
        return f"Trained: {self.study!r} in .study; sequence {self.sequence} in .answers, .maps"

    @property
    def maps(self):
        """Deviation by token, (3, T): layer 1 and layer 2 as cached, layer 2 as answered from."""
        blend = self.study.blend
        return np.vstack([blend.deviation[self.sequence].T, blend.remaining[self.sequence, :, 1]])

    @cached_property
    def answers(self):
        """DataFrame, a row a question of the sequence (asked, hops, right) with what each way of reading answers."""
        study, i = self.study, self.sequence
        return pd.DataFrame({"asked": study.batch.questions[i], "hops": study.batch.hops, "right": study.batch.answers[i],
                             "full": study.full.answers[i], "reuse": study.reuse.answers[i], "blend": study.blend.answers[i]})


SEQUENCES = 100


def trained(fraction=0.15, rule="hkvd", bridging=0.27, sequence=0, whole_line=False):
    """Read 100 new sequences with the trained weights: parameters as `tiny_transformer.blend_study`; `sequence` is drawn.

    `whole_line` draws what every fraction would answer, not only those up to the chosen one: where the line bends, at the
    share of bridging facts, is the knee.

    Raises
    ------
    ValueError
        If there is no such sequence (0 to 99), if `whole_line` is not True or False, or for what `blend_study` refuses.
    """
    checks.flag("whole_line", whole_line)
    checks.whole("trained: sequence", sequence, 0, SEQUENCES - 1)
    return Trained(blend_study(fraction, rule, bridging, SEQUENCES), sequence, fraction, rule, bool(whole_line))


def training_log():
    """How four trainings ended: accuracy by hops with full prefill, full reuse and HKVD at 1.2 x the bridging share."""
    log = pd.read_csv(reference.data_folder() / "tiny_transformer_log.csv").groupby(["auxiliary", "seed"], sort=False).tail(1)
    ways = [f"{way}_{hops}" for way in ("full", "reuse", "hkvd") for hops in (1, 2, 3)]
    log = log.assign(auxiliary=log.auxiliary.map({1.0: "yes", 0.0: "no"})).set_index(["auxiliary", "seed"])
    return log[ways].rename(columns=lambda name: name.replace("_", ", hops "))
