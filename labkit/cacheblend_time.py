"""When recomputing is free: time to first token while KV is loaded, layer by layer (L11 3.4-3.6).

    TTFT = layers x max(load of a layer, compute of a layer x fraction computed)

The load of a layer runs beside the recompute of the layer before it, so whatever is shorter is hidden. The lecture notes
take 32 layers, 20 ms to compute one in full, and 0.5 / 4 / 16 ms to load one from GPU / CPU / SSD memory;
`layer_times` derives both from a model, a GPU and a link instead.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from labkit import checks, reference
from labkit.kv_cost import Gpu, Roofline
from labkit.model import Model, check, names_of

QUALITY_FLOOR = 0.15            # fraction below which the controller does not go: the paper's default (sec. 5)
PREFIX = 1 / 6                  # a prefix cache finds the first of six documents


@dataclass(frozen=True)
class LayerTimes:
    """Milliseconds of one layer: to load its KV of the whole prompt, and to compute it for the whole prompt."""

    load_ms: float
    full_ms: float = 20.0       # L11: 640 ms for 3,072 tokens in 32 layers
    layers: int = 32            # Llama-3-8B, Mistral-7B

    def __post_init__(self):
        check("load_ms", self.load_ms, least=0)
        check("full_ms", self.full_ms, least=0, above=True)
        checks.whole("LayerTimes: layers", self.layers, 1)


# Where the KV lies, in the lecture notes (3.5).
LECTURE = {"gpu": LayerTimes(0.5), "cpu": LayerTimes(4.0), "ssd": LayerTimes(16.0)}
DEVICES = tuple(LECTURE)

# The paper's two examples at 4K tokens on an SSD (sec. 5). It states the recompute of 15 %: 3 ms and 7 ms a layer; for
# Llama-70B that is more than the 4 ms of loading, so there it is not hidden.
PAPER = {"Llama-7B": LayerTimes(16.0, 3 / 0.15, 32), "Llama-70B": LayerTimes(4.0, 7 / 0.15, 80)}

# A method: (share of the KV that is loaded, share of the tokens that is computed), given the fraction of a blend.
METHODS = {
    "full": lambda fraction: (0.0, 1.0),
    "prefix": lambda fraction: (PREFIX, 1 - PREFIX),
    "reuse": lambda fraction: (1.0, 0.0),
    "blend": lambda fraction: (1.0, fraction),
}

# Where the KV comes from: bytes/s of the way to the GPU. "cpu" is the GPU's own host link.
LINKS = {
    "gpu": lambda gpu: gpu.bandwidth,
    "cpu": lambda gpu: gpu.host_link_bytes_per_s,
    "ssd": lambda gpu: _link("NVMe SSD"),
    "remote": lambda gpu: _link("remote store"),
}


def ttft_ms(method, device, fraction=0.15):
    """layers x max(load, full x share computed): milliseconds to the first token.

    Parameters
    ----------
    method : str
        A key of `METHODS`: "full" computes all and loads nothing; "prefix" finds the first of six documents, on every
        device; "reuse" loads all; "blend" loads all and recomputes `fraction`.
    device : str or LayerTimes
        "gpu", "cpu" or "ssd" with the lecture notes' times, or times of your own (`layer_times`, `PAPER`).
    fraction : float
        Of the tokens, 0 to 1; of use to "blend" only.

    Raises
    ------
    ValueError
        For an unknown method or device, or a fraction out of range.
    """
    times = _times(device)
    return times.layers * max(_step_ms(times, method, fraction))


def ttft_table(fraction=0.15, times=None):
    """TTFT in ms of every method on every device: a DataFrame, a row a method, a column a device."""
    times = LECTURE if times is None else times
    if not isinstance(times, dict):
        raise ValueError(f"times={times!r} must be a dict, name of a device -> LayerTimes, or None for the lecture notes' times")
    return pd.DataFrame({name: {method: ttft_ms(method, device, fraction) for method in METHODS}
                         for name, device in times.items()})


def hidden_fraction(device):
    """min(1, load / full): the largest fraction whose recompute is hidden behind loading. 2.5 / 20 / 80 % in L11."""
    times = _times(device)
    return min(1.0, times.load_ms / times.full_ms)


def controller(device, floor=QUALITY_FLOOR):
    """max(floor, hidden fraction): what CacheBlend's controller recomputes. 15 / 20 / 80 % in L11.

    `floor` is the fraction that quality asks for; above it, more is computed only as far as it costs no time.
    """
    return max(check("floor", floor, least=0, most=1), hidden_fraction(device))


@dataclass(frozen=True)
class Pipeline:
    """timeline : DataFrame, a row a step: layer, action ("load" or "compute"), start_ms, end_ms.

    ttft_ms : the formula, layers x max(load, compute).  end_ms : end of the timeline, one min(load, compute) more:
    the first load and the last compute have nothing beside them, which the formula leaves out.
    """

    timeline: pd.DataFrame
    ttft_ms: float
    end_ms: float
    fraction: float

    def __repr__(self):
        return (f"Pipeline, {self.fraction:.0%} recomputed: first token after {self.ttft_ms:,.1f} ms by the formula, "
                f"{self.end_ms:,.1f} ms step by step (steps in .timeline)")


def pipeline(method="blend", device="ssd", fraction=0.15):
    """The steps behind `ttft_ms`: layer l + 1 is loaded while layer l is computed.

    Layer l is computed when it is loaded and layer l - 1 is done; the load of layer l + 1 starts with it.

    Parameters
    ----------
    method, device
        As `ttft_ms`.
    fraction : float or None
        None lets the controller choose.

    Returns
    -------
    Pipeline
        A step of no length is left out of the timeline.
    """
    times = _times(device)
    fraction = controller(times) if fraction is None else fraction
    load, compute = _step_ms(times, method, fraction)
    slot = max(load, compute)
    layer = np.arange(times.layers)
    compute_starts = load + layer * slot
    starts = {"load": np.append(0.0, compute_starts[:-1]), "compute": compute_starts}
    rows = [pd.DataFrame({"layer": layer + 1, "action": action, "start_ms": starts[action], "end_ms": starts[action] + length})
            for action, length in (("load", load), ("compute", compute)) if length]
    timeline = pd.concat(rows) if rows else pd.DataFrame(columns=["layer", "action", "start_ms", "end_ms"])
    timeline = timeline.sort_values(["start_ms", "layer"], kind="stable", ignore_index=True)
    total = times.layers * slot
    return Pipeline(timeline, total, total + min(load, compute), fraction)


# ---- any model, any link

def layer_times(model="Llama-3-8B", gpu="H100 SXM", link="ssd", tokens=3072, dtype="bf16", gpus=1):
    """load = KV bytes / layers / link speed; full = prefill seconds / layers: `LayerTimes` from `kv_cost`.

    Parameters
    ----------
    model, gpu, dtype, gpus
        As in `kv_cost.Roofline`.
    link : str or number
        "gpu", "cpu", "ssd", "remote" (see `LINKS`), a row of data/links.csv, or bytes/s of your own disk.
    tokens : int
        Of the prompt.

    Raises
    ------
    ValueError
        For an unknown name, or a GPU whose host link is not known.
    """
    machine = Roofline(model, gpu, gpus=gpus, kv_dtype=dtype)
    layers = machine.model.layers
    return LayerTimes(1e3 * machine.model.kv_bytes(tokens, dtype) / layers / link_speed(link, machine.gpu),
                      1e3 * machine.prefill_seconds(tokens) / layers, layers)


def link_speed(link, gpu="H100 SXM"):
    """Bytes/s of a link: a key of `LINKS`, a name of data/links.csv, or the number itself."""
    if not isinstance(link, str):
        return check("link", link, least=0, above=True)
    gpu = Gpu.load(gpu)
    speed = LINKS[link](gpu) if link in LINKS else _link(link)
    if not speed:
        raise ValueError(f"{gpu.name}: the speed of its link to {link!r} is not known; give link in bytes/s")
    return speed


def tiers(model="Llama-3-8B", gpu="H100 SXM", tokens=3072, floor=QUALITY_FLOOR, dtype="bf16"):
    """Where the KV of a prompt may lie, a row a tier: GPU memory, CPU memory, SSD, a remote store (L11 3.6).

    Columns: bytes (moved to the GPU), bytes_per_s, load_ms and full_ms (a layer), hidden (fraction), fraction (the
    controller's), full_ttft_ms, reuse_ttft_ms, blend_ttft_ms (with that fraction).
    """
    rows = {}
    for link in LINKS:
        times = layer_times(model, gpu, link, tokens, dtype)
        fraction = controller(times, floor)
        rows[link] = {"bytes": Model.load(model).kv_bytes(tokens, dtype), "bytes_per_s": link_speed(link, gpu),
                      "load_ms": times.load_ms, "full_ms": times.full_ms, "hidden": hidden_fraction(times),
                      "fraction": fraction, "full_ttft_ms": ttft_ms("full", times),
                      "reuse_ttft_ms": ttft_ms("reuse", times), "blend_ttft_ms": ttft_ms("blend", times, fraction)}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("tier")


def sharing(instances=4, documents=200, document_tokens=512, model="Llama-3-8B", gpu="H100 SXM", private="ssd", shared="remote"):
    """Every instance with a store of its own, against one store for all, when each instance meets each document.

    copies = instances or 1; stored bytes = copies x documents x KV bytes; GPU seconds = copies x documents x prefill.

    Returns
    -------
    DataFrame
        Rows "a store each" and "one shared store"; columns copies, stored_bytes, prefill_gpu_s, load_ms (of one document).
    """
    for name, value in (("instances", instances), ("documents", documents), ("document_tokens", document_tokens)):
        checks.whole(f"sharing: {name}", value, 1)
    machine = Roofline(model, gpu)
    size = machine.model.kv_bytes(document_tokens)
    rows = {name: {"copies": copies, "stored_bytes": copies * documents * size,
                   "prefill_gpu_s": copies * documents * machine.prefill_seconds(document_tokens),
                   "load_ms": 1e3 * size / link_speed(link, machine.gpu)}
            for name, copies, link in (("a store each", instances, private), ("one shared store", 1, shared))}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("stores")


def disaggregation(model="Llama-3-8B", gpu="H100 SXM", tokens=3072, link="remote", dtype="bf16"):
    """Prefill on one machine, decode on another: bytes sent and the delay that sending adds (L11 3.6).

    after the prefill: delay = L t;  layer by layer: c + (L - 1) max(c, t) + t - L c, with c = compute and t = transfer
    of one of L layers. Both machines are of the same kind.

    Returns
    -------
    DataFrame
        Rows "one machine", "sent after the prefill", "sent layer by layer"; columns bytes, transfer_ms, delay_ms,
        ready_ms (from the start of the prefill until decoding can start).
    """
    times = layer_times(model, gpu, link, tokens, dtype)
    size = Model.load(model).kv_bytes(tokens, dtype)
    layers, compute, send = times.layers, times.full_ms, times.load_ms
    delays = {"one machine": 0.0, "sent after the prefill": layers * send,
              "sent layer by layer": compute + (layers - 1) * max(compute, send) + send - layers * compute}
    rows = {name: {"bytes": size if delay else 0, "transfer_ms": layers * send if delay else 0.0, "delay_ms": delay,
                   "ready_ms": layers * compute + delay} for name, delay in delays.items()}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("machines")


def _times(device):
    if isinstance(device, LayerTimes):
        return device
    if device not in LECTURE:
        raise ValueError(f"device={device!r} is unknown; choose one of {', '.join(LECTURE)}, or give LayerTimes")
    return LECTURE[device]


def _step_ms(times, method, fraction):
    """(load, compute) of one layer in ms."""
    if method not in METHODS:
        raise ValueError(f"method={method!r} is unknown; choose one of {', '.join(METHODS)}")
    loaded, computed = METHODS[method](check("fraction", fraction, least=0, most=1))
    return times.load_ms * loaded, times.full_ms * computed


def _link(name):
    table = reference.links()
    return float(table["bytes_per_s"].iloc[reference.find(names_of(table), name, "link")])
