"""What paging costs the server: one MemGPT session behind a prefix cache (L14 section 2.3).

Every call sends the whole main context, so nearly all of it is in the cache already. What is
not must be prefilled again, and here every such token is charged to its cause:

    prefill = new + edit + evict + moved = prompt tokens - hits

What stands where in the prompt decides what an edit or an eviction breaks: see `LAYOUTS`.
"""

from collections import deque
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from labkit import checks
from labkit.memgpt_session import check_session
from labkit.memgpt_session import even_session, load_session, random_session, save_session  # noqa: F401

CAUSES = ("new", "edit", "evict", "moved")


# --- the prompt: where its parts stand, and so where the cache breaks ---------------------------


@dataclass
class Since:
    """What happened between the previous prompt of the session and the one to be sent."""

    sent: int  # tokens of the previous prompt
    generated: int  # tokens generated after it that the cache also holds (0 unless credited)
    edited: bool  # the working context was edited since the previous prompt
    stale: bool  # ... or since the last eviction
    evicted: bool  # the queue manager evicted just now


class Front:
    """system | working context | summary | messages: the paper's order."""

    notes = False

    def reuse(self, s, since):
        """Tokens that still hit, and what broke the prefix after them."""
        if since.edited:
            return s.system, "edit"
        if since.evicted:
            return s.system + s.working, "evict"
        return since.sent + since.generated, "new"

    def charge(self, s, cause, tokens):
        """Recomputed tokens by cause: all to the first thing that differs."""
        return {cause: tokens}


class End(Front):
    """system | summary | messages | working context: each new message pushes the latter on."""

    def reuse(self, s, since):
        if since.evicted:
            return s.system, "evict"
        return since.sent - s.working, "moved"

    def charge(self, s, cause, tokens):
        if cause == "moved":
            return {"moved": s.working, "new": tokens - s.working}
        return {cause: tokens}


class Append(Front):
    """As front, but the working context is a snapshot: an edit only appends a note to the queue.

    The snapshot is renewed when an eviction breaks the prefix anyway, if it is stale by then.
    """

    notes = True

    def reuse(self, s, since):
        if since.evicted:
            return s.system + (0 if since.stale else s.working), "evict"
        return since.sent + since.generated, "new"


LAYOUTS = {"front": Front(), "end": End(), "append": Append()}


# --- settings and result ------------------------------------------------------------------------


@dataclass(frozen=True)
class ServeSettings:
    """Sizes in tokens, thresholds as shares of the window."""

    window: int = 8_000  # the context window of the paper's GPT-4
    warn: float = 0.70  # memory pressure: warn above this share (the paper's 70 %); 1.0 = never
    evict: float = 0.50  # an eviction empties the window to 1 - evict (the paper's 50 %)
    system: int = 1_000  # read-only instructions and the functions' descriptions
    working: int = 700  # the working context, held at a fixed size
    summary: int = 300  # the recursive summary; there is none before the first eviction
    call: int = 30  # one function call written by the model
    result: int = 10  # "OK": what an edit returns
    warning: int = 30  # the memory-pressure message
    note: int = 30  # layout append: the message that stands for an edit
    layout: str = "front"  # where the working context stands: a key of LAYOUTS
    credit_output: bool = False  # generated tokens are in the cache too, as real engines keep them

    def __post_init__(self):
        for name in ("window", "working"):
            checks.whole(f"ServeSettings: {name}", getattr(self, name), 1)
        for name in ("system", "summary", "call", "result", "warning", "note"):
            checks.whole(f"ServeSettings: {name}", getattr(self, name), 0)
        for name in ("window", "working", "system", "summary", "call", "result", "warning", "note"):
            object.__setattr__(self, name, int(getattr(self, name)))  # numpy's small integers would overflow
        for name in ("warn", "evict"):
            checks.share(f"ServeSettings: {name}", getattr(self, name))
        if self.layout not in tuple(LAYOUTS):
            raise ValueError(f"ServeSettings: layout must be one of {', '.join(LAYOUTS)}; got {self.layout!r}")
        checks.flag("ServeSettings: credit_output", self.credit_output)


@dataclass(frozen=True)
class ServeResult:
    """What one session asked of the server.

    Attributes
    ----------
    calls, evictions, edits, searches, warnings : int
        `edits` counts saves and answers to warnings.
    prompt_tokens : int
        Tokens of all prompts: the prefill without a cache.
    prefill : dict
        Tokens computed, by cause: new, edit, evict, moved.
    calls_table : DataFrame
        A row a call: turn (from 0), prompt, hit, prefill (tokens), cause. The cause is what broke
        the prefix; in layout end "moved" stands for both the moved and the new tokens of a call.
    """

    calls: int
    evictions: int
    edits: int
    searches: int
    warnings: int
    prompt_tokens: int
    prefill: dict
    calls_table: pd.DataFrame = field(repr=False, compare=False)

    @property
    def prefill_tokens(self):
        """Tokens computed = prompt tokens - hits."""
        return sum(self.prefill.values())

    @property
    def saved(self):
        """Share of the prompt tokens that came from the cache = 1 - prefill / prompt tokens."""
        return 1 - self.prefill_tokens / self.prompt_tokens if self.calls else 0.0

    @property
    def mean_prompt(self):
        """Mean tokens a prompt: how much the model sees when it is called."""
        return self.prompt_tokens / self.calls if self.calls else 0.0


# --- the server ---------------------------------------------------------------------------------


class _Server:
    """The main context of one session, its queue manager and its prefix cache, in token counts."""

    def __init__(self, settings):
        if not isinstance(settings, ServeSettings):
            raise ValueError(f"serve_session: settings must be ServeSettings(...); got {settings!r}")
        self.settings = settings
        self.layout = LAYOUTS[settings.layout]
        self.queue = deque()  # tokens of each message, oldest first
        self.prompt = settings.system + settings.working
        self.summary = 0
        self.warned = False  # since the last eviction
        self.since = Since(sent=0, generated=0, edited=False, stale=False, evicted=False)
        self.evictions = self.edits = self.searches = self.warnings = 0
        self.prefill = dict.fromkeys(CAUSES, 0)
        self.rows = []

    def serve(self, turn, entry):
        """One turn: the user's message, the search, the save, the answer to a warning, the reply."""
        warnings = self.warnings
        self.append(int(entry["user"]))
        self.call(turn)
        if entry["hits"]:
            self.searches += 1
            self.generate(self.settings.call)
            self.append(int(entry["hits"]))
            self.call(turn)
        if entry["save"]:
            self.edit(turn)
        if self.warnings > warnings:  # a warning that this edit's own call raises stays unanswered
            self.edit(turn)
        self.generate(int(entry["reply"]))

    def edit(self, turn):
        """Change the working context by a function call, and call again (heartbeat)."""
        self.edits += 1
        self.since.edited = self.since.stale = True
        self.generate(self.settings.call)
        self.append(self.settings.result)
        if self.layout.notes:
            self.append(self.settings.note)
        self.call(turn)

    def append(self, tokens):
        self.queue.append(tokens)
        self.prompt += tokens

    def generate(self, tokens):
        """Append what the model wrote: right behind the prompt that it was generated from."""
        self.append(tokens)
        if self.settings.credit_output:
            self.since.generated = tokens

    def call(self, turn):
        """Let the queue manager look, send the prompt, charge what the cache does not hold."""
        self.manage_queue(turn)
        s, since = self.settings, self.since
        hit, cause = self.layout.reuse(s, since) if self.rows else (0, "new")
        for part, tokens in self.layout.charge(s, cause, self.prompt - hit).items():
            self.prefill[part] += tokens
        self.rows.append((turn, self.prompt, hit, self.prompt - hit, cause))
        stale = since.stale and not since.evicted
        self.since = Since(sent=self.prompt, generated=0, edited=False, stale=stale, evicted=False)

    def manage_queue(self, turn):
        """Warn above warn x window; above the window evict down to (1 - evict) x window."""
        s = self.settings
        if not self.warned and s.warn * s.window < self.prompt <= s.window:
            self.append(s.warning)
            self.warned = True
            self.warnings += 1
        if self.prompt <= s.window:
            return
        while self.prompt > (1 - s.evict) * s.window and len(self.queue) > 1:
            self.prompt -= self.queue.popleft()
        self.prompt += s.summary - self.summary  # the new summary replaces the old one
        self.summary = s.summary
        self.warned = False
        self.evictions += 1
        self.since.evicted = True
        if self.prompt > s.window:
            what = "one message alone" if len(self.queue) == 1 else "with the new summary the queue"
            raise ValueError(
                f"turn {turn} (counted from 0): {what} does not fit: system, working context, summary and"
                f" {len(self.queue)} message(s) are {self.prompt} tokens, the window holds {s.window}"
            )


def serve_session(session, settings=ServeSettings()):
    """Serve every call of a session behind a cache of the session's previous prompt.

    Before each call the queue manager may warn, then may evict the oldest whole messages. A hit is
    the longest common prefix with the previous prompt; all recomputed tokens of a call go to the
    first thing that differs (an edit, an eviction, else new messages). The first call is all new.

    Parameters
    ----------
    session : list of dict
        One entry a turn: user, reply (tokens), save (bool), hits (tokens; 0 = no search).
    settings : ServeSettings

    Returns
    -------
    ServeResult

    Raises
    ------
    ValueError
        If an entry is malformed (names its number and field), or an eviction cannot bring the
        prompt into the window (names the turn).

    Notes
    -----
    The mechanism is MemGPT section 2.2; the server's view of it L14 section 2.3.
    """
    check_session(session)
    server = _Server(settings)
    for turn, entry in enumerate(session):
        server.serve(turn, entry)
    table = pd.DataFrame(server.rows, columns=["turn", "prompt", "hit", "prefill", "cause"])
    return ServeResult(
        calls=len(table),
        evictions=server.evictions,
        edits=server.edits,
        searches=server.searches,
        warnings=server.warnings,
        prompt_tokens=int(table["prompt"].sum()),
        prefill=server.prefill,
        calls_table=table,
    )


def gpu_seconds(result, roofline, cache=True):
    """GPU seconds of prefill, call by call: ``roofline.prefill_seconds(prefill, cached=hit)``.

    Parameters
    ----------
    result : ServeResult
    roofline : labkit.kv_cost.Roofline
    cache : bool
        False: every prompt is computed from its first token, as without a prefix cache.

    Returns
    -------
    ndarray, shape (calls,)
        Seconds; ``.sum()`` is the session, and the rows are those of ``result.calls_table``.
    """
    prompt, miss = result.calls_table["prompt"].to_numpy(), result.calls_table["prefill"].to_numpy()
    new = np.maximum(miss, 1) if cache else prompt  # an engine computes at least the last token
    return roofline.prefill_seconds(new, cached=prompt - new)
