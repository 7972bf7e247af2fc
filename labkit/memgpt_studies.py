"""The what-if studies of the MemGPT agent: one function a panel, one frozen result each.

Each takes what a student can move; the mechanisms are those of labkit.memgpt, and GPU seconds come from labkit.kv_cost.
(The studies of the caches alone are in labkit.cache_studies.)
"""

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pandas as pd

from labkit import checks, reference
from labkit.kv_cost import Roofline
from labkit.memgpt_demos import conversation_demo
from labkit.memgpt_recall import RecallSettings, recall_curve
from labkit.memgpt_serving import LAYOUTS, ServeSettings, gpu_seconds, serve_session
from labkit.memgpt_session import even_session
from labkit.memgpt_view import Snapshot

MODEL, GPU = "Llama-3-8B", "H100 SXM"  # whose seconds are counted

# --- the main context, call by call -------------------------------------------------------------

PARTS = ("system", "working", "summary", "messages")


@dataclass(frozen=True, repr=False)
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

    def __repr__(self):
        row = self.row
        return (f"MainContext, call {self.step} of {len(self.trace)}: {row['prompt']} tokens, {row['prefill']} of them computed "
                f"({row['cause']}); all calls in .trace, the prompt in .snapshot")


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
    checks.whole("main_context: step", step, 1)
    checks.whole("main_context: window", window, 1)
    for name, share in (("warn", warn), ("evict", evict)):
        checks.share(f"main_context: {name}", share)
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


@dataclass(frozen=True, repr=False)
class RecallStudy:
    """Accuracy and its standard error: DataFrames, a row a number of sessions, a column a system."""

    accuracy: pd.DataFrame
    error: pd.DataFrame
    sessions: int
    dialogues: int

    def __repr__(self):
        right = ", ".join(f"{name} {share:.3f}" for name, share in self.accuracy.loc[self.sessions].items())
        return f"RecallStudy, right after {self.sessions} sessions: {right} (all lengths in .accuracy, .error)"


def recall_curves(
    sessions=10, window=40, core=8, archive=0.60, archive_warned=0.95, recall=0.0, dialogues=400, without_warning=True
):
    """`memgpt.recall_study` at all lengths of `SESSIONS`, the same dialogues throughout.

    Parameters
    ----------
    sessions : one of SESSIONS, the length that the table shows.
    window : messages.
    core : facts in core memory.
    archive, archive_warned : chance that a fact is saved, without and with a memory-pressure warning.
    recall : chance that recall storage answers where the archive gives nothing; 0 = there is none.
    dialogues : how many dialogues are averaged.
    without_warning : False leaves out the agent that gets no warning.
    """
    if np.ndim(sessions) or sessions not in SESSIONS:
        raise ValueError(f"sessions={sessions!r} must be one of {', '.join(map(str, SESSIONS))}")
    settings = RecallSettings(window=window, core=core, archive=archive, archive_warned=archive_warned, recall=recall)
    curve = recall_curve(settings, SESSIONS, dialogues)
    checks.flag("without_warning", without_warning)
    if not without_warning:
        curve = curve[curve["system"] != "memgpt_no_warning"]
    wide = curve.pivot(index="sessions", columns="system")[["accuracy", "standard_error"]]
    return RecallStudy(wide["accuracy"], wide["standard_error"], sessions, dialogues)


# --- prefill by cause ---------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class PrefillStudy:
    """One session served in one layout, or in all to compare.

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

    def __repr__(self):
        said = "; ".join(f"layout {name} {each.prefill_tokens:,} tokens, {self.seconds[name]:.2f} s" for name, each in self.results.items())
        return f"PrefillStudy: {said} (by cause in .chosen.prefill, call by call in .chosen.calls_table)"


_even = lru_cache(maxsize=32)(even_session)


def prefill_by_cause(
    window=8_000, evict=0.50, p_save=0.50, layout="front", warn=0.70, credit_output=False, compare=False
):
    """Prefill of the even session by cause; see `memgpt.serve_session`.

    Parameters
    ----------
    window : tokens.
    evict, warn : shares of the window; warn = 1.0 never warns.
    p_save : chance that a fact is saved at once by an edit of the working context.
    layout : front, end or append.
    credit_output : whether generated tokens are in the cache too.
    compare : serve the other layouts too.
    """
    if layout not in tuple(LAYOUTS):
        raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}; got {layout!r}")
    checks.flag("compare", compare)
    checks.share("prefill_by_cause: p_save", p_save)
    roofline, session = Roofline(MODEL, GPU), _even(p_save=p_save)
    results = {
        name: serve_session(session, ServeSettings(window, warn, evict, layout=name, credit_output=credit_output))
        for name in LAYOUTS
        if compare or name == layout
    }
    seconds, uncached = (
        {name: float(gpu_seconds(result, roofline, cache).sum()) for name, result in results.items()}
        for cache in (True, False)
    )
    return PrefillStudy(results, seconds, uncached, layout, window)
