"""MemGPT: the context window as memory, paged by the model itself (L14 section 2, L11 section 2).

    prompt = system instructions | working context | recursive summary | messages (FIFO)   <= window

An operating system gives a program more memory than the machine has by moving pages between RAM and
disk. MemGPT gives a model more context than its window holds by moving text: the prompt is RAM,
recall and archival storage are the disk, a search brings a page in, an eviction takes pages out, a
memory-pressure warning is the low-memory signal, and users and timers are the interrupts. What
differs is who decides: not a rule such as LRU, but the model, by calling functions.

Three things can be done here, and this module is their one flat vocabulary:

run it          `Agent` drives any ``policy(view) -> Call`` through events, heartbeats, evictions
                (labkit/memgpt_agent.py, what it sees in labkit/memgpt_view.py, its functions and storages
                in labkit/memgpt_functions.py, demonstrations in labkit/memgpt_demos.py)
ask it          `recall_study`: what is still known after many sessions, against truncation and
                summary (labkit/memgpt_recall.py)
pay for it      `serve_session`: what a prefix cache must compute anew, token by token, and why
                (labkit/memgpt_serving.py; sessions as plain data in labkit/memgpt_session.py)

>>> result = serve_session(even_session(), ServeSettings(evict=0.5))
>>> result.calls, result.prefill_tokens
(770, 507840)

Source: Packer et al., MemGPT: Towards LLMs as Operating Systems, arXiv:2310.08560.
"""

from labkit.memgpt_agent import Agent, AgentSettings, first_sentences, tokenize
from labkit.memgpt_demos import (
    FixedContext, JamesEdit, NestedLookup, PagedSearch, ReadPages, SessionAgent, SessionPolicy, conversation_demo,
    follow_the_keys, james_edit, james_policy, nested_lookup, note_taking_policy, paged_search, run_session,
)  # fmt: skip
from labkit.memgpt_functions import FUNCTIONS, Block, Call, Result, tool_schemas
from labkit.memgpt_recall import SYSTEMS, RecallSettings, recall_curve, recall_study
from labkit.memgpt_serving import CAUSES, LAYOUTS, ServeResult, ServeSettings, gpu_seconds, serve_session
from labkit.memgpt_session import even_session, load_session, random_session, save_session
from labkit.memgpt_view import Message, Segment, Snapshot, View

__all__ = [
    "Agent", "AgentSettings", "Message", "Segment", "Snapshot", "View", "first_sentences", "tokenize",
    "FUNCTIONS", "Block", "Call", "Result", "tool_schemas",
    "FixedContext", "JamesEdit", "NestedLookup", "PagedSearch", "ReadPages", "SessionAgent", "SessionPolicy",
    "conversation_demo", "follow_the_keys", "james_edit", "james_policy", "nested_lookup", "note_taking_policy",
    "paged_search", "run_session",
    "SYSTEMS", "RecallSettings", "recall_curve", "recall_study",
    "CAUSES", "LAYOUTS", "ServeResult", "ServeSettings", "gpu_seconds", "serve_session",
    "even_session", "load_session", "random_session", "save_session",
]  # fmt: skip
