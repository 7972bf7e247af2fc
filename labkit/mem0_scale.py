"""What grows in the mem0 notebook: the length of a conversation, and how often it is asked (L14, sections 3.3 and 6.2, exercise 2)."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from labkit.kv_cost import Roofline
from labkit.mem0_studies import COUNT, MODEL, costs, listed, scores
from labkit.memory_systems import UPDATE_PROMPT, AddOnly, FullContext, Mem0, Mem0Graph, MemGptStyle, Rag, break_even_questions, length_study

# -- panel 5: length ------------------------------------------------------------------------------------------------

TURNS = (600, 1_200, 2_400, 4_800)
WINDOWS, RAG_KS = (16_000, 32_000, 64_000, 128_000, 256_000), (16, 32, 64, 128)
CAPACITIES = {"30 facts": 30, "10 facts": 10, "no limit": None}  # of MemGPT-style working context
MEASURES = {"accuracy": "accuracy", "tokens read for a question": "tokens", "calls of the model to write": "write_calls"}


@dataclass(frozen=True)
class Lengths:
    """A measure by turns (index) and system (columns); `measure` is a column of `evaluate`."""

    table: pd.DataFrame
    measure: str
    kind: str

    def __repr__(self):
        first, last = self.table.index[[0, -1]]
        ends = listed(self.table.loc[last], "{:.3f}" if self.measure == "accuracy" else "{:,.0f}")
        return f"Lengths({self.measure}, {self.kind} questions, {first:,} to {last:,} turns; at {last:,}: {ends})"


def lengths(kind="all", measure="accuracy", window=64_000, capacity="30 facts", rag_k=16, old_versions_compete=False) -> Lengths:
    """How the systems fare as a conversation grows; all is computed once, a choice only picks lines.

    Parameters
    ----------
    kind : of question, or "all".
    measure : a key of `MEASURES`.
    window : tokens that the full context may hold.  capacity : a key of `CAPACITIES`.
    rag_k : chunks of 128 tokens that RAG reads.  old_versions_compete : mem0 graph ranks valid and invalid memories together.
    """
    table = length_results()
    table = table[table.kind == kind].pivot(index="turns", columns="system", values=MEASURES[measure])
    chosen = {"full context": ("full", window), "RAG": ("rag", rag_k), "MemGPT style": ("memgpt", capacity), "mem0": ("mem0",),
              "mem0 graph": ("graph", old_versions_compete), "add-only": ("add",)}
    return Lengths(pd.DataFrame({name: table[_tag(*tag)] for name, tag in chosen.items()}), MEASURES[measure], kind)


def _tag(*parts):
    return " ".join(map(str, parts))


def length_results():
    """The length study over every system a choice of `lengths` may name: 30 conversations a length, one accuracy good to about 0.04."""
    systems = {_tag("full", window): FullContext(window) for window in WINDOWS}
    systems |= {_tag("rag", k): Rag(128, k) for k in RAG_KS} | {_tag("memgpt", name): MemGptStyle(capacity=c) for name, c in CAPACITIES.items()}
    systems |= {_tag("graph", compete): Mem0Graph(old_versions_compete=compete) for compete in (False, True)}
    return length_study(TURNS, COUNT, systems=systems | {"mem0": Mem0(), "add": AddOnly()})


def fall(system):
    """Accuracy lost from 600 to 4,800 turns, a column of the default `lengths`."""
    table = lengths().table
    return float(table[system].iloc[0] - table[system].iloc[-1])


# -- panel 6: reads per write ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Budget:
    """What a conversation costs by how often it is asked.

    curves : DataFrame, index questions, a column a system.  unit : "GPU seconds" or "tokens of prefill".  questions : as
    chosen.  table : a row a system: accuracy, once, a_question, total, kv_gb (GB of KV while answering), cheaper_from and
    cheaper_to (for how many questions it costs less than the full context), allowed (is its accuracy high enough?).
    where : model and GPU.
    """

    curves: pd.DataFrame
    unit: str
    questions: int
    table: pd.DataFrame
    where: str

    def __repr__(self):
        return f"Budget({self.questions:,} questions, {self.unit}: {listed(self.table.total, '{:,.1f}')})"


READ_WRITE_SYSTEMS = {"full context": FullContext(), "RAG 128 x 16": Rag(128, 16), "MemGPT style": MemGptStyle(), "mem0": Mem0(),
                      "mem0 graph": Mem0Graph(), "add-only": AddOnly()}
UNITS = ("GPU seconds", "tokens of prefill")
ASKED = np.unique(np.round(np.logspace(0, 4, 41)).astype(int))


def read_write_budget(questions=100, prefix_cached=False, unit="GPU seconds", at_least=0.0, graph_calls=False, model=MODEL,
                    gpu="H100 SXM") -> Budget:
    """Where each system is cheapest: cost(n) = writing + n x answering, with and without a prefix cache.

    Parameters
    ----------
    questions : put to one conversation of 600 turns.
    prefix_cached : what stays the same between questions is computed once (the whole of a full context).
    unit : one of `UNITS`.
    at_least : accuracy below which a system does not count as a choice.
    graph_calls : add the extra calls of mem0 graph's write path, which are an assumption.
    model, gpu : names of `kv_cost`; what does not fit into the memory of the GPU costs inf GPU seconds.
    """
    if unit not in UNITS:
        raise ValueError(f"unit={unit!r} is unknown; choose one of: {', '.join(UNITS)}")
    results = scores(READ_WRITE_SYSTEMS)
    rows, price = results[results.kind == "all"].set_index("system"), costs(results, Roofline(model, gpu), prefix_cached)
    once, again = price.write_seconds + graph_calls * price.extra_seconds, price.read_seconds
    if unit != "GPU seconds":
        kept = rows.prefix_tokens * prefix_cached
        once, again = rows.write_prefill + kept + graph_calls * rows.extra_calls_assumed * UPDATE_PROMPT, rows.calls * rows.tokens
        again = rows.tokens - kept if prefix_cached else again
    table = pd.DataFrame({"accuracy": rows.accuracy, "once": once, "a_question": again, "total": once + questions * again, "kv_gb": price.kv_gb})
    full = once["full context"], again["full context"]
    table[["cheaper_from", "cheaper_to"]] = [cheaper_range(*own, *full) for own in zip(once, again)]
    table["allowed"] = table.accuracy >= at_least
    curves = pd.DataFrame(once.to_numpy() + np.outer(ASKED, again), index=ASKED, columns=table.index)
    return Budget(curves, unit, questions, table, f"{model} on one {gpu}")


def cheaper_range(once, again, other_once, other_again):
    """Questions n with once + n x again < other_once + n x other_again, as (from, to); (inf, inf) if there are none."""
    if not np.isfinite(once + again):
        return np.inf, np.inf
    if not np.isfinite(other_once + other_again):
        return 0.0, np.inf
    if again < other_again:
        return break_even_questions(max(once - other_once, 0), other_again, again), np.inf
    if once < other_once:
        return 0.0, break_even_questions(other_once - once, again, other_again)
    return np.inf, np.inf
