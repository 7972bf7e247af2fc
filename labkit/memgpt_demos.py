"""The virtual context at work: four demonstrations, and the agent behind the serving study.

Each returns plain numbers in a frozen dataclass, with the agents that ran (`trace`, `history`).
"""

from dataclasses import dataclass, field
from math import log
from uuid import UUID

import numpy as np
import pandas as pd

from labkit import checks
from labkit.memgpt_agent import Agent, AgentSettings
from labkit.memgpt_functions import Block, Call
from labkit.memgpt_serving import ServeResult, ServeSettings
from labkit.memgpt_session import check_session

# --- one edit -----------------------------------------------------------------------------------

BOYFRIEND, EX = "Boyfriend named James", "Ex-boyfriend named James"


def james_policy(view):
    """Correct the working context when the user's message contradicts it, then answer."""
    if "broke up with James" in view.event and BOYFRIEND in view.blocks["human"]:
        edit = dict(label="human", old_content=BOYFRIEND, new_content=EX)
        return Call("core_memory_replace", request_heartbeat=True, **edit)
    return Call("send_message", message="I am sorry to hear that. How are you?")


@dataclass(frozen=True)
class JamesEdit:
    """The block before and after, the reply, and the agent that ran."""

    before: str
    after: str
    reply: str
    agent: Agent = field(repr=False)


def james_edit(settings=AgentSettings()):
    """A fact changes: "I broke up with James" becomes one `core_memory_replace` (MemGPT Fig. 4).

    Returns
    -------
    JamesEdit
    """
    before = f"Name: Chad\n{BOYFRIEND}"
    agent = Agent(james_policy, settings, blocks={"human": before})
    reply, *_ = agent.user("I broke up with James last week.")
    return JamesEdit(before, agent.memory.blocks["human"].value, reply, agent)


# --- a conversation to step through -------------------------------------------------------------

TALK = (
    "My name is Mei.",
    "What a day! The train stood still for an hour, and then it rained on the way home.",
    "I am allergic to peanuts.",
    "I read a long article about the history of paging. The idea is older than I thought.",
    "My sister lives in Lyon.",
    "What did I say about peanuts?",
    "I moved to Zurich.",
    "Work was slow today; two meetings were cancelled and nobody knew why.",
    "I have a cat named Momo.",
    "The museum was crowded. We left early and had soup instead.",
    "Where does my sister live?",
    "I started to learn the cello.",
)
FACTS = ("My ", "I am ", "I have ", "I moved ")


def note_taking_policy(view):
    """Save facts, in the archive if the block is full; under pressure archive the oldest message; search."""
    if view.last and not view.last.ok:
        return Call("archival_memory_insert", content=view.event, request_heartbeat=True)
    if view.warned:
        return Call("archival_memory_insert", content=view.messages[0].text, request_heartbeat=True)
    if view.event.startswith(FACTS) and view.event not in view.blocks["human"] and view.last is None:
        return Call("core_memory_append", label="human", content=view.event, request_heartbeat=True)
    if view.event.endswith("?") and (view.last is None or view.last.kind != "search"):
        return Call("conversation_search", query=view.event.split()[-1].strip("?"), request_heartbeat=True)
    return Call("send_message", message="I see. " + (view.last.text if view.last else "Tell me more."))


def conversation_demo(window=900, warn=0.70, evict=0.50, turns=24, layout="front"):
    """A short conversation in a small window: edits, a full block, searches, warnings, evictions.

    Parameters
    ----------
    window : int
        Tokens; the instructions take about 250, and 700 is about the least that always works.
    warn, evict : float
        Shares of the window.
    turns : int
        User messages (the same dozen over and over).
    layout : str
        front, end or append.

    Returns
    -------
    Agent
        Its `history` and `trace` have one entry a call.
    """
    checks.whole("conversation_demo: turns", turns, 1)
    settings = AgentSettings(window=window, warn=warn, evict=evict, layout=layout, summary=80, page_size=2)
    agent = Agent(note_taking_policy, settings, blocks={"human": Block(limit=100)})
    for turn in range(turns):
        agent.user(TALK[turn % len(TALK)])
    return agent


# --- nested key-value lookup --------------------------------------------------------------------

PAIRS, LEVELS = 140, 5  # the paper's task: 140 pairs, nesting levels 0 to 4


def _nested_pairs(rng):
    """One chain a level: {level: (first key, answer)}, and all pairs in random order.

    At level n a key's value is itself a key, n times: n + 1 look-ups lead to the answer.
    """
    ids = [str(UUID(bytes=rng.bytes(16), version=4)) for _ in range(2 * PAIRS)]
    pairs, chains = [], {}
    for level in range(LEVELS):
        chain = [ids.pop() for _ in range(level + 2)]
        pairs += zip(chain, chain[1:])
        chains[level] = (chain[0], chain[-1])
    while len(pairs) < PAIRS:
        pairs.append((ids.pop(), ids.pop()))
    return chains, [pairs[i] for i in rng.permutation(PAIRS)]


class FixedContext:
    """All pairs are in the prompt; every hop in one call, each right if its draw is below p."""

    def __init__(self, p, draws):
        self.p, self.draws = p, draws

    def __call__(self, view):
        pairs = dict(line.split(": ") for line in view.event.splitlines()[1:])
        key, values = view.event.splitlines()[0].split()[-1], list(pairs.values())
        for draw in self.draws:
            if key not in pairs:
                break
            # A miss lands on the value of a neighbouring pair, as a reader who slips a line does.
            key = pairs[key] if draw < self.p else values[values.index(pairs[key]) - 1]
        return Call("send_message", message=key)


def follow_the_keys(view):
    """One look-up a call; the answer is the value under which nothing more is stored."""
    key = view.event.split()[-1]
    if view.last is None:
        return Call("archival_memory_search", query=key, request_heartbeat=True)
    asked = view.done[-1].arguments["query"]
    value = dict(item.split(": ") for item in view.last.items).get(asked)
    if value is None:
        return Call("send_message", message=asked)
    return Call("archival_memory_search", query=value, request_heartbeat=True)


@dataclass(frozen=True, repr=False)
class NestedLookup:
    """Accuracy and calls by nesting level, and the agents that ran.

    Attributes
    ----------
    table : DataFrame, index level (0 to 4)
        lookups (level + 1), fixed (share of trials right), fixed_exact (p ** lookups), fixed_calls,
        heartbeat (share right), heartbeat_calls: each look-up, one search that finds nothing more
        under the last value, one answer.
    fixed, heartbeat : dict of int to Agent
        One agent a level.
    """

    table: pd.DataFrame
    fixed: dict
    heartbeat: dict

    def __repr__(self):
        fixed, heartbeat = (", ".join(f"{share:.0%}" for share in self.table[column]) for column in ("fixed_exact", "heartbeat"))
        return f"NestedLookup, levels 0 to {LEVELS - 1}: in one call {fixed}; one hop a call {heartbeat} (in .table; agents in .fixed, .heartbeat)"


def _generator(owner, seed):
    if not isinstance(seed, np.random.Generator):
        checks.whole(f"{owner}: seed", seed, 0)
    return np.random.default_rng(seed)


def nested_lookup(p=0.8, trials=1_000, seed=0):
    """Nested key-value lookup: 140 pairs of UUIDs, nesting levels 0 to 4 (MemGPT section 3.2.2).

    accuracy of a fixed context = p ** (level + 1): all hops unaided in one call. An agent with
    heartbeats makes one look-up a call and needs no luck. Level 0 is one plain look-up.

    Parameters
    ----------
    p : float
        Probability that the fixed-context reader makes one hop right. Hops are independent here; the
        paper's models fall faster.
    trials : int
        Trials of the fixed context; the draws of all hops are made once, whatever p is.
    seed : int or Generator

    Returns
    -------
    NestedLookup
    """
    checks.share("nested_lookup: p", p)
    checks.whole("nested_lookup: trials", trials, 1)
    rng = _generator("nested_lookup", seed)
    chains, pairs = _nested_pairs(rng)
    draws = rng.random((trials, LEVELS))
    lines = [f"{key}: {value}" for key, value in pairs]
    rows, fixed, heartbeat = [], {}, {}
    for level, (key, answer) in chains.items():
        fixed[level] = Agent(FixedContext(p, draws[0]))
        fixed[level].user("\n".join([f"Follow the keys from {key}", *lines]))
        heartbeat[level] = agent = Agent(follow_the_keys)
        for line in lines:
            agent.memory.archival.insert(line)
        reply, *_ = agent.user(f"Follow the keys from {key}")
        right = (draws[:, : level + 1] < p).all(axis=1).mean()
        rows.append((level, level + 1, right, p ** (level + 1), 1, float(reply == answer), len(agent.history)))
    columns = ["level", "lookups", "fixed", "fixed_exact", "fixed_calls", "heartbeat", "heartbeat_calls"]
    return NestedLookup(pd.DataFrame(rows, columns=columns).set_index("level"), fixed, heartbeat)


# --- paged results, and giving up ---------------------------------------------------------------


class ReadPages:
    """Search, then turn pages until the answer is seen or `patience` pages are read."""

    def __init__(self, patience):
        self.patience = patience

    def __call__(self, view):
        topic = view.event.split()[-1].strip("?")
        if view.last is None:
            return Call("archival_memory_search", query=topic, request_heartbeat=True)
        seen = [item for item in view.last.items if "answer" in item]
        if seen:
            return Call("send_message", message=seen[0])
        page = view.last.page + 1
        if page == min(self.patience, view.last.pages):
            return Call("send_message", message="I could not find it.")
        return Call("archival_memory_search", query=topic, page=page, request_heartbeat=True)


@dataclass(frozen=True)
class PagedSearch:
    """Accuracy against the pages a policy is willing to read.

    Attributes
    ----------
    table : DataFrame, index patience (pages)
        accuracy, exact (expected over all questions), calls and prompt_tokens (means a question).
    agents : dict of int to Agent
        One agent a patience, which answered all questions.
    """

    table: pd.DataFrame
    agents: dict = field(repr=False)


def paged_search(questions=20, documents=50, page_size=5, patience=(1, 2, 3, 5, 10), seed=0):
    """A search comes in pages, and a policy that stops too early misses what is on the next one.

    exact accuracy = log(k * page_size + 1) / log(documents) up to 1, at k pages read: the rank of
    the document with the answer is floor(documents ** u) - 1, u uniform, so mostly near the top.
    The draws of u are stratified, one in each of `questions` equal parts of [0, 1].

    Parameters
    ----------
    questions : int
        Each has documents of its own; their ranks are drawn once.
    documents : int
        Documents found by each search, at least 2.
    page_size : int
        Documents a page.
    patience : sequence of int
        Pages read at most.
    seed : int or Generator

    Returns
    -------
    PagedSearch

    Notes
    -----
    MemGPT section 3.2.1: it "can" read every page, but often stops before (L14 section 2.2).
    """
    for name, value, least in (("questions", questions, 1), ("documents", documents, 2), ("page_size", page_size, 1)):
        checks.whole(f"paged_search: {name}", value, least)
    if isinstance(patience, (str, bytes)) or not np.iterable(patience) or not len(patience):
        raise ValueError(f"paged_search: patience must be a list of whole numbers from 1 on; got {patience!r}")
    for pages in patience:
        checks.whole("paged_search: patience", pages, 1)
    u = (np.arange(questions) + _generator("paged_search", seed).random(questions)) / questions
    ranks = np.floor(documents**u).astype(int) - 1
    rows, agents = [], {}
    for pages in patience:
        settings = AgentSettings(page_size=page_size, max_calls=documents + 2)
        agents[pages] = agent = Agent(ReadPages(pages), settings)
        found = 0
        for question, rank in enumerate(ranks):
            for document in reversed(range(documents)):  # the newest is found first
                text = "the answer" if document == rank else "other things"
                agent.memory.archival.insert(f"topic-{question:04d}, document {document}: {text}")
            reply, *_ = agent.user(f"What is known about topic-{question:04d}?")
            found += "answer" in reply
        exact = min(1.0, log(pages * page_size + 1) / log(documents))
        calls, tokens = len(agent.trace) / questions, agent.trace["prompt"].sum() / questions
        rows.append((pages, found / questions, exact, calls, tokens))
    columns = ["patience", "accuracy", "exact", "calls", "prompt_tokens"]
    return PagedSearch(pd.DataFrame(rows, columns=columns).set_index("patience"), agents)


# --- the agent behind the serving study ---------------------------------------------------------


class SessionPolicy:
    """Replays a session (`labkit.memgpt_session`): search, save, answer to warnings, reply."""

    def __init__(self, session):
        self.session = session

    def __call__(self, view):
        entry = self.session[view.turn]
        steps = (["search"] if entry["hits"] else []) + (["edit"] if entry["save"] else [])
        now = len(view.done)
        if now >= len(steps) and view.warnings:
            steps += ["edit"]  # one answer to all warnings of this turn
        if now >= len(steps):
            return Call("send_message", message=str(entry["reply"]))
        if steps[now] == "search":
            return Call("archival_memory_search", query=f"turn-{view.turn:06d}", request_heartbeat=True)
        old = view.blocks["version"]
        edit = dict(label="version", old_content=old, new_content=str(int(old) + 1))
        return Call("core_memory_replace", request_heartbeat=True, **edit)


class SessionAgent(Agent):
    """An agent whose parts have the sizes of a `ServeSettings` instead of those of their text.

    The number at the end of a user's message, a reply or a search result is its size. Every part
    has tokens of its own; the working context has new ones whenever its text is new.
    """

    def __init__(self, session, settings=ServeSettings()):
        s = settings
        self._sizes = dict(system=s.system, working=s.working, summary=s.summary, call=s.call)
        self._sizes |= dict(result=s.result, warning=s.warning, note=s.note)
        same = dict(window=s.window, warn=s.warn, evict=s.evict, summary=s.summary, layout=s.layout)
        super().__init__(
            SessionPolicy(session),
            AgentSettings(page_size=1, credit_output=bool(s.credit_output), **same),
            blocks={"version": "0"},
            summarise=lambda old, evicted, limit: "summary",
        )
        for turn, entry in enumerate(session):
            self.memory.archival.insert(f"turn-{turn:06d} {entry['hits']}")

    def _tokens(self, kind, text):
        size = self._sizes[kind] if kind in self._sizes else int(text.split()[-1])
        part = text if kind == "working" else object()
        return (self._ids.setdefault((kind, part), len(self._ids)),) * size


def run_session(session, settings=ServeSettings()):
    """Run the agent over a session: the serving study again, by the mechanism itself.

    Equals `labkit.memgpt_serving.serve_session` in every number: calls, evictions, edits, searches,
    warnings, prompt tokens and prefill by cause. (One exception: a cache computes at least one token
    a call, so a call that adds no token the cache does not hold costs one here and none there.)

    Parameters
    ----------
    session : list of dict
    settings : ServeSettings

    Returns
    -------
    ServeResult, SessionAgent

    Raises
    ------
    ValueError
        As `serve_session`.
    """
    check_session(session)
    agent = SessionAgent(session, settings)
    for entry in session:
        agent.user(str(entry["user"]))
    trace = agent.trace
    result = ServeResult(
        calls=len(trace),
        evictions=int((trace["evicted"] > 0).sum()),
        edits=int((trace["function"] == "core_memory_replace").sum()),
        searches=int((trace["function"] == "archival_memory_search").sum()),
        warnings=int(trace["warned"].sum()),
        prompt_tokens=int(trace["prompt"].sum()),
        prefill=agent.prefill,
        calls_table=trace[["turn", "prompt", "cached", "prefill", "cause"]].rename(columns={"cached": "hit"}),
    )
    return result, agent
