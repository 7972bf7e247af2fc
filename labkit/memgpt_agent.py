"""A virtual context that runs: the prompt as memory, storages as disk, the model as its own pager.

    prompt = system instructions | working context | recursive summary | messages, first in first out

Events (a user's message, a timer) make the model run; it answers with one function call, which is
checked, executed, and its result appended to the queue. A heartbeat runs the model again at once.
Before every call the queue manager looks: above `warn` of the window it appends a memory-pressure
warning, above the window it evicts the oldest messages and renews the summary (MemGPT section 2,
L14 section 2.1, L11 section 2.3).

The model is any callable ``policy(view) -> Call``:

>>> def policy(view):
...     if view.event.startswith("Remember: ") and view.last is None:
...         fact = view.event.removeprefix("Remember: ")
...         return Call("core_memory_append", label="human", content=fact, request_heartbeat=True)
...     return Call("send_message", message="I know: " + view.blocks["human"])
>>> agent = Agent(policy)
>>> agent.user("Remember: no dairy")
['I know: no dairy']

A real model can stand there too: send it `view.prompt` with the tools `view.functions`, and return
its function call, as ``{"name": ..., "arguments": {...}}`` or as JSON text.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass
from types import MappingProxyType

import pandas as pd

from labkit import checks
from labkit.memgpt_functions import FUNCTIONS, Call, CallError, Memory, Result, execute, words_found
from labkit.memgpt_serving import CAUSES
from labkit.memgpt_view import EVENTS, SPOKEN, Message, Segment, Snapshot, View
from labkit.prefix_cache import SessionCache

INSTRUCTIONS = (
    "You talk with a user over a long time. This prompt is small: old messages leave it. Keep key facts in your"
    " working context, the rest in archival storage; search it, and the conversation, for what you no longer see."
    " Answer with one function call. request_heartbeat=True runs you again at once.\n"
) + "\n".join(f"{name}({', '.join(f.parameters)}): {f.about}" for name, f in FUNCTIONS.items())

WARNING = "Memory pressure: the oldest messages will soon leave the prompt. Save what matters."

END = 0  # any token id: stands for the token that ends a message


def tokenize(text):
    """Pieces of a word of up to four characters, and single signs: a rule of thumb, not a model's tokens."""
    return re.findall(r"\w{1,4}|[^\w\s]", text)


def first_sentences(old, evicted, limit):
    """Recursive summary: the old one plus the first sentence of each spoken message, newest kept.

    Lossy on purpose, and each eviction loses more. Any ``summarise(old, evicted, limit) -> text`` may
    stand in: old summary, evicted messages (oldest first), limit in tokens.
    """
    spoken = [f"{m.kind}: " + re.split(r"(?<=[.!?])\s", m.text)[0] for m in evicted if m.kind in SPOKEN]
    kept = []
    for line in reversed(old.splitlines() + spoken):
        limit -= len(tokenize(line))
        if kept and limit < 0:
            break
        kept.append(line)
    return "\n".join(reversed(kept))


# --- settings -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """Where the working context stands, and what an edit does to the prompt."""

    last: bool = False  # it follows the messages instead of the instructions
    notes: bool = False  # it is a snapshot, renewed at evictions; an edit appends a note instead

    def charge(self, miss, working, edited, evicted):
        """The cause of a call's misses (what first differs), and the misses by cause, in tokens."""
        if edited and not self.last and not self.notes:
            return "edit", {"edit": miss}
        if evicted:
            return "evict", {"evict": miss}
        if self.last:
            moved = min(working, miss)
            return "moved", {"moved": moved, "new": miss - moved}
        return "new", {"new": miss}


AGENT_LAYOUTS = {"front": Layout(), "end": Layout(last=True), "append": Layout(notes=True)}


@dataclass(frozen=True)
class AgentSettings:
    """Sizes in tokens, thresholds as shares of the window."""

    window: int = 8_000  # the context window of the paper's GPT-4
    warn: float = 0.70  # memory pressure: warn above this share (the paper's 70 %); 1.0 = never
    evict: float = 0.50  # an eviction empties the window to 1 - evict (the paper's 50 %)
    summary: int = 300  # the recursive summary is cut to this
    page_size: int = 5  # results a page (MemGPT's code)
    max_calls: int = 20  # calls for one event; then the run ends, so no policy can loop for ever
    layout: str = "front"  # where the working context stands: a key of AGENT_LAYOUTS
    credit_output: bool = False  # generated tokens are in the cache too

    def __post_init__(self):
        for name in ("window", "page_size", "max_calls"):
            checks.whole(f"AgentSettings: {name}", getattr(self, name), 1)
        checks.whole("AgentSettings: summary", self.summary, 0)
        for name in ("warn", "evict"):
            checks.share(f"AgentSettings: {name}", getattr(self, name))
        if self.layout not in tuple(AGENT_LAYOUTS):
            raise ValueError(f"AgentSettings: layout must be one of {', '.join(AGENT_LAYOUTS)}; got {self.layout!r}")
        checks.flag("AgentSettings: credit_output", self.credit_output)


# --- the agent ----------------------------------------------------------------------------------

TRACE = ("turn", "event", "function", "ok", "prompt", "cached", "prefill", "cause", *CAUSES, "warned", "evicted")


class Agent:
    """An agent with a virtual context; `policy` plays the model.

    Parameters
    ----------
    policy : callable
        ``policy(view) -> Call`` (or what `Call.parse` reads). An exception of its own is not caught.
    settings : AgentSettings
    blocks : dict of str to str or Block
        The working context; default: two empty blocks, persona and human.
    instructions : str
        The read-only system instructions.
    summarise : callable
        ``summarise(old, evicted, limit) -> str``; what is longer than the limit is cut.
    tokenize : callable
        ``tokenize(text) -> sequence of tokens`` (hashable), for instance a real tokenizer's encode.
    score : callable
        ``score(query, text) -> number``: how well a stored text matches; 0 = not at all.
    cache : object
        A prefix cache (`labkit.prefix_cache`); default `SessionCache`, which holds the previous prompt.

    Attributes
    ----------
    memory : Memory
        `blocks`, `archival` and `recall` (all messages ever).
    queue : list of Message
    summary : str
    history : list of Snapshot
        The main context at each call; row i of `trace` tells what call i did.

    Raises
    ------
    ValueError
        From `user` and `timer`, naming the turn, if an eviction cannot bring the prompt into the
        window: a message, the working context or the summary is too large for it.
    """

    def __init__(
        self,
        policy,
        settings=AgentSettings(),
        blocks=None,
        instructions=INSTRUCTIONS,
        summarise=first_sentences,
        tokenize=tokenize,
        score=words_found,
        cache=None,
    ):
        if not isinstance(settings, AgentSettings):
            raise ValueError(f"Agent: settings must be AgentSettings(...); got {settings!r}")
        if not callable(policy):
            raise ValueError(f"Agent: policy must be a function of a View that gives a Call; got {policy!r}")
        self.policy, self.settings, self.layout = policy, settings, AGENT_LAYOUTS[settings.layout]
        self.summarise, self.tokenize = summarise, tokenize
        self.cache = SessionCache() if cache is None else cache
        self.memory = Memory({"persona": "", "human": ""} if blocks is None else blocks, settings.page_size, score)
        self.queue, self.history = [], []
        self._rows, self._turn = [], -1
        self._ids = {}  # a number for each different token: what the cache compares
        self._armed = True  # no warning yet since the last eviction
        # Parts of the prompt, each as text and tokens:
        self._system = (instructions, self._tokens("system", instructions))
        self._working = self._written()  # in layout append a snapshot
        self._summary = ("", ())
        self._previous = None  # tokens of the working context in the previous prompt

    # what happens outside

    def user(self, text):
        """Hand over a user's message; returns the list of replies."""
        return self._handle("user", text)

    def timer(self, text="A timer went off."):
        """Let a timer run the model; returns the list of messages to the user."""
        return self._handle("timer", text)

    # what it did

    @property
    def summary(self):
        """The recursive summary; "" before the first eviction."""
        return self._summary[0]

    @property
    def trace(self):
        """DataFrame, a row a call.

        turn, event (user message, timer, heartbeat or error, + memory pressure if a warning came just
        before), function, ok, prompt, cached, prefill (tokens), cause (what first differs from the
        previous prompt), the prefill by cause (new, edit, evict, moved), warned, evicted (messages).
        """
        return pd.DataFrame(self._rows, columns=list(TRACE))

    @property
    def prefill(self):
        """Prefill tokens by cause: a dict new, edit, evict, moved."""
        return {cause: sum(row[cause] for row in self._rows) for cause in CAUSES}

    def render(self):
        """The prompt as it stands now; ``history[i].render()`` is that of call i."""
        return Snapshot(tuple(Segment(kind, text, len(tokens)) for kind, text, tokens in self._parts())).render()

    # the loop

    def _handle(self, kind, text):
        if not isinstance(text, str) or not text:
            raise ValueError(f"an event is a text that is not empty; got {text!r}")
        self._turn += 1
        self._append(kind, text)
        replies, done, last, warnings, why = [], [], None, 0, EVENTS[kind]
        while len(done) < self.settings.max_calls:
            warned, evicted = self._manage_queue()
            warnings += warned
            snapshot, request, row = self._send(evicted)
            view = View(
                event=text,
                event_kind=kind,
                turn=self._turn,
                done=tuple(done),
                last=last,
                blocks=MappingProxyType({label: block.value for label, block in self.memory.blocks.items()}),
                messages=tuple(self.queue),
                summary=self.summary,
                warned=warned,
                warnings=warnings,
                window=self.settings.window,
                snapshot=snapshot,
            )
            try:
                output = self.policy(view)
            except BaseException:
                self.cache.finish(request)  # or a cache with a limit would hold this prompt for ever
                raise
            call, last, written = self._execute(output)
            # The last generated token has no KV yet: the one that ends the message, which no prompt repeats.
            self.cache.finish(request, (*written.tokens, END) if self.settings.credit_output else ())
            event = f"{why} + memory pressure" if warned else why
            row |= dict(turn=self._turn, event=event, function=call.function, ok=last.ok)
            self._rows.append(row | dict(warned=warned, evicted=evicted))
            self.history.append(snapshot)
            done.append(call)
            if last.kind == "reply":
                replies.append(last.text)
            if last.ok and not call.request_heartbeat:
                return replies
            why = "heartbeat" if last.ok else "error"
        self._append("error", f"run ended: {self.settings.max_calls} calls for one event are the limit")
        return replies

    def _send(self, evicted):
        """Look the prompt up in the cache: the snapshot, the open request, and the prefill by cause."""
        parts = self._parts()
        prompt = [token for _, _, tokens in parts for token in tokens]
        request = self.cache.start(prompt)
        working = self._working[1]
        if self._rows:
            edited = working != self._previous
            cause, prefill = self.layout.charge(request.miss, len(working), edited, evicted > 0)
        else:
            cause, prefill = "new", {"new": request.miss}
        self._previous = working
        segments, left = [], request.hit
        for kind, text, tokens in parts:
            cached = min(left, len(tokens))
            segments.append(Segment(kind, text, len(tokens), cached))
            left -= cached
        row = dict(prompt=len(prompt), cached=request.hit, prefill=request.miss, cause=cause)
        return Snapshot(tuple(segments)), request, dict.fromkeys(CAUSES, 0) | prefill | row

    def _execute(self, output):
        """Run what the policy gave; append the call, its result, in layout append also an edit's note."""
        try:
            call = Call.parse(output)
        except CallError as error:
            call, result = Call("unreadable", output=repr(output)[:200]), Result("error", f"Error: {error}")
        else:
            try:
                result = execute(call, self.memory)
            except CallError as error:
                result = Result("error", f"Error: {error}")
        if result.kind == "reply":
            return call, result, self._append("reply", result.text)
        written = self._append("call", repr(call))
        self._append(result.kind, result.text)
        if result.ok and FUNCTIONS[call.function].edits:
            if self.layout.notes:
                self._append("note", f"Since the working context above was written: {call}")
            else:
                self._working = self._written()
        return call, result, written

    # the queue manager

    def _manage_queue(self):
        """Before every call: warn, then evict. Returns (warned, number of messages evicted)."""
        s, size = self.settings, self._size()
        warned = self._armed and s.warn * s.window < size <= s.window
        if warned:
            self._armed = False
            self._append("warning", WARNING)
        return warned, self._evict() if self._size() > s.window else 0

    def _evict(self):
        """Drop the oldest messages, keep at least one, then renew the summary; all or nothing."""
        s, working = self.settings, self._written()
        size = self._size() + len(working[1]) - len(self._working[1])  # still with the old summary
        dropped = 0
        while dropped < len(self.queue) - 1 and (not dropped or size > (1 - s.evict) * s.window):
            size -= len(self.queue[dropped].tokens)
            dropped += 1
        summary = self._cut(self.summarise(self._summary[0], tuple(self.queue[:dropped]), s.summary))
        size += len(summary[1]) - len(self._summary[1])
        if not dropped or size > s.window:
            raise ValueError(
                f"turn {self._turn} (counted from 0): the prompt does not fit. The window holds {s.window} tokens;"
                f" after evicting {dropped} message(s) there would be {size}: system {len(self._system[1])}, working"
                f" context {len(working[1])}, summary {len(summary[1])}, and {len(self.queue) - dropped} message(s)"
            )
        del self.queue[:dropped]
        self._working, self._summary, self._armed = working, summary, True
        return dropped

    def _cut(self, text):
        """A summary and its tokens, cut after the last word that fits."""
        if not isinstance(text, str):
            raise TypeError(f"summarise must return text; got {type(text).__name__}")
        tokens = self._tokens("summary", text)
        if len(tokens) > self.settings.summary:
            ends = [0, *(word.end() for word in re.finditer(r"\S+", text))]
            fit = bisect_right(ends, self.settings.summary, key=lambda end: len(self._tokens("summary", text[:end])))
            text = text[: ends[fit - 1]]
            tokens = self._tokens("summary", text)
        return text, tokens

    def _append(self, kind, text):
        message = Message(kind, text, self._tokens(kind, text))
        self.queue.append(message)
        self.memory.recall.insert(f"{kind}: {text}", searched=kind in SPOKEN)
        return message

    # the prompt

    def _tokens(self, kind, text):
        """Token ids of a part as the prompt has it; an empty text has none and does not appear."""
        pieces = self.tokenize(f"[{kind}] {text}") if text else ()
        return tuple(self._ids.setdefault(piece, len(self._ids)) for piece in pieces)

    def _written(self):
        """The working context as it is now: text and tokens."""
        text = self.memory.render()
        return text, self._tokens("working", text)

    def _parts(self):
        """The prompt as (kind, text, tokens), in the order of the layout."""
        working = [("working", *self._working)]
        queue = [("summary", *self._summary)] if self._summary[1] else []
        queue += [(m.kind, m.text, m.tokens) for m in self.queue]
        return [("system", *self._system), *(queue + working if self.layout.last else working + queue)]

    def _size(self):
        """Prompt tokens as things stand."""
        fixed = len(self._system[1]) + len(self._working[1]) + len(self._summary[1])
        return fixed + sum(len(message.tokens) for message in self.queue)
