"""The right to be forgotten: one fact is removed from every memory of this course, and then they are asked again.

Nothing is declared forgotten here: each memory is a real object (a conversation with its index, a mem0 store and its graph, a
MemGPT agent that has run, a playbook that was merged, a cartridge that was trained), and a trace is what an asking brings
back. It is asked with reworded questions, three times: before the fact is removed, right after, and once the user has gone
on talking and told a new value (L11 5.3, L14 exercise 8).
"""

from dataclasses import dataclass

import pandas as pd

from labkit import reference
from labkit.forgetting_agent import asked_agent, by_search, in_prompt, prefix_cache_kv
from labkit.forgetting_life import CARTRIDGE, FACTS, NOW, Request, life
from labkit.forgetting_places import (
    cartridge, full_context, graph_old, graph_valid, mem0_log, mem0_store, other_facts, playbook, rag_text, rag_vectors)
from labkit.kv_cost import L11_RULES, Roofline
from labkit.memory_systems import CALL_TOKENS
from labkit.memory_writing import EXTRACTION_PROMPT, UPDATE_PROMPT

__all__ = ["CARTRIDGE", "FACTS", "PLACES", "Forgetting", "Request", "bill", "fine_tuning", "forget"]

# --- the study ----------------------------------------------------------------------------------------------------

# place -> (share of askings that bring the value back, what removes it: a field of Request)
PLACES = {
    "context: the transcript": (full_context, "raw"),
    "RAG: text of the chunks": (rag_text, "raw"),
    "RAG: vectors of the chunks": (rag_vectors, "rebuilt"),
    "mem0: store": (mem0_store, "entries"),
    "mem0: log of operations": (mem0_log, "old_versions"),
    "mem0 graph: valid edges": (graph_valid, "entries"),
    "mem0 graph: invalid edges": (graph_old, "old_versions"),
    "MemGPT: working context": (in_prompt(lambda a: [a.memory.render()]), "entries"),
    "MemGPT: queue of messages": (in_prompt(lambda a: [m.text for m in a.queue]), "raw"),
    "MemGPT: recursive summary": (in_prompt(lambda a: [a.summary]), "rebuilt"),
    "MemGPT: recall storage": (by_search(lambda a: a.memory.recall), "raw"),
    "MemGPT: archival storage": (by_search(lambda a: a.memory.archival), "old_versions"),
    "prefix cache: KV of old prompts": (prefix_cache_kv, "rebuilt"),
    "playbook": (playbook, "old_versions"),
    "cartridge": (cartridge, "cartridge"),
}


@dataclass(frozen=True)
class Forgetting:
    """traces : DataFrame, a row a place: before, after, later (shares of askings that bring the value back), removed_by.

    bill : Series, GPU seconds of each step that was taken.  others : DataFrame, what the cartridge answers about the other facts:
    rows all, same slot; columns before, after.  request : Request.
    """

    traces: pd.DataFrame
    bill: pd.Series
    others: pd.DataFrame
    request: Request

    def __repr__(self):
        return f"Forgetting({self.request.fact}: a trace in {self.left} of {len(self.traces)} places, {self.bill.sum():,.2f} GPU s)"

    @property
    def left(self):
        """Places where an asking still brings the value back, right after or later."""
        return int((self.traces[["after", "later"]].max(axis=1) > 0).sum())


def forget(fact="where the user lives", entries=True, old_versions=False, raw=False, rebuilt=False,
           cartridge="leave it") -> Forgetting:
    """Remove one fact as thoroughly as asked, and ask every memory before, after, and later.

    Parameters
    ----------
    as the fields of `Request`.

    Raises
    ------
    ValueError
        For an unknown fact or way.
    """
    request = Request(fact, entries, old_versions, raw, rebuilt, cartridge)
    nothing, story = Request(fact, entries=False), life(fact)
    last = story.world.turns - 1
    rows = {place: (ask(story, nothing, NOW - 1), ask(story, request, NOW - 1), ask(story, request, last), step)
            for place, (ask, step) in PLACES.items()}
    traces = pd.DataFrame.from_dict(rows, orient="index", columns=["before", "after", "later", "removed_by"])
    others = pd.DataFrame({"before": other_facts(nothing), "after": other_facts(request)}, ["all", "same slot"])
    return Forgetting(traces, bill(request), others, request)


def bill(request, roofline=None):
    """GPU seconds of forgetting, step by step; deleting rows of a database costs none.

    entries: an extraction and an update call each for mem0 and its graph, and the agent's own calls. rebuilt: one call
    that reads all messages again, and the next prompt computed anew. retraining: as the Cartridges paper reports.
    """
    if not isinstance(request, Request):
        raise ValueError(f"bill: request must be Request(...); got {request!r}")
    if not isinstance(roofline, (Roofline, type(None))):
        raise ValueError(f"bill: roofline must be a Roofline, such as Roofline('Llama-3-8B', 'H100 SXM'), or None; got {roofline!r}")
    roofline, story = roofline or Roofline("Llama-3-8B", "H100 SXM"), life(request.fact)

    def call(prompt, written=CALL_TOKENS):
        return float(roofline.gpu_seconds_per_query(prompt, cached=False, question=1, answer=written))

    agents, prompt, spent = asked_agent(request)
    steps = {"own delete": 0.0, "old versions": 0.0, "raw messages": 0.0, "summary, vectors, KV": 0.0, "cartridge": 0.0}
    if request.entries:
        steps["own delete"] = 2 * (call(EXTRACTION_PROMPT) + call(UPDATE_PROMPT)) + sum(map(call, spent["prompt"]))
    if request.rebuilt:
        tokens = int(story.world.tokens[:NOW].sum())
        steps["summary, vectors, KV"] = call(tokens, agents[NOW - 1].settings.summary) + float(roofline.prefill_seconds(len(prompt[0])))
    if request.cartridge == "train again without it":
        steps["cartridge"] = L11_RULES.training_gpu_seconds
    return pd.Series(steps, name="GPU seconds")


def fine_tuning():
    """What the Cartridges paper reports of LoRA, a small change of the weights, beside a KV cache of the same size (prefix-tuning)."""
    rows = reference.paper_results("Cartridges")
    rows = rows[rows["metric"].str.contains("LoRA|KV cartridge", regex=True)]
    return rows.set_index("metric")[["value", "value_to", "unit"]]
