"""What each memory costs for a workload: functions (workload, roofline) -> Cost, in the table `MEMORIES`.

Each asks the module that knows: `kv_cost` for contexts, the simulated conversations of `memory_systems` for retrieval and
extraction, `cacheblend` for blended passages, `ace` for playbooks, the paper for a cartridge's size and training.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pandas as pd

from labkit import ace, reference
from labkit.cacheblend import controller, layer_times, ttft_ms
from labkit.choosing_workload import WEEK_S, Cost
from labkit.conversation import WorldSettings
from labkit.kv_cost import ANSWER_TOKENS, L11_RULES, QUESTION_TOKENS
from labkit.memory_systems import Mem0, Mem0Graph, MemGptStyle, Rag, gpu_seconds, length_study

# --- what the other modules know, looked up once ----------------------------------------------------------------

BYTES_A_TOKEN = 4  # of text at rest; a rule of thumb
STUDIED = {"RAG": Rag(chunk=128, k=16), "MemGPT": MemGptStyle(), "mem0": Mem0(), "mem0 graph": Mem0Graph()}
LENGTHS = (200, 600, 1_200, 2_400, 4_800)  # turns of the simulated conversations
COUNT = 10  # conversations a length: an accuracy is good to about 0.03
PILE, BOOK = "pile", "append"  # ways of `ace.learning_study`: every attempt kept as it was, and ACE's bullets


@cache
def paper_cartridge():
    """(compression, training in GPU seconds, and in seconds on the clock), as the Cartridges paper reports."""
    rows = reference.paper_results("Cartridges").set_index("metric")["value"]
    clock = 60 * float(rows["training time"])
    return float(rows["memory reduction at ICL quality (average)"]), L11_RULES.training_gpu_seconds, clock


@cache
def study():
    """`length_study` of the systems that read or write a conversation: a row a system, kind of question and length."""
    return length_study(LENGTHS, COUNT, 0, STUDIED).set_index(["system", "kind", "turns"]).sort_index()


@cache
def lessons():
    """Accuracy by task of an agent that keeps all attempts, and of one that keeps a playbook (`ace.learning_study`)."""
    table = ace.learning_study([PILE, BOOK])
    return table.pivot(index="step", columns="way", values="accuracy")


@cache
def _lengths(name, kind):
    """log(turns) of the simulated conversations, and by column: what `evaluate` gives there, and work of writing a turn."""
    rows = study().loc[(name, kind)]
    a_turn = rows[["write_calls", "write_prefill", "extra_calls_assumed"]].div(rows.index, axis=0)
    return np.log(rows.index), *({column: values.to_numpy() for column, values in table.items()} for table in (rows, a_turn))


def in_conversation(name, kind, tokens):
    """A row of `evaluate` for a conversation of so many tokens, between the lengths that were simulated.

    Beyond them accuracy and tokens read stay as at the end, and the work of writing grows with the length.
    """
    s, (lengths, rows, a_turn) = WorldSettings(), _lengths(name, kind)
    turns = tokens / ((s.tokens_min + s.tokens_max) / 2)
    at = {column: np.interp(np.log(turns), lengths, values) for column, values in rows.items()}
    at |= {column: turns * np.interp(np.log(turns), lengths, values) for column, values in a_turn.items()}
    at |= {column: min(at[column], tokens) for column in ("tokens", "prefix_tokens")}
    return at | {"system": name, "kind": "all"}


# --- the memories: (workload, roofline) -> Cost ------------------------------------------------------------------


def kv_bytes(roofline, tokens):
    """Bytes of KV of so many tokens."""
    return float(roofline.model.kv_bytes(tokens, roofline.kv_dtype))


def _full_text(w, read, write, **cost):
    """Cost of a memory that reads the whole text."""
    accuracy = _learned(PILE, w) if w.kind == "experience" else 1.0  # the reader of the simulated conversations is ideal
    cost = {"own": w.tokens, "kept": BYTES_A_TOKEN * w.tokens} | cost
    return Cost(read, write, w.tokens, accuracy=accuracy, why_not=_too_often_wrong(w, accuracy), **cost)


def _prefill_of_a_write(w, roofline):
    """Prefill of what a write makes uncached: text at the end, or a change in the middle, where half of the rest is lost too."""
    kept = (1 - w.new) * (1 if w.kind != "documents" else 0.5)
    return roofline.gpus * roofline.prefill_seconds(max((1 - kept) * w.tokens, 1), kept * w.tokens)


def context(w, roofline):
    """The whole text in the prompt, computed anew for each query."""
    return _full_text(w, roofline.gpu_seconds_per_query(w.tokens, cached=False), 0.0)


def cached_context(w, roofline):
    """The whole text in the prompt, its KV kept for each user."""
    read = roofline.gpu_seconds_per_query(w.tokens, cached=True)
    write = _prefill_of_a_write(w, roofline) * (w.users if w.shared else 1)  # a copy for each user
    return _full_text(w, read, write, kept=kv_bytes(roofline, w.tokens))


def shared_prefix(w, roofline):
    """One text, computed, stored and read once for all users who are served together."""
    read = _shared_read(w, roofline, w.tokens)
    cost = _full_text(w, read, _prefill_of_a_write(w, roofline), own=0.0, common=w.tokens, kept=kv_bytes(roofline, w.tokens))
    return cost if w.shared else replace(cost, why_not="each user has their own text: nothing to share")


def _shared_read(w, roofline, tokens):
    """GPU seconds of a query behind a prefix of `tokens` that all users at once share; inf if it does not fit."""
    most = roofline.max_users(tokens, tokens)
    if not most:
        return np.inf
    speed = roofline.throughput(tokens, tokens, users=min(w.users, most))
    read = roofline.gpus * (ANSWER_TOKENS / speed + roofline.prefill_seconds(QUESTION_TOKENS, tokens))
    return min(read, roofline.gpu_seconds_per_query(tokens))  # where few share it, others with their own fill the GPU


def _studied(name):
    """A memory whose work and accuracy come from the simulated conversations."""

    def cost(w, roofline):
        row = in_conversation(name, "all" if w.history else "current", w.tokens)
        why = ""
        if w.kind == "documents":
            row["accuracy"], why = np.nan, _not_from_documents(name, w)
        elif w.kind == "experience":
            row["accuracy"], why = np.nan, "keeps what a user told, not experience"
        else:
            why = _too_often_wrong(w, row["accuracy"])
        seconds = gpu_seconds(pd.DataFrame([row]), roofline).iloc[0]
        return Cost(seconds.a_question, w.new * seconds.once, row["tokens"], row["tokens"], kept=BYTES_A_TOKEN * w.tokens,
                    accuracy=row["accuracy"], why_not=why)

    return cost


def _not_from_documents(name, w):
    if name.startswith("mem0"):
        return "keeps facts a user told, not documents"
    return "" if w.lookup else "finds passages, but the whole text is asked for"


def blended_rag(w, roofline):
    """RAG whose passages are stored as KV and mostly not computed again (CacheBlend), loaded from the host's memory."""
    plain, read = MEMORIES["RAG"].price(w, roofline), STUDIED["RAG"].chunk * STUDIED["RAG"].k
    if w.kind != "documents":
        return replace(plain, why_not="needs passages that are found again and again")
    if not roofline.gpu.host_link_bytes_per_s:
        return replace(plain, read=np.inf, why_not=f"the speed of {roofline.gpu.name}'s link to its host is not known")
    times = layer_times(roofline.model, roofline.gpu, "cpu", read, roofline.kv_dtype, roofline.gpus)
    blend = ttft_ms("blend", times, controller(times)) / 1_000
    decode = roofline.gpu_seconds_per_query(read) - roofline.gpus * roofline.prefill_seconds(QUESTION_TOKENS, read)
    seconds = decode + roofline.gpus * (blend + roofline.prefill_seconds(QUESTION_TOKENS, read))
    passages = w.tokens / STUDIED["RAG"].chunk
    write = w.new * passages * roofline.gpus * roofline.prefill_seconds(STUDIED["RAG"].chunk)
    return replace(plain, read=seconds, write=write, prompt=read, own=read, kept=kv_bytes(roofline, w.tokens))


def cartridge(w, roofline):
    """A KV cache trained for the text, a few dozen times smaller; a changed text is trained anew."""
    compression, training, clock = paper_cartridge()
    size = w.tokens / compression
    read = _shared_read(w, roofline, size) if w.shared else roofline.gpu_seconds_per_query(size)
    why = ""
    if w.kind == "experience":
        why = "grows with each task: trained anew each time"
    elif w.updates * clock > WEEK_S:
        why = f"training takes {clock / 60:.0f} minutes, the text lives shorter"
    return Cost(read, training, size, 0.0 if w.shared else size, size if w.shared else 0.0, kv_bytes(roofline, size), why_not=why)


def playbook(w, roofline):
    """ACE: of each attempt a small lesson, appended to a playbook that is in the prompt."""
    s = ace.PlaybookSettings(task=QUESTION_TOKENS, output=ANSWER_TOKENS)
    record = ace.LearningSettings().record
    tasks, lesson = w.tokens / record, LESSONS_A_TASK * s.bullet
    size = min(tasks * lesson, ace.BUDGET)
    users = roofline.max_users(s.system + size, question=s.task, answer=s.output)
    s = replace(s, batch=int(max(users, 1)))
    prompt = s.system + size + s.task
    read = roofline.gpus * float(ace.step_seconds(prompt, prompt - s.task, 0, s, roofline))
    curating = float(ace.step_seconds(prompt - s.task + record, prompt - s.task, lesson, replace(s, output=0), roofline))
    accuracy = _learned(BOOK, w)
    why = _too_often_wrong(w, accuracy) if w.kind == "experience" else "keeps lessons from tasks, not a text"
    return Cost(read if users else np.inf, w.new * tasks * roofline.gpus * curating, size, size, kept=BYTES_A_TOKEN * size,
                accuracy=accuracy if w.kind == "experience" else np.nan, why_not=why)


LESSONS_A_TASK = 0.6  # bullets an attempt adds, as in the serving study (L14 5.4)


def _learned(way, w):
    """Accuracy of a way of keeping experience after so many tasks."""
    tasks = w.tokens / ace.LearningSettings().record
    curve = lessons()[way]
    return float(curve.iloc[int(min(tasks, len(curve) - 1))])


def _too_often_wrong(w, accuracy):
    return f"answers {accuracy:.2f} here, and {w.accuracy:.2f} are needed" if accuracy < w.accuracy else ""


@dataclass(frozen=True)
class Memory:
    """A row of MEMORIES: how it is priced, and what a query then pays for (a format of Workload and of the row of `price`).

    `because` tells the memory's own nature, true wherever it is chosen; which rivals it beats is told by their prices.
    """

    price: Callable
    because: str


MEMORIES = {
    "context": Memory(context, "nothing is written; each query computes its {c.prompt:,.0f} tokens anew"),
    "cached context": Memory(cached_context, "computed once per write; a query then only decodes behind {c.prompt:,.0f} tokens"),
    "shared prefix": Memory(shared_prefix, "one copy of {c.prompt:,.0f} tokens, computed once per write, serves {w.users:,} users"),
    "RAG": Memory(_studied("RAG"), "nothing is written, and a query reads {c.prompt:,.0f} tokens"),
    "RAG, blended": Memory(blended_rag, "the passages' KV is kept, so a query computes few of its {c.prompt:,.0f} tokens"),
    "MemGPT": Memory(_studied("MemGPT"), "a bounded prompt, and searches where it does not answer: {c.prompt:,.0f} tokens"),
    "mem0": Memory(_studied("mem0"), "facts that change were sorted out at write time; a query reads {c.prompt:,.0f} tokens"),
    "mem0 graph": Memory(_studied("mem0 graph"), "facts were sorted out at write time, old ones kept; "
                                                 "a query reads {c.prompt:,.0f} tokens"),
    "cartridge": Memory(cartridge, "one training for {w.reads_a_write:,.0f} reads; a query decodes behind {c.prompt:,.0f} tokens"),
    "playbook": Memory(playbook, "a query reads {c.prompt:,.0f} tokens of lessons, not {w.tokens:,.0f} of records"),
}
