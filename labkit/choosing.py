"""Choosing a memory: what each of them costs for one workload, which can answer at all, and which is cheapest (L14 section 6).

    GPU seconds a query = read + write / (reads a write x users who share it)

Nothing is computed here that another module computes: contexts are priced by `kv_cost`, retrieval and extraction by the
simulated conversations of `memory_systems`, blended documents by `cacheblend`, playbooks by `ace`; a cartridge's size and
training are those its paper reports. What stays is the comparison: one unit, one full GPU, one answer of 200 tokens.
"""

from dataclasses import dataclass, fields

import numpy as np
import pandas as pd

from labkit import ace
from labkit.choosing_memories import MEMORIES, kv_bytes, paper_cartridge
from labkit.choosing_workload import GPU, KINDS, MODEL, WEEK_S, Cost, Workload
from labkit.kv_cost import QUESTION_TOKENS, Roofline, break_even_queries
from labkit.memgpt import LAYOUTS, ServeSettings, even_session, serve_session

__all__ = ["GPU", "GUIDE", "KINDS", "MEMORIES", "MODEL", "READS", "Choice", "Cost", "Workload", "choose", "guide", "paper_cartridge",
           "price", "what_stays_cached"]


def price(workload=Workload(), roofline=None):
    """GPU seconds a query = read + write / (reads a write x users who share), for every memory; the cheapest that can answer.

    Parameters
    ----------
    workload : Workload
    roofline : labkit.kv_cost.Roofline, optional
        Llama-3-8B on one H100 SXM if not given. The GPU is full: others like this user take the places that are left.

    Returns
    -------
    DataFrame
        Index memory. read, write (GPU s), query (GPU s, the write's share included), prompt (tokens), kv_gb (GB of GPU memory
        a user while answering; a shared part is divided), kept_gb (GB at rest for one text), users (on one GPU at once), gpus (for the
        workload's queries, all week long), accuracy (NaN: not simulated), can (bool), cheapest (bool), reason (str).
    """
    if not isinstance(workload, Workload):
        raise ValueError(f"price: workload must be a Workload; got {workload!r}")
    roofline, w, rows = roofline or Roofline(MODEL, GPU), workload, {}
    for name, memory in MEMORIES.items():
        cost = memory.price(w, roofline)
        query = cost.read + cost.write / w.reads_a_write
        common = cost.common / w.users
        users = roofline.max_users(max(cost.own + cost.common, 1), cost.common)
        rows[name] = {
            "read": cost.read, "write": cost.write, "query": query, "prompt": cost.prompt,
            "kv_gb": kv_bytes(roofline, max(cost.own + common, 1)) / 1e9, "kept_gb": cost.kept / 1e9, "users": users,
            "gpus": query * w.queries_a_week / WEEK_S, "accuracy": cost.accuracy, "can": not cost.why_not, "reason": cost.why_not}
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("memory")
    able = table["query"].where(table["can"])
    best = able.idxmin() if table["can"].any() else None
    table["cheapest"] = table.index == best
    for name in table.index[table["can"]]:
        table.loc[name, "reason"] = _reason(table, name, best, w)
    order = ["read", "write", "query", "prompt", "kv_gb", "kept_gb", "users", "gpus", "accuracy", "can", "cheapest", "reason"]
    return table[order]


def _reason(table, name, best, w):
    row = table.loc[name]
    if name == best:
        return "cheapest: " + MEMORIES[name].because.format(w=w, c=row)
    part = "writing" if row["query"] > 2 * row["read"] else "reading"
    return f"{row['query'] / table.loc[best, 'query']:,.1f} times as dear, by {part}"


# --- the panel's study --------------------------------------------------------------------------------------------

READS = np.unique(np.round(np.logspace(0, 6, 61)).astype(int))


@dataclass(frozen=True)
class Choice:
    """A workload and its prices.

    table : DataFrame, as `price`.  curves : DataFrame, index reads (of a user, a write), a column a memory: GPU seconds a query.
    workload : Workload.
    """

    table: pd.DataFrame
    curves: pd.DataFrame
    workload: Workload

    @property
    def best(self):
        """The cheapest that can answer; None if nothing can."""
        return next(iter(self.table.index[self.table["cheapest"]]), None)

    def cheaper_from(self, memory, than):
        """Reads a write (of a user) from which one memory costs less than another: `kv_cost.break_even_queries` of their prices."""
        one, other = self.table.loc[memory], self.table.loc[than]
        queries = break_even_queries(max(one["write"] - other["write"], 0.0), other["read"], one["read"])
        return queries / (self.workload.users if self.workload.shared else 1)


def choose(kind="documents", reads=200, tokens=128_000, users=1_000, updates=1.0, new=1.0, window=128_270, shared=False,
           lookup=False, history=True, accuracy=0.70, model=MODEL, gpu=GPU) -> Choice:
    """Price every memory for a workload (fields of `Workload`), and over all numbers of reads a write.

    Parameters
    ----------
    model, gpu : names of `kv_cost`.
    """
    given = locals()
    w = Workload(**{f.name: given[f.name] for f in fields(Workload)})
    table = price(w, Roofline(model, gpu))
    sharing = w.users if w.shared else 1
    curves = table["read"].to_numpy() + np.outer(1 / (READS * sharing), table["write"])
    return Choice(table, pd.DataFrame(curves, index=pd.Index(READS, name="reads"), columns=table.index), w)


# --- the lecture notes' section 6, computed -----------------------------------------------------------------------

GUIDE = {  # the cases of L14 6.4
    "a manual that 1,000 people share": Workload(shared=True),
    "a code base of one's own, asked 20,000 times before it changes": Workload(reads=20_000),
    "the same, asked 200 times": Workload(),
    "a file that is asked once": Workload(reads=1),
    "a year of talk, facts that change": Workload("conversation", tokens=100_000, reads=500),
    "the same, only the present is asked for": Workload("conversation", tokens=100_000, reads=500, history=False),
    "a short talk that must be read well, asked 5 times": Workload("conversation", tokens=8_000, reads=5, accuracy=0.95),
    "200 tasks of an agent": Workload("experience", tokens=60_000),
    "look-ups in documents of one's own": Workload(lookup=True),
}


def guide(cases=GUIDE):
    """The cheapest memory that can answer in each case of the decision guide.

    Returns
    -------
    DataFrame
        A row a case: memory, query (GPU s), next (the second cheapest), times (what that costs more), reason.
    """
    rows = {}
    for case, workload in cases.items():
        table = price(workload)
        able = table[table["can"]].sort_values("query")
        best = able.iloc[0]
        second = able.iloc[1]
        rows[case] = (best.name, best["query"], second.name, second["query"] / best["query"], best["reason"].removeprefix("cheapest: "))
    return pd.DataFrame.from_dict(rows, orient="index", columns=["memory", "query", "next", "times", "reason"])


def what_stays_cached():
    """Share of all prompt tokens that a prefix cache holds, by what changes in the prompt and where (L14 6.3).

    MemGPT's working context in its three places and the playbook in its three modes, each at the settings of its own study;
    a prompt that never changes, such as a cartridge's, has every token but the question's.
    """
    rows = {f"MemGPT, working context: {layout}": serve_session(even_session(), ServeSettings(layout=layout)).saved for layout in LAYOUTS}
    trace = ace.even_trace()
    rows |= {f"playbook: {mode}": ace.serve_playbook(trace, ace.PlaybookSettings(mode=mode)).reuse for mode in ace.MODES}
    size = Workload().tokens / paper_cartridge()[0]
    rows["cartridge: never changes"] = size / (size + QUESTION_TOKENS)
    return pd.Series(rows, name="share cached")
