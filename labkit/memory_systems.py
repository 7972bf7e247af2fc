"""Six memories of one long conversation: work when writing or work when reading, and what is lost on the way?

`memory = system.build(conversation)`, then `memory.answer()`, `memory.log`, `memory.write_calls`: one protocol for all.
The systems stand in :mod:`labkit.memory_reading` and :mod:`labkit.memory_writing`; this module compares them
(L14, sections 3.3 and 6.2, exercise 2).
"""

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import pandas as pd

from labkit import checks
from labkit.conversation import QUESTION_KINDS, Conversation
from labkit.conversation_world import MOST
from labkit.kv_cost import ANSWER_TOKENS, QUESTION_TOKENS, Roofline
from labkit.memory_protocol import FACT_TOKENS, Answers, Memory
from labkit.memory_reading import FullContext, MemGptStyle, Rag
from labkit.memory_writing import UPDATE_PROMPT, AddOnly, Mem0, Mem0Graph

__all__ = ["FACT_TOKENS", "LENGTH_SYSTEMS", "SYSTEMS", "AddOnly", "Answers", "FullContext", "Mem0", "Mem0Graph", "MemGptStyle", "Memory", "Rag",
           "break_even_questions", "evaluate", "gpu_seconds", "length_study", "reads_per_write"]

SYSTEMS = {
    "full context": FullContext(),
    "RAG 512 x 4": Rag(),
    "MemGPT style": MemGptStyle(),
    "mem0": Mem0(),
    "mem0 graph": Mem0Graph(),
    "add-only": AddOnly(),
}
LENGTH_SYSTEMS = {
    "full context": FullContext(window=64_000),
    "RAG 128 x 16": Rag(chunk=128, k=16),
    "MemGPT style": MemGptStyle(),
    "MemGPT style, no limit": MemGptStyle(capacity=None),
    "mem0": Mem0(),
    "mem0 graph": Mem0Graph(),
    "mem0 graph, old versions compete": Mem0Graph(old_versions_compete=True),
    "add-only": AddOnly(),
}
CALL_TOKENS = 50  # tokens a call writes that is not the answer: a search, or an operation on the memory; an assumption


def named(systems):
    """Systems by name: a mapping stays, a list gets its labels, a single system becomes a mapping of one."""
    if hasattr(systems, "items"):
        if wrong := [name for name, system in systems.items() if not hasattr(system, "build")]:
            raise ValueError(f"systems are objects with build(conversation); {wrong[0]!r} is none")
        return dict(systems)
    systems = [systems] if hasattr(systems, "build") else list(systems) if isinstance(systems, Iterable) else systems
    if not isinstance(systems, list) or not all(hasattr(system, "build") for system in systems):
        raise ValueError(f"systems are objects with build(conversation), in a mapping or a list; got {systems!r:.100}")
    labels = [system.label for system in systems]
    return {label if labels.count(label) == 1 else repr(system): system for label, system in zip(labels, systems)}


def evaluate(systems, conversations):
    """Put all questions of some conversations to some systems.

    Parameters
    ----------
    systems : mapping of str to system, or iterable of systems
    conversations : iterable of Conversation

    Returns
    -------
    DataFrame
        system, kind ("current", "previous", "two-hop", "all"), accuracy, tokens and calls (means over the questions,
        pooled over the conversations), write_calls and write_prefill (means a conversation), extra_calls_assumed (further
        write calls of the graph: an assumption), prefix_tokens (of the tokens those that are the same for
        every question), questions (how many a conversation, mean).

    Raises
    ------
    ValueError
        Without a system or without a conversation.
    """
    systems = named(systems)
    if not isinstance(conversations, Iterable):
        raise ValueError(f"conversations must be a list of Conversation, not {conversations!r:.100}")
    sums = {name: np.zeros((5, len(QUESTION_KINDS))) for name in systems}  # right, tokens, calls, prefix, questions by kind
    writes = {name: np.zeros(3) for name in systems}
    count = 0
    for count, conversation in enumerate(conversations, 1):
        for name, system in systems.items():
            memory = system.build(conversation)
            right, _, tokens, calls = memory.answers()
            prefix = np.full(len(right), memory.prefix_tokens)
            sums[name] += [np.bincount(conversation.question_kind, values, len(QUESTION_KINDS))
                           for values in (right, tokens, calls, prefix, np.ones(len(right)))]
            writes[name] += memory.write_calls, memory.write_prefill, memory.extra_calls
    if not systems or not count:
        raise ValueError("evaluate needs at least one system and one conversation")
    rows = []
    for name in systems:
        by_kind = np.column_stack([sums[name], sums[name].sum(axis=1)])
        for kind, (*totals, questions) in zip((*QUESTION_KINDS, "all"), by_kind.T):
            accuracy, tokens, calls, prefix = np.array(totals) / (questions or np.nan)
            rows.append((name, kind, accuracy, tokens, calls, *(writes[name] / count), prefix, questions / count))
    return pd.DataFrame(rows, columns=["system", "kind", "accuracy", "tokens", "calls", "write_calls", "write_prefill",
                                       "extra_calls_assumed", "prefix_tokens", "questions"])


def length_study(lengths=(600, 1_200, 2_400, 4_800), count=90, seed=0, systems=None):
    """Accuracy and costs as conversations grow (L14, section 3.3, demo 4); computed once, then kept.

    Parameters
    ----------
    lengths : sequence of int
        Turns of a conversation.
    count : int
        Conversations a length. One conversation's accuracy has a standard deviation of about 0.08, so with 90 a curve
        is good to about 0.02, with 30 to 0.04: small rises and falls are noise.
    seed : int
    systems : mapping of str to system, or iterable of systems, optional
        `LENGTH_SYSTEMS` by default: a window of 64,000 tokens for the full context.

    Returns
    -------
    DataFrame
        As `evaluate`, with a column turns in front.
    """
    checks.whole("count", count, 1, MOST)
    lengths = tuple(lengths)
    if not lengths:
        raise ValueError("lengths must name at least one length in turns")
    systems = LENGTH_SYSTEMS if systems is None else systems
    return _length_study(tuple(lengths), count, seed, tuple(named(systems).items())).copy()


@lru_cache(maxsize=8)
def _length_study(lengths, count, seed, systems):
    tables = []
    for turns in lengths:
        grown = (Conversation.generate(seed + number, turns) for number in range(count))  # one at a time: they are large
        tables.append(evaluate(dict(systems), grown).assign(turns=turns))
    table = pd.concat(tables, ignore_index=True)
    return table[["turns", *table.columns.drop("turns")]]


def break_even_questions(write_cost, read_cost, own_read_cost=0.0):
    """write_cost / (read_cost - own_read_cost): questions after which work at write time has paid (L14, exercise 2).

    Parameters
    ----------
    write_cost : float
        What the system pays once a conversation (tokens of prefill, or seconds).
    read_cost : float
        What the alternative pays a question, e.g. the length of the full context.
    own_read_cost : float
        What the system itself pays a question; the exercise neglects it.

    Returns
    -------
    float
        inf if reading saves nothing.
    """
    for name, value in (("write_cost", write_cost), ("read_cost", read_cost), ("own_read_cost", own_read_cost)):
        checks.number(name, value, 0)
    saved = read_cost - own_read_cost
    return write_cost / saved if saved > 0 else np.inf


def gpu_seconds(results, roofline=None, prefix_cached=True, answer_tokens=ANSWER_TOKENS):
    """GPU seconds of writing a conversation and of answering one question.

    Writing: each call computes its whole prompt and writes CALL_TOKENS. Reading: with a prefix cache, `prefix_tokens` are
    computed once a conversation (part of `once`) and each question computes only what is new to it; without, every call
    computes its whole prompt. Decoding shares the GPU among as many users as their KV lets fit:
    seconds = tokens x step(users, context) / users.

    Parameters
    ----------
    results : DataFrame
        From `evaluate`; its rows of kind "all" are priced.
    roofline : Roofline, optional
        Llama-3-8B on an H100 SXM by default.
    prefix_cached : bool
    answer_tokens : int

    Returns
    -------
    DataFrame
        system, once and a_question (GPU seconds), extra_assumed (GPU seconds of the graph's extra calls, not in `once`).
    """
    roofline = Roofline("Llama-3-8B", "H100 SXM") if roofline is None else roofline
    if not isinstance(roofline, Roofline):
        raise ValueError(f"roofline must be a kv_cost.Roofline, as Roofline('Llama-3-8B', 'H100 SXM'), not {roofline!r:.100}")
    checks.flag("prefix_cached", prefix_cached)
    checks.whole("answer_tokens", answer_tokens, 1, MOST)
    rows = []
    for row in results[results.kind == "all"].itertuples():
        prefix = row.prefix_tokens if prefix_cached else 0.0
        once = _call_seconds(roofline, row.write_calls, row.write_prefill)
        if prefix:
            once += roofline.gpus * roofline.prefill_seconds(prefix)
            prefill = roofline.prefill_seconds(row.tokens - prefix + QUESTION_TOKENS, prefix)
        else:
            prefill = row.calls * roofline.prefill_seconds(row.tokens + QUESTION_TOKENS)
        written = answer_tokens + (row.calls - 1) * CALL_TOKENS
        reading = roofline.gpus * prefill + _decode_seconds(roofline, written, row.tokens + QUESTION_TOKENS)
        extra = _call_seconds(roofline, row.extra_calls_assumed, row.extra_calls_assumed * UPDATE_PROMPT)
        rows.append((row.system, once, reading, extra))
    return pd.DataFrame(rows, columns=["system", "once", "a_question", "extra_assumed"])


def _call_seconds(roofline, calls, prefill):
    """GPU seconds of `calls` calls whose prompts hold `prefill` tokens together."""
    if not calls:
        return 0.0
    prompt = prefill / calls
    return calls * (roofline.gpus * roofline.prefill_seconds(prompt) + _decode_seconds(roofline, CALL_TOKENS, prompt))


def _decode_seconds(roofline, tokens, context):
    """GPU seconds of decoding on a full GPU: tokens x step / users; inf where not even one user fits."""
    users = roofline.max_users(context, question=1, answer=tokens)
    return roofline.gpus * tokens * roofline.step_seconds(users, context + tokens / 2) / users if users else np.inf


def reads_per_write(results, questions=(1, 3, 10, 30, 100, 300, 1_000), roofline=None, prefix_cached=False):
    """What a conversation costs each system when it is asked so many questions: where is which cheapest?

    Parameters
    ----------
    results : DataFrame
        From `evaluate`.
    questions : sequence of int
        Questions a conversation; LOCOMO asks about 200.
    roofline, prefix_cached
        As for `gpu_seconds`. With a prefix cache the full context is computed once a conversation, and what is left of its
        cost is decoding and memory (exercise 2 c).

    Returns
    -------
    DataFrame
        system, accuracy, questions, prefill (tokens), gpu_seconds.
    """
    try:
        asked = np.asarray(questions, float)
    except (TypeError, ValueError):
        asked = np.empty((0, 0))
    if asked.ndim != 1 or not len(asked) or not np.all(asked >= 0):
        raise ValueError(f"questions must be a list of numbers of at least 0, not {questions!r}")
    seconds = gpu_seconds(results, roofline, prefix_cached).set_index("system")
    tables = []
    for row in results[results.kind == "all"].itertuples():
        kept = row.prefix_tokens if prefix_cached else 0.0
        again = row.tokens - kept if prefix_cached else row.calls * row.tokens
        tables.append(pd.DataFrame({
            "system": row.system, "accuracy": row.accuracy, "questions": asked.astype(int),
            "prefill": row.write_prefill + kept + again * asked,
            "gpu_seconds": seconds.once[row.system] + seconds.a_question[row.system] * asked}))
    return pd.concat(tables, ignore_index=True)
