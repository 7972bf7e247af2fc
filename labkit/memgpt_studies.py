"""The what-if studies of the MemGPT notebook: one function a panel, one frozen result each.

Each takes what a student can move; the mechanisms are those of labkit.memgpt and labkit.prefix_cache, and GPU seconds
come from labkit.kv_cost.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count

import numpy as np
import pandas as pd

from labkit import reference
from labkit.kv_cost import Roofline
from labkit.memgpt_demos import conversation_demo
from labkit.memgpt_recall import RecallSettings, recall_curve
from labkit.memgpt_serving import LAYOUTS, ServeSettings, gpu_seconds, serve_session
from labkit.memgpt_session import check_share, check_whole, even_session
from labkit.memgpt_view import Snapshot
from labkit.prefix_cache import PREFIX_CACHES, SessionCache, replay_prompts, trace_prompts

MODEL, GPU = "Llama-3-8B", "H100 SXM"  # whose seconds are counted

# --- the main context, call by call -------------------------------------------------------------

PARTS = ("system", "working", "summary", "messages")


@dataclass(frozen=True)
class MainContext:
    """A conversation of the agent, and one of its calls.

    Attributes
    ----------
    tokens : DataFrame, a row a call, columns PARTS in prompt order
    trace : DataFrame
        As `Agent.trace`, a row a call.
    step : int
        The call looked at, from 1.
    snapshot : Snapshot
        Its prompt, part by part.
    window, warn_at, evict_to : float
        Tokens: the most there may be, where a warning comes, what an eviction leaves.
    """

    tokens: pd.DataFrame
    trace: pd.DataFrame
    step: int
    snapshot: Snapshot = field(repr=False)
    window: int
    warn_at: float
    evict_to: float

    @property
    def row(self):
        """The trace of the call looked at."""
        return self.trace.iloc[self.step - 1]


@lru_cache(maxsize=64)
def _conversation(window, warn, evict):
    """The agent of `conversation_demo`, and the tokens of each part at each call."""
    agent = conversation_demo(window, warn, evict)
    rows = []
    for snapshot in agent.history:
        row = dict.fromkeys(PARTS, 0)
        for segment in snapshot.segments:
            row[segment.kind if segment.kind in PARTS else "messages"] += segment.tokens
        rows.append(row)
    return agent, agent.trace, pd.DataFrame(rows, columns=list(PARTS))


def main_context(window=900, warn=0.70, evict=0.50, step=13):
    """What stands in the prompt at each call of a short conversation, and what of it the cache held.

    Parameters
    ----------
    window : tokens; 700 is about the least that always works.
    warn, evict : shares of the window, 0 to 1.
    step : the call to look at, from 1; the last one if there are fewer.

    Raises
    ------
    ValueError
        For a share outside 0 to 1, a step below 1, or a window that a message does not fit into.
    """
    check_whole("main_context", "step", step, least=1)
    agent, trace, tokens = _conversation(window, warn, evict)
    step = min(step, len(trace))
    return MainContext(tokens, trace, step, agent.history[step - 1], window, warn * window, (1 - evict) * window)


# --- nested look-ups: what the paper measured ---------------------------------------------------


def papers_zero_levels():
    """Level at which each fixed-context model of the paper has fallen to 0 %: a dict model to level."""
    rows = reference.paper_results("MemGPT")
    rows = rows[rows["metric"].str.match(r"accuracy at \d nesting level") & (rows["value"] == 0)]
    return dict(zip(rows["model"], rows["metric"].str.extract(r"(\d)", expand=False).astype(int)))


# --- recall: what is still known after many sessions --------------------------------------------

SESSIONS = (2, 5, 10, 15, 20, 30, 40)


@dataclass(frozen=True)
class RecallStudy:
    """Accuracy and its standard error: DataFrames, a row a number of sessions, a column a system."""

    accuracy: pd.DataFrame
    error: pd.DataFrame
    sessions: int
    dialogues: int


def recall_curves(sessions=10, window=40, core=8, archive=0.60, archive_warned=0.95, recall=0.0, dialogues=400):
    """`memgpt.recall_study` at all lengths of `SESSIONS`, the same dialogues throughout.

    Parameters
    ----------
    sessions : one of SESSIONS, the length that the table shows.
    window : messages.
    core : facts in core memory.
    archive, archive_warned : chance that a fact is saved, without and with a memory-pressure warning.
    recall : chance that recall storage answers where the archive gives nothing; 0 = there is none.
    dialogues : how many dialogues are averaged.
    """
    if sessions not in SESSIONS:
        raise ValueError(f"sessions={sessions!r} must be one of {', '.join(map(str, SESSIONS))}")
    settings = RecallSettings(window=window, core=core, archive=archive, archive_warned=archive_warned, recall=recall)
    curve = recall_curve(settings, SESSIONS, dialogues)
    wide = curve.pivot(index="sessions", columns="system")[["accuracy", "standard_error"]]
    return RecallStudy(wide["accuracy"], wide["standard_error"], sessions, dialogues)


# --- prefill by cause ---------------------------------------------------------------------------


@dataclass(frozen=True)
class PrefillStudy:
    """The same session served in every layout.

    Attributes
    ----------
    results : dict of layout to ServeResult
    seconds, seconds_uncached : dict of layout to float
        GPU seconds of prefill with the session's cache, and with none.
    layout : the one whose calls are drawn.
    window : tokens.
    """

    results: dict
    seconds: dict
    seconds_uncached: dict
    layout: str
    window: int

    @property
    def chosen(self):
        """The ServeResult of the layout chosen."""
        return self.results[self.layout]


_even = lru_cache(maxsize=32)(even_session)


def prefill_by_cause(window=8_000, evict=0.50, p_save=0.50, layout="front", warn=0.70, credit_output=False):
    """Prefill of the even session by cause, in all layouts; see `memgpt.serve_session`.

    Parameters
    ----------
    window : tokens.
    evict, warn : shares of the window; warn = 1.0 never warns.
    p_save : chance that a fact is saved at once by an edit of the working context.
    layout : front, end or append; the one whose calls are drawn.
    credit_output : whether generated tokens are in the cache too.
    """
    if layout not in tuple(LAYOUTS):
        raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}; got {layout!r}")
    roofline, session = Roofline(MODEL, GPU), _even(p_save=p_save)
    results = {
        name: serve_session(session, ServeSettings(window, warn, evict, layout=name, credit_output=credit_output))
        for name in LAYOUTS
    }
    seconds, uncached = (
        {name: float(gpu_seconds(result, roofline, cache).sum()) for name, result in results.items()}
        for cache in (True, False)
    )
    return PrefillStudy(results, seconds, uncached, layout, window)


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


@dataclass(frozen=True)
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
    order = list(order)
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


def sort_prompt(time_stamp=1, system=4, tools=5, preferences=2, task=3, history=6):
    """`prompt_order` with a place for each part: small numbers first; equal numbers keep the order of this list."""
    places = dict(zip(PROMPT_PARTS, (time_stamp, system, tools, preferences, task, history)))
    return prompt_order(sorted(PROMPT_PARTS, key=places.get))


# --- a recorded trace ---------------------------------------------------------------------------

CAPACITIES = (5_000, 10_000, 15_000, 20_000, 30_000, 50_000, 100_000, 200_000)  # tokens
BLOCK_SIZES = (16, 64, 256, 512, 1_024)


@dataclass(frozen=True)
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
    if cache not in PREFIX_CACHES:
        raise ValueError(f"cache must be one of {', '.join(PREFIX_CACHES)}; got {cache!r}")
    if block_size not in BLOCK_SIZES:
        raise ValueError(f"block_size must be one of {', '.join(map(str, BLOCK_SIZES))}; got {block_size!r}")
    check_whole("cache_replay", "capacity", capacity, least=1)
    trace = str(trace or sample_trace())
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
