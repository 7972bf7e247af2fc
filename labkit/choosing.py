"""Choosing a memory: what each of them costs for one workload, which can answer at all, and which is cheapest (L14 section 6).

    GPU seconds per query = read + write / (reads per write x users who share it)

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
from labkit.kv_cost import ANSWER_TOKENS, QUESTION_TOKENS, Roofline, break_even_queries
from labkit.memgpt import LAYOUTS, ServeSettings, even_session, serve_session

__all__ = ["GPU", "GUIDE", "KINDS", "MEMORIES", "MODEL", "READS", "Choice", "Cost", "Workload", "choose", "guide",
           "paper_cartridge", "price", "what_stays_cached"]


def price(workload=Workload(), roofline=None):
    """GPU seconds per query = read + write / (reads per write x users who share), for every memory; the cheapest that can answer.

    Parameters
    ----------
    workload : Workload
    roofline : labkit.kv_cost.Roofline, optional
        Llama-3-8B on one H100 SXM if not given. The GPU is full: others like this user take the places that are left.

    Returns
    -------
    DataFrame
        Index memory. read, write (GPU s), query (GPU s, the write's share included), prompt (tokens), kv_gb (GB of KV per
        user while answering; a shared part is divided), kept_gb (GB at rest for one text), users (on one GPU at once), gpus (for the
        workload's queries, all week long), accuracy (NaN: not simulated), can (bool), cheapest (bool), reason (str).
    """
    if not isinstance(workload, Workload):
        raise ValueError(f"price: workload must be a Workload; got {workload!r}")
    if not isinstance(roofline, (Roofline, type(None))):
        raise ValueError(f"price: roofline must be a Roofline, such as Roofline('Llama-3-8B', 'H100 SXM'), or None; got {roofline!r}")
    roofline, w, rows = roofline or Roofline(MODEL, GPU), workload, {}
    for name, memory in MEMORIES.items():
        cost = memory.price(w, roofline)
        query = cost.read + cost.write / w.reads_a_write
        common = cost.common / w.users
        users = roofline.max_users(max(cost.own + cost.common, 1), cost.common)
        why_not = _why_not(cost, query, w, roofline)
        rows[name] = {
            "read": cost.read, "write": cost.write, "query": query, "prompt": cost.prompt,
            "kv_gb": kv_bytes(roofline, max(cost.own + common, 1)) / 1e9, "kept_gb": cost.kept / 1e9, "users": users,
            "gpus": query * w.queries_a_week / WEEK_S, "accuracy": cost.accuracy, "can": not why_not, "reason": why_not}
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("memory")
    able = table.loc[table["can"], "query"]
    best = None if able.empty else able.idxmin()
    table["cheapest"] = table.index == best
    reasons = {name: dearer(table, name, best) for name in able.index if name != best}
    if best:
        reasons[best] = f"cheapest: {nature(table, best, w)}; {what_decided(table)}"
    table["reason"] = table["reason"].where(~table["can"], table.index.map(reasons))
    order = ["read", "write", "query", "prompt", "kv_gb", "kept_gb", "users", "gpus", "accuracy", "can", "cheapest", "reason"]
    return table[order]


def _why_not(cost, query, w, roofline):
    """Why a memory cannot answer: by its nature, for the window, for the GPU; "" if it can."""
    need = cost.prompt + QUESTION_TOKENS + ANSWER_TOKENS
    if cost.why_not or need > w.window:
        return cost.why_not or f"prompt and answer: {need:,.0f} tokens, the window has {w.window:,.0f}"
    if np.isfinite(query):
        return ""
    return "not even one user's KV fits the GPU" if roofline.kv_capacity_bytes else "the model's weights do not fit the GPU"


# --- the reason in words ------------------------------------------------------------------------------------------


def nature(table, name, w):
    """What a query of a memory pays for, with this workload's numbers."""
    return MEMORIES[name].because.format(w=w, c=table.loc[name])


def dearer(table, name, than):
    """How much dearer one memory of `price` is than a cheaper one, and whether it is reading or writing that costs more."""
    one, other = table.loc[name], table.loc[than]
    times, reading = one["query"] / other["query"], one["read"] - other["read"]
    by = "reading" if reading >= one["query"] - other["query"] - reading else "writing"
    if times >= 1.05:
        return f"{times:,.1f} times as dear, by {by}"
    return f"{100 * (times - 1):.1g} % dearer, by {by}" if times > 1.0001 else "just as dear"


def runner_up(table):
    """The second cheapest memory that can answer; None if there is none."""
    rivals = table.loc[table["can"] & ~table["cheapest"], "query"]
    return None if rivals.empty else rivals.idxmin()


def ruled_out(table):
    """Memories that cannot answer, and would else have decided: those that cost less per query, or all where only one is left.

    Returns
    -------
    dict
        Reason -> names.
    """
    alone, best, out = runner_up(table) is None, table.loc[table["cheapest"], "query"].min(), {}
    for name, query, can, why in table[["query", "can", "reason"]].itertuples():
        if not can and (alone or query < best):
            out.setdefault(why, []).append(name)
    return out


def what_decided(table):
    """What made the cheapest memory the choice: the next one's price, and who costs less but cannot answer, and why."""
    second, best = runner_up(table), table.index[table["cheapest"]]
    out = "; ".join(f"{' / '.join(names)} ({why})" for why, names in ruled_out(table).items())
    if second is None:
        return f"nothing {'else ' if len(best) else ''}can answer: {out}"
    return f"next: {second}, {dearer(table, second, best[0])}" + (f"; cheaper, but cannot answer: {out}" if out else "")


# --- the panel's study --------------------------------------------------------------------------------------------

READS = np.unique(np.round(np.logspace(0, 6, 61)).astype(int))


@dataclass(frozen=True)
class Choice:
    """A workload and its prices.

    table : DataFrame, as `price`.  curves : DataFrame, index reads (of one user, per write), a column per memory: GPU seconds per query.
    workload : Workload.
    """

    table: pd.DataFrame
    curves: pd.DataFrame
    workload: Workload

    def __repr__(self):
        w, price = self.workload, self.table["query"].get(self.best, np.nan)
        chosen = f"{self.best}, {price:.4g} GPU s per query" if self.best else "nothing can answer"
        return f"Choice({w.kind}, {w.tokens:,.0f} tokens, {w.reads:,g} reads per write: {chosen})"

    @property
    def best(self):
        """The cheapest that can answer; None if nothing can."""
        return next(iter(self.table.index[self.table["cheapest"]]), None)

    def cheaper_from(self, memory, than):
        """Reads per write (of one user) from which one memory costs less than another: `kv_cost.break_even_queries` of their prices."""
        one, other = self.table.loc[memory], self.table.loc[than]
        queries = break_even_queries(max(one["write"] - other["write"], 0.0), other["read"], one["read"])
        return queries / (self.workload.users if self.workload.shared else 1)

    def cheapest_between(self):
        """Whole reads per write (of one user) from and to which a memory is the cheapest that can answer: where the lines cross.

        A rival that costs more to read sets the lower end, one that costs less to read the upper: (write - its write) / (its read - read).

        Returns
        -------
        DataFrame
            Index memory, columns least and most (inf: no end); only memories that are the cheapest somewhere.
        """
        able = self.table[self.table["can"]]
        read, write = able["read"].to_numpy(), able["write"].to_numpy() / (self.workload.users if self.workload.shared else 1)
        less = np.subtract.outer(-read, -read)  # [memory, rival]: what the memory saves at each read
        with np.errstate(divide="ignore", invalid="ignore"):
            crossing = np.nan_to_num(np.subtract.outer(write, write) / less, nan=0.0, posinf=np.inf, neginf=-np.inf)
        ends = pd.DataFrame({"least": np.ceil(np.where(less >= 0, crossing, 1).max(axis=1, initial=1)),
                             "most": np.floor(np.where(less < 0, crossing, np.inf).min(axis=1, initial=np.inf))}, able.index)
        return ends[ends["least"] <= ends["most"]]


def choose(kind="documents", reads=200, tokens=128_000, users=1_000, updates=1.0, new=1.0, window=128_270, shared=False,
           lookup=False, history=True, accuracy=0.70, model=MODEL, gpu=GPU) -> Choice:
    """Price every memory for a workload (fields of `Workload`), and over all numbers of reads per write.

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
        A row per case: memory, query (GPU s), next (the second cheapest), times (its price / the cheapest one's), reason.
        Where nothing can answer memory is "none", where only one can next is.
    """
    if not isinstance(cases, dict):
        raise ValueError(f"guide: cases must be a dict, name -> Workload; got {cases!r}")
    rows = {}
    for case, workload in cases.items():
        table = price(workload)
        best, second = next(iter(table.index[table["cheapest"]]), None), runner_up(table)
        cost = table["query"].reindex([best, second]).to_numpy()
        reason = table["reason"].get(best, "nothing can answer").removeprefix("cheapest: ")
        rows[case] = best or "none", cost[0], second or "none", cost[1] / cost[0], reason
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
