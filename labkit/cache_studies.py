"""Two what-if studies of prefix caches: the order of a prompt's parts, and a recorded trace against capacity.

Each takes what a student can move and returns one frozen result; the caches are those of labkit.prefix_cache, and GPU
seconds come from labkit.kv_cost.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from numbers import Real
from pathlib import Path

import numpy as np
import pandas as pd

from labkit import checks, reference
from labkit.kv_cost import Roofline
from labkit.prefix_cache import PREFIX_CACHES, SessionCache, replay_prompts, trace_prompts

MODEL, GPU = "Llama-3-8B", "H100 SXM"  # whose seconds are counted

# --- the order of a prompt's parts --------------------------------------------------------------

TASKS, STEPS, STEP_TOKENS = 6, 5, 400  # 30 requests; a step adds a thought and a tool's result


@dataclass(frozen=True)
class Part:
    """A part of an agent's prompt: its tokens, and ``version(task, step)``; a new version is new from its first token."""

    tokens: int
    changes: str
    version: object = field(repr=False)
    grows: bool = False  # by STEP_TOKENS a step, appended

    def length(self, step):
        """Tokens at a step of a task (from 0)."""
        return step * STEP_TOKENS if self.grows else self.tokens


# Assumed: how large the parts are, and how often each of them changes.
PROMPT_PARTS = {
    "time stamp": Part(10, "each request", lambda task, step: (task, step)),
    "system": Part(1_000, "never", lambda task, step: 0),
    "tools": Part(1_500, "once", lambda task, step: task >= TASKS // 2),
    "preferences": Part(200, "every second task", lambda task, step: task // 2),
    "task": Part(300, "each task", lambda task, step: task),
    "history": Part(0, "each step grows, each task starts anew", lambda task, step: task, grows=True),
}


@dataclass(frozen=True, repr=False)
class PromptOrder:
    """What the cache held of each request, for one order of the parts.

    Attributes
    ----------
    tokens : DataFrame, a row a request, a column a part, in prompt order
    hit : ndarray, tokens of each request that were in the cache
    seconds : GPU seconds of all prefill
    """

    tokens: pd.DataFrame
    hit: np.ndarray
    seconds: float

    @property
    def cached(self):
        """DataFrame like `tokens`: of each part, the tokens that were in the cache."""
        ends = self.tokens.cumsum(axis=1)
        return self.tokens.sub(ends.sub(self.hit, axis=0).clip(lower=0), axis=0).clip(lower=0)

    @property
    def reuse(self):
        """Share of all prompt tokens that were in the cache."""
        return float(self.hit.sum() / self.tokens.to_numpy().sum())

    def __repr__(self):
        return (f"PromptOrder {', '.join(self.tokens)}: {self.reuse:.1%} of {self.tokens.to_numpy().sum():,} tokens from the cache "
                "(by request in .tokens, .cached)")


def prompt_order(order=tuple(PROMPT_PARTS)):
    """Send an agent's 30 prompts through a `SessionCache`, their parts in the given order.

    Six tasks of five steps; PROMPT_PARTS says how large the parts are and how often each changes (assumed).

    Parameters
    ----------
    order : the names of PROMPT_PARTS, first to last.

    Raises
    ------
    ValueError
        If a part is missing, unknown, or there twice.
    """
    order = list(order) if np.iterable(order) else [order]
    if sorted(map(str, order)) != sorted(PROMPT_PARTS):
        raise ValueError(f"order must have each of {', '.join(PROMPT_PARTS)} once; got {order!r}")
    cache, fresh, first, rows, hits = SessionCache(), count(0, 10_000), {}, [], []
    for task in range(TASKS):
        for step in range(STEPS):
            pieces = []
            for name in order:
                part = PROMPT_PARTS[name]
                version = (name, part.version(task, step))
                if version not in first:
                    first[version] = next(fresh)  # token ids that no other version has
                pieces.append(np.arange(part.length(step)) + first[version])
            hits.append(cache.request(np.concatenate(pieces)).hit)
            rows.append([len(piece) for piece in pieces])
    tokens, hit = pd.DataFrame(rows, columns=order), np.array(hits)
    n = tokens.sum(axis=1).to_numpy()
    return PromptOrder(tokens, hit, float(Roofline(MODEL, GPU).prefill_seconds(n - hit, cached=hit).sum()))


def part_stability():
    """How well each part of PROMPT_PARTS lasts from one request to the next: (share unchanged, share still begun with).

    A history that has grown has changed, but the new one begins with the old one.
    """
    requests = [(task, step) for task in range(TASKS) for step in range(STEPS)]
    pairs = list(zip(requests, requests[1:]))

    def lasts(part, then, now):
        return part.version(*then) == part.version(*now)

    def unchanged(part, then, now):
        return lasts(part, then, now) and part.length(then[1]) == part.length(now[1])

    return {
        name: tuple(sum(test(part, *pair) for pair in pairs) / len(pairs) for test in (unchanged, lasts))
        for name, part in PROMPT_PARTS.items()
    }


def sort_prompt(time_stamp=1, system=4, tools=5, preferences=2, task=3, history=6):
    """`prompt_order` with a place for each part: small numbers first; equal numbers keep the order of this list."""
    places = dict(zip(PROMPT_PARTS, (time_stamp, system, tools, preferences, task, history)))
    for name, place in places.items():
        if isinstance(place, (bool, np.bool_)) or not isinstance(place, Real) or place != place:
            raise ValueError(f"the place of {name} must be a number, small ones first; got {place!r}")
    return prompt_order(sorted(PROMPT_PARTS, key=places.get))


# --- a recorded trace ---------------------------------------------------------------------------

CAPACITIES = (5_000, 10_000, 15_000, 20_000, 30_000, 50_000, 100_000, 200_000)  # tokens
BLOCK_SIZES = (16, 64, 256, 512, 1_024)


@dataclass(frozen=True, repr=False)
class Replay:
    """Hit rate of a trace against capacity, and at one capacity.

    Attributes
    ----------
    rates : DataFrame, by capacity (tokens), columns radix and blocks
        Share of all prompt tokens that hit.
    cache, capacity, block_size : the one looked at.
    rate, infinite : share of prompt tokens that hit there, and without a limit.
    requests, refused : how many; refused are those that had no room.
    evicted : tokens whose KV was lost.
    seconds, seconds_uncached : GPU seconds of prefill with and without the cache.
    """

    rates: pd.DataFrame
    cache: str
    capacity: int
    block_size: int
    rate: float
    infinite: float
    requests: int
    refused: int
    evicted: int
    seconds: float
    seconds_uncached: float

    def __repr__(self):
        size = f" of {self.block_size:,}" if self.cache == "blocks" else ""
        return (f"Replay, {self.cache}{size}, room for {self.capacity:,} tokens: {self.rate:.1%} hit, {self.infinite:.1%} without a limit "
                "(other capacities in .rates)")


def sample_trace():
    """Path of the small trace in Mooncake's format that comes with the course; its requests are invented."""
    return reference.data_folder() / "mooncake_sample.jsonl"


@lru_cache(maxsize=8)
def _prompts(trace):
    return list(trace_prompts(trace))


@lru_cache(maxsize=256)
def _rows(trace, cache, capacity, block_size):
    return replay_prompts(_prompts(trace), cache, capacity, block_size)


def _rate(rows):
    return float(rows["hit"].sum() / (rows["hit"].sum() + rows["miss"].sum()))


@lru_cache(maxsize=8)
def _rates(trace):
    """Hit rates by capacity: a column for the radix tree, one for each block size (takes half a second)."""
    kinds = [("radix", 1), *(("blocks", size) for size in BLOCK_SIZES)]
    return pd.DataFrame(
        {kind: [_rate(_rows(trace, kind[0], capacity, kind[1])) for capacity in CAPACITIES] for kind in kinds},
        index=pd.Index(CAPACITIES, name="capacity"),
    )


def cache_replay(cache="blocks", capacity=30_000, block_size=16, trace=None):
    """Replay a trace through an exact prefix cache.

    Parameters
    ----------
    cache : blocks or radix.
    capacity : tokens of KV.
    block_size : one of BLOCK_SIZES, tokens; the radix tree has no blocks.
    trace : path of a file in Mooncake's format; by default `sample_trace`.

    Raises
    ------
    ValueError
        For an unknown cache or block size, or at a bad line of the trace, with its number.
    """
    if cache not in tuple(PREFIX_CACHES):
        raise ValueError(f"cache must be one of {', '.join(PREFIX_CACHES)}; got {cache!r}")
    if block_size not in BLOCK_SIZES:
        raise ValueError(f"block_size must be one of {', '.join(map(str, BLOCK_SIZES))}; got {block_size!r}")
    checks.whole("capacity", capacity, 1)
    if not isinstance(trace, (str, Path, type(None))) or trace == "":
        raise ValueError(f"trace must be the path of a file in Mooncake's format, or None for the sample; got {trace!r}")
    trace = str(sample_trace() if trace is None else trace)
    size = 1 if cache == "radix" else block_size
    rates = pd.DataFrame({"radix": _rates(trace)["radix", 1], "blocks": _rates(trace)["blocks", block_size]})
    rows, roofline = _rows(trace, cache, capacity, size), Roofline(MODEL, GPU)
    hit, miss = rows["hit"].to_numpy(), rows["miss"].to_numpy()
    return Replay(
        rates, cache, capacity, block_size, _rate(rows), _rate(_rows(trace, cache, None, size)),
        requests=len(rows),
        refused=int(rows["refused"].sum()),
        evicted=int(rows["evicted"].sum()),
        seconds=float(roofline.prefill_seconds(miss, cached=hit).sum()),
        seconds_uncached=float(roofline.prefill_seconds(hit + miss).sum()),
    )
