"""The what-if studies of the mem0 notebook: six memories against each other, RAG's chunks, errors when writing.

What grows (the conversation, the number of questions) is in :mod:`labkit.mem0_scale`.

Each function takes what a student can move and returns one frozen result.  A system with its settings is put to the same
conversations only once (`scores` keeps the result), so a slider costs what it changes and nothing else.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pandas as pd

from labkit import reference
from labkit.conversation import QUESTION_KINDS, Conversation
from labkit.kv_cost import Model
from labkit.memory_systems import AddOnly, FullContext, Mem0, Mem0Graph, MemGptStyle, Rag, evaluate, gpu_seconds

KINDS = ("all", *QUESTION_KINDS)
COUNT = 30  # conversations of a panel: 1,153 questions; a run of 10 scatters by 0.02 to 0.03 (sd), so 30 by 0.01 to 0.02
NO_ERRORS = {"recall": 1.0, "known_mistake": 0.0, "conflict_missed": 0.0}
CHUNKS, KS = tuple(2**i for i in range(6, 14)), tuple(2**i for i in range(7))  # 64 to 8,192 tokens, 1 to 64 chunks
MODEL = "Llama-3-8B"


@lru_cache(maxsize=128)
def _world(seed):
    return Conversation.generate(seed)


def _worlds(count):
    return [_world(seed) for seed in range(count)]


@lru_cache(maxsize=512)
def _score(system, count):
    return evaluate({"": system}, _worlds(count))


def scores(systems, count=COUNT):
    """`evaluate` on the first `count` conversations, each system remembered.

    Parameters
    ----------
    systems : mapping of str to system
    count : conversations, seeds 0, 1, ...
    """
    return pd.concat([_score(system, count).assign(system=name) for name, system in systems.items()], ignore_index=True)


def accuracy(results):
    """Accuracy as a table: a row a system, a column a kind of question."""
    return results.pivot(index="system", columns="kind", values="accuracy")[list(KINDS)].reindex(results.system.unique())


def listed(numbers, digits="{:.3f}"):
    """A Series in a line of text: "mem0 0.873, mem0 graph 0.873"."""
    return ", ".join(f"{name} {digits.format(value)}" for name, value in numbers.items())


# -- panel 2: six memories ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """Six systems on the same questions.

    accuracy : DataFrame, a row a system, a column a kind of question that is shown.
    costs : DataFrame, a row a system: tokens and calls (a question), write_calls, extra_calls (assumed), write_seconds and
    read_seconds (GPU seconds, a conversation and a question), kv_gb (GB of KV while answering).
    questions : how many were asked.
    """

    accuracy: pd.DataFrame
    costs: pd.DataFrame
    questions: int

    def __repr__(self):
        shown = self.accuracy.iloc[:, 0]
        return f"Comparison({self.questions:,} questions, {shown.name}: {listed(shown)})"


SHOWN = {"current values": ["current"], "all kinds": list(KINDS)}


def compare(questions="current values", k=10, s=10, capacity=30, queue=6_000, page=8, conversations=COUNT) -> Comparison:
    """Accuracy of six memories by kind of question, and what they cost.

    Parameters
    ----------
    questions : a key of `SHOWN`; the costs are those of all questions.
    k : memories that mem0, its graph and add-only read for a question.
    s : similar memories that mem0 sees when it writes.
    capacity, queue, page : facts in MemGPT-style working context, tokens of its queue, messages of a search.
    conversations : how many are played, seeds from 0.
    """
    if questions not in SHOWN:
        raise ValueError(f"questions={questions!r} is unknown; choose one of: {', '.join(SHOWN)}")
    systems = {"full context": FullContext(), "RAG 512 x 4": Rag(), "MemGPT style": MemGptStyle(queue=queue, capacity=capacity, page=page),
               "mem0": Mem0(k=k, s=s), "mem0 graph": Mem0Graph(k=k, s=s), "add-only": AddOnly(k=k)}
    results = scores(systems, conversations)
    return Comparison(accuracy(results)[SHOWN[questions]], costs(results), round(conversations * results.questions.iloc[-1]))


def doubling(count=COUNT):
    """What MemGPT style gains if one of its numbers is doubled: a row each of queue, capacity, page; columns accuracy, tokens."""
    base = MemGptStyle()
    larger = {name: replace(base, **{name: 2 * getattr(base, name)}) for name in ("queue", "capacity", "page")}
    rows = scores({"as it is": base} | larger, count).query("kind == 'all'").set_index("system")[["accuracy", "tokens"]]
    return rows.loc[list(larger)] - rows.loc["as it is"]


def costs(results, roofline=None, prefix_cached=True):
    """What the systems of `evaluate` cost: the columns of `Comparison.costs`."""
    rows = results[results.kind == "all"].set_index("system")
    seconds = gpu_seconds(results, roofline, prefix_cached).set_index("system")
    kv = (roofline.model if roofline else Model.load(MODEL)).kv_bytes_per_token()
    return pd.DataFrame({
        "tokens": rows.tokens, "calls": rows.calls, "write_calls": rows.write_calls, "extra_calls": rows.extra_calls_assumed,
        "write_seconds": seconds.once, "read_seconds": seconds.a_question, "extra_seconds": seconds.extra_assumed, "kv_gb": rows.tokens * kv / 1e9})


# -- panel 3: RAG ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RagStudy:
    """RAG with chunks of all sizes.

    grid : DataFrame, a row a (chunk, k): accuracy, tokens.  chunk, k : as chosen.  outcomes : DataFrame, a row a kind of
    question, columns right, stale (an old value was found), missing.  budget : accuracy by chunk size at chunk x k tokens.
    same_k : accuracy by chunk size at the chosen k.  paper : J / 100 by chunk size, a column each of k = 1 and 2.
    graph : (tokens, accuracy) of mem0 graph.  kind : of question, in all but outcomes.  others : show the other chunk sizes too?
    """

    grid: pd.DataFrame
    chunk: int
    k: int
    outcomes: pd.DataFrame
    budget: pd.Series
    same_k: pd.Series
    paper: pd.DataFrame
    graph: tuple[float, float]
    kind: str
    others: bool

    def __repr__(self):
        at = self.grid.loc[(self.chunk, self.k)]
        return f"RagStudy({self.chunk} x {self.k}, {self.kind} questions: accuracy {at.accuracy:.3f}, {at.tokens:,.0f} tokens a question)"


def rag_budget(chunk=512, k=4, kind="all", others=True) -> RagStudy:
    """RAG at `chunk` x `k` beside all other ways to spend as many tokens.

    Parameters
    ----------
    chunk : tokens, a power of two from 64 to 8,192.
    k : chunks read, a power of two up to 64.
    kind : of question, or "all".
    others : False = a picture without the other chunk sizes, for those who want to predict them.
    """
    for name, value, allowed in (("chunk", chunk, CHUNKS), ("k", k, KS), ("kind", kind, KINDS)):
        if value not in allowed:
            raise ValueError(f"{name}={value!r} is unknown; choose one of: {', '.join(map(str, allowed))}")
    grid, paper = _rag_grid(kind), _paper_rag()
    graph = _score(Mem0Graph(), COUNT).set_index("kind").loc[kind]
    budget = {size: grid.accuracy[size, chunk * k // size] for size in CHUNKS if chunk * k // size in KS}
    return RagStudy(grid, chunk, k, _outcomes(Rag(chunk, k), COUNT), pd.Series(budget), grid.accuracy.xs(k, level="k"), paper,
                    (graph.tokens, graph.accuracy), kind, others)


@lru_cache(maxsize=8)
def _rag_grid(kind):
    table = pd.concat([_score(Rag(chunk, k), COUNT).assign(chunk=chunk, k=k) for chunk in CHUNKS for k in KS])
    return table[table.kind == kind].set_index(["chunk", "k"])[["accuracy", "tokens"]]


@lru_cache(maxsize=1)
def _paper_rag():
    rows = reference.paper_results("mem0")
    rows = rows[rows.method.str.startswith("RAG") & (rows.metric == "overall J")]
    named = rows.method.str.extract(r"k=(\d+) chunk (\d+)").astype(int)
    return rows.assign(k=named[0], chunk=named[1]).pivot(index="chunk", columns="k", values="value") / 100


@lru_cache(maxsize=64)
def _outcomes(system, count):
    """Shares of right, stale and missing by kind of question."""
    tables = [system.build(world).answer() for world in _worlds(count)]
    kind, outcome = (np.concatenate([table[column].to_numpy() for table in tables]) for column in ("kind", "outcome"))
    asked = {name: (kind == name) | (name == "all") for name in KINDS}
    return pd.DataFrame({what: {name: (outcome[rows] == what).mean() for name, rows in asked.items()} for what in ("right", "stale", "missing")})


# -- panel 4: errors when writing -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class WriteErrors:
    """What errors of the model that writes cost, one at a time and together.

    alone : DataFrame, index probability 0..1, a column an error (recall: 1 - probability): accuracy of mem0 graph.
    alpha : Series, accuracy of the full context by alpha.  at : the chosen probability and accuracy of each error alone.
    full : (alpha, accuracy) as chosen.  together : accuracy table of mem0, mem0 graph and add-only with all three errors.
    """

    alone: pd.DataFrame
    alpha: pd.Series
    at: dict[str, tuple[float, float]]
    full: tuple[float, float]
    together: pd.DataFrame

    def __repr__(self):
        return f"WriteErrors(alpha {self.full[0]:g}, all errors together: {listed(self.together['all'])})"


ERRORS = {  # what is wrong -> setting of the system for a probability
    "a fact is not extracted": lambda p: {"recall": round(1 - p, 10)},
    "a change is taken for known": lambda p: {"known_mistake": p},
    "a conflict is missed": lambda p: {"conflict_missed": p},
}


def write_errors(recall=0.90, known_mistake=0.15, conflict_missed=0.01, alpha=0.0, conversations=COUNT) -> WriteErrors:
    """mem0 with errors of the model that writes, and a full context whose reader overlooks the middle.

    Parameters
    ----------
    recall : share of the statements that are extracted.
    known_mistake : probability that a changed value is taken for a known one.
    conflict_missed : probability that the old value is not noticed.
    alpha : how easily the full context's middle is overlooked; an assumption.
    conversations : how many are played.
    """
    errors = {"recall": recall, "known_mistake": known_mistake, "conflict_missed": conflict_missed}
    chosen = dict(zip(ERRORS, (round(1 - recall, 10), known_mistake, conflict_missed)))
    together = scores({"mem0": Mem0(**errors), "mem0 graph": Mem0Graph(**errors), "add-only": AddOnly(recall=recall),
                       "full context": FullContext(alpha=alpha)}, conversations)
    at = {name: (p, _graph_alone(name, p, conversations)) for name, p in chosen.items()}
    table = accuracy(together)
    return WriteErrors(*_error_curves(conversations), at, (alpha, table["all"]["full context"]), table)


def _graph_alone(name, probability, count):
    return _score(Mem0Graph(**NO_ERRORS | ERRORS[name](probability)), count).accuracy.iloc[-1]


@lru_cache(maxsize=8)
def _error_curves(count):
    steps = np.round(np.linspace(0, 1, 11), 10)
    alone = pd.DataFrame({name: [_graph_alone(name, p, count) for p in steps] for name in ERRORS}, index=steps)
    alphas = np.round(np.linspace(0, 1.5, 16), 10)
    return alone, pd.Series([_score(FullContext(alpha=a), count).accuracy.iloc[-1] for a in alphas], index=alphas)


# -- the figures of the lecture notes -------------------------------------------------------------------------------

LECTURE_SYSTEMS = {  # L14, section 3.3, demos 1 to 3; in demo 3 one part errs at a time
    "full": FullContext(), "memgpt": MemGptStyle(), "mem0": Mem0(), "vector": Mem0Graph(graph=False), "graph": Mem0Graph(), "add": AddOnly(),
    **{f"rag {chunk} x {k}": Rag(chunk, k) for chunk, k in ((128, 16), (256, 8), (512, 4), (1_024, 2), (2_048, 1))},
    "perfect": Mem0Graph(**NO_ERRORS), "recall 0.7": Mem0Graph(**NO_ERRORS | {"recall": 0.7}),
    "mistake 0.6": Mem0Graph(**NO_ERRORS | {"known_mistake": 0.6}), "alpha 0.5": FullContext(alpha=0.5), "alpha 1": FullContext(alpha=1.0),
}


@lru_cache(maxsize=1)
def _lecture_run():
    return scores(LECTURE_SYSTEMS, 100).set_index(["system", "kind"])


def lecture(system, kind="all", column="accuracy"):
    """A figure of demos 1 to 3 over 100 conversations, ten times as many as in the notes; computed once.

    Parameters
    ----------
    system : a key of `LECTURE_SYSTEMS`.
    kind : "all", "current", "previous" or "two-hop".
    column : of `evaluate`.
    """
    return float(_lecture_run().at[(system, kind), column])
